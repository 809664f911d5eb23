//! State of one turn, built from Claude Code's output line by line.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{AgentEvent, StopReason, TurnEnd, Usage};
use serde_json::Value;

use super::ask::Asked;
use super::end::{self, Noted, Tokens};
use super::retold::Retold;
use super::tools::{self, Calls};
use crate::AgentError;

/// Event that a line contains.
#[derive(Debug)]
pub(super) enum Heard {
    /// Output of the agent.
    Event(AgentEvent),
    /// A permission request; Claude Code waits for the answer.
    Asked(Asked),
    /// A request that segue does not support; Claude Code waits for an answer.
    NotOffered { id: String, subtype: String },
    /// Id of the native session, which may differ from the previous one.
    Named(String),
    /// End of the turn.
    Over(Result<TurnEnd, AgentError>),
}

/// Acceptance of the prompt, as far as one line reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenUp {
    /// The line does not concern the prompt.
    NotTold,
    /// Claude Code has accepted the prompt.
    Told,
    /// Claude Code has accepted the prompt only now, after a stop request, which therefore stopped another turn.
    TooLate,
}

/// State of a turn.
#[derive(Debug)]
pub(super) struct Turn {
    /// Id of the prompt.
    prompt: String,
    /// Whether the current lines belong to the prompt. Claude Code also runs turns of its own when a background task
    /// ends, and the end of such a turn is not the end of this one.
    ours: bool,
    calls: Calls,
    message: Message,
    text: Speech,
    thought: Speech,
    noted: Noted,
}

/// Answer of the model that is being streamed.
#[derive(Debug, Default)]
struct Message {
    id: String,
    /// Whether the answer arrives in deltas rather than in complete blocks.
    streamed: bool,
    /// Whether the answer is complete.
    whole: bool,
    tokens: Tokens,
}

/// Output of one kind: text or thoughts.
#[derive(Debug, Default)]
struct Speech {
    /// Text of the current message.
    told: String,
    retold: Option<Retold>,
}

impl Speech {
    /// Starts a message. If the previous message is incomplete, the new one repeats it.
    fn begin(&mut self, was_whole: bool) {
        let told = std::mem::take(&mut self.told);
        self.retold = match self.retold.take() {
            _ if was_whole => None,
            // The repetition broke too, before it reached new text.
            Some(retold) => Some(retold.again()),
            None => Retold::new(told),
        };
    }

    /// Returns the new text in the next chunk.
    fn hear(&mut self, words: &str) -> String {
        self.told.push_str(words);
        match self.retold.take() {
            Some(retold) => {
                let (left, new) = retold.hear(words);
                self.retold = left;
                new
            }
            None => words.to_owned(),
        }
    }
}

impl Turn {
    /// Creates the turn of a prompt. `is_told` is `true` if Claude Code reports when it accepts the prompt; until it
    /// does, all lines belong to other turns.
    pub(super) fn new(prompt: String, is_told: bool) -> Self {
        Self {
            prompt,
            ours: !is_told,
            calls: Calls::default(),
            message: Message {
                whole: true,
                ..Message::default()
            },
            text: Speech::default(),
            thought: Speech::default(),
            noted: Noted::default(),
        }
    }

    /// Records that segue requested a stop.
    pub(super) fn cancel(&mut self) {
        self.noted.cancelled = true;
    }

    /// Checks whether a line reports that the prompt was accepted.
    pub(super) fn takes_up(&mut self, line: &Value) -> TakenUp {
        let id = match line["type"].as_str() {
            Some("user") if line["isReplay"] == true => &line["uuid"],
            Some("command_lifecycle") if line["state"] == "started" => &line["command_uuid"],
            _ => return TakenUp::NotTold,
        };
        if *id != self.prompt.as_str() {
            return TakenUp::NotTold;
        }
        let begins = !std::mem::replace(&mut self.ours, true);
        if begins && self.noted.cancelled {
            TakenUp::TooLate
        } else {
            TakenUp::Told
        }
    }

    /// Converts the next line to events.
    pub(super) fn hear(&mut self, line: &Value, now: Timestamp) -> Vec<Heard> {
        let kind = line["type"].as_str().unwrap_or_default();
        match kind {
            // Claude Code waits for the answer, also in a turn of its own.
            "control_request" => vec![self.asked(line)],
            _ if !self.ours => Vec::new(),
            "result" => self.over(line, now),
            "stream_event" if is_subagents(line) => Vec::new(),
            "stream_event" => self.streamed(&line["event"]),
            "assistant" => self.said(line),
            "user" => self.answered(line),
            "system" => self.noticed(line),
            "rate_limit_event" => {
                self.limited(&line["rate_limit_info"]);
                Vec::new()
            }
            "tool_progress" => {
                let id = line["tool_use_id"].as_str().unwrap_or_default();
                let call = self.calls.running(id);
                call.map(|call| Heard::Event(AgentEvent::Tool(call)))
                    .into_iter()
                    .collect()
            }
            _ if BOOKKEEPING.contains(&kind) => Vec::new(),
            _ => vec![Heard::Event(AgentEvent::Unknown(Json::from(line.clone())))],
        }
    }

    fn asked(&mut self, line: &Value) -> Heard {
        let request = &line["request"];
        let id = line["request_id"].as_str().unwrap_or_default();
        let subtype = request["subtype"].as_str().unwrap_or_default();
        if subtype != "can_use_tool" {
            return Heard::NotOffered {
                id: id.to_owned(),
                subtype: subtype.to_owned(),
            };
        }
        let name = request["tool_name"].as_str().unwrap_or("tool");
        let call = request["tool_use_id"].as_str().unwrap_or(id);
        let call = self.calls.announced(call, name, &request["input"]);
        Heard::Asked(Asked::new(id, request, call))
    }

    fn over(&mut self, line: &Value, now: Timestamp) -> Vec<Heard> {
        let end = end::of(line, &self.noted, now);
        let mut heard = Vec::new();
        // Only the result contains the reason for the refusal.
        if matches!(&end, Ok(end) if end.reason == StopReason::Refusal) && line["is_error"] == true
        {
            let gap = if self.text.told.is_empty() {
                ""
            } else {
                "\n\n"
            };
            let words = format!("{gap}{}", end::words(line));
            heard.push(Heard::Event(AgentEvent::Text(words)));
        }
        heard.push(Heard::Over(end));
        heard
    }

    /// Converts an event of the model's own stream.
    fn streamed(&mut self, event: &Value) -> Vec<Heard> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.begin(&event["message"]);
                self.message.streamed = true;
                Vec::new()
            }
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                self.called(&event["content_block"])
            }
            "content_block_delta" => self.spoke(&event["delta"]),
            "message_delta" => {
                self.message.whole = true;
                self.message.tokens.update(&event["usage"]);
                self.noted.last = self.message.tokens;
                let usage = Usage {
                    context_tokens: self.noted.last.total(),
                    ..Usage::default()
                };
                vec![Heard::Event(AgentEvent::Usage(usage))]
            }
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, message: &Value) {
        self.text.begin(self.message.whole);
        self.thought.begin(self.message.whole);
        let mut tokens = Tokens::default();
        tokens.update(&message["usage"]);
        // Messages that Claude Code itself writes in the model's name have no token counts.
        if tokens.total().is_some() {
            self.noted.last = tokens;
            self.noted.model = message["model"].as_str().map(str::to_owned);
        }
        self.message = Message {
            id: message["id"].as_str().unwrap_or_default().to_owned(),
            streamed: false,
            whole: false,
            tokens,
        };
    }

    /// Converts text or a thought, from a delta or from a complete block.
    fn spoke(&mut self, words: &Value) -> Vec<Heard> {
        let of = |name: &str| words[name].as_str().unwrap_or_default();
        let event = match of("type") {
            "text_delta" | "text" => AgentEvent::Text(self.text.hear(of("text"))),
            "thinking_delta" | "thinking" => AgentEvent::Thought(self.thought.hear(of("thinking"))),
            _ => return Vec::new(),
        };
        match &event {
            AgentEvent::Text(words) | AgentEvent::Thought(words) if words.is_empty() => Vec::new(),
            _ => vec![Heard::Event(event)],
        }
    }

    /// Converts a tool call, whose arguments may still be missing.
    fn called(&mut self, block: &Value) -> Vec<Heard> {
        let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
            return Vec::new();
        };
        let call = self.calls.announced(id, name, &block["input"]);
        let mut heard = vec![Heard::Event(AgentEvent::Tool(call))];
        let plan = tools::plan(name, &block["input"]);
        heard.extend(plan.map(|plan| Heard::Event(AgentEvent::Plan(plan))));
        heard
    }

    /// Converts a complete block of an answer. Omits text that was streamed before.
    fn said(&mut self, line: &Value) -> Vec<Heard> {
        // Claude Code reports its errors in the model's name; the result contains them as well.
        if line["is_api_error_message"] == true || line["error"].is_string() {
            return Vec::new();
        }
        let message = &line["message"];
        let subagents = is_subagents(line);
        if !subagents && message["id"] != self.message.id.as_str() {
            self.begin(message);
            self.message.whole = true;
        }
        let told = subagents || self.message.streamed;
        let mut heard = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => heard.extend(self.called(block)),
                "text" | "thinking" if told => {}
                "text" | "thinking" => heard.extend(self.spoke(block)),
                "redacted_thinking" => {}
                _ if subagents => {}
                _ => heard.push(Heard::Event(AgentEvent::Unknown(Json::from(block.clone())))),
            }
        }
        heard
    }

    /// Converts a message in the user's name: the results of tools. Omits the blocks that only the model needs.
    fn answered(&mut self, line: &Value) -> Vec<Heard> {
        let blocks = line["message"]["content"].as_array().into_iter().flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .filter_map(|block| self.calls.over(block, &line["tool_use_result"]))
            .map(|call| Heard::Event(AgentEvent::Tool(call)))
            .collect()
    }

    fn noticed(&mut self, line: &Value) -> Vec<Heard> {
        match line["subtype"].as_str().unwrap_or_default() {
            "init" => {
                let id = line["session_id"].as_str().map(str::to_owned);
                id.map(Heard::Named).into_iter().collect()
            }
            "compact_boundary" => vec![Heard::Event(AgentEvent::Compacted)],
            "api_retry" => {
                let wait = line["retry_delay_ms"].as_u64();
                self.noted.waited = wait.map(Duration::from_millis);
                Vec::new()
            }
            "task_started" => {
                let id = line["tool_use_id"].as_str().unwrap_or_default();
                let call = self.calls.running(id);
                call.map(|call| Heard::Event(AgentEvent::Tool(call)))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn limited(&mut self, limit: &Value) {
        let reset = limit["resetsAt"].as_i64();
        let reset = reset.filter(|_| limit["status"] == "rejected");
        self.noted.spent_until = reset.and_then(|at| Timestamp::from_second(at).ok());
    }
}

/// Types of lines that concern Claude Code itself, not the turn.
const BOOKKEEPING: &[&str] = &[
    "active_goal",
    "api_metrics",
    "auth_status",
    "autocompact_state",
    "command_lifecycle",
    "control_cancel_request",
    "control_response",
    "keep_alive",
    "prompt_suggestion",
    "session_notice",
    "tool_use_summary",
    "transcript_mirror",
];

fn is_subagents(line: &Value) -> bool {
    line["parent_tool_use_id"].is_string()
}

#[cfg(test)]
mod tests;
