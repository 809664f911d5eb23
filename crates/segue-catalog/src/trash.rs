//! Copies of deleted sessions, which remain until the user restores or purges them: `trash/<time>-<agent>-<id>/` in
//! segue's home, each in the format of the archive.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::archive::{self, Entry, KeepError, Kept, WentWith, lock, make_directory, pack, turns};
use crate::belongings::{self, entries};
use crate::{Keeping, Manifest, NativeSession, Reader};

const DIRECTORY: &str = "trash";

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
            root: home.join(DIRECTORY),
        }
    }

    /// Returns the path of a file or directory with this name in segue's home, next to the trash.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.with_file_name(name)
    }

    /// Copies a session into the trash. Does not remove the original.
    pub fn copy(
        &self,
        session: &NativeSession,
        reader: &dyn Reader,
        at: Timestamp,
    ) -> Result<Entry, KeepError> {
        let id = &session.head.id;
        let keeping = keeping(reader, session)?;
        let _lock = lock(&self.root)?;
        let belongings = keeping.belongings(&session.found, id)?;
        let draft = Manifest::of(session, keeping.home(), turns(session, reader), at);
        let path = self.place(session, at);
        let manifest = pack(keeping, &session.found, &belongings, draft, &path)?;
        Ok(Entry {
            path,
            kept: Kept::Trash,
            manifest,
        })
    }

    /// Moves an archived copy into the trash.
    pub fn take(&self, archived: &Entry, at: Timestamp) -> Result<Entry, KeepError> {
        let _lock = lock(&self.root)?;
        let path = self.place(&archived.session(), at);
        make_directory(&self.root)?;
        fs::rename(&archived.path, &path)
            .map_err(|error| KeepError::io("move", &archived.path, error))?;
        Ok(Entry {
            path,
            kept: Kept::Trash,
            manifest: archived.manifest.clone(),
        })
    }

    /// Writes into a copy which of segue's own sessions was deleted together with it.
    pub fn note(&self, copy: Entry, session: WentWith) -> Result<Entry, KeepError> {
        let _lock = lock(&self.root)?;
        copy.of_segues(session)
    }

    /// Returns all copies, the newest conversation first, and an error for each directory that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<Entry>, Vec<KeepError>) {
        archive::listed(entries(&self.root).into_iter(), Kept::Trash)
    }

    /// Removes a copy permanently.
    pub fn purge(&self, entry: &Entry) -> Result<(), KeepError> {
        let _lock = lock(&self.root)?;
        fs::remove_dir_all(&entry.path).map_err(|error| KeepError::io("remove", &entry.path, error))
    }

    /// Returns an unused path for a session.
    fn place(&self, session: &NativeSession, at: Timestamp) -> PathBuf {
        let time = at.strftime("%Y%m%dT%H%M%S");
        let name = format!("{time}-{}-{}", session.provider, session.head.id);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.root.join(name).exists());
        self.root.join(free.unwrap_or(name))
    }
}

/// Removes the files of a session. If there is a copy, fails if the files have changed since it was made.
pub(crate) fn remove_files(
    session: &NativeSession,
    reader: &dyn Reader,
    copied: Option<&Entry>,
) -> Result<(), KeepError> {
    let now = keeping(reader, session)?.belongings(&session.found, &session.head.id)?;
    if copied.is_some_and(|copied| !copied.manifest.is_of(&now)) {
        return Err(KeepError::Changing(session.found.path.clone()));
    }
    belongings::remove(&now)
}

/// Returns access to the artifacts of a session. Fails if segue does not support that for its agent.
pub(crate) fn keeping<'a>(
    reader: &'a dyn Reader,
    session: &NativeSession,
) -> Result<&'a dyn Keeping, KeepError> {
    let keeping = reader.keeping();
    keeping.ok_or_else(|| KeepError::Nothing(session.head.id.to_string()))
}
