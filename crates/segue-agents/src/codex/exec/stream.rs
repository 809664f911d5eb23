//! Conversion of the output of `codex exec --json`.

use segue_core::session::{AgentEvent, PlanStatus, PlanStep};
use serde_json::Value;

use crate::classify::{self, Refusal};
use crate::codex::items;
use crate::codex::usage::Total;

/// Event that a line contains.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Codex's id of the thread.
    Thread(String),
    /// Output of the agent.
    Event(AgentEvent),
    /// Outcome of the turn, with the total usage of the thread so far.
    Over(Result<Option<Total>, Refusal>),
}

/// State from earlier lines.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Whether the last output was a message.
    speaking: bool,
}

impl Stream {
    pub(super) fn said(&mut self, line: &Value) -> Option<Said> {
        match line["type"].as_str().unwrap_or_default() {
            "thread.started" => Some(Said::Thread(line["thread_id"].as_str()?.to_owned())),
            "item.started" | "item.updated" => self.item(&line["item"], false),
            "item.completed" => self.item(&line["item"], true),
            "turn.completed" => Some(Said::Over(Ok(Total::snake(&line["usage"])))),
            "turn.failed" => {
                let message = line["error"]["message"].as_str();
                let refusal = classify::answer(None, message.unwrap_or("it did not say why"));
                Some(Said::Over(Err(refusal)))
            }
            // Codex also sends `error` before every retry; it repeats a final error as `turn.failed`.
            "turn.started" | "error" => None,
            _ => Some(Said::Event(AgentEvent::Unknown(line.clone().into()))),
        }
    }

    fn item(&mut self, item: &Value, over: bool) -> Option<Said> {
        if let Some(call) = items::tool(item, over) {
            self.speaking = false;
            return Some(Said::Event(AgentEvent::Tool(call)));
        }
        let text = item["text"].as_str().unwrap_or_default();
        let event = match items::kind(item) {
            "todo_list" => AgentEvent::Plan(plan(&item["items"])),
            _ if !over => return None,
            "agent_message" => {
                let again = std::mem::replace(&mut self.speaking, true);
                AgentEvent::Text(format!("{}{text}", if again { "\n\n" } else { "" }))
            }
            "reasoning" => {
                self.speaking = false;
                AgentEvent::Thought(text.to_owned())
            }
            "context_compaction" => AgentEvent::Compacted,
            // A problem of Codex itself, such as an unknown model.
            "error" => return None,
            _ => AgentEvent::Unknown(item.clone().into()),
        };
        Some(Said::Event(event))
    }
}

fn plan(steps: &Value) -> Vec<PlanStep> {
    let steps = steps.as_array().into_iter().flatten();
    steps
        .filter_map(|step| {
            Some(PlanStep {
                text: step["text"].as_str()?.to_owned(),
                status: match step["completed"].as_bool() {
                    Some(true) => PlanStatus::Completed,
                    Some(false) | None => PlanStatus::Pending,
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use segue_core::session::{FailureClass, ToolStatus};
    use serde_json::json;

    fn said(lines: &[Value]) -> Vec<Said> {
        let mut stream = Stream::default();
        lines.iter().filter_map(|line| stream.said(line)).collect()
    }

    fn completed(item: &Value) -> Value {
        json!({"type": "item.completed", "item": item})
    }

    #[test]
    fn a_turn_is_told_in_order() {
        let usage = json!({"input_tokens": 101, "cached_input_tokens": 11, "output_tokens": 20});
        let message =
            |text: &str| completed(&json!({"id": "i", "type": "agent_message", "text": text}));
        let told = said(&[
            json!({"type": "thread.started", "thread_id": "t"}),
            completed(&json!({"id": "i", "type": "error", "message": "Model metadata not found"})),
            json!({"type": "turn.started"}),
            completed(&json!({"id": "i", "type": "reasoning", "text": "hm"})),
            message("first"),
            message("second"),
            json!({"type": "turn.completed", "usage": usage}),
        ]);
        let expected = [
            Said::Thread("t".to_owned()),
            Said::Event(AgentEvent::Thought("hm".to_owned())),
            Said::Event(AgentEvent::Text("first".to_owned())),
            Said::Event(AgentEvent::Text("\n\nsecond".to_owned())),
            Said::Over(Ok(Total::snake(&usage))),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn only_a_failed_turn_is_the_end() {
        let told = said(&[
            json!({"type": "error", "message": "Reconnecting... 1/5 (…)"}),
            json!({"type": "turn.failed", "error": {"message": "last status: 429 Too Many Requests"}}),
        ]);
        assert!(
            matches!(&told[..], [Said::Over(Err(refusal))] if refusal.class == FailureClass::RateLimited),
            "{told:?}"
        );
    }

    #[test]
    fn tools_and_plans_are_told_as_they_change() {
        let command = |status: &str| json!({"id": "c", "type": "command_execution", "command": "ls", "status": status});
        let told = said(&[
            json!({"type": "item.started", "item": command("in_progress")}),
            completed(&command("completed")),
            json!({"type": "item.updated", "item": {"id": "p", "type": "todo_list", "items": [{"text": "one", "completed": true}]}}),
        ]);
        let [
            Said::Event(AgentEvent::Tool(begun)),
            Said::Event(AgentEvent::Tool(done)),
            Said::Event(AgentEvent::Plan(plan)),
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(begun.status, ToolStatus::InProgress);
        assert_eq!(done.status, ToolStatus::Completed);
        assert_eq!(plan.len(), 1);
    }

    #[test]
    fn what_is_unknown_is_kept() {
        let told = said(&[
            json!({"type": "novelty"}),
            completed(&json!({"type": "novelty"})),
        ]);
        let unknown = |said: &Said| matches!(said, Said::Event(AgentEvent::Unknown(_)));
        assert_eq!(told.iter().filter(|said| unknown(said)).count(), 2);
    }
}
