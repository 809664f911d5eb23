//! Conversion of the output of `gemini -o json`: one object, possibly with other text around it.

use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, FailureClass, TurnEnd, Usage};
use serde_json::{Value, json};

use super::stream_json::{build_turn_end, check_session_id, is_limit_warning};
use crate::error_class::AgentRefusal;
use crate::wire::json_scan;

/// Meaning of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GeminiAnswer {
    /// Events of the turn, and its end.
    Finished(Vec<AgentEvent>, TurnEnd),
    /// Error message of Gemini CLI.
    Failed(String),
    /// An answer that does not match the request.
    Mismatched(AgentRefusal),
    /// No output. The reason for the failure, if any, is in the error output or the exit status.
    Empty,
    /// Output that contains no answer.
    Unparsable(AgentRefusal),
}

/// Finds the answer for session `id` in the output.
pub(super) fn parse_answer(stdout: &[u8], id: &NativeId) -> GeminiAnswer {
    let text = json_scan::strip_terminal_codes(stdout);
    let is_answer = |object: &Value| {
        let has_key = |key: &str| object.get(key).is_some();
        has_key("error") || has_key("response") || has_key("session_id")
    };
    let Some(answer) = json_scan::extract_objects(&text)
        .into_iter()
        .rfind(is_answer)
    else {
        return match json_scan::excerpt(&text) {
            output if output.is_empty() => GeminiAnswer::Empty,
            output => GeminiAnswer::Unparsable(AgentRefusal {
                class: FailureClass::UnparsableOutput,
                message: format!("no answer found in the output: {output:?}"),
                retry_after: None,
            }),
        };
    };
    if let Some(refusal) = check_session_id(id, answer["session_id"].as_str()) {
        return GeminiAnswer::Mismatched(refusal);
    }
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").unwrap_or(error);
        let error_text = message
            .as_str()
            .map_or_else(|| message.to_string(), str::to_owned);
        return GeminiAnswer::Failed(error_text);
    }
    let mut events = Vec::new();
    let response = answer["response"].as_str().unwrap_or_default();
    if !response.is_empty() {
        events.push(AgentEvent::Text(response.to_owned()));
    }
    let warnings = answer["warnings"].as_array();
    let mut limited = false;
    if let Some(warnings) = warnings.filter(|warnings| !warnings.is_empty()) {
        limited = warnings
            .iter()
            .filter_map(Value::as_str)
            .any(is_limit_warning);
        events.push(AgentEvent::Unknown(json!({"warnings": warnings}).into()));
    }
    let usage = sum_usage(&answer["stats"]["models"]);
    GeminiAnswer::Finished(events, build_turn_end(limited, usage))
}

/// Returns the sum over all models. Thoughts count as output; tokens for tools count as input.
fn sum_usage(models: &Value) -> Usage {
    let tokens = || {
        let models = models.as_object().into_iter().flatten();
        models.filter_map(|(_, model)| model.get("tokens"))
    };
    let sum_counts = |keys: &[&str]| {
        let counts = tokens().flat_map(|tokens| {
            keys.iter()
                .filter_map(|key| tokens.get(key).and_then(Value::as_u64))
        });
        counts.reduce(u64::saturating_add)
    };
    let total = sum_counts(&["total"]);
    // A turn without a request to the model has no token counts.
    if total == Some(0) {
        return Usage::default();
    }
    Usage {
        input_tokens: sum_counts(&["prompt", "tool"]),
        output_tokens: sum_counts(&["candidates", "thoughts"]),
        cached_tokens: sum_counts(&["cached"]),
        total_tokens: total,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
