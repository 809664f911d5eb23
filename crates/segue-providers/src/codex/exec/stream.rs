//! Conversion of the output of `codex exec --json`.

use segue_core::session::AgentEvent;
use serde_json::Value;

use crate::codex::items;
use crate::codex::usage::CodexTokenCounts;
use crate::error_class::{self, AgentRefusal};
use crate::wire::parse_plan_steps;

/// Event that a line contains.
#[derive(Debug, PartialEq)]
pub(super) enum ExecEvent {
    /// Codex's id of the thread.
    ThreadStarted(String),
    /// Output of the agent.
    Event(AgentEvent),
    /// Outcome of the turn, with the total usage of the thread so far.
    TurnEnded(Result<Option<CodexTokenCounts>, AgentRefusal>),
}

/// State from earlier lines.
#[derive(Debug, Default)]
pub(super) struct ExecStream {
    /// Whether the last output was a message.
    last_was_message: bool,
}

impl ExecStream {
    pub(super) fn convert_line(&mut self, line: &Value) -> Option<ExecEvent> {
        match line["type"].as_str().unwrap_or_default() {
            "thread.started" => Some(ExecEvent::ThreadStarted(
                line["thread_id"].as_str()?.to_owned(),
            )),
            "item.started" | "item.updated" => self.convert_item(&line["item"], false),
            "item.completed" => self.convert_item(&line["item"], true),
            "turn.completed" => Some(ExecEvent::TurnEnded(Ok(CodexTokenCounts::from_snake_case(
                &line["usage"],
            )))),
            "turn.failed" => {
                let message = line["error"]["message"].as_str();
                let refusal =
                    error_class::classify_error(None, message.unwrap_or("no reason given"));
                Some(ExecEvent::TurnEnded(Err(refusal)))
            }
            // Codex also sends `error` before every retry; it repeats a final error as `turn.failed`.
            "turn.started" | "error" => None,
            _ => Some(ExecEvent::Event(AgentEvent::Unknown(line.clone().into()))),
        }
    }

    fn convert_item(&mut self, item: &Value, is_completed: bool) -> Option<ExecEvent> {
        if let Some(call) = items::parse_tool_call(item, is_completed) {
            self.last_was_message = false;
            return Some(ExecEvent::Event(AgentEvent::Tool(call)));
        }
        let text = item["text"].as_str().unwrap_or_default();
        let event = match items::item_type(item) {
            "todo_list" => AgentEvent::Plan(parse_plan_steps(&item["items"], "text")),
            _ if !is_completed => return None,
            "agent_message" => {
                let follows_message = std::mem::replace(&mut self.last_was_message, true);
                AgentEvent::Text(format!(
                    "{}{text}",
                    if follows_message { "\n\n" } else { "" }
                ))
            }
            "reasoning" => {
                self.last_was_message = false;
                AgentEvent::Thought(text.to_owned())
            }
            "context_compaction" => AgentEvent::Compacted,
            // A problem of Codex itself, such as an unknown model.
            "error" => return None,
            _ => AgentEvent::Unknown(item.clone().into()),
        };
        Some(ExecEvent::Event(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segue_core::session::{FailureClass, ToolStatus};
    use serde_json::json;

    fn convert_lines(lines: &[Value]) -> Vec<ExecEvent> {
        let mut stream = ExecStream::default();
        lines
            .iter()
            .filter_map(|line| stream.convert_line(line))
            .collect()
    }

    fn completed_item(item: &Value) -> Value {
        json!({"type": "item.completed", "item": item})
    }

    #[test]
    fn the_events_of_a_turn_keep_their_order() {
        let usage = json!({"input_tokens": 101, "cached_input_tokens": 11, "output_tokens": 20});
        let message =
            |text: &str| completed_item(&json!({"id": "i", "type": "agent_message", "text": text}));
        let events = convert_lines(&[
            json!({"type": "thread.started", "thread_id": "t"}),
            completed_item(
                &json!({"id": "i", "type": "error", "message": "Model metadata not found"}),
            ),
            json!({"type": "turn.started"}),
            completed_item(&json!({"id": "i", "type": "reasoning", "text": "hm"})),
            message("first"),
            message("second"),
            json!({"type": "turn.completed", "usage": usage}),
        ]);
        let expected = [
            ExecEvent::ThreadStarted("t".to_owned()),
            ExecEvent::Event(AgentEvent::Thought("hm".to_owned())),
            ExecEvent::Event(AgentEvent::Text("first".to_owned())),
            ExecEvent::Event(AgentEvent::Text("\n\nsecond".to_owned())),
            ExecEvent::TurnEnded(Ok(CodexTokenCounts::from_snake_case(&usage))),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn only_a_failed_turn_ends_the_turn() {
        let events = convert_lines(&[
            json!({"type": "error", "message": "Reconnecting... 1/5 (…)"}),
            json!({"type": "turn.failed", "error": {"message": "last status: 429 Too Many Requests"}}),
        ]);
        assert!(
            matches!(&events[..], [ExecEvent::TurnEnded(Err(refusal))] if refusal.class == FailureClass::RateLimited),
            "{events:?}"
        );
    }

    #[test]
    fn tools_and_plans_are_emitted_when_they_change() {
        let command = |status: &str| json!({"id": "c", "type": "command_execution", "command": "ls", "status": status});
        let events = convert_lines(&[
            json!({"type": "item.started", "item": command("in_progress")}),
            completed_item(&command("completed")),
            json!({"type": "item.updated", "item": {"id": "p", "type": "todo_list", "items": [{"text": "one", "completed": true}]}}),
        ]);
        let [
            ExecEvent::Event(AgentEvent::Tool(started)),
            ExecEvent::Event(AgentEvent::Tool(completed)),
            ExecEvent::Event(AgentEvent::Plan(plan)),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(started.status, ToolStatus::InProgress);
        assert_eq!(completed.status, ToolStatus::Completed);
        assert_eq!(plan.len(), 1);
    }

    #[test]
    fn unknown_lines_and_items_are_preserved() {
        let events = convert_lines(&[
            json!({"type": "novelty"}),
            completed_item(&json!({"type": "novelty"})),
        ]);
        let is_unknown =
            |event: &ExecEvent| matches!(event, ExecEvent::Event(AgentEvent::Unknown(_)));
        assert_eq!(events.iter().filter(|event| is_unknown(event)).count(), 2);
    }
}
