//! Putting the files of a copy back where they were.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::manifest::Packed;
use super::pack::{Hashing, hash_of, sync_directory, unpack_to};
use super::{Entry, KeepError};
use crate::Role;

/// What becomes of the times at which the files were last written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// They are as they were.
    Kept,
    /// They are now, so that an agent that deletes what is old keeps them.
    Now(SystemTime),
}

/// What was put back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutBack {
    /// The files that are there again.
    pub files: Vec<PathBuf>,
    /// Those that were there as they were.
    pub there: Vec<PathBuf>,
    /// Sessions that only the agent itself can take back, each in a file for it.
    pub exports: Vec<PathBuf>,
}

/// What is to be done with a file.
enum Step<'a> {
    Write(&'a Packed, PathBuf),
    There(PathBuf),
    Hand(&'a Packed, PathBuf),
}

impl Entry {
    /// Puts all files back into `home`. Nothing is done if one of them is there and differs, or if one would end up
    /// outside. What only the agent can take back is put into `exports`.
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
            // What another session goes on from may have grown since; all that counts of it is there.
            Ok(_) if file.piece.role == Role::Shared => Ok(Step::There(path)),
            Ok(_) => Err(KeepError::Differs(path)),
            Err(error) => Err(KeepError::io("read", &path, error)),
        },
    }
}

/// Fails if a directory on the way is a link that leads out of the home.
fn leads_inside(home: &Path, path: &Path) -> Result<(), KeepError> {
    let Ok(real) = home.canonicalize() else {
        // The agent has no home yet, so there are no links in it.
        return Ok(());
    };
    let mut above = path.ancestors().skip(1);
    let there = above.find(|directory| directory.exists());
    match there.map(Path::canonicalize) {
        Some(Ok(directory)) if directory.starts_with(&real) => Ok(()),
        _ => Err(KeepError::Outside(path.to_owned())),
    }
}

/// Writes a file so that it is there whole or not at all, and never over another.
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
            // Not every file system has links.
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
