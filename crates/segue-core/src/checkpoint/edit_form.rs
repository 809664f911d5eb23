//! Edit form of a checkpoint: text that the user edits and segue parses, one item per line, under the heading of its
//! kind.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::render::replace_line_breaks;
use super::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind, kind_heading};

/// Maximum characters of an item.
const MAX_ITEM_CHARS: usize = 2_000;

/// Weight of an item that the user wrote. It has no effect, because such items are always retained.
const USER_ITEM_WEIGHT: u32 = 100;

/// An error in an edited form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditFormError {
    /// Line number, from 1; 0 if the error concerns the complete text.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

/// Renders a checkpoint for editing. The parser ignores lines that begin with `#`.
#[must_use]
pub fn render_edit_form(checkpoint: &Checkpoint) -> String {
    let mut text = String::new();
    for kind in ItemKind::ALL {
        let mut items = checkpoint.items_of_kind(kind).peekable();
        if items.peek().is_none() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}:", kind_heading(kind));
        for item in items {
            let pinned = if item.pinned { " pinned" } else { "" };
            let _ = writeln!(text, "- [{}{pinned}] {}", item.id, item_line_text(item));
        }
    }
    text
}

/// Parses an edited form into a checkpoint, or returns all errors in it. The user becomes the author of new and changed
/// items; new items belong to the turn with the number `turn`.
pub fn parse_edit_form(
    text: &str,
    before: &Checkpoint,
    turn: u32,
) -> Result<Checkpoint, Vec<EditFormError>> {
    let mut parser = EditFormParser {
        before,
        turn,
        next_id: before.next_item_id(),
        items: Vec::new(),
        seen_ids: HashSet::new(),
    };
    let mut errors = Vec::new();
    let mut kind = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let result = match (text.strip_prefix('-'), kind) {
            (None, _) => parse_heading(text).map(|parsed_kind| kind = Some(parsed_kind)),
            (Some(_), None) => Err("the item is not under a heading".to_owned()),
            (Some(item), Some(kind)) => parser.parse_item(kind, item.trim()),
        };
        if let Err(message) = result {
            errors.push(EditFormError { line, message });
        }
    }
    if errors.is_empty() && parser.items.is_empty() {
        let message = "the checkpoint has no items".to_owned();
        errors.push(EditFormError { line: 0, message });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Checkpoint {
        items: parser.items,
        loop_state: before.loop_state.clone(),
    }
    .into_sorted())
}

/// Applies the user's edits of the version `base`, which resulted in `edited`, to the active version `current`. Items
/// that only `current` contains stay. If both changed an item, both variants are retained: an item counts as unchanged
/// only if its kind and text are equal.
#[must_use]
pub fn rebase_edits(base: &Checkpoint, edited: &Checkpoint, current: &Checkpoint) -> Checkpoint {
    let is_unchanged = |item: &CheckpointItem| {
        let old = base.find_item(item.id);
        old.is_some_and(|old| old.kind == item.kind && item_line_text(old) == item_line_text(item))
    };
    let mut items: Vec<CheckpointItem> = Vec::new();
    for item in &current.items {
        match edited.find_item(item.id) {
            Some(edited_item) if is_unchanged(item) => {
                let is_unedited = base.find_item(item.id) == Some(edited_item);
                items.push(if is_unedited { item } else { edited_item }.clone());
            }
            None if is_unchanged(item) => {}
            _ => items.push(item.clone()),
        }
    }
    let mut next_id = current.next_item_id();
    for edited_item in &edited.items {
        let is_present = current.find_item(edited_item.id).is_some_and(is_unchanged);
        if base.find_item(edited_item.id) == Some(edited_item) || is_present {
            continue;
        }
        items.push(CheckpointItem {
            id: next_id,
            ..edited_item.clone()
        });
        next_id = next_id.saturating_add(1);
    }
    Checkpoint {
        items,
        loop_state: current.loop_state.clone(),
    }
    .into_sorted()
}

fn parse_heading(text: &str) -> Result<ItemKind, String> {
    let name = text.strip_suffix(':').unwrap_or(text);
    let mut kinds = ItemKind::ALL.into_iter();
    let found = kinds.find(|kind| kind_heading(*kind).eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("{text:?} is neither a heading nor an item; items begin with `- `"))
}

/// Returns `true` if the line of an item contains its subject.
fn has_subject_in_line(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check)
}

fn item_line_text(item: &CheckpointItem) -> String {
    let text = match &item.subject {
        Some(subject) if has_subject_in_line(item.kind) => format!("{subject}: {}", item.text),
        _ => item.text.clone(),
    };
    replace_line_breaks(text.trim()).replace(char::is_control, " ")
}

struct EditFormParser<'a> {
    before: &'a Checkpoint,
    turn: u32,
    next_id: u32,
    items: Vec<CheckpointItem>,
    seen_ids: HashSet<u32>,
}

impl EditFormParser<'_> {
    fn parse_item(&mut self, kind: ItemKind, line: &str) -> Result<(), String> {
        let (id, pinned, content) = split_item_mark(line);
        let content = content.replace(char::is_control, " ");
        let content = content.trim();
        if content.is_empty() {
            return Err("the item is empty".to_owned());
        }
        if content.chars().count() > MAX_ITEM_CHARS {
            return Err(format!(
                "the item has more than {MAX_ITEM_CHARS} characters"
            ));
        }
        let existing = match id {
            None => None,
            Some(id) if !self.seen_ids.insert(id) => {
                return Err(format!("item {id} occurs twice"));
            }
            Some(id) => Some(self.before.find_item(id).ok_or_else(|| {
                format!("item {id} does not exist; write a new item without a number")
            })?),
        };
        self.items.push(match existing {
            Some(existing) if existing.kind == kind && item_line_text(existing) == content => {
                CheckpointItem {
                    pinned,
                    ..existing.clone()
                }
            }
            Some(existing) => {
                let (subject, text) = split_subject(kind, content, existing.subject.as_deref());
                CheckpointItem {
                    kind,
                    text,
                    subject,
                    author: ItemAuthor::User,
                    pinned,
                    ..existing.clone()
                }
            }
            None => {
                let (subject, text) = split_subject(kind, content, None);
                let id = self.next_id;
                self.next_id = self.next_id.saturating_add(1);
                CheckpointItem {
                    id,
                    kind,
                    text,
                    subject,
                    turn: self.turn,
                    message_index: 0,
                    author: ItemAuthor::User,
                    weight: USER_ITEM_WEIGHT,
                    pinned,
                }
            }
        });
        Ok(())
    }
}

/// Splits a line into its id, its pin and its text. Any other bracket belongs to the text.
fn split_item_mark(line: &str) -> (Option<u32>, bool, &str) {
    let unmarked = (None, false, line);
    let Some((mark, text)) = line
        .strip_prefix('[')
        .and_then(|after_bracket| after_bracket.split_once(']'))
    else {
        return unmarked;
    };
    let words: Vec<&str> = mark.split_whitespace().collect();
    let (number, pinned) = match words.as_slice() {
        ["pinned"] => return (None, true, text),
        [number] => (number, false),
        [number, "pinned"] => (number, true),
        _ => return unmarked,
    };
    number
        .parse()
        .map_or(unmarked, |id| (Some(id), pinned, text))
}

/// Splits the text of a line into the subject and the text of an item.
fn split_subject(
    kind: ItemKind,
    content: &str,
    old_subject: Option<&str>,
) -> (Option<String>, String) {
    if !has_subject_in_line(kind) {
        return (old_subject.map(str::to_owned), content.to_owned());
    }
    let unchanged = old_subject.and_then(|subject| Some((subject, content.strip_prefix(subject)?)));
    let unchanged =
        unchanged.and_then(|(subject, remainder)| Some((subject, remainder.strip_prefix(": ")?)));
    match unchanged.or_else(|| content.split_once(": ")) {
        Some((subject, text)) => (Some(subject.to_owned()), text.trim().to_owned()),
        None => (None, content.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: u32, kind: ItemKind, text: &str, subject: Option<&str>) -> CheckpointItem {
        CheckpointItem {
            id,
            kind,
            text: text.to_owned(),
            subject: subject.map(str::to_owned),
            turn: id,
            message_index: 1,
            author: ItemAuthor::Extraction,
            weight: 3,
            pinned: id == 2,
        }
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            items: vec![
                item(1, ItemKind::Goal, "ship it", None),
                item(2, ItemKind::Directive, "[x] never push", None),
                item(3, ItemKind::File, "changed", Some("src/a: b.rs")),
                item(7, ItemKind::Pending, "docs", Some("plan: docs")),
            ],
            loop_state: None,
        }
    }

    const FORM_TEXT: &str = "\
Goal:
- [1] ship it

Rules of the user:
- [2 pinned] [x] never push

Files:
- [3] src/a: b.rs: changed

Still to do:
- [7] docs
";

    #[test]
    fn edits_of_an_earlier_version_remove_nothing_from_the_active_one() {
        let base = checkpoint();
        // Item 1 is changed, item 3 is removed, and one item is added.
        let text = "Goal:\n- [1] ship the form\nRules of the user:\n- [2 pinned] [x] never push\n\
                    Still to do:\n- [7] docs\n- ask Ada\n";
        let edited = parse_edit_form(text, &base, 9).unwrap();
        assert_eq!(rebase_edits(&base, &edited, &base), edited);

        let mut current = base.clone();
        current.items[3].text = "docs and tests".to_owned();
        current
            .items
            .push(item(8, ItemKind::Decision, "tokens, not cookies", None));
        let item_texts = |checkpoint: &Checkpoint| {
            let items = checkpoint.items.iter();
            items.map(|item| item.text.clone()).collect::<Vec<_>>()
        };
        let rebased = rebase_edits(&base, &edited, &current);
        assert_eq!(
            item_texts(&rebased),
            [
                "ship the form",
                "[x] never push",
                "tokens, not cookies",
                "docs and tests",
                "ask Ada"
            ]
        );
        let ids: HashSet<u32> = rebased.items.iter().map(|item| item.id).collect();
        assert_eq!(ids.len(), rebased.items.len(), "{rebased:?}");

        // After an earlier version was restored, id 1 belongs to another item: both items stay.
        current.items[0] = item(1, ItemKind::Goal, "write a parser", None);
        let rebased_texts = item_texts(&rebase_edits(&base, &edited, &current));
        assert!(
            rebased_texts.contains(&"write a parser".to_owned()),
            "{rebased_texts:?}"
        );
        assert!(
            rebased_texts.contains(&"ship the form".to_owned()),
            "{rebased_texts:?}"
        );
    }

    #[test]
    fn an_unedited_form_parses_to_the_same_checkpoint() {
        assert_eq!(render_edit_form(&checkpoint()), FORM_TEXT);
        assert_eq!(
            parse_edit_form(FORM_TEXT, &checkpoint(), 9),
            Ok(checkpoint())
        );
        let commented = format!("# note\n\n{FORM_TEXT}  # more\n");
        assert_eq!(
            parse_edit_form(&commented, &checkpoint(), 9),
            Ok(checkpoint())
        );
    }

    #[test]
    fn an_item_with_line_breaks_becomes_one_line_and_retains_its_author() {
        let mut before = checkpoint();
        before.items[0].text = " ship it\nRules of the user:\n- push to main ".into();
        let text = render_edit_form(&before);
        assert_eq!(text.lines().count(), FORM_TEXT.lines().count(), "{text}");
        assert_eq!(parse_edit_form(&text, &before, 9), Ok(before));
    }

    #[test]
    fn edited_items_become_the_users() {
        let item_after_edit = |text: &str, id: u32| {
            let edited = parse_edit_form(text, &checkpoint(), 9).unwrap();
            edited.find_item(id).cloned()
        };
        let edited_form = FORM_TEXT.replace("ship it", "ship it on Monday");
        let goal = item_after_edit(&edited_form, 1).unwrap();
        assert_eq!(
            (goal.text.as_str(), goal.author),
            ("ship it on Monday", ItemAuthor::User)
        );
        assert_eq!((goal.turn, goal.pinned), (1, false));
        // A changed pin does not change the author.
        let rule = item_after_edit(&FORM_TEXT.replace("[2 pinned]", "[2]"), 2).unwrap();
        assert_eq!((rule.pinned, rule.author), (false, ItemAuthor::Extraction));
        let file = item_after_edit(
            &FORM_TEXT.replace("b.rs: changed", "b.rs: deleted: on purpose"),
            3,
        )
        .unwrap();
        assert_eq!(file.subject.as_deref(), Some("src/a: b.rs"));
        assert_eq!(file.text, "deleted: on purpose");
        // A removed, a moved and a new item.
        assert_eq!(
            item_after_edit(&FORM_TEXT.replace("- [1] ship it\n", ""), 1),
            None
        );
        let moved = item_after_edit(&FORM_TEXT.replace("Still to do:", "Done:"), 7).unwrap();
        assert_eq!(
            (moved.kind, moved.author),
            (ItemKind::Done, ItemAuthor::User)
        );
        assert_eq!(moved.subject.as_deref(), Some("plan: docs"));
        let added = item_after_edit(&format!("{FORM_TEXT}-[pinned] also\u{7} this\n"), 8).unwrap();
        assert_eq!((added.text.as_str(), added.turn), ("also  this", 9));
        assert!(added.pinned && added.author == ItemAuthor::User);
        let file =
            item_after_edit(&format!("{FORM_TEXT}files:\n- src/c.rs: half done\n"), 8).unwrap();
        assert_eq!(file.subject.as_deref(), Some("src/c.rs"));
    }

    #[test]
    fn errors_name_their_line() {
        let long = format!("Goal:\n- {}\n", "x".repeat(MAX_ITEM_CHARS + 1));
        let cases = [
            ("", &[(0, "the checkpoint has no items")][..]),
            (
                "# only this\nGoal:\n",
                &[(0, "the checkpoint has no items")],
            ),
            ("- one\n", &[(1, "the item is not under a heading")]),
            (
                "Goals:\n- one\n",
                &[(1, "neither a heading"), (2, "not under a heading")],
            ),
            (
                "Goal:\n-\n- [1]  \n",
                &[(2, "the item is empty"), (3, "the item is empty")],
            ),
            ("Goal:\n- [1] a\n- [1] b\n", &[(3, "item 1 occurs twice")]),
            ("Goal:\n- [5] a\n", &[(2, "item 5 does not exist")]),
            ("Goal:\nship it\n", &[(2, "neither a heading nor an item")]),
            (long.as_str(), &[(2, "more than 2000 characters")]),
        ];
        for (text, expected) in cases {
            let errors = parse_edit_form(text, &checkpoint(), 9).unwrap_err();
            let error_lines: Vec<_> = errors.iter().map(|error| error.line).collect();
            let lines: Vec<_> = expected.iter().map(|(line, _)| *line).collect();
            assert_eq!(error_lines, lines, "{text:?}: {errors:?}");
            for (error, (_, message)) in errors.iter().zip(expected) {
                assert!(error.message.contains(message), "{text:?}: {errors:?}");
            }
        }
    }
}
