//! Artifacts of a native session: the files and database rows that a copy contains and a deletion removes.
//!
//! This module reads only names, sizes and times. It never follows links, because their targets can be anywhere.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use segue_core::id::NativeId;

use crate::{ArchiveError, SessionLocation};

/// Access to the artifacts of one agent's sessions.
pub trait SessionStorage: Send + Sync {
    /// Returns the agent's home directory, which contains all artifacts.
    fn home(&self) -> &Path;

    /// Collects the artifacts of a session.
    fn collect_artifacts(
        &self,
        location: &SessionLocation,
        id: &NativeId,
    ) -> Result<SessionArtifacts, ArchiveError>;

    /// Writes a session that is stored in a database, in the format that the agent imports. Fails by default, for
    /// agents that store sessions in files.
    fn export_session(
        &self,
        location: &SessionLocation,
        id: &str,
        _: &mut dyn Write,
    ) -> Result<(), ArchiveError> {
        Err(ArchiveError::damaged(
            &location.path,
            format!("session {id} is not stored in a database"),
        ))
    }

    /// Writes an exported session into `home`, in a layout that the agent's reader can read. Fails by default.
    fn unpack_export(&self, export: &Path, _home: &Path) -> Result<(), ArchiveError> {
        Err(ArchiveError::damaged(
            export,
            "reading exports of this agent is not supported",
        ))
    }
}

/// Artifacts of one native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionArtifacts {
    /// Home directory of the agent.
    pub home: PathBuf,
    /// The artifacts. The first one is the conversation itself.
    pub artifacts: Vec<Artifact>,
    /// Directories that belong only to this session, inner directories first.
    pub directories: Vec<PathBuf>,
    /// Paths that are neither copied nor removed, because they are links, not regular files, or outside the home.
    pub skipped: Vec<PathBuf>,
}

/// A file, or database rows that can be exported to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Path relative to the agent's home.
    pub relative_path: PathBuf,
    /// Role of the artifact in the session.
    pub role: ArtifactRole,
    /// Size in bytes; 0 for rows, whose size is unknown.
    pub size: u64,
    /// Time of the last write.
    pub modified: Timestamp,
    /// Permission bits.
    pub mode: u32,
}

/// Role of an artifact in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArtifactRole {
    /// The conversation.
    Main,
    /// A file other than the conversation that belongs only to this session.
    Attachment,
    /// A file of another session that this session continues. It is copied, but never removed.
    Shared,
    /// Rows of a database, with the id of their session. Only the agent may remove them.
    Rows(String),
}

impl SessionArtifacts {
    /// Returns the total size in bytes, without rows of a database.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.artifacts.iter().map(|artifact| artifact.size).sum()
    }

    /// Returns the time of the last write to any artifact. `None` if there are no artifacts.
    #[must_use]
    pub fn modified(&self) -> Option<Timestamp> {
        self.artifacts
            .iter()
            .map(|artifact| artifact.modified)
            .max()
    }

    /// Returns the full paths of the files that belong only to this session, so that a deletion may remove them.
    pub fn own_files(&self) -> impl Iterator<Item = PathBuf> {
        let is_own = |artifact: &&Artifact| {
            matches!(artifact.role, ArtifactRole::Main | ArtifactRole::Attachment)
        };
        let own_artifacts = self.artifacts.iter().filter(is_own);
        own_artifacts.map(|artifact| self.home.join(&artifact.relative_path))
    }

    /// Returns `true` if the session is stored as rows of a database.
    #[must_use]
    pub fn is_stored_in_database(&self) -> bool {
        let mut roles = self.artifacts.iter().map(|artifact| &artifact.role);
        roles.any(|role| matches!(role, ArtifactRole::Rows(_)))
    }

    /// Removes the files that belong only to this session, but no rows and no shared files. Removes the conversation
    /// first, because without it the agent does not find the other files.
    pub fn remove_own_files(&self) -> Result<(), ArchiveError> {
        for path in self.own_files() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ArchiveError::io("remove", &path, error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        for directory in &self.directories {
            // Removing a directory fails if it is not empty, for example because it contains skipped paths. It then
            // stays.
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }
}

/// Collector of the artifacts of a session.
pub(crate) struct ArtifactCollector {
    home: PathBuf,
    /// Home with all links resolved.
    real_home: PathBuf,
    artifacts: SessionArtifacts,
}

impl ArtifactCollector {
    pub(crate) fn new(home: &Path) -> Result<Self, ArchiveError> {
        let failed = |error| ArchiveError::io("access", home, error);
        Ok(Self {
            real_home: home.canonicalize().map_err(failed)?,
            home: home.to_owned(),
            artifacts: SessionArtifacts {
                home: home.to_owned(),
                artifacts: Vec::new(),
                directories: Vec::new(),
                skipped: Vec::new(),
            },
        })
    }

    /// Adds the conversation itself. Fails unless it is a regular file inside the home.
    pub(crate) fn add_main_file(&mut self, path: &Path) -> Result<(), ArchiveError> {
        match fs::symlink_metadata(path) {
            Ok(data) if data.is_file() && self.is_inside(path) => {
                self.push_file(path, &data, ArtifactRole::Main);
                Ok(())
            }
            Ok(_) => Err(ArchiveError::OutsideHome(path.to_owned())),
            Err(error) => Err(ArchiveError::io("read", path, error)),
        }
    }

    /// Adds a file, if it exists and was not added before. A path that is not a regular file inside the home is added
    /// to `skipped`.
    pub(crate) fn add_file(&mut self, path: &Path, role: ArtifactRole) {
        let Ok(data) = fs::symlink_metadata(path) else {
            return;
        };
        if self
            .artifacts
            .artifacts
            .iter()
            .any(|artifact| self.home.join(&artifact.relative_path) == path)
        {
            return;
        }
        if data.is_file() && self.is_inside(path) {
            self.push_file(path, &data, role);
        } else {
            self.artifacts.skipped.push(path.to_owned());
        }
    }

    /// Adds a directory with all its content, if it exists. A path that is not a directory inside the home is added to
    /// `skipped`.
    pub(crate) fn add_directory(&mut self, path: &Path) {
        let Ok(data) = fs::symlink_metadata(path) else {
            return;
        };
        if !data.is_dir() || !self.is_inside(path) {
            self.artifacts.skipped.push(path.to_owned());
            return;
        }
        for child in list_directory(path) {
            if fs::symlink_metadata(&child).is_ok_and(|data| data.is_dir()) {
                self.add_directory(&child);
            } else {
                self.add_file(&child, ArtifactRole::Attachment);
            }
        }
        self.artifacts.directories.push(path.to_owned());
    }

    /// Adds rows of a database, under a file name that segue chooses.
    pub(crate) fn add_rows(&mut self, session: &str, modified: Timestamp) {
        self.artifacts.artifacts.push(Artifact {
            relative_path: Path::new("export").join(format!("{session}.json")),
            role: ArtifactRole::Rows(session.to_owned()),
            size: 0,
            modified,
            mode: 0o600,
        });
    }

    pub(crate) fn finish(self) -> SessionArtifacts {
        self.artifacts
    }

    fn push_file(&mut self, path: &Path, data: &Metadata, role: ArtifactRole) {
        let Ok(relative_path) = path.strip_prefix(&self.home) else {
            return self.artifacts.skipped.push(path.to_owned());
        };
        self.artifacts.artifacts.push(Artifact {
            relative_path: relative_path.to_owned(),
            role,
            size: data.len(),
            modified: modification_time(data),
            mode: data.permissions().mode() & 0o777,
        });
    }

    /// Returns `true` if a path is inside the home, with all links in its parent directories resolved.
    fn is_inside(&self, path: &Path) -> bool {
        let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
        directory.is_some_and(|directory| directory.starts_with(&self.real_home))
    }
}

/// Returns the paths in a directory, sorted by name. Empty if the directory can't be read.
#[must_use]
pub fn list_directory(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort_unstable();
    paths
}

/// Returns the names of a directory's entries. Empty if the directory can't be read.
pub(crate) fn list_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// Returns the modification time of a file, or the Unix epoch if the time is not available.
#[must_use]
pub fn modification_time(data: &Metadata) -> Timestamp {
    let at = data.modified().ok().and_then(|at| at.try_into().ok());
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
