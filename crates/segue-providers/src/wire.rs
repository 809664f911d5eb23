//! Exchange of JSON lines and prompts with a program.

pub(crate) mod json_lines;
pub(crate) mod json_scan;
pub(crate) mod prompt_text;
pub(crate) mod uuid;

use segue_core::session::{PlanStatus, PlanStep};
use serde_json::Value;

/// Parses the steps of a plan, whose texts have the key `text_key`. Omits steps without a text. The state is a
/// name, or the flag `completed`.
pub(crate) fn parse_plan_steps(steps: &Value, text_key: &str) -> Vec<PlanStep> {
    let parse_step = |step: &Value| {
        Some(PlanStep {
            text: step[text_key].as_str()?.to_owned(),
            status: match (step["status"].as_str(), step["completed"].as_bool()) {
                (Some("completed"), _) | (None, Some(true)) => PlanStatus::Completed,
                (Some("in_progress" | "inProgress"), _) => PlanStatus::InProgress,
                (Some(_), _) | (None, Some(false) | None) => PlanStatus::Pending,
            },
        })
    };
    let steps = steps.as_array().into_iter().flatten();
    steps.filter_map(parse_step).collect()
}
