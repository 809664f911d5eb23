//! Grouping of lines into one text.
//!
//! A backslash at the end of a line continues the text on the next line. A fence of backticks continues it until the
//! fence is closed.

/// Completeness of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextCompleteness {
    Complete,
    /// The text ends with a backslash that announces another line.
    Continued,
    /// The text contains a fence that is not closed.
    Fenced,
}

pub(super) fn text_completeness(text: &str) -> TextCompleteness {
    if has_open_fence(text) {
        return TextCompleteness::Fenced;
    }
    let trimmed = text.trim_end_matches('\\');
    // A doubled backslash is a literal backslash.
    if (text.len() - trimmed.len()) % 2 == 1 {
        TextCompleteness::Continued
    } else {
        TextCompleteness::Complete
    }
}

fn has_open_fence(text: &str) -> bool {
    let mut open_fence = None;
    for line in text.lines().map(str::trim) {
        let after_ticks = line.trim_start_matches('`');
        let ticks = line.len() - after_ticks.len();
        match open_fence {
            // A line with further backticks is inline code.
            None if ticks >= 3 && !after_ticks.contains('`') => open_fence = Some(ticks),
            Some(opening_ticks) if ticks >= opening_ticks && after_ticks.is_empty() => {
                open_fence = None;
            }
            None | Some(_) => {}
        }
    }
    open_fence.is_some()
}

/// Lines of a text that is not yet complete.
#[derive(Debug, Default)]
pub(super) struct LineBuffer(Option<String>);

impl LineBuffer {
    /// Adds a line. Returns the text once it is complete.
    pub(super) fn push_line(&mut self, line: &str) -> Option<String> {
        let text = match self.0.take() {
            Some(previous) => format!("{previous}\n{line}"),
            None => line.to_owned(),
        };
        match text_completeness(&text) {
            TextCompleteness::Complete => return Some(text),
            TextCompleteness::Continued => {
                let end = text.len() - 1;
                self.0 = text.get(..end).map(str::to_owned);
            }
            TextCompleteness::Fenced => self.0 = Some(text),
        }
        None
    }

    /// Returns the incomplete text at the end of the input.
    pub(super) fn take_remainder(&mut self) -> Option<String> {
        self.0.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Removes the backslashes that only continued the text: those at the end of the texts in `incomplete_texts`, which are
/// the incomplete texts during input. Other backslashes were pasted and remain.
pub(super) fn remove_continuation_marks(text: &str, incomplete_texts: &[String]) -> String {
    let marks: Vec<usize> = incomplete_texts
        .iter()
        .filter(|incomplete| {
            let remainder = text.strip_prefix(incomplete.as_str());
            remainder.is_some_and(|remainder| remainder.starts_with('\n'))
        })
        .map(|incomplete| incomplete.len() - 1)
        .collect();
    let retained = text.char_indices().filter(|(at, _)| !marks.contains(at));
    retained.map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trailing_backslash_or_an_open_fence_leaves_a_text_incomplete() {
        let cases = [
            ("", TextCompleteness::Complete),
            ("hello", TextCompleteness::Complete),
            ("hello \\", TextCompleteness::Continued),
            ("C:\\\\", TextCompleteness::Complete),
            ("\\\\\\", TextCompleteness::Continued),
            ("a\\\nb", TextCompleteness::Complete),
            ("```", TextCompleteness::Fenced),
            ("look:\n```rust\nfn main() {}", TextCompleteness::Fenced),
            ("```\na \\", TextCompleteness::Fenced),
            ("```\na\n```", TextCompleteness::Complete),
            ("````\n```\n", TextCompleteness::Fenced),
            ("````\n```\n````", TextCompleteness::Complete),
            ("  ```\nx\n  ``` ", TextCompleteness::Complete),
            ("```code``` is how", TextCompleteness::Complete),
            ("what does ``` mean?", TextCompleteness::Complete),
        ];
        for (text, expected) in cases {
            assert_eq!(text_completeness(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_are_buffered_until_the_text_is_complete() {
        let mut buffer = LineBuffer::default();
        assert_eq!(buffer.push_line("one"), Some("one".into()));
        assert_eq!(buffer.push_line("two \\"), None);
        assert!(!buffer.is_empty());
        assert_eq!(buffer.push_line("three"), Some("two \nthree".into()));
        let lines = ["```", "a \\", "", "```"];
        let complete: Vec<_> = lines
            .iter()
            .filter_map(|line| buffer.push_line(line))
            .collect();
        assert_eq!(complete, ["```\na \\\n\n```"]);
        assert_eq!(buffer.push_line("```"), None);
        assert_eq!(buffer.take_remainder(), Some("```".into()));
        assert_eq!(buffer.take_remainder(), None);
    }

    #[test]
    fn only_typed_continuation_marks_are_removed() {
        let incomplete_texts = ["a\\".to_owned(), "a\\\nü\\".to_owned()];
        assert_eq!(
            remove_continuation_marks("a\\\nü\\\nc", &incomplete_texts),
            "a\nü\nc"
        );
        assert_eq!(
            remove_continuation_marks("cc a.c \\\n  -o a", &[]),
            "cc a.c \\\n  -o a"
        );
        assert_eq!(
            remove_continuation_marks("another\\\nü", &incomplete_texts),
            "another\\\nü"
        );
    }
}
