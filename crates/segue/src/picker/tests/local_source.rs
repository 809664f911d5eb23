//! A data source that generates conversations on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};

use crate::picker::data_source::{
    DataSource, ListRefresh, PickerRow, PreviewTurn, ProjectFilter, RowAction, RowActionOutcome,
    RowOrder, RowPage, RowPreview, RowQuery, RowStatus, RowTotal, TextSpan,
};

/// Returns the fixed current time of the generated conversations.
pub(in crate::picker) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

const DEFAULT_ROW_COUNT: usize = 30_000;
const PROVIDER_NAMES: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
const PROJECT_NAMES: [&str; 3] = ["segue", "web shop", "notes"];
const ROW_TITLES: [&str; 8] = [
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
pub(in crate::picker) fn generate_row(n: usize, now: Timestamp) -> PickerRow {
    let title = match n % 10 {
        8 => "a very long title ".repeat(17),
        9 => format!("conversation {n}"),
        index => ROW_TITLES[index].to_owned(),
    };
    let minutes = i64::try_from(n * n / 3).unwrap();
    PickerRow {
        id: format!("id-{n}"),
        provider: PROVIDER_NAMES[n % 4].to_owned(),
        title,
        project: Some(PROJECT_NAMES[n % 3].to_owned()),
        branch: n.is_multiple_of(2).then(|| "main".to_owned()),
        updated_at: now - SignedDuration::from_mins(minutes),
        turn_count: u32::try_from(n % 1200 + 1).unwrap(),
        status: match n {
            1 => RowStatus::Running,
            3 => RowStatus::Archived,
            5 => RowStatus::Deleted,
            _ => RowStatus::Idle,
        },
        tags: if n == 2 {
            vec!["pay".to_owned(), "日本".to_owned()]
        } else {
            Vec::new()
        },
        feature: (n == 0).then(|| "checkout".to_owned()),
        snippet: None,
    }
}

/// A data source for tests. The filter `error:` returns an error, `panic` panics.
pub(in crate::picker) struct FakeSource {
    pub(in crate::picker) now: Timestamp,
    pub(in crate::picker) row_count: usize,
    /// Flag that a refresh sets. If it is given, the last conversation is listed only after a refresh.
    pub(in crate::picker) refreshed: Option<Arc<AtomicBool>>,
}

impl FakeSource {
    pub(in crate::picker) fn new(now: Timestamp) -> Self {
        Self::with_rows(now, DEFAULT_ROW_COUNT)
    }

    pub(in crate::picker) fn with_rows(now: Timestamp, row_count: usize) -> Self {
        Self {
            now,
            row_count,
            refreshed: None,
        }
    }

    /// Returns the number of conversations.
    fn count(&self) -> usize {
        let refreshed = self.refreshed.as_ref();
        let is_outdated = refreshed.is_some_and(|refreshed| !refreshed.load(Ordering::Acquire));
        self.row_count.saturating_sub(is_outdated.into())
    }
}

fn sample_snippet(word: &str) -> Vec<TextSpan> {
    let span = |text: &str, is_match| TextSpan {
        text: text.to_owned(),
        is_match,
    };
    vec![
        span("…so that the ", false),
        span(word, true),
        span(" is seen\nby everybody…", false),
    ]
}

impl DataSource for FakeSource {
    fn fetch_page(&mut self, query: &RowQuery) -> Result<RowPage, String> {
        let search_text = query.search_text.as_str();
        if let Some(name) = search_text.strip_prefix("error:") {
            return Err(format!("unknown agent `{name}`\n"));
        }
        assert!(search_text != "panic", "a bug about {search_text}");
        let now = self.now;
        let is_included =
            |n: &usize| query.project_filter == ProjectFilter::All || n.is_multiple_of(3);
        let numbers = (0..self.count()).filter(is_included);
        if search_text.is_empty() {
            let rows = numbers.clone().skip(query.offset).take(query.limit);
            return Ok(RowPage {
                rows: rows.map(|n| generate_row(n, now)).collect(),
                total: RowTotal::Exact(numbers.count()),
                ignored_part: None,
            });
        }
        let title_text = search_text.trim_start_matches("bad:").trim();
        let matching_rows = numbers
            .map(|n| generate_row(n, now))
            .filter(|row| row.title.contains(title_text));
        let mut rows: Vec<PickerRow> = matching_rows.take(query.offset + query.limit + 1).collect();
        if query.order == RowOrder::Best {
            rows.reverse();
        }
        let has_more = rows.len() > query.offset + query.limit;
        rows.truncate(query.offset + query.limit);
        let count = rows.len();
        let rows = rows.into_iter().skip(query.offset);
        let rows = rows.map(|row| PickerRow {
            snippet: Some(sample_snippet(search_text)),
            ..row
        });
        let total = if has_more {
            RowTotal::AtLeast(count)
        } else {
            RowTotal::Exact(count)
        };
        Ok(RowPage {
            rows: rows.collect(),
            total,
            ignored_part: search_text
                .contains("bad:")
                .then(|| "bad: has no value".to_owned()),
        })
    }

    fn load_preview(&mut self, row: &PickerRow) -> Result<RowPreview, String> {
        let turn = |n: u32| PreviewTurn {
            number: n,
            prompt: format!("What about number {n}?\nI mean this one:\n\tlet x = {n};"),
            answer: format!(
                "It is {}number {n}, as far as I can see. ",
                "really ".repeat(12)
            ),
        };
        Ok(RowPreview {
            details: vec![format!(
                "~/code/{} · opus-5 · 12.3k tokens · {}",
                row.project.as_deref().unwrap_or_default(),
                row.id
            )],
            last_turns: (1..=row.turn_count).rev().take(5).map(turn).collect(),
        })
    }

    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<ListRefresh, String> {
        progress("reading claude 12/3,000");
        match &self.refreshed {
            None => Ok(ListRefresh::Unchanged),
            Some(refreshed) => {
                refreshed.store(true, Ordering::Release);
                Ok(ListRefresh::Changed)
            }
        }
    }

    fn perform_action(
        &mut self,
        row: &PickerRow,
        action: &RowAction,
    ) -> Result<RowActionOutcome, String> {
        let message = match action {
            RowAction::Tag(tag) => format!("tagged {} as {tag}", row.id),
            RowAction::Archive => return Err(format!("no room for {}", row.id)),
            RowAction::Fork => format!("forked {}", row.id),
        };
        Ok(RowActionOutcome {
            message,
            id: row.id.clone(),
            fork_id: None,
        })
    }
}
