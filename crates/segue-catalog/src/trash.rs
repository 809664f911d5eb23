//! What was deleted, kept until a person takes it back or throws it away: `trash/<time>-<agent>-<id>/` in segue's home,
//! each a copy like those of the archive.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::archive::{self, Entry, KeepError, Kept, WentWith, lock, make_directory, pack, turns};
use crate::belongings::{self, entries};
use crate::{Keeping, Manifest, NativeSession, Reader};

const DIRECTORY: &str = "trash";

/// What was deleted.
#[derive(Debug, Clone)]
pub struct Trash {
    root: PathBuf,
}

impl Trash {
    /// The trash in segue's home. Nothing is made before it is needed.
    #[must_use]
    pub fn open(home: &Path) -> Self {
        Self {
            root: home.join(DIRECTORY),
        }
    }

    /// What is called so in segue's home, beside the trash.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.with_file_name(name)
    }

    /// Copies a session into the trash. It stays where it is.
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

    /// Moves a copy of the archive here.
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

    /// Notes in a copy which of segue's own sessions was deleted with it.
    pub fn note(&self, copy: Entry, session: WentWith) -> Result<Entry, KeepError> {
        let _lock = lock(&self.root)?;
        copy.of_segues(session)
    }

    /// All that is in it, the newest conversation first, and the directories that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<Entry>, Vec<KeepError>) {
        archive::listed(entries(&self.root).into_iter(), Kept::Trash)
    }

    /// Removes something for good.
    pub fn purge(&self, entry: &Entry) -> Result<(), KeepError> {
        let _lock = lock(&self.root)?;
        fs::remove_dir_all(&entry.path).map_err(|error| KeepError::io("remove", &entry.path, error))
    }

    /// A free place for a session.
    fn place(&self, session: &NativeSession, at: Timestamp) -> PathBuf {
        let time = at.strftime("%Y%m%dT%H%M%S");
        let name = format!("{time}-{}-{}", session.provider, session.head.id);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| !self.root.join(name).exists());
        self.root.join(free.unwrap_or(name))
    }
}

/// Removes the files of a session: those that were copied, if there is a copy, and only if they still are the same.
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

/// What a session consists of, if its agent's sessions are known so well.
pub(crate) fn keeping<'a>(
    reader: &'a dyn Reader,
    session: &NativeSession,
) -> Result<&'a dyn Keeping, KeepError> {
    let keeping = reader.keeping();
    keeping.ok_or_else(|| KeepError::Nothing(session.head.id.to_string()))
}
