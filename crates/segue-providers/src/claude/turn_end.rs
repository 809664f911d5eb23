//! Conversion of Claude Code's `result` line to the end of a turn, with its usage.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::session::{FailureClass, StopReason, TurnEnd, Usage};
use serde_json::Value;

use crate::AgentError;
use crate::error_class::{self, AgentRefusal};

/// Token counts as the model's API reports them: cache reads and cache writes are separate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClaudeTokenCounts {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

impl ClaudeTokenCounts {
    /// Sets every count that a `usage` object of the API contains.
    pub(super) fn update(&mut self, usage: &Value) {
        let set_count =
            |count: &mut u64, name: &str| *count = usage[name].as_u64().unwrap_or(*count);
        set_count(&mut self.input, "input_tokens");
        set_count(&mut self.cache_read, "cache_read_input_tokens");
        set_count(&mut self.cache_write, "cache_creation_input_tokens");
        set_count(&mut self.output, "output_tokens");
    }

    /// Adds the usage of one model from Claude Code's totals.
    fn add_model_usage(&mut self, model: &Value) {
        let add_count = |count: &mut u64, name: &str| {
            *count = count.saturating_add(model[name].as_u64().unwrap_or(0));
        };
        add_count(&mut self.input, "inputTokens");
        add_count(&mut self.cache_read, "cacheReadInputTokens");
        add_count(&mut self.cache_write, "cacheCreationInputTokens");
        add_count(&mut self.output, "outputTokens");
    }

    fn total_input(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Returns the sum of all counts; `None` if it is 0, because Claude Code reports unknown usage as 0.
    pub(super) fn total(self) -> Option<u64> {
        Some(self.total_input().saturating_add(self.output)).filter(|total| *total > 0)
    }
}

/// Observations during a turn that determine its end.
#[derive(Debug, Default)]
pub(super) struct ClaudeTurnObservations {
    /// Usage of the last request of the native session itself (not of a subagent), which went to `model`.
    pub(super) last_request_tokens: ClaudeTokenCounts,
    pub(super) model: Option<String>,
    /// Delay before Claude Code's last retry.
    pub(super) last_retry_delay: Option<Duration>,
    /// Time at which the user's quota is renewed; `None` if it is not exhausted.
    pub(super) quota_resets_at: Option<Timestamp>,
    /// Whether segue requested a stop of the turn.
    pub(super) cancel_requested: bool,
}

/// Converts a `result` line to the end of the turn, or to an error if the turn failed.
pub(super) fn parse_turn_end(
    result: &Value,
    observations: &ClaudeTurnObservations,
    now: Timestamp,
) -> Result<TurnEnd, AgentError> {
    let Some(reason) = find_stop_reason(result, observations) else {
        let refusal = build_refusal(result, observations, now);
        return Err(AgentError::from_refusal("the prompt", refusal));
    };
    Ok(TurnEnd {
        reason,
        usage: turn_usage(result, observations),
    })
}

/// Returns the reason why Claude Code stopped; `None` if it failed.
fn find_stop_reason(result: &Value, observations: &ClaudeTurnObservations) -> Option<StopReason> {
    let text = |name: &str| result[name].as_str().unwrap_or_default();
    let aborted = text("terminal_reason").starts_with("aborted");
    match (text("subtype"), text("stop_reason")) {
        _ if result["is_error"] == true && (aborted || observations.cancel_requested) => {
            Some(StopReason::Cancelled)
        }
        (_, "refusal") => Some(StopReason::Refusal),
        ("error_max_turns" | "error_max_budget_usd", _) => Some(StopReason::Limit),
        _ if result["is_error"] == true => None,
        (_, "max_tokens" | "model_context_window_exceeded") => Some(StopReason::Limit),
        _ => Some(StopReason::EndTurn),
    }
}

/// Returns the text of a `result` line, else its errors, else its subtype.
pub(super) fn result_text(result: &Value) -> String {
    let text = result["result"].as_str().filter(|text| !text.is_empty());
    if let Some(text) = text {
        return text.to_owned();
    }
    let errors = result["errors"].as_array().into_iter().flatten();
    let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
    if errors.is_empty() {
        return result["subtype"]
            .as_str()
            .unwrap_or("unknown error")
            .to_owned();
    }
    errors.join("; ")
}

fn build_refusal(
    result: &Value,
    observations: &ClaudeTurnObservations,
    now: Timestamp,
) -> AgentRefusal {
    let text = result_text(result);
    let status = result["api_error_status"].as_i64();
    let status = status.and_then(|status| i32::try_from(status).ok());
    let mut refusal = match status {
        // The text names the address that failed, whose digits must not be taken for a status.
        Some(500..529 | 530..600) => AgentRefusal::new(FailureClass::Agent, text),
        Some(529) => AgentRefusal::new(FailureClass::RateLimited, text),
        _ => error_class::classify_error(status, &text),
    };
    if let Some(resets_at) = observations.quota_resets_at.filter(|_| status == Some(429)) {
        refusal.class = FailureClass::Quota;
        refusal.retry_after = Duration::try_from(resets_at.duration_since(now)).ok();
    }
    if refusal.class == FailureClass::RateLimited {
        refusal.retry_after = refusal.retry_after.or(observations.last_retry_delay);
    }
    refusal
}

fn turn_usage(result: &Value, observations: &ClaudeTurnObservations) -> Usage {
    let mut turn_tokens = ClaudeTokenCounts::default();
    match result["model_usage_since_last_result"].as_object() {
        // Only these counts include subagents and summaries.
        Some(models) => models
            .values()
            .for_each(|model| turn_tokens.add_model_usage(model)),
        None => turn_tokens.update(&result["usage"]),
    }
    let is_known = turn_tokens.total().is_some();
    Usage {
        input_tokens: is_known.then_some(turn_tokens.total_input()),
        output_tokens: is_known.then_some(turn_tokens.output),
        cached_tokens: is_known.then_some(turn_tokens.cache_read),
        total_tokens: turn_tokens.total(),
        context_tokens: observations.last_request_tokens.total(),
        context_window: find_context_window(&result["modelUsage"], observations.model.as_deref()),
    }
}

/// Returns the context window of the native session's own model; subagents and summaries may use other models.
fn find_context_window(models: &Value, model: Option<&str>) -> Option<u64> {
    let models = models.as_object()?;
    let by_name = model.and_then(|name| models.get(name));
    let by_canonical_name = || {
        let mut entries = models.values();
        entries.find(|entry| model.is_some() && entry["canonicalModel"].as_str() == model)
    };
    let only_entry = || models.values().next().filter(|_| models.len() == 1);
    by_name.or_else(by_canonical_name).or_else(only_entry)?["contextWindow"].as_u64()
}

#[cfg(test)]
mod tests;
