//! An answer that was cut off and is told again from its beginning.
//!
//! When a stream breaks, Claude Code asks the model once more and streams the new answer, without a word that what
//! it had streamed before does not count. What was shown can't be taken back, so what is the same is left out.

/// What was told before the break, as far as it is still compared.
#[derive(Debug)]
pub(super) struct Retold {
    before: String,
    matched: usize,
}

impl Retold {
    /// Compares with what was told before; `None` if that was nothing.
    pub(super) fn new(before: String) -> Option<Self> {
        (!before.is_empty()).then_some(Self { before, matched: 0 })
    }

    /// The same from the beginning.
    pub(super) fn again(self) -> Self {
        Self { matched: 0, ..self }
    }

    /// What of the next piece has not been told, and what is left to compare.
    pub(super) fn hear(mut self, piece: &str) -> (Option<Self>, String) {
        let expected = &self.before[self.matched..];
        if let Some(new) = piece.strip_prefix(expected) {
            return (None, new.to_owned());
        }
        if expected.starts_with(piece) {
            self.matched += piece.len();
            return (Some(self), String::new());
        }
        // Another answer than before: the whole of it, apart from what was cut off.
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
