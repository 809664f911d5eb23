//! Filter for an answer that restarts from its beginning after its stream broke.
//!
//! When a stream breaks, Claude Code sends the request to the model a second time and streams the new answer, without
//! any sign that the text before the break is invalid. segue cannot retract text that it has printed, so it omits the
//! text that both answers share.

/// Text from before the break, and the length that the new answer has matched so far.
#[derive(Debug)]
pub(super) struct ReplayFilter {
    original: String,
    matched_bytes: usize,
}

impl ReplayFilter {
    /// Creates a filter for the text from before the break; `None` if it is empty.
    pub(super) fn new(original: String) -> Option<Self> {
        (!original.is_empty()).then_some(Self {
            original,
            matched_bytes: 0,
        })
    }

    /// Restarts the comparison from the beginning of the text.
    pub(super) fn restart(self) -> Self {
        Self {
            matched_bytes: 0,
            ..self
        }
    }

    /// Compares the next chunk. Returns the filter, or `None` once the comparison has ended, and the text that is new.
    pub(super) fn filter_chunk(mut self, chunk: &str) -> (Option<Self>, String) {
        let expected = &self.original[self.matched_bytes..];
        if let Some(new_text) = chunk.strip_prefix(expected) {
            return (None, new_text.to_owned());
        }
        if expected.starts_with(chunk) {
            self.matched_bytes += chunk.len();
            return (Some(self), String::new());
        }
        // The answers differ: return the new one in full, separated from the text before the break.
        let matched_text = &self.original[..self.matched_bytes];
        (None, format!("\n\n{matched_text}{chunk}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_text_is_omitted_after_a_broken_stream() {
        let cases: [(&str, &[&str], &str); 6] = [
            ("one two ", &["one ", "two ", "three"], "three"),
            ("one two ", &["one two three"], "three"),
            ("one two ", &["one"], ""),
            ("one two ", &["one ", "too"], "\n\none too"),
            ("one two ", &["other ", "words"], "\n\nother words"),
            ("né", &["n", "è"], "\n\nnè"),
        ];
        for (original, chunks, expected) in cases {
            let mut filter = ReplayFilter::new(original.to_owned());
            let mut output = String::new();
            for chunk in chunks {
                match filter.take() {
                    Some(active_filter) => {
                        let (next_filter, new_text) = active_filter.filter_chunk(chunk);
                        filter = next_filter;
                        output += &new_text;
                    }
                    None => output += chunk,
                }
            }
            assert_eq!(output, expected, "{original:?} then {chunks:?}");
        }
    }
}
