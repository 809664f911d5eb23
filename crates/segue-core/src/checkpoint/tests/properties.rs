//! Property tests of merging.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Generates items with few words and few subjects, so that many have the same subject or the same text.
fn item() -> impl Strategy<Value = Item> {
    let said = vec(
        select(vec![
            "parser", "Done.", "still", "missing", "invoice", "header",
        ]),
        1..8,
    );
    let about = select(vec!["src/a.rs", "src/b.rs", "make test"]);
    let by = select(vec![
        Author::Record,
        Author::Record,
        Author::Summary,
        Author::Person,
    ]);
    let origin = (1..9_u32, 0..4_u32);
    let pinned = prop::bool::weighted(0.1);
    let kind = select(ItemKind::ALL.to_vec());
    (
        kind,
        said,
        option::of(about),
        origin,
        by,
        0..200_u32,
        pinned,
    )
        .prop_map(
            |(kind, said, subject, (turn, message), by, weight, pinned)| Item {
                id: 0,
                kind,
                text: said.join(" "),
                subject: subject.map(str::to_owned),
                turn,
                message,
                by,
                weight,
                pinned,
            },
        )
}

fn checkpoint(items: Vec<Item>) -> Checkpoint {
    let items = items.into_iter().zip(1..);
    let items = items.map(|(item, id)| Item { id, ..item }).collect();
    let loop_state = None;
    Checkpoint { items, loop_state }.in_order()
}

/// Turns items into extracted ones: the recorded turns are their author, and they are not pinned.
fn found(items: Vec<Item>) -> Vec<Item> {
    let found = |item| Item {
        by: Author::Record,
        pinned: false,
        ..item
    };
    items.into_iter().map(found).collect()
}

fn is_kept(item: &Item) -> bool {
    item.pinned || item.by == Author::Person
}

proptest! {
    #[test]
    fn there_is_no_more_than_fits_and_what_must_stay(
        before in vec(item(), 0..40), new in vec(item(), 0..40), room in 0..300_u64,
    ) {
        let after = merge(&checkpoint(before), found(new), room, &words);
        let tokens = |item: &Item| words(&render::line(item)) + 1;
        let kept = after.items.iter().filter(|item| is_kept(item));
        // The last request may use half of the budget as well.
        let least: u64 = kept.map(tokens).sum::<u64>() + room / 2;
        let all: u64 = after.items.iter().map(tokens).sum();
        prop_assert!(all <= room.max(least), "{all} in {room}, of which {least} must stay");
    }

    #[test]
    fn what_the_person_pinned_or_wrote_is_never_lost(
        before in vec(item(), 0..40), rounds in vec(vec(item(), 0..20), 1..6), room in 0..200_u64,
    ) {
        let before = checkpoint(before);
        let mut after = before.clone();
        for new in rounds {
            after = merge(&after, found(new), room, &words);
        }
        for item in before.items.iter().filter(|item| is_kept(item)) {
            // Items with the same subject are merged into one.
            let same = |other: &&Item| match &item.subject {
                Some(subject) => other.subject.as_ref() == Some(subject),
                None => other.id == item.id && other.text == item.text && other.kind == item.kind,
            };
            let kept = after.items.iter().find(same);
            prop_assert!(kept.is_some_and(is_kept), "{item:?} is gone");
        }
        let wrote = |of: &Checkpoint| of.items.iter().filter(|item| item.by == Author::Person).count();
        prop_assert_eq!(wrote(&after), wrote(&before), "all that the person wrote");
    }

    #[test]
    fn merging_gives_the_same_again_and_nothing_new_changes_nothing(
        before in vec(item(), 0..40), new in vec(item(), 0..40), room in 0..300_u64,
    ) {
        let before = checkpoint(before);
        let once = merge(&before, found(new.clone()), room, &words);
        prop_assert_eq!(&merge(&before, found(new), room, &words), &once);
        prop_assert_eq!(&merge(&once, Vec::new(), room, &words), &once);
    }

    #[test]
    fn numbers_are_given_once(before in vec(item(), 0..40), new in vec(item(), 0..40)) {
        let after = merge(&checkpoint(before), found(new), 10_000, &words);
        let mut numbers: Vec<u32> = after.items.iter().map(|item| item.id).collect();
        numbers.sort_unstable();
        let all = numbers.len();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), all);
        prop_assert!(!numbers.contains(&0));
    }
}
