//! Conversion of Claude Code's `result` line to the end of a turn, with its usage.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::session::{FailureClass, StopReason, TurnEnd, Usage};
use serde_json::Value;

use crate::AgentError;
use crate::classify::{self, Refusal};

/// Token counts as the model's API reports them: cache reads and cache writes are separate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    input: u64,
    cache_read: u64,
    cache_written: u64,
    output: u64,
}

impl Tokens {
    /// Sets every count that a `usage` object of the API contains.
    pub(super) fn update(&mut self, usage: &Value) {
        let take = |old: &mut u64, name: &str| *old = usage[name].as_u64().unwrap_or(*old);
        take(&mut self.input, "input_tokens");
        take(&mut self.cache_read, "cache_read_input_tokens");
        take(&mut self.cache_written, "cache_creation_input_tokens");
        take(&mut self.output, "output_tokens");
    }

    /// Adds the usage of one model from Claude Code's totals.
    fn add(&mut self, model: &Value) {
        let add = |sum: &mut u64, name: &str| {
            *sum = sum.saturating_add(model[name].as_u64().unwrap_or(0));
        };
        add(&mut self.input, "inputTokens");
        add(&mut self.cache_read, "cacheReadInputTokens");
        add(&mut self.cache_written, "cacheCreationInputTokens");
        add(&mut self.output, "outputTokens");
    }

    fn sent(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_written)
    }

    /// Returns the sum of all counts; `None` if it is 0, because Claude Code reports unknown usage as 0.
    pub(super) fn total(self) -> Option<u64> {
        Some(self.sent().saturating_add(self.output)).filter(|total| *total > 0)
    }
}

/// Observations during a turn that determine its end.
#[derive(Debug, Default)]
pub(super) struct Noted {
    /// Usage of the last request of the native session itself (not of a subagent), which went to `model`.
    pub(super) last: Tokens,
    pub(super) model: Option<String>,
    /// Delay before Claude Code's last retry.
    pub(super) waited: Option<Duration>,
    /// Time at which the user's quota is renewed; `None` if it is not exhausted.
    pub(super) spent_until: Option<Timestamp>,
    /// Whether segue requested a stop of the turn.
    pub(super) cancelled: bool,
}

/// Converts a `result` line to the end of the turn, or to an error if the turn failed.
pub(super) fn of(result: &Value, noted: &Noted, now: Timestamp) -> Result<TurnEnd, AgentError> {
    let Some(reason) = reason(result, noted) else {
        let refusal = refusal(result, noted, now);
        return Err(AgentError::refused("the prompt", refusal));
    };
    Ok(TurnEnd {
        reason,
        usage: usage(result, noted),
    })
}

/// Returns the reason why Claude Code stopped; `None` if it failed.
fn reason(result: &Value, noted: &Noted) -> Option<StopReason> {
    let text = |name: &str| result[name].as_str().unwrap_or_default();
    let aborted = text("terminal_reason").starts_with("aborted");
    match (text("subtype"), text("stop_reason")) {
        _ if result["is_error"] == true && (aborted || noted.cancelled) => {
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
pub(super) fn words(result: &Value) -> String {
    let text = result["result"].as_str().filter(|text| !text.is_empty());
    if let Some(text) = text {
        return text.to_owned();
    }
    let errors = result["errors"].as_array().into_iter().flatten();
    let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
    if errors.is_empty() {
        return result["subtype"].as_str().unwrap_or("an error").to_owned();
    }
    errors.join("; ")
}

fn refusal(result: &Value, noted: &Noted, now: Timestamp) -> Refusal {
    let text = words(result);
    let status = result["api_error_status"].as_i64();
    let status = status.and_then(|status| i32::try_from(status).ok());
    let mut refusal = match status {
        // The text names the address that failed, whose digits must not be taken for a status.
        Some(500..529 | 530..600) => Refusal::new(FailureClass::Agent, text),
        Some(529) => Refusal::new(FailureClass::RateLimited, text),
        _ => classify::answer(status, &text),
    };
    if let Some(until) = noted.spent_until.filter(|_| status == Some(429)) {
        refusal.class = FailureClass::Quota;
        refusal.retry_after = Duration::try_from(until.duration_since(now)).ok();
    }
    if refusal.class == FailureClass::RateLimited {
        refusal.retry_after = refusal.retry_after.or(noted.waited);
    }
    refusal
}

fn usage(result: &Value, noted: &Noted) -> Usage {
    let mut spent = Tokens::default();
    match result["model_usage_since_last_result"].as_object() {
        // Only these counts include subagents and summaries.
        Some(models) => models.values().for_each(|model| spent.add(model)),
        None => spent.update(&result["usage"]),
    }
    let known = spent.total().is_some();
    Usage {
        input_tokens: known.then_some(spent.sent()),
        output_tokens: known.then_some(spent.output),
        cached_tokens: known.then_some(spent.cache_read),
        total_tokens: spent.total(),
        context_tokens: noted.last.total(),
        context_window: window(&result["modelUsage"], noted.model.as_deref()),
    }
}

/// Returns the context window of the native session's own model; subagents and summaries may use other models.
fn window(models: &Value, model: Option<&str>) -> Option<u64> {
    let models = models.as_object()?;
    let by_name = model.and_then(|name| models.get(name));
    let by_origin = || {
        let mut all = models.values();
        all.find(|one| model.is_some() && one["canonicalModel"].as_str() == model)
    };
    let only = || models.values().next().filter(|_| models.len() == 1);
    by_name.or_else(by_origin).or_else(only)?["contextWindow"].as_u64()
}

#[cfg(test)]
mod tests;
