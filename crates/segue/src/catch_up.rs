//! Bringing the index up to date before a command looks at it, and telling how far that is.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use segue_catalog::index::Progress;
use segue_core::ProviderId;
use segue_engine::{Caught, Engine, EngineError, Freshness};

use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{Style, one_line, say};

/// A wait that is shorter than this needs no word.
const SOON: Duration = Duration::from_millis(400);
/// How often the figure changes.
const STEP: Duration = Duration::from_millis(100);

/// Where to look once the index was brought up to date, or was not.
pub(crate) struct CaughtUp {
    pub(crate) freshness: Freshness,
    /// Of which agents something could not be looked at or read, and why.
    pub(crate) unreadable: Vec<(ProviderId, String)>,
    /// Why the index may lack what was written last.
    pub(crate) behind: Option<Behind>,
}

/// Why the index is not up to date although it should be.
pub(crate) enum Behind {
    /// Another process is at it.
    Busy,
    /// It could not be written.
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
    /// Brings the index up to date, unless that is not wanted, and tells where to look then: in the files of agents
    /// themselves if the index can't be used.
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
                    // A project that moved is found the next time.
                    let _ = index.place(&self.project.cwd, &self.project.key, Duration::ZERO);
                    // What could not be read before, and was not tried again.
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

    /// Brings the index up to date, and tells on a terminal how far it is.
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

/// Tells that the files of agents are read themselves, and why.
pub(crate) fn tell_without_index(why: &str) {
    let mark = Style::stderr().yellow("segue:");
    say(&format!(
        "{mark} going on without the index: {}",
        one_line(why)
    ));
}

/// One line on the terminal that is written over and over.
struct Meter {
    terminal: bool,
    /// When it began, and when the line was last written.
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
