//! Output format of usage errors. It is derived from the raw arguments, because they may not be valid.

use std::ffi::{OsStr, OsString};

/// Reader of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorOutputMode {
    /// The user.
    Text,
    /// A program that uses `--json`.
    Json,
    /// A program that parses the output of `chat --json`.
    ChatJson,
    /// A program that parses the output of `chat --events`.
    ChatEvents,
}

impl ErrorOutputMode {
    /// Determines the reader from the arguments after the program name.
    pub(crate) fn from_args(arguments: impl IntoIterator<Item = OsString>) -> Self {
        let options = arguments
            .into_iter()
            .take_while(|argument| argument != "--");
        let options: Vec<OsString> = options.collect();
        let is_chat = first_command(&options).is_some_and(|command| command == "chat");
        let has_option = |option: &str| {
            options
                .iter()
                .any(|argument| argument == OsStr::new(option))
        };
        match (is_chat, has_option("--json"), has_option("--events")) {
            (true, true, _) => Self::ChatJson,
            (true, false, true) => Self::ChatEvents,
            (false, true, _) => Self::Json,
            (_, false, _) => Self::Text,
        }
    }
}

/// Returns the first argument after the options that may precede a command.
fn first_command(arguments: &[OsString]) -> Option<&OsString> {
    let mut arguments = arguments.iter();
    loop {
        let argument = arguments.next()?;
        if argument == "--log" {
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"--log=") {
            return Some(argument);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_output_mode_follows_the_raw_arguments() {
        for (command_line, expected) in [
            ("chat x", ErrorOutputMode::Text),
            ("chat --feature a]b --json x", ErrorOutputMode::ChatJson),
            ("chat --json --events x", ErrorOutputMode::ChatJson),
            ("chat --events", ErrorOutputMode::ChatEvents),
            ("--log f chat --json x", ErrorOutputMode::ChatJson),
            ("--log=f chat --json x", ErrorOutputMode::ChatJson),
            ("--log chat session list --json", ErrorOutputMode::Json),
            ("chat -- --json", ErrorOutputMode::Text),
            ("session list --json", ErrorOutputMode::Json),
            ("session list --events", ErrorOutputMode::Text),
            ("", ErrorOutputMode::Text),
        ] {
            let arguments = command_line.split_whitespace().map(OsString::from);
            assert_eq!(
                ErrorOutputMode::from_args(arguments),
                expected,
                "{command_line}"
            );
        }
    }
}
