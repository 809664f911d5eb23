//! Copies of native sessions in segue's own home, which outlive whatever their agents clean up.
//!
//! `archive/<agent>/<id>/` has a manifest and, named by its hash, each file of the session packed with zstd. The manifest
//! is written last and replaced at once, so a copy is there whole or not at all; before that everything is read back.

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
use segue_core::{NativeId, ProviderId};

pub use self::error::KeepError;
pub use self::manifest::{Called, Manifest, Packed, WentWith};
pub use self::restore::{PutBack, Times};
use crate::belongings::entries;
use crate::{Found, IdHint, NativeSession, Reader, Start, outline, trash};

pub(crate) use self::pack::pack;

/// Where the archive is in segue's home.
const DIRECTORY: &str = "archive";
/// Where archived sessions are unpacked to be read; no agent is called so.
const OPENED: &str = ".opened";
/// How many of them are left unpacked, for whoever reads one again.
const OPEN: usize = 8;

/// The copies of native sessions.
#[derive(Debug, Clone)]
pub struct Archive {
    root: PathBuf,
}

/// A copy of a session, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its directory.
    pub path: PathBuf,
    /// Who has it.
    pub kept: Kept,
    /// What it is a copy of.
    pub manifest: Manifest,
}

/// Who has a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The archive.
    Archive,
    /// The trash.
    Trash,
}

impl Kept {
    /// What it is called.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Trash => "trash",
        }
    }
}

/// What came of archiving a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// It is there now.
    New(Entry),
    /// It was there, and has changed since.
    Renewed(Entry),
    /// It is there as it is.
    Already(Entry),
}

impl Saved {
    /// The copy.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        match self {
            Self::New(entry) | Self::Renewed(entry) | Self::Already(entry) => entry,
        }
    }
}

impl Archive {
    /// The archive in segue's home. Nothing is made before it is needed.
    #[must_use]
    pub fn open(home: &Path) -> Self {
        Self {
            root: home.join(DIRECTORY),
        }
    }

    fn place(&self, provider: &ProviderId, id: &NativeId) -> PathBuf {
        self.root.join(provider.as_str()).join(id.as_str())
    }

    /// The copy of a session, if there is one.
    pub fn entry(&self, provider: &ProviderId, id: &NativeId) -> Result<Option<Entry>, KeepError> {
        entry(&self.place(provider, id), Kept::Archive)
    }

    /// Whether there is a copy of a session as it is now.
    #[must_use]
    pub fn contains(&self, session: &NativeSession, reader: &dyn Reader) -> bool {
        let entry = self.entry(&session.provider, &session.head.id);
        let (Ok(Some(entry)), Some(keeping)) = (entry, reader.keeping()) else {
            return false;
        };
        let belongings = keeping.belongings(&session.found, &session.head.id);
        belongings.is_ok_and(|belongings| entry.manifest.is_of(&belongings))
    }

    /// Copies a session, unless there is a copy of it as it is.
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
        // A copy that can't be read is as good as none, and is made again.
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

    /// All copies, the newest conversation first, and the directories that can't be read.
    #[must_use]
    pub fn list(&self) -> (Vec<Entry>, Vec<KeepError>) {
        let agents = entries(&self.root).into_iter();
        let agents = agents.filter(|path| path.file_name().is_some_and(|name| name != OPENED));
        let places = agents.flat_map(|path| entries(&path));
        listed(places, Kept::Archive)
    }

    /// Where the copies are, without a look into them. A manifest that is written anew is a new file; how large the
    /// session is, it does not tell from outside.
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

    /// The copies of one agent's sessions whose ids begin with `text`; of all agents' if none is named.
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

    /// Removes a copy.
    pub fn remove(&self, entry: &Entry) -> Result<(), KeepError> {
        let _lock = lock(&self.root)?;
        self.close(entry);
        fs::remove_dir_all(&entry.path).map_err(|error| KeepError::io("remove", &entry.path, error))
    }

    /// Forgets what was unpacked of a copy; it is unpacked again when it is read.
    pub fn close(&self, entry: &Entry) {
        let _ = fs::remove_dir_all(self.opened(&entry.manifest));
    }

    /// Whether a session is one that only the archive has.
    pub(crate) fn has(&self, session: &NativeSession) -> bool {
        session.found.path.starts_with(&self.root)
    }

    fn opened(&self, manifest: &Manifest) -> PathBuf {
        let agents = self.root.join(OPENED).join(manifest.provider.as_str());
        agents.join(manifest.id.as_str())
    }

    /// Unpacks a copy into a directory of its own, unless that was done before, and tells where the session is there.
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
    /// The session, as far as the copy tells without being unpacked.
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

    /// The same copy, with a note of which of segue's own sessions went with it.
    pub(crate) fn of_segues(mut self, session: WentWith) -> Result<Self, KeepError> {
        self.manifest.went_with = Some(session);
        pack::write_manifest(&self.manifest, &self.path)?;
        Ok(self)
    }

    /// How much room it takes.
    #[must_use]
    pub fn packed_size(&self) -> u64 {
        let files = self.manifest.files.iter();
        files.map(|file| file.packed).sum()
    }
}

/// How many turns a session has; none if it can't be read through.
pub(crate) fn turns(session: &NativeSession, reader: &dyn Reader) -> Option<u32> {
    let mut records = reader.records(&session.found, &Start::Beginning).ok()?;
    let outlined = outline(records.as_mut()).ok()?;
    u32::try_from(outlined.turns().len()).ok()
}

/// The copy in a directory; none if there is none, or if it was never finished.
pub(crate) fn entry(place: &Path, kept: Kept) -> Result<Option<Entry>, KeepError> {
    let manifest = Manifest::read(place)?;
    Ok(manifest.map(|manifest| Entry {
        path: place.to_owned(),
        kept,
        manifest,
    }))
}

/// The copies in these directories, the newest conversation first, and what could not be read of them.
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

/// Makes a directory that nobody else may look into.
pub(crate) fn make_directory(path: &Path) -> Result<(), KeepError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    let made = builder.create(path);
    made.map_err(|error| KeepError::io("make", path, error))
}

/// One writer at a time; the lock is given back when the file is dropped.
pub(crate) fn lock(root: &Path) -> Result<File, KeepError> {
    let path = root.join(".lock");
    let failed = |error| KeepError::io("lock", &path, error);
    // A directory that can't be made in an agent's home is something else than one that can't in ours.
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
