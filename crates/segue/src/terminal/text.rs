//! Text layout by display width: cleaning, measuring, cutting, padding and wrapping.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::terminal::{strip_control_chars, to_single_line};

/// Puts the text on one line and removes characters that terminals draw at different widths.
pub(crate) fn to_plain_line(text: &str) -> String {
    normalise_widths(&to_single_line(text.trim_end_matches(['\n', '\r'])))
}

/// Splits the text into lines and cleans each as [`to_plain_line`] does.
pub(crate) fn to_plain_lines(text: &str) -> impl Iterator<Item = String> {
    let text = strip_control_chars(text).replace('\t', "    ");
    let lines: Vec<String> = text.trim().lines().map(normalise_widths).collect();
    lines.into_iter()
}

/// Removes characters that terminals draw differently: joined emoji become the first emoji of the sequence, and
/// characters that only select a presentation or a direction are dropped.
fn normalise_widths(text: &str) -> String {
    let mut normalised = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{200d}' => drop(chars.next_if(|&c| is_pictogram(c))),
            '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2064}'
            | '\u{feff}'
            | '\u{61c}'
            | '\u{fe0e}'
            | '\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}' => {}
            _ => normalised.push(c),
        }
    }
    normalised
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns the number of columns that a text occupies. Adds up single graphemes as they are drawn, because the width of
/// the complete string counts some pairs of letters as one, which terminals do not.
pub(crate) fn display_width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Returns the longest beginning of the text that fits into `max_width` columns.
pub(crate) fn fitting_prefix(text: &str, max_width: usize) -> String {
    split_at_width(text, max_width).0.to_owned()
}

/// Returns the text if it fits into `max_width` columns, else its beginning and `…`.
pub(crate) fn truncate(text: &str, max_width: usize) -> String {
    if self::display_width(text) <= max_width {
        return text.to_owned();
    }
    match max_width {
        0 => String::new(),
        _ => format!("{}…", split_at_width(text, max_width - 1).0.trim_end()),
    }
}

/// Returns the text if it fits into `max_width` columns, else `…` and its end.
pub(crate) fn truncate_start(text: &str, max_width: usize) -> String {
    if self::display_width(text) <= max_width {
        return text.to_owned();
    }
    let mut suffix = text;
    while self::display_width(suffix) + 1 > max_width {
        let first = suffix.graphemes(true).next().map_or(0, str::len);
        if first == 0 {
            return String::new();
        }
        suffix = suffix.split_at(first).1;
    }
    let is_word_boundary = text
        .strip_suffix(suffix)
        .is_some_and(|before| before.ends_with(' '));
    let complete_words = suffix
        .split_once(' ')
        .map(|(_, complete_words)| complete_words)
        .filter(|_| !is_word_boundary);
    // A word that was cut in two is dropped if other words follow it.
    let suffix = complete_words
        .filter(|complete_words| !complete_words.trim().is_empty())
        .unwrap_or(suffix);
    format!("…{}", suffix.trim_start())
}

/// Cuts the text or pads it at the right to exactly `target_width` columns.
pub(crate) fn pad_right(text: &str, target_width: usize) -> String {
    let text = truncate(text, target_width);
    let blanks = target_width.saturating_sub(self::display_width(&text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Cuts the text or pads it at the left to exactly `target_width` columns.
pub(crate) fn pad_left(text: &str, target_width: usize) -> String {
    let text = truncate(text, target_width);
    let blanks = target_width.saturating_sub(self::display_width(&text));
    format!("{}{text}", " ".repeat(blanks))
}

/// Splits a line into chunks of at most `max_width` columns, at blanks if possible.
pub(crate) fn wrap(line: &str, max_width: usize) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut remaining = line;
    while self::display_width(remaining) > max_width {
        let (fitting, after) = split_at_width(remaining, max_width);
        // A word longer than a third of the line is cut instead of moved to the next line.
        let blank = if after.starts_with(' ') {
            None
        } else {
            fitting.rfind(' ').filter(|&at| at > fitting.len() * 2 / 3)
        };
        let (chunk, after) = remaining.split_at(blank.unwrap_or(fitting.len()));
        if chunk.is_empty() {
            // The width is too small for a single character.
            return chunks;
        }
        chunks.push(chunk.to_owned());
        remaining = after.trim_start_matches(' ');
    }
    chunks.push(remaining.to_owned());
    chunks
}

/// Splits a text after the last character that fits into `max_width` columns.
fn split_at_width(text: &str, max_width: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme.width();
        if used > max_width {
            return text.split_at(at);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_with_ambiguous_width_are_removed() {
        let cases = [
            ("plain", "plain"),
            ("a\nb\tc\u{1b}[2Jd\u{202e}", "a b cd"),
            ("👨\u{200d}👩\u{200d}👧 family", "👨 family"),
            ("❤\u{fe0f} heart", "❤ heart"),
            ("👍🏽 thumb", "👍 thumb"),
            ("zero\u{200b}width\u{feff}", "zerowidth"),
            ("क्\u{200d}ष", "क्ष"),
            ("עברית", "עברית"),
        ];
        for (text, expected) in cases {
            assert_eq!(to_plain_line(text), expected, "{text:?}");
        }
        let plain_lines: Vec<String> = to_plain_lines("\n one\n\ttwo \u{7}\r\nthree\n\n").collect();
        assert_eq!(plain_lines, ["one", "    two ", "three"]);
    }

    #[test]
    fn texts_are_truncated_and_padded_to_columns() {
        let cases = [
            ("abc", 5, "abc  "),
            ("abcdef", 5, "abcd…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日… "),
            ("ab cdef", 4, "ab… "),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("لا", 3, "لا "),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ];
        for (text, width, expected) in cases {
            assert_eq!(pad_right(text, width), expected, "{text:?} in {width}");
            assert_eq!(self::display_width(&pad_right(text, width)), width);
            assert_eq!(self::display_width(&pad_left(text, width)), width);
        }
        assert_eq!(pad_left("5m", 4), "  5m");
        let tails = [
            ("abc", 3, "abc"),
            ("abc def", 4, "…def"),
            ("abc def", 5, "…def"),
            ("日本", 3, "…本"),
            ("say abc def ", 8, "…def "),
            ("say abc def", 8, "…abc def"),
            ("ab", 0, ""),
        ];
        for (text, width, expected) in tails {
            assert_eq!(truncate_start(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn lines_are_wrapped_by_display_width() {
        let cases = [
            ("one two three", 9, vec!["one two", "three"]),
            ("one two three", 7, vec!["one two", "three"]),
            ("日本語日本語", 5, vec!["日本", "語日", "本語"]),
            ("aaaaaaaaaa", 4, vec!["aaaa", "aaaa", "aa"]),
            ("", 4, vec![""]),
            ("日", 1, vec![]),
        ];
        for (line, width, expected) in cases {
            assert_eq!(wrap(line, width), expected, "{line:?} in {width}");
        }
    }
}
