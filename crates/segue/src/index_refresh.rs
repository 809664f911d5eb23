//! Index refresh before a command reads the index, with a progress line on the terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use segue_catalog::index::Progress;
use segue_engine::{IndexView, ProgressCallback};

use crate::app::App;
use crate::error::CliError;
use crate::terminal::{eprint_note, to_single_line};

/// Time before the progress line appears. A shorter wait needs no message.
const PROGRESS_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the progress line is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

impl App {
    /// Refreshes the index if `refresh` is set, and returns the source to read from: the agents' own files if the index
    /// cannot be used. Shows the progress if standard error is a terminal.
    pub(crate) async fn prepare_index_view(&self, refresh: bool) -> Result<IndexView, CliError> {
        if !refresh {
            return Ok(IndexView::as_indexed());
        }
        let (library, project) = (self.engine.library(), Some(&self.project));
        let refreshing = |on_progress| library.refresh_view(project, on_progress);
        Ok(with_progress_line(refreshing).await?)
    }
}

/// Runs a refresh of the index, and shows its progress if standard error is a terminal.
pub(crate) async fn with_progress_line<F: Future>(
    refresh: impl FnOnce(ProgressCallback) -> F,
) -> F::Output {
    let progress_line = Arc::new(ProgressLine::new());
    let updated_line = Arc::clone(&progress_line);
    let output = refresh(Arc::new(move |progress| updated_line.update(progress))).await;
    progress_line.clear();
    output
}

/// Reports that the agents' own files are read instead of the index, with the reason.
pub(crate) fn report_index_fallback(reason: &str) {
    let reason = to_single_line(reason);
    eprint_note(&format!(
        "reading the agents' files without the index: {reason}"
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
