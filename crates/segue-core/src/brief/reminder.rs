//! Reminder of the user's rules, for an agent that compacted its own context.

use super::{END_OF_RECORD, render_section};
use crate::checkpoint::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind, render_checkpoint};

/// First line of the reminder.
const REMINDER_FRAME: &str =
    "[Your context was compacted. Rules and pinned notes of the user from this conversation:]";

/// Returns the prompt, preceded by the user's rules and by the items that the user pinned or wrote; `None` if there are
/// no such items. The goal is included as well, because users state rules together with it.
///
/// `added` is the prompt with messages that were added to the session ([`super::prompt_with_added_messages`]); `None`
/// if there are none.
#[must_use]
pub fn prompt_with_reminder(
    checkpoint: &Checkpoint,
    added: Option<&str>,
    prompt: &str,
) -> Option<String> {
    let is_included = |item: &&CheckpointItem| {
        let is_goal_or_rule = matches!(item.kind, ItemKind::Goal | ItemKind::Directive);
        is_goal_or_rule || item.pinned || item.author == ItemAuthor::User
    };
    let selected = Checkpoint {
        items: checkpoint
            .items
            .iter()
            .filter(is_included)
            .cloned()
            .collect(),
        loop_state: None,
    };
    let reminder = render_section(REMINDER_FRAME, &render_checkpoint(&selected))?;
    Some(match added {
        Some(added) => format!("{reminder}{added}"),
        None => format!("{reminder}{END_OF_RECORD}\n\n{prompt}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::prompt_after_brief;

    fn item(id: u32, kind: ItemKind, text: &str) -> CheckpointItem {
        CheckpointItem {
            id,
            kind,
            text: text.into(),
            subject: None,
            turn: id,
            message_index: 0,
            author: ItemAuthor::Extraction,
            weight: 1,
            pinned: false,
        }
    }

    #[test]
    fn rules_and_pinned_items_precede_the_prompt() {
        let checkpoint = Checkpoint {
            items: vec![
                item(1, ItemKind::Goal, "port the parser"),
                item(2, ItemKind::Directive, "never push\u{1b}[2J to main"),
                CheckpointItem {
                    pinned: true,
                    ..item(3, ItemKind::Pending, "the docs")
                },
                item(4, ItemKind::Pending, "the tests"),
                CheckpointItem {
                    author: ItemAuthor::User,
                    ..item(5, ItemKind::Decision, "SQLite")
                },
            ],
            loop_state: None,
        };
        let sent = prompt_with_reminder(&checkpoint, None, "go on").unwrap();
        assert_eq!(
            sent,
            "[Your context was compacted. Rules and pinned notes of the user from this conversation:]\n\
             > Goal:\n> - [1] port the parser\n\
             > Rules of the user:\n> - [2] never push[2J to main\n\
             > Decided:\n> - [5] SQLite\n\
             > Still to do:\n> - [3] the docs\n\n\
             [End of the conversation so far. The user's prompt follows:]\n\ngo on"
        );
        assert_eq!(prompt_after_brief(&sent), Some("go on"));
        let added = format!("[Added]\n\n{END_OF_RECORD}\n\ngo on");
        let sent = prompt_with_reminder(&checkpoint, Some(&added), "go on").unwrap();
        assert_eq!(sent.matches(END_OF_RECORD).count(), 1);
        assert_eq!(prompt_after_brief(&sent), Some("go on"));
        let without_rules = Checkpoint {
            items: vec![item(1, ItemKind::Done, "the parser")],
            loop_state: None,
        };
        assert_eq!(prompt_with_reminder(&without_rules, None, "go on"), None);
    }
}
