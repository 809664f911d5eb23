//! Conversion of the output of `gemini -o stream-json`, line by line.

use std::collections::HashMap;

use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, FailureClass, StopReason, ToolCall, ToolStatus, TurnEnd, Usage,
};
use serde_json::Value;

use crate::classify::Refusal;
use crate::wire::Line;

/// State of one turn.
#[derive(Debug)]
pub(super) struct Stream {
    /// Session that segue requested.
    id: NativeId,
    calls: HashMap<String, ToolCall>,
    /// Whether Gemini CLI stopped at a limit of its own.
    limited: bool,
}

/// Meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The line is irrelevant to segue.
    Nothing,
    /// The session is open.
    Begun,
    Event(AgentEvent),
    Finished(TurnEnd),
    /// Error message of Gemini CLI.
    Failed(String),
    /// An answer that does not match the request.
    Odd(Refusal),
}

impl Stream {
    pub(super) fn new(id: NativeId) -> Self {
        Self {
            id,
            calls: HashMap::new(),
            limited: false,
        }
    }

    pub(super) fn hear(&mut self, line: Line) -> Heard {
        let value = match line {
            Line::Json(value) => value,
            Line::Noise(words) => return Heard::Event(AgentEvent::Garbage(words)),
        };
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match text("type") {
            Some("init") => match other_id(&self.id, text("session_id")) {
                Some(refusal) => Heard::Odd(refusal),
                None => Heard::Begun,
            },
            Some("message") => match (text("role"), text("content")) {
                (Some("assistant"), Some(words)) => {
                    Heard::Event(AgentEvent::Text(words.to_owned()))
                }
                (_, _) => Heard::Nothing,
            },
            Some("tool_use") => self.called(&value),
            Some("tool_result") => self.returned(&value),
            Some("error") => {
                self.limited |= text("message").is_some_and(is_limit);
                Heard::Event(AgentEvent::Unknown(value.into()))
            }
            Some("result") => self.ended(&value),
            Some(_) | None => Heard::Event(AgentEvent::Unknown(value.into())),
        }
    }

    fn called(&mut self, value: &Value) -> Heard {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("tool_name");
        let call = ToolCall {
            id: text("tool_id").to_owned(),
            name: name.to_owned(),
            kind: kind(name).to_owned(),
            args: value
                .get("parameters")
                .cloned()
                .map_or_else(Json::empty_object, Json::from),
            status: ToolStatus::InProgress,
            output: None,
            diffs: Vec::new(),
        };
        self.calls.insert(call.id.clone(), call.clone());
        Heard::Event(AgentEvent::Tool(call))
    }

    fn returned(&mut self, value: &Value) -> Heard {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let known = text("tool_id").and_then(|id| self.calls.remove(id));
        let Some(mut call) = known else {
            return Heard::Event(AgentEvent::Unknown(value.clone().into()));
        };
        let error = value
            .get("error")
            .and_then(|error| error.get("message"))
            .and_then(Value::as_str);
        call.status = match text("status") {
            Some("success") => ToolStatus::Completed,
            Some(_) | None => ToolStatus::Failed,
        };
        call.output = text("output").or(error).map(Json::string);
        Heard::Event(AgentEvent::Tool(call))
    }

    fn ended(&self, value: &Value) -> Heard {
        let status = value.get("status").and_then(Value::as_str);
        if status == Some("success") {
            let usage = value.get("stats").map_or_else(Usage::default, usage);
            return Heard::Finished(end(self.limited, usage));
        }
        let message = value
            .get("error")
            .and_then(|error| error.get("message"))
            .and_then(Value::as_str);
        Heard::Failed(message.unwrap_or("it gave no reason").to_owned())
    }
}

/// Returns a refusal if an answer belongs to another session than the requested one.
pub(super) fn other_id(asked: &NativeId, told: Option<&str>) -> Option<Refusal> {
    let told = told.filter(|told| *told != asked.as_str())?;
    let message = format!("Gemini CLI was asked for session {asked} and answered as {told}");
    Some(Refusal::new(FailureClass::SessionUnknown, message))
}

/// Returns the end of a successful turn.
pub(super) fn end(limited: bool, usage: Usage) -> TurnEnd {
    let reason = if limited {
        StopReason::Limit
    } else {
        StopReason::EndTurn
    };
    TurnEnd { reason, usage }
}

/// Returns `true` if a warning reports that Gemini CLI stopped early.
pub(super) fn is_limit(message: &str) -> bool {
    message.starts_with("Loop detected") || message.starts_with("Maximum session turns")
}

/// Returns the usage of the process, which is that of the turn, because the process runs only one. Only the total
/// includes thoughts.
fn usage(stats: &Value) -> Usage {
    let figure = |key: &str| stats.get(key).and_then(Value::as_u64);
    let (input, total) = (figure("input_tokens"), figure("total_tokens"));
    // A turn without a request to the model has no token counts.
    if total.unwrap_or(0) == 0 {
        return Usage::default();
    }
    let written = total
        .zip(input)
        .and_then(|(total, input)| total.checked_sub(input));
    Usage {
        input_tokens: input,
        output_tokens: written.or(figure("output_tokens")),
        cached_tokens: figure("cached"),
        total_tokens: total,
        ..Usage::default()
    }
}

/// Returns the kind of a tool by its name.
fn kind(name: &str) -> &'static str {
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
