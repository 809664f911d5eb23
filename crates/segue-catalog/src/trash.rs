//! Copies of deleted sessions, which remain until the user restores or purges them: `trash/<time>-<agent>-<id>/` in
//! segue's home, each in the format of the archive.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::archive::{
    self, ArchivedSession, CopyLocation, DeletedWith, acquire_lock, count_turns,
    create_private_dir, pack_session,
};
use crate::{ArchiveError, Manifest, NativeSession, Reader, SessionStorage, list_directory};

const TRASH_DIR_NAME: &str = "trash";

/// The trash, with copies of deleted sessions.
#[derive(Debug, Clone)]
pub struct Trash {
    root: PathBuf,
}

impl Trash {
    /// Returns the trash in segue's home. Does not create its directory; the first write does.
    #[must_use]
    pub fn open(home: &Path) -> Self {
        Self {
            root: home.join(TRASH_DIR_NAME),
        }
    }

    /// Returns the path of a file or directory with this name in segue's home, next to the trash.
    #[must_use]
    pub fn sibling_path(&self, name: &str) -> PathBuf {
        self.root.with_file_name(name)
    }

    /// Copies a session into the trash. Does not remove the original.
    pub fn copy_session(
        &self,
        session: &NativeSession,
        reader: &dyn Reader,
        at: Timestamp,
    ) -> Result<ArchivedSession, ArchiveError> {
        let id = &session.head.id;
        let storage = require_storage(reader, session)?;
        let _lock = acquire_lock(&self.root)?;
        let artifacts = storage.collect_artifacts(&session.location, id)?;
        let draft =
            Manifest::for_session(session, storage.home(), count_turns(session, reader), at);
        let path = self.unused_copy_dir(session, at);
        let manifest = pack_session(storage, &session.location, &artifacts, draft, &path)?;
        Ok(ArchivedSession {
            path,
            location: CopyLocation::Trash,
            manifest,
        })
    }

    /// Moves an archived copy into the trash.
    pub fn move_archived(
        &self,
        archived: &ArchivedSession,
        at: Timestamp,
    ) -> Result<ArchivedSession, ArchiveError> {
        let _lock = acquire_lock(&self.root)?;
        let path = self.unused_copy_dir(&archived.native_session(), at);
        create_private_dir(&self.root)?;
        fs::rename(&archived.path, &path)
            .map_err(|error| ArchiveError::io("move", &archived.path, error))?;
        Ok(ArchivedSession {
            path,
            location: CopyLocation::Trash,
            manifest: archived.manifest.clone(),
        })
    }

    /// Writes into a copy which of segue's own sessions was deleted together with it.
    pub fn record_deleted_with(
        &self,
        copy: ArchivedSession,
        session: DeletedWith,
    ) -> Result<ArchivedSession, ArchiveError> {
        let _lock = acquire_lock(&self.root)?;
        copy.record_deleted_with(session)
    }

    /// Returns all copies, the newest conversation first, and an error for each directory that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<ArchivedSession>, Vec<ArchiveError>) {
        archive::list_entries(list_directory(&self.root).into_iter(), CopyLocation::Trash)
    }

    /// Removes a copy permanently.
    pub fn purge(&self, entry: &ArchivedSession) -> Result<(), ArchiveError> {
        let _lock = acquire_lock(&self.root)?;
        fs::remove_dir_all(&entry.path)
            .map_err(|error| ArchiveError::io("remove", &entry.path, error))
    }

    /// Returns an unused path for a session.
    fn unused_copy_dir(&self, session: &NativeSession, at: Timestamp) -> PathBuf {
        let time = at.strftime("%Y%m%dT%H%M%S");
        let name = format!("{time}-{}-{}", session.provider, session.head.id);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.root.join(name).exists());
        self.root.join(free.unwrap_or(name))
    }
}

/// Removes the files of a session. If there is a copy, fails if the files have changed since it was made.
pub(crate) fn remove_session_files(
    session: &NativeSession,
    reader: &dyn Reader,
    copy: Option<&ArchivedSession>,
) -> Result<(), ArchiveError> {
    let current =
        require_storage(reader, session)?.collect_artifacts(&session.location, &session.head.id)?;
    if copy.is_some_and(|copy| !copy.manifest.is_up_to_date(&current)) {
        return Err(ArchiveError::Changing(session.location.path.clone()));
    }
    current.remove_own_files()
}

/// Returns access to the artifacts of a session. Fails if segue does not support that for its agent.
pub(crate) fn require_storage<'a>(
    reader: &'a dyn Reader,
    session: &NativeSession,
) -> Result<&'a dyn SessionStorage, ArchiveError> {
    let storage = reader.storage();
    storage.ok_or_else(|| ArchiveError::NotFound(session.head.id.to_string()))
}
