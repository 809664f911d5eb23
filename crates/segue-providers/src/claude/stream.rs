//! State of one turn, built from Claude Code's output line by line.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{AgentEvent, StopReason, TurnEnd, Usage};
use serde_json::Value;

use super::permission::ClaudePermissionRequest;
use super::replay_filter::ReplayFilter;
use super::tool_calls::{self, ClaudeToolCalls};
use super::turn_end::{self, ClaudeTokenCounts, ClaudeTurnObservations};
use crate::AgentError;

/// Event that a line of Claude Code's output contains.
#[derive(Debug)]
pub(super) enum ClaudeEvent {
    /// Event in the form that all agents share.
    Event(AgentEvent),
    /// A permission request; Claude Code waits for the answer.
    PermissionRequest(ClaudePermissionRequest),
    /// A request that segue does not support; Claude Code waits for an answer.
    UnsupportedRequest { id: String, subtype: String },
    /// Current id of the native session. Claude Code may change it.
    NativeId(String),
    /// End of the turn.
    TurnEnded(Result<TurnEnd, AgentError>),
}

/// Report of a line on the acceptance of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptAcceptance {
    /// The line does not report it.
    Unreported,
    /// Claude Code has accepted the prompt.
    Accepted,
    /// Claude Code has accepted the prompt after segue sent an interrupt. The interrupt stopped an earlier turn, so it
    /// must be sent a second time.
    AcceptedAfterCancel,
}

/// State of a turn, which begins with a prompt from segue.
#[derive(Debug)]
pub(super) struct ClaudeTurn {
    /// Id of the prompt.
    prompt_id: String,
    /// Whether the current lines belong to this turn. When a background task ends, Claude Code runs a turn of its own,
    /// and the lines of that turn do not belong to this one.
    is_active: bool,
    calls: ClaudeToolCalls,
    message: ClaudeMessage,
    text: ClaudeTextStream,
    thought: ClaudeTextStream,
    observations: ClaudeTurnObservations,
}

/// Current message of the model.
#[derive(Debug, Default)]
struct ClaudeMessage {
    id: String,
    /// Whether the message arrives in deltas rather than in complete blocks.
    is_streamed: bool,
    /// Whether the message is complete.
    is_complete: bool,
    tokens: ClaudeTokenCounts,
}

/// Stream of one kind of output: text or thoughts.
#[derive(Debug, Default)]
struct ClaudeTextStream {
    /// Text of the current message.
    message_text: String,
    /// Filter that omits repeated text while a broken message is streamed a second time.
    replay_filter: Option<ReplayFilter>,
}

impl ClaudeTextStream {
    /// Starts a message. If the previous message is incomplete, the new one repeats it.
    fn begin_message(&mut self, was_complete: bool) {
        let previous_text = std::mem::take(&mut self.message_text);
        self.replay_filter = match self.replay_filter.take() {
            _ if was_complete => None,
            // The repeated message broke too, before it contained new text.
            Some(filter) => Some(filter.restart()),
            None => ReplayFilter::new(previous_text),
        };
    }

    /// Returns the new text in the next chunk.
    fn push_chunk(&mut self, chunk: &str) -> String {
        self.message_text.push_str(chunk);
        match self.replay_filter.take() {
            Some(filter) => {
                let (next_filter, new_text) = filter.filter_chunk(chunk);
                self.replay_filter = next_filter;
                new_text
            }
            None => chunk.to_owned(),
        }
    }
}

impl ClaudeTurn {
    /// Creates the turn of a prompt. If `reports_acceptance` is `true`, Claude Code reports when it accepts the prompt,
    /// and all lines before that report belong to other turns.
    pub(super) fn new(prompt_id: String, reports_acceptance: bool) -> Self {
        Self {
            prompt_id,
            is_active: !reports_acceptance,
            calls: ClaudeToolCalls::default(),
            message: ClaudeMessage {
                is_complete: true,
                ..ClaudeMessage::default()
            },
            text: ClaudeTextStream::default(),
            thought: ClaudeTextStream::default(),
            observations: ClaudeTurnObservations::default(),
        }
    }

    /// Records that segue interrupts Claude Code to cancel the turn.
    pub(super) fn record_cancel(&mut self) {
        self.observations.cancel_requested = true;
    }

    /// Checks whether a line reports that the prompt was accepted. If it does, this line and all later ones belong to
    /// this turn.
    pub(super) fn check_acceptance(&mut self, line: &Value) -> PromptAcceptance {
        let id = match line["type"].as_str() {
            Some("user") if line["isReplay"] == true => &line["uuid"],
            Some("command_lifecycle") if line["state"] == "started" => &line["command_uuid"],
            _ => return PromptAcceptance::Unreported,
        };
        if *id != self.prompt_id.as_str() {
            return PromptAcceptance::Unreported;
        }
        let was_inactive = !std::mem::replace(&mut self.is_active, true);
        if was_inactive && self.observations.cancel_requested {
            PromptAcceptance::AcceptedAfterCancel
        } else {
            PromptAcceptance::Accepted
        }
    }

    /// Converts the next line to events.
    pub(super) fn convert_line(&mut self, line: &Value, now: Timestamp) -> Vec<ClaudeEvent> {
        let kind = line["type"].as_str().unwrap_or_default();
        match kind {
            // Claude Code waits for the answer even if the request belongs to another turn.
            "control_request" => vec![self.convert_control_request(line)],
            _ if !self.is_active => Vec::new(),
            "result" => self.convert_result(line, now),
            "stream_event" if is_from_subagent(line) => Vec::new(),
            "stream_event" => self.convert_stream_event(&line["event"]),
            "assistant" => self.convert_assistant_message(line),
            "user" => self.convert_tool_results(line),
            "system" => self.convert_system_line(line),
            "rate_limit_event" => {
                self.record_rate_limit(&line["rate_limit_info"]);
                Vec::new()
            }
            "tool_progress" => {
                let id = line["tool_use_id"].as_str().unwrap_or_default();
                let call = self.calls.mark_running(id);
                call.map(|call| ClaudeEvent::Event(AgentEvent::Tool(call)))
                    .into_iter()
                    .collect()
            }
            _ if IGNORED_LINE_TYPES.contains(&kind) => Vec::new(),
            _ => vec![ClaudeEvent::Event(AgentEvent::Unknown(Json::from(
                line.clone(),
            )))],
        }
    }

    fn convert_control_request(&mut self, line: &Value) -> ClaudeEvent {
        let request = &line["request"];
        let id = line["request_id"].as_str().unwrap_or_default();
        let subtype = request["subtype"].as_str().unwrap_or_default();
        if subtype != "can_use_tool" {
            return ClaudeEvent::UnsupportedRequest {
                id: id.to_owned(),
                subtype: subtype.to_owned(),
            };
        }
        let name = request["tool_name"].as_str().unwrap_or("tool");
        let call_id = request["tool_use_id"].as_str().unwrap_or(id);
        let call = self.calls.announce(call_id, name, &request["input"]);
        ClaudeEvent::PermissionRequest(ClaudePermissionRequest::new(id, request, call))
    }

    fn convert_result(&mut self, line: &Value, now: Timestamp) -> Vec<ClaudeEvent> {
        let end = turn_end::parse_turn_end(line, &self.observations, now);
        let mut events = Vec::new();
        // Only the `result` line contains the reason for the refusal.
        if matches!(&end, Ok(end) if end.reason == StopReason::Refusal) && line["is_error"] == true
        {
            let separator = if self.text.message_text.is_empty() {
                ""
            } else {
                "\n\n"
            };
            let text = format!("{separator}{}", turn_end::result_text(line));
            events.push(ClaudeEvent::Event(AgentEvent::Text(text)));
        }
        events.push(ClaudeEvent::TurnEnded(end));
        events
    }

    /// Converts an event of the model's stream, which Claude Code passes on unchanged.
    fn convert_stream_event(&mut self, event: &Value) -> Vec<ClaudeEvent> {
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.begin_message(&event["message"]);
                self.message.is_streamed = true;
                Vec::new()
            }
            "content_block_start" if event["content_block"]["type"] == "tool_use" => {
                self.convert_tool_use(&event["content_block"])
            }
            "content_block_delta" => self.convert_text(&event["delta"]),
            "message_delta" => {
                self.message.is_complete = true;
                self.message.tokens.update(&event["usage"]);
                self.observations.last_request_tokens = self.message.tokens;
                let usage = Usage {
                    context_tokens: self.observations.last_request_tokens.total(),
                    ..Usage::default()
                };
                vec![ClaudeEvent::Event(AgentEvent::Usage(usage))]
            }
            _ => Vec::new(),
        }
    }

    fn begin_message(&mut self, message: &Value) {
        self.text.begin_message(self.message.is_complete);
        self.thought.begin_message(self.message.is_complete);
        let mut tokens = ClaudeTokenCounts::default();
        tokens.update(&message["usage"]);
        // Messages that Claude Code itself writes with the role of the model have no token counts.
        if tokens.total().is_some() {
            self.observations.last_request_tokens = tokens;
            self.observations.model = message["model"].as_str().map(str::to_owned);
        }
        self.message = ClaudeMessage {
            id: message["id"].as_str().unwrap_or_default().to_owned(),
            is_streamed: false,
            is_complete: false,
            tokens,
        };
    }

    /// Converts text or a thought, from a delta or from a complete block.
    fn convert_text(&mut self, block: &Value) -> Vec<ClaudeEvent> {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        let event = match field("type") {
            "text_delta" | "text" => AgentEvent::Text(self.text.push_chunk(field("text"))),
            "thinking_delta" | "thinking" => {
                AgentEvent::Thought(self.thought.push_chunk(field("thinking")))
            }
            _ => return Vec::new(),
        };
        match &event {
            AgentEvent::Text(text) | AgentEvent::Thought(text) if text.is_empty() => Vec::new(),
            _ => vec![ClaudeEvent::Event(event)],
        }
    }

    /// Converts a tool call, whose arguments may still be missing.
    fn convert_tool_use(&mut self, block: &Value) -> Vec<ClaudeEvent> {
        let (Some(id), Some(name)) = (block["id"].as_str(), block["name"].as_str()) else {
            return Vec::new();
        };
        let call = self.calls.announce(id, name, &block["input"]);
        let mut events = vec![ClaudeEvent::Event(AgentEvent::Tool(call))];
        let plan = tool_calls::parse_plan(name, &block["input"]);
        events.extend(plan.map(|plan| ClaudeEvent::Event(AgentEvent::Plan(plan))));
        events
    }

    /// Converts complete blocks of a message of the model. Omits text that was streamed before, and text of subagents.
    fn convert_assistant_message(&mut self, line: &Value) -> Vec<ClaudeEvent> {
        // Claude Code also reports its own errors as messages of the model. The `result` line contains them as well.
        if line["is_api_error_message"] == true || line["error"].is_string() {
            return Vec::new();
        }
        let message = &line["message"];
        let from_subagent = is_from_subagent(line);
        if !from_subagent && message["id"] != self.message.id.as_str() {
            self.begin_message(message);
            self.message.is_complete = true;
        }
        let skip_text = from_subagent || self.message.is_streamed;
        let mut events = Vec::new();
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => events.extend(self.convert_tool_use(block)),
                "text" | "thinking" if skip_text => {}
                "text" | "thinking" => events.extend(self.convert_text(block)),
                "redacted_thinking" => {}
                _ if from_subagent => {}
                _ => events.push(ClaudeEvent::Event(AgentEvent::Unknown(Json::from(
                    block.clone(),
                )))),
            }
        }
        events
    }

    /// Converts a message with the role of the user, which contains results of tools. Omits all other blocks.
    fn convert_tool_results(&mut self, line: &Value) -> Vec<ClaudeEvent> {
        let blocks = line["message"]["content"].as_array().into_iter().flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .filter_map(|block| self.calls.finish(block, &line["tool_use_result"]))
            .map(|call| ClaudeEvent::Event(AgentEvent::Tool(call)))
            .collect()
    }

    fn convert_system_line(&mut self, line: &Value) -> Vec<ClaudeEvent> {
        match line["subtype"].as_str().unwrap_or_default() {
            "init" => {
                let id = line["session_id"].as_str().map(str::to_owned);
                id.map(ClaudeEvent::NativeId).into_iter().collect()
            }
            "compact_boundary" => vec![ClaudeEvent::Event(AgentEvent::Compacted)],
            "api_retry" => {
                let delay_ms = line["retry_delay_ms"].as_u64();
                self.observations.last_retry_delay = delay_ms.map(Duration::from_millis);
                Vec::new()
            }
            "task_started" => {
                let id = line["tool_use_id"].as_str().unwrap_or_default();
                let call = self.calls.mark_running(id);
                call.map(|call| ClaudeEvent::Event(AgentEvent::Tool(call)))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn record_rate_limit(&mut self, limit: &Value) {
        let resets_at = limit["resetsAt"].as_i64();
        let resets_at = resets_at.filter(|_| limit["status"] == "rejected");
        self.observations.quota_resets_at =
            resets_at.and_then(|seconds| Timestamp::from_second(seconds).ok());
    }
}

/// Types of lines that concern Claude Code itself, not the turn.
const IGNORED_LINE_TYPES: &[&str] = &[
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

fn is_from_subagent(line: &Value) -> bool {
    line["parent_tool_use_id"].is_string()
}

#[cfg(test)]
mod tests;
