//! State of one turn, built from the notifications of `app-server`. This module does no I/O.

use std::collections::HashMap;

use segue_core::session::{AgentEvent, StopReason, ToolCall, TurnEnd};
use serde_json::Value;

use crate::codex::usage::{CodexTokenCounts, CodexUsageMeter, ContextFill};
use crate::codex::{failure, items};
use crate::error_class::AgentRefusal;
use crate::wire::parse_plan_steps;

/// Event that a notification contains.
#[derive(Debug, PartialEq)]
pub(super) enum AppServerUpdate {
    /// Output of the agent.
    Event(AgentEvent),
    /// End of the turn.
    TurnEnded(Result<TurnEnd, AgentRefusal>),
}

/// State of the thread and of its current turn.
#[derive(Debug)]
pub(super) struct CodexTurn {
    thread_id: String,
    /// Codex's id of the turn; `None` until Codex reports it.
    turn_id: Option<String>,
    meter: CodexUsageMeter,
    /// Text streamed so far, by item id.
    streamed_text: HashMap<String, String>,
    /// Item id of the message that is being streamed; `None` if other output followed it.
    current_message_id: Option<String>,
    /// Tool calls that have not ended, by item id.
    open_calls: HashMap<String, ToolCall>,
    compacted: bool,
    /// Rate limits of the account, as last reported.
    rate_limits: Value,
}

impl CodexTurn {
    pub(super) fn new(thread_id: String, meter: CodexUsageMeter) -> Self {
        Self {
            thread_id,
            turn_id: None,
            meter,
            streamed_text: HashMap::new(),
            current_message_id: None,
            open_calls: HashMap::new(),
            compacted: false,
            rate_limits: Value::Null,
        }
    }

    /// Resets the state for a new prompt.
    pub(super) fn begin(&mut self) {
        self.turn_id = None;
        self.meter.begin_turn();
        self.streamed_text.clear();
        self.current_message_id = None;
        self.open_calls.clear();
        self.compacted = false;
    }

    /// Sets the turn id that Codex reported, unless it is already set.
    pub(super) fn set_turn_id(&mut self, id: &str) {
        self.turn_id.get_or_insert_with(|| id.to_owned());
    }

    /// Returns Codex's id of the thread.
    pub(super) fn thread_id(&self) -> &str {
        &self.thread_id
    }

    pub(super) fn turn_id(&self) -> Option<&str> {
        self.turn_id.as_deref()
    }

    pub(super) fn rate_limits(&self) -> &Value {
        &self.rate_limits
    }

    /// Returns an open tool call that satisfies `predicate`.
    pub(super) fn find_open_call(
        &self,
        predicate: &dyn Fn(&ToolCall) -> bool,
    ) -> Option<&ToolCall> {
        self.open_calls.values().find(|call| predicate(call))
    }

    /// Converts a notification to events.
    pub(super) fn convert_notification(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Vec<AppServerUpdate> {
        if method == "account/rateLimits/updated" {
            self.rate_limits = params["rateLimits"].clone();
            return Vec::new();
        }
        // Agents that Codex starts have threads of their own.
        if params["threadId"]
            .as_str()
            .is_some_and(|thread| thread != self.thread_id)
        {
            return Vec::new();
        }
        let turn_id = params["turnId"].as_str().or(params["turn"]["id"].as_str());
        if method == "turn/started" {
            if let Some(id) = turn_id {
                self.set_turn_id(id);
            }
            return Vec::new();
        }
        let is_current = turn_id.is_none() || turn_id == self.turn_id();
        if !is_current {
            // After `thread/resume`, Codex reports the total so far under the id of an earlier turn.
            if let ("thread/tokenUsage/updated", Some(total)) = (
                method,
                CodexTokenCounts::from_camel_case(&params["tokenUsage"]["total"]),
            ) {
                self.meter.set_initial_total(total);
            }
            return Vec::new();
        }
        match method {
            "turn/completed" => vec![AppServerUpdate::TurnEnded(self.parse_end(&params["turn"]))],
            _ => self
                .convert_event(method, params)
                .into_iter()
                .map(AppServerUpdate::Event)
                .collect(),
        }
    }

    fn convert_event(&mut self, method: &str, params: &Value) -> Option<AgentEvent> {
        let delta = || params["delta"].as_str().unwrap_or_default();
        let item_id = || params["itemId"].as_str().unwrap_or_default();
        match method {
            "item/agentMessage/delta" | "item/plan/delta" => {
                self.push_message_text(item_id(), delta())
            }
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                self.push_thought(item_id(), delta())
            }
            "item/reasoning/summaryPartAdded" => {
                let first = params["summaryIndex"].as_u64().unwrap_or_default() == 0;
                (!first).then(|| AgentEvent::Thought("\n\n".to_owned()))
            }
            "item/started" => self.convert_item(&params["item"], false),
            "item/completed" => self.convert_item(&params["item"], true),
            "thread/tokenUsage/updated" => self.record_usage(&params["tokenUsage"]),
            "turn/plan/updated" => {
                Some(AgentEvent::Plan(parse_plan_steps(&params["plan"], "step")))
            }
            "thread/name/updated" => {
                let name = params["threadName"].as_str()?;
                Some(AgentEvent::Title(name.to_owned()))
            }
            "thread/compacted" => self.record_compaction(),
            _ if is_ignored_notification(method) => None,
            _ => {
                let notification = serde_json::json!({"method": method, "params": params});
                Some(AgentEvent::Unknown(notification.into()))
            }
        }
    }

    /// Converts a chunk of a message. Starts a new paragraph if the previous chunk belongs to another message.
    fn push_message_text(&mut self, item_id: &str, text: &str) -> Option<AgentEvent> {
        if text.is_empty() {
            return None;
        }
        self.streamed_text
            .entry(item_id.to_owned())
            .or_default()
            .push_str(text);
        let is_new_message = self
            .current_message_id
            .replace(item_id.to_owned())
            .is_some_and(|before| before != item_id);
        let separator = if is_new_message { "\n\n" } else { "" };
        Some(AgentEvent::Text(format!("{separator}{text}")))
    }

    fn push_thought(&mut self, item_id: &str, text: &str) -> Option<AgentEvent> {
        if text.is_empty() {
            return None;
        }
        self.streamed_text
            .entry(item_id.to_owned())
            .or_default()
            .push_str(text);
        self.current_message_id = None;
        Some(AgentEvent::Thought(text.to_owned()))
    }

    fn convert_item(&mut self, item: &Value, is_completed: bool) -> Option<AgentEvent> {
        let id = item["id"].as_str().unwrap_or_default();
        if let Some(call) = items::parse_tool_call(item, is_completed) {
            self.current_message_id = None;
            if is_completed {
                self.open_calls.remove(id);
            } else {
                self.open_calls.insert(id.to_owned(), call.clone());
            }
            return Some(AgentEvent::Tool(call));
        }
        if !is_completed {
            return None;
        }
        match items::item_type(item) {
            "agentMessage" | "plan" => {
                let text = item["text"].as_str().unwrap_or_default();
                let streamed = self.streamed_text.get(id).map_or("", String::as_str);
                let remainder = text.strip_prefix(streamed)?.to_owned();
                self.push_message_text(id, &remainder)
            }
            "reasoning" if !self.streamed_text.contains_key(id) => {
                let parts = ["summary", "content"].map(|name| join_texts(&item[name]));
                let text = parts.into_iter().find(|text| !text.is_empty())?;
                self.push_thought(id, &text)
            }
            "contextCompaction" => self.record_compaction(),
            "reasoning" | "userMessage" | "hookPrompt" | "functionCallOutput"
            | "subAgentActivity" | "sleep" | "enteredReviewMode" | "exitedReviewMode" => None,
            _ => Some(AgentEvent::Unknown(item.clone().into())),
        }
    }

    fn record_compaction(&mut self) -> Option<AgentEvent> {
        let already_recorded = std::mem::replace(&mut self.compacted, true);
        (!already_recorded).then_some(AgentEvent::Compacted)
    }

    fn record_usage(&mut self, usage: &Value) -> Option<AgentEvent> {
        let total = CodexTokenCounts::from_camel_case(&usage["total"])?;
        let context = ContextFill {
            tokens: usage["last"]["totalTokens"].as_u64(),
            window: usage["modelContextWindow"].as_u64(),
        };
        self.meter.update_total(
            total,
            CodexTokenCounts::from_camel_case(&usage["last"]),
            context,
        );
        Some(AgentEvent::Usage(self.meter.turn_usage()))
    }

    fn parse_end(&self, turn: &Value) -> Result<TurnEnd, AgentRefusal> {
        let reason = match turn["status"].as_str() {
            Some("completed") => StopReason::EndTurn,
            Some("interrupted") => StopReason::Cancelled,
            Some(_) | None => return Err(failure::parse_refusal(&turn["error"])),
        };
        Ok(TurnEnd {
            reason,
            usage: self.meter.turn_usage(),
        })
    }
}

fn join_texts(parts: &Value) -> String {
    let parts = parts.as_array().into_iter().flatten();
    let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
    parts.join("\n\n")
}

/// Returns `true` if a notification is irrelevant: a state of Codex itself, progress of an item that a later
/// notification contains in full, or a problem that does not end the turn (`error`, because the end of a failed turn
/// repeats it).
fn is_ignored_notification(method: &str) -> bool {
    const IGNORED_METHODS: &[&str] = &[
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
    const IGNORED_PREFIXES: &[&str] = &[
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
    IGNORED_METHODS.contains(&method)
        || IGNORED_PREFIXES
            .iter()
            .any(|prefix| method.starts_with(prefix))
}

#[cfg(test)]
mod tests;
