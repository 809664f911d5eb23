//! Merging of a checkpoint and newly extracted items within a token budget.

use std::collections::{HashMap, HashSet};

use super::everyday::is_common;
use super::extract::{MIN_NOTE_WEIGHT, base_weight};
use super::goal::with_goal;
use super::settled::settled;
use super::text_units::normalise_text;
use super::tool_actions::PLAN_STEP_PREFIX;
use super::withdrawn::taken_back;
use super::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind, render};

/// Returns the percentage of the budget that is reserved for a kind. The unused remainder goes to the items with the
/// highest weight.
fn reserved_percent(kind: ItemKind) -> u64 {
    match kind {
        ItemKind::Directive => 16,
        ItemKind::Pending | ItemKind::File => 14,
        ItemKind::Decision | ItemKind::Attempt => 10,
        ItemKind::Request => 5,
        ItemKind::Goal | ItemKind::Blocker => 3,
        ItemKind::Check => 2,
        ItemKind::Command
        | ItemKind::Done
        | ItemKind::Focus
        | ItemKind::NextStep
        | ItemKind::Note => 1,
    }
}

/// Returns the maximum number of items of a kind; older ones are of no use.
fn max_items(kind: ItemKind) -> usize {
    match kind {
        ItemKind::Command => 20,
        ItemKind::Check => 10,
        _ => usize::MAX,
    }
}

/// Number of newest turns in which work in progress and next steps are still current.
const CURRENT_TURN_COUNT: u32 = 2;

/// Number of items that may exceed the remaining budget before the search for a smaller one stops.
const MAX_FIT_MISSES: usize = 100;

/// Merges a checkpoint and the items found since then, oldest first, into about `room` tokens.
///
/// Items that the user pinned or wrote are always retained, and so is the user's last request. Of two items with the
/// same subject the newer one counts, of two with the same text the older one.
#[must_use]
pub fn merge(
    before: &Checkpoint,
    new_items: Vec<CheckpointItem>,
    room: u64,
    count: &dyn Fn(&str) -> u64,
) -> Checkpoint {
    let mut next_id = before.next_item_id();
    let new_items = with_goal(before, new_items);
    let mut items: Vec<CheckpointItem> = before.items.clone();
    items.extend(new_items.into_iter().map(|item| {
        let id = next_id;
        next_id = next_id.saturating_add(1);
        CheckpointItem { id, ..item }
    }));
    let items = merge_same_subject(drop_superseded_steps(items));
    let items = drop_duplicates(expire_items(settled(taken_back(items))));
    let items = select_fitting_items(items, room, count);
    Checkpoint {
        items,
        loop_state: before.loop_state.clone(),
    }
    .into_sorted()
}

/// Removes the open steps of plans that a newer plan replaced.
fn drop_superseded_steps(items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let is_step = |item: &CheckpointItem| {
        let subject = item.subject.as_deref();
        subject.is_some_and(|subject| subject.starts_with(PLAN_STEP_PREFIX))
    };
    let steps = items.iter().filter(|item| is_step(item));
    let newest = steps.map(|item| (item.turn, item.message_index)).max();
    let is_current = |item: &CheckpointItem| {
        !is_step(item)
            || is_user_owned(item)
            || item.kind == ItemKind::Done
            || Some((item.turn, item.message_index)) == newest
    };
    items.into_iter().filter(is_current).collect()
}

/// Returns `true` if the user pinned or wrote the item.
fn is_user_owned(item: &CheckpointItem) -> bool {
    item.pinned || item.author == ItemAuthor::User
}

/// Merges items with the same subject into the newest one.
fn merge_same_subject(items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let mut merged: Vec<Option<CheckpointItem>> = Vec::with_capacity(items.len());
    let mut positions: HashMap<String, usize> = HashMap::new();
    for mut item in items {
        let Some(subject) = item.subject.clone() else {
            merged.push(Some(item));
            continue;
        };
        let previous = positions.insert(subject, merged.len());
        let previous = previous.and_then(|index| merged.get_mut(index));
        // Two items that the user wrote stay separate, even if their subject is the same.
        let are_both_by_user = |previous: &mut CheckpointItem| {
            previous.author == ItemAuthor::User && item.author == ItemAuthor::User
        };
        let previous =
            previous.and_then(|previous| previous.take_if(|previous| !are_both_by_user(previous)));
        if let Some(previous) = previous {
            if previous.author == ItemAuthor::User && item.author != ItemAuthor::User {
                // An item from another author never overwrites the user's text.
                (item.kind, item.text, item.author) =
                    (previous.kind, previous.text, previous.author);
            } else if item.kind == ItemKind::File && previous.kind == ItemKind::File {
                item.text = merge_file_texts(&previous.text, &item.text);
            }
            item.id = previous.id;
            item.weight = item.weight.max(previous.weight);
            item.pinned |= previous.pinned;
        }
        merged.push(Some(item));
    }
    merged.into_iter().flatten().collect()
}

/// Merges the texts of two items about a file: the last action and the last statement about it.
fn merge_file_texts(before: &str, after: &str) -> String {
    let (action_before, statement_before) = split_file_text(before);
    let (action, statement) = split_file_text(after);
    let action = match (action_before, action) {
        // A file that the session created and then changed is still a created one.
        (Some("created"), Some("changed")) => Some("created"),
        (before, after) => after.or(before),
    };
    let statement = statement.or(statement_before);
    let parts: Vec<&str> = action.into_iter().chain(statement).collect();
    parts.join(": ")
}

/// Splits the text of a file item into the action and the statement about the file.
fn split_file_text(text: &str) -> (Option<&str>, Option<&str>) {
    let (action, statement) = match text.split_once(": ") {
        Some((action, statement)) => (action, Some(statement)),
        None => (text, None),
    };
    match action {
        "created" | "changed" | "deleted" => (Some(action), statement),
        _ => (None, Some(text)),
    }
}

/// Removes items that repeat the kind and text of an earlier one. Items with a subject and items that
/// the user pinned or wrote stay.
fn drop_duplicates(mut items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let mut seen: HashSet<(ItemKind, String)> = HashSet::new();
    items.retain(|item| {
        item.subject.is_some()
            || seen.insert((item.kind, normalise_text(&item.text)))
            || is_user_owned(item)
    });
    items
}

/// Expires work in progress, next steps and trivial requests of earlier turns. Expired work and steps become notes if
/// their weight suffices; all other expired items are dropped.
fn expire_items(items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let is_transient = |item: &CheckpointItem| {
        matches!(item.kind, ItemKind::Focus | ItemKind::NextStep) && item.subject.is_none()
    };
    let newest = items.iter().map(|item| item.turn).max().unwrap_or(0);
    let expire = |item: CheckpointItem| {
        let is_current = item.turn.saturating_add(CURRENT_TURN_COUNT) > newest;
        let is_last = item.turn == newest;
        if is_user_owned(&item) || is_last {
            return Some(item);
        }
        if item.kind == ItemKind::Request {
            // A request such as `go on` applied only to its own turn.
            let words = normalise_text(&item.text);
            let has_content = words.split(' ').any(|word| !is_common(word));
            return has_content.then_some(item);
        }
        // The next prompt answered the agent's question, or made it irrelevant.
        let is_answered = item.text.ends_with('?');
        if !is_transient(&item) || is_current && !is_answered {
            return Some(item);
        }
        if is_answered && !item.text.contains(". ") {
            return None;
        }
        let weight =
            item.weight - base_weight(item.kind).min(item.weight) + base_weight(ItemKind::Note);
        (weight >= MIN_NOTE_WEIGHT).then_some(CheckpointItem {
            kind: ItemKind::Note,
            weight,
            ..item
        })
    };
    items.into_iter().filter_map(expire).collect()
}

/// Selects the items that fit into `room` tokens.
fn select_fitting_items(
    items: Vec<CheckpointItem>,
    room: u64,
    count: &dyn Fn(&str) -> u64,
) -> Vec<CheckpointItem> {
    let is_prompt_item = |item: &CheckpointItem| item.message_index == 0 && item.subject.is_none();
    let prompt_items = items.iter().filter(|item| is_prompt_item(item));
    let last_prompt_turn = prompt_items.map(|item| item.turn).max();
    let tokens = |item: &CheckpointItem| count(&render::render_item_line(item)) + 1;
    let (mut selected, candidates): (Vec<CheckpointItem>, Vec<CheckpointItem>) =
        items.into_iter().partition(is_user_owned);
    let mut used: u64 = selected.iter().map(tokens).sum();
    // The last request is retained too, up to half of the budget: a pasted text would leave no room for other items.
    let mut prompt_room = room / 2;
    let (last_prompt_items, candidates): (Vec<CheckpointItem>, Vec<CheckpointItem>) =
        candidates.into_iter().partition(|item| {
            if !is_prompt_item(item) || Some(item.turn) != last_prompt_turn {
                return false;
            }
            let tokens = tokens(item);
            let fits = tokens <= prompt_room;
            if fits {
                prompt_room -= tokens;
                used += tokens;
            }
            fits
        });
    selected.extend(last_prompt_items);
    let mut items_by_kind: HashMap<ItemKind, Vec<CheckpointItem>> = HashMap::new();
    for item in candidates {
        items_by_kind.entry(item.kind).or_default().push(item);
    }
    let mut remaining: Vec<CheckpointItem> = Vec::new();
    for kind in ItemKind::ALL {
        let mut kind_items = items_by_kind.remove(&kind).unwrap_or_default();
        sort_by_weight(kind, &mut kind_items);
        kind_items.truncate(max_items(kind));
        let kind_room = room * reserved_percent(kind) / 100;
        let mut kind_used = 0;
        let mut kind_items = kind_items.into_iter();
        for item in kind_items.by_ref() {
            let tokens = tokens(&item);
            if kind_used + tokens > kind_room || used + tokens > room {
                remaining.push(item);
                break;
            }
            kind_used += tokens;
            used += tokens;
            selected.push(item);
        }
        remaining.extend(kind_items);
    }
    remaining.sort_by_key(|item| std::cmp::Reverse((item.weight, item.turn, item.id)));
    let mut misses = 0;
    for item in remaining {
        let tokens = tokens(&item);
        if used + tokens <= room {
            used += tokens;
            selected.push(item);
        } else {
            misses += 1;
        }
        if misses == MAX_FIT_MISSES {
            break;
        }
    }
    selected
}

/// Sorts items by weight, highest first. Kinds that change often are sorted by age alone, newest first.
fn sort_by_weight(kind: ItemKind, items: &mut [CheckpointItem]) {
    let by_age_only = matches!(
        kind,
        ItemKind::File | ItemKind::Command | ItemKind::Check | ItemKind::Focus | ItemKind::NextStep
    );
    items.sort_by_key(|item| {
        let weight = if by_age_only { 0 } else { item.weight };
        std::cmp::Reverse((weight, item.turn, item.id))
    });
}
