//! Counts the facts that a text contains, by kind.

use segue_bench::fact_sessions::{FactKind, PlantedSession};
use segue_bench::measurement::print_table;

/// Counts of found and planted facts over several texts, and the size of these texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct FactScore {
    by_kind: [FactCount; 7],
    free_prose: FactCount,
    overall: FactCount,
    total_tokens: u64,
    text_count: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct FactCount {
    found: u32,
    planted: u32,
}

impl FactCount {
    fn record_fact(&mut self, is_found: bool) {
        self.found += u32::from(is_found);
        self.planted += 1;
    }

    /// Returns the ratio of found to planted facts in tenths of a percent.
    fn per_mille(self) -> u32 {
        self.found * 1000 / self.planted.max(1)
    }

    fn format_percent(self) -> String {
        format!("{}.{} %", self.per_mille() / 10, self.per_mille() % 10)
    }
}

impl FactScore {
    /// Searches `text` for the facts of a session and adds them to the counts.
    pub(crate) fn score_text(&mut self, session: &PlantedSession, text: &str, tokens: u64) {
        for fact in &session.facts {
            let is_found = fact.is_in(text);
            let kind_index = FactKind::ALL.iter().position(|kind| *kind == fact.kind);
            self.by_kind[kind_index.unwrap()].record_fact(is_found);
            self.overall.record_fact(is_found);
            if fact.is_free_prose {
                self.free_prose.record_fact(is_found);
            }
        }
        self.total_tokens += tokens;
        self.text_count += 1;
    }

    /// Returns `true` if at least `percent` percent of the facts of a kind were found.
    pub(crate) fn has_percent_of_kind(&self, kind: FactKind, percent: u32) -> bool {
        let kind_index = FactKind::ALL
            .iter()
            .position(|candidate| *candidate == kind);
        self.by_kind[kind_index.unwrap()].per_mille() >= percent * 10
    }

    /// Returns `true` if at least `percent` percent of all facts were found.
    pub(crate) fn has_percent_overall(&self, percent: u32) -> bool {
        self.overall.per_mille() >= percent * 10
    }

    /// Returns `true` if a larger share of the facts was found than in `other`.
    pub(crate) fn is_better_than(&self, other: &Self) -> bool {
        self.overall.per_mille() > other.overall.per_mille()
    }
}

/// Prints a table with one row for each score.
pub(crate) fn print_scores(title: &str, rows: &[(String, FactScore)]) {
    let kinds = FactKind::ALL.map(FactKind::name);
    let [goal, directive, decision, file, attempt, pending, last] = kinds;
    let header = [
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
                score.by_kind.map(FactCount::format_percent);
            let tokens = score.total_tokens / score.text_count.max(1);
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
                score.overall.format_percent(),
                score.free_prose.format_percent(),
            ]
        })
        .collect();
    print_table(title, header, &rows);
}
