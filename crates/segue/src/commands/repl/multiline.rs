//! Grouping of lines into one text.
//!
//! A backslash at the end of a line continues the text on the next line. A fence of backticks continues it until the
//! fence is closed.

/// Completeness of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    /// The text ends with a backslash that announces another line.
    Continued,
    /// The text contains a fence that is not closed.
    Fenced,
}

pub(super) fn shape(text: &str) -> Shape {
    if has_open_fence(text) {
        return Shape::Fenced;
    }
    let without = text.trim_end_matches('\\');
    // A doubled backslash is a literal backslash.
    if (text.len() - without.len()) % 2 == 1 {
        Shape::Continued
    } else {
        Shape::Whole
    }
}

fn has_open_fence(text: &str) -> bool {
    let mut open = None;
    for line in text.lines().map(str::trim) {
        let rest = line.trim_start_matches('`');
        let ticks = line.len() - rest.len();
        match open {
            // A line with further backticks is inline code.
            None if ticks >= 3 && !rest.contains('`') => open = Some(ticks),
            Some(opened) if ticks >= opened && rest.is_empty() => open = None,
            None | Some(_) => {}
        }
    }
    open.is_some()
}

/// Lines of a text that is not yet complete.
#[derive(Debug, Default)]
pub(super) struct Gathered(Option<String>);

impl Gathered {
    /// Adds a line. Returns the text once it is complete.
    pub(super) fn add(&mut self, line: &str) -> Option<String> {
        let text = match self.0.take() {
            Some(before) => format!("{before}\n{line}"),
            None => line.to_owned(),
        };
        match shape(&text) {
            Shape::Whole => return Some(text),
            Shape::Continued => {
                let end = text.len() - 1;
                self.0 = text.get(..end).map(str::to_owned);
            }
            Shape::Fenced => self.0 = Some(text),
        }
        None
    }

    /// Returns the incomplete text at the end of the input.
    pub(super) fn rest(&mut self) -> Option<String> {
        self.0.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Removes the backslashes that only continued the text: those at the end of the texts in `begun`, which are the
/// incomplete texts during input. Other backslashes were pasted and remain.
pub(super) fn joined(text: &str, begun: &[String]) -> String {
    let marks: Vec<usize> = begun
        .iter()
        .filter(|begun| {
            let rest = text.strip_prefix(begun.as_str());
            rest.is_some_and(|rest| rest.starts_with('\n'))
        })
        .map(|begun| begun.len() - 1)
        .collect();
    let kept = text.char_indices().filter(|(at, _)| !marks.contains(at));
    kept.map(|(_, c)| c).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_or_a_fence_leaves_a_text_unfinished() {
        let cases = [
            ("", Shape::Whole),
            ("hello", Shape::Whole),
            ("hello \\", Shape::Continued),
            ("C:\\\\", Shape::Whole),
            ("\\\\\\", Shape::Continued),
            ("a\\\nb", Shape::Whole),
            ("```", Shape::Fenced),
            ("look:\n```rust\nfn main() {}", Shape::Fenced),
            ("```\na \\", Shape::Fenced),
            ("```\na\n```", Shape::Whole),
            ("````\n```\n", Shape::Fenced),
            ("````\n```\n````", Shape::Whole),
            ("  ```\nx\n  ``` ", Shape::Whole),
            ("```code``` is how", Shape::Whole),
            ("what does ``` mean?", Shape::Whole),
        ];
        for (text, expected) in cases {
            assert_eq!(shape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_are_gathered_until_the_text_is_whole() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.add("one"), Some("one".into()));
        assert_eq!(gathered.add("two \\"), None);
        assert!(!gathered.is_empty());
        assert_eq!(gathered.add("three"), Some("two \nthree".into()));
        let lines = ["```", "a \\", "", "```"];
        let whole: Vec<_> = lines.iter().filter_map(|line| gathered.add(line)).collect();
        assert_eq!(whole, ["```\na \\\n\n```"]);
        assert_eq!(gathered.add("```"), None);
        assert_eq!(gathered.rest(), Some("```".into()));
        assert_eq!(gathered.rest(), None);
    }

    #[test]
    fn only_marks_that_were_typed_as_such_are_removed() {
        let begun = ["a\\".to_owned(), "a\\\nü\\".to_owned()];
        assert_eq!(joined("a\\\nü\\\nc", &begun), "a\nü\nc");
        assert_eq!(joined("cc a.c \\\n  -o a", &[]), "cc a.c \\\n  -o a");
        assert_eq!(joined("another\\\nü", &begun), "another\\\nü");
    }
}
