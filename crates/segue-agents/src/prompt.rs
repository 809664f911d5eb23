//! Prompts are texts, whatever they begin with.

use std::borrow::Cow;

/// Cannot be seen, and is no blank to anybody who trims.
const UNSEEN: char = '\u{200b}';

/// What makes a prompt a command to some agents, or something of their own that they drop.
const MISTAKEN: [&str; 5] = ["/", "$", "?", "<session_context>", "<hook_context>"];

/// A prompt as agents take it for a text.
pub(crate) fn as_text(prompt: &str) -> Cow<'_, str> {
    let words = prompt.trim_start();
    if MISTAKEN.iter().any(|start| words.starts_with(start)) {
        Cow::Owned(format!("{UNSEEN}{prompt}"))
    } else {
        Cow::Borrowed(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_mistaken_is_marked() {
        for prompt in ["/init", "\n /init", "$x", "?", "<session_context>"] {
            assert_eq!(as_text(prompt), format!("\u{200b}{prompt}"));
        }
        for prompt in ["a / b", "-h", "\nfirst a line", "<b>", ""] {
            assert_eq!(as_text(prompt), prompt);
        }
    }
}
