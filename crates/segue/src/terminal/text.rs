//! Text layout by display width: cleaning, measuring, cutting, padding and wrapping.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::terminal::{clean, one_line};

/// Puts the text on one line and removes characters that terminals draw at different widths.
pub(crate) fn plain(text: &str) -> String {
    even(&one_line(text.trim_end_matches(['\n', '\r'])))
}

/// Splits the text into lines and cleans each as [`plain`] does.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = String> {
    let text = clean(text).replace('\t', "    ");
    let lines: Vec<String> = text.trim().lines().map(even).collect();
    lines.into_iter()
}

/// Removes characters that terminals draw differently: joined emoji become the first emoji of the sequence, and
/// characters that only select a presentation or a direction are dropped.
fn even(text: &str) -> String {
    let mut even = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{200d}' => drop(rest.next_if(|&c| is_pictogram(c))),
            '\u{200b}'..='\u{200f}'
            | '\u{2060}'..='\u{2064}'
            | '\u{feff}'
            | '\u{61c}'
            | '\u{fe0e}'
            | '\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}' => {}
            _ => even.push(c),
        }
    }
    even
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns the number of columns that a text occupies. Adds up single graphemes as they are drawn, because the width of
/// the complete string counts some pairs of letters as one, which terminals do not.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Returns the longest beginning of the text that fits into `width` columns.
pub(crate) fn fitting(text: &str, width: usize) -> String {
    split(text, width).0.to_owned()
}

/// Returns the text if it fits into `width` columns, else its beginning and `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        _ => format!("{}…", split(text, width - 1).0.trim_end()),
    }
}

/// Returns the text if it fits into `width` columns, else `…` and its end.
pub(crate) fn tail(text: &str, width: usize) -> String {
    if self::width(text) <= width {
        return text.to_owned();
    }
    let mut rest = text;
    while self::width(rest) + 1 > width {
        let first = rest.graphemes(true).next().map_or(0, str::len);
        if first == 0 {
            return String::new();
        }
        rest = rest.split_at(first).1;
    }
    let is_whole = text
        .strip_suffix(rest)
        .is_some_and(|before| before.ends_with(' '));
    let whole = rest
        .split_once(' ')
        .map(|(_, whole)| whole)
        .filter(|_| !is_whole);
    // A word that was cut in two is dropped if other words follow it.
    let rest = whole
        .filter(|whole| !whole.trim().is_empty())
        .unwrap_or(rest);
    format!("…{}", rest.trim_start())
}

/// Cuts the text or pads it at the right to exactly `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let blanks = width.saturating_sub(self::width(&text));
    format!("{text}{}", " ".repeat(blanks))
}

/// Cuts the text or pads it at the left to exactly `width` columns.
pub(crate) fn pad_left(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let blanks = width.saturating_sub(self::width(&text));
    format!("{}{text}", " ".repeat(blanks))
}

/// Splits a line into chunks of at most `width` columns, at blanks if possible.
pub(crate) fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while self::width(rest) > width {
        let (fitting, after) = split(rest, width);
        // A word longer than a third of the line is cut instead of moved to the next line.
        let blank = if after.starts_with(' ') {
            None
        } else {
            fitting.rfind(' ').filter(|&at| at > fitting.len() * 2 / 3)
        };
        let (piece, after) = rest.split_at(blank.unwrap_or(fitting.len()));
        if piece.is_empty() {
            // The width is too small for a single character.
            return pieces;
        }
        pieces.push(piece.to_owned());
        rest = after.trim_start_matches(' ');
    }
    pieces.push(rest.to_owned());
    pieces
}

/// Splits a text after the last character that fits into `width` columns.
fn split(text: &str, width: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme.width();
        if used > width {
            return text.split_at(at);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_disagree_about_is_left_out() {
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
            assert_eq!(plain(text), expected, "{text:?}");
        }
        let many: Vec<String> = lines("\n one\n\ttwo \u{7}\r\nthree\n\n").collect();
        assert_eq!(many, ["one", "    two ", "three"]);
    }

    #[test]
    fn texts_are_cut_and_filled_to_columns() {
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
            assert_eq!(pad(text, width), expected, "{text:?} in {width}");
            assert_eq!(self::width(&pad(text, width)), width);
            assert_eq!(self::width(&pad_left(text, width)), width);
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
            assert_eq!(tail(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn lines_are_wrapped_by_what_they_show() {
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
