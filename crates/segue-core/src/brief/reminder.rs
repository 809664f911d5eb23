//! Reminder of the user's rules, for an agent that compacted its own context.

use super::{END_OF_RECORD, section};
use crate::checkpoint::{Author, Checkpoint, Item, ItemKind, written};

/// First line of the reminder.
const REMINDER: &str = "[Your context was made smaller since. What the user wants kept in mind, from the record of this \
                        conversation]";

/// Returns the prompt, preceded by the user's rules and by the items that the user pinned or wrote; `None` if there are
/// no such items. The goal is included as well, because users state rules together with it.
///
/// `added` is the prompt with messages that were added to the session ([`super::with_added`]); `None` if there are
/// none.
#[must_use]
pub fn with_reminder(known: &Checkpoint, added: Option<&str>, prompt: &str) -> Option<String> {
    let stays = |item: &&Item| {
        let of_kind = matches!(item.kind, ItemKind::Goal | ItemKind::Directive);
        of_kind || item.pinned || item.by == Author::Person
    };
    let kept = Checkpoint {
        items: known.items.iter().filter(stays).cloned().collect(),
        loop_state: None,
    };
    let reminder = section(REMINDER, &written(&kept))?;
    Some(match added {
        Some(added) => format!("{reminder}{added}"),
        None => format!("{reminder}{END_OF_RECORD}\n\n{prompt}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::prompt_after_brief;

    fn item(id: u32, kind: ItemKind, text: &str) -> Item {
        Item {
            id,
            kind,
            text: text.into(),
            subject: None,
            turn: id,
            message: 0,
            by: Author::Record,
            weight: 1,
            pinned: false,
        }
    }

    #[test]
    fn the_rules_and_what_is_pinned_come_before_the_prompt() {
        let known = Checkpoint {
            items: vec![
                item(1, ItemKind::Goal, "port the parser"),
                item(2, ItemKind::Directive, "never push\u{1b}[2J to main"),
                Item {
                    pinned: true,
                    ..item(3, ItemKind::Pending, "the docs")
                },
                item(4, ItemKind::Pending, "the tests"),
                Item {
                    by: Author::Person,
                    ..item(5, ItemKind::Decision, "SQLite")
                },
            ],
            loop_state: None,
        };
        let sent = with_reminder(&known, None, "go on").unwrap();
        assert_eq!(
            sent,
            "[Your context was made smaller since. What the user wants kept in mind, from the record of this \
             conversation]\n\
             > Goal:\n> - [1] port the parser\n\
             > Rules of the user:\n> - [2] never push[2J to main\n\
             > Decided:\n> - [5] SQLite\n\
             > Still to do:\n> - [3] the docs\n\n\
             [End of the record. The user now says:]\n\ngo on"
        );
        assert_eq!(prompt_after_brief(&sent), Some("go on"));
        let added = format!("[Added]\n\n{END_OF_RECORD}\n\ngo on");
        let sent = with_reminder(&known, Some(&added), "go on").unwrap();
        assert_eq!(sent.matches(END_OF_RECORD).count(), 1);
        assert_eq!(prompt_after_brief(&sent), Some("go on"));
        let nothing = Checkpoint {
            items: vec![item(1, ItemKind::Done, "the parser")],
            loop_state: None,
        };
        assert_eq!(with_reminder(&nothing, None, "go on"), None);
    }
}
