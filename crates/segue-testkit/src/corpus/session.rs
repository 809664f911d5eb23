//! Properties of a synthetic session, independent of its format.

use std::time::{Duration, SystemTime};

use super::prng::{Draw, mixed};

/// Seconds between two records.
const PACE: i64 = 5;

/// A session to write.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Number of the session, which seeds everything random in it.
    pub number: u64,
    /// Number of the project. The working directory is `/src/app-PROJECT`.
    pub project: u64,
    /// Start time, in seconds since 1970.
    pub begins_at: i64,
    /// Age of the CLI version that writes the session.
    pub age: Age,
    /// Amount of content.
    pub extent: Extent,
}

/// Age of the CLI version that writes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// The versions that the tests run.
    New,
    /// Versions that are a year older and repeat content less often.
    Old,
}

/// Amount of content in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Minimum size of the file, reached by turns with tool calls and long tool output.
    Bytes(u64),
    /// Number of realistic turns: short ones, long ones, and some without a tool call.
    Turns(u64),
}

impl Session {
    /// Returns session `number` of a home directory of large sessions, with at least `bytes` bytes.
    pub fn of_bytes(number: u64, bytes: u64) -> Self {
        Self {
            number,
            project: number % 50,
            begins_at: 1_790_000_000 + i64::try_from(number).unwrap() * 1000,
            age: Age::New,
            extent: Extent::Bytes(bytes),
        }
    }

    /// Returns `true` if the session needs another turn. Every session has at least one.
    pub(crate) fn goes_on(&self, turns: u64, bytes: u64) -> bool {
        match self.extent {
            Extent::Bytes(wanted) => turns == 0 || bytes < wanted,
            Extent::Turns(wanted) => turns == 0 || turns < wanted,
        }
    }

    /// Returns the number of tool calls in a turn.
    pub(crate) fn calls(&self, turn: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 1 + mixed(turn) % 8,
            Extent::Turns(_) => Draw::new(self.seed(1 << 50 | turn)).spread(2.0, 2.4, 40) - 1,
        }
    }

    /// Returns `true` if the agent emits a thought before the call at `step`.
    pub(crate) fn thinks(&self, step: u64) -> bool {
        matches!(self.extent, Extent::Bytes(_)) || self.seed(step).is_multiple_of(8)
    }

    /// Returns the length of a tool output, in bytes.
    pub(crate) fn output_length(&self, step: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 1000 + self.seed(step) % 19_000,
            Extent::Turns(_) => Draw::new(self.seed(step)).spread(230.0, 3.0, 40_000),
        }
    }

    /// Returns the length of an answer, in bytes.
    pub(crate) fn answer_length(&self, step: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 400 + self.seed(step) % 1200,
            Extent::Turns(_) => Draw::new(self.seed(step)).spread(330.0, 2.2, 8000),
        }
    }

    /// Returns a random seed for `step` that differs from that of every other session.
    pub(crate) fn seed(&self, step: u64) -> u64 {
        mixed(mixed(self.number) ^ step)
    }

    pub(crate) fn id(&self) -> String {
        uuid(self.number, 0)
    }

    pub(crate) fn cwd(&self) -> String {
        format!("/src/app-{}", self.project)
    }

    pub(crate) fn branch(&self) -> String {
        match self.number % 5 {
            0 => format!("fix-{}", self.number % 97),
            _ => "main".to_owned(),
        }
    }

    /// Returns the time of record `step`.
    pub(crate) fn time(&self, step: u64) -> String {
        let time = jiff::Timestamp::from_second(self.seconds(step)).unwrap();
        format!("{time:.3}")
    }

    /// Returns the modification time of the file, given the number of its last record.
    pub(crate) fn modified(&self, step: u64) -> SystemTime {
        let seconds = u64::try_from(self.seconds(step)).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn seconds(&self, step: u64) -> i64 {
        self.begins_at + i64::try_from(step).unwrap() * PACE
    }
}

/// Returns id `n` of a session.
pub fn uuid(session: u64, n: u64) -> String {
    let (high, low) = (mixed(session << 32 | n), mixed(n << 32 | session));
    let digits = format!("{high:016x}{low:016x}");
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 13..16, 17..20, 20..32].map(|range| &digits[range]);
    format!("{first}-{second}-7{third}-8{fourth}-{last}")
}
