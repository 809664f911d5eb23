//! Filter for an answer that restarts from its beginning after its stream broke.
//!
//! When a stream breaks, Claude Code sends the request to the model a second time and streams the new answer, without
//! any sign that the text before the break is invalid. segue cannot retract text that it has printed, so it omits the
//! text that both answers share.

/// Text from before the break, and the length that the new answer has matched so far.
#[derive(Debug)]
pub(super) struct Retold {
    before: String,
    matched: usize,
}

impl Retold {
    /// Creates a filter for the text from before the break; `None` if it is empty.
    pub(super) fn new(before: String) -> Option<Self> {
        (!before.is_empty()).then_some(Self { before, matched: 0 })
    }

    /// Restarts the comparison from the beginning of the text.
    pub(super) fn again(self) -> Self {
        Self { matched: 0, ..self }
    }

    /// Compares the next chunk. Returns the filter, or `None` once the comparison has ended, and the text that is new.
    pub(super) fn hear(mut self, piece: &str) -> (Option<Self>, String) {
        let expected = &self.before[self.matched..];
        if let Some(new) = piece.strip_prefix(expected) {
            return (None, new.to_owned());
        }
        if expected.starts_with(piece) {
            self.matched += piece.len();
            return (Some(self), String::new());
        }
        // The answers differ: return the new one in full, separated from the text before the break.
        let again = &self.before[..self.matched];
        (None, format!("\n\n{again}{piece}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_not_told_again() {
        let cases: [(&str, &[&str], &str); 6] = [
            ("one two ", &["one ", "two ", "three"], "three"),
            ("one two ", &["one two three"], "three"),
            ("one two ", &["one"], ""),
            ("one two ", &["one ", "too"], "\n\none too"),
            ("one two ", &["other ", "words"], "\n\nother words"),
            ("né", &["n", "è"], "\n\nnè"),
        ];
        for (before, pieces, expected) in cases {
            let mut retold = Retold::new(before.to_owned());
            let mut told = String::new();
            for piece in pieces {
                match retold.take() {
                    Some(comparing) => {
                        let (left, new) = comparing.hear(piece);
                        retold = left;
                        told += &new;
                    }
                    None => told += piece,
                }
            }
            assert_eq!(told, expected, "{before:?} then {pieces:?}");
        }
    }
}
