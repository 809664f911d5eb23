//! Conversion of the output of `gemini -o stream-json`, line by line.

use std::collections::HashMap;

use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, FailureClass, StopReason, ToolCall, ToolStatus, TurnEnd, Usage,
};
use serde_json::Value;

use crate::error_class::AgentRefusal;
use crate::wire::json_lines::OutputLine;

/// State of one turn.
#[derive(Debug)]
pub(super) struct GeminiStream {
    /// Session that segue requested.
    native_id: NativeId,
    open_calls: HashMap<String, ToolCall>,
    /// Whether Gemini CLI stopped at a limit of its own.
    limited: bool,
}

/// Meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GeminiEvent {
    /// The line is irrelevant to segue.
    Ignored,
    /// The session is open.
    SessionOpened,
    Event(AgentEvent),
    Finished(TurnEnd),
    /// Error message of Gemini CLI.
    Failed(String),
    /// An answer that does not match the request.
    Mismatched(AgentRefusal),
}

impl GeminiStream {
    pub(super) fn new(id: NativeId) -> Self {
        Self {
            native_id: id,
            open_calls: HashMap::new(),
            limited: false,
        }
    }

    pub(super) fn convert_line(&mut self, line: OutputLine) -> GeminiEvent {
        let value = match line {
            OutputLine::Json(value) => value,
            OutputLine::Noise(excerpt) => return GeminiEvent::Event(AgentEvent::Garbage(excerpt)),
        };
        let text = |key: &str| value[key].as_str();
        match text("type") {
            Some("init") => match check_session_id(&self.native_id, text("session_id")) {
                Some(refusal) => GeminiEvent::Mismatched(refusal),
                None => GeminiEvent::SessionOpened,
            },
            Some("message") => match (text("role"), text("content")) {
                (Some("assistant"), Some(content)) => {
                    GeminiEvent::Event(AgentEvent::Text(content.to_owned()))
                }
                (_, _) => GeminiEvent::Ignored,
            },
            Some("tool_use") => self.convert_tool_use(&value),
            Some("tool_result") => self.convert_tool_result(&value),
            Some("error") => {
                self.limited |= text("message").is_some_and(is_limit_warning);
                GeminiEvent::Event(AgentEvent::Unknown(value.into()))
            }
            Some("result") => self.convert_result(&value),
            Some(_) | None => GeminiEvent::Event(AgentEvent::Unknown(value.into())),
        }
    }

    fn convert_tool_use(&mut self, value: &Value) -> GeminiEvent {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let name = text("tool_name");
        let call = ToolCall {
            id: text("tool_id").to_owned(),
            name: name.to_owned(),
            kind: tool_kind(name).to_owned(),
            args: value
                .get("parameters")
                .cloned()
                .map_or_else(Json::empty_object, Json::from),
            status: ToolStatus::InProgress,
            output: None,
            diffs: Vec::new(),
        };
        self.open_calls.insert(call.id.clone(), call.clone());
        GeminiEvent::Event(AgentEvent::Tool(call))
    }

    fn convert_tool_result(&mut self, value: &Value) -> GeminiEvent {
        let text = |key: &str| value[key].as_str();
        let open_call = text("tool_id").and_then(|id| self.open_calls.remove(id));
        let Some(mut call) = open_call else {
            return GeminiEvent::Event(AgentEvent::Unknown(value.clone().into()));
        };
        let error = value["error"]["message"].as_str();
        call.status = match text("status") {
            Some("success") => ToolStatus::Completed,
            Some(_) | None => ToolStatus::Failed,
        };
        call.output = text("output").or(error).map(Json::string);
        GeminiEvent::Event(AgentEvent::Tool(call))
    }

    fn convert_result(&self, value: &Value) -> GeminiEvent {
        if value["status"] == "success" {
            let usage = parse_usage(&value["stats"]);
            return GeminiEvent::Finished(build_turn_end(self.limited, usage));
        }
        let message = value["error"]["message"].as_str();
        GeminiEvent::Failed(message.unwrap_or("no reason given").to_owned())
    }
}

/// Returns a refusal if an answer belongs to another session than the requested one.
pub(super) fn check_session_id(
    requested: &NativeId,
    reported: Option<&str>,
) -> Option<AgentRefusal> {
    let reported = reported.filter(|reported| *reported != requested.as_str())?;
    let message =
        format!("requested Gemini CLI session {requested}, but session {reported} answered");
    Some(AgentRefusal::new(FailureClass::SessionUnknown, message))
}

/// Returns the end of a successful turn.
pub(super) fn build_turn_end(limited: bool, usage: Usage) -> TurnEnd {
    let reason = if limited {
        StopReason::Limit
    } else {
        StopReason::EndTurn
    };
    TurnEnd { reason, usage }
}

/// Returns `true` if a warning reports that Gemini CLI stopped early.
pub(super) fn is_limit_warning(message: &str) -> bool {
    message.starts_with("Loop detected") || message.starts_with("Maximum session turns")
}

/// Returns the usage of the process, which is that of the turn, because the process runs only one. Only the total
/// includes thoughts.
fn parse_usage(stats: &Value) -> Usage {
    let count = |key: &str| stats[key].as_u64();
    let (input, total) = (count("input_tokens"), count("total_tokens"));
    // A turn without a request to the model has no token counts.
    if total.unwrap_or(0) == 0 {
        return Usage::default();
    }
    let output_tokens = total
        .zip(input)
        .and_then(|(total, input)| total.checked_sub(input));
    Usage {
        input_tokens: input,
        output_tokens: output_tokens.or(count("output_tokens")),
        cached_tokens: count("cached"),
        total_tokens: total,
        ..Usage::default()
    }
}

/// Returns the kind of a tool by its name.
fn tool_kind(name: &str) -> &'static str {
    match name {
        "read_file" | "read_many_files" | "read_background_output" => "read",
        "list_directory" | "glob" | "grep_search" | "search_file_content" => "search",
        "write_file" | "replace" | "edit" => "edit",
        "run_shell_command" => "execute",
        "web_fetch" | "google_web_search" => "fetch",
        "write_todos" | "update_topic" | "enter_plan_mode" | "exit_plan_mode" => "think",
        _ => "other",
    }
}

#[cfg(test)]
mod tests;
