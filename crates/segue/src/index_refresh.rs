//! Index refresh before a command reads the index, with a progress line on the terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use segue_catalog::index::Progress;
use segue_core::id::ProviderId;
use segue_engine::{Caught, Engine, EngineError, Freshness};

use crate::app::App;
use crate::error::CliError;
use crate::terminal::{Style, one_line, say};

/// Time before the progress line appears. A shorter wait needs no message.
const SOON: Duration = Duration::from_millis(400);
/// Interval at which the progress line is updated.
const STEP: Duration = Duration::from_millis(100);

/// State of the index after a refresh, which decides whether to read the index or the agents' files.
pub(crate) struct CaughtUp {
    pub(crate) freshness: Freshness,
    /// Agents whose files could not all be found or read, with the reason.
    pub(crate) unreadable: Vec<(ProviderId, String)>,
    /// Reason why the index may lack the latest changes. `None` if it is up to date or no refresh was requested.
    pub(crate) behind: Option<Behind>,
}

/// Reason why a refresh of the index failed.
pub(crate) enum Behind {
    /// The index is being written by another process.
    Busy,
    /// The index could not be written, with the error.
    Failed(String),
}

impl CaughtUp {
    fn without_index(behind: Behind) -> Self {
        Self {
            freshness: Freshness::Scanned,
            unreadable: Vec::new(),
            behind: Some(behind),
        }
    }
}

impl App {
    /// Refreshes the index if `refresh` is set, and returns the source to read from: the agents' own files if the index
    /// cannot be used.
    pub(crate) async fn catch_up(&self, refresh: bool) -> CaughtUp {
        let mut caught = CaughtUp {
            freshness: Freshness::AsIndexed,
            unreadable: Vec::new(),
            behind: None,
        };
        if !refresh {
            return caught;
        }
        match self.caught_up(Engine::PATIENCE).await {
            Ok(Some(Caught::Up(work))) => {
                let unreadable = work.unreadable.into_iter();
                let told = unreadable.map(|(provider, error)| (provider, error.in_full()));
                caught.unreadable.extend(told);
                if let Some(index) = self.engine.index() {
                    // An error is ignored, because a later refresh updates the project of a directory that moved.
                    let _ = index.place(&self.project.cwd, &self.project.key, Duration::ZERO);
                    // Errors of earlier refreshes, for files that this refresh did not retry.
                    let before = index.failures().unwrap_or_default().into_iter();
                    let told = before.map(|failure| (failure.provider, failure.why));
                    caught.unreadable.extend(told);
                }
                caught.unreadable.sort();
                caught.unreadable.dedup();
                caught
            }
            Ok(_) => CaughtUp::without_index(Behind::Busy),
            Err(error) => CaughtUp::without_index(Behind::Failed(CliError::from(error).message)),
        }
    }

    /// Refreshes the index and shows the progress if standard error is a terminal.
    pub(crate) async fn caught_up(
        &self,
        patience: Duration,
    ) -> Result<Option<Caught>, EngineError> {
        let meter = Arc::new(Meter::new());
        let tell = {
            let meter = Arc::clone(&meter);
            Arc::new(move |progress| meter.tell(progress))
        };
        let caught = self.engine.refresh_within(patience, tell).await;
        meter.clear();
        caught
    }
}

/// Reports that the agents' own files are read instead of the index, with the reason.
pub(crate) fn tell_without_index(why: &str) {
    let mark = Style::stderr().yellow("segue:");
    say(&format!(
        "{mark} going on without the index: {}",
        one_line(why)
    ));
}

/// A progress line that is overwritten in the terminal.
struct Meter {
    terminal: bool,
    /// Start of the refresh, and the time of the last write of the line.
    times: Mutex<(Instant, Option<Instant>)>,
}

impl Meter {
    fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            times: Mutex::new((Instant::now(), None)),
        }
    }

    fn tell(&self, progress: Progress) {
        let Ok(mut times) = self.times.lock() else {
            return;
        };
        let (began, written) = *times;
        let due = written.map_or(began + SOON, |written| written + STEP);
        if self.terminal && Instant::now() >= due {
            let Progress { done, all } = progress;
            let _ = write!(
                std::io::stderr().lock(),
                "\r\x1b[Kreading sessions: {done} of {all}"
            );
            times.1 = Some(Instant::now());
        }
    }

    fn clear(&self) {
        let written = self.times.lock().is_ok_and(|times| times.1.is_some());
        if written {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
