//! What `gemini -o stream-json` says, line by line, in our own words.

use std::collections::HashMap;

use segue_core::{
    AgentEvent, FailureClass, Json, NativeId, StopReason, ToolCall, ToolStatus, TurnEnd, Usage,
};
use serde_json::Value;

use crate::classify::Refusal;
use crate::wire::Line;

/// One turn of a conversation.
#[derive(Debug)]
pub(super) struct Stream {
    /// The session that was asked for.
    id: NativeId,
    calls: HashMap<String, ToolCall>,
    /// Whether it stopped at a limit of its own.
    limited: bool,
}

/// What a line means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing that concerns us.
    Nothing,
    /// The conversation is open.
    Begun,
    Event(AgentEvent),
    Finished(TurnEnd),
    /// Its own words for what went wrong.
    Failed(String),
    /// It does something else than it was asked to.
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

/// Why an answer that belongs to another session than the one that was asked for is not taken.
pub(super) fn other_id(asked: &NativeId, told: Option<&str>) -> Option<Refusal> {
    let told = told.filter(|told| *told != asked.as_str())?;
    let message = format!("Gemini CLI was asked for session {asked} and answered as {told}");
    Some(Refusal::new(FailureClass::SessionUnknown, message))
}

/// A turn that ended well.
pub(super) fn end(limited: bool, usage: Usage) -> TurnEnd {
    let reason = if limited {
        StopReason::Limit
    } else {
        StopReason::EndTurn
    };
    TurnEnd { reason, usage }
}

/// Whether a warning says that it stopped before it was done.
pub(super) fn is_limit(message: &str) -> bool {
    message.starts_with("Loop detected") || message.starts_with("Maximum session turns")
}

/// The process has one turn, so its figures are those of the turn. Thoughts are only in the total.
fn usage(stats: &Value) -> Usage {
    let figure = |key: &str| stats.get(key).and_then(Value::as_u64);
    let (input, total) = (figure("input_tokens"), figure("total_tokens"));
    // A turn without a request to the model has no figures.
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

/// The sort of a tool by its name.
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
