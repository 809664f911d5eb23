//! What the user took back: a rule or a choice that a later prompt of theirs says holds no more.
//!
//! It is marked and not dropped: who takes one sentence for the end of another may be wrong, and both are told.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::everyday::common;
use super::units::plain;
use super::{Author, Item, ItemKind};

/// How much less a rule tells that holds no more.
const LESS: u32 = 40;

/// How many letters of a word tell it from others.
const LETTERS: usize = 5;

/// What ends the text of an item that was taken back, before the number of the turn.
const MARK: &str = " (taken back in turn ";

/// What takes something back wherever it stands, with a comma between two.
const TAKES_BACK: &str = "\
    after all, no longer applies, no longer apply, no longer holds, no longer needed, no longer need, no longer \
    necessary, no longer required, no longer valid, no longer want, doesn't apply, does not apply, don't apply, changed \
    my mind, change of plan, change of plans, on second thought, on second thoughts, take back, take that back, taken \
    back, you may now, you can now, allowed now, allowed again, is fine now, are fine now, is ok now, are ok now, is \
    okay now, are okay now, instead, too strict, gilt nicht mehr, gelten nicht mehr, nicht mehr nötig, doch lieber, \
    stattdessen, hinfällig, ya no hace falta, en vez de, en lugar de, plutôt";

/// What does so as a request, unless it is denied: nobody takes anything back by `don't forget`.
const ASKS_TO: &str = "\
    forget, drop, scrap, ditch, scratch, skip, ignore, disregard, stop, cancel, remove, revert, undo, nvm, nevermind, \
    never mind, vergiss, vergesst, streich, olvida, olvídate, olvidad, oublie, oubliez, laisse tomber";

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

/// Phrases by their first word: the words after it, and whether it is a request.
type Phrases = HashMap<&'static str, Vec<(Vec<&'static str>, bool)>>;

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut by_first = Phrases::new();
    for (phrases, asks) in [(TAKES_BACK, false), (ASKS_TO, true)] {
        for phrase in phrases.split(", ") {
            let mut words = phrase.split(' ');
            let first = words.next().unwrap_or_default();
            let rest = (words.collect(), asks);
            by_first.entry(first).or_default().push(rest);
        }
    }
    by_first
});

/// The same items, with a mark on those that the user took back in a later prompt. What was open becomes a note.
pub(super) fn taken_back(mut items: Vec<Item>) -> Vec<Item> {
    // A note of a prompt is what others said.
    let by_user = |item: &&Item| {
        item.message == 0 && item.by == Author::Record && item.kind != ItemKind::Note
    };
    let takes = items.iter().filter(by_user).filter_map(Withdrawal::of);
    let mut takes: Vec<Withdrawal> = takes.collect();
    // What was said last counts.
    takes.sort_by_key(|take| std::cmp::Reverse(take.turn));
    // Who says a word, so that each item is compared with those alone that share one with it.
    let mut says: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, take) in takes.iter().enumerate() {
        for word in &take.words {
            says.entry(word).or_default().push(at);
        }
    }
    let mut rules: HashMap<u32, u32> = HashMap::new();
    for item in &mut items {
        let may_go = matches!(
            item.kind,
            ItemKind::Directive | ItemKind::Decision | ItemKind::Request | ItemKind::Pending
        );
        let is_fixed = item.pinned || item.by == Author::Person || item.subject.is_some();
        if takes.is_empty() || is_fixed || !may_go || item.text.contains(MARK) {
            continue;
        }
        let words = stems(&item.text);
        let shares = words.iter().filter_map(|word| says.get(word.as_str()));
        let mut shares: Vec<usize> = shares.flatten().copied().collect();
        shares.sort_unstable();
        shares.dedup();
        let mut shares = shares.into_iter().filter_map(|at| takes.get(at));
        let Some(take) = shares.find(|take| take.meets(item.turn, &words)) else {
            continue;
        };
        if item.kind == ItemKind::Directive {
            let weight = rules.entry(take.id).or_default();
            *weight = item.weight.max(*weight);
        }
        item.text = format!("{}{MARK}{})", item.text, take.turn);
        item.weight = item.weight.saturating_sub(LESS);
        if item.kind == ItemKind::Pending {
            item.kind = ItemKind::Note;
        }
    }
    // Who takes a rule back gives another one, which is worth as much.
    for item in &mut items {
        if let Some(weight) = rules.get(&item.id) {
            item.kind = ItemKind::Directive;
            item.weight = item.weight.max(*weight);
        }
    }
    items
}

/// A sentence that takes something back.
struct Withdrawal {
    id: u32,
    turn: u32,
    words: HashSet<String>,
    /// By which words it asks for that.
    verbs: HashSet<String>,
    /// What it names first of all: `drop cookies`.
    named: Option<String>,
    /// Whether it speaks of what was said right before, and need not name it.
    of_the_last: bool,
}

impl Withdrawal {
    fn of(item: &Item) -> Option<Self> {
        if item.text.contains(MARK) {
            return None;
        }
        let plain = plain(&item.text);
        let words: Vec<&str> = plain.split(' ').filter(|word| !word.is_empty()).collect();
        let mut takes = false;
        let mut of_the_last = false;
        let mut named = None;
        let mut verbs = HashSet::new();
        for (at, first) in words.iter().enumerate() {
            let rest = words.get(at + 1..).unwrap_or_default();
            let before = at.checked_sub(1).and_then(|before| words.get(before));
            let denied = before.is_some_and(|word| NOT.contains(word));
            let phrases = PHRASES.get(first).into_iter().flatten();
            for (phrase, asks) in phrases.filter(|(phrase, _)| rest.starts_with(phrase)) {
                if *asks && denied {
                    continue;
                }
                takes = true;
                if *asks {
                    verbs.insert(stem(first));
                }
                let object = rest.get(phrase.len()).filter(|_| *asks);
                named = named.or(object.map(|word| stem(word)));
                let is_last = object.is_none_or(|word| THAT.contains(word));
                of_the_last |= *asks && is_last || LAST.contains(first);
            }
        }
        takes.then(|| Self {
            id: item.id,
            turn: item.turn,
            words: stems(&item.text),
            verbs,
            named,
            of_the_last,
        })
    }

    /// Whether it takes back what was said in a turn with these words.
    fn meets(&self, turn: u32, words: &HashSet<String>) -> bool {
        let rare: Vec<&String> = words.iter().filter(|word| !is_everyday(word)).collect();
        let has = |word: &&&String| self.words.contains(**word);
        let shared = rare.iter().filter(has).count();
        let is_last = self.of_the_last && turn + 1 == self.turn && shared > 0;
        let names = match rare.len() {
            // All of it is words of every day.
            0 | 1 => words.len() >= 2 && words.is_subset(&self.words),
            n => {
                let named = rare.iter().any(|word| Some(*word) == self.named.as_ref());
                named && n <= 3 || shared >= 2 && shared * 2 >= n
            }
        };
        // Who asks for what the rule asks for keeps to it.
        let other = words.is_disjoint(&self.verbs);
        turn < self.turn && other && (is_last || names)
    }
}

/// The words that say what something is, each by its beginning.
fn stems(text: &str) -> HashSet<String> {
    let text = plain(text);
    let tells = |word: &&str| word.len() > 3 || word.contains(|c: char| c.is_ascii_digit());
    text.split(' ').filter(tells).map(stem).collect()
}

/// The beginning of a word: `commit` is in `committing`. A name is taken as a whole.
fn stem(word: &str) -> String {
    let is_name = word.contains(|c: char| !c.is_alphabetic());
    let letters = if is_name { usize::MAX } else { LETTERS };
    word.chars().take(letters).collect()
}

/// Whether a word begins like one of every day.
fn is_everyday(stem: &str) -> bool {
    static STEMS: LazyLock<HashSet<String>> = LazyLock::new(|| common().map(self::stem).collect());
    STEMS.contains(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the user said in a turn.
    fn said(turn: u32, text: &str) -> Item {
        Item {
            id: turn,
            kind: ItemKind::Directive,
            text: text.to_owned(),
            subject: None,
            turn,
            message: 0,
            by: Author::Record,
            weight: 100,
            pinned: false,
        }
    }

    #[test]
    fn a_rule_is_taken_back_by_who_gave_it() {
        let rule = "Never touch src/legacy.rs, it belongs to team Heron.";
        for (rule, later, taken) in [
            (
                rule,
                "Forget that rule, Heron lets us touch src/legacy.rs.",
                true,
            ),
            (
                rule,
                "We may touch src/legacy.rs of team Heron after all.",
                true,
            ),
            (
                rule,
                "Don't forget: never touch src/legacy.rs of team Heron.",
                false,
            ),
            (rule, "Drop the index on invoices.", false),
            (rule, "scratch that, the legacy team Heron is gone", true),
            (
                "use attrs for the models",
                "no, drop attrs, use dataclasses",
                true,
            ),
            (
                "use attrs for the models",
                "drop the models from the archive",
                false,
            ),
            (
                "keep Python 3.9 compatible",
                "python 3.9 is EOL, forget 3.9",
                true,
            ),
            (
                "commit after each module",
                "stop committing after each module",
                true,
            ),
            (
                "commit after each module",
                "stop at the first failing module",
                false,
            ),
            (
                "use a sleep of 50ms there",
                "no, drop that. a sleep is a hack.",
                true,
            ),
            (
                "Kommentare bitte auf Deutsch",
                "vergiss das mit den deutschen Kommentaren",
                true,
            ),
            (
                "comenta el código en inglés",
                "olvida lo de comentar el código en inglés",
                true,
            ),
            (
                "always run clippy first",
                "always run the tests first",
                false,
            ),
        ] {
            let items = taken_back(vec![said(1, rule), said(2, later)]);
            let marked = items[0].text == format!("{rule} (taken back in turn 2)");
            assert_eq!(marked, taken, "{rule:?}, {later:?}: {:?}", items[0].text);
            assert_eq!(items[1].text, later);
            assert_eq!(taken_back(items.clone()), items, "and once is enough");
        }
    }

    #[test]
    fn who_takes_a_rule_back_gives_one_and_what_was_open_is_not_any_more() {
        let asked = |kind, turn, text| Item {
            kind,
            ..said(turn, text)
        };
        let items = taken_back(vec![
            said(1, "Use attrs for the models."),
            asked(ItemKind::Pending, 1, "The export to Parquet is missing."),
            Item {
                pinned: true,
                ..said(1, "Use attrs for models.")
            },
            asked(
                ItemKind::Request,
                2,
                "no, drop attrs, use dataclasses instead",
            ),
            asked(ItemKind::Request, 3, "skip the export to Parquet"),
        ]);
        let kinds: Vec<ItemKind> = items.iter().map(|item| item.kind).collect();
        let (rule, request) = (ItemKind::Directive, ItemKind::Request);
        assert_eq!(kinds, [rule, ItemKind::Note, rule, rule, request]);
        assert!(items[3].weight > items[0].weight);
        assert_eq!(
            items[2].text, "Use attrs for models.",
            "what is pinned stays"
        );
    }
}
