//! Copies of native sessions in segue's home, which remain after an agent deletes the originals.
//!
//! `archive/<agent>/<id>/` contains a manifest and the files of the session, each compressed with zstd and named by its
//! hash. segue reads every compressed file back, and only then writes the manifest, which replaces an older one
//! atomically. A copy is therefore either complete or absent.

mod manifest;
mod pack;
mod restore;
mod unpack;

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};

pub use self::manifest::{DeletedWith, Manifest, PackedFile, SessionLabels};
pub use self::restore::{RestoredFileTimes, RestoredFiles};
use crate::{
    ArchiveError, IdHint, NativeSession, ReadStart, Reader, SessionLocation, list_directory,
    modification_time, read_outline, trash,
};

pub(crate) use self::pack::pack_session;

/// Directory of the archive in segue's home.
const ARCHIVE_DIR_NAME: &str = "archive";
/// Directory into which archived sessions are unpacked to be read. No agent has this name.
const UNPACKED_DIR_NAME: &str = ".opened";
/// Maximum number of sessions that stay unpacked, so that reading one of them a second time is fast.
const MAX_UNPACKED_COPIES: usize = 8;

/// The copies of native sessions.
#[derive(Debug, Clone)]
pub struct Archive {
    root: PathBuf,
}

/// A copy of a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSession {
    /// Directory of the copy.
    pub path: PathBuf,
    /// Storage that contains the copy.
    pub location: CopyLocation,
    /// Manifest of the copy, which describes the session.
    pub manifest: Manifest,
}

/// Storage that contains a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyLocation {
    /// The archive, for copies of existing and of lost sessions.
    Archive,
    /// The trash, for copies of deleted sessions.
    Trash,
}

impl CopyLocation {
    /// Returns the name of the storage.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Trash => "trash",
        }
    }
}

/// Outcome of archiving a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveOutcome {
    /// The archive had no readable copy, and has one now.
    Created(ArchivedSession),
    /// The archive had an outdated copy, which was replaced.
    Updated(ArchivedSession),
    /// The archive already had an up-to-date copy.
    Unchanged(ArchivedSession),
}

impl ArchiveOutcome {
    /// Returns the copy.
    #[must_use]
    pub fn entry(&self) -> &ArchivedSession {
        match self {
            Self::Created(entry) | Self::Updated(entry) | Self::Unchanged(entry) => entry,
        }
    }
}

impl Archive {
    /// Returns the archive in segue's home. Does not create its directory; the first write does.
    #[must_use]
    pub fn open(home: &Path) -> Self {
        Self {
            root: home.join(ARCHIVE_DIR_NAME),
        }
    }

    fn copy_dir(&self, provider: &ProviderId, id: &NativeId) -> PathBuf {
        self.root.join(provider.as_str()).join(id.as_str())
    }

    /// Returns the copy of a session, or `None` if the archive has none. Fails if the manifest can't be read.
    pub fn find_entry(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<ArchivedSession>, ArchiveError> {
        read_entry(&self.copy_dir(provider, id), CopyLocation::Archive)
    }

    /// Returns `true` if the archive has an up-to-date copy of a session.
    #[must_use]
    pub fn has_current_copy(&self, session: &NativeSession, reader: &dyn Reader) -> bool {
        let entry = self.find_entry(&session.provider, &session.head.id);
        let (Ok(Some(entry)), Some(storage)) = (entry, reader.storage()) else {
            return false;
        };
        let artifacts = storage.collect_artifacts(&session.location, &session.head.id);
        artifacts.is_ok_and(|artifacts| entry.manifest.is_up_to_date(&artifacts))
    }

    /// Copies a session into the archive, unless the copy in the archive is up to date.
    pub fn save(
        &self,
        session: &NativeSession,
        reader: &dyn Reader,
        at: Timestamp,
    ) -> Result<ArchiveOutcome, ArchiveError> {
        let (provider, id) = (&session.provider, &session.head.id);
        let storage = trash::require_storage(reader, session)?;
        let _lock = acquire_lock(&self.root)?;
        let copy_dir = self.copy_dir(provider, id);
        // An unreadable copy is replaced as if it were missing.
        let previous = self.find_entry(provider, id).ok().flatten();
        let artifacts = storage.collect_artifacts(&session.location, id)?;
        if let Some(entry) = previous.clone()
            && entry.manifest.is_up_to_date(&artifacts)
        {
            return Ok(ArchiveOutcome::Unchanged(entry));
        }
        let turns = count_turns(session, reader);
        let draft = Manifest::for_session(session, storage.home(), turns, at);
        let manifest = pack_session(storage, &session.location, &artifacts, draft, &copy_dir)?;
        let entry = ArchivedSession {
            path: copy_dir,
            location: CopyLocation::Archive,
            manifest,
        };
        Ok(match previous {
            Some(_) => ArchiveOutcome::Updated(entry),
            None => ArchiveOutcome::Created(entry),
        })
    }

    /// Returns all copies, the newest conversation first, and an error for each directory that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<ArchivedSession>, Vec<ArchiveError>) {
        let copy_dirs = self.list_copy_dirs().into_iter();
        let copy_dirs = copy_dirs.map(|(_, _, path)| path);
        list_entries(copy_dirs, CopyLocation::Archive)
    }

    /// Returns the location of every copy, without reading the manifests. A replaced copy is visible in the
    /// modification time of its manifest, which is always written as a new file. `size` is 0, because the size of the
    /// session is in the manifest.
    pub(crate) fn list_locations(&self) -> Vec<(ProviderId, SessionLocation)> {
        let copies = self.list_copy_dirs().into_iter();
        let locations = copies.filter_map(|(provider, id, copy_dir)| {
            let path = copy_dir.join(manifest::MANIFEST_FILE_NAME);
            let modified = modification_time(&fs::metadata(&path).ok()?);
            let location = SessionLocation {
                path,
                id_hint: IdHint::Complete(id),
                size: 0,
                modified,
                archived: true,
            };
            Some((ProviderId::parse(&provider).ok()?, location))
        });
        locations.collect()
    }

    /// Returns the directory of every copy, with the names of its agent and its session.
    fn list_copy_dirs(&self) -> Vec<(String, String, PathBuf)> {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let mut copy_dirs = Vec::new();
        for agent_dir in list_directory(&self.root) {
            let Some(agent) = name(&agent_dir).filter(|agent| agent != UNPACKED_DIR_NAME) else {
                continue;
            };
            let copies = list_directory(&agent_dir).into_iter();
            copy_dirs.extend(copies.filter_map(|path| Some((agent.clone(), name(&path)?, path))));
        }
        copy_dirs
    }

    /// Returns the copies of sessions whose ids begin with `id_prefix`, of one agent or, if `provider` is `None`, of
    /// all agents.
    pub(crate) fn lookup_id_prefix(
        &self,
        provider: Option<&ProviderId>,
        id_prefix: &str,
    ) -> Vec<ArchivedSession> {
        let copy_dirs = self.list_copy_dirs().into_iter();
        let copy_dirs = copy_dirs.filter_map(|(agent, id, path)| {
            let is_provider = provider.is_none_or(|provider| provider.as_str() == agent);
            (is_provider && id.starts_with(id_prefix)).then_some(path)
        });
        list_entries(copy_dirs, CopyLocation::Archive).0
    }

    /// Removes a copy and its unpacked files.
    pub fn remove(&self, entry: &ArchivedSession) -> Result<(), ArchiveError> {
        let _lock = acquire_lock(&self.root)?;
        self.remove_unpacked(entry);
        fs::remove_dir_all(&entry.path)
            .map_err(|error| ArchiveError::io("remove", &entry.path, error))
    }

    /// Removes the unpacked files of a copy. The next read unpacks the copy.
    pub fn remove_unpacked(&self, entry: &ArchivedSession) {
        let _ = fs::remove_dir_all(self.unpacked_dir(&entry.manifest));
    }

    /// Returns `true` if a session was found in the archive and not in its agent's home.
    pub(crate) fn is_source_of(&self, session: &NativeSession) -> bool {
        session.location.path.starts_with(&self.root)
    }

    fn unpacked_dir(&self, manifest: &Manifest) -> PathBuf {
        let provider_dir = self
            .root
            .join(UNPACKED_DIR_NAME)
            .join(manifest.provider.as_str());
        provider_dir.join(manifest.id.as_str())
    }

    /// Unpacks a copy into a directory of its own, unless an earlier call did. Returns a reader for that directory and
    /// the location of the session in it. Removes the least recently used unpacked copies.
    pub fn unpack(
        &self,
        entry: &ArchivedSession,
        reader: &dyn Reader,
    ) -> Result<(Arc<dyn Reader>, SessionLocation), ArchiveError> {
        let storage = trash::require_storage(reader, &entry.native_session())?;
        let _lock = acquire_lock(&self.root)?;
        let unpacked = unpack::unpack_copy(entry, storage, &self.unpacked_dir(&entry.manifest))?;
        let agents = list_directory(&self.root.join(UNPACKED_DIR_NAME)).into_iter();
        unpack::remove_least_recently_used(
            MAX_UNPACKED_COPIES,
            agents.flat_map(|agent| list_directory(&agent)),
        );
        Ok(unpacked)
    }
}

impl ArchivedSession {
    /// Returns the session as the manifest describes it, without unpacking the copy.
    #[must_use]
    pub fn native_session(&self) -> NativeSession {
        let manifest = &self.manifest;
        NativeSession {
            provider: manifest.provider.clone(),
            location: SessionLocation {
                path: self.path.join(manifest::MANIFEST_FILE_NAME),
                id_hint: IdHint::Complete(manifest.id.to_string()),
                size: manifest.size(),
                modified: manifest.modified(),
                archived: true,
            },
            head: manifest.head.clone(),
        }
    }

    /// Writes into the manifest which of segue's own sessions was deleted together with this native session.
    pub(crate) fn record_deleted_with(
        mut self,
        session: DeletedWith,
    ) -> Result<Self, ArchiveError> {
        self.manifest.deleted_with = Some(session);
        pack::write_manifest(&self.manifest, &self.path)?;
        Ok(self)
    }

    /// Returns the total size of the compressed files in bytes.
    #[must_use]
    pub fn packed_size(&self) -> u64 {
        let files = self.manifest.files.iter();
        files.map(|file| file.packed_size).sum()
    }
}

/// Counts the turns of a session. Returns `None` if the session can't be read to its end.
pub(crate) fn count_turns(session: &NativeSession, reader: &dyn Reader) -> Option<u32> {
    let mut records = reader
        .open_records(&session.location, &ReadStart::Beginning)
        .ok()?;
    let outline = read_outline(records.as_mut()).ok()?;
    u32::try_from(outline.turns().len()).ok()
}

/// Returns the copy in a directory. `None` if the directory has no manifest, because it contains no copy or an
/// unfinished one.
pub(crate) fn read_entry(
    copy_dir: &Path,
    location: CopyLocation,
) -> Result<Option<ArchivedSession>, ArchiveError> {
    let manifest = Manifest::read(copy_dir)?;
    Ok(manifest.map(|manifest| ArchivedSession {
        path: copy_dir.to_owned(),
        location,
        manifest,
    }))
}

/// Returns the copies in the given directories, the newest conversation first, and an error for each that can't be
/// read.
pub(crate) fn list_entries(
    copy_dirs: impl Iterator<Item = PathBuf>,
    location: CopyLocation,
) -> (Vec<ArchivedSession>, Vec<ArchiveError>) {
    let (mut entries, mut unreadable) = (Vec::new(), Vec::new());
    for copy_dir in copy_dirs {
        match read_entry(&copy_dir, location) {
            Ok(found) => entries.extend(found),
            Err(error) => unreadable.push(error),
        }
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.head.updated_at));
    (entries, unreadable)
}

/// Creates a directory and its missing parents, with access for the owner only.
pub(crate) fn create_private_dir(path: &Path) -> Result<(), ArchiveError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let created = builder.create(path);
    created.map_err(|error| ArchiveError::io("create", path, error))
}

/// Waits for the lock that permits one writer at a time, and acquires it. Dropping the returned file releases the lock.
pub(crate) fn acquire_lock(root: &Path) -> Result<File, ArchiveError> {
    let path = root.join(".lock");
    let failed = |error| ArchiveError::io("lock", &path, error);
    // A failure to create segue's directory is reported as a failed lock, which distinguishes it from a failure to
    // create a directory in an agent's home.
    create_private_dir(root).map_err(|error| match error {
        ArchiveError::Io { source, .. } => failed(source),
        other => other,
    })?;
    let file = File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
