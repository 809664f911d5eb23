//! Which facts are in a text, by kind.

use segue_testkit::benchmark::print_table;
use segue_testkit::fact_sessions::{FactKind, PlantedSession};

/// How many of how many facts were found, over some texts, and how large those were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Score {
    of: [Part; 7],
    free: Part,
    all: Part,
    tokens: u64,
    texts: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    found: u32,
    planted: u32,
}

impl Part {
    fn add(&mut self, found: bool) {
        self.found += u32::from(found);
        self.planted += 1;
    }

    /// In tenths of a percent.
    fn tenths(self) -> u32 {
        self.found * 1000 / self.planted.max(1)
    }

    fn cell(self) -> String {
        format!("{}.{} %", self.tenths() / 10, self.tenths() % 10)
    }
}

impl Score {
    /// Looks for the facts of a session in a text.
    pub(crate) fn add(&mut self, session: &PlantedSession, text: &str, tokens: u64) {
        for fact in &session.facts {
            let found = fact.is_in(text);
            let kind = FactKind::ALL.iter().position(|kind| *kind == fact.kind);
            self.of[kind.unwrap()].add(found);
            self.all.add(found);
            if fact.is_free_prose {
                self.free.add(found);
            }
        }
        self.tokens += tokens;
        self.texts += 1;
    }

    /// Whether at least so many percent of the facts of a kind were found.
    pub(crate) fn has(&self, kind: FactKind, percent: u32) -> bool {
        let kind = FactKind::ALL.iter().position(|known| *known == kind);
        self.of[kind.unwrap()].tenths() >= percent * 10
    }

    /// Whether at least so many percent of all facts were.
    pub(crate) fn has_overall(&self, percent: u32) -> bool {
        self.all.tenths() >= percent * 10
    }

    /// Whether it has more of the facts than another.
    pub(crate) fn is_ahead_of(&self, other: &Self) -> bool {
        self.all.tenths() > other.all.tenths()
    }
}

/// Prints a row for each name.
pub(crate) fn print(title: &str, rows: &[(String, Score)]) {
    let kinds = FactKind::ALL.map(FactKind::name);
    let [goal, directive, decision, file, attempt, pending, last] = kinds;
    let head = [
        "",
        "tokens",
        goal,
        directive,
        decision,
        file,
        attempt,
        pending,
        last,
        "all",
        "in free prose",
    ];
    let rows: Vec<[String; 11]> = rows
        .iter()
        .map(|(name, score)| {
            let [goal, directive, decision, file, attempt, pending, last] =
                score.of.map(Part::cell);
            let tokens = score.tokens / score.texts.max(1);
            [
                name.clone(),
                tokens.to_string(),
                goal,
                directive,
                decision,
                file,
                attempt,
                pending,
                last,
                score.all.cell(),
                score.free.cell(),
            ]
        })
        .collect();
    print_table(title, head, &rows);
}
