//! Words that look like a cue and are none: sayings, and what people tell of themselves and of others.

use std::sync::LazyLock;

use crate::session::Role;

/// What a person says without meaning any rule, failure or plan, with a comma between two.
const SAYINGS: &str = "\
    never mind, never know, don't worry, do not worry, dont worry, don't mind, don't know, do not know, dont know, don't \
    think, don't care, don't understand, don't remember, don't get it, don't get why, don't see why, don't need to, do \
    not need to, dont need to, don't have to, do not have to, dont have to, must have been, must've been, must be \
    kidding, must be joking, no problem, no worries, no idea, no thanks, no biggie, not a problem, doesn't matter, does \
    not matter, doesn't really matter, remember when";

/// What an agent tells that it did, of what it named before.
const RETOLD: &str = "skipped them, skipped it, skipped those, skipped these, skipped that";

/// What is a saying where nothing follows: `never change`, and not `never change the names`.
const AT_END: [[&str; 2]; 2] = [["never", "change"], ["never", "again"]];

/// What says how often, and may only tell how something is.
const OFTEN: [&str; 2] = ["never", "always"];

/// Verbs of the past without the usual ending.
const PAST: [&str; 13] = [
    "got",
    "saw",
    "knew",
    "thought",
    "had",
    "was",
    "did",
    "said",
    "felt",
    "found",
    "understood",
    "meant",
    "wrote",
];

/// Whom people tell about.
const OTHERS: [&str; 7] = ["my", "his", "her", "their", "he", "she", "it"];

/// What has to be with something, however it is told: `it always needs a review`.
const OUGHT: [&str; 8] = [
    "needs", "has", "gets", "goes", "stays", "uses", "comes", "belongs",
];

/// Which words of a sentence are no cues.
pub(super) fn idle(words: &[&str], role: Role) -> Vec<bool> {
    let mut idle = vec![false; words.len()];
    for at in 0..words.len() {
        let rest = words.get(at..).unwrap_or_default();
        let length = said_idly(rest, role).max(usize::from(tells(words, at, role)));
        for word in idle.iter_mut().skip(at).take(length) {
            *word = true;
        }
    }
    idle
}

/// How many words from here on are a saying.
fn said_idly(rest: &[&str], role: Role) -> usize {
    static OF_USER: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| phrases(SAYINGS));
    static OF_AGENT: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| phrases(RETOLD));
    let of_role = match role {
        Role::User => &*OF_USER,
        _ => &*OF_AGENT,
    };
    let saying = of_role.iter().find(|saying| rest.starts_with(saying));
    let at_end = role == Role::User && AT_END.iter().any(|end| rest == end);
    let length = saying.map_or(0, Vec::len);
    length.max(if at_end { 2 } else { 0 })
}

fn phrases(list: &'static str) -> Vec<Vec<&'static str>> {
    let phrases = list.split(", ");
    phrases.map(|phrase| phrase.split(' ').collect()).collect()
}

/// Whether a word only says how often something was or is so: `I always liked it`, `my dog never stops`.
fn tells(words: &[&str], at: usize, role: Role) -> bool {
    let often = words.get(at).is_some_and(|word| OFTEN.contains(word));
    let verb = words.get(at + 1).copied().unwrap_or_default();
    let before = at.checked_sub(1).and_then(|at| words.get(at)).copied();
    let was = before == Some("i") && (verb.ends_with("ed") || PAST.contains(&verb));
    let of_others = words.first().is_some_and(|first| OTHERS.contains(first));
    let is = of_others && verb.len() > 3 && verb.ends_with('s') && !OUGHT.contains(&verb);
    role == Role::User && often && (was || is)
}
