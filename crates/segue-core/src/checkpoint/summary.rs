//! What a summariser says of a conversation, and whether it may be believed.
//!
//! A summariser adds to a checkpoint, and may say that something open is settled. It can take away nothing else: the rules
//! of the user, what is pinned and what was found in the record stay whatever it says. What it names has to be in what it
//! was given.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::extract::base;
use super::{Author, Checkpoint, Item, ItemKind, merge};

/// How long a statement of a summariser may be, in bytes, and how many there may be.
const LONGEST: usize = 600;
const MOST: usize = 200;

/// What a summariser said, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// What it states.
    pub stated: Vec<(ItemKind, String)>,
    /// The numbers of items that it says are settled.
    pub settled: Vec<u32>,
}

/// Why an answer of a summariser is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// There is no JSON object in it.
    #[error("there is no JSON object in the answer")]
    NoObject,
    /// A field is of another type than it has to be.
    #[error("`{0}` has to be a list of sentences")]
    NotAList(String),
    /// Nothing is said.
    #[error("nothing is stated, though there was something to sum up")]
    Nothing,
    /// A statement is too long, or there are too many.
    #[error("at most {MOST} statements of at most {LONGEST} bytes each are taken")]
    TooMuch,
    /// The statements together are larger than what they sum up.
    #[error("the statements have {tokens} tokens, more than the {most} that they may have")]
    TooLarge {
        /// What they have.
        tokens: u64,
        /// What they may have.
        most: u64,
    },
    /// Something is named that was never said.
    #[error("`{0}` occurs nowhere in what is to be summed up")]
    Invented(String),
    /// Something is settled that is not open.
    #[error("item {0} is not something open that could be settled")]
    NotOpen(u32),
    /// A tool was used.
    #[error("the tool {0:?} was used, and none may be")]
    UsedTool(String),
}

/// What a field of the answer holds; the names of other tools for the same are known as well.
const FIELDS: [(&[&str], ItemKind); 7] = [
    (&["completed", "completedItems", "done"], ItemKind::Done),
    (
        &["pending", "pendingItems", "inProgress", "in_progress"],
        ItemKind::Pending,
    ),
    (&["decisions"], ItemKind::Decision),
    (&["blockers"], ItemKind::Blocker),
    (&["attempts", "failed_attempts"], ItemKind::Attempt),
    (&["focus"], ItemKind::Focus),
    (&["next_step", "nextStep", "next_steps"], ItemKind::NextStep),
];

/// Reads what a summariser answered, and checks it.
///
/// `source` is all that it was given; `most` is how many tokens its statements may have.
pub fn summary(
    answer: &str,
    before: &Checkpoint,
    source: &str,
    most: u64,
    count: &dyn Fn(&str) -> u64,
) -> Result<Summary, Objection> {
    let fields = object(answer).ok_or(Objection::NoObject)?;
    let mut summary = Summary::default();
    for (names, kind) in FIELDS {
        for name in names {
            let said = statements(name, fields.get(*name))?;
            summary
                .stated
                .extend(said.into_iter().map(|text| (kind, text)));
        }
    }
    for id in fields
        .get("settled")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| Objection::NotAList("settled".into()))?;
        if !before.item(id).is_some_and(is_open) {
            return Err(Objection::NotOpen(id));
        }
        summary.settled.push(id);
    }
    if summary.stated.is_empty() {
        return Err(Objection::Nothing);
    }
    if summary.stated.len() > MOST || summary.stated.iter().any(|(_, text)| text.len() > LONGEST) {
        return Err(Objection::TooMuch);
    }
    let tokens = summary.stated.iter().map(|(_, text)| count(text)).sum();
    if tokens > most {
        return Err(Objection::TooLarge { tokens, most });
    }
    for (_, text) in &summary.stated {
        if let Some(name) = names(text).find(|name| !source.contains(name)) {
            return Err(Objection::Invented(name.to_owned()));
        }
    }
    Ok(summary)
}

impl Summary {
    /// The items that it states, of a conversation up to a turn; they have no numbers yet.
    #[must_use]
    pub fn items(&self, turn: u32) -> Vec<Item> {
        let item = |(kind, text): &(ItemKind, String)| Item {
            id: 0,
            kind: *kind,
            text: text.clone(),
            subject: None,
            turn,
            // The first is what was asked, by somebody else.
            message: 1,
            by: Author::Summary,
            weight: base(*kind) + 60,
            pinned: false,
        };
        self.stated.iter().map(item).collect()
    }
}

impl Summary {
    /// Adds what was said of a later part of the record, of which `known` was known.
    pub fn and(&mut self, later: Self, known: &Checkpoint) {
        let over = |text: &String| {
            let settled = later.settled.iter().filter_map(|id| known.item(*id));
            settled
                .filter(|item| item.by == Author::Summary)
                .any(|item| item.text == *text)
        };
        // What was open in one part may be settled in the next.
        self.stated.retain(|(_, text)| !over(text));
        self.stated.extend(later.stated);
        self.settled.extend(later.settled);
    }

    /// A checkpoint with what is stated of the turns up to one, in about `room` tokens.
    ///
    /// The summariser was shown `seen`, which may have been added to since. What is settled is done, and still told. What
    /// gives way where there is no room is only what tells least: notes, and what is done or ran.
    #[must_use]
    pub fn applied(
        &self,
        seen: &Checkpoint,
        to: &Checkpoint,
        turn: u32,
        room: u64,
        count: &dyn Fn(&str) -> u64,
    ) -> Checkpoint {
        let same = |item: &Item| {
            seen.item(item.id)
                .is_some_and(|seen| seen.text == item.text)
        };
        let mut kept = to.clone();
        for item in &mut kept.items {
            if self.settled.contains(&item.id) && is_open(item) && same(item) {
                item.kind = ItemKind::Done;
                item.by = Author::Summary;
            }
        }
        let pinned: HashMap<u32, bool> = kept
            .items
            .iter()
            .map(|item| (item.id, item.pinned))
            .collect();
        for item in &mut kept.items {
            item.pinned |= !gives_way(item);
        }
        let mut merged = merge(&kept, self.items(turn), room, count);
        for item in &mut merged.items {
            item.pinned = pinned.get(&item.id).copied().unwrap_or(false);
        }
        merged
    }
}

/// Whether an item is something open that may be said to be settled.
fn is_open(item: &Item) -> bool {
    let open = matches!(
        item.kind,
        ItemKind::Pending | ItemKind::Blocker | ItemKind::Focus | ItemKind::NextStep
    );
    open && !item.pinned && item.by != Author::Person
}

/// Whether an item may go to make room for what a summariser states.
fn gives_way(item: &Item) -> bool {
    matches!(
        item.kind,
        ItemKind::Note
            | ItemKind::Done
            | ItemKind::Command
            | ItemKind::Check
            | ItemKind::Focus
            | ItemKind::NextStep
    )
}

/// The first JSON object in an answer, whatever stands around it.
fn object(answer: &str) -> Option<Map<String, Value>> {
    answer.match_indices('{').find_map(|(at, _)| {
        let from = answer.get(at..)?;
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        match values.next()?.ok()? {
            Value::Object(fields) => Some(fields),
            _ => None,
        }
    })
}

/// The statements in a field: one, or a list of them, each a text or an object that holds one.
fn statements(name: &str, field: Option<&Value>) -> Result<Vec<String>, Objection> {
    let wrong = || Objection::NotAList(name.to_owned());
    let said = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(fields) => {
            let part = |key| fields.get(key).and_then(Value::as_str);
            let text = part("text")
                .or_else(|| part("decision"))
                .ok_or_else(wrong)?;
            Ok(match part("why").or_else(|| part("reason")) {
                Some(why) => format!("{text} ({why})"),
                None => text.to_owned(),
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(wrong()),
    };
    let said: Vec<String> = match field {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(said).collect::<Result<_, _>>()?,
        Some(value) => vec![said(value)?],
    };
    let one_line = said.iter().map(|text| one_line(text));
    Ok(one_line.filter(|text| !text.is_empty()).collect())
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// What a statement names that can be looked up: paths, identifiers, commands and numbers with a unit, and whatever it
/// quotes.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '(' | ')' | ',' | ';'));
    let words = words
        .map(|word| word.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '\'' | '*')));
    let marked = words.filter(|word| is_name(word));
    quoted
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .chain(marked)
}

/// Whether a word is written as nobody writes one of every day.
fn is_name(word: &str) -> bool {
    let inner = |c: char| word.trim_matches(c).contains(c);
    let letters = word.chars().any(char::is_alphabetic);
    let small_then_large = word
        .chars()
        .zip(word.chars().skip(1))
        .any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let digits = letters && word.chars().any(|c| c.is_ascii_digit());
    letters
        && (inner('/')
            || inner('_')
            || word.contains("::")
            || inner('.') && !word.ends_with('.')
            || small_then_large
            || digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    fn open_item(id: u32, kind: ItemKind) -> Item {
        Item {
            id,
            kind,
            text: "write the docs".into(),
            subject: None,
            turn: 1,
            message: 0,
            by: Author::Record,
            weight: 1,
            pinned: false,
        }
    }

    #[test]
    fn an_answer_is_found_in_whatever_stands_around_it() {
        let before = Checkpoint::default();
        let source = "we moved to src/db.rs";
        for answer in [
            r#"{"decisions": ["moved to src/db.rs"]}"#,
            "Here you are:\n```json\n{\"decisions\": [\"moved to src/db.rs\"]}\n```\nAnything else?",
            r#"{ not this } {"decisions": {"text": "moved to", "why": "src/db.rs"}}"#,
            r#"{"decisions": "moved to `src/db.rs`", "unknown": 3}"#,
        ] {
            let read = summary(answer, &before, source, 100, &words);
            let read = read.unwrap_or_else(|error| panic!("{error} in {answer}"));
            assert_eq!(read.stated.len(), 1, "{answer}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_told() {
        let before = Checkpoint {
            items: vec![
                open_item(1, ItemKind::Pending),
                open_item(2, ItemKind::Directive),
                Item {
                    pinned: true,
                    ..open_item(3, ItemKind::Pending)
                },
            ],
            loop_state: None,
        };
        let long = format!(r#"{{"completed": ["{}"]}}"#, "x".repeat(601));
        let many = format!(r#"{{"completed": ["a b"{}]}}"#, r#", "a b""#.repeat(60));
        for (answer, expected) in [
            ("", Objection::NoObject),
            ("I did a lot today.", Objection::NoObject),
            (r#"{"completed": ["a""#, Objection::NoObject),
            ("[]", Objection::NoObject),
            (
                r#"{"completed": 3}"#,
                Objection::NotAList("completed".into()),
            ),
            (
                r#"{"completed": [null]}"#,
                Objection::NotAList("completed".into()),
            ),
            (r#"{"completed": [], "pending": []}"#, Objection::Nothing),
            (r#"{"completed": [" "]}"#, Objection::Nothing),
            (&long, Objection::TooMuch),
            (
                &many,
                Objection::TooLarge {
                    tokens: 122,
                    most: 100,
                },
            ),
            (
                r#"{"completed": ["wrote src/api.rs"]}"#,
                Objection::Invented("src/api.rs".into()),
            ),
            (
                r#"{"completed": ["ran `cargo nextest`"]}"#,
                Objection::Invented("cargo nextest".into()),
            ),
            (
                r#"{"completed": ["made parseInvoice quick"]}"#,
                Objection::Invented("parseInvoice".into()),
            ),
            (
                r#"{"completed": ["done"], "settled": [2]}"#,
                Objection::NotOpen(2),
            ),
            (
                r#"{"completed": ["done"], "settled": [3]}"#,
                Objection::NotOpen(3),
            ),
            (
                r#"{"completed": ["done"], "settled": [9]}"#,
                Objection::NotOpen(9),
            ),
            (
                r#"{"completed": ["done"], "settled": ["x"]}"#,
                Objection::NotAList("settled".into()),
            ),
        ] {
            let read = summary(answer, &before, "we ran cargo test", 100, &words);
            assert_eq!(read, Err(expected), "{answer}");
        }
        let read = summary(
            r#"{"completed": ["ran `cargo test`"], "settled": [1]}"#,
            &before,
            "we ran cargo test",
            100,
            &words,
        );
        assert_eq!(read.unwrap().settled, [1]);
    }

    fn item(id: u32, kind: ItemKind, text: &str) -> Item {
        Item {
            text: text.into(),
            ..open_item(id, kind)
        }
    }

    fn summed(stated: &[(ItemKind, &str)], settled: &[u32]) -> Summary {
        Summary {
            stated: stated
                .iter()
                .map(|(kind, text)| (*kind, (*text).to_owned()))
                .collect(),
            settled: settled.to_vec(),
        }
    }

    fn texts(checkpoint: &Checkpoint, kind: ItemKind) -> Vec<&str> {
        checkpoint.of(kind).map(|item| item.text.as_str()).collect()
    }

    #[test]
    fn what_is_stated_is_added_and_what_is_settled_is_done() {
        let seen = Checkpoint {
            items: vec![
                item(1, ItemKind::Pending, "write the docs"),
                item(2, ItemKind::Pending, "fix the lexer"),
                item(3, ItemKind::Pending, "rename the crate"),
            ],
            loop_state: None,
        };
        // Since it was asked one was pinned, one has another meaning, and there is a new one.
        let mut to = seen.clone();
        to.items[1].pinned = true;
        to.items[2].text = "drop the crate".into();
        to.items.push(item(4, ItemKind::Directive, "no panics"));
        let stated = [
            (ItemKind::Decision, "SQLite, since it is one file"),
            // Says the same as something open, and settles nothing by that.
            (ItemKind::Done, "drop the crate from the docs today"),
        ];
        let after = summed(&stated, &[1, 2, 3]).applied(&seen, &to, 9, 1_000, &words);
        assert_eq!(
            texts(&after, ItemKind::Pending),
            ["fix the lexer", "drop the crate"]
        );
        assert_eq!(
            texts(&after, ItemKind::Done),
            ["write the docs", "drop the crate from the docs today"]
        );
        assert_eq!(texts(&after, ItemKind::Decision), [stated[0].1]);
        assert_eq!(texts(&after, ItemKind::Directive), ["no panics"]);
        let pinned: Vec<u32> = after
            .items
            .iter()
            .filter(|item| item.pinned)
            .map(|item| item.id)
            .collect();
        assert_eq!(pinned, [2]);
    }

    #[test]
    fn what_is_stated_as_done_settles_nothing_later_on_either() {
        let before = Checkpoint {
            items: vec![item(1, ItemKind::Pending, "write docs for parser errors")],
            loop_state: None,
        };
        let stated = [(ItemKind::Done, "docs for parser errors written")];
        let after = summed(&stated, &[]).applied(&before, &before, 9, 1_000, &words);
        let later = merge(&after, Vec::new(), 1_000, &words);
        assert_eq!(
            texts(&later, ItemKind::Pending),
            ["write docs for parser errors"]
        );
    }

    #[test]
    fn without_room_only_what_tells_least_gives_way() {
        let kinds = [
            ItemKind::Goal,
            ItemKind::Directive,
            ItemKind::Decision,
            ItemKind::Attempt,
            ItemKind::File,
            ItemKind::Blocker,
            ItemKind::Pending,
            ItemKind::Request,
        ];
        let mut to = Checkpoint {
            items: (1..)
                .zip(kinds)
                .map(|(id, kind)| item(id, kind, &format!("one of kind {}", kind.as_str())))
                .collect(),
            loop_state: None,
        };
        to.items
            .push(item(20, ItemKind::Note, "by the way it rained"));
        let stated: Vec<(ItemKind, String)> = (0..20)
            .map(|n| (ItemKind::Decision, format!("number {n} of many decisions")))
            .collect();
        let summary = Summary {
            stated,
            settled: Vec::new(),
        };
        for room in [0, 40, 80] {
            let after = summary.applied(&to, &to, 9, room, &words);
            for kind in kinds {
                let text = format!("one of kind {}", kind.as_str());
                assert!(
                    texts(&after, kind).contains(&text.as_str()),
                    "{text}, {room}"
                );
            }
        }
    }

    #[test]
    fn what_a_later_part_settles_of_an_earlier_one_is_not_stated() {
        let mut all = summed(
            &[(ItemKind::Pending, "run it"), (ItemKind::Done, "built")],
            &[1],
        );
        let known = all.applied(
            &Checkpoint::default(),
            &Checkpoint::default(),
            2,
            1_000,
            &words,
        );
        let open = known.of(ItemKind::Pending).next().unwrap().id;
        let later = summed(&[(ItemKind::Done, "ran it")], &[open]);
        all.and(later, &known);
        let stated: Vec<&str> = all.stated.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(stated, ["built", "ran it"]);
    }
}
