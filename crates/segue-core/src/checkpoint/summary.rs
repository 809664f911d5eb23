//! Parsing and validation of a summariser's answers.
//!
//! A summariser adds statements to a checkpoint and may declare open items settled. It cannot remove anything else: the
//! user's rules, pinned items and extracted items stay, whatever it answers. Every name in its statements must occur in
//! the text that it received.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::extract::base;
use super::{Author, Checkpoint, Item, ItemKind, merge};
use crate::number_format::figure;
use crate::session::one_line;

/// Maximum bytes of a statement (`LONGEST`), and maximum number of statements (`MOST`).
const LONGEST: usize = 600;
const MOST: usize = 200;

/// A validated answer of a summariser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Statements, each with its kind.
    pub stated: Vec<(ItemKind, String)>,
    /// Ids of the items that the summariser declares settled.
    pub settled: Vec<u32>,
}

/// Reason for which a summariser's answer is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// The answer contains no JSON object.
    #[error("there is no JSON object in the answer")]
    NoObject,
    /// A field has an unexpected type.
    #[error("`{0}` has to be a list of sentences")]
    NotAList(String),
    /// The answer contains no statement.
    #[error("nothing is stated, though there was something to sum up")]
    Nothing,
    /// A statement is too long, or the answer has too many.
    #[error("at most {MOST} statements of at most {LONGEST} bytes each are taken")]
    TooMuch,
    /// The statements together exceed their token limit.
    #[error("the statements have {} tokens, more than the {} that they may have", figure(*tokens), figure(*most))]
    TooLarge {
        /// Tokens of all statements.
        tokens: u64,
        /// Maximum tokens of all statements.
        most: u64,
    },
    /// A statement contains a name or number that the summariser did not receive.
    #[error("`{0}` occurs nowhere in what is to be summed up")]
    Invented(String),
    /// An item is declared settled that is not open.
    #[error("item {0} is not something open that could be settled")]
    NotOpen(u32),
    /// The summariser used a tool.
    #[error("the tool {0:?} was used, and none may be")]
    UsedTool(String),
}

/// Field names of an answer, with the kind of their statements. Names that other tools use for the same content are
/// accepted as well.
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

/// Parses and validates an answer of a summariser.
///
/// `source` is all text that the summariser received; `most` is the maximum number of tokens of its statements.
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
    /// Returns the statements as items of a turn, without ids.
    #[must_use]
    pub fn items(&self, turn: u32) -> Vec<Item> {
        let item = |(kind, text): &(ItemKind, String)| Item {
            id: 0,
            kind: *kind,
            text: text.clone(),
            subject: None,
            turn,
            // Message 0 is the user's prompt.
            message: 1,
            by: Author::Summary,
            weight: base(*kind) + 60,
            pinned: false,
        };
        self.stated.iter().map(item).collect()
    }
}

impl Summary {
    /// Adds the summary of a later chunk. `known` is the checkpoint that the summariser received with that chunk.
    pub fn and(&mut self, later: Self, known: &Checkpoint) {
        let over = |text: &String| {
            let settled = later.settled.iter().filter_map(|id| known.item(*id));
            settled
                .filter(|item| item.by == Author::Summary)
                .any(|item| item.text == *text)
        };
        // A statement may be open in one chunk and settled in the next.
        self.stated.retain(|(_, text)| !over(text));
        self.stated.extend(later.stated);
        self.settled.extend(later.settled);
    }

    /// Returns the checkpoint `to` with the statements added as items of a turn, in about `room` tokens.
    ///
    /// The summariser received `seen`; `to` may have changed since then. A settled item becomes completed work, unless
    /// its text has changed. If not all items fit, only kinds of low importance are dropped: notes, completed work,
    /// commands, checks, work in progress and next steps.
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

/// Returns `true` if an item is open and a summariser may declare it settled. Items that the user pinned or wrote are
/// excluded.
fn is_open(item: &Item) -> bool {
    let open = matches!(
        item.kind,
        ItemKind::Pending | ItemKind::Blocker | ItemKind::Focus | ItemKind::NextStep
    );
    open && !item.pinned && item.by != Author::Person
}

/// Returns `true` if an item may be dropped to make room for a summariser's statements.
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

/// Returns the first JSON object in an answer, whatever text surrounds it; `None` if there is none.
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

/// Returns the statements in a field: a single one or a list, each a string or an object that contains one. An absent
/// field has none.
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

/// Returns the names in a statement that can be looked up: paths, identifiers, commands and numbers with a unit, and
/// all text in backticks.
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

/// Returns the numbers with at least three digits, such as ports, sizes and years, without thousands separators.
/// Smaller numbers may be counts that the source does not contain.
fn numbers(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == ','));
    let numbers = words.map(|word| word.replace(',', ""));
    numbers.filter(|number| number.len() >= 3)
}

/// Returns `true` if a word is spelled like an identifier or a path, not like a word of ordinary text.
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
