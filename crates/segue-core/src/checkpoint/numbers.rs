//! The numbers of items: one that was given to an item never means another one.

use std::collections::HashSet;

use super::Checkpoint;

/// A checkpoint that was made of another one, in which what is new has numbers after the `last` one that was ever given.
#[must_use]
pub fn newly_numbered(before: &Checkpoint, mut made: Checkpoint, last: u32) -> Checkpoint {
    let known: HashSet<u32> = before.items.iter().map(|item| item.id).collect();
    let mut next = before.next_id().max(last.saturating_add(1));
    for item in &mut made.items {
        if !known.contains(&item.id) {
            item.id = next;
            next = next.saturating_add(1);
        }
    }
    made.in_order()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Author, Item, ItemKind};

    fn checkpoint(numbers: &[u32]) -> Checkpoint {
        let item = |id: &u32| Item {
            id: *id,
            kind: ItemKind::Note,
            text: format!("item {id}"),
            subject: None,
            turn: 1,
            message: 1,
            by: Author::Record,
            weight: 1,
            pinned: false,
        };
        Checkpoint {
            items: numbers.iter().map(item).collect(),
            loop_state: None,
        }
    }

    /// The numbers before, those that were made, the last one ever given, and what comes of it.
    type Case = (&'static [u32], &'static [u32], u32, &'static [u32]);

    #[test]
    fn a_number_is_given_once() {
        let cases: [Case; 5] = [
            // Nothing was ever dropped.
            (&[1, 2], &[1, 2, 3], 2, &[1, 2, 3]),
            // 3 and 4 were dropped by an earlier version.
            (&[1, 2], &[1, 2, 3], 4, &[1, 2, 5]),
            (&[1, 2], &[2, 3, 4], 7, &[2, 8, 9]),
            (&[], &[1, 2], 0, &[1, 2]),
            // A store that does not know what was given goes by what is there.
            (&[5], &[5, 6], 0, &[5, 6]),
        ];
        for (before, made, last, expected) in cases {
            let (before, made) = (checkpoint(before), checkpoint(made));
            let numbered = newly_numbered(&before, made.clone(), last);
            let numbers: Vec<u32> = numbered.items.iter().map(|item| item.id).collect();
            assert_eq!(numbers, expected, "{before:?} {made:?} {last}");
        }
    }
}
