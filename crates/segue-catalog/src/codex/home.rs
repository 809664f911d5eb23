//! Location and names of Codex's files.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use segue_core::id::NativeId;
use serde::Deserialize;

use crate::found::IdHint;
use crate::json::Text;
use crate::lines::Lines;
use crate::{Found, Whereabouts};

/// Depth of the directories: year, month and day.
const DEPTH: usize = 3;

/// Home directory of Codex.
#[derive(Debug, Clone)]
pub(super) struct Home {
    root: PathBuf,
    names: Arc<Mutex<Names>>,
}

/// Titles that users gave their sessions, as last read.
#[derive(Debug, Default)]
struct Names {
    read: Option<(SystemTime, u64)>,
    by_id: HashMap<String, String>,
}

/// Parsed name of a file: `rollout-<time>-<session>[_<this file>].jsonl[.zst]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name<'a> {
    pub(super) session: &'a str,
    /// Id of this file, if a revert created it. A reverted session continues in a new file.
    pub(super) later: Option<&'a str>,
    pub(super) packed: bool,
}

impl<'a> Name<'a> {
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        const TIME: usize = "2026-11-16T00-37-34-".len();
        let name = name.strip_prefix("rollout-")?.get(TIME..)?;
        let (name, packed) = match name.strip_suffix(".zst") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let name = name.strip_suffix(".jsonl")?;
        let (session, later) = match name.split_once('_') {
            Some((session, later)) => (session, Some(later)),
            None => (name, None),
        };
        let named = Self {
            session,
            later,
            packed,
        };
        NativeId::parse(session).is_ok().then_some(named)
    }

    /// Returns the id by which other files refer to this one.
    fn file(&self) -> &'a str {
        self.later.unwrap_or(self.session)
    }
}

pub(super) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// Parses the name of the file at `path`.
pub(super) fn name(path: &Path) -> Option<Name<'_>> {
    path.file_name()?.to_str().and_then(Name::parse)
}

/// Returns the creation time of an id. `None` if the id is not a UUID of version 7.
pub(super) fn made_at(id: &str) -> Option<Timestamp> {
    let (high, rest) = id.split_once('-')?;
    let (low, rest) = rest.split_once('-')?;
    if high.len() != 8 || low.len() != 4 || !rest.starts_with('7') {
        return None;
    }
    let millis = i64::from_str_radix(&format!("{high}{low}"), 16).ok()?;
    Timestamp::from_millisecond(millis).ok()
}

impl Home {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            names: Arc::default(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns all files of a session, compressed or not, archived or not. Reads only names.
    pub(super) fn files_of(&self, id: &str) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        files_named(&self.sessions(), id, DEPTH, &mut paths);
        files_named(&self.archived(), id, 0, &mut paths);
        paths.sort_unstable();
        paths
    }

    fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    fn archived(&self) -> PathBuf {
        self.root.join("archived_sessions")
    }

    /// Finds all sessions, each at its newest file.
    pub(super) fn find(&self) -> Whereabouts {
        let mut there = Whereabouts::default();
        walk(&mut there, &self.sessions(), DEPTH, false);
        walk(&mut there, &self.archived(), 0, true);
        let mut newest: HashMap<String, Found> = HashMap::with_capacity(there.found.len());
        for found in std::mem::take(&mut there.found) {
            let IdHint::Whole(id) = &found.id else {
                continue;
            };
            match newest.get(id) {
                Some(other) if rank(other) >= rank(&found) => {}
                _ => drop(newest.insert(id.clone(), found)),
            }
        }
        there.found = newest.into_values().collect();
        there
    }

    /// Returns the file to which other files refer as `id`. Ids come from files, so they are compared with names and
    /// never become a part of a path.
    pub(super) fn file_of(&self, id: &str, near: &Path) -> Option<PathBuf> {
        let sessions = self.sessions();
        let beside = near.parent().and_then(|directory| named(directory, id, 0));
        beside
            .or_else(|| {
                let mut days = days_around(made_at(id)?);
                days.find_map(|day| named(&sessions.join(day), id, 0))
            })
            .or_else(|| named(&self.archived(), id, 0))
            .or_else(|| named(&sessions, id, DEPTH))
    }

    /// Returns the title that the user gave a session. Reads the list only if it has changed.
    pub(super) fn title_of(&self, id: &str) -> Option<String> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.root.join("session_index.jsonl");
        let data = std::fs::metadata(&path).ok().filter(Metadata::is_file)?;
        let now = Some((data.modified().ok()?, data.len()));
        if names.read != now {
            names.by_id = read_names(&path);
            names.read = now;
        }
        names.by_id.get(id).cloned()
    }
}

/// Returns the rank of a file among the files of a session: after the last revert, not archived, not compressed.
fn rank(found: &Found) -> (Option<&str>, bool, bool) {
    let name = name(&found.path);
    (
        name.and_then(|name| name.later),
        !found.archived,
        name.is_some_and(|name| !name.packed),
    )
}

fn walk(there: &mut Whereabouts, directory: &Path, depth: usize, archived: bool) {
    for entry in there.entries(directory) {
        let name = entry.file_name();
        if let Some(name) = name.to_str().and_then(Name::parse) {
            let id = IdHint::Whole(name.session.to_owned());
            there.add_file(&entry, id, archived);
        } else if depth > 0 && std::fs::metadata(entry.path()).is_ok_and(|data| data.is_dir()) {
            walk(there, &entry.path(), depth - 1, archived);
        }
    }
}

/// Collects the files of a session in a directory.
fn files_named(directory: &Path, id: &str, depth: usize, paths: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        match name.to_str().and_then(Name::parse) {
            Some(name) if name.session == id => paths.push(entry.path()),
            None if depth > 0 => files_named(&entry.path(), id, depth - 1, paths),
            Some(_) | None => {}
        }
    }
}

/// Returns the file in a directory to which other files refer as `id`.
fn named(directory: &Path, id: &str, depth: usize) -> Option<PathBuf> {
    let mut packed = None;
    for entry in std::fs::read_dir(directory).ok()?.filter_map(Result::ok) {
        let name = entry.file_name();
        match name.to_str().and_then(Name::parse) {
            // Opening a pipe with a matching name would block.
            Some(name) if name.file() != id || !entry.path().is_file() => {}
            // While Codex compresses a file, both versions exist.
            Some(name) if name.packed => packed = Some(entry.path()),
            Some(_) => return Some(entry.path()),
            None if depth > 0 => {
                let inside = named(&entry.path(), id, depth - 1);
                if inside.is_some() {
                    return inside;
                }
            }
            None => {}
        }
    }
    packed
}

/// Returns the directories in which a file of this time may be, because they are named by local dates.
fn days_around(at: Timestamp) -> impl Iterator<Item = String> {
    let hours = [0, -24, 24].into_iter();
    hours.filter_map(move |hours| {
        let day = at.checked_add(jiff::Span::new().hours(hours)).ok()?;
        Some(day.to_zoned(TimeZone::UTC).strftime("%Y/%m/%d").to_string())
    })
}

/// Reads the list of titles. Later lines override earlier ones.
fn read_names(path: &Path) -> HashMap<String, String> {
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow)]
        id: Text<'a>,
        #[serde(borrow)]
        thread_name: Text<'a>,
    }
    let mut names = HashMap::new();
    let Ok(file) = std::fs::File::open(path) else {
        return names;
    };
    let mut lines = Lines::new(file, 0);
    while let Ok(Some(line)) = lines.next() {
        if let Ok(entry) = serde_json::from_slice::<Entry<'_>>(line.bytes) {
            names.insert(entry.id.into_owned(), entry.thread_name.into_owned());
        }
    }
    names
}
