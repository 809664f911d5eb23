//! Task lists that an agent updates by single calls: one call creates a task, later calls change its status.

use std::collections::HashMap;

use serde_json::Value;

use super::ItemKind;
use super::text_units::TextUnit;

/// Tasks of a native session by number. Each native session numbers its tasks from the start, and compaction ends a
/// native session.
#[derive(Debug, Default)]
pub(super) struct TaskList(HashMap<String, String>);

impl TaskList {
    /// Applies a successful call to the list. Returns the text of the task and the kind that reflects its status;
    /// `None` if the call does not create a task or change the status of one in the list.
    pub(super) fn apply_call(
        &mut self,
        name: &str,
        args: &Value,
        result_text: &str,
    ) -> Option<(String, ItemKind)> {
        match name {
            "TaskCreate" => {
                let text = TextUnit::new(args["subject"].as_str()?).text;
                let (_, after_hash) = result_text.split_once('#')?;
                let number = after_hash.split_whitespace().next()?;
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
    fn a_task_is_identified_by_its_number() {
        let mut tasks = TaskList::default();
        let created = "Task #1 created successfully: Read dates";
        let task_with = |kind| Some(("Read dates".to_owned(), kind));
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
                created,
                task_with(ItemKind::Pending),
            ),
            ("TaskCreate", json!({"subject": "Read dates"}), "no", None),
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "in_progress"}),
                "",
                task_with(ItemKind::Focus),
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
                task_with(ItemKind::Done),
            ),
            (
                "TaskUpdate",
                json!({"taskId": "1", "status": "pending"}),
                "",
                task_with(ItemKind::Pending),
            ),
            ("Task", json!({"subject": "Read dates"}), created, None),
        ] {
            assert_eq!(
                tasks.apply_call(name, &args, answer),
                expected,
                "{name} {args}"
            );
        }
    }
}
