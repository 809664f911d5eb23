//! A home with thousands of sessions of several agents.

use std::ops::AddAssign;
use std::path::Path;
use std::thread;

use super::draw::Draw;
use super::session::{Age, Extent, Session};
use super::texts::Texts;
use super::{claude, codex, gemini};

/// When the newest sessions begin: 15 November 2026.
const NOW: i64 = 1_794_700_000;

/// How long the agents have been used, in seconds.
const YEAR: f64 = 365.0 * 24.0 * 3600.0;

/// Sessions of this part of the year are as the newest versions write them.
const NEW: f64 = 0.05;

/// How many projects there are; the first ones have most of the sessions.
const PROJECTS: f64 = 60.0;

/// Which sessions are written.
#[derive(Debug, Clone, Copy)]
pub struct Corpus {
    /// How many: half of them of Claude Code, a third of Codex, the rest of Gemini CLI.
    pub sessions: u64,
    /// Another seed gives other sessions of the same make.
    pub seed: u64,
}

/// How much was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files, each with one session.
    pub sessions: u64,
    /// Prompts with what followed.
    pub turns: u64,
    /// Prompts, answers, calls of tools, and their outputs.
    pub messages: u64,
    /// The lengths of the files.
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
    /// Writes `.claude`, `.codex` and `.gemini` into a directory; tells how much of each.
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

/// Writes these sessions on all cores.
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

/// A session as people have them: many short ones, few very long ones, at some time of the year.
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
