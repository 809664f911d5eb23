//! What a summariser says of a conversation, and whether it may be believed.
//!
//! A summariser adds to a checkpoint, and may say that something open is settled. It can take away nothing else: the rules
//! of the user, what is pinned and what was found in the record stay whatever it says. What it names has to be in what it
//! was given.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::extract::base;
use super::{Author, Checkpoint, Item, ItemKind, merge};
use crate::figure;
use crate::session::one_line;

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
    #[error("the statements have {} tokens, more than the {} that they may have", figure(*tokens), figure(*most))]
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
    let plain = source.replace(',', "");
    for (_, text) in &summary.stated {
        if let Some(name) = names(text).find(|name| !source.contains(name)) {
            return Err(Objection::Invented(name.to_owned()));
        }
        let grouped = |number: &String| plain.contains(number.as_str());
        if let Some(number) = numbers(text).find(|number| !grouped(number)) {
            return Err(Objection::Invented(number));
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

/// The numbers that nobody comes to by counting what is there: ports, sizes, years. In groups of three or not.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == ','));
    let numbers = words.map(|word| word.replace(',', ""));
    numbers.filter(|number| number.len() >= 3)
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
mod tests;
