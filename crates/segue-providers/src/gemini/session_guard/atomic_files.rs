//! Atomic file copies: a file exists completely or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use crate::gemini::chat_file;
use crate::reader::artifacts::list_names;

/// Result of restoring a missing file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileRestoreOutcome {
    Restored,
    /// The file exists, because another process has created it since then.
    NotNeeded,
}

/// Returns the names of the session files in a directory of copies.
pub(in crate::gemini) fn list_chat_file_names(directory: &Path) -> Vec<String> {
    let mut names = list_names(directory);
    names.retain(|name| chat_file::parse_file_name(name).is_some());
    names
}

/// Returns the time of the last write to a directory or to anything in it.
pub(super) fn last_write_time(path: &Path) -> Option<SystemTime> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let names = if metadata.is_dir() {
        list_names(path)
    } else {
        Vec::new()
    };
    let write_times = names
        .iter()
        .filter_map(|name| last_write_time(&path.join(name)));
    write_times.chain(metadata.modified().ok()).max()
}

/// Writes a copy, unless an identical one exists.
pub(super) fn write_copy(bytes: &[u8], path: &Path) -> io::Result<()> {
    let same_size = fs::metadata(path).is_ok_and(|file| file.len() == bytes.len() as u64);
    if same_size && fs::read(path).is_ok_and(|existing| existing == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    write_atomically(bytes, path)
}

/// Copies the regular files of a directory, if it exists. Replaces an existing file only if the new one is longer.
pub(super) fn copy_directory_files(source_dir: &Path, target_dir: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(source_dir) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        let target = target_dir.join(entry.file_name());
        let existing_len = fs::metadata(&target).map(|file| file.len()).ok();
        let source_file = entry.metadata()?;
        if source_file.is_file()
            && existing_len.is_none_or(|existing_len| existing_len < source_file.len())
        {
            write_copy(&fs::read(entry.path())?, &target)?;
        }
    }
    Ok(())
}

/// Writes a file next to its destination, under a name that Gemini CLI ignores.
fn write_temp_file(bytes: &[u8], path: &Path) -> io::Result<PathBuf> {
    static TEMP_FILE_COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (process, number) = (
        std::process::id(),
        TEMP_FILE_COUNT.fetch_add(1, Ordering::Relaxed),
    );
    let temp_path = path.with_file_name(format!(".segue-{process}-{number}-{name}"));
    fs::write(&temp_path, bytes)?;
    Ok(temp_path)
}

/// Writes a file atomically.
pub(super) fn write_atomically(bytes: &[u8], path: &Path) -> io::Result<()> {
    let temp_path = write_temp_file(bytes, path)?;
    fs::rename(&temp_path, path).inspect_err(|_| {
        let _ = fs::remove_file(&temp_path);
    })
}

/// Writes a file atomically, and does not replace an existing file if the file system supports hard links.
pub(super) fn restore_file(bytes: &[u8], path: &Path) -> io::Result<FileRestoreOutcome> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let temp_path = write_temp_file(bytes, path)?;
    let link_result = fs::hard_link(&temp_path, path);
    let _ = fs::remove_file(&temp_path);
    match link_result {
        Ok(()) => Ok(FileRestoreOutcome::Restored),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(FileRestoreOutcome::NotNeeded)
        }
        // Not every file system supports hard links.
        Err(_) => write_atomically(bytes, path).map(|()| FileRestoreOutcome::Restored),
    }
}

/// Treats the removal of a file that does not exist as a success.
pub(super) fn ignore_not_found(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
