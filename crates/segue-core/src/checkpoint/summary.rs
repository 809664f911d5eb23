//! Parsing and validation of a summariser's answers.
//!
//! A summariser adds statements to a checkpoint and may declare open items settled. It cannot remove anything else: the
//! user's rules, pinned items and extracted items stay, whatever it answers. Every name in its statements must occur in
//! the text that it received.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::extract::base_weight;
use super::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind, merge};
use crate::number_format::format_count;
use crate::session::to_single_line;

/// Maximum bytes of a statement (`MAX_STATEMENT_BYTES`), and maximum number of statements (`MAX_STATEMENTS`).
const MAX_STATEMENT_BYTES: usize = 600;
const MAX_STATEMENTS: usize = 200;

/// A validated answer of a summariser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Statements, each with its kind.
    pub statements: Vec<(ItemKind, String)>,
    /// Ids of the items that the summariser declares settled.
    pub settled_ids: Vec<u32>,
}

/// Reason why a summariser's answer is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// The answer contains no JSON object.
    #[error("the answer contains no JSON object")]
    NoJsonObject,
    /// A field has an unexpected type.
    #[error("`{0}` must be a list of sentences")]
    NotAList(String),
    /// The answer contains no statement.
    #[error("the answer contains no statements")]
    Empty,
    /// A statement is too long, or the answer has too many.
    #[error(
        "the answer exceeds the limit of {MAX_STATEMENTS} statements of at most {MAX_STATEMENT_BYTES} bytes each"
    )]
    LimitExceeded,
    /// The statements together exceed their token limit.
    #[error(
        "the statements have {} tokens, more than the limit of {}",
        format_count(*tokens),
        format_count(*max_tokens)
    )]
    TooManyTokens {
        /// Tokens of all statements.
        tokens: u64,
        /// Maximum tokens of all statements.
        max_tokens: u64,
    },
    /// A statement contains a name or number that the summariser did not receive.
    #[error("`{0}` does not occur in the text to summarise")]
    Invented(String),
    /// An item is declared settled that is not open.
    #[error("item {0} cannot be settled: it is not open")]
    NotOpen(u32),
    /// The summariser used a tool.
    #[error("the tool {0:?} was used, but tools are not allowed")]
    UsedTool(String),
}

/// Field names of an answer, with the kind of their statements. Names that other tools use for the same content are
/// accepted as well.
const ANSWER_FIELDS: [(&[&str], ItemKind); 7] = [
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
/// `source` is all text that the summariser received; `max_tokens` is the maximum number of tokens of its statements.
pub fn parse_summary(
    answer: &str,
    before: &Checkpoint,
    source: &str,
    max_tokens: u64,
    count: &dyn Fn(&str) -> u64,
) -> Result<Summary, SummaryError> {
    let fields = find_json_object(answer).ok_or(SummaryError::NoJsonObject)?;
    let mut summary = Summary::default();
    for (names, kind) in ANSWER_FIELDS {
        for name in names {
            let texts = parse_statements(name, fields.get(*name))?;
            summary
                .statements
                .extend(texts.into_iter().map(|text| (kind, text)));
        }
    }
    let settled = fields.get("settled").and_then(Value::as_array);
    for id in settled.into_iter().flatten() {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| SummaryError::NotAList("settled".into()))?;
        if !before.find_item(id).is_some_and(is_open) {
            return Err(SummaryError::NotOpen(id));
        }
        summary.settled_ids.push(id);
    }
    if summary.statements.is_empty() {
        return Err(SummaryError::Empty);
    }
    if summary.statements.len() > MAX_STATEMENTS
        || summary
            .statements
            .iter()
            .any(|(_, text)| text.len() > MAX_STATEMENT_BYTES)
    {
        return Err(SummaryError::LimitExceeded);
    }
    let tokens = summary.statements.iter().map(|(_, text)| count(text)).sum();
    if tokens > max_tokens {
        return Err(SummaryError::TooManyTokens { tokens, max_tokens });
    }
    let ungrouped_source = source.replace(',', "");
    for (_, text) in &summary.statements {
        if let Some(name) = referenced_names(text).find(|name| !source.contains(name)) {
            return Err(SummaryError::Invented(name.to_owned()));
        }
        let is_in_source = |number: &String| ungrouped_source.contains(number.as_str());
        if let Some(number) = referenced_numbers(text).find(|number| !is_in_source(number)) {
            return Err(SummaryError::Invented(number));
        }
    }
    Ok(summary)
}

impl Summary {
    /// Returns the statements as items of a turn, without ids.
    #[must_use]
    pub fn to_items(&self, turn: u32) -> Vec<CheckpointItem> {
        let item = |(kind, text): &(ItemKind, String)| CheckpointItem {
            id: 0,
            kind: *kind,
            text: text.clone(),
            subject: None,
            turn,
            // Message 0 is the user's prompt.
            message_index: 1,
            author: ItemAuthor::Summariser,
            weight: base_weight(*kind) + 60,
            pinned: false,
        };
        self.statements.iter().map(item).collect()
    }

    /// Adds the summary of a later chunk. `received` is the checkpoint that the summariser received with that chunk.
    pub fn append(&mut self, later: Self, received: &Checkpoint) {
        let is_settled = |text: &String| {
            let settled_items = later
                .settled_ids
                .iter()
                .filter_map(|id| received.find_item(*id));
            settled_items
                .filter(|item| item.author == ItemAuthor::Summariser)
                .any(|item| item.text == *text)
        };
        // A statement may be open in one chunk and settled in the next.
        self.statements.retain(|(_, text)| !is_settled(text));
        self.statements.extend(later.statements);
        self.settled_ids.extend(later.settled_ids);
    }

    /// Returns the checkpoint `current` with the statements added as items of a turn, in about `room` tokens.
    ///
    /// The summariser received `received`; `current` may have changed since then. A settled item becomes completed
    /// work, unless its text has changed. If not all items fit, only kinds of low importance are dropped: notes,
    /// completed work, commands, checks, work in progress and next steps.
    #[must_use]
    pub fn apply(
        &self,
        received: &Checkpoint,
        current: &Checkpoint,
        turn: u32,
        room: u64,
        count: &dyn Fn(&str) -> u64,
    ) -> Checkpoint {
        let is_unchanged = |item: &CheckpointItem| {
            received
                .find_item(item.id)
                .is_some_and(|received_item| received_item.text == item.text)
        };
        let mut updated = current.clone();
        for item in &mut updated.items {
            if self.settled_ids.contains(&item.id) && is_open(item) && is_unchanged(item) {
                item.kind = ItemKind::Done;
                item.author = ItemAuthor::Summariser;
            }
        }
        let pins: HashMap<u32, bool> = updated
            .items
            .iter()
            .map(|item| (item.id, item.pinned))
            .collect();
        for item in &mut updated.items {
            item.pinned |= !is_droppable(item);
        }
        let mut merged = merge(&updated, self.to_items(turn), room, count);
        for item in &mut merged.items {
            item.pinned = pins.get(&item.id).copied().unwrap_or(false);
        }
        merged
    }
}

/// Returns `true` if an item is open and a summariser may declare it settled. Items that the user pinned or wrote are
/// excluded.
fn is_open(item: &CheckpointItem) -> bool {
    let open = matches!(
        item.kind,
        ItemKind::Pending | ItemKind::Blocker | ItemKind::Focus | ItemKind::NextStep
    );
    open && !item.pinned && item.author != ItemAuthor::User
}

/// Returns `true` if an item may be dropped to make room for a summariser's statements.
fn is_droppable(item: &CheckpointItem) -> bool {
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
fn find_json_object(answer: &str) -> Option<Map<String, Value>> {
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
fn parse_statements(name: &str, field: Option<&Value>) -> Result<Vec<String>, SummaryError> {
    let not_a_list = || SummaryError::NotAList(name.to_owned());
    let parse_statement = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Object(fields) => {
            let part = |key| fields.get(key).and_then(Value::as_str);
            let text = part("text")
                .or_else(|| part("decision"))
                .ok_or_else(not_a_list)?;
            Ok(match part("why").or_else(|| part("reason")) {
                Some(reason) => format!("{text} ({reason})"),
                None => text.to_owned(),
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(not_a_list()),
    };
    let statements: Vec<String> = match field {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values
            .iter()
            .map(parse_statement)
            .collect::<Result<_, _>>()?,
        Some(value) => vec![parse_statement(value)?],
    };
    let lines = statements.iter().map(|text| to_single_line(text));
    Ok(lines.filter(|text| !text.is_empty()).collect())
}

/// Returns the names in a statement that can be looked up: paths, identifiers, commands and numbers with a unit, and
/// all text in backticks.
fn referenced_names(text: &str) -> impl Iterator<Item = &str> {
    let in_backticks = text.split('`').skip(1).step_by(2);
    let words =
        text.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '(' | ')' | ',' | ';'));
    let words = words
        .map(|word| word.trim_matches(|c: char| matches!(c, '.' | ':' | '!' | '?' | '\'' | '*')));
    let identifiers = words.filter(|word| is_identifier(word));
    in_backticks
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .chain(identifiers)
}

/// Returns the numbers with at least three digits, such as ports, sizes and years, without thousands separators.
/// Smaller numbers may be counts that the source does not contain.
fn referenced_numbers(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == ','));
    let numbers = words.map(|word| word.replace(',', ""));
    numbers.filter(|number| number.len() >= 3)
}

/// Returns `true` if a word is spelled like an identifier or a path, not like a word of ordinary text.
fn is_identifier(word: &str) -> bool {
    let has_inner = |c: char| word.trim_matches(c).contains(c);
    let has_letters = word.chars().any(char::is_alphabetic);
    let is_camel_case = word
        .chars()
        .zip(word.chars().skip(1))
        .any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let has_digits = has_letters && word.chars().any(|c| c.is_ascii_digit());
    has_letters
        && (has_inner('/')
            || has_inner('_')
            || word.contains("::")
            || has_inner('.') && !word.ends_with('.')
            || is_camel_case
            || has_digits)
}

#[cfg(test)]
mod tests;
