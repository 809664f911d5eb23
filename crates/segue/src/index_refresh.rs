//! Index refresh before a command reads the index, with a progress line on the terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use segue_catalog::index::Progress;
use segue_core::id::ProviderId;
use segue_engine::{Freshness, IndexSync, Library, LibraryError};

use crate::app::App;
use crate::error::CliError;
use crate::terminal::{Style, eprint_line, to_single_line};

/// Time before the progress line appears. A shorter wait needs no message.
const PROGRESS_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the progress line is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// State of the index after a refresh, which decides whether to read the index or the agents' files.
pub(crate) struct IndexView {
    pub(crate) freshness: Freshness,
    /// Agents whose files could not all be found or read, with the reason.
    pub(crate) unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index may lack the latest changes. `None` if it is up to date or no refresh was requested.
    pub(crate) refresh_failure: Option<RefreshFailure>,
}

/// Reason why a refresh of the index failed.
pub(crate) enum RefreshFailure {
    /// The index is being written by another process.
    Busy,
    /// The index could not be written, with the error.
    Failed(String),
}

impl IndexView {
    fn without_index(refresh_failure: RefreshFailure) -> Self {
        Self {
            freshness: Freshness::Scanned,
            unreadable: Vec::new(),
            refresh_failure: Some(refresh_failure),
        }
    }
}

impl App {
    /// Refreshes the index if `refresh` is set, and returns the source to read from: the agents' own files if the index
    /// cannot be used.
    pub(crate) async fn prepare_index_view(&self, refresh: bool) -> IndexView {
        let mut view = IndexView {
            freshness: Freshness::AsIndexed,
            unreadable: Vec::new(),
            refresh_failure: None,
        };
        if !refresh {
            return view;
        }
        match self
            .refresh_index_with_progress(Library::INDEX_LOCK_TIMEOUT)
            .await
        {
            Ok(Some(IndexSync::UpToDate(stats))) => {
                let unreadable = stats.unreadable.into_iter();
                let reasons =
                    unreadable.map(|(provider, error)| (provider, error.format_error_chain()));
                view.unreadable.extend(reasons);
                if let Some(index) = self.engine.library().index() {
                    // An error is ignored, because a later refresh updates the project of a directory that moved.
                    let _ =
                        index.update_project(&self.project.cwd, &self.project.key, Duration::ZERO);
                    // Errors of earlier refreshes, for files that this refresh did not retry.
                    let earlier = index.unreadable_sources().unwrap_or_default().into_iter();
                    let reasons = earlier.map(|source| (source.provider, source.reason));
                    view.unreadable.extend(reasons);
                }
                view.unreadable.sort();
                view.unreadable.dedup();
                view
            }
            Ok(_) => IndexView::without_index(RefreshFailure::Busy),
            Err(error) => {
                IndexView::without_index(RefreshFailure::Failed(CliError::from(error).message))
            }
        }
    }

    /// Refreshes the index and shows the progress if standard error is a terminal.
    pub(crate) async fn refresh_index_with_progress(
        &self,
        lock_timeout: Duration,
    ) -> Result<Option<IndexSync>, LibraryError> {
        let progress_line = Arc::new(ProgressLine::new());
        let on_progress = {
            let progress_line = Arc::clone(&progress_line);
            Arc::new(move |progress| progress_line.update(progress))
        };
        let sync = self
            .engine
            .library()
            .refresh_index_within(lock_timeout, on_progress)
            .await;
        progress_line.clear();
        sync
    }
}

/// Reports that the agents' own files are read instead of the index, with the reason.
pub(crate) fn report_index_fallback(reason: &str) {
    let prefix = Style::stderr().yellow("segue:");
    eprint_line(&format!(
        "{prefix} reading the agents' files without the index: {}",
        to_single_line(reason)
    ));
}

/// A progress line that is overwritten in the terminal.
struct ProgressLine {
    is_terminal: bool,
    /// Start of the refresh, and the time of the last write of the line.
    times: Mutex<(Instant, Option<Instant>)>,
}

impl ProgressLine {
    fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            times: Mutex::new((Instant::now(), None)),
        }
    }

    fn update(&self, progress: Progress) {
        let Ok(mut times) = self.times.lock() else {
            return;
        };
        let (started_at, last_written) = *times;
        let due = last_written.map_or(started_at + PROGRESS_DELAY, |last_written| {
            last_written + PROGRESS_INTERVAL
        });
        if self.is_terminal && Instant::now() >= due {
            let Progress { done, total } = progress;
            let _ = write!(
                std::io::stderr().lock(),
                "\r\x1b[Kreading sessions: {done} of {total}"
            );
            times.1 = Some(Instant::now());
        }
    }

    fn clear(&self) {
        let is_written = self.times.lock().is_ok_and(|times| times.1.is_some());
        if is_written {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
