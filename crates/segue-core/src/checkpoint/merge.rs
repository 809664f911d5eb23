//! Merging of a checkpoint and newly extracted items within a token budget.

use std::collections::{HashMap, HashSet};

use super::everyday::is_common;
use super::extract::{WORTH_A_NOTE, base};
use super::goal::with_goal;
use super::settled::settled;
use super::text_units::plain;
use super::tool_actions::STEP;
use super::withdrawn::taken_back;
use super::{Author, Checkpoint, Item, ItemKind, render};

/// Returns the percentage of the budget that is reserved for a kind. The unused remainder goes to the items with the
/// highest weight.
fn share(kind: ItemKind) -> u64 {
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
fn most(kind: ItemKind) -> usize {
    match kind {
        ItemKind::Command => 20,
        ItemKind::Check => 10,
        _ => usize::MAX,
    }
}

/// Number of newest turns in which work in progress and next steps are still current.
const NOW: u32 = 2;

/// Number of items that may exceed the remaining budget before the search for a smaller one stops.
const MISSES: usize = 100;

/// Merges a checkpoint and the items found since then, oldest first, into about `room` tokens.
///
/// Items that the user pinned or wrote are always retained, and so is the user's last request. Of two items with the
/// same subject the newer one counts, of two with the same text the older one.
#[must_use]
pub fn merge(
    before: &Checkpoint,
    found: Vec<Item>,
    room: u64,
    count: &dyn Fn(&str) -> u64,
) -> Checkpoint {
    let mut next = before.next_id();
    let found = with_goal(before, found);
    let mut items: Vec<Item> = before.items.clone();
    items.extend(found.into_iter().map(|item| {
        let id = next;
        next = next.saturating_add(1);
        Item { id, ..item }
    }));
    let items = newest_of_each(replanned(items));
    let items = distinct(aged(settled(taken_back(items))));
    let items = chosen(items, room, count);
    Checkpoint {
        items,
        loop_state: before.loop_state.clone(),
    }
    .in_order()
}

/// Removes the open steps of plans that a newer plan replaced.
fn replanned(items: Vec<Item>) -> Vec<Item> {
    let is_step = |item: &Item| {
        let subject = item.subject.as_deref();
        subject.is_some_and(|subject| subject.starts_with(STEP))
    };
    let steps = items.iter().filter(|item| is_step(item));
    let newest = steps.map(|item| (item.turn, item.message)).max();
    let stays = |item: &Item| {
        !is_step(item)
            || is_of_person(item)
            || item.kind == ItemKind::Done
            || Some((item.turn, item.message)) == newest
    };
    items.into_iter().filter(stays).collect()
}

/// Returns `true` if the user pinned or wrote the item.
fn is_of_person(item: &Item) -> bool {
    item.pinned || item.by == Author::Person
}

/// Merges items with the same subject into the newest one.
fn newest_of_each(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<Option<Item>> = Vec::with_capacity(items.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for mut item in items {
        let Some(subject) = item.subject.clone() else {
            kept.push(Some(item));
            continue;
        };
        let before = places.insert(subject, kept.len());
        let before = before.and_then(|at| kept.get_mut(at));
        // Two items that the user wrote stay separate, even if their subject is the same.
        let written = |before: &mut Item| before.by == Author::Person && item.by == Author::Person;
        let before = before.and_then(|before| before.take_if(|before| !written(before)));
        if let Some(before) = before {
            if before.by == Author::Person && item.by != Author::Person {
                // An item from another author never overwrites the user's text.
                (item.kind, item.text, item.by) = (before.kind, before.text, before.by);
            } else if item.kind == ItemKind::File && before.kind == ItemKind::File {
                item.text = of_file(&before.text, &item.text);
            }
            item.id = before.id;
            item.weight = item.weight.max(before.weight);
            item.pinned |= before.pinned;
        }
        kept.push(Some(item));
    }
    kept.into_iter().flatten().collect()
}

/// Merges the texts of two items about a file: the last action and the last statement about it.
fn of_file(before: &str, after: &str) -> String {
    let (done_before, said_before) = apart(before);
    let (done, said) = apart(after);
    let done = match (done_before, done) {
        // A file that the session created and then changed is still a created one.
        (Some("created"), Some("changed")) => Some("created"),
        (before, after) => after.or(before),
    };
    let said = said.or(said_before);
    let parts: Vec<&str> = done.into_iter().chain(said).collect();
    parts.join(": ")
}

/// Splits the text of a file item into the action and the statement about the file.
fn apart(text: &str) -> (Option<&str>, Option<&str>) {
    for done in ["created", "changed", "deleted"] {
        match text.strip_prefix(done) {
            Some("") => return (Some(done), None),
            Some(rest) if rest.starts_with(": ") => return (Some(done), rest.get(2..)),
            Some(_) | None => {}
        }
    }
    (None, Some(text))
}

/// Removes items that repeat the kind and text of an earlier one. Items with a subject and items that
/// the user pinned or wrote stay.
fn distinct(items: Vec<Item>) -> Vec<Item> {
    let mut seen: HashSet<(ItemKind, String)> = HashSet::new();
    let mut items = items;
    items.retain(|item| {
        item.subject.is_some() || seen.insert((item.kind, plain(&item.text))) || is_of_person(item)
    });
    items
}

/// Expires work in progress, next steps and trivial requests of earlier turns. Expired work and steps become notes if
/// their weight suffices; all other expired items are dropped.
fn aged(items: Vec<Item>) -> Vec<Item> {
    let passes = |item: &Item| {
        matches!(item.kind, ItemKind::Focus | ItemKind::NextStep) && item.subject.is_none()
    };
    let newest = items.iter().map(|item| item.turn).max().unwrap_or(0);
    let aged = |item: Item| {
        let is_now = item.turn.saturating_add(NOW) > newest;
        let is_last = item.turn == newest;
        if is_of_person(&item) || is_last {
            return Some(item);
        }
        if item.kind == ItemKind::Request {
            // A request such as `go on` applied only to its own turn.
            let words = plain(&item.text);
            let says = words.split(' ').any(|word| !is_common(word));
            return says.then_some(item);
        }
        // The next prompt answered the agent's question, or made it irrelevant.
        let is_answered = item.text.ends_with('?');
        if !passes(&item) || is_now && !is_answered {
            return Some(item);
        }
        if is_answered && !item.text.contains(". ") {
            return None;
        }
        let weight = item.weight - base(item.kind).min(item.weight) + base(ItemKind::Note);
        (weight >= WORTH_A_NOTE).then_some(Item {
            kind: ItemKind::Note,
            weight,
            ..item
        })
    };
    items.into_iter().filter_map(aged).collect()
}

/// Selects the items that fit into `room` tokens.
fn chosen(items: Vec<Item>, room: u64, count: &dyn Fn(&str) -> u64) -> Vec<Item> {
    let asked = |item: &Item| item.message == 0 && item.subject.is_none();
    let last_asked = items.iter().filter(|item| asked(item));
    let last_asked = last_asked.map(|item| item.turn).max();
    let tokens = |item: &Item| count(&render::line(item)) + 1;
    let (mut kept, others): (Vec<Item>, Vec<Item>) = items.into_iter().partition(is_of_person);
    let mut used: u64 = kept.iter().map(tokens).sum();
    // The last request is retained too, up to half of the budget: a pasted text would leave no room for other items.
    let mut for_asked = room / 2;
    let (stay, others): (Vec<Item>, Vec<Item>) = others.into_iter().partition(|item| {
        if !asked(item) || Some(item.turn) != last_asked {
            return false;
        }
        let tokens = tokens(item);
        let fits = tokens <= for_asked;
        if fits {
            for_asked -= tokens;
            used += tokens;
        }
        fits
    });
    kept.extend(stay);
    let mut by_kind: HashMap<ItemKind, Vec<Item>> = HashMap::new();
    for item in others {
        by_kind.entry(item.kind).or_default().push(item);
    }
    let mut rest: Vec<Item> = Vec::new();
    for kind in ItemKind::ALL {
        let mut of_kind = by_kind.remove(&kind).unwrap_or_default();
        by_worth(kind, &mut of_kind);
        of_kind.truncate(most(kind));
        let own = room * share(kind) / 100;
        let mut taken = 0;
        let mut of_kind = of_kind.into_iter();
        for item in of_kind.by_ref() {
            let tokens = tokens(&item);
            if taken + tokens > own || used + tokens > room {
                rest.push(item);
                break;
            }
            taken += tokens;
            used += tokens;
            kept.push(item);
        }
        rest.extend(of_kind);
    }
    rest.sort_by_key(|item| std::cmp::Reverse((item.weight, item.turn, item.id)));
    let mut misses = 0;
    for item in rest {
        let tokens = tokens(&item);
        if used + tokens <= room {
            used += tokens;
            kept.push(item);
        } else {
            misses += 1;
        }
        if misses == MISSES {
            break;
        }
    }
    kept
}

/// Sorts items by weight, highest first. Kinds that change often are sorted by age alone, newest first.
fn by_worth(kind: ItemKind, items: &mut [Item]) {
    let newest = matches!(
        kind,
        ItemKind::File | ItemKind::Command | ItemKind::Check | ItemKind::Focus | ItemKind::NextStep
    );
    items.sort_by_key(|item| {
        let worth = if newest { 0 } else { item.weight };
        std::cmp::Reverse((worth, item.turn, item.id))
    });
}
