//! Comparison of the sources on disk with the index.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rusqlite::Connection;
use segue_core::id::ProviderId;

use super::Work;
use crate::index::State;
use crate::index::read::Before;
use crate::index::write::{Verdict, nanoseconds, turn_id};
use crate::{Catalog, Found, ReadError, Whereabouts};

/// Sources on disk.
pub(super) struct Walked {
    pub(super) found: Vec<(ProviderId, Found)>,
    /// Paths of the sources that are copies in the archive.
    pub(super) copies: HashSet<PathBuf>,
    /// Read errors, each with its agent. A missing session of such an agent may still exist.
    pub(super) unreadable: Vec<(ProviderId, ReadError)>,
    /// Hash that identifies this state.
    pub(super) print: i64,
}

impl Walked {
    pub(super) fn over(catalog: &Catalog) -> Self {
        let mut walked = Self {
            found: Vec::new(),
            copies: HashSet::new(),
            unreadable: Vec::new(),
            print: 0,
        };
        for (provider, there) in catalog.walk() {
            let Whereabouts { found, unreadable } = there;
            let named = |error| (provider.clone(), error);
            walked.unreadable.extend(unreadable.into_iter().map(named));
            let found = found.into_iter().map(|found| (provider.clone(), found));
            walked.found.extend(found);
        }
        let copies = catalog.copies();
        walked
            .copies
            .extend(copies.iter().map(|(_, found)| found.path.clone()));
        walked.found.extend(copies);
        // The sum does not depend on the order of the sources.
        for (provider, found) in &walked.found {
            let mut hasher = DefaultHasher::new();
            (provider.as_str(), &found.path, found.part()).hash(&mut hasher);
            (found.size, found.modified.as_nanosecond(), found.archived).hash(&mut hasher);
            walked.print = walked.print.wrapping_add(hasher.finish().cast_signed());
        }
        walked
    }

    pub(super) fn nothing_to_do(self) -> Work {
        Work {
            places: self.found.len(),
            unreadable: self.unreadable,
            ..Work::default()
        }
    }

    pub(super) fn compare(&self, catalog: &Catalog, mut known: HashMap<Key, Known>) -> Changes {
        let mut changed = Vec::new();
        let mut twins: Vec<(&ProviderId, &Found, Known)> = Vec::new();
        for (provider, found) in &self.found {
            let before = known.remove(&Key::of(provider.as_str(), found));
            match before {
                Some(before) if before.is_like(found) => {
                    if before.verdict == Verdict::Twin as i64 {
                        twins.push((provider, found, before));
                    }
                }
                before => changed.push(Change {
                    provider: provider.clone(),
                    found: found.clone(),
                    before: before.and_then(Known::into_before),
                }),
            }
        }
        // A source that could not be read still exists, and so does one in a home other than the searched one.
        let is_gone = |(key, known): &(Key, Known)| {
            let unreadable = |(provider, _): &(ProviderId, _)| provider.as_str() == key.provider;
            let elsewhere = |provider: &ProviderId| {
                let home = catalog.home_of(provider);
                home.is_some_and(|home| !key.path.starts_with(home))
            };
            known.copy
                || !self.unreadable.iter().any(unreadable)
                    && !ProviderId::parse(&key.provider).is_ok_and(|provider| elsewhere(&provider))
        };
        let gone: Vec<(Key, Known)> = known.into_iter().filter(is_gone).collect();
        for (provider, found, twin) in twins {
            let orphaned = |(key, gone): &&(Key, Known)| {
                key.provider == provider.as_str() && gone.native_id == twin.native_id
            };
            // An earlier refresh that detected this may have been killed.
            if !twin.held || gone.iter().any(|gone| orphaned(&gone)) {
                changed.push(Change {
                    provider: provider.clone(),
                    found: found.clone(),
                    before: None,
                });
            }
        }
        // The newest source is last, so that ids grow with time.
        changed.sort_by_key(|change| change.found.modified);
        let is_copy = |change: &Change| self.copies.contains(&change.found.path);
        let (copies, changed) = changed.into_iter().partition(is_copy);
        Changes {
            changed,
            copies,
            gone: gone.iter().map(|(_, known)| known.source).collect(),
        }
    }
}

pub(super) struct Changes {
    pub(super) changed: Vec<Change>,
    /// Changed copies in the archive, which matter only if their session no longer exists.
    pub(super) copies: Vec<Change>,
    pub(super) gone: Vec<i64>,
}

/// A source that has changed.
pub(super) struct Change {
    pub(super) provider: ProviderId,
    pub(super) found: Found,
    /// Row of the session, and its state at the previous read. `None` if the index has no session for the source.
    pub(super) before: Option<(i64, Before)>,
}

/// Key of a source.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key {
    provider: String,
    path: PathBuf,
    part: String,
}

impl Key {
    fn of(provider: &str, found: &Found) -> Self {
        Self {
            provider: provider.to_owned(),
            path: found.path.clone(),
            part: found.part().to_owned(),
        }
    }
}

/// State of a source in the index.
pub(super) struct Known {
    source: i64,
    size: u64,
    modified: i64,
    verdict: i64,
    archived: Option<bool>,
    native_id: Option<String>,
    session: Option<i64>,
    turns: u32,
    after: Option<String>,
    copy: bool,
    /// Whether the session with this id has a source.
    held: bool,
}

impl Known {
    fn is_like(&self, found: &Found) -> bool {
        self.size == found.size
            && self.modified == nanoseconds(found.modified)
            && self
                .archived
                .is_none_or(|archived| archived == found.archived)
    }

    fn into_before(self) -> Option<(i64, Before)> {
        let before = Before {
            turns: self.turns,
            after: self.after.and_then(|mark| mark.parse().ok()),
            size: self.size,
        };
        Some((self.session?, before))
    }
}

pub(super) fn known(db: &Connection) -> rusqlite::Result<HashMap<Key, Known>> {
    let mut rows = db.prepare(
        "SELECT source.id, source.provider, path, part, size, modified, verdict, source.native_id,
             session.id, session.turns, session.state,
             (SELECT after FROM turn WHERE turn.id = (session.id << 20) + session.turns), copy,
             EXISTS (SELECT 1 FROM session AS held WHERE held.provider = source.provider
                 AND held.native_id = source.native_id AND held.source IS NOT NULL)
         FROM source LEFT JOIN session ON session.source = source.id",
    )?;
    let rows = rows.query_map([], |row| {
        let key = Key {
            provider: row.get(1)?,
            path: OsString::from_vec(row.get(2)?).into(),
            part: row.get(3)?,
        };
        let state: Option<i64> = row.get(10)?;
        let known = Known {
            source: row.get(0)?,
            size: row.get(4)?,
            modified: row.get(5)?,
            verdict: row.get(6)?,
            native_id: row.get(7)?,
            session: row.get(8)?,
            turns: row.get::<_, Option<u32>>(9)?.unwrap_or(0),
            archived: state.map(|state| state == State::Archived.code()),
            after: row.get(11)?,
            copy: row.get(12)?,
            held: row.get(13)?,
        };
        Ok((key, known))
    })?;
    rows.collect()
}

/// The query above computes the id of the last turn with this shift.
const _: () = assert!(turn_id(1, 0) == 1 << 20);
