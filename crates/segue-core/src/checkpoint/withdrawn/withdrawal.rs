//! A sentence that takes something back, and what it takes back.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::super::everyday::{common, is_common};
use super::super::text_units::normalise_text;

/// How many letters of a word tell it from others.
const LETTERS: usize = 5;

/// What speaks of a rule or of what was said, with a comma between two: it takes back whatever it names.
const SPEAKS: &str = "\
    after all, no longer applies, no longer apply, no longer holds, no longer valid, changed my mind, change of plan, \
    change of plans, on second thought, on second thoughts, on reflection, take back, take that back, taken back, you \
    may now, you can now, we may now, we can now, allowed now, allowed again, is fine now, are fine now, is ok now, \
    are ok now, is okay now, are okay now, too strict, gilt nicht mehr, gelten nicht mehr, doch lieber, hinfällig, ya \
    no hace falta";

/// What speaks of the work as often: it takes back a choice, and no ban.
const TURNS: &str = "\
    no longer needed, no longer need, no longer necessary, no longer required, no longer want, doesn't apply, does not \
    apply, don't apply, instead, nicht mehr nötig, stattdessen, en vez de, en lugar de, plutôt";

/// What asks to think no more of something, unless it is denied: nobody takes anything back by `don't forget`.
const FORGETS: &str = "\
    forget, scratch, disregard, nvm, nevermind, never mind, vergiss, vergesst, streich, olvida, olvídate, olvidad, \
    oublie, oubliez, laisse tomber";

/// What asks to do away with something, be it a choice or some code.
const REMOVES: &str = "drop, scrap, ditch, skip, ignore, stop, cancel, remove, revert, undo";

/// What allows the word before it.
const PERMITS: &str = "\
    is ok, is okay, is fine, is allowed, are ok, are okay, are fine, are allowed, ist ok, ist erlaubt";

/// What returns to the word after it.
const RETURNS: &str = "\
    back to, return to, returning to, revert to, reverting to, zurück zu, doch wieder, vuelve a, reviens à";

/// What stands for what was said right before.
const THAT: [&str; 13] = [
    "that", "it", "this", "them", "those", "these", "das", "es", "eso", "esto", "lo", "ça", "cela",
];

/// What speaks of that by itself, whatever follows.
const LAST: [&str; 3] = ["nvm", "nevermind", "never"];

/// What denies the word after it.
const NOT: [&str; 10] = [
    "never", "not", "don't", "dont", "didn't", "cannot", "can't", "without", "nicht", "nie",
];

/// What forbids something, or protects it.
const FORBIDS: [&str; 41] = [
    "never",
    "not",
    "don't",
    "dont",
    "no",
    "none",
    "nobody",
    "nothing",
    "mustn't",
    "cannot",
    "can't",
    "shouldn't",
    "without",
    "avoid",
    "forbidden",
    "prohibited",
    "banned",
    "untouched",
    "alone",
    "frozen",
    "read-only",
    "off-limits",
    "limits",
    "keep",
    "keeps",
    "stay",
    "stays",
    "refrain",
    "nie",
    "niemals",
    "nicht",
    "kein",
    "keine",
    "nunca",
    "jamais",
    "ne",
    "pas",
    "bleibt",
    "bleiben",
    "unangetastet",
    "hands",
];

/// What a rule is called.
const RULE: [&str; 9] = [
    "rule",
    "rules",
    "restriction",
    "requirement",
    "constraint",
    "ban",
    "policy",
    "instruction",
    "regel",
];

/// What gives a rule, or lets something be done.
const GIVES: [&str; 24] = [
    "use", "using", "always", "never", "must", "may", "can", "allowed", "only", "keep", "instead",
    "back", "ok", "okay", "fine", "prefer", "switch", "should", "don't", "nimm", "nutze", "usa",
    "utilise", "lieber",
];

/// How a phrase takes something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Speaks,
    Turns,
    Forgets,
    Removes,
    Permits,
    Returns,
}

/// Phrases by their first word: the words after it, and how they take something back.
type Phrases = HashMap<&'static str, Vec<(Vec<&'static str>, Way)>>;

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut by_first = Phrases::new();
    for (phrases, way) in [
        (SPEAKS, Way::Speaks),
        (TURNS, Way::Turns),
        (FORGETS, Way::Forgets),
        (REMOVES, Way::Removes),
        (PERMITS, Way::Permits),
        (RETURNS, Way::Returns),
    ] {
        for phrase in phrases.split(", ") {
            let mut words = phrase.split(' ');
            let first = words.next().unwrap_or_default();
            let rest = (words.collect(), way);
            by_first.entry(first).or_default().push(rest);
        }
    }
    by_first
});

/// Something that may be taken back.
pub(super) struct Told {
    turn: u32,
    pub(super) words: HashSet<String>,
    forbids: bool,
    /// Whether it takes something back itself.
    takes: bool,
}

impl Told {
    pub(super) fn new(text: &str, turn: u32) -> Self {
        let plain = normalise_text(text);
        Self {
            turn,
            words: stems(&plain),
            forbids: words(&plain).any(|word| FORBIDS.contains(&word)),
            takes: Withdrawal::of(0, turn, text).is_some(),
        }
    }
}

/// What a sentence takes back of what shares its words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    #[default]
    Nothing,
    /// What asks for something: it may speak of some code.
    Choices,
    /// What forbids or protects something as well.
    Rules,
}

/// A sentence that takes something back.
#[derive(Default)]
pub(super) struct Withdrawal {
    pub(super) id: u32,
    pub(super) turn: u32,
    pub(super) words: HashSet<String>,
    /// Whether it gives a rule in the place of what it takes back.
    pub(super) gives: bool,
    reach: Reach,
    /// By which words it asks for that.
    verbs: HashSet<String>,
    /// What it names first of all: `drop cookies`.
    named: Option<String>,
    /// Whether it speaks of what was said right before, and need not name it.
    of_the_last: bool,
    /// What it allows: `cookies are fine`.
    permits: Option<String>,
    /// What it goes back to: `back to cookies`.
    returns: Option<String>,
}

impl Withdrawal {
    pub(super) fn of(id: u32, turn: u32, text: &str) -> Option<Self> {
        let plain = normalise_text(text);
        let words: Vec<&str> = words(&plain).collect();
        let mut found = Self::default();
        for (at, first) in words.iter().enumerate() {
            let (before, after) = words.split_at(at);
            let rest = after.get(1..).unwrap_or_default();
            let phrases = PHRASES.get(first).into_iter().flatten();
            for (phrase, way) in phrases {
                if let Some(rest) = rest.strip_prefix(phrase.as_slice()) {
                    found.add(*way, before.last().copied(), first, rest);
                }
            }
        }
        if words.iter().any(|word| RULE.contains(word)) && found.reach == Reach::Choices {
            found.reach = Reach::Rules;
        }
        let by_words = found.reach > Reach::Nothing;
        let takes = by_words || found.permits.is_some() || found.returns.is_some();
        takes.then(|| Self {
            id,
            turn,
            gives: words.iter().any(|word| GIVES.contains(word)),
            words: stems(&plain),
            ..found
        })
    }

    /// One more phrase, with the words before and after it.
    fn add(&mut self, way: Way, before: Option<&str>, first: &str, after: &[&str]) {
        let denied = before.is_some_and(|word| NOT.contains(&word));
        let reach = match way {
            Way::Forgets | Way::Removes if denied => return,
            Way::Speaks | Way::Forgets => Reach::Rules,
            Way::Turns | Way::Removes => Reach::Choices,
            Way::Permits | Way::Returns => Reach::Nothing,
        };
        self.reach = self.reach.max(reach);
        match way {
            Way::Speaks | Way::Turns => {}
            Way::Forgets | Way::Removes => self.asks(first, after),
            Way::Permits => self.permits = before.map(stem),
            Way::Returns => self.returns = after.first().map(|word| stem(word)),
        }
    }

    /// What is asked for by a word, with those after it.
    fn asks(&mut self, first: &str, after: &[&str]) {
        let object = after.first();
        self.verbs.insert(stem(first));
        self.named = self.named.take().or(object.map(|word| stem(word)));
        let is_last = object.is_none_or(|word| THAT.contains(word));
        self.of_the_last |= is_last || LAST.contains(&first);
    }

    /// Whether it takes back what was told.
    pub(super) fn meets(&self, told: &Told) -> bool {
        if told.turn >= self.turn {
            return false;
        }
        if let Some(again) = self
            .returns
            .as_ref()
            .filter(|word| told.words.contains(*word))
        {
            // Who goes back to something takes back that it was given up.
            return told.takes && !is_everyday(again);
        }
        // Code may be removed for the sake of the very rule that forbids something.
        let reaches = match self.reach {
            Reach::Nothing => false,
            Reach::Choices => !told.forbids || self.of_the_last,
            Reach::Rules => true,
        };
        self.allows(told) || reaches && self.names(told)
    }

    /// Whether it allows all that a rule forbids.
    fn allows(&self, told: &Told) -> bool {
        let mut rare = told.words.iter().filter(|word| !is_everyday(word));
        let is_all = rare.next() == self.permits.as_ref() && rare.next().is_none();
        told.forbids && self.permits.is_some() && is_all
    }

    /// Whether it names what was told.
    fn names(&self, told: &Told) -> bool {
        let rare: Vec<&String> = told
            .words
            .iter()
            .filter(|word| !is_everyday(word))
            .collect();
        let has = |word: &&&String| self.words.contains(**word);
        let shared = rare.iter().filter(has).count();
        let is_last = self.of_the_last && told.turn + 1 == self.turn && shared > 0;
        let names = match rare.len() {
            // All of it is words of every day.
            0 | 1 => self.says_all_of(told),
            n => {
                let named = rare.iter().any(|word| Some(*word) == self.named.as_ref());
                named && n <= 3 || shared >= 2 && shared * 2 >= n
            }
        };
        // Who asks for what the rule asks for keeps to it.
        told.words.is_disjoint(&self.verbs) && (is_last || names)
    }

    /// Whether it says all that was told, but for what forbids it.
    fn says_all_of(&self, told: &Told) -> bool {
        static FORBIDDING: LazyLock<HashSet<String>> =
            LazyLock::new(|| FORBIDS.iter().map(|word| stem(word)).collect());
        let mut words = told.words.iter().filter(|word| !FORBIDDING.contains(*word));
        let least = if told.forbids { 1 } else { 2 };
        words.clone().count() >= least && words.all(|word| self.words.contains(word))
    }
}

fn words(plain: &str) -> impl Iterator<Item = &str> {
    plain.split(' ').filter(|word| !word.is_empty())
}

/// The words that say what something is, each by its beginning.
fn stems(plain: &str) -> HashSet<String> {
    let is_short = |word: &str| word.len() == 3 && is_common(word) || word.len() < 3;
    let is_number = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    let tells = |word: &&str| !is_short(word) || is_number(word);
    words(plain).filter(tells).map(stem).collect()
}

/// The beginning of a word: `commit` is in `committing`. A name is taken as a whole.
fn stem(word: &str) -> String {
    let is_name = word.contains(|c: char| !c.is_alphabetic());
    let end = word.char_indices().nth(LETTERS).filter(|_| !is_name);
    let end = end.map_or(word.len(), |(at, _)| at);
    word.get(..end).unwrap_or(word).to_owned()
}

/// Whether a word begins like one of every day.
fn is_everyday(stem: &str) -> bool {
    static STEMS: LazyLock<HashSet<String>> = LazyLock::new(|| common().map(self::stem).collect());
    STEMS.contains(stem)
}
