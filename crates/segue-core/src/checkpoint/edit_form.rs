//! Edit form of a checkpoint: text that the user edits and segue parses, one item per line, under the heading of its
//! kind.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::render::on_one_line;
use super::{Author, Checkpoint, Item, ItemKind, headed};

/// Maximum characters of an item.
const LONGEST: usize = 2_000;

/// Weight of an item that the user wrote. It has no effect, because such items are always retained.
const WEIGHT: u32 = 100;

/// An error in an edited form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    /// Line number, from 1; 0 if the error concerns the complete text.
    pub line: usize,
    /// Description of the error.
    pub what: String,
}

/// Renders a checkpoint for editing. The parser ignores lines that begin with `#`.
#[must_use]
pub fn form(checkpoint: &Checkpoint) -> String {
    let mut text = String::new();
    for kind in ItemKind::ALL {
        let mut items = checkpoint.of(kind).peekable();
        if items.peek().is_none() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{}:", headed(kind));
        for item in items {
            let pinned = if item.pinned { " pinned" } else { "" };
            let _ = writeln!(text, "- [{}{pinned}] {}", item.id, words(item));
        }
    }
    text
}

/// Parses an edited form into a checkpoint, or returns all errors in it. The user becomes the author of new and changed
/// items; new items belong to the turn with the number `turn`.
pub fn formed(text: &str, before: &Checkpoint, turn: u32) -> Result<Checkpoint, Vec<Slip>> {
    let mut reading = Reading {
        before,
        turn,
        next: before.next_id(),
        items: Vec::new(),
        seen: HashSet::new(),
    };
    let mut slips = Vec::new();
    let mut kind = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let read = match (text.strip_prefix('-'), kind) {
            (None, _) => heading(text).map(|found| kind = Some(found)),
            (Some(_), None) => Err("it is under no heading".to_owned()),
            (Some(item), Some(kind)) => reading.item(kind, item.trim()),
        };
        if let Err(what) = read {
            slips.push(Slip { line, what });
        }
    }
    if slips.is_empty() && reading.items.is_empty() {
        let what = "nothing is left of it".to_owned();
        slips.push(Slip { line: 0, what });
    }
    if !slips.is_empty() {
        return Err(slips);
    }
    Ok(Checkpoint {
        items: reading.items,
        loop_state: before.loop_state.clone(),
    }
    .in_order())
}

/// Applies the user's edits of the version `before`, which resulted in `made`, to the active version `now`. Items that
/// only `now` contains stay. If both changed an item, both variants are retained: an item counts as unchanged only if
/// its kind and text are equal.
#[must_use]
pub fn carried_over(before: &Checkpoint, made: &Checkpoint, now: &Checkpoint) -> Checkpoint {
    let same = |item: &Item| {
        let old = before.item(item.id);
        old.is_some_and(|old| old.kind == item.kind && words(old) == words(item))
    };
    let mut items: Vec<Item> = Vec::new();
    for item in &now.items {
        match made.item(item.id) {
            Some(wanted) if same(item) => {
                let is_as_before = before.item(item.id) == Some(wanted);
                items.push(if is_as_before { item } else { wanted }.clone());
            }
            None if same(item) => {}
            _ => items.push(item.clone()),
        }
    }
    let mut next = now.next_id();
    for wanted in &made.items {
        let found = now.item(wanted.id).is_some_and(same);
        if before.item(wanted.id) == Some(wanted) || found {
            continue;
        }
        items.push(Item {
            id: next,
            ..wanted.clone()
        });
        next = next.saturating_add(1);
    }
    Checkpoint {
        items,
        loop_state: now.loop_state.clone(),
    }
    .in_order()
}

fn heading(text: &str) -> Result<ItemKind, String> {
    let name = text.strip_suffix(':').unwrap_or(text);
    let mut kinds = ItemKind::ALL.into_iter();
    let found = kinds.find(|kind| headed(*kind).eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        format!("{text:?} is neither a heading nor an item, which begins with \"- \"")
    })
}

/// Returns `true` if the line of an item contains its subject.
fn tells_subject(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check)
}

fn words(item: &Item) -> String {
    let words = match &item.subject {
        Some(subject) if tells_subject(item.kind) => format!("{subject}: {}", item.text),
        _ => item.text.clone(),
    };
    on_one_line(words.trim()).replace(char::is_control, " ")
}

struct Reading<'a> {
    before: &'a Checkpoint,
    turn: u32,
    next: u32,
    items: Vec<Item>,
    seen: HashSet<u32>,
}

impl Reading<'_> {
    fn item(&mut self, kind: ItemKind, line: &str) -> Result<(), String> {
        let (id, pinned, said) = marked(line);
        let said = said.replace(char::is_control, " ");
        let said = said.trim();
        if said.is_empty() {
            return Err("it says nothing".to_owned());
        }
        if said.chars().count() > LONGEST {
            return Err(format!("it has more than {LONGEST} characters"));
        }
        let before = match id {
            None => None,
            Some(id) if !self.seen.insert(id) => {
                return Err(format!("item {id} is there twice"));
            }
            Some(id) => Some(
                self.before
                    .item(id)
                    .ok_or_else(|| format!("there is no item {id}; a new one has no number"))?,
            ),
        };
        self.items.push(match before {
            Some(before) if before.kind == kind && words(before) == said => Item {
                pinned,
                ..before.clone()
            },
            Some(before) => {
                let (subject, text) = apart(kind, said, before.subject.as_deref());
                Item {
                    kind,
                    text,
                    subject,
                    by: Author::Person,
                    pinned,
                    ..before.clone()
                }
            }
            None => {
                let (subject, text) = apart(kind, said, None);
                let id = self.next;
                self.next = self.next.saturating_add(1);
                Item {
                    id,
                    kind,
                    text,
                    subject,
                    turn: self.turn,
                    message: 0,
                    by: Author::Person,
                    weight: WEIGHT,
                    pinned,
                }
            }
        });
        Ok(())
    }
}

/// Splits a line into its id, its pin and its text. Any other bracket belongs to the text.
fn marked(line: &str) -> (Option<u32>, bool, &str) {
    let nothing = (None, false, line);
    let Some((mark, said)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return nothing;
    };
    let words: Vec<&str> = mark.split_whitespace().collect();
    match words.as_slice() {
        ["pinned"] => (None, true, said),
        [number] => match number.parse() {
            Ok(id) => (Some(id), false, said),
            Err(_) => nothing,
        },
        [number, "pinned"] => match number.parse() {
            Ok(id) => (Some(id), true, said),
            Err(_) => nothing,
        },
        _ => nothing,
    }
}

/// Splits the text of a line into the subject and the text of an item.
fn apart(kind: ItemKind, said: &str, before: Option<&str>) -> (Option<String>, String) {
    if !tells_subject(kind) {
        return (before.map(str::to_owned), said.to_owned());
    }
    let same = before.and_then(|subject| Some((subject, said.strip_prefix(subject)?)));
    let same = same.and_then(|(subject, rest)| Some((subject, rest.strip_prefix(": ")?)));
    match same.or_else(|| said.split_once(": ")) {
        Some((subject, text)) => (Some(subject.to_owned()), text.trim().to_owned()),
        None => (None, said.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: u32, kind: ItemKind, text: &str, subject: Option<&str>) -> Item {
        Item {
            id,
            kind,
            text: text.to_owned(),
            subject: subject.map(str::to_owned),
            turn: id,
            message: 1,
            by: Author::Record,
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

    const FORM: &str = "\
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
    fn what_was_made_of_an_earlier_version_takes_nothing_from_the_one_in_force() {
        let before = checkpoint();
        // Item 1 is changed, item 3 is removed, and one item is added.
        let text = "Goal:\n- [1] ship the form\nRules of the user:\n- [2 pinned] [x] never push\n\
                    Still to do:\n- [7] docs\n- ask Ada\n";
        let made = formed(text, &before, 9).unwrap();
        assert_eq!(carried_over(&before, &made, &before), made);

        let mut now = before.clone();
        now.items[3].text = "docs and tests".to_owned();
        now.items
            .push(item(8, ItemKind::Decision, "tokens, not cookies", None));
        let told = |checkpoint: &Checkpoint| {
            let items = checkpoint.items.iter();
            items.map(|item| item.text.clone()).collect::<Vec<_>>()
        };
        let carried = carried_over(&before, &made, &now);
        assert_eq!(
            told(&carried),
            [
                "ship the form",
                "[x] never push",
                "tokens, not cookies",
                "docs and tests",
                "ask Ada"
            ]
        );
        let numbers: HashSet<u32> = carried.items.iter().map(|item| item.id).collect();
        assert_eq!(numbers.len(), carried.items.len(), "{carried:?}");

        // After an earlier version was restored, id 1 belongs to another item: both items stay.
        now.items[0] = item(1, ItemKind::Goal, "write a parser", None);
        let carried = told(&carried_over(&before, &made, &now));
        assert!(
            carried.contains(&"write a parser".to_owned()),
            "{carried:?}"
        );
        assert!(carried.contains(&"ship the form".to_owned()), "{carried:?}");
    }

    #[test]
    fn what_is_not_edited_stays_as_it_is() {
        assert_eq!(form(&checkpoint()), FORM);
        assert_eq!(formed(FORM, &checkpoint(), 9), Ok(checkpoint()));
        let commented = format!("# note\n\n{FORM}  # more\n");
        assert_eq!(formed(&commented, &checkpoint(), 9), Ok(checkpoint()));
    }

    #[test]
    fn an_item_that_came_with_lines_is_one_line_and_not_the_persons() {
        let mut before = checkpoint();
        before.items[0].text = " ship it\nRules of the user:\n- push to main ".into();
        let text = form(&before);
        assert_eq!(text.lines().count(), FORM.lines().count(), "{text}");
        assert_eq!(formed(&text, &before, 9), Ok(before));
    }

    #[test]
    fn what_is_edited_is_the_persons() {
        let of = |text: &str, id: u32| {
            let formed = formed(text, &checkpoint(), 9).unwrap();
            formed.item(id).cloned()
        };
        let said = FORM.replace("ship it", "ship it on Monday");
        let goal = of(&said, 1).unwrap();
        assert_eq!(
            (goal.text.as_str(), goal.by),
            ("ship it on Monday", Author::Person)
        );
        assert_eq!((goal.turn, goal.pinned), (1, false));
        // A changed pin does not change the author.
        let rule = of(&FORM.replace("[2 pinned]", "[2]"), 2).unwrap();
        assert_eq!((rule.pinned, rule.by), (false, Author::Record));
        let file = of(
            &FORM.replace("b.rs: changed", "b.rs: deleted: on purpose"),
            3,
        )
        .unwrap();
        assert_eq!(file.subject.as_deref(), Some("src/a: b.rs"));
        assert_eq!(file.text, "deleted: on purpose");
        // A removed, a moved and a new item.
        assert_eq!(of(&FORM.replace("- [1] ship it\n", ""), 1), None);
        let moved = of(&FORM.replace("Still to do:", "Done:"), 7).unwrap();
        assert_eq!((moved.kind, moved.by), (ItemKind::Done, Author::Person));
        assert_eq!(moved.subject.as_deref(), Some("plan: docs"));
        let added = of(&format!("{FORM}-[pinned] also\u{7} this\n"), 8).unwrap();
        assert_eq!((added.text.as_str(), added.turn), ("also  this", 9));
        assert!(added.pinned && added.by == Author::Person);
        let file = of(&format!("{FORM}files:\n- src/c.rs: half done\n"), 8).unwrap();
        assert_eq!(file.subject.as_deref(), Some("src/c.rs"));
    }

    #[test]
    fn what_is_wrong_is_told_by_line() {
        let long = format!("Goal:\n- {}\n", "x".repeat(LONGEST + 1));
        let cases = [
            ("", &[(0, "nothing is left of it")][..]),
            ("# only this\nGoal:\n", &[(0, "nothing is left of it")]),
            ("- one\n", &[(1, "it is under no heading")]),
            (
                "Goals:\n- one\n",
                &[(1, "neither a heading"), (2, "no heading")],
            ),
            (
                "Goal:\n-\n- [1]  \n",
                &[(2, "it says nothing"), (3, "it says nothing")],
            ),
            ("Goal:\n- [1] a\n- [1] b\n", &[(3, "item 1 is there twice")]),
            ("Goal:\n- [5] a\n", &[(2, "there is no item 5")]),
            ("Goal:\nship it\n", &[(2, "neither a heading nor an item")]),
            (long.as_str(), &[(2, "more than 2000 characters")]),
        ];
        for (text, expected) in cases {
            let slips = formed(text, &checkpoint(), 9).unwrap_err();
            let told: Vec<_> = slips.iter().map(|slip| slip.line).collect();
            let lines: Vec<_> = expected.iter().map(|(line, _)| *line).collect();
            assert_eq!(told, lines, "{text:?}: {slips:?}");
            for (slip, (_, what)) in slips.iter().zip(expected) {
                assert!(slip.what.contains(what), "{text:?}: {slips:?}");
            }
        }
    }
}
