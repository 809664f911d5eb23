//! Comparison of the sources on disk with the index.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rusqlite::Connection;
use segue_core::id::ProviderId;

use super::RefreshStats;
use crate::index::NativeStatus;
use crate::index::source_reader::PreviousRead;
use crate::index::writer::{SourceVerdict, to_nanoseconds, turn_id};
use crate::{Catalog, ReadError, SessionLocation, SessionScan};

/// Sources on disk.
pub(super) struct SourceScan {
    pub(super) locations: Vec<(ProviderId, SessionLocation)>,
    /// Paths of the sources that are copies in the archive.
    pub(super) copy_paths: HashSet<PathBuf>,
    /// Read errors, each with its agent. A missing session of such an agent may still exist.
    pub(super) unreadable: Vec<(ProviderId, ReadError)>,
    /// Hash that identifies this state.
    pub(super) fingerprint: i64,
}

impl SourceScan {
    pub(super) fn from_catalog(catalog: &Catalog) -> Self {
        let mut scan = Self {
            locations: Vec::new(),
            copy_paths: HashSet::new(),
            unreadable: Vec::new(),
            fingerprint: 0,
        };
        for (provider, provider_scan) in catalog.scan_providers() {
            let SessionScan {
                locations,
                unreadable,
            } = provider_scan;
            let with_provider = |error| (provider.clone(), error);
            scan.unreadable
                .extend(unreadable.into_iter().map(with_provider));
            let locations = locations.into_iter().map(|found| (provider.clone(), found));
            scan.locations.extend(locations);
        }
        let copies = catalog.archived_locations();
        scan.copy_paths
            .extend(copies.iter().map(|(_, location)| location.path.clone()));
        scan.locations.extend(copies);
        // The sum does not depend on the order of the sources.
        for (provider, location) in &scan.locations {
            let mut hasher = DefaultHasher::new();
            (provider.as_str(), &location.path, location.id_in_file()).hash(&mut hasher);
            (
                location.size,
                location.modified.as_nanosecond(),
                location.archived,
            )
                .hash(&mut hasher);
            scan.fingerprint = scan.fingerprint.wrapping_add(hasher.finish().cast_signed());
        }
        scan
    }

    pub(super) fn into_unchanged_stats(self) -> RefreshStats {
        RefreshStats {
            sources: self.locations.len(),
            unreadable: self.unreadable,
            ..RefreshStats::default()
        }
    }

    pub(super) fn compare_with_index(
        &self,
        catalog: &Catalog,
        mut indexed_sources: HashMap<SourceKey, IndexedSource>,
    ) -> SourceChanges {
        let mut changed = Vec::new();
        let mut duplicates: Vec<(&ProviderId, &SessionLocation, IndexedSource)> = Vec::new();
        for (provider, location) in &self.locations {
            let previous = indexed_sources.remove(&SourceKey::new(provider.as_str(), location));
            match previous {
                Some(previous) if previous.is_unchanged(location) => {
                    if previous.verdict == SourceVerdict::Duplicate as i64 {
                        duplicates.push((provider, location, previous));
                    }
                }
                previous => changed.push(SourceChange {
                    provider: provider.clone(),
                    location: location.clone(),
                    previous: previous.and_then(IndexedSource::into_previous_read),
                }),
            }
        }
        // A source that could not be read still exists, and so does one in a home other than the searched one.
        let is_missing = |(key, source): &(SourceKey, IndexedSource)| {
            let is_unreadable = |(provider, _): &(ProviderId, _)| provider.as_str() == key.provider;
            let is_in_other_home = |provider: &ProviderId| {
                let home = catalog.provider_home(provider);
                home.is_some_and(|home| !key.path.starts_with(home))
            };
            source.is_copy
                || !self.unreadable.iter().any(is_unreadable)
                    && !ProviderId::parse(&key.provider)
                        .is_ok_and(|provider| is_in_other_home(&provider))
        };
        let missing: Vec<(SourceKey, IndexedSource)> =
            indexed_sources.into_iter().filter(is_missing).collect();
        for (provider, location, duplicate) in duplicates {
            let is_same_session = |(key, source): &&(SourceKey, IndexedSource)| {
                key.provider == provider.as_str() && source.native_id == duplicate.native_id
            };
            // An earlier refresh that detected this may have been killed.
            if !duplicate.has_source || missing.iter().any(|source| is_same_session(&source)) {
                changed.push(SourceChange {
                    provider: provider.clone(),
                    location: location.clone(),
                    previous: None,
                });
            }
        }
        // The newest source is last, so that ids grow with time.
        changed.sort_by_key(|change| change.location.modified);
        let is_copy = |change: &SourceChange| self.copy_paths.contains(&change.location.path);
        let (copies, changed) = changed.into_iter().partition(is_copy);
        SourceChanges {
            changed,
            copies,
            missing: missing.iter().map(|(_, source)| source.source_id).collect(),
        }
    }
}

pub(super) struct SourceChanges {
    pub(super) changed: Vec<SourceChange>,
    /// Changed copies in the archive, which matter only if their session no longer exists.
    pub(super) copies: Vec<SourceChange>,
    pub(super) missing: Vec<i64>,
}

/// A source that has changed.
pub(super) struct SourceChange {
    pub(super) provider: ProviderId,
    pub(super) location: SessionLocation,
    /// Row of the session, and its state at the previous read. `None` if the index has no session for the source.
    pub(super) previous: Option<(i64, PreviousRead)>,
}

/// Key of a source.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct SourceKey {
    provider: String,
    path: PathBuf,
    id_in_file: String,
}

impl SourceKey {
    fn new(provider: &str, location: &SessionLocation) -> Self {
        Self {
            provider: provider.to_owned(),
            path: location.path.clone(),
            id_in_file: location.id_in_file().to_owned(),
        }
    }
}

/// State of a source in the index.
pub(super) struct IndexedSource {
    source_id: i64,
    size: u64,
    modified: i64,
    verdict: i64,
    archived: Option<bool>,
    native_id: Option<String>,
    session_id: Option<i64>,
    turns: u32,
    last_turn_mark: Option<String>,
    is_copy: bool,
    /// Whether the session with this id has a source.
    has_source: bool,
}

impl IndexedSource {
    fn is_unchanged(&self, location: &SessionLocation) -> bool {
        self.size == location.size
            && self.modified == to_nanoseconds(location.modified)
            && self
                .archived
                .is_none_or(|archived| archived == location.archived)
    }

    fn into_previous_read(self) -> Option<(i64, PreviousRead)> {
        let previous = PreviousRead {
            turns: self.turns,
            last_turn_mark: self.last_turn_mark.and_then(|mark| mark.parse().ok()),
            size: self.size,
        };
        Some((self.session_id?, previous))
    }
}

pub(super) fn load_indexed_sources(
    db: &Connection,
) -> rusqlite::Result<HashMap<SourceKey, IndexedSource>> {
    let mut rows = db.prepare(
        "SELECT source.id, source.provider, path, part, size, modified, verdict, source.native_id,
             session.id, session.turns, session.state,
             (SELECT after FROM turn WHERE turn.id = (session.id << 20) + session.turns), copy,
             EXISTS (SELECT 1 FROM session AS held WHERE held.provider = source.provider
                 AND held.native_id = source.native_id AND held.source IS NOT NULL)
         FROM source LEFT JOIN session ON session.source = source.id",
    )?;
    let rows = rows.query_map([], |row| {
        let key = SourceKey {
            provider: row.get(1)?,
            path: OsString::from_vec(row.get(2)?).into(),
            id_in_file: row.get(3)?,
        };
        let state: Option<i64> = row.get(10)?;
        let source = IndexedSource {
            source_id: row.get(0)?,
            size: row.get(4)?,
            modified: row.get(5)?,
            verdict: row.get(6)?,
            native_id: row.get(7)?,
            session_id: row.get(8)?,
            turns: row.get::<_, Option<u32>>(9)?.unwrap_or(0),
            archived: state.map(|state| state == NativeStatus::Archived.code()),
            last_turn_mark: row.get(11)?,
            is_copy: row.get(12)?,
            has_source: row.get(13)?,
        };
        Ok((key, source))
    })?;
    rows.collect()
}

/// The query above computes the id of the last turn with this shift.
const _: () = assert!(turn_id(1, 0) == 1 << 20);
