//! Output format of usage errors. It is derived from the raw arguments, because they may not be valid.

use std::ffi::{OsStr, OsString};

/// Reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The user.
    Person,
    /// A program that uses `--json`.
    Program,
    /// A program that parses the output of `chat --json`.
    Chat,
    /// A program that parses the output of `chat --events`.
    Events,
}

impl Reader {
    /// Determines the reader from the arguments after the program name.
    pub(crate) fn by(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let options = arguments.into_iter().take_while(|typed| typed != "--");
        let options: Vec<OsString> = options.collect();
        let chat = options.first().is_some_and(|command| command == "chat");
        let has = |option: &str| options.iter().any(|typed| typed == OsStr::new(option));
        match (chat, has("--json"), has("--events")) {
            (true, true, _) => Self::Chat,
            (true, false, true) => Self::Events,
            (false, true, _) => Self::Program,
            (_, false, _) => Self::Person,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_is_told_by_what_was_typed() {
        for (typed, reader) in [
            ("chat x", Reader::Person),
            ("chat --feature a]b --json x", Reader::Chat),
            ("chat --json --events x", Reader::Chat),
            ("chat --events", Reader::Events),
            ("chat -- --json", Reader::Person),
            ("session list --json", Reader::Program),
            ("session list --events", Reader::Person),
            ("", Reader::Person),
        ] {
            let arguments = typed.split_whitespace().map(OsString::from);
            assert_eq!(Reader::by(arguments), reader, "{typed}");
        }
    }
}
