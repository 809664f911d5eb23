//! Task lists that an agent updates by single calls: one call creates a task, later calls change its status.

use std::collections::HashMap;

use serde_json::Value;

use super::ItemKind;
use super::text_units::Unit;

/// Tasks of a native session by number. Each native session numbers its tasks from the start, and compaction ends a
/// native session.
#[derive(Debug, Default)]
pub(super) struct Tasks(HashMap<String, String>);

impl Tasks {
    /// Applies a successful call to the list. Returns the text of the task and the kind that reflects its status;
    /// `None` if the call does not create a task or change the status of one in the list.
    pub(super) fn called(
        &mut self,
        name: &str,
        args: &Value,
        answer: &str,
    ) -> Option<(String, ItemKind)> {
        match name {
            "TaskCreate" => {
                let text = Unit::new(args["subject"].as_str()?).text;
                let (_, numbered) = answer.split_once('#')?;
                let number = numbered.split_whitespace().next()?;
                self.0.insert(number.to_owned(), text.clone());
                Some((text, ItemKind::Pending))
            }
            "TaskUpdate" => {
                let text = self.0.get(args["taskId"].as_str()?)?.clone();
                let kind = match args["status"].as_str()? {
                    // A deleted task needs no work either.
                    "completed" | "deleted" => ItemKind::Done,
                    "in_progress" => ItemKind::Focus,
                    _ => ItemKind::Pending,
                };
                Some((text, kind))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_known_by_its_number() {
        let mut tasks = Tasks::default();
        let made = "Task #1 created successfully: Read dates";
        let is = |kind| Some(("Read dates".to_owned(), kind));
        for (name, args, answer, expected) in [
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "completed"}),
                "",
                None,
            ),
            (
                "TaskCreate",
                json!({"subject": "Read dates"}),
                made,
                is(ItemKind::Pending),
            ),
            ("TaskCreate", json!({"subject": "Read dates"}), "no", None),
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "in_progress"}),
                "",
                is(ItemKind::Focus),
            ),
            (
                "TaskUpdate",
                json!({"taskId": "1", "owner": "me"}),
                "",
                None,
            ),
            (
                "TaskUpdate",
                json!({"taskId": "2", "status": "completed"}),
                "",
                None,
            ),
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "completed"}),
                "",
                is(ItemKind::Done),
            ),
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "pending"}),
                "",
                is(ItemKind::Pending),
            ),
            ("Task", json!({"subject": "Read dates"}), made, None),
        ] {
            assert_eq!(tasks.called(name, &args, answer), expected, "{name} {args}");
        }
    }
}
