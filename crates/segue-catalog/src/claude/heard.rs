//! Texts that a record attributes to the user, although the user did not write many of them.

use segue_core::session::Part;

use crate::injected::{BY_CLAUDE, begins_with};

/// Beginning of the text that Claude Code writes when the user interrupts it.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Tags of the output of the user's own commands.
const OUTPUTS: &[&str] = &[
    "local-command-stdout",
    "local-command-stderr",
    "bash-stdout",
    "bash-stderr",
];

/// Texts of a record, sorted by their meaning.
#[derive(Default)]
pub(super) struct Heard {
    /// Prompt of the user.
    pub(super) asked: Vec<Part>,
    /// Output of the user's commands, which the model may not have received.
    pub(super) notes: Vec<String>,
    /// Whether a command of the user has ended.
    pub(super) ran: bool,
    /// Whether the user interrupted the agent.
    pub(super) cancelled: bool,
}

impl Heard {
    pub(super) fn hear(&mut self, text: &str) {
        if text.starts_with(INTERRUPTED) {
            self.cancelled = true;
        } else if let Some(command) = command(text) {
            self.asked.push(Part::Text(command));
        } else if OUTPUTS.iter().any(|tag| starts_with_tag(text, tag)) {
            self.ran = true;
            let outputs = OUTPUTS.iter().filter_map(|tag| tagged(text, tag));
            let outputs: Vec<&str> = outputs.map(str::trim).filter(|it| !it.is_empty()).collect();
            if !outputs.is_empty() {
                self.notes.push(outputs.join("\n"));
            }
        } else if !begins_with(text, BY_CLAUDE) && !text.trim().is_empty() {
            self.asked.push(Part::Text(text.to_owned()));
        }
    }
}

/// Returns a command to Claude Code or to the shell, or a note to its memory, as the user typed it.
fn command(text: &str) -> Option<String> {
    if starts_with_tag(text, "bash-input") {
        return tagged(text, "bash-input").map(|command| format!("!{}", command.trim()));
    }
    if starts_with_tag(text, "user-memory-input") {
        return tagged(text, "user-memory-input").map(|note| format!("# {}", note.trim()));
    }
    if !text.trim_start().starts_with("<command-") {
        return None;
    }
    let name = tagged(text, "command-name")?;
    let args = tagged(text, "command-args").unwrap_or_default();
    Some(format!("{} {}", name.trim(), args.trim()).trim().to_owned())
}

fn starts_with_tag(text: &str, tag: &str) -> bool {
    let rest = text.trim_start().strip_prefix('<');
    let rest = rest.and_then(|rest| rest.strip_prefix(tag));
    rest.is_some_and(|rest| rest.starts_with('>'))
}

fn tagged<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (inside, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_typed_is_told_from_what_was_put_in_their_mouth() {
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
            let mut heard = Heard::default();
            heard.hear(text);
            let asked = heard.asked.iter().map(|part| match part {
                Part::Text(text) => format!("asked {text}"),
                other => format!("{other:?}"),
            });
            let notes = heard.notes.iter().map(|note| format!("note {note}"));
            let flags = [(heard.ran, "ran"), (heard.cancelled, "cancelled")];
            let flags = flags
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, name)| (*name).to_owned());
            let told: Vec<String> = asked.chain(notes).chain(flags).collect();
            assert_eq!(told.join(", "), expected, "{text}");
        }
    }
}
