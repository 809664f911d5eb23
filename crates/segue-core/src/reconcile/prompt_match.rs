//! Comparison of a prompt in an agent's own record with a recorded prompt.

use crate::brief::prompt_after_brief;
use crate::scope::TaggedPrompt;

/// Returns `true` if a native prompt is the recorded prompt.
///
/// The native prompt may follow a prompt header or a brief, may contain invisible characters, and may be followed on a
/// new line by files that the agent appended because the prompt names them. If text follows on the same line, it is a
/// different prompt. An empty recorded prompt matches nothing, because it cannot be distinguished.
pub(crate) fn is_same_prompt(native: &str, recorded: &str) -> bool {
    let (native, recorded) = (
        remove_zero_width_spaces(native),
        remove_zero_width_spaces(recorded),
    );
    if recorded.trim().is_empty() {
        return false;
    }
    let has_appended_lines = |sent: &str| {
        let remainder = sent.trim_start().strip_prefix(recorded.trim());
        remainder.is_some_and(|remainder| {
            remainder
                .trim_start_matches([' ', '\t', '\r'])
                .starts_with('\n')
        })
    };
    let is_match = |sent: &str| {
        normalize_whitespace(sent) == normalize_whitespace(&recorded) || has_appended_lines(sent)
    };
    let stripped = prompt_after_brief(&native).unwrap_or_else(|| TaggedPrompt::strip_tags(&native));
    is_match(&native) || is_match(stripped)
}

fn remove_zero_width_spaces(text: &str) -> String {
    text.replace('\u{200b}', "")
}

fn normalize_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::END_OF_RECORD;

    #[test]
    fn a_prompt_matches_with_a_header_a_brief_or_appended_lines() {
        let briefed = format!("> fix it\n{END_OF_RECORD}\n\ngo on");
        let cases = [
            ("go on", "go on", true),
            (" go\u{200b} on\n", "go  on", true),
            ("[Feature: auth]\n\ngo on", "go on", true),
            ("[Feature: auth]\n\ngo on", "[Feature: auth]\n\ngo on", true),
            (&briefed, "go on", true),
            // The agent appended a file.
            ("go on\n--- notes.txt ---\nthree lines", "go on", true),
            // Different prompts.
            ("go on, please", "go on", false),
            ("please go on", "go on", false),
            ("please\ngo on", "go on", false),
            ("go", "go on", false),
            (&briefed, "fix it", false),
            ("", "", false),
            ("go on", " ", false),
        ];
        for (native, recorded, expected) in cases {
            assert_eq!(
                is_same_prompt(native, recorded),
                expected,
                "{native:?} {recorded:?}"
            );
        }
    }
}
