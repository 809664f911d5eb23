//! The phrases by which a sentence shows what it is.
//!
//! They decide where a sentence is told, and that it goes before those without any; what has none is still kept as far
//! as there is room. Each stands for whole words, as they are written in a [`TextUnit`].

mod asked;
mod east;
mod idle;
mod phrases;

use std::collections::HashMap;
use std::sync::LazyLock;

use self::asked::of_user;
pub(super) use self::asked::{asks, is_task};
use self::idle::idle;
use self::phrases::{
    BLOCKED, CHOICES, DONE, FAILURES, GOALS, OBSTACLES, OPEN, OWED, REASONS, REPORTS, RULES, SOON,
    UNDER_WAY, WISHES, WORKS,
};
use super::ItemKind;
use super::text_units::TextUnit;
use crate::session::Role;

/// What a sentence is, and how plainly it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sense {
    pub(super) kind: ItemKind,
    pub(super) strength: u32,
}

impl Sense {
    /// What is marked as that.
    pub(super) fn plainly(kind: ItemKind) -> Self {
        Self { kind, strength: 6 }
    }

    /// Whether it tells where something stands just now.
    pub(super) fn passes(self) -> bool {
        matches!(
            self.kind,
            ItemKind::Focus | ItemKind::Done | ItemKind::NextStep
        )
    }
}

/// A list of phrases: what those mean who use one, and how plainly.
struct Cues {
    role: Role,
    kind: ItemKind,
    weight: u32,
    /// With a comma between two.
    phrases: &'static str,
}

/// Of two that fit as well the first counts.
const CUES: [Cues; 21] = [
    cues(Role::User, ItemKind::Directive, 6, RULES),
    cues(Role::User, ItemKind::Goal, 5, GOALS),
    cues(Role::User, ItemKind::Request, 4, WORKS),
    cues(Role::User, ItemKind::Blocker, 5, BLOCKED),
    cues(Role::User, ItemKind::Attempt, 4, FAILURES),
    cues(Role::User, ItemKind::Decision, 4, CHOICES),
    cues(Role::User, ItemKind::Pending, 4, OPEN),
    cues(Role::User, ItemKind::Pending, 3, SOON),
    cues(Role::User, ItemKind::Pending, 3, OWED),
    cues(Role::User, ItemKind::Blocker, 3, OBSTACLES),
    cues(Role::User, ItemKind::Directive, 2, WISHES),
    cues(Role::Assistant, ItemKind::Blocker, 6, BLOCKED),
    cues(Role::Assistant, ItemKind::Attempt, 5, FAILURES),
    cues(Role::Assistant, ItemKind::Decision, 5, CHOICES),
    cues(Role::Assistant, ItemKind::Pending, 5, OPEN),
    cues(Role::Assistant, ItemKind::Blocker, 4, OBSTACLES),
    cues(Role::Assistant, ItemKind::Decision, 3, REASONS),
    cues(Role::Assistant, ItemKind::Pending, 3, OWED),
    cues(Role::Assistant, ItemKind::Focus, 3, UNDER_WAY),
    cues(Role::Assistant, ItemKind::NextStep, 3, SOON),
    cues(Role::Assistant, ItemKind::Done, 2, DONE),
];

const fn cues(role: Role, kind: ItemKind, weight: u32, phrases: &'static str) -> Cues {
    Cues {
        role,
        kind,
        weight,
        phrases,
    }
}

/// The words after the first one of a phrase, and which cue it is.
type Rest = (Vec<&'static str>, usize);

/// The phrases that begin with a word.
static BY_FIRST_WORD: LazyLock<HashMap<&str, Vec<Rest>>> = LazyLock::new(|| {
    let mut by_first: HashMap<&str, Vec<Rest>> = HashMap::new();
    for (index, cues) in CUES.iter().enumerate() {
        for phrase in cues.phrases.split(", ") {
            let mut words = phrase.split(' ');
            let first = words.next().unwrap_or_default();
            by_first
                .entry(first)
                .or_default()
                .push((words.collect(), index));
        }
    }
    by_first
});

/// What a sentence is, as far as it shows.
pub(super) fn sense(unit: &TextUnit, role: Role) -> Option<Sense> {
    if role == Role::User && east::is_rule(&unit.text) {
        return Some(Sense::plainly(ItemKind::Directive));
    }
    let words: Vec<&str> = unit.words().collect();
    let idle = idle(&words, role);
    let mut found = [0_u32; CUES.len()];
    let mut last = [0_usize; CUES.len()];
    for (at, first) in words.iter().enumerate() {
        let rest = words.get(at + 1..).unwrap_or_default();
        let phrases = BY_FIRST_WORD.get(first).into_iter().flatten();
        for (phrase, index) in phrases.filter(|(phrase, _)| rest.starts_with(phrase)) {
            let mut its_words = idle.iter().skip(at).take(phrase.len() + 1);
            if its_words.any(|idle| *idle) {
                continue;
            }
            if let (Some(found), Some(last)) = (found.get_mut(*index), last.get_mut(*index)) {
                *found += 1;
                *last = at;
            }
        }
    }
    let mut best: Option<(Sense, usize)> = None;
    let mut done: Option<(Sense, usize)> = None;
    for ((cues, found), last) in CUES.iter().zip(found).zip(last) {
        if found == 0 || cues.role != role {
            continue;
        }
        let more = found.saturating_sub(1).min(2);
        // What is faint does not become plain by being said twice.
        let strength = if cues.weight > 3 {
            cues.weight + more
        } else {
            cues.weight
        };
        let kind = cues.kind;
        let shown = (Sense { kind, strength }, last);
        if kind == ItemKind::Done {
            done = Some(shown);
        }
        if best.is_none_or(|(best, _)| strength > best.strength) {
            best = Some(shown);
        }
    }
    match (best, done) {
        // What was missing or broken, and then was put right, is neither any more.
        (Some((open, opened)), Some((done, ended)))
            if matches!(open.kind, ItemKind::Pending | ItemKind::Attempt)
                && ended > opened
                && !is_condition(
                    words
                        .get(opened.saturating_sub(1)..ended)
                        .unwrap_or_default(),
                ) =>
        {
            Some(done)
        }
        (best, _) => best.and_then(|(sense, _)| of_user(sense, unit, role)),
    }
}

/// How many words a sentence has, be there blanks between them or not.
pub(super) fn length(unit: &TextUnit) -> usize {
    unit.words().count().max(east::words(&unit.text))
}

/// Whether a person tells, in plain words, that something was seen to.
pub(super) fn is_report(plain: &str) -> bool {
    static TOLD: LazyLock<Vec<String>> = LazyLock::new(|| {
        let phrases = REPORTS.split(", ");
        phrases.map(|phrase| format!(" {phrase} ")).collect()
    });
    let told = |phrase: &String| {
        let at = plain.match_indices(phrase.as_str());
        at.map(|(at, _)| plain.get(..at).unwrap_or_default())
            .any(|before| !is_doubted(before))
    };
    TOLD.iter().any(told)
}

/// Whether what follows some words is asked, denied or only supposed: `do you have access`.
fn is_doubted(before: &str) -> bool {
    let doubts = [
        "do", "does", "not", "don't", "doesn't", "isn't", "aren't", "haven't", "hasn't", "no",
        "never", "until", "once", "if", "when", "unless", "can't", "won't",
    ];
    let mut near = before.rsplit(' ').take(4);
    near.any(|word| doubts.contains(&word))
}

/// Whether what comes after some words is only supposed.
fn is_condition(words: &[&str]) -> bool {
    let suppose = [
        "if", "once", "when", "until", "till", "after", "before", "unless", "as", "not", "no",
        "isn't", "aren't", "never", "yet", "still", "be", "to",
    ];
    words.iter().any(|word| suppose.contains(word))
}

/// Words that stand for what was said before, or tie on to it.
const BACK: [&str; 26] = [
    "it",
    "its",
    "it's",
    "it'd",
    "that",
    "that's",
    "this",
    "they",
    "them",
    "those",
    "these",
    "both",
    "which",
    "such",
    "latter",
    "former",
    "otherwise",
    "because",
    "but",
    "so",
    "therefore",
    "instead",
    "would",
    "wouldn't",
    "would've",
    "anyway",
];

/// Whether a sentence speaks of what was said right before it.
pub(super) fn refers_back(unit: &TextUnit) -> bool {
    unit.words().any(|word| BACK.contains(&word))
}

/// Whether a sentence can't be told without what was said right before it: it begins with that, or names it by a word
/// that means nothing else.
pub(super) fn leans_back(unit: &TextUnit) -> bool {
    let stands_for = ["it", "its", "they", "them", "those", "these", "both"];
    unit.words().take(2).any(|word| BACK.contains(&word))
        || unit.words().any(|word| stands_for.contains(&word))
}

/// Whether a sentence is of the moment alone by its form: a question of the user, a step that the agent announces.
pub(super) fn is_routine(unit: &TextUnit, role: Role) -> bool {
    let mut words = unit.words();
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    if role == Role::User {
        // A polite request has the form of a question, too.
        let polite = matches!(first, "can" | "could" | "would" | "will") && second == "you";
        return unit.text.ends_with(['?', '？']) && !polite;
    }
    match first {
        _ if unit.text.ends_with('?') => true,
        "i'll" | "running" | "reading" | "checking" | "looking" | "searching" | "here's"
        | "sure" | "great" | "perfect" | "sorry" => true,
        "let" => second == "me",
        "let's" => second == "see",
        "i" => second == "will",
        "i'm" => matches!(second, "going" | "now"),
        "now" => matches!(second, "i" | "i'm" | "i'll" | "let" | "to" | "for"),
        "first" | "next" | "then" => matches!(second, "i" | "i'll"),
        "here" => matches!(second, "is" | "are"),
        "you're" => second == "right",
        _ => false,
    }
}

#[cfg(test)]
mod tests;
