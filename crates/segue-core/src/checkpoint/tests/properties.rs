//! Property tests of merging.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Generates items with few words and few subjects, so that many have the same subject or the same text.
fn any_item() -> impl Strategy<Value = CheckpointItem> {
    let text_words = vec(
        select(vec![
            "parser", "Done.", "still", "missing", "invoice", "header",
        ]),
        1..8,
    );
    let subjects = select(vec!["src/a.rs", "src/b.rs", "make test"]);
    let author = select(vec![
        ItemAuthor::Extraction,
        ItemAuthor::Extraction,
        ItemAuthor::Summariser,
        ItemAuthor::User,
    ]);
    let origin = (1..9_u32, 0..4_u32);
    let pinned = prop::bool::weighted(0.1);
    let kind = select(ItemKind::ALL.to_vec());
    (
        kind,
        text_words,
        option::of(subjects),
        origin,
        author,
        0..200_u32,
        pinned,
    )
        .prop_map(
            |(kind, text_words, subject, (turn, message), author, weight, pinned)| CheckpointItem {
                id: 0,
                kind,
                text: text_words.join(" "),
                subject: subject.map(str::to_owned),
                turn,
                message_index: message,
                author,
                weight,
                pinned,
            },
        )
}

fn checkpoint(items: Vec<CheckpointItem>) -> Checkpoint {
    let items = items.into_iter().zip(1..);
    let items = items
        .map(|(item, id)| CheckpointItem { id, ..item })
        .collect();
    let loop_state = None;
    Checkpoint { items, loop_state }.into_sorted()
}

/// Turns items into extracted ones: the recorded turns are their author, and they are not pinned.
fn as_extracted(items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let extracted = |item| CheckpointItem {
        author: ItemAuthor::Extraction,
        pinned: false,
        ..item
    };
    items.into_iter().map(extracted).collect()
}

fn is_user_owned(item: &CheckpointItem) -> bool {
    item.pinned || item.author == ItemAuthor::User
}

proptest! {
    #[test]
    fn a_merged_checkpoint_fits_except_for_protected_items(
        before in vec(any_item(), 0..40), new in vec(any_item(), 0..40), room in 0..300_u64,
    ) {
        let after = merge(&checkpoint(before), as_extracted(new), room, &count_words);
        let tokens = |item: &CheckpointItem| count_words(&render::render_item_line(item)) + 1;
        let protected = after.items.iter().filter(|item| is_user_owned(item));
        // The last request may use half of the budget as well.
        let min_tokens: u64 = protected.map(tokens).sum::<u64>() + room / 2;
        let all: u64 = after.items.iter().map(tokens).sum();
        prop_assert!(all <= room.max(min_tokens), "{all} tokens for {room}, of which {min_tokens} are protected");
    }

    #[test]
    fn items_that_the_user_pinned_or_wrote_are_never_lost(
        before in vec(any_item(), 0..40), rounds in vec(vec(any_item(), 0..20), 1..6), room in 0..200_u64,
    ) {
        let before = checkpoint(before);
        let mut after = before.clone();
        for new in rounds {
            after = merge(&after, as_extracted(new), room, &count_words);
        }
        for item in before.items.iter().filter(|item| is_user_owned(item)) {
            // Items with the same subject are merged into one.
            let is_same = |candidate: &&CheckpointItem| match &item.subject {
                Some(subject) => candidate.subject.as_ref() == Some(subject),
                None => candidate.id == item.id && candidate.text == item.text && candidate.kind == item.kind,
            };
            let retained = after.items.iter().find(is_same);
            prop_assert!(retained.is_some_and(is_user_owned), "{item:?} is missing");
        }
        let is_by_user = |item: &&CheckpointItem| item.author == ItemAuthor::User;
        let count_by_user = |state: &Checkpoint| state.items.iter().filter(is_by_user).count();
        prop_assert_eq!(count_by_user(&after), count_by_user(&before), "items that the user wrote");
    }

    #[test]
    fn merging_is_deterministic_and_idempotent(
        before in vec(any_item(), 0..40), new in vec(any_item(), 0..40), room in 0..300_u64,
    ) {
        let before = checkpoint(before);
        let merged = merge(&before, as_extracted(new.clone()), room, &count_words);
        prop_assert_eq!(&merge(&before, as_extracted(new), room, &count_words), &merged);
        prop_assert_eq!(&merge(&merged, Vec::new(), room, &count_words), &merged);
    }

    #[test]
    fn item_ids_are_unique(before in vec(any_item(), 0..40), new in vec(any_item(), 0..40)) {
        let after = merge(&checkpoint(before), as_extracted(new), 10_000, &count_words);
        let mut ids: Vec<u32> = after.items.iter().map(|item| item.id).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        prop_assert_eq!(ids.len(), all);
        prop_assert!(!ids.contains(&0));
    }
}
