//! Copies of native sessions in segue's home, which remain after an agent deletes the originals.
//!
//! `archive/<agent>/<id>/` contains a manifest and the files of the session, each compressed with zstd and named by its
//! hash. segue reads every compressed file back, and only then writes the manifest, which replaces an older one
//! atomically. A copy is therefore either complete or absent.

mod error;
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

pub use self::error::KeepError;
pub use self::manifest::{Called, Manifest, Packed, WentWith};
pub use self::restore::{PutBack, Times};
use crate::belongings::entries;
use crate::{Found, IdHint, NativeSession, Reader, Start, outline, trash};

pub(crate) use self::pack::pack;

/// Directory of the archive in segue's home.
const DIRECTORY: &str = "archive";
/// Directory into which archived sessions are unpacked to be read. No agent has this name.
const OPENED: &str = ".opened";
/// Maximum number of sessions that stay unpacked, so that reading one of them a second time is fast.
const OPEN: usize = 8;

/// The copies of native sessions.
#[derive(Debug, Clone)]
pub struct Archive {
    root: PathBuf,
}

/// A copy of a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Directory of the copy.
    pub path: PathBuf,
    /// Storage that contains the copy.
    pub kept: Kept,
    /// Manifest of the copy, which describes the session.
    pub manifest: Manifest,
}

/// Storage that contains a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The archive, for copies of existing and of lost sessions.
    Archive,
    /// The trash, for copies of deleted sessions.
    Trash,
}

impl Kept {
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
pub enum Saved {
    /// The archive had no readable copy, and has one now.
    New(Entry),
    /// The archive had an outdated copy, which was replaced.
    Renewed(Entry),
    /// The archive already had an up-to-date copy.
    Already(Entry),
}

impl Saved {
    /// Returns the copy.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        match self {
            Self::New(entry) | Self::Renewed(entry) | Self::Already(entry) => entry,
        }
    }
}

impl Archive {
    /// Returns the archive in segue's home. Does not create its directory; the first write does.
    #[must_use]
    pub fn open(home: &Path) -> Self {
        Self {
            root: home.join(DIRECTORY),
        }
    }

    fn place(&self, provider: &ProviderId, id: &NativeId) -> PathBuf {
        self.root.join(provider.as_str()).join(id.as_str())
    }

    /// Returns the copy of a session, or `None` if the archive has none. Fails if the manifest can't be read.
    pub fn entry(&self, provider: &ProviderId, id: &NativeId) -> Result<Option<Entry>, KeepError> {
        entry(&self.place(provider, id), Kept::Archive)
    }

    /// Returns `true` if the archive has an up-to-date copy of a session.
    #[must_use]
    pub fn contains(&self, session: &NativeSession, reader: &dyn Reader) -> bool {
        let entry = self.entry(&session.provider, &session.head.id);
        let (Ok(Some(entry)), Some(keeping)) = (entry, reader.keeping()) else {
            return false;
        };
        let belongings = keeping.belongings(&session.found, &session.head.id);
        belongings.is_ok_and(|belongings| entry.manifest.is_of(&belongings))
    }

    /// Copies a session into the archive, unless the copy in the archive is up to date.
    pub fn save(
        &self,
        session: &NativeSession,
        reader: &dyn Reader,
        at: Timestamp,
    ) -> Result<Saved, KeepError> {
        let (provider, id) = (&session.provider, &session.head.id);
        let keeping = trash::keeping(reader, session)?;
        let _lock = lock(&self.root)?;
        let place = self.place(provider, id);
        // An unreadable copy is replaced as if it were missing.
        let before = self.entry(provider, id).ok().flatten();
        let belongings = keeping.belongings(&session.found, id)?;
        if let Some(entry) = before.clone()
            && entry.manifest.is_of(&belongings)
        {
            return Ok(Saved::Already(entry));
        }
        let turns = turns(session, reader);
        let draft = Manifest::of(session, keeping.home(), turns, at);
        let manifest = pack(keeping, &session.found, &belongings, draft, &place)?;
        let entry = Entry {
            path: place,
            kept: Kept::Archive,
            manifest,
        };
        Ok(match before {
            Some(_) => Saved::Renewed(entry),
            None => Saved::New(entry),
        })
    }

    /// Returns all copies, the newest conversation first, and an error for each directory that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<Entry>, Vec<KeepError>) {
        let agents = entries(&self.root).into_iter();
        let agents = agents.filter(|path| path.file_name().is_some_and(|name| name != OPENED));
        let places = agents.flat_map(|path| entries(&path));
        listed(places, Kept::Archive)
    }

    /// Returns the location of every copy, without reading the manifests. A replaced copy is visible in the
    /// modification time of its manifest, which is always written as a new file. `size` is 0, because the size of the
    /// session is in the manifest.
    pub(crate) fn walk(&self) -> Vec<(ProviderId, Found)> {
        let mut found = Vec::new();
        for agent in entries(&self.root) {
            let name = agent.file_name().and_then(|name| name.to_str());
            let Some(provider) = name.and_then(|name| ProviderId::parse(name).ok()) else {
                continue;
            };
            for place in entries(&agent) {
                let path = place.join(manifest::NAME);
                let id = place.file_name().and_then(|name| name.to_str());
                let (Some(id), Ok(data)) = (id, fs::metadata(&path)) else {
                    continue;
                };
                let modified = data.modified().ok().and_then(|at| at.try_into().ok());
                let found_here = Found {
                    path,
                    id: IdHint::Whole(id.to_owned()),
                    size: 0,
                    modified: modified.unwrap_or(Timestamp::UNIX_EPOCH),
                    archived: true,
                };
                found.push((provider.clone(), found_here));
            }
        }
        found
    }

    /// Returns the copies of sessions whose ids begin with `text`, of one agent or, if `provider` is `None`, of all
    /// agents.
    pub(crate) fn lookup(&self, provider: Option<&ProviderId>, text: &str) -> Vec<Entry> {
        let agents = entries(&self.root).into_iter();
        let agents = agents.filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| {
                name != OPENED && provider.is_none_or(|provider| provider.as_str() == name)
            })
        });
        let begins = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(text))
        };
        let places = agents.flat_map(|path| entries(&path)).filter(begins);
        listed(places, Kept::Archive).0
    }

    /// Removes a copy and its unpacked files.
    pub fn remove(&self, entry: &Entry) -> Result<(), KeepError> {
        let _lock = lock(&self.root)?;
        self.close(entry);
        fs::remove_dir_all(&entry.path).map_err(|error| KeepError::io("remove", &entry.path, error))
    }

    /// Removes the unpacked files of a copy. The next read unpacks the copy.
    pub fn close(&self, entry: &Entry) {
        let _ = fs::remove_dir_all(self.opened(&entry.manifest));
    }

    /// Returns `true` if a session was found in the archive and not in its agent's home.
    pub(crate) fn has(&self, session: &NativeSession) -> bool {
        session.found.path.starts_with(&self.root)
    }

    fn opened(&self, manifest: &Manifest) -> PathBuf {
        let agents = self.root.join(OPENED).join(manifest.provider.as_str());
        agents.join(manifest.id.as_str())
    }

    /// Unpacks a copy into a directory of its own, unless an earlier call did. Returns a reader for that directory and
    /// the location of the session in it. Removes the least recently used unpacked copies.
    pub fn unpack(
        &self,
        entry: &Entry,
        reader: &dyn Reader,
    ) -> Result<(Arc<dyn Reader>, Found), KeepError> {
        let keeping = trash::keeping(reader, &entry.session())?;
        let _lock = lock(&self.root)?;
        let found = unpack::unpack(entry, keeping, &self.opened(&entry.manifest))?;
        let agents = entries(&self.root.join(OPENED)).into_iter();
        unpack::close_all_but(OPEN, agents.flat_map(|agent| entries(&agent)));
        Ok(found)
    }
}

impl Entry {
    /// Returns the session as the manifest describes it, without unpacking the copy.
    #[must_use]
    pub fn session(&self) -> NativeSession {
        let manifest = &self.manifest;
        NativeSession {
            provider: manifest.provider.clone(),
            found: Found {
                path: self.path.join(manifest::NAME),
                id: IdHint::Whole(manifest.id.to_string()),
                size: manifest.size(),
                modified: manifest.modified(),
                archived: true,
            },
            head: manifest.head.clone(),
        }
    }

    /// Writes into the manifest which of segue's own sessions was deleted together with this native session.
    pub(crate) fn of_segues(mut self, session: WentWith) -> Result<Self, KeepError> {
        self.manifest.went_with = Some(session);
        pack::write_manifest(&self.manifest, &self.path)?;
        Ok(self)
    }

    /// Returns the total size of the compressed files in bytes.
    #[must_use]
    pub fn packed_size(&self) -> u64 {
        let files = self.manifest.files.iter();
        files.map(|file| file.packed).sum()
    }
}

/// Counts the turns of a session. Returns `None` if the session can't be read to its end.
pub(crate) fn turns(session: &NativeSession, reader: &dyn Reader) -> Option<u32> {
    let mut records = reader.records(&session.found, &Start::Beginning).ok()?;
    let outlined = outline(records.as_mut()).ok()?;
    u32::try_from(outlined.turns().len()).ok()
}

/// Returns the copy in a directory. `None` if the directory has no manifest, because it contains no copy or an
/// unfinished one.
pub(crate) fn entry(place: &Path, kept: Kept) -> Result<Option<Entry>, KeepError> {
    let manifest = Manifest::read(place)?;
    Ok(manifest.map(|manifest| Entry {
        path: place.to_owned(),
        kept,
        manifest,
    }))
}

/// Returns the copies in the given directories, the newest conversation first, and an error for each that can't be
/// read.
pub(crate) fn listed(
    places: impl Iterator<Item = PathBuf>,
    kept: Kept,
) -> (Vec<Entry>, Vec<KeepError>) {
    let (mut all, mut unreadable) = (Vec::new(), Vec::new());
    for place in places {
        match entry(&place, kept) {
            Ok(found) => all.extend(found),
            Err(error) => unreadable.push(error),
        }
    }
    all.sort_by_key(|entry| std::cmp::Reverse(entry.manifest.head.updated_at));
    (all, unreadable)
}

/// Creates a directory and its missing parents, with access for the owner only.
pub(crate) fn make_directory(path: &Path) -> Result<(), KeepError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(path);
    made.map_err(|error| KeepError::io("make", path, error))
}

/// Waits for the lock that permits one writer at a time, and acquires it. Dropping the returned file releases the lock.
pub(crate) fn lock(root: &Path) -> Result<File, KeepError> {
    let path = root.join(".lock");
    let failed = |error| KeepError::io("lock", &path, error);
    // A failure to create segue's directory is reported as a failed lock, which distinguishes it from a failure to
    // create a directory in an agent's home.
    make_directory(root).map_err(|error| match error {
        KeepError::Io { source, .. } => failed(source),
        other => other,
    })?;
    let file = File::create(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
