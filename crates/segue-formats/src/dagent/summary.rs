//! Conversion between the lists of a summary and the items of a checkpoint.
//!
//! Three forms are read: `completedItems` and similar names, `completed` with `inProgress`, and `critical` with
//! `important` and `minor`. Only the first form is written. An item whose kind has no list is in the most similar list,
//! with a prefix that names its kind, so that a reader of the lists finds all items.

use segue_core::checkpoint::{
    Checkpoint, CheckpointDelta, CheckpointItem, ItemAuthor, ItemKind, LoopState, decode_delta,
    encode_delta,
};
use serde_json::{Map, Value};

use super::schema::{DagentLoop, DagentSummary};
use crate::json_fields::{
    collapse_to_one_line, describe_type, integer_field, object_field, string_field,
};

/// Returns the list for items of a kind, and their prefix in it.
fn list_and_prefix(kind: ItemKind) -> (&'static str, Option<&'static str>) {
    match kind {
        ItemKind::Done => (COMPLETED_ITEMS_LIST, None),
        ItemKind::File => (COMPLETED_ITEMS_LIST, Some("File")),
        ItemKind::Command => (COMPLETED_ITEMS_LIST, Some("Command")),
        ItemKind::Check => (COMPLETED_ITEMS_LIST, Some("Check")),
        ItemKind::Pending => (PENDING_ITEMS_LIST, None),
        ItemKind::Focus => (PENDING_ITEMS_LIST, Some("In progress")),
        ItemKind::Request => (PENDING_ITEMS_LIST, Some("Asked")),
        ItemKind::NextStep => (PENDING_ITEMS_LIST, Some("Next")),
        ItemKind::Decision => (DECISIONS_LIST, None),
        ItemKind::Goal => (DECISIONS_LIST, Some("Goal")),
        ItemKind::Directive => (DECISIONS_LIST, Some("Rule")),
        ItemKind::Note => (DECISIONS_LIST, Some("Note")),
        ItemKind::Blocker => (BLOCKERS_LIST, None),
        ItemKind::Attempt => (BLOCKERS_LIST, Some("Tried")),
    }
}

const COMPLETED_ITEMS_LIST: &str = "completedItems";
const PENDING_ITEMS_LIST: &str = "pendingItems";
const DECISIONS_LIST: &str = "decisions";
const BLOCKERS_LIST: &str = "blockers";

/// Weight of an item of which the file contains only the text.
const DEFAULT_ITEM_WEIGHT: u32 = 110;
/// Weight of an item from the list `minor`.
const MINOR_ITEM_WEIGHT: u32 = 20;

/// A list of a summary, with the properties of its items.
struct DagentSummaryList {
    name: &'static str,
    kind: ItemKind,
    weight: u32,
    pinned: bool,
}

const fn unpinned_list(name: &'static str, kind: ItemKind) -> DagentSummaryList {
    DagentSummaryList {
        name,
        kind,
        weight: DEFAULT_ITEM_WEIGHT,
        pinned: false,
    }
}

/// All lists of the three forms. A name that occurs in several forms has one meaning.
const SUMMARY_LISTS: [DagentSummaryList; 11] = [
    unpinned_list(COMPLETED_ITEMS_LIST, ItemKind::Done),
    unpinned_list("completed", ItemKind::Done),
    unpinned_list(PENDING_ITEMS_LIST, ItemKind::Pending),
    unpinned_list("pending", ItemKind::Pending),
    unpinned_list("inProgressItems", ItemKind::Focus),
    unpinned_list("inProgress", ItemKind::Focus),
    unpinned_list(DECISIONS_LIST, ItemKind::Decision),
    unpinned_list(BLOCKERS_LIST, ItemKind::Blocker),
    DagentSummaryList {
        name: "critical",
        kind: ItemKind::Note,
        weight: DEFAULT_ITEM_WEIGHT,
        // By the rules of dagent, a critical item may never be dropped.
        pinned: true,
    },
    unpinned_list("important", ItemKind::Note),
    DagentSummaryList {
        name: "minor",
        kind: ItemKind::Note,
        weight: MINOR_ITEM_WEIGHT,
        pinned: false,
    },
];

/// Renders an item as an entry of its list.
fn render_item(item: &CheckpointItem) -> String {
    let text = match &item.subject {
        Some(subject) => format!("{subject}: {}", item.text),
        None => item.text.clone(),
    };
    match list_and_prefix(item.kind) {
        (_, Some(prefix)) => format!("{prefix}: {text}"),
        (_, None) => text,
    }
}

/// Renders the lists of a checkpoint.
pub(super) fn render_summary(checkpoint: &Checkpoint) -> DagentSummary {
    let render_list = |name: &str| {
        let items = checkpoint.items.iter();
        let items = items.filter(|item| list_and_prefix(item.kind).0 == name);
        items.map(render_item).collect()
    };
    DagentSummary {
        completed_items: render_list(COMPLETED_ITEMS_LIST),
        pending_items: render_list(PENDING_ITEMS_LIST),
        decisions: render_list(DECISIONS_LIST),
        blockers: render_list(BLOCKERS_LIST),
    }
}

/// Encodes all fields of the items for the `segue` field, so that a later import restores them. `None` if the
/// checkpoint has no items.
pub(super) fn encode_items(checkpoint: &Checkpoint) -> Option<Value> {
    let items = Checkpoint {
        items: checkpoint.items.clone(),
        loop_state: None,
    };
    let delta = CheckpointDelta::between(&Checkpoint::default(), &items);
    let has_items = !items.items.is_empty();
    has_items.then(|| serde_json::from_str(&encode_delta(&delta)).ok())?
}

/// Reads the checkpoint in a file. The lists decide which items exist. The `segue` field adds the other fields of an
/// item whose text is in a list.
pub(super) fn parse_checkpoint_content(
    file: &Map<String, Value>,
    turn: u32,
    remarks: &mut Vec<String>,
) -> Checkpoint {
    let encoded_delta = file.get("segue").map(ToString::to_string);
    let encoded_delta = encoded_delta.and_then(|text| decode_delta(&text).ok());
    let mut encoded_items: Vec<CheckpointItem> = encoded_delta
        .map(|delta| delta.changed_items)
        .unwrap_or_default();
    let mut last_id = encoded_items.iter().map(|item| item.id).max().unwrap_or(0);
    let mut items = Vec::new();
    let lists = object_field(file, "summary");
    for (list, entry) in lists
        .into_iter()
        .flat_map(|lists| collect_entries(lists, remarks))
    {
        let matching = encoded_items
            .iter()
            .position(|item| collapse_to_one_line(&render_item(item)) == entry);
        let item = if let Some(index) = matching {
            encoded_items.remove(index)
        } else {
            last_id = last_id.saturating_add(1);
            new_item(last_id, list, &entry, turn)
        };
        items.push(item);
    }
    let delta = CheckpointDelta {
        changed_items: items,
        loop_state: Some(parse_loop_state(file)),
        ..CheckpointDelta::default()
    };
    // Ids of segue are unique and small. A duplicate id, or one above `u32::MAX / 2`, which would leave too few ids for
    // later items, is not from segue. In that case all items get new ids.
    let mut seen_ids = std::collections::HashSet::new();
    let is_segue_id = |item: &CheckpointItem| item.id <= u32::MAX / 2 && seen_ids.insert(item.id);
    if delta.changed_items.iter().all(is_segue_id) {
        return delta.apply(&Checkpoint::default());
    }
    let renumbered = (1..)
        .zip(delta.changed_items)
        .map(|(id, item)| CheckpointItem { id, ..item });
    let delta = CheckpointDelta {
        changed_items: renumbered.collect(),
        loop_state: delta.loop_state,
        removed_ids: Vec::new(),
    };
    delta.apply(&Checkpoint::default())
}

/// Returns the texts of all lists that exist, each with its list.
fn collect_entries(
    lists: &Map<String, Value>,
    remarks: &mut Vec<String>,
) -> Vec<(&'static DagentSummaryList, String)> {
    let mut entries = Vec::new();
    for list in &SUMMARY_LISTS {
        let Some(value) = lists.get(list.name) else {
            continue;
        };
        let Some(texts) = value.as_array() else {
            if !value.is_null() {
                remarks.push(format!(
                    "field `{}` is {}, not a list",
                    list.name,
                    describe_type(value)
                ));
            }
            continue;
        };
        for (n, value) in (1..).zip(texts) {
            match value.as_str().map(collapse_to_one_line) {
                Some(text) if text.is_empty() => {}
                Some(text) => entries.push((list, text)),
                None => remarks.push(format!(
                    "item {n} of `{}` was omitted: it is {}, not a string",
                    list.name,
                    describe_type(value)
                )),
            }
        }
    }
    entries
}

fn new_item(id: u32, list: &DagentSummaryList, entry: &str, turn: u32) -> CheckpointItem {
    let prefixed = ItemKind::ALL.into_iter().find_map(|kind| {
        let (name, prefix) = list_and_prefix(kind);
        let remainder = entry.strip_prefix(prefix?)?.strip_prefix(": ")?;
        (name == list_and_prefix(list.kind).0).then_some((kind, remainder))
    });
    let (kind, text) = prefixed.unwrap_or((list.kind, entry));
    let has_subject = matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check);
    let split = has_subject.then(|| text.split_once(": ")).flatten();
    let (subject, text) = match split {
        Some((subject, text)) => (Some(subject.to_owned()), text),
        None => (None, text),
    };
    CheckpointItem {
        id,
        kind,
        text: text.to_owned(),
        subject,
        turn,
        message_index: 0,
        author: ItemAuthor::Summariser,
        weight: list.weight,
        pinned: list.pinned,
    }
}

/// Reads the state of the check loop; `None` if the file has none.
fn parse_loop_state(file: &Map<String, Value>) -> Option<LoopState> {
    let state = object_field(file, "ralphLoop")?;
    let checks = |name: &str| {
        let values = state.get(name).and_then(Value::as_array);
        let values = values.into_iter().flatten().filter_map(Value::as_str);
        values.map(collapse_to_one_line).collect()
    };
    let iteration = integer_field(state, "currentIteration").unwrap_or(0);
    Some(LoopState {
        iteration: u32::try_from(iteration).unwrap_or(u32::MAX),
        passed: checks("passedChecks"),
        failed: checks("failedChecks"),
        last_error: string_field(state, &["lastError"]).map(collapse_to_one_line),
    })
}

/// Converts the state of the check loop to its form in the file.
pub(super) fn to_dagent_loop(state: &LoopState) -> DagentLoop {
    DagentLoop {
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
    fn items_are_renumbered_if_an_id_leaves_too_few_for_later_items() {
        let item = json!({"id": u32::MAX, "kind": "pending", "text": "the docs", "turn": 1, "message": 0,
            "by": "record", "weight": 1, "pinned": true});
        let file = json!({"summary": {"pendingItems": ["the docs", "the tests"]},
            "segue": {"v": 1, "set": [item]}});
        let Value::Object(file) = file else {
            panic!("{file}")
        };
        let checkpoint = parse_checkpoint_content(&file, 1, &mut Vec::new());
        let items: Vec<_> = checkpoint
            .items
            .iter()
            .map(|item| (item.id, item.text.as_str(), item.pinned))
            .collect();
        assert_eq!(items, [(1, "the docs", true), (2, "the tests", false)]);
    }
}
