//! Gemini CLI sessions: `tmp/<project>/chats/session-<minute>-<first 8 of the id>.jsonl`, in older versions `.json`
//!
//! A newer file is a log: a header, messages, and changes to them. A message with a known id extends that message.
//! `$rewindTo` removes a message and all later ones. `$set` may contain a new list of all messages. An older file is
//! one object with all messages. Transcripts of sub-agents are in a directory named after the session. A file may have
//! an empty twin with the same id, because a resume in another minute writes one.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use segue_core::id::NativeId;

use super::chat_file::{file_stem, parse_file_name};
use super::document::DocumentRecords;
use super::log::GeminiLineFormat;
use super::session_head;
use super::working_directory::GeminiCwdResolver;
use crate::reader::line_format::{self, LineRecords};
use crate::reader::read_last_turns;
use crate::{
    IdHint, Mark, NativeSessionKind, NativeTurn, ReadError, ReadStart, Reader, Records,
    SessionHead, SessionLocation, SessionScan, SessionStorage,
};

/// Reader of Gemini CLI's sessions.
#[derive(Debug)]
pub struct GeminiReader {
    pub(super) projects_dir: PathBuf,
    cwds: GeminiCwdResolver,
}

impl GeminiReader {
    /// Creates a reader. `home` is by default `~/.gemini`.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        Self {
            projects_dir: home.join("tmp"),
            cwds: GeminiCwdResolver::new(home),
        }
    }

    /// Adds directories that may be working directories. Older versions stored only the hash of a working directory,
    /// which can be resolved only if the directory is among the known ones.
    #[must_use]
    pub fn with_known_directories(mut self, directories: impl IntoIterator<Item = String>) -> Self {
        self.cwds.add_known_paths(directories);
        self
    }
}

impl Reader for GeminiReader {
    fn provider(&self) -> &'static str {
        "gemini"
    }

    fn scan_sessions(&self) -> SessionScan {
        let mut scan = SessionScan::default();
        for project in scan.read_entries(&self.projects_dir) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let entries = scan.read_entries(&project.path().join("chats"));
            let names: HashSet<_> = entries.iter().map(std::fs::DirEntry::file_name).collect();
            for entry in &entries {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if let Some(stem) = file_stem(name) {
                    // A newer version that resumes an older file continues it in a second file.
                    let continuation = format!("{stem}.jsonl");
                    let superseded =
                        name != continuation && names.contains(OsStr::new(&continuation));
                    if let Some(name) = parse_file_name(name).filter(|_| !superseded) {
                        scan.add_file(entry, IdHint::Prefix(name.short_id.to_owned()), false);
                    }
                } else if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                    find_subagents(&entry.path(), &mut scan);
                }
            }
        }
        scan
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        let (mut head, hash) = session_head::read_head(location)?;
        let mut directories = location.path.ancestors().skip(1);
        let chats = directories.find(|path| path.file_name().is_some_and(|name| name == "chats"));
        if matches!(location.id_hint, IdHint::Complete(_)) {
            head.kind = NativeSessionKind::Subagent;
        }
        let project = chats.and_then(Path::parent);
        head.cwd = project.and_then(|project| self.cwds.resolve(project, hash.as_deref()));
        Ok(head)
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        if is_log_file(&location.path)? {
            Ok(Box::new(LineRecords::<GeminiLineFormat>::open(
                &location.path,
                start,
            )?))
        } else {
            Ok(Box::new(DocumentRecords::open(&location.path, start)?))
        }
    }

    fn find_last_mark(&self, location: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        if is_log_file(&location.path)? {
            return line_format::find_last_mark::<GeminiLineFormat>(&location.path);
        }
        let last = read_last_turns(|| self.open_records(location, &ReadStart::Beginning), 1)?;
        Ok(last.turns.into_iter().next_back().map(|turn| turn.until))
    }

    fn read_recent_turns(
        &self,
        location: &SessionLocation,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        if is_log_file(&location.path)? {
            return line_format::read_recent_turns::<GeminiLineFormat>(&location.path, turns);
        }
        // A document can't be searched from its end, because it has no lines.
        let last = read_last_turns(|| self.open_records(location, &ReadStart::Beginning), turns)?;
        Ok((last.turns, last.turns_before == 0))
    }

    fn storage(&self) -> Option<&dyn SessionStorage> {
        Some(self)
    }
}

/// Adds the transcripts of the sub-agents of one session.
fn find_subagents(directory: &Path, scan: &mut SessionScan) {
    for entry in scan.read_entries(directory) {
        let name = entry.file_name();
        let id = name.to_str().and_then(file_stem);
        if let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) {
            scan.add_file(&entry, IdHint::Complete(id.to_owned()), false);
        }
    }
}

fn is_log_file(path: &Path) -> Result<bool, ReadError> {
    const FORMAT_PROBE_BYTES: u64 = 64 << 10;
    let failed = |error| ReadError::io(path, error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = file
        .take(FORMAT_PROBE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(session_head::is_log_content(
        &bytes,
        (read as u64) < FORMAT_PROBE_BYTES,
    ))
}
