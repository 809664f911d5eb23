//! Restoring the files of a copy to their original paths.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::ArchivedSession;
use super::manifest::PackedFile;
use super::pack::{HashingWriter, hash_file, sync_directory, unpack_file};
use crate::ArchiveError;
use crate::ArtifactRole;

/// Modification times of restored files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredFileTimes {
    /// The original times.
    Original,
    /// The current time, so that an agent that deletes old sessions does not delete the restored one.
    Current(SystemTime),
}

/// Outcome of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredFiles {
    /// Files that were written.
    pub files: Vec<PathBuf>,
    /// Files that already existed.
    pub existing: Vec<PathBuf>,
    /// Files with sessions that only the agent itself can import.
    pub exports: Vec<PathBuf>,
}

/// Action for one file of a copy.
enum RestoreTarget<'a> {
    Missing(&'a PackedFile, PathBuf),
    Existing(PathBuf),
    Export(&'a PackedFile, PathBuf),
}

impl ArchivedSession {
    /// Restores all files into `home`. Changes nothing if one of them exists and differs, or if one would be written
    /// outside of the home. Sessions that only the agent can import are written into `exports`.
    pub fn restore(
        &self,
        home: &Path,
        exports: &Path,
        times: RestoredFileTimes,
    ) -> Result<RestoredFiles, ArchiveError> {
        let mut targets = Vec::new();
        for file in &self.manifest.files {
            targets.push(plan_restore_target(file, home, exports)?);
            super::pack::verify_file(&self.path, file)?;
        }
        let mut outcome = RestoredFiles::default();
        for target in targets {
            match target {
                RestoreTarget::Existing(path) => outcome.existing.push(path),
                RestoreTarget::Missing(file, path) => {
                    restore_file(&self.path, file, &path, times)?;
                    outcome.files.push(path);
                }
                RestoreTarget::Export(file, path) => {
                    restore_file(&self.path, file, &path, RestoredFileTimes::Original)?;
                    outcome.exports.push(path);
                }
            }
        }
        Ok(outcome)
    }
}

fn plan_restore_target<'a>(
    file: &'a PackedFile,
    home: &Path,
    exports: &Path,
) -> Result<RestoreTarget<'a>, ArchiveError> {
    if let ArtifactRole::Rows(session) = &file.artifact.role {
        return Ok(RestoreTarget::Export(
            file,
            exports.join(format!("{session}.json")),
        ));
    }
    let path = home.join(&file.artifact.relative_path);
    check_inside_home(home, &path)?;
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(RestoreTarget::Missing(file, path))
        }
        Err(error) => Err(ArchiveError::io("access", &path, error)),
        Ok(data) if !data.is_file() => Err(ArchiveError::FileConflict(path)),
        Ok(_) => match hash_file(&path) {
            Ok((size, hash)) if size == file.artifact.size && hash == file.sha256 => {
                Ok(RestoreTarget::Existing(path))
            }
            // A file of another session may have grown since the copy. It still contains the part that this session
            // needs.
            Ok(_) if file.artifact.role == ArtifactRole::Shared => {
                Ok(RestoreTarget::Existing(path))
            }
            Ok(_) => Err(ArchiveError::FileConflict(path)),
            Err(error) => Err(ArchiveError::io("read", &path, error)),
        },
    }
}

/// Fails if a parent directory of `path` leads out of the home through a link.
fn check_inside_home(home: &Path, path: &Path) -> Result<(), ArchiveError> {
    let Ok(real_home) = home.canonicalize() else {
        // The home does not exist yet, so it contains no links.
        return Ok(());
    };
    let mut parents = path.ancestors().skip(1);
    let existing_parent = parents.find(|directory| directory.exists());
    match existing_parent.map(Path::canonicalize) {
        Some(Ok(directory)) if directory.starts_with(&real_home) => Ok(()),
        _ => Err(ArchiveError::OutsideHome(path.to_owned())),
    }
}

/// Writes a file atomically. Fails if another file exists at `path`, except on file systems without hard links.
pub(super) fn restore_file(
    copy_dir: &Path,
    file: &PackedFile,
    path: &Path,
    times: RestoredFileTimes,
) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::io("write", path, error);
    let directory = path.parent().unwrap_or(path);
    super::create_private_dir(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".segue-{}-{name}", std::process::id()));
    let result = write_temporary_file(copy_dir, file, &temporary, times).and_then(|()| {
        let linked = fs::hard_link(&temporary, path);
        match linked {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ArchiveError::FileConflict(path.to_owned()))
            }
            // Not all file systems support hard links.
            Err(_) => fs::rename(&temporary, path).map_err(failed),
        }
    });
    let _ = fs::remove_file(&temporary);
    result?;
    sync_directory(directory).map_err(failed)
}

fn write_temporary_file(
    copy_dir: &Path,
    file: &PackedFile,
    temporary: &Path,
    times: RestoredFileTimes,
) -> Result<(), ArchiveError> {
    let failed = |error| ArchiveError::io("write", temporary, error);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let target = options.open(temporary).map_err(failed)?;
    let mut writer = HashingWriter::new(target);
    unpack_file(copy_dir, file, &mut writer)?;
    let (_, _, target) = writer.into_parts();
    apply_metadata(&target, file, times).map_err(failed)
}

fn apply_metadata(target: &File, file: &PackedFile, times: RestoredFileTimes) -> io::Result<()> {
    let modified = match times {
        RestoredFileTimes::Original => SystemTime::from(file.artifact.modified),
        RestoredFileTimes::Current(now) => now,
    };
    target.set_permissions(Permissions::from_mode(file.artifact.mode))?;
    target.set_times(FileTimes::new().set_modified(modified))?;
    target.sync_all()
}
