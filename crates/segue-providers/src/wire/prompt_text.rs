//! Conversion of prompts, so that agents treat them as text whatever they begin with.

use std::borrow::Cow;

/// Character that is invisible and that trimming does not remove.
const INVISIBLE_CHAR: char = '\u{200b}';

/// Beginnings that make a prompt a command for some agents, or text of the agent's own that it drops.
const COMMAND_PREFIXES: [&str; 5] = ["/", "$", "?", "<session_context>", "<hook_context>"];

/// Returns a prompt in the form that agents treat as text.
pub(crate) fn escape_prompt(prompt: &str) -> Cow<'_, str> {
    let trimmed = prompt.trim_start();
    if COMMAND_PREFIXES
        .iter()
        .any(|prefix| trimmed.starts_with(prefix))
    {
        Cow::Owned(format!("{INVISIBLE_CHAR}{prompt}"))
    } else {
        Cow::Borrowed(prompt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prompts_that_look_like_commands_are_escaped() {
        for prompt in ["/init", "\n /init", "$x", "?", "<session_context>"] {
            assert_eq!(escape_prompt(prompt), format!("\u{200b}{prompt}"));
        }
        for prompt in ["a / b", "-h", "\nfirst a line", "<b>", ""] {
            assert_eq!(escape_prompt(prompt), prompt);
        }
    }
}
