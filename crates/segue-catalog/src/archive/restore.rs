//! Restoring the files of a copy to their original paths.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::manifest::Packed;
use super::pack::{Hashing, hash_of, sync_directory, unpack_to};
use super::{Entry, KeepError};
use crate::Role;

/// Modification times of restored files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// The original times.
    Kept,
    /// The current time, so that an agent that deletes old sessions does not delete the restored one.
    Now(SystemTime),
}

/// Outcome of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutBack {
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Files that already existed.
    pub there: Vec<PathBuf>,
    /// Files with sessions that only the agent itself can import.
    pub exports: Vec<PathBuf>,
}

/// Action for one file of a copy.
enum Step<'a> {
    Write(&'a Packed, PathBuf),
    There(PathBuf),
    Hand(&'a Packed, PathBuf),
}

impl Entry {
    /// Restores all files into `home`. Changes nothing if one of them exists and differs, or if one would be written
    /// outside of the home. Sessions that only the agent can import are written into `exports`.
    pub fn restore(&self, home: &Path, exports: &Path, times: Times) -> Result<PutBack, KeepError> {
        let mut steps = Vec::new();
        for file in &self.manifest.files {
            steps.push(step(file, home, exports)?);
            super::pack::verify(&self.path, file)?;
        }
        let mut outcome = PutBack::default();
        for step in steps {
            match step {
                Step::There(path) => outcome.there.push(path),
                Step::Write(file, path) => {
                    write(&self.path, file, &path, times)?;
                    outcome.files.push(path);
                }
                Step::Hand(file, path) => {
                    write(&self.path, file, &path, Times::Kept)?;
                    outcome.exports.push(path);
                }
            }
        }
        Ok(outcome)
    }
}

fn step<'a>(file: &'a Packed, home: &Path, exports: &Path) -> Result<Step<'a>, KeepError> {
    if let Role::Rows(session) = &file.piece.role {
        return Ok(Step::Hand(file, exports.join(format!("{session}.json"))));
    }
    let path = home.join(&file.piece.name);
    leads_inside(home, &path)?;
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Step::Write(file, path)),
        Err(error) => Err(KeepError::io("look at", &path, error)),
        Ok(data) if !data.is_file() => Err(KeepError::Differs(path)),
        Ok(_) => match hash_of(&path) {
            Ok((size, hash)) if size == file.piece.size && hash == file.sha256 => {
                Ok(Step::There(path))
            }
            // A file of another session may have grown since the copy. It still contains the part that this session
            // needs.
            Ok(_) if file.piece.role == Role::Shared => Ok(Step::There(path)),
            Ok(_) => Err(KeepError::Differs(path)),
            Err(error) => Err(KeepError::io("read", &path, error)),
        },
    }
}

/// Fails if a parent directory of `path` leads out of the home through a link.
fn leads_inside(home: &Path, path: &Path) -> Result<(), KeepError> {
    let Ok(real) = home.canonicalize() else {
        // The home does not exist yet, so it contains no links.
        return Ok(());
    };
    let mut above = path.ancestors().skip(1);
    let there = above.find(|directory| directory.exists());
    match there.map(Path::canonicalize) {
        Some(Ok(directory)) if directory.starts_with(&real) => Ok(()),
        _ => Err(KeepError::Outside(path.to_owned())),
    }
}

/// Writes a file atomically. Fails if another file exists at `path`, except on file systems without hard links.
pub(super) fn write(
    place: &Path,
    file: &Packed,
    path: &Path,
    times: Times,
) -> Result<(), KeepError> {
    let failed = |error| KeepError::io("write", path, error);
    let directory = path.parent().unwrap_or(path);
    super::make_directory(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".segue-{}-{name}", std::process::id()));
    let written = write_beside(place, file, &beside, times).and_then(|()| {
        let linked = fs::hard_link(&beside, path);
        match linked {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(KeepError::Differs(path.to_owned()))
            }
            // Not all file systems support hard links.
            Err(_) => fs::rename(&beside, path).map_err(failed),
        }
    });
    let _ = fs::remove_file(&beside);
    written?;
    sync_directory(directory).map_err(failed)
}

fn write_beside(place: &Path, file: &Packed, beside: &Path, times: Times) -> Result<(), KeepError> {
    let failed = |error| KeepError::io("write", beside, error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let target = options.open(beside).map_err(failed)?;
    let mut through = Hashing::new(target);
    unpack_to(place, file, &mut through)?;
    let (_, _, target) = through.done();
    settle(&target, file, times).map_err(failed)
}

fn settle(target: &File, file: &Packed, times: Times) -> io::Result<()> {
    let modified = match times {
        Times::Kept => SystemTime::from(file.piece.modified),
        Times::Now(now) => now,
    };
    target.set_permissions(Permissions::from_mode(file.piece.mode))?;
    target.set_times(FileTimes::new().set_modified(modified))?;
    target.sync_all()
}
