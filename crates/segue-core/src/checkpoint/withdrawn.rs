//! What the user took back: a rule or a choice that a later prompt of theirs says holds no more.
//!
//! It is marked and not dropped: who takes one sentence for the end of another may be wrong, and both are told.

mod withdrawal;

use std::collections::HashMap;

use self::withdrawal::{Told, Withdrawal};
use super::{CheckpointItem, ItemAuthor, ItemKind};

/// How much less a rule tells that holds no more.
const LESS: u32 = 40;

/// What ends the text of an item that was taken back, before the number of the turn.
const MARK: &str = " (taken back in turn ";

/// The same items, with a mark on those that the user took back in a later prompt. What was open becomes a note.
pub(super) fn taken_back(mut items: Vec<CheckpointItem>) -> Vec<CheckpointItem> {
    let takes = Takes::of(&items);
    if takes.0.is_empty() {
        return items;
    }
    let by_word = takes.by_word();
    // How much the rules told that each took back.
    let mut rules: HashMap<u32, u32> = HashMap::new();
    let mut in_order: Vec<&mut CheckpointItem> = items.iter_mut().collect();
    // What takes something back may be taken back in its turn.
    in_order.sort_by_key(|item| (item.turn, item.message_index));
    for item in in_order {
        if let Some(weight) = rules.get(&item.id) {
            // Who puts another rule in the place of one means it as much.
            item.kind = ItemKind::Directive;
            item.weight = item.weight.max(*weight);
        }
        let told = may_go(item).then(|| Told::new(&item.text, item.turn));
        let Some(take) = told.and_then(|told| takes.last_that_meets(&told, &by_word)) else {
            continue;
        };
        if item.kind == ItemKind::Directive && take.gives {
            let weight = rules.entry(take.id).or_default();
            *weight = item.weight.max(*weight);
        }
        mark(item, take.turn);
    }
    items
}

/// Whether an item may be taken back by a word of the user.
fn may_go(item: &CheckpointItem) -> bool {
    let may_go = matches!(
        item.kind,
        ItemKind::Directive | ItemKind::Decision | ItemKind::Request | ItemKind::Pending
    );
    let is_fixed = item.pinned || item.author == ItemAuthor::User || item.subject.is_some();
    may_go && !is_fixed && !item.text.contains(MARK)
}

fn mark(item: &mut CheckpointItem, turn: u32) {
    item.text = format!("{}{MARK}{turn})", item.text);
    item.weight = item.weight.saturating_sub(LESS);
    if item.kind == ItemKind::Pending {
        item.kind = ItemKind::Note;
    }
}

/// The sentences of the user that take something back, the last one first.
struct Takes(Vec<Withdrawal>);

impl Takes {
    fn of(items: &[CheckpointItem]) -> Self {
        // A note of a prompt is what others said.
        let by_user = |item: &&CheckpointItem| {
            item.message_index == 0
                && item.author == ItemAuthor::Extraction
                && item.kind != ItemKind::Note
        };
        let is_over = |item: &&CheckpointItem| item.text.contains(MARK);
        let said = items.iter().filter(by_user).filter(|item| !is_over(item));
        let takes = said.filter_map(|item| Withdrawal::of(item.id, item.turn, &item.text));
        let mut takes: Vec<Withdrawal> = takes.collect();
        takes.sort_by_key(|take| std::cmp::Reverse(take.turn));
        Self(takes)
    }

    /// Who says a word, so that each item is compared with those alone that share one with it.
    fn by_word(&self) -> HashMap<&str, Vec<usize>> {
        let mut says: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, take) in self.0.iter().enumerate() {
            for word in &take.words {
                says.entry(word).or_default().push(at);
            }
        }
        says
    }

    /// What was said last of those that take something back counts.
    fn last_that_meets(
        &self,
        told: &Told,
        by_word: &HashMap<&str, Vec<usize>>,
    ) -> Option<&Withdrawal> {
        let shares = told
            .words
            .iter()
            .filter_map(|word| by_word.get(word.as_str()));
        let mut shares: Vec<usize> = shares.flatten().copied().collect();
        shares.sort_unstable();
        shares.dedup();
        let mut takes = shares.into_iter().filter_map(|at| self.0.get(at));
        takes.find(|take| take.meets(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the user said in a turn.
    fn said(turn: u32, text: &str) -> CheckpointItem {
        CheckpointItem {
            id: turn,
            kind: ItemKind::Directive,
            text: text.to_owned(),
            subject: None,
            turn,
            message_index: 0,
            author: ItemAuthor::Extraction,
            weight: 100,
            pinned: false,
        }
    }

    /// Whether what the user says later takes back a rule.
    fn check(rule: &str, later: &str, taken: bool) {
        let items = taken_back(vec![said(1, rule), said(2, later)]);
        let marked = items[0].text == format!("{rule} (taken back in turn 2)");
        assert_eq!(marked, taken, "{rule:?}, {later:?}: {:?}", items[0].text);
        assert_eq!(items[1].text, later);
        assert_eq!(taken_back(items.clone()), items, "and once is enough");
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
            check(rule, later, taken);
        }
    }

    #[test]
    fn what_forbids_or_protects_something_is_not_taken_back_by_work_on_it() {
        for (rule, later, taken) in [
            (
                "Never log customer passwords.",
                "Remove the password column from the customer log view",
                false,
            ),
            (
                "Never log customer passwords.",
                "Log the customer number instead of passwords",
                false,
            ),
            (
                "Never log customer passwords.",
                "Logging customer passwords is fine now",
                true,
            ),
            (
                "The invoices table must keep its audit triggers.",
                "drop the unused index on invoices and the audit log triggers test fixture",
                false,
            ),
            (
                "The invoices table must keep its audit triggers.",
                "drop the rule on the audit triggers of invoices",
                true,
            ),
            (
                "Don't use an ORM.",
                "on reflection an ORM is OK, use SQLAlchemy",
                true,
            ),
            ("Don't use an ORM.", "an ORM is fine, use SQLAlchemy", true),
            ("Don't use an ORM.", "the ORM has no docs", false),
            (
                "Don't use an ORM.",
                "drop the ORM from the lock file",
                false,
            ),
            ("Always use the ORM for queries.", "the ORM is fine", false),
        ] {
            check(rule, later, taken);
        }
    }

    #[test]
    fn who_goes_back_to_something_has_the_last_word() {
        let texts = [
            "indent with tabs",
            "forget tabs, use spaces",
            "no wait, go back to tabs",
        ];
        let said = |(turn, text): (u32, &&str)| said(turn, text);
        let at_once = taken_back((1..).zip(&texts).map(said).collect());
        let mut one_by_one = Vec::new();
        for item in (1..).zip(&texts).map(said) {
            one_by_one.push(item);
            one_by_one = taken_back(one_by_one);
        }
        assert_eq!(at_once, one_by_one);
        let texts: Vec<&str> = at_once.iter().map(|item| item.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "indent with tabs (taken back in turn 2)",
                "forget tabs, use spaces (taken back in turn 3)",
                "no wait, go back to tabs",
            ]
        );
    }

    #[test]
    fn who_takes_a_rule_back_gives_one_and_what_was_open_is_not_any_more() {
        let asked = |kind, turn, text| CheckpointItem {
            kind,
            ..said(turn, text)
        };
        let items = taken_back(vec![
            said(1, "Use attrs for the models."),
            asked(ItemKind::Pending, 1, "The export to Parquet is missing."),
            CheckpointItem {
                pinned: true,
                ..said(1, "Use attrs for models.")
            },
            asked(
                ItemKind::Request,
                2,
                "no, drop attrs, use dataclasses instead",
            ),
            asked(ItemKind::Request, 3, "skip the export to Parquet"),
            said(1, "Commit after each module."),
            asked(ItemKind::Request, 4, "stop committing after each module"),
        ]);
        let kinds: Vec<ItemKind> = items.iter().map(|item| item.kind).collect();
        let (rule, request) = (ItemKind::Directive, ItemKind::Request);
        assert_eq!(
            kinds,
            [rule, ItemKind::Note, rule, rule, request, rule, request],
            "only what gives a rule is one"
        );
        assert!(items[3].weight > items[0].weight);
        assert_eq!(
            items[2].text, "Use attrs for models.",
            "what is pinned stays"
        );
    }
}
