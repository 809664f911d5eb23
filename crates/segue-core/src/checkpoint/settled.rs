//! What was open or in the way, and is not any more: something later says so.

mod short;

use std::collections::{HashMap, HashSet};

use super::cues::{is_report, sense};
use super::text_units::{TextUnit, normalise_text};
use super::tool_actions::SUCCESS_TEXT;
use super::{CheckpointItem, ItemAuthor, ItemKind};
use crate::session::Role;

/// Words that say where something stands and not what it is.
const COMMON: [&str; 18] = [
    "also",
    "been",
    "done",
    "from",
    "have",
    "into",
    "later",
    "left",
    "missing",
    "need",
    "needs",
    "remaining",
    "still",
    "that",
    "this",
    "todo",
    "will",
    "with",
];

/// What joins two things that may be done one by one.
const JOINTS: [&str; 5] = [", and ", "; ", " and ", " und ", " y "];

/// Of how many turns what is in the way may be gone by a word of the person.
const SOON: u32 = 2;

/// Something that is said to be done.
struct Saying {
    at: (u32, u32),
    text: String,
    by_user: bool,
}

/// Without what was open and is done since: most of the words of each thing in it are in something later that is said to
/// be done, or it is said in the same words.
pub(super) fn settled(mut items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let sayings: Vec<Saying> = items.iter().filter_map(saying).collect();
    // Who says a word, so that each open item is compared with those alone that share one with it.
    let mut says: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, saying) in sayings.iter().enumerate() {
        for word in telling(&saying.text) {
            says.entry(word).or_default().push(at);
        }
    }
    let open = items.iter().filter(|item| is_open(item));
    let mut works: HashMap<String, usize> = HashMap::new();
    for work in open.filter_map(|item| short::work(&normalise_text(&item.text)).map(str::to_owned))
    {
        *works.entry(work).or_default() += 1;
    }
    let done = Done {
        sayings: &sayings,
        says,
        works,
    };
    let settled: HashSet<u32> = items
        .iter()
        .filter(|item| is_open(item) && done.settles(item))
        .map(|item| item.id)
        .collect();
    let passed = passed(&items);
    items.retain(|item| !settled.contains(&item.id) && !is_outrun(item, &passed));
    items
}

/// The checks that went well, with when they did.
fn passed(items: &[CheckpointItem]) -> HashMap<String, (u32, u32)> {
    let passed = items.iter().filter(|item| item.kind == ItemKind::Check);
    let passed = passed.filter(|item| item.text == SUCCESS_TEXT);
    let passed =
        passed.filter_map(|item| Some((item.subject.clone()?, (item.turn, item.message_index))));
    passed.collect()
}

/// Whether a check failed, and one of all that it was a part of went well since: `make test`, and not `make test-dates`.
fn is_outrun(item: &CheckpointItem, passed: &HashMap<String, (u32, u32)>) -> bool {
    let failed = item.kind == ItemKind::Check && item.text != SUCCESS_TEXT;
    let Some(subject) = item.subject.as_deref().filter(|_| failed) else {
        return false;
    };
    let stays = item.pinned || item.author == ItemAuthor::User;
    let wider = subject
        .match_indices(' ')
        .filter_map(|(at, _)| passed.get(subject.get(..at)?));
    !stays
        && wider
            .into_iter()
            .any(|at| *at > (item.turn, item.message_index))
}

fn is_open(item: &CheckpointItem) -> bool {
    let open = matches!(item.kind, ItemKind::Pending | ItemKind::Blocker);
    open && !item.pinned && item.author != ItemAuthor::User
}

/// What an item says is done, if it does.
fn saying(item: &CheckpointItem) -> Option<Saying> {
    let text = normalise_text(&item.text);
    let by_user =
        item.message_index == 0 && item.subject.is_none() && item.author == ItemAuthor::Extraction;
    let says = match item.kind {
        // A summariser says what is settled by its number; what else it takes for done may be made up.
        ItemKind::Done => item.author != ItemAuthor::Summariser,
        // What was last said of a file may be that it is done.
        ItemKind::File => sense(&TextUnit::new(&item.text), Role::Assistant)
            .is_some_and(|sense| sense.kind == ItemKind::Done),
        // A note of a prompt is what others said.
        ItemKind::Note => false,
        _ => by_user && is_report(&text),
    };
    says.then_some(Saying {
        at: (item.turn, item.message_index),
        text,
        by_user,
    })
}

/// All that is said to be done, by its words.
struct Done<'a> {
    sayings: &'a [Saying],
    says: HashMap<&'a str, Vec<usize>>,
    /// How many open items begin with a piece of work: of two renames nobody knows which `the rename` is.
    works: HashMap<String, usize>,
}

impl Done<'_> {
    fn settles(&self, item: &CheckpointItem) -> bool {
        let text = normalise_text(&item.text);
        let since = (item.turn, item.message_index);
        let same = |saying: &Saying| saying.at > since && saying.text == text;
        if self.covers(&telling(&text), since) || self.sayings.iter().any(same) {
            return true;
        }
        let is_gone = item.kind == ItemKind::Blocker && self.is_gone(&telling(&text), item.turn);
        is_gone || self.says_shortly(&text, since) || self.covers_each(&item.text, since)
    }

    /// Whether something later plainly says that something open of few words is done.
    fn says_shortly(&self, open: &str, since: (u32, u32)) -> bool {
        let work = short::work(open).filter(|work| self.works.get(*work) == Some(&1));
        let says = |at: &usize| {
            let saying = self.sayings.get(*at).filter(|saying| saying.at > since);
            saying.is_some_and(|saying| {
                short::says_all(open, &saying.text)
                    || work.is_some_and(|work| short::names_work(work, &saying.text))
            })
        };
        self.shared(&telling(open)).keys().any(says)
    }

    /// Whether something later says most of some words.
    fn covers(&self, words: &[&str], since: (u32, u32)) -> bool {
        let shared = self.shared(words);
        let most = |(at, shared): (&usize, &usize)| {
            let later = self
                .sayings
                .get(*at)
                .is_some_and(|saying| saying.at > since);
            later && shared * 3 >= words.len() * 2
        };
        words.len() >= 3 && shared.iter().any(most)
    }

    /// Whether each of several things in one sentence is done.
    fn covers_each(&self, text: &str, since: (u32, u32)) -> bool {
        let mut things = vec![text];
        for joint in JOINTS {
            things = things.iter().flat_map(|thing| thing.split(joint)).collect();
        }
        let things: Vec<String> = things.into_iter().map(normalise_text).collect();
        let is_done = |thing: &String| {
            let words = telling(thing);
            let shared = self.shared(&words);
            let all = |(at, shared): (&usize, &usize)| {
                let later = self
                    .sayings
                    .get(*at)
                    .is_some_and(|saying| saying.at > since);
                later && *shared >= 2 && shared * 3 >= words.len() * 2
            };
            shared.iter().any(all)
        };
        things.len() > 1 && things.iter().all(is_done)
    }

    /// Whether the person told soon after that something with one of these words was seen to.
    fn is_gone(&self, words: &[&str], turn: u32) -> bool {
        let soon = self.sayings.iter().filter(|saying| {
            saying.by_user && saying.at.0 > turn && saying.at.0 <= turn.saturating_add(SOON)
        });
        let is_same = |word: &&str, said: &str| *word == said || is_short_for(said, word);
        soon.into_iter().any(|saying| {
            let said = telling(&saying.text);
            let shares = |word: &&str| said.iter().any(|said| is_same(word, said));
            words.iter().any(shares)
        })
    }

    /// How many of some words each of them says that says any.
    fn shared(&self, words: &[&str]) -> HashMap<usize, usize> {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for at in words
            .iter()
            .filter_map(|word| self.says.get(word))
            .flatten()
        {
            *shared.entry(*at).or_default() += 1;
        }
        shared
    }
}

/// `creds` for `credentials`.
fn is_short_for(short: &str, word: &str) -> bool {
    let short = short.trim_end_matches('s');
    short.len() >= 4 && word.starts_with(short)
}

/// The words that say what something is, each once.
fn telling(plain: &str) -> Vec<&str> {
    let telling = |word: &&str| word.chars().count() > 3 && !COMMON.contains(word);
    let mut words: Vec<&str> = plain.split(' ').filter(telling).collect();
    words.sort_unstable();
    words.dedup();
    words
}
