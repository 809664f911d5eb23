//! One checkpoint of what was known before and what was found since, in the room there is.

use std::collections::{HashMap, HashSet};

use super::everyday::is_common;
use super::extract::{WORTH_A_NOTE, base};
use super::goal::with_goal;
use super::settled::settled;
use super::tools::STEP;
use super::units::plain;
use super::withdrawn::taken_back;
use super::{Author, Checkpoint, Item, ItemKind, written};

/// How much of the room each kind has to itself, of 100. What it does not need goes to whoever tells most.
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

/// How many of the newest items of a kind are of use at all.
fn most(kind: ItemKind) -> usize {
    match kind {
        ItemKind::Command => 20,
        ItemKind::Check => 10,
        _ => usize::MAX,
    }
}

/// Of how many of the newest turns it is still told what was under way and what was next.
const NOW: u32 = 2;

/// After how many items that there is no room for nobody looks for a smaller one.
const MISSES: usize = 100;

/// Puts together what a checkpoint had and what was found since, oldest first, in about `room` tokens.
///
/// What the person pinned or wrote stays whatever happens, and so does what was asked for last. Of two items about the
/// same thing the newer counts, of two that say the same the older.
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

/// Without the open steps of plans that another plan has taken the place of.
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

/// Whether the person pinned or wrote it.
fn is_of_person(item: &Item) -> bool {
    item.pinned || item.by == Author::Person
}

/// Of items about the same thing the newest.
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
        // Two that the person wrote are two, whatever they are about.
        let written = |before: &mut Item| before.by == Author::Person && item.by == Author::Person;
        let before = before.and_then(|before| before.take_if(|before| !written(before)));
        if let Some(before) = before {
            if before.by == Author::Person && item.by != Author::Person {
                // Nobody writes over what the person wrote.
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

/// What is known of a file: what was done to it, and what was last said about it.
fn of_file(before: &str, after: &str) -> String {
    let (done_before, said_before) = apart(before);
    let (done, said) = apart(after);
    let done = match (done_before, done) {
        // What was made here and changed since was made here.
        (Some("created"), Some("changed")) => Some("created"),
        (before, after) => after.or(before),
    };
    let said = said.or(said_before);
    let parts: Vec<&str> = done.into_iter().chain(said).collect();
    parts.join(": ")
}

/// What was done to a file, and what was said about it.
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

/// Of items that say the same the first.
fn distinct(items: Vec<Item>) -> Vec<Item> {
    let mut seen: HashSet<(ItemKind, String)> = HashSet::new();
    let mut items = items;
    items.retain(|item| {
        item.subject.is_some() || seen.insert((item.kind, plain(&item.text))) || is_of_person(item)
    });
    items
}

/// What was under way or next some turns ago is neither any more: what tells something is noted, the rest is gone.
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
            // `go on` was for then.
            let words = plain(&item.text);
            let says = words.split(' ').any(|word| !is_common(word));
            return says.then_some(item);
        }
        // What the agent asked was answered by the next prompt, one way or another.
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

/// The items that there is room for.
fn chosen(items: Vec<Item>, room: u64, count: &dyn Fn(&str) -> u64) -> Vec<Item> {
    let asked = |item: &Item| item.message == 0 && item.subject.is_none();
    let last_asked = items.iter().filter(|item| asked(item));
    let last_asked = last_asked.map(|item| item.turn).max();
    let tokens = |item: &Item| count(&written::line(item)) + 1;
    let (mut kept, others): (Vec<Item>, Vec<Item>) = items.into_iter().partition(is_of_person);
    let mut used: u64 = kept.iter().map(tokens).sum();
    // What was asked for last stays as well, but for something that was pasted: that would leave no room for the rest.
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

/// The ones that tell most first; of what changes all the time, the newest.
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
