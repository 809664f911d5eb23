//! Ids of items: the id of an item is never reused for another item.

use std::collections::HashSet;

use super::Checkpoint;

/// Assigns new ids to the items of `checkpoint` that `before` does not contain. The new ids are higher than all ids in
/// `before` and than `last_used_id`, the highest id that the session ever used.
#[must_use]
pub fn assign_item_ids(
    before: &Checkpoint,
    mut checkpoint: Checkpoint,
    last_used_id: u32,
) -> Checkpoint {
    let existing_ids: HashSet<u32> = before.items.iter().map(|item| item.id).collect();
    let mut next_id = before.next_item_id().max(last_used_id.saturating_add(1));
    for item in &mut checkpoint.items {
        if !existing_ids.contains(&item.id) {
            item.id = next_id;
            next_id = next_id.saturating_add(1);
        }
    }
    checkpoint.into_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{CheckpointItem, ItemAuthor, ItemKind};

    fn checkpoint_with_ids(ids: &[u32]) -> Checkpoint {
        let item = |id: &u32| CheckpointItem {
            id: *id,
            kind: ItemKind::Note,
            text: format!("item {id}"),
            subject: None,
            turn: 1,
            message_index: 1,
            author: ItemAuthor::Extraction,
            weight: 1,
            pinned: false,
        };
        Checkpoint {
            items: ids.iter().map(item).collect(),
            loop_state: None,
        }
    }

    /// Ids before, ids in the new checkpoint, the highest id ever used, and the expected ids.
    type Case = (&'static [u32], &'static [u32], u32, &'static [u32]);

    #[test]
    fn an_item_id_is_never_reused() {
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
        for (before, unnumbered, last_used_id, expected) in cases {
            let (before, unnumbered) =
                (checkpoint_with_ids(before), checkpoint_with_ids(unnumbered));
            let numbered = assign_item_ids(&before, unnumbered.clone(), last_used_id);
            let ids: Vec<u32> = numbered.items.iter().map(|item| item.id).collect();
            assert_eq!(ids, expected, "{before:?} {unnumbered:?} {last_used_id}");
        }
    }
}
