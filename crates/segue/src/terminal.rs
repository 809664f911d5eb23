//! Terminal output: colours, widths, and removal of control characters.

mod table;
pub(crate) mod text;
mod time;

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;

use segue_api::text::format_decision;
use segue_core::session::Decision;

use crate::frontend::Frontend;

pub(crate) use segue_core::number_format::format_plural;
pub(crate) use table::{Table, shorten_to_width};
pub(crate) use time::format_age;

/// Colour setting of an output stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    pub(crate) fn stdout() -> Self {
        Self::detect(std::io::stdout().is_terminal())
    }

    pub(crate) fn stderr() -> Self {
        Self::detect(std::io::stderr().is_terminal())
    }

    fn detect(is_terminal: bool) -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_supported = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            colour: is_terminal && is_wanted && is_supported,
        }
    }

    pub(crate) fn has_colour(self) -> bool {
        self.colour
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// Prints a line to standard output. Ignores a closed reader, because no one is left to report it to.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line to standard output, and returns `Break` if the reader is closed.
pub(crate) fn try_print_line(line: &str) -> ControlFlow<()> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// Splits a line into chunks of at most `max_width` characters, at blanks if possible.
pub(crate) fn wrap(line: &str, max_width: Option<usize>) -> Vec<&str> {
    let Some(max_width) = max_width.filter(|&max_width| max_width >= 20) else {
        return vec![line];
    };
    let mut chunks = Vec::new();
    let mut remaining = line;
    while let Some((end, _)) = remaining.char_indices().nth(max_width) {
        let fitting = remaining.split_at(end).0;
        // A word longer than a third of the line is cut instead of moved to the next line.
        let blank = fitting.rfind(' ').filter(|&blank| blank > end * 2 / 3);
        let (chunk, after) = remaining.split_at(blank.unwrap_or(end));
        chunks.push(chunk);
        remaining = if blank.is_some() {
            after.trim_start_matches(' ')
        } else {
            after
        };
    }
    chunks.push(remaining);
    chunks
}

/// Formats a size in bytes with a decimal unit.
pub(crate) fn format_bytes(size: u64) -> String {
    const SIZE_UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if size < 1000 {
        return format!("{size} B");
    }
    // Tenths of a unit are exact enough and avoid fractions.
    let mut tenths = size / 100;
    let mut unit = 0;
    while tenths >= 10_000 && unit + 1 < SIZE_UNITS.len() {
        tenths /= 1000;
        unit += 1;
    }
    let unit_name = SIZE_UNITS.get(unit).copied().unwrap_or_default();
    if tenths < 100 {
        format!("{}.{} {unit_name}", tenths / 10, tenths % 10)
    } else {
        format!("{} {unit_name}", tenths / 10)
    }
}

/// Prints a line to standard error.
pub(crate) fn eprint_line(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a note of segue to standard error, after a prefix. Removes control characters.
pub(crate) fn eprint_note(note: &str) {
    let prefix = Style::stderr().yellow("segue:");
    eprint_line(&format!("{prefix} {}", strip_control_chars(note)));
}

/// Reports automatic decisions of segue, with actions in the words of the frontend.
pub(crate) fn eprint_decisions<'a>(
    decisions: impl IntoIterator<Item = &'a Decision>,
    frontend: Frontend<'_>,
) {
    for decision in decisions {
        eprint_note(&format_decision(decision, &frontend));
    }
}

/// Removes all characters that would control a terminal, except line ends and tabs.
pub(crate) fn strip_control_chars(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_escape_sequence(&mut chars);
        } else if c == '\n' || c == '\t' || !(c.is_control() || is_direction_control(c)) {
            cleaned.push(c);
        }
    }
    cleaned
}

/// Skips the remainder of a control sequence after its escape character, such as `[31m`. Skips nothing if the sequence
/// is not complete.
fn skip_escape_sequence(chars: &mut std::str::Chars<'_>) {
    let mut ahead = chars.clone();
    if ahead.next() != Some('[') {
        return;
    }
    let is_parameter = |c: &char| ('\u{20}'..='\u{3f}').contains(c);
    let length = ahead.clone().take_while(is_parameter).count();
    if ahead
        .nth(length)
        .is_some_and(|end| ('@'..='~').contains(&end))
    {
        *chars = ahead;
    }
}

/// Cleans the text and puts it on one line, so that no text can imitate segue's own lines.
pub(crate) fn to_single_line(text: &str) -> String {
    strip_control_chars(text).replace(['\n', '\t'], " ")
}

/// Returns `true` if the character changes the direction in which text is displayed.
fn is_direction_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the number of lines of the terminal. `None` if standard output is not a terminal.
pub(crate) fn terminal_height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Returns the width in columns, at least 40: `COLUMNS` if it is set, else the width of the terminal. `None` if
/// standard output is not a terminal and `COLUMNS` is not set.
pub(crate) fn terminal_width() -> Option<usize> {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let terminal = || {
        Some(
            rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()?
                .ws_col
                .into(),
        )
    };
    columns
        .or_else(terminal)
        .map(|columns: usize| columns.max(40))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_in_a_fitting_unit() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (45_230, "45 KB"),
            (44_756_992, "44 MB"),
            (999_999, "999 KB"),
            (2_000_000_000, "2.0 GB"),
        ];
        for (size, expected) in cases {
            assert_eq!(format_bytes(size), expected);
        }
    }

    #[test]
    fn a_noun_is_plural_unless_the_count_is_one() {
        let cases = [(0, "0 turns"), (1, "1 turn"), (1_200, "1,200 turns")];
        for (count, expected) in cases {
            assert_eq!(format_plural(count, "turn"), expected);
        }
    }

    #[test]
    fn control_characters_and_escape_sequences_are_removed() {
        assert_eq!(
            strip_control_chars("a\x1b[31mb\u{9b}c\rd\x07\ne\tf\u{202e}g"),
            "abcd\ne\tfg"
        );
        // An incomplete sequence remains, without the escape character.
        assert_eq!(strip_control_chars("a\x1b[31"), "a[31");
        assert_eq!(strip_control_chars("\x1b]0;t\x07x"), "]0;tx");
    }

    #[test]
    fn long_lines_are_broken_at_blanks() {
        let cases = [
            ("short", vec!["short"]),
            (
                "one two three four five six",
                vec!["one two three four", "five six"],
            ),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaa",
                vec!["aaaaaaaaaaaaaaaaaaaa", "aaaaa"],
            ),
            ("üüüüüüüüüüüüüüüüüüüüü", vec!["üüüüüüüüüüüüüüüüüüüü", "ü"]),
            ("", vec![""]),
        ];
        for (line, expected) in cases {
            assert_eq!(wrap(line, Some(20)), expected);
        }
        assert_eq!(wrap("one two", Some(3)), ["one two"]);
    }
}
