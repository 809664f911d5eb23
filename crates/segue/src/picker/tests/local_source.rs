//! A data source that generates conversations on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::picker::data_source::{
    Deed, Done, Exchange, Order, Page, Piece, Place, Preview, Question, Refreshed, Row, Shelf,
    Standing, Total,
};

/// Returns the fixed current time of the generated conversations.
pub(in crate::picker) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

const ALL: usize = 30_000;
const PROVIDERS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
const PROJECTS: [&str; 3] = ["segue", "web shop", "notes"];
const TITLES: [&str; 8] = [
    "Fix the flaky payment test",
    "Why does the build take nine minutes on a cold cache?",
    "支払いテストを直して、ログも見て",
    "tab\there, bell\u{7}, colour \u{1b}[31mred\u{1b}[0m, newline\nhere, back\u{202e}wards",
    "إصلاح اختبار الدفع",
    "👩\u{200d}🚀 launch 👍🏽 ❤\u{fe0f} done",
    "",
    "refactor",
];

/// Returns the conversation with a number, always the same.
pub(in crate::picker) fn row(n: usize, now: Timestamp) -> Row {
    let title = match n % 10 {
        8 => "a very long title ".repeat(17),
        9 => format!("conversation {n}"),
        at => TITLES[at].to_owned(),
    };
    let minutes = i64::try_from(n * n / 3).unwrap();
    Row {
        id: format!("id-{n}"),
        provider: PROVIDERS[n % 4].to_owned(),
        title,
        project: Some(PROJECTS[n % 3].to_owned()),
        branch: n.is_multiple_of(2).then(|| "main".to_owned()),
        updated_at: now - SignedDuration::from_mins(minutes),
        turns: u32::try_from(n % 1200 + 1).unwrap(),
        standing: match n {
            1 => Standing::Running,
            3 => Standing::Archived,
            5 => Standing::Gone,
            _ => Standing::Idle,
        },
        tags: if n == 2 {
            vec!["pay".to_owned(), "日本".to_owned()]
        } else {
            Vec::new()
        },
        feature: (n == 0).then(|| "checkout".to_owned()),
        hit: None,
    }
}

/// A data source for tests. The filter `error:` returns an error, `panic` panics.
pub(in crate::picker) struct FakeShelf {
    pub(in crate::picker) now: Timestamp,
    pub(in crate::picker) all: usize,
    /// Flag that a refresh sets. If it is given, the last conversation is listed only after a refresh.
    pub(in crate::picker) refreshed: Option<Arc<AtomicBool>>,
}

impl FakeShelf {
    pub(in crate::picker) fn new(now: Timestamp) -> Self {
        Self::of(now, ALL)
    }

    pub(in crate::picker) fn of(now: Timestamp, all: usize) -> Self {
        Self {
            now,
            all,
            refreshed: None,
        }
    }

    /// Returns the number of conversations.
    fn count(&self) -> usize {
        let refreshed = self.refreshed.as_ref();
        let is_behind = refreshed.is_some_and(|refreshed| !refreshed.load(Ordering::Acquire));
        self.all.saturating_sub(is_behind.into())
    }
}

fn hit(word: &str) -> Vec<Piece> {
    let piece = |text: &str, is_hit| Piece {
        text: text.to_owned(),
        is_hit,
    };
    vec![
        piece("…so that the ", false),
        piece(word, true),
        piece(" is seen\nby everybody…", false),
    ]
}

impl Shelf for FakeShelf {
    fn look(&mut self, question: &Question) -> Result<Page, String> {
        let typed = question.typed.as_str();
        if let Some(name) = typed.strip_prefix("error:") {
            return Err(format!("there is no agent `{name}`\n"));
        }
        assert!(typed != "panic", "a bug about {typed}");
        let now = self.now;
        let here = |n: &usize| question.place == Place::Everywhere || n.is_multiple_of(3);
        let all = (0..self.count()).filter(here);
        if typed.is_empty() {
            let rows = all.clone().skip(question.from).take(question.limit);
            return Ok(Page {
                rows: rows.map(|n| row(n, now)).collect(),
                total: Total::Exactly(all.count()),
                passed_over: None,
            });
        }
        let words = typed.trim_start_matches("odd:").trim();
        let found = all
            .map(|n| row(n, now))
            .filter(|row| row.title.contains(words));
        let mut rows: Vec<Row> = found.take(question.from + question.limit + 1).collect();
        if question.order == Order::Best {
            rows.reverse();
        }
        let more = rows.len() > question.from + question.limit;
        rows.truncate(question.from + question.limit);
        let count = rows.len();
        let rows = rows.into_iter().skip(question.from);
        let rows = rows.map(|row| Row {
            hit: Some(hit(typed)),
            ..row
        });
        let total = if more {
            Total::AtLeast(count)
        } else {
            Total::Exactly(count)
        };
        Ok(Page {
            rows: rows.collect(),
            total,
            passed_over: typed
                .contains("odd:")
                .then(|| "odd: says nothing".to_owned()),
        })
    }

    fn preview(&mut self, row: &Row) -> Result<Preview, String> {
        let turn = |n: u32| Exchange {
            n,
            prompt: format!("What about number {n}?\nI mean this one:\n\tlet x = {n};"),
            answer: format!(
                "It is {}number {n}, as far as I can see. ",
                "really ".repeat(12)
            ),
        };
        Ok(Preview {
            facts: vec![format!(
                "~/code/{} · opus-5 · 12.3k tokens · {}",
                row.project.as_deref().unwrap_or_default(),
                row.id
            )],
            hit: None,
            turns: (1..=row.turns).rev().take(5).map(turn).collect(),
        })
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Refreshed, String> {
        progress("reading claude 12/3,000");
        match &self.refreshed {
            None => Ok(Refreshed::Nothing),
            Some(refreshed) => {
                refreshed.store(true, Ordering::Release);
                Ok(Refreshed::Changed)
            }
        }
    }

    fn act(&mut self, row: &Row, deed: &Deed) -> Result<Done, String> {
        let said = match deed {
            Deed::Tag(tag) => format!("tagged {} as {tag}", row.id),
            Deed::Archive => return Err(format!("no room for {}", row.id)),
            Deed::Fork => format!("forked {}", row.id),
        };
        Ok(Done {
            said,
            id: row.id.clone(),
            fork: None,
        })
    }
}
