//! Home directory with thousands of sessions of several agents.

use std::ops::AddAssign;
use std::path::Path;
use std::thread;

use super::prng::Prng;
use super::session::{CorpusFormat, CorpusSession, CorpusSize};
use super::texts::CorpusTexts;
use super::{claude, codex, gemini};

/// Latest start time of a session: 15 November 2026.
const LATEST_START_SECONDS: i64 = 1_794_700_000;

/// Period of the sessions, in seconds.
const PERIOD_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// Fraction of the year, counted back from [`LATEST_START_SECONDS`], in which sessions have the format of the newest
/// versions.
const CURRENT_FORMAT_FRACTION: f64 = 0.05;

/// Number of projects. The first projects have most of the sessions.
const PROJECT_COUNT: f64 = 60.0;

/// Specification of the sessions to write.
#[derive(Debug, Clone, Copy)]
pub struct Corpus {
    /// Number of sessions: half of them for Claude Code, a third for Codex, the remainder for Gemini CLI.
    pub sessions: u64,
    /// Seed. A different seed results in different sessions of the same kind.
    pub seed: u64,
}

/// Amount of written data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CorpusCounts {
    /// Number of sessions, which is the number of files.
    pub sessions: u64,
    /// Number of turns.
    pub turns: u64,
    /// Number of prompts, answers, tool calls and tool outputs.
    pub messages: u64,
    /// Total size of the files.
    pub bytes: u64,
}

impl AddAssign for CorpusCounts {
    fn add_assign(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

type WriteSessionFn = fn(&Path, &CorpusSession, &CorpusTexts) -> CorpusCounts;

impl Corpus {
    /// Writes `.claude`, `.codex` and `.gemini` into a directory. Returns the counts of each.
    pub fn write(&self, directory: &Path) -> [(&'static str, CorpusCounts); 3] {
        let (half, third) = (self.sessions / 2, self.sessions / 3);
        let homes: [(&str, WriteSessionFn, u64); 3] = [
            (".claude", claude::write_session, half),
            (".codex", codex::write_session, third),
            (
                ".gemini",
                gemini::write_session,
                self.sessions - half - third,
            ),
        ];
        let texts = CorpusTexts::default();
        let mut first = self.seed * 1_000_000;
        homes.map(|(name, write_session, count)| {
            let home = directory.join(name);
            let numbers = first..first + count;
            first += count;
            (name, write_sessions(&home, write_session, numbers, &texts))
        })
    }
}

/// Writes the sessions with these numbers, in parallel on all cores.
fn write_sessions(
    home: &Path,
    write_session: WriteSessionFn,
    numbers: std::ops::Range<u64>,
    texts: &CorpusTexts,
) -> CorpusCounts {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut counts = CorpusCounts::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|core| {
                let core_numbers = numbers.clone().skip(core).step_by(cores);
                scope.spawn(move || {
                    let mut counts = CorpusCounts::default();
                    for number in core_numbers {
                        counts += write_session(home, &generate_session(number), texts);
                    }
                    counts
                })
            })
            .collect();
        for thread in threads {
            counts += thread.join().unwrap();
        }
    });
    counts
}

/// Returns a session with realistic properties: many are short and few are very long, spread over the year.
fn generate_session(number: u64) -> CorpusSession {
    let mut prng = Prng::new(number);
    let age_fraction = prng.next_fraction();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "less than a year, less than all projects"
    )]
    let (seconds, project) = (
        (age_fraction * PERIOD_SECONDS) as i64,
        PROJECT_COUNT.powf(prng.next_fraction()) as u64,
    );
    CorpusSession {
        number,
        project,
        started_at: LATEST_START_SECONDS - seconds,
        format: if age_fraction < CURRENT_FORMAT_FRACTION {
            CorpusFormat::Current
        } else {
            CorpusFormat::Legacy
        },
        size: CorpusSize::Turns(prng.next_log_normal(7.3, 2.7, 400)),
    }
}
