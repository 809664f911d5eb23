//! What a person asks for, and what only looks as if they told of something.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::super::ItemKind;
use super::super::units::Unit;
use super::Sense;
use super::phrases::TASKS;
use crate::Role;

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
pub(super) fn of_user(sense: Sense, unit: &Unit, role: Role) -> Option<Sense> {
    let is_open = matches!(sense.kind, ItemKind::Pending | ItemKind::Attempt);
    if role != Role::User || !is_open || sense.strength < ASKED {
        return Some(sense);
    }
    if unit.words().all(|word| ANSWERS.contains(&word)) {
        return None;
    }
    let is_put_off = LATER.iter().any(|later| unit.plain.contains(later));
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

/// Whether a sentence asks for a piece of work.
pub(in crate::checkpoint) fn asks(unit: &Unit) -> bool {
    static TASKS_BY_WORD: LazyLock<HashSet<&str>> = LazyLock::new(|| TASKS.split(' ').collect());
    let mut words = unit.words().skip_while(|word| POLITE.contains(word));
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let third = words.next().unwrap_or_default();
    let of_us = [
        "i want",
        "i need",
        "we want",
        "we need",
        "i'd like",
        "can you",
        "could you",
        "would you",
    ];
    let opening = format!("{first} {}", second.unwrap_or_default());
    TASKS_BY_WORD.contains(first)
        || of_us.contains(&opening.as_str())
        || first == "let's" && TASKS_BY_WORD.contains(second.unwrap_or_default())
        || matches!(opening.as_str(), "help me" | "go ahead") && !third.is_empty()
}
