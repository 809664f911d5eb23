//! What is to be written of one session, whoever writes it.

use std::time::{Duration, SystemTime};

use super::draw::{Draw, mixed};

/// How many seconds there are between two records.
const PACE: i64 = 5;

/// One session to be written.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Decides all that looks like chance in it.
    pub number: u64,
    /// It is about `/src/app-PROJECT`.
    pub project: u64,
    /// In seconds since 1970.
    pub begins_at: i64,
    /// What its agent was like.
    pub age: Age,
    /// How much of it there is.
    pub extent: Extent,
}

/// Which versions of the CLIs a session is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Those that the tests run.
    New,
    /// Those of a year before, which wrote each thing down less often.
    Old,
}

/// How much of a session there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Turns full of work, each with long tool output, until the file has at least so many bytes.
    Bytes(u64),
    /// So many turns as people have them: short ones, long ones, some with no tool at all.
    Turns(u64),
}

impl Session {
    /// The so-manieth of a home of large ones.
    pub fn of_bytes(number: u64, bytes: u64) -> Self {
        Self {
            number,
            project: number % 50,
            begins_at: 1_790_000_000 + i64::try_from(number).unwrap() * 1000,
            age: Age::New,
            extent: Extent::Bytes(bytes),
        }
    }

    /// Whether another turn is to be written. There is always one.
    pub(crate) fn goes_on(&self, turns: u64, bytes: u64) -> bool {
        match self.extent {
            Extent::Bytes(wanted) => turns == 0 || bytes < wanted,
            Extent::Turns(wanted) => turns == 0 || turns < wanted,
        }
    }

    /// How many calls of tools a turn has.
    pub(crate) fn calls(&self, turn: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 1 + mixed(turn) % 8,
            Extent::Turns(_) => Draw::new(self.seed(1 << 50 | turn)).spread(2.0, 2.4, 40) - 1,
        }
    }

    /// Whether the agent thinks aloud before a call.
    pub(crate) fn thinks(&self, step: u64) -> bool {
        matches!(self.extent, Extent::Bytes(_)) || self.seed(step).is_multiple_of(8)
    }

    /// How long the output of a tool is, in bytes.
    pub(crate) fn output_length(&self, step: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 1000 + self.seed(step) % 19_000,
            Extent::Turns(_) => Draw::new(self.seed(step)).spread(230.0, 3.0, 40_000),
        }
    }

    /// How long an answer is, in bytes.
    pub(crate) fn answer_length(&self, step: u64) -> u64 {
        match self.extent {
            Extent::Bytes(_) => 400 + self.seed(step) % 1200,
            Extent::Turns(_) => Draw::new(self.seed(step)).spread(330.0, 2.2, 8000),
        }
    }

    /// A number for one of the things in it that no other session has.
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

    /// When the `step`th thing happens.
    pub(crate) fn time(&self, step: u64) -> String {
        let time = jiff::Timestamp::from_second(self.seconds(step)).unwrap();
        format!("{time:.3}")
    }

    /// When its file was last written to.
    pub(crate) fn modified(&self, step: u64) -> SystemTime {
        let seconds = u64::try_from(self.seconds(step)).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn seconds(&self, step: u64) -> i64 {
        self.begins_at + i64::try_from(step).unwrap() * PACE
    }
}

/// The `n`th id of a session.
pub fn uuid(session: u64, n: u64) -> String {
    let (high, low) = (mixed(session << 32 | n), mixed(n << 32 | session));
    let digits = format!("{high:016x}{low:016x}");
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 13..16, 17..20, 20..32].map(|range| &digits[range]);
    format!("{first}-{second}-7{third}-8{fourth}-{last}")
}
