//! Usage of a turn, computed from the thread's running total, because Codex reports only that total.

use segue_core::session::Usage;
use serde_json::Value;

/// Token usage of a thread so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CodexTokenCounts {
    input: u64,
    cached: u64,
    output: u64,
}

impl CodexTokenCounts {
    /// Reads the format of `app-server`.
    pub(crate) fn from_camel_case(value: &Value) -> Option<Self> {
        Some(Self {
            input: value["inputTokens"].as_u64()?,
            cached: value["cachedInputTokens"].as_u64()?,
            output: value["outputTokens"].as_u64()?,
        })
    }

    /// Reads the format of `exec` and of the thread's own file.
    pub(crate) fn from_snake_case(value: &Value) -> Option<Self> {
        Some(Self {
            input: value["input_tokens"].as_u64()?,
            cached: value["cached_input_tokens"].as_u64()?,
            output: value["output_tokens"].as_u64()?,
        })
    }

    /// Returns the usage since `earlier`; `None` if this total does not continue the same count.
    fn usage_since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(earlier.input)?,
            cached: self.cached.checked_sub(earlier.cached)?,
            output: self.output.checked_sub(earlier.output)?,
        })
    }

    fn saturating_add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cached: self.cached.saturating_add(other.cached),
            output: self.output.saturating_add(other.output),
        }
    }
}

/// Size of the context and of its window, as far as Codex reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ContextFill {
    pub(crate) tokens: Option<u64>,
    pub(crate) window: Option<u64>,
}

/// Counter of the usage of each turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CodexUsageMeter {
    /// Total of the thread as last reported; `None` if unknown.
    thread_total: Option<CodexTokenCounts>,
    /// Usage of the turn; `None` if it cannot be determined.
    turn_tokens: Option<CodexTokenCounts>,
    context: ContextFill,
}

impl CodexUsageMeter {
    /// Creates a meter for a thread without any usage.
    pub(crate) fn for_new_thread() -> Self {
        Self::with_thread_total(Some(CodexTokenCounts::default()))
    }

    /// Creates a meter for a thread that has used `thread_total`; `None` if unknown.
    pub(crate) fn with_thread_total(thread_total: Option<CodexTokenCounts>) -> Self {
        Self {
            thread_total,
            ..Self::default()
        }
    }

    /// Starts a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn_tokens = self.thread_total.map(|_| CodexTokenCounts::default());
        self.context = ContextFill::default();
    }

    /// Sets the total before the turn, which Codex may report after the turn has started.
    pub(crate) fn set_initial_total(&mut self, total: CodexTokenCounts) {
        if self.thread_total.is_none() {
            self.turn_tokens = Some(CodexTokenCounts::default());
        }
        self.thread_total = Some(total);
    }

    /// Updates the total within the turn. `last` is the usage of the turn's last request.
    pub(crate) fn update_total(
        &mut self,
        total: CodexTokenCounts,
        last: Option<CodexTokenCounts>,
        context: ContextFill,
    ) {
        match self.thread_total {
            // Codex restarts its count after a prompt that was too long; that prompt used no tokens.
            Some(earlier) => {
                let increase = total.usage_since(earlier).unwrap_or_default();
                self.turn_tokens = self
                    .turn_tokens
                    .map(|tokens| tokens.saturating_add(increase));
            }
            None if last == Some(total) => self.turn_tokens = last,
            None => {}
        }
        self.thread_total = Some(total);
        self.context = context;
    }

    /// Sets the context usage, if Codex reports it separately.
    pub(crate) fn set_context(&mut self, context: ContextFill) {
        self.context = context;
    }

    /// Returns the usage of the turn so far.
    pub(crate) fn turn_usage(&self) -> Usage {
        let tokens = self
            .turn_tokens
            .filter(|tokens| *tokens != CodexTokenCounts::default());
        Usage {
            input_tokens: tokens.map(|tokens| tokens.input),
            output_tokens: tokens.map(|tokens| tokens.output),
            cached_tokens: tokens.map(|tokens| tokens.cached),
            total_tokens: tokens.map(|tokens| tokens.input.saturating_add(tokens.output)),
            context_tokens: self.context.tokens,
            context_window: self.context.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_counts(input: u64, cached: u64, output: u64) -> CodexTokenCounts {
        CodexTokenCounts {
            input,
            cached,
            output,
        }
    }

    fn context_fill() -> ContextFill {
        ContextFill {
            tokens: Some(121),
            window: Some(258_400),
        }
    }

    #[test]
    fn the_usage_of_a_turn_is_the_increase_of_the_total() {
        let mut meter = CodexUsageMeter::for_new_thread();
        for _ in 0..2 {
            meter.begin_turn();
            let (first, second) = match meter.thread_total {
                Some(before) if before != CodexTokenCounts::default() => {
                    (token_counts(303, 33, 60), token_counts(404, 44, 80))
                }
                _ => (token_counts(101, 11, 20), token_counts(202, 22, 40)),
            };
            meter.update_total(first, None, context_fill());
            // Codex sends the same total repeatedly.
            meter.update_total(first, None, context_fill());
            meter.update_total(second, None, context_fill());
            let expected = Usage {
                input_tokens: Some(202),
                output_tokens: Some(40),
                cached_tokens: Some(22),
                total_tokens: Some(242),
                context_tokens: Some(121),
                context_window: Some(258_400),
            };
            assert_eq!(meter.turn_usage(), expected);
        }
    }

    #[test]
    fn earlier_usage_is_not_counted_for_the_turn() {
        let request = token_counts(101, 11, 20);
        let cases = [
            // (total before the turn, reported total, input tokens of the turn)
            (
                Some(token_counts(303, 33, 60)),
                token_counts(404, 44, 80),
                Some(101),
            ),
            (None, token_counts(404, 44, 80), None),
            (None, request, Some(101)),
            // A count that Codex restarted.
            (Some(token_counts(303, 33, 60)), token_counts(0, 0, 0), None),
        ];
        for (before, reported, expected) in cases {
            let mut meter = CodexUsageMeter::with_thread_total(before);
            meter.begin_turn();
            meter.update_total(reported, Some(request), context_fill());
            assert_eq!(
                meter.turn_usage().input_tokens,
                expected,
                "{before:?} {reported:?}"
            );
        }
    }

    #[test]
    fn a_turn_after_one_of_unknown_usage_has_known_usage() {
        let mut meter = CodexUsageMeter::with_thread_total(None);
        meter.begin_turn();
        meter.update_total(token_counts(404, 44, 80), None, context_fill());
        meter.begin_turn();
        meter.update_total(token_counts(505, 55, 100), None, context_fill());
        assert_eq!(meter.turn_usage().input_tokens, Some(101));
    }

    #[test]
    fn a_turn_without_token_counts_has_unknown_usage() {
        let mut meter = CodexUsageMeter::for_new_thread();
        meter.begin_turn();
        assert_eq!(meter.turn_usage(), Usage::default());
    }
}
