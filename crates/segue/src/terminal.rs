//! Everything that knows a terminal: colours, widths, and text that can't harm it.

mod table;
mod time;

use std::io::{IsTerminal, Write};

use segue_core::Decision;

pub(crate) use table::Table;
pub(crate) use time::ago;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    pub(crate) fn stdout() -> Self {
        Self::of(std::io::stdout().is_terminal())
    }

    pub(crate) fn stderr() -> Self {
        Self::of(std::io::stderr().is_terminal())
    }

    fn of(terminal: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            colour: terminal && wanted && able,
        }
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

/// Prints a line to standard output. A reader that went away is no error: there is nobody to tell.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line to standard error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Tells what segue decided by itself.
pub(crate) fn say_decision(decision: &Decision) {
    let mark = Style::stderr().yellow("segue:");
    say(&format!("{mark} {}", clean(&decision.text)));
}

/// The text without anything that would steer a terminal; line ends and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || c == '\t' || !(c.is_control() || steers_direction(c)))
        .collect()
}

/// The same on one line, so that no text can pass for lines of ours.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Characters that make text be shown in another order than it was written.
fn steers_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// How wide the terminal is; `None` where the output is not for a terminal.
pub(crate) fn width() -> Option<usize> {
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
    fn what_steers_a_terminal_is_removed() {
        assert_eq!(
            clean("a\x1b[31mb\u{9b}c\rd\x07\ne\tf\u{202e}g"),
            "a[31mbcd\ne\tfg"
        );
    }
}
