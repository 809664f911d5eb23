//! Bringing the index up to date before a command looks at it, and telling how far that is.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use segue_catalog::index::Progress;
use segue_engine::{Caught, EngineError, Freshness};

use crate::error::CliError;
use crate::setup::App;
use crate::terminal::{Style, one_line, say};

/// A wait that is shorter than this needs no word.
const SOON: Duration = Duration::from_millis(400);
/// How often the figure changes.
const STEP: Duration = Duration::from_millis(100);

impl App {
    /// Brings the index up to date, unless that is not wanted, and tells where to look then. An index that can't be used
    /// is told: the files of agents are then read themselves.
    pub(crate) async fn catch_up(&self, refresh: bool) -> Freshness {
        if !refresh {
            return Freshness::AsIndexed;
        }
        match self.caught_up().await {
            Ok(Some(Caught::Up(_))) => {
                if let Some(index) = self.engine.index() {
                    // A project that moved is found the next time.
                    let _ = index.place(&self.project.cwd, &self.project.key, Duration::ZERO);
                }
                Freshness::AsIndexed
            }
            Ok(_) => Freshness::Scanned,
            Err(error) => {
                tell_without_index(&CliError::from(error).message);
                Freshness::Scanned
            }
        }
    }

    /// Brings the index up to date, and tells on a terminal how far it is.
    pub(crate) async fn caught_up(&self) -> Result<Option<Caught>, EngineError> {
        let meter = Arc::new(Meter::new());
        let tell = {
            let meter = Arc::clone(&meter);
            Arc::new(move |progress| meter.tell(progress))
        };
        let caught = self.engine.refresh(tell).await;
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
