//! Usage of a turn, computed from the thread's running total, because Codex reports only that total.

use segue_core::session::Usage;
use serde_json::Value;

/// Token usage of a thread so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Total {
    input: u64,
    cached: u64,
    output: u64,
}

impl Total {
    /// Reads the format of `app-server`.
    pub(crate) fn camel(value: &Value) -> Option<Self> {
        Some(Self {
            input: value["inputTokens"].as_u64()?,
            cached: value["cachedInputTokens"].as_u64()?,
            output: value["outputTokens"].as_u64()?,
        })
    }

    /// Reads the format of `exec` and of the thread's own file.
    pub(crate) fn snake(value: &Value) -> Option<Self> {
        Some(Self {
            input: value["input_tokens"].as_u64()?,
            cached: value["cached_input_tokens"].as_u64()?,
            output: value["output_tokens"].as_u64()?,
        })
    }

    /// Returns the usage since `earlier`; `None` if this total does not continue the same count.
    fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            input: self.input.checked_sub(earlier.input)?,
            cached: self.cached.checked_sub(earlier.cached)?,
            output: self.output.checked_sub(earlier.output)?,
        })
    }

    fn plus(self, more: Self) -> Self {
        Self {
            input: self.input.saturating_add(more.input),
            cached: self.cached.saturating_add(more.cached),
            output: self.output.saturating_add(more.output),
        }
    }
}

/// Size of the context and of its window, as far as Codex reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) tokens: Option<u64>,
    pub(crate) window: Option<u64>,
}

/// Counter of the usage of each turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Total of the thread as last reported; `None` if unknown.
    total: Option<Total>,
    /// Usage of the turn; `None` if it cannot be determined.
    spent: Option<Total>,
    fill: Fill,
}

impl Meter {
    /// Creates a meter for a thread without any usage.
    pub(crate) fn fresh() -> Self {
        Self::after(Some(Total::default()))
    }

    /// Creates a meter for a thread that has used `total`; `None` if unknown.
    pub(crate) fn after(total: Option<Total>) -> Self {
        Self {
            total,
            ..Self::default()
        }
    }

    /// Starts a turn.
    pub(crate) fn begin(&mut self) {
        self.spent = self.total.map(|_| Total::default());
        self.fill = Fill::default();
    }

    /// Sets the total before the turn, which Codex may report after the turn has started.
    pub(crate) fn stands_at(&mut self, total: Total) {
        if self.total.is_none() {
            self.spent = Some(Total::default());
        }
        self.total = Some(total);
    }

    /// Updates the total within the turn. `last` is the usage of the turn's last request.
    pub(crate) fn told(&mut self, total: Total, last: Option<Total>, fill: Fill) {
        match self.total {
            // Codex restarts its count after a prompt that was too long; that prompt used no tokens.
            Some(earlier) => {
                let more = total.since(earlier).unwrap_or_default();
                self.spent = self.spent.map(|spent| spent.plus(more));
            }
            None if last == Some(total) => self.spent = last,
            None => {}
        }
        self.total = Some(total);
        self.fill = fill;
    }

    /// Sets the context usage, if Codex reports it separately.
    pub(crate) fn filled(&mut self, fill: Fill) {
        self.fill = fill;
    }

    /// Returns the usage of the turn so far.
    pub(crate) fn usage(&self) -> Usage {
        let spent = self.spent.filter(|spent| *spent != Total::default());
        Usage {
            input_tokens: spent.map(|spent| spent.input),
            output_tokens: spent.map(|spent| spent.output),
            cached_tokens: spent.map(|spent| spent.cached),
            total_tokens: spent.map(|spent| spent.input.saturating_add(spent.output)),
            context_tokens: self.fill.tokens,
            context_window: self.fill.window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(input: u64, cached: u64, output: u64) -> Total {
        Total {
            input,
            cached,
            output,
        }
    }

    fn fill() -> Fill {
        Fill {
            tokens: Some(121),
            window: Some(258_400),
        }
    }

    #[test]
    fn a_turn_is_what_the_total_grew_by() {
        let mut meter = Meter::fresh();
        for _ in 0..2 {
            meter.begin();
            let (first, second) = match meter.total {
                Some(before) if before != Total::default() => {
                    (total(303, 33, 60), total(404, 44, 80))
                }
                _ => (total(101, 11, 20), total(202, 22, 40)),
            };
            meter.told(first, None, fill());
            // Codex sends the same total repeatedly.
            meter.told(first, None, fill());
            meter.told(second, None, fill());
            let expected = Usage {
                input_tokens: Some(202),
                output_tokens: Some(40),
                cached_tokens: Some(22),
                total_tokens: Some(242),
                context_tokens: Some(121),
                context_window: Some(258_400),
            };
            assert_eq!(meter.usage(), expected);
        }
    }

    #[test]
    fn what_was_used_before_is_not_of_this_turn() {
        let request = total(101, 11, 20);
        let cases = [
            // (total before the turn, reported total, input tokens of the turn)
            (Some(total(303, 33, 60)), total(404, 44, 80), Some(101)),
            (None, total(404, 44, 80), None),
            (None, request, Some(101)),
            // A count that Codex restarted.
            (Some(total(303, 33, 60)), total(0, 0, 0), None),
        ];
        for (before, told, expected) in cases {
            let mut meter = Meter::after(before);
            meter.begin();
            meter.told(told, Some(request), fill());
            assert_eq!(meter.usage().input_tokens, expected, "{before:?} {told:?}");
        }
    }

    #[test]
    fn a_turn_after_an_unknown_one_is_known() {
        let mut meter = Meter::after(None);
        meter.begin();
        meter.told(total(404, 44, 80), None, fill());
        meter.begin();
        meter.told(total(505, 55, 100), None, fill());
        assert_eq!(meter.usage().input_tokens, Some(101));
    }

    #[test]
    fn nothing_counted_is_unknown() {
        let mut meter = Meter::fresh();
        meter.begin();
        assert_eq!(meter.usage(), Usage::default());
    }
}
