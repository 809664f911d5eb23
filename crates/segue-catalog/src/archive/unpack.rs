//! Unpacking of a copy into a directory of its own, in which it is read like any other session.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use segue_providers::find_provider;

use super::pack::hash_file;
use super::restore::{RestoredFileTimes, restore_file};
use super::{ArchivedSession, create_private_dir, manifest};
use crate::ArchiveError;
use crate::{ArtifactRole, Reader, SessionLocation, SessionStorage};

/// File with the hash of the manifest from which a directory was unpacked.
const MANIFEST_HASH_FILE_NAME: &str = ".of";

pub(super) fn unpack_copy(
    entry: &ArchivedSession,
    storage: &dyn SessionStorage,
    target_dir: &Path,
) -> Result<(Arc<dyn Reader>, SessionLocation), ArchiveError> {
    let manifest = entry.path.join(manifest::MANIFEST_FILE_NAME);
    let (_, hash) =
        hash_file(&manifest).map_err(|error| ArchiveError::io("read", &manifest, error))?;
    let hash_path = target_dir.join(MANIFEST_HASH_FILE_NAME);
    if fs::read_to_string(&hash_path).is_ok_and(|stored_hash| stored_hash == hash)
        && let Ok(unpacked) = locate_session(entry, target_dir)
    {
        // The write updates the time of the file, which `remove_least_recently_used` reads as the time of the last use.
        let _ = fs::write(&hash_path, &hash);
        return Ok(unpacked);
    }
    let failed = |error| ArchiveError::io("unpack into", target_dir, error);
    if target_dir.exists() {
        fs::remove_dir_all(target_dir).map_err(failed)?;
    }
    create_private_dir(target_dir)?;
    for file in &entry.manifest.files {
        let path = target_dir.join(&file.artifact.relative_path);
        restore_file(&entry.path, file, &path, RestoredFileTimes::Original)?;
        if matches!(file.artifact.role, ArtifactRole::Rows(_)) {
            storage.unpack_export(&path, target_dir)?;
        }
    }
    let unpacked = locate_session(entry, target_dir)?;
    fs::write(&hash_path, hash).map_err(failed)?;
    Ok(unpacked)
}

/// Removes unpacked copies, except for the `retained` that were used last.
pub(super) fn remove_least_recently_used(
    retained: usize,
    directories: impl Iterator<Item = PathBuf>,
) {
    let last_used = |path: &PathBuf| {
        fs::metadata(path.join(MANIFEST_HASH_FILE_NAME)).and_then(|data| data.modified())
    };
    let mut directories: Vec<PathBuf> = directories.collect();
    // A directory without the file was never completed, and is sorted last.
    directories.sort_by_cached_key(|path| std::cmp::Reverse(last_used(path).ok()));
    for path in directories.iter().skip(retained) {
        let _ = fs::remove_dir_all(path);
    }
}

fn locate_session(
    entry: &ArchivedSession,
    target_dir: &Path,
) -> Result<(Arc<dyn Reader>, SessionLocation), ArchiveError> {
    let descriptor = find_provider(entry.manifest.provider.as_str())
        .ok_or_else(|| ArchiveError::NotFound(entry.manifest.id.to_string()))?;
    let reader = (descriptor.new_reader)(target_dir.to_owned(), Path::new("/"));
    let id = &entry.manifest.id;
    let mut locations = reader.scan_sessions().locations.into_iter();
    let is_match = |location: &SessionLocation| {
        let has_matching_id = location.id_hint.can_match(id.as_str());
        has_matching_id && reader.read_head(location).is_ok_and(|head| head.id == *id)
    };
    // If two files have the same id, the larger one contains the conversation.
    let mut matches: Vec<SessionLocation> = locations.by_ref().filter(is_match).collect();
    matches.sort_by_key(|location| location.size);
    let largest = matches.pop();
    let largest =
        largest.ok_or_else(|| ArchiveError::damaged(&entry.path, "it contains no session"))?;
    Ok((
        reader,
        SessionLocation {
            archived: true,
            ..largest
        },
    ))
}
