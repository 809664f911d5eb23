//! Conversion of prompts, so that agents treat them as text whatever they begin with.

use std::borrow::Cow;

/// Character that is invisible and that trimming does not remove.
const UNSEEN: char = '\u{200b}';

/// Beginnings that make a prompt a command for some agents, or text of the agent's own that it drops.
const MISTAKEN: [&str; 5] = ["/", "$", "?", "<session_context>", "<hook_context>"];

/// Returns a prompt in the form that agents treat as text.
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
