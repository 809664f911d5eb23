//! Ids of items: the id of an item is never reused for another item.

use std::collections::HashSet;

use super::Checkpoint;

/// Assigns new ids to the items of `made` that `before` does not contain. The new ids are higher than all ids in
/// `before` and than `last`, the highest id that the session ever used.
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
    use crate::checkpoint::{Author, Item, ItemKind};

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

    /// Ids before, ids in the new checkpoint, the highest id ever used, and the expected ids.
    type Case = (&'static [u32], &'static [u32], u32, &'static [u32]);

    #[test]
    fn a_number_is_given_once() {
        let cases: [Case; 5] = [
            // No item was ever dropped.
            (&[1, 2], &[1, 2, 3], 2, &[1, 2, 3]),
            // An earlier version dropped the items 3 and 4.
            (&[1, 2], &[1, 2, 3], 4, &[1, 2, 5]),
            (&[1, 2], &[2, 3, 4], 7, &[2, 8, 9]),
            (&[], &[1, 2], 0, &[1, 2]),
            // A store that does not record used ids passes 0: then the ids in `before` count.
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
