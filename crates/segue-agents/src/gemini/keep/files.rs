//! Atomic file copies: a file exists completely or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::gemini::record;

/// Result of restoring a missing file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PutBack {
    Done,
    /// The file exists, because another process has created it since then.
    NotNeeded,
}

/// Returns the names of a directory's entries.
pub(super) fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// Returns the names of the session files in a directory of copies.
pub(super) fn names_in(directory: &Path) -> Vec<String> {
    let mut names = entries(directory);
    names.retain(|name| record::name(name).is_some());
    names
}

/// Returns the time of the last write to a directory or to anything in it.
pub(super) fn last_written(path: &Path) -> Option<SystemTime> {
    let found = fs::symlink_metadata(path).ok()?;
    let inside = if found.is_dir() {
        entries(path)
    } else {
        Vec::new()
    };
    let inside = inside
        .iter()
        .filter_map(|name| last_written(&path.join(name)));
    inside.chain(found.modified().ok()).max()
}

/// Writes a copy, unless an identical one exists.
pub(super) fn copy(bytes: &[u8], to: &Path) -> io::Result<()> {
    let same_size = fs::metadata(to).is_ok_and(|file| file.len() == bytes.len() as u64);
    if same_size && fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    replace(bytes, to)
}

/// Copies the regular files of a directory, if it exists. Replaces an existing file only if the new one is longer.
pub(super) fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let known = fs::metadata(&target).map(|file| file.len()).ok();
        let found = entry.metadata()?;
        if found.is_file() && known.is_none_or(|known| known < found.len()) {
            copy(&fs::read(entry.path())?, &target)?;
        }
    }
    Ok(())
}

/// Writes a file next to its destination, under a name that Gemini CLI ignores.
fn written_beside(bytes: &[u8], path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (process, n) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let beside = path.with_file_name(format!(".segue-{process}-{n}-{name}"));
    fs::write(&beside, bytes)?;
    Ok(beside)
}

/// Writes a file atomically.
pub(super) fn replace(bytes: &[u8], path: &Path) -> io::Result<()> {
    let beside = written_beside(bytes, path)?;
    fs::rename(&beside, path).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Writes a file atomically, and does not replace an existing file if the file system supports hard links.
pub(super) fn put_back(bytes: &[u8], path: &Path) -> io::Result<PutBack> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let beside = written_beside(bytes, path)?;
    let linked = fs::hard_link(&beside, path);
    let _ = fs::remove_file(&beside);
    match linked {
        Ok(()) => Ok(PutBack::Done),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(PutBack::NotNeeded),
        // Not every file system supports hard links.
        Err(_) => replace(bytes, path).map(|()| PutBack::Done),
    }
}

/// Treats the removal of a file that does not exist as a success.
pub(super) fn removed(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
