//! Home directory with thousands of sessions of several agents.

use std::ops::AddAssign;
use std::path::Path;
use std::thread;

use super::prng::Draw;
use super::session::{Age, Extent, Session};
use super::texts::Texts;
use super::{claude, codex, gemini};

/// Latest start time of a session: 15 November 2026.
const NOW: i64 = 1_794_700_000;

/// Period of the sessions, in seconds.
const YEAR: f64 = 365.0 * 24.0 * 3600.0;

/// Fraction of the year, counted back from [`NOW`], in which sessions have the format of the newest versions.
const NEW: f64 = 0.05;

/// Number of projects. The first projects have most of the sessions.
const PROJECTS: f64 = 60.0;

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
pub struct Counts {
    /// Number of sessions, which is the number of files.
    pub sessions: u64,
    /// Number of turns.
    pub turns: u64,
    /// Number of prompts, answers, tool calls and tool outputs.
    pub messages: u64,
    /// Total size of the files.
    pub bytes: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

type Write = fn(&Path, &Session, &Texts) -> Counts;

impl Corpus {
    /// Writes `.claude`, `.codex` and `.gemini` into a directory. Returns the counts of each.
    pub fn write(&self, directory: &Path) -> [(&'static str, Counts); 3] {
        let (half, third) = (self.sessions / 2, self.sessions / 3);
        let kinds: [(&str, Write, u64); 3] = [
            (".claude", claude::write, half),
            (".codex", codex::write, third),
            (".gemini", gemini::write, self.sessions - half - third),
        ];
        let texts = Texts::default();
        let mut first = self.seed * 1_000_000;
        kinds.map(|(name, write, count)| {
            let home = directory.join(name);
            let numbers = first..first + count;
            first += count;
            (name, write_all(&home, write, numbers, &texts))
        })
    }
}

/// Writes the sessions with these numbers, in parallel on all cores.
fn write_all(home: &Path, write: Write, numbers: std::ops::Range<u64>, texts: &Texts) -> Counts {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut counts = Counts::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores)
            .map(|core| {
                let own = numbers.clone().skip(core).step_by(cores);
                scope.spawn(move || {
                    let mut counts = Counts::default();
                    for number in own {
                        counts += write(home, &session(number), texts);
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
fn session(number: u64) -> Session {
    let mut draw = Draw::new(number);
    let ago = draw.share();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "less than a year, less than all projects"
    )]
    let (seconds, project) = ((ago * YEAR) as i64, PROJECTS.powf(draw.share()) as u64);
    Session {
        number,
        project,
        begins_at: NOW - seconds,
        age: if ago < NEW { Age::New } else { Age::Old },
        extent: Extent::Turns(draw.spread(7.3, 2.7, 400)),
    }
}
