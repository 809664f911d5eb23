//! The phases of a run and the time that each took.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::runner::seconds;

/// Phases that have ended, in order.
#[derive(Default)]
pub(crate) struct Phases(Vec<(&'static str, Duration)>);

impl Phases {
    /// Runs a phase and records its time, also if it fails.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        phase: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        println!("== {name}");
        let start = Instant::now();
        let outcome = phase();
        self.0.push((name, start.elapsed()));
        outcome
    }

    /// Prints the table of phases.
    pub(crate) fn print(&self) {
        println!("\n{:>9}  phase", "time");
        for (name, time) in &self.0 {
            println!("{:>9}  {name}", seconds(*time));
        }
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        println!("{:>9}  in all", seconds(total));
    }
}
