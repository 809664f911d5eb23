//! State of one turn, built from the notifications of `app-server`. This module does no I/O.

use std::collections::HashMap;

use segue_core::session::{AgentEvent, PlanStatus, PlanStep, StopReason, ToolCall, TurnEnd};
use serde_json::Value;

use crate::classify::Refusal;
use crate::codex::usage::{Fill, Meter, Total};
use crate::codex::{failure, items};

/// Event that a notification contains.
#[derive(Debug, PartialEq)]
pub(super) enum Told {
    /// Output of the agent.
    Event(AgentEvent),
    /// End of the turn.
    Over(Result<TurnEnd, Refusal>),
}

/// State of the thread and of its current turn.
#[derive(Debug)]
pub(super) struct Turn {
    thread: String,
    /// Codex's id of the turn; `None` until Codex reports it.
    id: Option<String>,
    meter: Meter,
    /// Text streamed so far, by item id.
    streamed: HashMap<String, String>,
    /// Item id of the message that is being streamed; `None` if other output followed it.
    speaking: Option<String>,
    /// Tool calls that have not ended, by item id.
    open: HashMap<String, ToolCall>,
    compacted: bool,
    /// Rate limits of the account, as last reported.
    limits: Value,
}

impl Turn {
    pub(super) fn new(thread: String, meter: Meter) -> Self {
        Self {
            thread,
            id: None,
            meter,
            streamed: HashMap::new(),
            speaking: None,
            open: HashMap::new(),
            compacted: false,
            limits: Value::Null,
        }
    }

    /// Resets the state for a new prompt.
    pub(super) fn begin(&mut self) {
        self.id = None;
        self.meter.begin();
        self.streamed.clear();
        self.speaking = None;
        self.open.clear();
        self.compacted = false;
    }

    /// Sets the turn id that Codex reported, unless it is already set.
    pub(super) fn named(&mut self, id: &str) {
        self.id.get_or_insert_with(|| id.to_owned());
    }

    /// Returns Codex's id of the thread.
    pub(super) fn thread(&self) -> &str {
        &self.thread
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub(super) fn limits(&self) -> &Value {
        &self.limits
    }

    /// Returns an open tool call that satisfies `wanted`.
    pub(super) fn open(&self, wanted: &dyn Fn(&ToolCall) -> bool) -> Option<&ToolCall> {
        self.open.values().find(|call| wanted(call))
    }

    /// Converts a notification to events.
    pub(super) fn told(&mut self, method: &str, params: &Value) -> Vec<Told> {
        if method == "account/rateLimits/updated" {
            self.limits = params["rateLimits"].clone();
            return Vec::new();
        }
        // Agents that Codex starts have threads of their own.
        if params["threadId"]
            .as_str()
            .is_some_and(|thread| thread != self.thread)
        {
            return Vec::new();
        }
        let turn = params["turnId"].as_str().or(params["turn"]["id"].as_str());
        if method == "turn/started" {
            if let Some(id) = turn {
                self.named(id);
            }
            return Vec::new();
        }
        let ours = turn.is_none() || turn == self.id();
        if !ours {
            // After `thread/resume`, Codex reports the total so far under the id of an earlier turn.
            if let ("thread/tokenUsage/updated", Some(total)) =
                (method, Total::camel(&params["tokenUsage"]["total"]))
            {
                self.meter.stands_at(total);
            }
            return Vec::new();
        }
        match method {
            "turn/completed" => vec![Told::Over(self.end(&params["turn"]))],
            _ => self
                .event(method, params)
                .into_iter()
                .map(Told::Event)
                .collect(),
        }
    }

    fn event(&mut self, method: &str, params: &Value) -> Option<AgentEvent> {
        let delta = || params["delta"].as_str().unwrap_or_default();
        let item = || params["itemId"].as_str().unwrap_or_default();
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => self.says(item(), delta()),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.thinks(item(), delta())
            }
            "item/reasoning/summaryPartAdded" => {
                let first = params["summaryIndex"].as_u64().unwrap_or_default() == 0;
                (!first).then(|| AgentEvent::Thought("\n\n".to_owned()))
            }
            "item/started" => self.item(&params["item"], false),
            "item/completed" => self.item(&params["item"], true),
            "thread/tokenUsage/updated" => self.used(&params["tokenUsage"]),
            "turn/plan/updated" => Some(AgentEvent::Plan(plan(&params["plan"]))),
            "thread/name/updated" => {
                let name = params["threadName"].as_str()?;
                Some(AgentEvent::Title(name.to_owned()))
            }
            "thread/compacted" => self.compacts(),
            _ if is_boring(method) => None,
            _ => {
                let all = serde_json::json!({"method": method, "params": params});
                Some(AgentEvent::Unknown(all.into()))
            }
        }
    }

    /// Converts a chunk of a message. Starts a new paragraph if the previous chunk belongs to another message.
    fn says(&mut self, item: &str, words: &str) -> Option<AgentEvent> {
        if words.is_empty() {
            return None;
        }
        self.streamed
            .entry(item.to_owned())
            .or_default()
            .push_str(words);
        let other = self
            .speaking
            .replace(item.to_owned())
            .is_some_and(|before| before != item);
        let break_ = if other { "\n\n" } else { "" };
        Some(AgentEvent::Text(format!("{break_}{words}")))
    }

    fn thinks(&mut self, item: &str, words: &str) -> Option<AgentEvent> {
        if words.is_empty() {
            return None;
        }
        self.streamed
            .entry(item.to_owned())
            .or_default()
            .push_str(words);
        self.speaking = None;
        Some(AgentEvent::Thought(words.to_owned()))
    }

    fn item(&mut self, item: &Value, over: bool) -> Option<AgentEvent> {
        let id = item["id"].as_str().unwrap_or_default();
        if let Some(call) = items::tool(item, over) {
            self.speaking = None;
            if over {
                self.open.remove(id);
            } else {
                self.open.insert(id.to_owned(), call.clone());
            }
            return Some(AgentEvent::Tool(call));
        }
        if !over {
            return None;
        }
        match items::kind(item) {
            "agentMessage" | "plan" => {
                let text = item["text"].as_str().unwrap_or_default();
                let streamed = self.streamed.get(id).map_or("", String::as_str);
                let rest = text.strip_prefix(streamed)?.to_owned();
                self.says(id, &rest)
            }
            "reasoning" if !self.streamed.contains_key(id) => {
                let parts = ["summary", "content"].map(|name| texts(&item[name]));
                let text = parts.into_iter().find(|text| !text.is_empty())?;
                self.thinks(id, &text)
            }
            "contextCompaction" => self.compacts(),
            "reasoning" | "userMessage" | "hookPrompt" | "functionCallOutput"
            | "subAgentActivity" | "sleep" | "enteredReviewMode" | "exitedReviewMode" => None,
            _ => Some(AgentEvent::Unknown(item.clone().into())),
        }
    }

    fn compacts(&mut self) -> Option<AgentEvent> {
        let again = std::mem::replace(&mut self.compacted, true);
        (!again).then_some(AgentEvent::Compacted)
    }

    fn used(&mut self, usage: &Value) -> Option<AgentEvent> {
        let total = Total::camel(&usage["total"])?;
        let fill = Fill {
            tokens: usage["last"]["totalTokens"].as_u64(),
            window: usage["modelContextWindow"].as_u64(),
        };
        self.meter.told(total, Total::camel(&usage["last"]), fill);
        Some(AgentEvent::Usage(self.meter.usage()))
    }

    fn end(&self, turn: &Value) -> Result<TurnEnd, Refusal> {
        let reason = match turn["status"].as_str() {
            Some("completed") => StopReason::EndTurn,
            Some("interrupted") => StopReason::Cancelled,
            Some(_) | None => return Err(failure::refusal(&turn["error"])),
        };
        Ok(TurnEnd {
            reason,
            usage: self.meter.usage(),
        })
    }
}

fn texts(parts: &Value) -> String {
    let parts = parts.as_array().into_iter().flatten();
    let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
    parts.join("\n\n")
}

fn plan(steps: &Value) -> Vec<PlanStep> {
    let steps = steps.as_array().into_iter().flatten();
    steps
        .filter_map(|step| {
            Some(PlanStep {
                text: step["step"].as_str()?.to_owned(),
                status: match step["status"].as_str() {
                    Some("completed") => PlanStatus::Completed,
                    Some("inProgress") => PlanStatus::InProgress,
                    Some(_) | None => PlanStatus::Pending,
                },
            })
        })
        .collect()
}

/// Returns `true` if a notification is irrelevant: a state of Codex itself, progress of an item that a later
/// notification contains in full, or a problem that does not end the turn (`error`, because the end of a failed turn
/// repeats it).
fn is_boring(method: &str) -> bool {
    const METHODS: &[&str] = &[
        "error",
        "warning",
        "guardianWarning",
        "deprecationNotice",
        "configWarning",
        "serverRequest/resolved",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "model/rerouted",
        "model/verification",
    ];
    const FAMILIES: &[&str] = &[
        "account/",
        "app/",
        "autoApprovalReview/",
        "command/",
        "externalAgentConfig/",
        "fs/",
        "fuzzyFileSearch/",
        "hook/",
        "item/",
        "mcpServer/",
        "model/",
        "modelProvider/",
        "process/",
        "project/",
        "rawResponse",
        "remoteControl/",
        "skills/",
        "thread/",
        "windows",
    ];
    METHODS.contains(&method) || FAMILIES.iter().any(|family| method.starts_with(family))
}

#[cfg(test)]
mod tests;
