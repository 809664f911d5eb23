//! Gemini CLI sessions: `tmp/<project>/chats/session-<minute>-<first 8 of the id>.jsonl`, in older versions `.json`
//!
//! A newer file is a log: a header, messages, and changes to them. A message with a known id extends that message.
//! `$rewindTo` removes a message and all later ones. `$set` may contain a new list of all messages. An older file is
//! one object with all messages. Transcripts of sub-agents are in a directory named after the session. A file may have
//! an empty twin with the same id, because a resume in another minute writes one.

mod belongings;
mod chat;
mod cwd;
mod document;
mod head;
mod line;
mod listing;
mod log;
mod retention;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use self::cwd::Cwds;
use self::document::DocumentRecords;
pub use self::listing::{Listed, Listing, parse_listing};
use self::log::Log;
pub(crate) use self::retention::retention;
use crate::dialect::{self, LineRecords};
use crate::reader::last_turns;
use crate::{
    Found, Head, IdHint, Keeping, Kind, Mark, NativeTurn, ReadError, Reader, Records, Start,
    Whereabouts,
};

/// Reader of Gemini CLI's sessions.
#[derive(Debug)]
pub struct Gemini {
    projects: PathBuf,
    cwds: Cwds,
}

impl Gemini {
    /// Creates a reader. `home` is by default `~/.gemini`.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            projects: home.join("tmp"),
            cwds: Cwds::new(home),
        }
    }

    /// Adds directories that may be working directories. Older versions stored only the hash of a working directory,
    /// which can be resolved only if the directory is among the known ones.
    #[must_use]
    pub fn knowing(mut self, directories: impl IntoIterator<Item = String>) -> Self {
        self.cwds.know(directories);
        self
    }
}

impl Reader for Gemini {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn find(&self) -> Whereabouts {
        let mut there = Whereabouts::default();
        for project in there.entries(&self.projects) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let entries = there.entries(&project.path().join("chats"));
            let names: HashSet<_> = entries.iter().map(std::fs::DirEntry::file_name).collect();
            for entry in &entries {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if let Some(stem) = stem(name) {
                    // A newer version that resumes an older file continues it in a second file.
                    let goes_on = format!("{stem}.jsonl");
                    let superseded = name != goes_on && names.contains(OsStr::new(&goes_on));
                    if let Some(id) = begins(stem).filter(|_| !superseded) {
                        there.add_file(entry, IdHint::Begins(id.to_owned()), false);
                    }
                } else if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    find_subagents(&entry.path(), &mut there);
                }
            }
        }
        there
    }

    fn head(&self, found: &Found) -> Result<Head, ReadError> {
        let (mut head, hash) = head::head(found)?;
        let mut directories = found.path.ancestors().skip(1);
        let chats = directories.find(|path| path.file_name().is_some_and(|name| name == "chats"));
        if matches!(found.id, IdHint::Whole(_)) {
            head.kind = Kind::Subagent;
        }
        let project = chats.and_then(Path::parent);
        head.cwd = project.and_then(|project| self.cwds.of(project, hash.as_deref()));
        Ok(head)
    }

    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError> {
        if is_log(&found.path)? {
            Ok(Box::new(LineRecords::<Log>::open(&found.path, start)?))
        } else {
            Ok(Box::new(DocumentRecords::open(&found.path, start)?))
        }
    }

    fn end(&self, found: &Found) -> Result<Option<Mark>, ReadError> {
        if is_log(&found.path)? {
            return dialect::end::<Log>(&found.path);
        }
        let last = last_turns(|| self.records(found, &Start::Beginning), 1)?;
        Ok(last.turns.into_iter().next_back().map(|turn| turn.until))
    }

    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        if is_log(&found.path)? {
            return dialect::recent::<Log>(&found.path, turns);
        }
        // A document can't be searched from its end, because it has no lines.
        let last = last_turns(|| self.records(found, &Start::Beginning), turns)?;
        Ok((last.turns, last.before == 0))
    }

    fn keeping(&self) -> Option<&dyn Keeping> {
        Some(self)
    }
}

/// Adds the transcripts of the sub-agents of one session.
fn find_subagents(directory: &Path, there: &mut Whereabouts) {
    for entry in there.entries(directory) {
        let name = entry.file_name();
        let id = name.to_str().and_then(stem);
        if let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) {
            there.add_file(&entry, IdHint::Whole(id.to_owned()), false);
        }
    }
}

fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(".jsonl")
        .or_else(|| name.strip_suffix(".json"))
}

/// Returns the beginning of the id in a file name such as `session-2026-11-16T00-37-58be647e`.
fn begins(stem: &str) -> Option<&str> {
    const MINUTE: usize = "2026-11-16T00-37".len();
    let rest = stem.strip_prefix("session-")?;
    let (minute, id) = rest.split_at_checked(MINUTE)?;
    let id = id.strip_prefix('-')?;
    let dated = minute
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"-T".contains(&byte));
    (dated && !id.is_empty()).then_some(id)
}

fn is_log(path: &Path) -> Result<bool, ReadError> {
    const LOOK: u64 = 64 << 10;
    let failed = |error| ReadError::io(path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file.take(LOOK).read_to_end(&mut bytes).map_err(failed)?;
    Ok(head::is_log(&bytes, (read as u64) < LOOK))
}
