//! Conversion of the output of `gemini -o json`: one object, possibly with other text around it.

use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, FailureClass, TurnEnd, Usage};
use serde_json::{Value, json};

use super::stream::{end, is_limit, other_id};
use crate::classify::Refusal;
use crate::noise;

/// Meaning of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Events of the turn, and its end.
    Given(Vec<AgentEvent>, TurnEnd),
    /// Error message of Gemini CLI.
    Failed(String),
    /// An answer that does not match the request.
    Odd(Refusal),
    /// No output. The reason for the failure, if any, is in the error output or the exit status.
    Nothing,
    /// Output that contains no answer.
    NotUnderstood(Refusal),
}

/// Finds the answer for session `id` in the output.
pub(super) fn read(stdout: &[u8], id: &NativeId) -> Answer {
    let text = noise::clean(stdout);
    let is_answer = |object: &Value| {
        let has = |key: &str| object.get(key).is_some();
        has("error") || has("response") || has("session_id")
    };
    let Some(answer) = noise::objects(&text).into_iter().rfind(is_answer) else {
        return match noise::excerpt(&text) {
            words if words.is_empty() => Answer::Nothing,
            words => Answer::NotUnderstood(Refusal {
                class: FailureClass::NotUnderstood,
                message: format!("no answer could be found in what it wrote: {words:?}"),
                retry_after: None,
            }),
        };
    };
    let told = answer.get("session_id").and_then(Value::as_str);
    if let Some(refusal) = other_id(id, told) {
        return Answer::Odd(refusal);
    }
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").unwrap_or(error);
        let words = message
            .as_str()
            .map_or_else(|| message.to_string(), str::to_owned);
        return Answer::Failed(words);
    }
    let mut events = Vec::new();
    if let Some(words) = answer.get("response").and_then(Value::as_str)
        && !words.is_empty()
    {
        events.push(AgentEvent::Text(words.to_owned()));
    }
    let warnings = answer.get("warnings").and_then(Value::as_array);
    let mut limited = false;
    if let Some(warnings) = warnings.filter(|warnings| !warnings.is_empty()) {
        limited = warnings.iter().filter_map(Value::as_str).any(is_limit);
        events.push(AgentEvent::Unknown(json!({"warnings": warnings}).into()));
    }
    let models = answer.get("stats").and_then(|stats| stats.get("models"));
    let usage = models.map_or_else(Usage::default, usage);
    Answer::Given(events, end(limited, usage))
}

/// Returns the sum over all models. Thoughts count as output; tokens for tools count as input.
fn usage(models: &Value) -> Usage {
    let tokens = || {
        let models = models.as_object().into_iter().flatten();
        models.filter_map(|(_, model)| model.get("tokens"))
    };
    let sum = |keys: &[&str]| {
        let figures = tokens().flat_map(|tokens| {
            keys.iter()
                .filter_map(|key| tokens.get(key).and_then(Value::as_u64))
        });
        figures.reduce(u64::saturating_add)
    };
    let total = sum(&["total"]);
    // A turn without a request to the model has no token counts.
    if total == Some(0) {
        return Usage::default();
    }
    Usage {
        input_tokens: sum(&["prompt", "tool"]),
        output_tokens: sum(&["candidates", "thoughts"]),
        cached_tokens: sum(&["cached"]),
        total_tokens: total,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
