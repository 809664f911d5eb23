//! Conversion between the lists of a summary and the items of a checkpoint.
//!
//! Three forms are read: `completedItems` and similar names, `completed` with `inProgress`, and `critical` with
//! `important` and `minor`. Only the first form is written. An item whose kind has no list is in the most similar list,
//! with a prefix that names its kind, so that a reader of the lists finds all items.

use segue_core::checkpoint::{
    Checkpoint, CheckpointDelta, CheckpointItem, ItemAuthor, ItemKind, LoopState, decode_delta,
    encode_delta,
};
use serde_json::{Map, Value, json};

use crate::json_fields::{
    collapse_to_one_line, describe_type, integer_field, list_field, object_field, string_field,
    string_list,
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
/// Weight of an item from the list [`MINOR_LIST`].
const MINOR_ITEM_WEIGHT: u32 = 20;

/// List of items that, by the rules of dagent, may never be dropped.
const CRITICAL_LIST: &str = "critical";
const MINOR_LIST: &str = "minor";

/// All lists of the three forms, with the kind of their items. A name that occurs in several forms has one meaning.
const SUMMARY_LISTS: [(&str, ItemKind); 11] = [
    (COMPLETED_ITEMS_LIST, ItemKind::Done),
    ("completed", ItemKind::Done),
    (PENDING_ITEMS_LIST, ItemKind::Pending),
    ("pending", ItemKind::Pending),
    ("inProgressItems", ItemKind::Focus),
    ("inProgress", ItemKind::Focus),
    (DECISIONS_LIST, ItemKind::Decision),
    (BLOCKERS_LIST, ItemKind::Blocker),
    (CRITICAL_LIST, ItemKind::Note),
    ("important", ItemKind::Note),
    (MINOR_LIST, ItemKind::Note),
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

/// Renders the lists of a checkpoint. Without a checkpoint they are empty.
pub(super) fn render_summary(checkpoint: Option<&Checkpoint>) -> Value {
    let render_list = |name: &str| -> Vec<String> {
        let items = checkpoint.iter().flat_map(|checkpoint| &checkpoint.items);
        let listed = items.filter(|item| list_and_prefix(item.kind).0 == name);
        listed.map(render_item).collect()
    };
    [
        COMPLETED_ITEMS_LIST,
        PENDING_ITEMS_LIST,
        DECISIONS_LIST,
        BLOCKERS_LIST,
    ]
    .into_iter()
    .map(|name| (name, render_list(name)))
    .collect()
}

/// Encodes all fields of the items for the `segue` field, so that a later import restores them. `None` if the
/// checkpoint has no items.
pub(super) fn encode_items(checkpoint: &Checkpoint) -> Option<Value> {
    if checkpoint.items.is_empty() {
        return None;
    }
    let items = Checkpoint {
        items: checkpoint.items.clone(),
        loop_state: None,
    };
    let delta = CheckpointDelta::between(&Checkpoint::default(), &items);
    serde_json::from_str(&encode_delta(&delta)).ok()
}

/// Reads the checkpoint in a file. The lists decide which items exist. The `segue` field adds the other fields of an
/// item whose text is in a list.
pub(super) fn parse_checkpoint_content(
    file: &Map<String, Value>,
    turn: u32,
    remarks: &mut Vec<String>,
) -> Checkpoint {
    let encoded_delta = file.get("segue").map(ToString::to_string);
    let mut encoded_items: Vec<CheckpointItem> = encoded_delta
        .and_then(|text| decode_delta(&text).ok())
        .map(|delta| delta.changed_items)
        .unwrap_or_default();
    let mut last_id = encoded_items.iter().map(|item| item.id).max().unwrap_or(0);
    let mut items = Vec::new();
    for (list, kind, entry) in collect_entries(file, remarks) {
        let matching = encoded_items
            .iter()
            .position(|item| collapse_to_one_line(&render_item(item)) == entry);
        items.push(if let Some(index) = matching {
            encoded_items.remove(index)
        } else {
            last_id = last_id.saturating_add(1);
            new_item(last_id, (list, kind), &entry, turn)
        });
    }
    // Ids of segue are unique and small. A duplicate id, or one above `u32::MAX / 2`, which would leave too few ids for
    // later items, is not from segue. In that case all items get new ids.
    let mut seen_ids = std::collections::HashSet::new();
    let is_segue_id = |item: &CheckpointItem| item.id <= u32::MAX / 2 && seen_ids.insert(item.id);
    if !items.iter().all(is_segue_id) {
        for (id, item) in (1..).zip(&mut items) {
            item.id = id;
        }
    }
    let delta = CheckpointDelta {
        changed_items: items,
        loop_state: Some(parse_loop_state(file)),
        ..CheckpointDelta::default()
    };
    delta.apply(&Checkpoint::default())
}

/// Returns the texts of all lists that exist, each with the name of its list and the kind of the items there.
fn collect_entries(
    file: &Map<String, Value>,
    remarks: &mut Vec<String>,
) -> Vec<(&'static str, ItemKind, String)> {
    let mut entries = Vec::new();
    let Some(lists) = object_field(file, "summary") else {
        return entries;
    };
    for (list, kind) in SUMMARY_LISTS {
        let values = list_field(lists, list).unwrap_or_else(|reason| {
            remarks.push(reason);
            &[]
        });
        for (n, value) in (1..).zip(values) {
            match value.as_str().map(collapse_to_one_line) {
                Some(text) if text.is_empty() => {}
                Some(text) => entries.push((list, kind, text)),
                None => remarks.push(format!(
                    "item {n} of `{list}` was omitted: it is {}, not a string",
                    describe_type(value)
                )),
            }
        }
    }
    entries
}

/// Creates an item from an entry of a list, whose items are of `list_kind` unless a prefix names another kind.
fn new_item(
    id: u32,
    (list, list_kind): (&str, ItemKind),
    entry: &str,
    turn: u32,
) -> CheckpointItem {
    let prefixed = ItemKind::ALL.into_iter().find_map(|kind| {
        let (name, prefix) = list_and_prefix(kind);
        let remainder = entry.strip_prefix(prefix?)?.strip_prefix(": ")?;
        (name == list_and_prefix(list_kind).0).then_some((kind, remainder))
    });
    let (kind, text) = prefixed.unwrap_or((list_kind, entry));
    let has_subject = matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check);
    let (subject, text) = match text.split_once(": ").filter(|_| has_subject) {
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
        weight: if list == MINOR_LIST {
            MINOR_ITEM_WEIGHT
        } else {
            DEFAULT_ITEM_WEIGHT
        },
        pinned: list == CRITICAL_LIST,
    }
}

/// Reads the state of the check loop; `None` if the file has none.
fn parse_loop_state(file: &Map<String, Value>) -> Option<LoopState> {
    let state = object_field(file, "ralphLoop")?;
    let checks = |name: &str| string_list(state, name).map(collapse_to_one_line).collect();
    let iteration = integer_field(state, "currentIteration").unwrap_or(0);
    Some(LoopState {
        iteration: u32::try_from(iteration).unwrap_or(u32::MAX),
        passed: checks("passedChecks"),
        failed: checks("failedChecks"),
        last_error: string_field(state, &["lastError"]).map(collapse_to_one_line),
    })
}

/// Renders the state of the check loop.
pub(super) fn render_loop_state(state: &LoopState) -> Value {
    let mut fields = json!({
        "currentIteration": state.iteration,
        "passedChecks": state.passed,
        "failedChecks": state.failed,
    });
    if let Some(error) = &state.last_error {
        fields["lastError"] = error.as_str().into();
    }
    fields
}

#[cfg(test)]
mod tests {
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
