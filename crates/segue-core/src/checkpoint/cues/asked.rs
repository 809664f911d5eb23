//! What a person asks for, and what only looks as if they told of something.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::super::ItemKind;
use super::super::text_units::TextUnit;
use super::Sense;
use super::east;
use super::phrases::TASKS;
use crate::session::Role;

/// How plainly a piece of work is asked for.
const ASKED: u32 = 4;

/// What a person answers who says nothing else.
const ANSWERS: [&str; 24] = [
    "sure", "ok", "okay", "yes", "yeah", "no", "nope", "not", "now", "later", "maybe", "yet",
    "then", "thanks", "fine", "tomorrow", "perhaps", "and", "but", "it", "that", "do", "we", "for",
];

/// What puts something off.
const LATER: [&str; 10] = [
    " later ",
    " tomorrow ",
    " eventually ",
    " someday ",
    " sometime ",
    " afterwards ",
    " todo ",
    " for now ",
    " next week ",
    " next sprint ",
];

/// What a person means by what shows in a sentence: who asks for something has not tried it, nor put it off.
pub(super) fn of_user(sense: Sense, unit: &TextUnit, role: Role) -> Option<Sense> {
    let is_open = matches!(sense.kind, ItemKind::Pending | ItemKind::Attempt);
    if role != Role::User || !is_open || sense.strength < ASKED {
        return Some(sense);
    }
    if unit.words().all(|word| ANSWERS.contains(&word)) {
        return None;
    }
    let is_put_off = LATER.iter().any(|later| unit.normalised.contains(later));
    let kind = if asks(unit) && !is_put_off {
        ItemKind::Request
    } else {
        sense.kind
    };
    Some(Sense { kind, ..sense })
}

/// What may stand before what is asked for.
const POLITE: [&str; 17] = [
    "please", "pls", "plz", "now", "then", "and", "also", "so", "ok", "okay", "hi", "hey", "hello",
    "first", "next", "just", "bitte",
];

/// Whether a word asks for a piece of work if a sentence begins with it.
pub(in crate::checkpoint) fn is_task(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| TASKS.split(' ').collect());
    ALL.contains(word)
}

/// Whether a sentence asks for a piece of work.
pub(in crate::checkpoint) fn asks(unit: &TextUnit) -> bool {
    let mut words = unit.words().skip_while(|word| POLITE.contains(word));
    let first = words.next().unwrap_or_default();
    match (first, words.next().unwrap_or_default()) {
        ("i" | "we", "want" | "need") | ("i'd", "like") | ("can" | "could" | "would", "you") => {
            true
        }
        ("help", "me") | ("go", "ahead") => words.next().is_some(),
        ("let's", second) => is_task(second),
        (first, _) => is_task(first) || east::asks(&unit.text),
    }
}
