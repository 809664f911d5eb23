//! Location and names of Codex's session files.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use segue_core::id::NativeId;
use serde::Deserialize;

use crate::reader::borrowed_json::JsonText;
use crate::reader::discovery::IdHint;
use crate::reader::line_reader::LineReader;
use crate::{SessionLocation, SessionScan};

/// Number of directory levels below `sessions`: year, month and day.
const DATE_DIRECTORY_DEPTH: usize = 3;

/// Home directory of Codex.
#[derive(Debug, Clone)]
pub(super) struct CodexHome {
    root: PathBuf,
    titles: Arc<Mutex<CodexTitleCache>>,
}

/// Titles that the user gave to sessions, as last read from `session_index.jsonl`.
#[derive(Debug, Default)]
struct CodexTitleCache {
    /// Modification time and size of the file when it was read.
    file_version: Option<(SystemTime, u64)>,
    by_id: HashMap<String, String>,
}

/// Parsed name of a session file: `rollout-<time>-<session id>[_<revert id>].jsonl[.zst]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RolloutName<'a> {
    pub(super) session_id: &'a str,
    /// Id of the revert that created the file. `None` for the first file of a session. A reverted session continues in
    /// a new file.
    pub(super) revert_id: Option<&'a str>,
    pub(super) compressed: bool,
}

impl<'a> RolloutName<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        const TIMESTAMP_LENGTH: usize = "2026-11-16T00-37-34-".len();
        let name = name.strip_prefix("rollout-")?.get(TIMESTAMP_LENGTH..)?;
        let (name, compressed) = match name.strip_suffix(".zst") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let name = name.strip_suffix(".jsonl")?;
        let (session_id, revert_id) = match name.split_once('_') {
            Some((session_id, revert_id)) => (session_id, Some(revert_id)),
            None => (name, None),
        };
        let parsed = Self {
            session_id,
            revert_id,
            compressed,
        };
        NativeId::parse(session_id).is_ok().then_some(parsed)
    }

    /// Returns the id by which other files refer to this one.
    fn file_id(&self) -> &'a str {
        self.revert_id.unwrap_or(self.session_id)
    }
}

pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// Parses the name of the file at `path`.
pub(super) fn parse_rollout_name(path: &Path) -> Option<RolloutName<'_>> {
    path.file_name()?.to_str().and_then(RolloutName::parse)
}

/// Returns the time at which an id was created. `None` if the id is not a UUID of version 7, which contains the time.
pub(super) fn id_creation_time(id: &str) -> Option<Timestamp> {
    let (high, remainder) = id.split_once('-')?;
    let (low, remainder) = remainder.split_once('-')?;
    if high.len() != 8 || low.len() != 4 || !remainder.starts_with('7') {
        return None;
    }
    let millis = i64::from_str_radix(&format!("{high}{low}"), 16).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

impl CodexHome {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            titles: Arc::default(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all files of a session, compressed or not, archived or not. Reads only names.
    pub(super) fn session_files(&self, id: &str) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        collect_session_files(&self.sessions_dir(), id, DATE_DIRECTORY_DEPTH, &mut paths);
        collect_session_files(&self.archived_sessions_dir(), id, 0, &mut paths);
        paths.sort_unstable();
        paths
    }

    fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    fn archived_sessions_dir(&self) -> PathBuf {
        self.root.join("archived_sessions")
    }

    /// Finds all sessions. The location of a session is its current file.
    pub(super) fn find_sessions(&self) -> SessionScan {
        let mut scan = SessionScan::default();
        scan_directory(&mut scan, &self.sessions_dir(), DATE_DIRECTORY_DEPTH, false);
        scan_directory(&mut scan, &self.archived_sessions_dir(), 0, true);
        let mut current_files: HashMap<String, SessionLocation> =
            HashMap::with_capacity(scan.locations.len());
        for location in std::mem::take(&mut scan.locations) {
            let IdHint::Complete(id) = &location.id_hint else {
                continue;
            };
            match current_files.get(id) {
                Some(existing) if file_rank(existing) >= file_rank(&location) => {}
                _ => drop(current_files.insert(id.clone(), location)),
            }
        }
        scan.locations = current_files.into_values().collect();
        scan
    }

    /// Returns the file to which other files refer as `id`. Searches the directory of the file `near` first. `id` comes
    /// from a file, so it is compared with file names and never becomes a part of a path.
    pub(super) fn find_file(&self, id: &str, near: &Path) -> Option<PathBuf> {
        let sessions_dir = self.sessions_dir();
        let sibling = near
            .parent()
            .and_then(|directory| find_file_in_directory(directory, id, 0));
        sibling
            .or_else(|| {
                let mut days = candidate_day_directories(id_creation_time(id)?);
                days.find_map(|day| find_file_in_directory(&sessions_dir.join(day), id, 0))
            })
            .or_else(|| find_file_in_directory(&self.archived_sessions_dir(), id, 0))
            .or_else(|| find_file_in_directory(&sessions_dir, id, DATE_DIRECTORY_DEPTH))
    }

    /// Returns the title that the user gave to a session. Reads the list of titles only if its file has changed.
    pub(super) fn session_title(&self, id: &str) -> Option<String> {
        let mut titles = self.titles.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.root.join("session_index.jsonl");
        let metadata = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        let file_version = Some((metadata.modified().ok()?, metadata.len()));
        if titles.file_version != file_version {
            titles.by_id = read_titles(&path);
            titles.file_version = file_version;
        }
        titles.by_id.get(id).cloned()
    }
}

/// Returns the rank of a file among the files of its session; the file with the highest rank is the current one. The
/// last revert has the highest rank, because its id sorts by time. Among equals, a file that is not archived and then a
/// file that is not compressed has the higher rank.
fn file_rank(location: &SessionLocation) -> (Option<&str>, bool, bool) {
    let name = parse_rollout_name(&location.path);
    (
        name.and_then(|name| name.revert_id),
        !location.archived,
        name.is_some_and(|name| !name.compressed),
    )
}

fn scan_directory(scan: &mut SessionScan, directory: &Path, depth: usize, archived: bool) {
    for entry in scan.read_entries(directory) {
        let name = entry.file_name();
        if let Some(name) = name.to_str().and_then(RolloutName::parse) {
            let id = IdHint::Complete(name.session_id.to_owned());
            scan.add_file(&entry, id, archived);
        } else if depth > 0 && std::fs::metadata(entry.path()).is_ok_and(|data| data.is_dir()) {
            scan_directory(scan, &entry.path(), depth - 1, archived);
        }
    }
}

/// Adds the files of a session in a directory to `paths`. Searches `depth` levels of subdirectories.
fn collect_session_files(directory: &Path, id: &str, depth: usize, paths: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        match name.to_str().and_then(RolloutName::parse) {
            Some(name) if name.session_id == id => paths.push(entry.path()),
            None if depth > 0 => collect_session_files(&entry.path(), id, depth - 1, paths),
            Some(_) | None => {}
        }
    }
}

/// Returns the file in a directory to which other files refer as `id`. Searches `depth` levels of subdirectories.
fn find_file_in_directory(directory: &Path, id: &str, depth: usize) -> Option<PathBuf> {
    let mut compressed = None;
    for entry in std::fs::read_dir(directory).ok()?.filter_map(Result::ok) {
        let name = entry.file_name();
        match name.to_str().and_then(RolloutName::parse) {
            // Opening a pipe with a matching name would block.
            Some(name) if name.file_id() != id || !entry.path().is_file() => {}
            // While Codex compresses a file, both versions exist.
            Some(name) if name.compressed => compressed = Some(entry.path()),
            Some(_) => return Some(entry.path()),
            None if depth > 0 => {
                let nested = find_file_in_directory(&entry.path(), id, depth - 1);
                if nested.is_some() {
                    return nested;
                }
            }
            None => {}
        }
    }
    compressed
}

/// Returns the directories that may contain a file of this time: those of the UTC date, the day before and the day
/// after, because Codex names them by the local date.
fn candidate_day_directories(at: Timestamp) -> impl Iterator<Item = String> {
    let offsets_in_hours = [0, -24, 24].into_iter();
    offsets_in_hours.filter_map(move |hours| {
        let day = at.checked_add(jiff::Span::new().hours(hours)).ok()?;
        Some(day.to_zoned(TimeZone::UTC).strftime("%Y/%m/%d").to_string())
    })
}

/// Reads the list of titles. Later lines override earlier ones.
fn read_titles(path: &Path) -> HashMap<String, String> {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct CodexFileTitleEntry<'a> {
        id: JsonText<'a>,
        thread_name: JsonText<'a>,
    }
    let mut titles = HashMap::new();
    let Ok(file) = std::fs::File::open(path) else {
        return titles;
    };
    let mut lines = LineReader::new(file, 0);
    while let Ok(Some(line)) = lines.next() {
        if let Ok(entry) = serde_json::from_slice::<CodexFileTitleEntry<'_>>(line.bytes) {
            titles.insert(entry.id.into_owned(), entry.thread_name.into_owned());
        }
    }
    titles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollout_files_are_recognised_by_their_names() {
        let id = "01a1e269-7de6-7563-bd31-b0fa3ef1a5f9";
        let cases = [
            (format!("rollout-2026-11-16T03-32-06-{id}.jsonl"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}.jsonl.zst"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}_01a1.jsonl"), true),
            (format!("rollout-2026-11-16T03-32-06-{id}.tmp"), false),
            (format!("rollout-2026-11-16T03-32-06-{id}0.jsonl"), false),
            (format!("{id}.jsonl"), false),
        ];
        for (name, expected) in cases {
            let session_id = RolloutName::parse(&name).map(|name| name.session_id);
            assert_eq!(session_id == Some(id), expected, "{name}");
        }
    }
}
