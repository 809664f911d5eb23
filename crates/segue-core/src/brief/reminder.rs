//! What an agent that made its own context smaller is told again: what must not be forgotten.

use super::{END_OF_RECORD, section};
use crate::{Author, Checkpoint, Item, ItemKind, written};

/// What the reminder begins with.
const REMINDER: &str = "[Your context was made smaller since. What the user wants kept in mind, from the record of this \
                        conversation]";

/// The rules of the user and what they pinned or wrote, before the prompt; none if there is nothing of that kind. What
/// all of it is for is told with them: people state rules with it.
///
/// `added` is the prompt as it is sent after messages that were added to the record ([`super::with_added`]), where there
/// are any.
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
    use crate::prompt_after_brief;

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
