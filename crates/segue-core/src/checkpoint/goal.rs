//! What a conversation is for, where its first prompt does not say.

use super::cues::asks;
use super::everyday::is_common;
use super::extract::base_weight;
use super::text_units::TextUnit;
use super::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind};

/// Up to which turn what is asked for first is what all is for: later there was something before, and it is forgotten.
const LATEST: u32 = 3;

/// What people say to each other before they begin.
const GREETINGS: [&str; 19] = [
    "hello",
    "hey",
    "hallo",
    "moin",
    "hola",
    "salut",
    "bonjour",
    "morning",
    "evening",
    "afternoon",
    "servus",
    "guten",
    "buenos",
    "dear",
    "claude",
    "folks",
    "你好",
    "您好",
    "こんにちは",
];

/// Whether a sentence says nothing but that somebody is there.
pub(super) fn is_greeting(unit: &TextUnit) -> bool {
    let is_nothing = |word: &str| is_common(word) || GREETINGS.contains(&word);
    !asks(unit) && !unit.text.ends_with(['?', '？']) && unit.words().all(is_nothing)
}

/// What was found, in which the first request is the goal if there was none before.
pub(super) fn with_goal(
    before: &Checkpoint,
    mut found: Vec<CheckpointItem>,
) -> Vec<CheckpointItem> {
    let is_known = before.items.iter().chain(&found);
    if is_known.clone().any(|item| item.kind == ItemKind::Goal) || before.items.iter().any(is_task)
    {
        return found;
    }
    let first = found
        .iter()
        .filter(|item| is_task(item))
        .map(|item| item.turn);
    let first = first.min().filter(|turn| *turn <= LATEST);
    for item in &mut found {
        if Some(item.turn) == first && is_task(item) {
            item.kind = ItemKind::Goal;
            item.weight += base_weight(ItemKind::Goal) - base_weight(ItemKind::Request);
        }
    }
    found
}

/// Whether the user asks for something in it.
fn is_task(item: &CheckpointItem) -> bool {
    item.kind == ItemKind::Request
        && item.message_index == 0
        && item.author == ItemAuthor::Extraction
        && !is_greeting(&TextUnit::new(&item.text))
}
