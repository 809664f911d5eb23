//! Properties of a synthetic session, independent of its format.

use std::time::{Duration, SystemTime};

use super::prng::{Prng, splitmix64};

/// Seconds between two records.
const RECORD_INTERVAL_SECONDS: i64 = 5;

/// A session to write.
#[derive(Debug, Clone, Copy)]
pub struct CorpusSession {
    /// Number of the session, which seeds everything random in it.
    pub number: u64,
    /// Number of the project. The working directory is `/src/app-PROJECT`.
    pub project: u64,
    /// Start time, in seconds since 1970.
    pub started_at: i64,
    /// Age of the CLI version that writes the session.
    pub format: CorpusFormat,
    /// Amount of content.
    pub size: CorpusSize,
}

/// Age of the CLI version that writes a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorpusFormat {
    /// The versions that the tests run.
    Current,
    /// Versions that are a year older and repeat content less often.
    Legacy,
}

/// Amount of content in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorpusSize {
    /// Minimum size of the file, reached by turns with tool calls and long tool output.
    Bytes(u64),
    /// Number of realistic turns: short ones, long ones, and some without a tool call.
    Turns(u64),
}

impl CorpusSession {
    /// Returns session `number` of a home directory of large sessions, with at least `min_bytes` bytes.
    pub fn with_min_bytes(number: u64, min_bytes: u64) -> Self {
        Self {
            number,
            project: number % 50,
            started_at: 1_790_000_000 + i64::try_from(number).unwrap() * 1000,
            format: CorpusFormat::Current,
            size: CorpusSize::Bytes(min_bytes),
        }
    }

    /// Returns `true` if the session needs another turn. Every session has at least one.
    pub(crate) fn needs_another_turn(&self, turns: u64, bytes: u64) -> bool {
        match self.size {
            CorpusSize::Bytes(min_bytes) => turns == 0 || bytes < min_bytes,
            CorpusSize::Turns(turn_count) => turns == 0 || turns < turn_count,
        }
    }

    /// Returns the number of tool calls in a turn.
    pub(crate) fn call_count(&self, turn: u64) -> u64 {
        match self.size {
            CorpusSize::Bytes(_) => 1 + splitmix64(turn) % 8,
            CorpusSize::Turns(_) => {
                Prng::new(self.seed(1 << 50 | turn)).next_log_normal(2.0, 2.4, 40) - 1
            }
        }
    }

    /// Returns `true` if the agent emits a thought before the call at `record`.
    pub(crate) fn has_thought(&self, record: u64) -> bool {
        matches!(self.size, CorpusSize::Bytes(_)) || self.seed(record).is_multiple_of(8)
    }

    /// Returns the length of a tool output, in bytes.
    pub(crate) fn output_length(&self, record: u64) -> u64 {
        match self.size {
            CorpusSize::Bytes(_) => 1000 + self.seed(record) % 19_000,
            CorpusSize::Turns(_) => {
                Prng::new(self.seed(record)).next_log_normal(230.0, 3.0, 40_000)
            }
        }
    }

    /// Returns the length of an answer, in bytes.
    pub(crate) fn answer_length(&self, record: u64) -> u64 {
        match self.size {
            CorpusSize::Bytes(_) => 400 + self.seed(record) % 1200,
            CorpusSize::Turns(_) => Prng::new(self.seed(record)).next_log_normal(330.0, 2.2, 8000),
        }
    }

    /// Returns a random seed for `salt` that differs from that of every other session.
    pub(crate) fn seed(&self, salt: u64) -> u64 {
        splitmix64(splitmix64(self.number) ^ salt)
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

    /// Returns the time of record `record`.
    pub(crate) fn record_time(&self, record: u64) -> String {
        let time = jiff::Timestamp::from_second(self.record_seconds(record)).unwrap();
        format!("{time:.3}")
    }

    /// Returns the modification time of the file, given the number of its last record.
    pub(crate) fn modified_time(&self, last_record: u64) -> SystemTime {
        let seconds = u64::try_from(self.record_seconds(last_record)).unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn record_seconds(&self, record: u64) -> i64 {
        self.started_at + i64::try_from(record).unwrap() * RECORD_INTERVAL_SECONDS
    }
}

/// Returns id `n` of a session.
pub fn uuid(session: u64, n: u64) -> String {
    let (high, low) = (splitmix64(session << 32 | n), splitmix64(n << 32 | session));
    let digits = format!("{high:016x}{low:016x}");
    let [first, second, third, fourth, last] =
        [0..8, 8..12, 13..16, 17..20, 20..32].map(|range| &digits[range]);
    format!("{first}-{second}-7{third}-8{fourth}-{last}")
}
