//! Artifacts of a native session: the files and database rows that a copy contains and a deletion removes.
//!
//! This module reads only names, sizes and times. It never follows links, because their targets can be anywhere.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use segue_core::id::NativeId;

use crate::{Found, KeepError, Reader};

/// Access to the artifacts of one agent's sessions.
pub trait Keeping: Send + Sync {
    /// Returns the agent's home directory, which contains all artifacts.
    fn home(&self) -> &Path;

    /// Collects the artifacts of a session.
    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError>;

    /// Writes a session that is stored in a database, in the format that the agent imports. Fails by default, for
    /// agents that store sessions in files.
    fn export(&self, found: &Found, id: &str, _: &mut dyn Write) -> Result<(), KeepError> {
        Err(KeepError::broken(&found.path, format!("{id} is no row")))
    }

    /// Writes an exported session into `home`, in a layout that the agent's reader can read. Fails by default.
    fn lay_out(&self, export: &Path, _home: &Path) -> Result<(), KeepError> {
        Err(KeepError::broken(export, "nobody can read it"))
    }

    /// Returns a reader for this agent with another home directory.
    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader>;
}

/// Artifacts of one native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belongings {
    /// Home directory of the agent.
    pub home: PathBuf,
    /// The artifacts. The first one is the conversation itself.
    pub pieces: Vec<Piece>,
    /// Directories that serve only this session, inner directories first.
    pub directories: Vec<PathBuf>,
    /// Paths that are neither copied nor removed, because they are links, not regular files, or outside the home.
    pub left: Vec<PathBuf>,
}

/// A file, or database rows that can be exported to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Path relative to the agent's home.
    pub name: PathBuf,
    /// Role of the artifact in the session.
    pub role: Role,
    /// Size in bytes; 0 for rows, whose size is unknown.
    pub size: u64,
    /// Time of the last write.
    pub modified: Timestamp,
    /// Permission bits.
    pub mode: u32,
}

/// Role of an artifact in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The conversation.
    Main,
    /// A file that belongs to the conversation.
    Side,
    /// A file of another session, which this session continues. It is copied, but never removed.
    Shared,
    /// Rows of a database, with the id of their session. Only the agent may remove them.
    Rows(String),
}

impl Belongings {
    /// Returns the total size in bytes, without rows of a database.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    /// Returns the time of the last write to any artifact. `None` if there are no artifacts.
    #[must_use]
    pub fn modified(&self) -> Option<Timestamp> {
        self.pieces.iter().map(|piece| piece.modified).max()
    }

    /// Returns the full paths of the files that belong to this session alone.
    pub fn own_files(&self) -> impl Iterator<Item = PathBuf> {
        let own = |piece: &&Piece| matches!(piece.role, Role::Main | Role::Side);
        let own = self.pieces.iter().filter(own);
        own.map(|piece| self.home.join(&piece.name))
    }

    /// Returns `true` if the session is stored as rows of a database.
    #[must_use]
    pub fn are_rows(&self) -> bool {
        let mut roles = self.pieces.iter().map(|piece| &piece.role);
        roles.any(|role| matches!(role, Role::Rows(_)))
    }
}

/// Collector of the artifacts of a session.
pub(crate) struct Gathering {
    home: PathBuf,
    real: PathBuf,
    all: Belongings,
}

impl Gathering {
    pub(crate) fn new(home: &Path) -> Result<Self, KeepError> {
        let failed = |error| KeepError::io("look into", home, error);
        Ok(Self {
            real: home.canonicalize().map_err(failed)?,
            home: home.to_owned(),
            all: Belongings {
                home: home.to_owned(),
                pieces: Vec::new(),
                directories: Vec::new(),
                left: Vec::new(),
            },
        })
    }

    /// Adds the conversation itself. Fails unless it is a regular file inside the home.
    pub(crate) fn main(&mut self, path: &Path) -> Result<(), KeepError> {
        match fs::symlink_metadata(path) {
            Ok(data) if data.is_file() && self.is_inside(path) => {
                self.add(path, &data, Role::Main);
                Ok(())
            }
            Ok(_) => Err(KeepError::Outside(path.to_owned())),
            Err(error) => Err(KeepError::io("read", path, error)),
        }
    }

    /// Adds a file, if it exists and was not added before. A path that is not a regular file inside the home is added
    /// to `left`.
    pub(crate) fn file(&mut self, path: &Path, role: Role) {
        let Ok(data) = fs::symlink_metadata(path) else {
            return;
        };
        if self
            .all
            .pieces
            .iter()
            .any(|piece| self.home.join(&piece.name) == path)
        {
            return;
        }
        if data.is_file() && self.is_inside(path) {
            self.add(path, &data, role);
        } else {
            self.all.left.push(path.to_owned());
        }
    }

    /// Adds a directory with all its content, if it exists. A path that is not a directory inside the home is added to
    /// `left`.
    pub(crate) fn tree(&mut self, path: &Path) {
        let Ok(data) = fs::symlink_metadata(path) else {
            return;
        };
        if !data.is_dir() || !self.is_inside(path) {
            self.all.left.push(path.to_owned());
            return;
        }
        for inside in entries(path) {
            if fs::symlink_metadata(&inside).is_ok_and(|data| data.is_dir()) {
                self.tree(&inside);
            } else {
                self.file(&inside, Role::Side);
            }
        }
        self.all.directories.push(path.to_owned());
    }

    /// Adds rows of a database, under a file name that segue chooses.
    pub(crate) fn rows(&mut self, session: &str, modified: Timestamp) {
        self.all.pieces.push(Piece {
            name: Path::new("export").join(format!("{session}.json")),
            role: Role::Rows(session.to_owned()),
            size: 0,
            modified,
            mode: 0o600,
        });
    }

    pub(crate) fn done(self) -> Belongings {
        self.all
    }

    fn add(&mut self, path: &Path, data: &Metadata, role: Role) {
        let Ok(name) = path.strip_prefix(&self.home) else {
            return self.all.left.push(path.to_owned());
        };
        self.all.pieces.push(Piece {
            name: name.to_owned(),
            role,
            size: data.len(),
            modified: written(data),
            mode: data.permissions().mode() & 0o777,
        });
    }

    /// Returns `true` if a path is inside the home, with all links in its parent directories resolved.
    fn is_inside(&self, path: &Path) -> bool {
        let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
        directory.is_some_and(|directory| directory.starts_with(&self.real))
    }
}

/// Returns the paths in a directory, sorted by name. Empty if the directory can't be read.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort_unstable();
    paths
}

/// Returns the modification time of a file, or the Unix epoch if the time is not available.
pub(crate) fn written(data: &Metadata) -> Timestamp {
    let at = data.modified().ok().and_then(|at| at.try_into().ok());
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns `true` if a name stays inside the directory to which it is joined.
pub(crate) fn stays_inside(name: &Path) -> bool {
    let mut parts = name.components();
    name.components().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Removes the files that belong to this session alone. Removes the conversation first, because without it the agent
/// does not find the other files. Does not remove rows and shared files.
pub(crate) fn remove(belongings: &Belongings) -> Result<(), KeepError> {
    for path in belongings.own_files() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(KeepError::io("remove", &path, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    for directory in &belongings.directories {
        // A directory that is not empty contains files of other sessions, so this failure is ignored.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
