//! In which form a mistake is told: by what was typed, since it may not have been understood.

use std::ffi::{OsStr, OsString};

/// Who reads what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A person.
    Person,
    /// A program, by `--json`.
    Program,
    /// A program that waits for what `chat --json` prints.
    Chat,
    /// The same by `--events`.
    Events,
}

impl Reader {
    /// Who reads, by the arguments after segue's own name.
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
