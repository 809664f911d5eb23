//! The phases of a run and the time that each took.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::runner::format_seconds;

/// Phases that have ended, in order.
pub(crate) struct Phases {
    start: Instant,
    times: Vec<(&'static str, Duration)>,
}

impl Phases {
    /// Starts the clock of a run.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            times: Vec::new(),
        }
    }

    /// Runs a phase and records its time, also if it fails.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        phase: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        println!("== {name}");
        let start = Instant::now();
        let outcome = phase();
        self.times.push((name, start.elapsed()));
        outcome
    }

    /// Prints the table of phases.
    pub(crate) fn print(&self) {
        println!("\n{:>9}  phase", "time");
        for (name, time) in &self.times {
            println!("{:>9}  {name}", format_seconds(*time));
        }
        println!("{:>9}  total", format_seconds(self.start.elapsed()));
    }
}
