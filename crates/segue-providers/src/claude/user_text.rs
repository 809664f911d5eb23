//! Texts that a record attributes to the user, although the user did not write many of them.

use segue_core::session::Part;

use crate::reader::has_any_prefix;

/// Beginning of the text that Claude Code writes when the user interrupts it.
const INTERRUPTION_PREFIX: &str = "[Request interrupted by user";

/// Tags of the output of the user's own commands.
const COMMAND_OUTPUT_TAGS: &[&str] = &[
    "local-command-stdout",
    "local-command-stderr",
    "bash-stdout",
    "bash-stderr",
];

/// Texts of a record, sorted by their meaning.
#[derive(Default)]
pub(super) struct ClaudeUserContent {
    /// Prompt of the user.
    pub(super) prompt_parts: Vec<Part>,
    /// Output of the user's commands, which the model may not have received.
    pub(super) command_outputs: Vec<String>,
    /// Whether a command of the user has ended.
    pub(super) command_ended: bool,
    /// Whether the user interrupted the agent.
    pub(super) cancelled: bool,
}

impl ClaudeUserContent {
    pub(super) fn add_text(&mut self, text: &str) {
        if text.starts_with(INTERRUPTION_PREFIX) {
            self.cancelled = true;
        } else if let Some(command) = parse_command(text) {
            self.prompt_parts.push(Part::Text(command));
        } else if COMMAND_OUTPUT_TAGS
            .iter()
            .any(|tag| starts_with_tag(text, tag))
        {
            self.command_ended = true;
            let outputs = COMMAND_OUTPUT_TAGS
                .iter()
                .filter_map(|tag| tag_content(text, tag));
            let outputs: Vec<&str> = outputs
                .map(str::trim)
                .filter(|output| !output.is_empty())
                .collect();
            if !outputs.is_empty() {
                self.command_outputs.push(outputs.join("\n"));
            }
        } else if !has_any_prefix(text, super::CLAUDE_PROVIDER.injected_prefixes)
            && !text.trim().is_empty()
        {
            self.prompt_parts.push(Part::Text(text.to_owned()));
        }
    }
}

/// Returns a command to Claude Code or to the shell, or a note to its memory, as the user typed it.
fn parse_command(text: &str) -> Option<String> {
    if starts_with_tag(text, "bash-input") {
        return tag_content(text, "bash-input").map(|command| format!("!{}", command.trim()));
    }
    if starts_with_tag(text, "user-memory-input") {
        return tag_content(text, "user-memory-input").map(|note| format!("# {}", note.trim()));
    }
    if !text.trim_start().starts_with("<command-") {
        return None;
    }
    let name = tag_content(text, "command-name")?;
    let args = tag_content(text, "command-args").unwrap_or_default();
    Some(format!("{} {}", name.trim(), args.trim()).trim().to_owned())
}

fn starts_with_tag(text: &str, tag: &str) -> bool {
    let remainder = text.trim_start().strip_prefix('<');
    let remainder = remainder.and_then(|remainder| remainder.strip_prefix(tag));
    remainder.is_some_and(|remainder| remainder.starts_with('>'))
}

fn tag_content<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, remainder) = text.split_once(&format!("<{tag}>"))?;
    let (content, _) = remainder.split_once(&format!("</{tag}>"))?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_the_user_are_separated_from_injected_texts() {
        let cases = [
            ("hello", "asked hello"),
            (
                "<command-message>cost</command-message>\n<command-name>/cost</command-name>",
                "asked /cost",
            ),
            (
                "<command-name>/model</command-name><command-args>opus</command-args>",
                "asked /model opus",
            ),
            ("<bash-input>ls -l</bash-input>", "asked !ls -l"),
            (
                "<bash-stdout>a\nb</bash-stdout><bash-stderr></bash-stderr>",
                "note a\nb, ran",
            ),
            (
                "<local-command-stderr>no such thing</local-command-stderr>",
                "note no such thing, ran",
            ),
            ("<local-command-stdout></local-command-stdout>", "ran"),
            (
                "<user-memory-input>use tabs</user-memory-input>",
                "asked # use tabs",
            ),
            ("<task-notification>\n<task-id>1</task-id>", ""),
            ("<system-reminder>be kind</system-reminder>", ""),
            ("[Request interrupted by user for tool use]", "cancelled"),
            ("  ", ""),
            // The user may paste a text that another agent would inject.
            (
                "<skill> what is this tag?",
                "asked <skill> what is this tag?",
            ),
            ("see <bash-stdout>", "asked see <bash-stdout>"),
        ];
        for (text, expected) in cases {
            let mut user_content = ClaudeUserContent::default();
            user_content.add_text(text);
            let prompts = user_content.prompt_parts.iter().map(|part| match part {
                Part::Text(text) => format!("asked {text}"),
                unexpected => format!("{unexpected:?}"),
            });
            let outputs = user_content
                .command_outputs
                .iter()
                .map(|output| format!("note {output}"));
            let flags = [
                (user_content.command_ended, "ran"),
                (user_content.cancelled, "cancelled"),
            ];
            let flags = flags
                .iter()
                .filter(|(is_set, _)| *is_set)
                .map(|(_, name)| (*name).to_owned());
            let formatted: Vec<String> = prompts.chain(outputs).chain(flags).collect();
            assert_eq!(formatted.join(", "), expected, "{text}");
        }
    }
}
