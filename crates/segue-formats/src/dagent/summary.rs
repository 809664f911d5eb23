//! Conversion between the lists of a summary and the items of a checkpoint.
//!
//! Three forms are read: `completedItems` and similar names, `completed` with `inProgress`, and `critical` with
//! `important` and `minor`. Only the first form is written. An item whose kind has no list is in the most similar list,
//! with a prefix that names its kind, so that a reader of the lists finds all items.

use segue_core::checkpoint::{
    Author, Checkpoint, Delta, Item, ItemKind, LoopState, decode_delta, encode_delta,
};
use serde_json::{Map, Value};

use super::schema::{Loop, Summary};
use crate::json_fields::{kind, map, number, one_line, text};

/// Returns the list for items of a kind, and their prefix in it.
fn place(kind: ItemKind) -> (&'static str, Option<&'static str>) {
    match kind {
        ItemKind::Done => (DONE, None),
        ItemKind::File => (DONE, Some("File")),
        ItemKind::Command => (DONE, Some("Command")),
        ItemKind::Check => (DONE, Some("Check")),
        ItemKind::Pending => (PENDING, None),
        ItemKind::Focus => (PENDING, Some("In progress")),
        ItemKind::Request => (PENDING, Some("Asked")),
        ItemKind::NextStep => (PENDING, Some("Next")),
        ItemKind::Decision => (DECISIONS, None),
        ItemKind::Goal => (DECISIONS, Some("Goal")),
        ItemKind::Directive => (DECISIONS, Some("Rule")),
        ItemKind::Note => (DECISIONS, Some("Note")),
        ItemKind::Blocker => (BLOCKERS, None),
        ItemKind::Attempt => (BLOCKERS, Some("Tried")),
    }
}

const DONE: &str = "completedItems";
const PENDING: &str = "pendingItems";
const DECISIONS: &str = "decisions";
const BLOCKERS: &str = "blockers";

/// Weight of an item of which the file contains only the text.
const WEIGHT: u32 = 110;
/// Weight of an item from the list `minor`.
const MINOR: u32 = 20;

/// A list of a summary, with the properties of its items.
struct List {
    name: &'static str,
    kind: ItemKind,
    weight: u32,
    pinned: bool,
}

const fn list(name: &'static str, kind: ItemKind) -> List {
    List {
        name,
        kind,
        weight: WEIGHT,
        pinned: false,
    }
}

/// All lists of the three forms. A name that occurs in several forms has one meaning.
const LISTS: [List; 11] = [
    list(DONE, ItemKind::Done),
    list("completed", ItemKind::Done),
    list(PENDING, ItemKind::Pending),
    list("pending", ItemKind::Pending),
    list("inProgressItems", ItemKind::Focus),
    list("inProgress", ItemKind::Focus),
    list(DECISIONS, ItemKind::Decision),
    list(BLOCKERS, ItemKind::Blocker),
    List {
        name: "critical",
        kind: ItemKind::Note,
        weight: WEIGHT,
        // By the rules of dagent, a critical item may never be dropped.
        pinned: true,
    },
    list("important", ItemKind::Note),
    List {
        name: "minor",
        kind: ItemKind::Note,
        weight: MINOR,
        pinned: false,
    },
];

/// Renders an item as an entry of its list.
fn written(item: &Item) -> String {
    let text = match &item.subject {
        Some(subject) => format!("{subject}: {}", item.text),
        None => item.text.clone(),
    };
    match place(item.kind) {
        (_, Some(word)) => format!("{word}: {text}"),
        (_, None) => text,
    }
}

/// Renders the lists of a checkpoint.
pub(super) fn summary(checkpoint: &Checkpoint) -> Summary {
    let of = |name: &str| {
        let items = checkpoint.items.iter();
        let items = items.filter(|item| place(item.kind).0 == name);
        items.map(written).collect()
    };
    Summary {
        completed_items: of(DONE),
        pending_items: of(PENDING),
        decisions: of(DECISIONS),
        blockers: of(BLOCKERS),
    }
}

/// Encodes all fields of the items for the `segue` field, so that a later import restores them. `None` if the
/// checkpoint has no items.
pub(super) fn details(checkpoint: &Checkpoint) -> Option<Value> {
    let items = Checkpoint {
        items: checkpoint.items.clone(),
        loop_state: None,
    };
    let delta = Delta::between(&Checkpoint::default(), &items);
    let some = !items.items.is_empty();
    some.then(|| serde_json::from_str(&encode_delta(&delta)).ok())?
}

/// Reads the checkpoint in a file. The lists decide which items exist. The `segue` field adds the other fields of an
/// item whose text is in a list.
pub(super) fn checkpoint(
    file: &Map<String, Value>,
    turn: u32,
    remarks: &mut Vec<String>,
) -> Checkpoint {
    let details = file.get("segue").map(ToString::to_string);
    let details = details.and_then(|text| decode_delta(&text).ok());
    let mut known: Vec<Item> = details.map(|delta| delta.set).unwrap_or_default();
    let mut next = known.iter().map(|item| item.id).max().unwrap_or(0);
    let mut items = Vec::new();
    let lists = map(file, "summary");
    for (list, told) in lists.into_iter().flat_map(|lists| told(lists, remarks)) {
        let same = known
            .iter()
            .position(|item| one_line(&written(item)) == told);
        let item = if let Some(at) = same {
            known.remove(at)
        } else {
            next = next.saturating_add(1);
            new_item(next, list, &told, turn)
        };
        items.push(item);
    }
    let delta = Delta {
        set: items,
        loop_state: Some(loop_state(file)),
        ..Delta::default()
    };
    // Ids of segue are unique and small. A duplicate id, or one above `u32::MAX / 2`, which would leave too few ids for
    // later items, is not from segue. In that case all items get new ids.
    let mut seen = std::collections::HashSet::new();
    let is_ours = |item: &Item| item.id <= u32::MAX / 2 && seen.insert(item.id);
    if delta.set.iter().all(is_ours) {
        return delta.apply(&Checkpoint::default());
    }
    let renumbered = (1..).zip(delta.set).map(|(id, item)| Item { id, ..item });
    let delta = Delta {
        set: renumbered.collect(),
        loop_state: delta.loop_state,
        gone: Vec::new(),
    };
    delta.apply(&Checkpoint::default())
}

/// Returns the texts of all lists that exist, each with its list.
fn told(lists: &Map<String, Value>, remarks: &mut Vec<String>) -> Vec<(&'static List, String)> {
    let mut found = Vec::new();
    for list in &LISTS {
        let Some(value) = lists.get(list.name) else {
            continue;
        };
        let Some(texts) = value.as_array() else {
            if !value.is_null() {
                remarks.push(format!("{} is {}, not a list", list.name, kind(value)));
            }
            continue;
        };
        for (n, value) in (1..).zip(texts) {
            match value.as_str().map(one_line) {
                Some(text) if text.is_empty() => {}
                Some(text) => found.push((list, text)),
                None => remarks.push(format!(
                    "item {n} of {} is {}, not a text, and was left out",
                    list.name,
                    kind(value)
                )),
            }
        }
    }
    found
}

fn new_item(id: u32, list: &List, told: &str, turn: u32) -> Item {
    let worded = ItemKind::ALL.into_iter().find_map(|kind| {
        let (name, word) = place(kind);
        let rest = told.strip_prefix(word?)?.strip_prefix(": ")?;
        (name == place(list.kind).0).then_some((kind, rest))
    });
    let (kind, text) = worded.unwrap_or((list.kind, told));
    let about = matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check);
    let split = about.then(|| text.split_once(": ")).flatten();
    let (subject, text) = match split {
        Some((subject, text)) => (Some(subject.to_owned()), text),
        None => (None, text),
    };
    Item {
        id,
        kind,
        text: text.to_owned(),
        subject,
        turn,
        message: 0,
        by: Author::Summary,
        weight: list.weight,
        pinned: list.pinned,
    }
}

/// Reads the state of the check loop; `None` if the file has none.
fn loop_state(file: &Map<String, Value>) -> Option<LoopState> {
    let state = map(file, "ralphLoop")?;
    let checks = |name: &str| {
        let all = state.get(name).and_then(Value::as_array);
        let all = all.into_iter().flatten().filter_map(Value::as_str);
        all.map(one_line).collect()
    };
    let iteration = number(state, "currentIteration").unwrap_or(0);
    Some(LoopState {
        iteration: u32::try_from(iteration).unwrap_or(u32::MAX),
        passed: checks("passedChecks"),
        failed: checks("failedChecks"),
        last_error: text(state, &["lastError"]).map(one_line),
    })
}

/// Converts the state of the check loop to its form in the file.
pub(super) fn loop_shape(state: &LoopState) -> Loop {
    Loop {
        current_iteration: state.iteration,
        passed_checks: state.passed.clone(),
        failed_checks: state.failed.clone(),
        last_error: state.last_error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_leaves_none_for_others_is_not_taken_up() {
        let item = json!({"id": u32::MAX, "kind": "pending", "text": "the docs", "turn": 1, "message": 0,
            "by": "record", "weight": 1, "pinned": true});
        let file = json!({"summary": {"pendingItems": ["the docs", "the tests"]},
            "segue": {"v": 1, "set": [item]}});
        let Value::Object(file) = file else {
            panic!("{file}")
        };
        let checkpoint = checkpoint(&file, 1, &mut Vec::new());
        let found: Vec<_> = checkpoint
            .items
            .iter()
            .map(|item| (item.id, item.text.as_str(), item.pinned))
            .collect();
        assert_eq!(found, [(1, "the docs", true), (2, "the tests", false)]);
    }
}
