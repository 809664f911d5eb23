//! Everything that belongs to one native session: what a copy of it needs, and what a deletion removes.
//!
//! Only names, sizes and times are looked at here. A link is never followed: what it leads to may be anything.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use segue_core::NativeId;

use crate::{Found, KeepError, Reader};

/// What an agent's sessions consist of.
pub trait Keeping: Send + Sync {
    /// The agent's home, which all of it is in.
    fn home(&self) -> &Path;

    /// Everything that belongs to a session.
    fn belongings(&self, found: &Found, id: &NativeId) -> Result<Belongings, KeepError>;

    /// Writes out a session that is in a database, in the form in which the agent takes it back.
    fn export(&self, found: &Found, id: &str, _: &mut dyn Write) -> Result<(), KeepError> {
        Err(KeepError::broken(&found.path, format!("{id} is no row")))
    }

    /// Puts an exported session down in `home` so that it can be read there.
    fn lay_out(&self, export: &Path, _home: &Path) -> Result<(), KeepError> {
        Err(KeepError::broken(export, "nobody can read it"))
    }

    /// The same agent with another home.
    fn elsewhere(&self, home: PathBuf) -> Arc<dyn Reader>;
}

/// Everything that belongs to one native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Belongings {
    /// The agent's home.
    pub home: PathBuf,
    /// What there is; the conversation itself comes first.
    pub pieces: Vec<Piece>,
    /// Directories that are of no use without it, the inner ones first.
    pub directories: Vec<PathBuf>,
    /// What is beside them and stays, since it is a link or nothing that can be copied.
    pub left: Vec<PathBuf>,
}

/// A file, or what can be made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it is in the agent's home.
    pub name: PathBuf,
    /// What it is to the session.
    pub role: Role,
    /// How large it is; unknown of rows.
    pub size: u64,
    /// When it was last written.
    pub modified: Timestamp,
    /// Who may read and write it.
    pub mode: u32,
}

/// What a piece is to its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The conversation.
    Main,
    /// What goes with it.
    Side,
    /// A part of another session that this one goes on from: copied, never removed.
    Shared,
    /// Rows of a database, which only the agent may remove: those of this session.
    Rows(String),
}

impl Belongings {
    /// How large they are together, as far as is known.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    /// When anything of them was last written.
    #[must_use]
    pub fn modified(&self) -> Option<Timestamp> {
        self.pieces.iter().map(|piece| piece.modified).max()
    }

    /// The files that are the session's own, with their whole paths.
    pub fn own_files(&self) -> impl Iterator<Item = PathBuf> {
        let own = |piece: &&Piece| matches!(piece.role, Role::Main | Role::Side);
        let own = self.pieces.iter().filter(own);
        own.map(|piece| self.home.join(&piece.name))
    }

    /// Whether they are rows of a database.
    #[must_use]
    pub fn are_rows(&self) -> bool {
        let mut roles = self.pieces.iter().map(|piece| &piece.role);
        roles.any(|role| matches!(role, Role::Rows(_)))
    }
}

/// Collects the belongings of a session.
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

    /// The conversation itself; it must be a file in the home.
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

    /// One more file, if it is there.
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

    /// A directory with all that is in it, if it is there.
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

    /// Rows of a database, under a name of our own.
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

    /// Whether a path is in the home and no directory on the way to it leads out of there.
    fn is_inside(&self, path: &Path) -> bool {
        let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
        directory.is_some_and(|directory| directory.starts_with(&self.real))
    }
}

/// What is in a directory, in the order of names.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort_unstable();
    paths
}

/// When a file was written.
pub(crate) fn written(data: &Metadata) -> Timestamp {
    let at = data.modified().ok().and_then(|at| at.try_into().ok());
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether a name stays in the directory that it is joined to.
pub(crate) fn stays_inside(name: &Path) -> bool {
    let mut parts = name.components();
    name.components().next().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Removes what is a session's own, the conversation first: without it the agent does not find the rest. Rows and
/// what is shared stay.
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
        // One that is not empty has something in it that is not ours to remove.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
