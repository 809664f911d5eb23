//! Unpacking of a copy into a directory of its own, in which it is read like any other session.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pack::hash_of;
use super::restore::{Times, write};
use super::{Entry, KeepError, make_directory, manifest};
use crate::{Found, Keeping, Reader, Role};

/// File with the hash of the manifest from which a directory was unpacked.
const MARK: &str = ".of";

pub(super) fn unpack(
    entry: &Entry,
    keeping: &dyn Keeping,
    into: &Path,
) -> Result<(Arc<dyn Reader>, Found), KeepError> {
    let manifest = entry.path.join(manifest::NAME);
    let (_, hash) = hash_of(&manifest).map_err(|error| KeepError::io("read", &manifest, error))?;
    let mark = into.join(MARK);
    if fs::read_to_string(&mark).is_ok_and(|known| known == hash)
        && let Ok(found) = locate(entry, keeping, into)
    {
        // The write updates the time of the file, which `close_all_but` reads as the time of the last use.
        let _ = fs::write(&mark, &hash);
        return Ok(found);
    }
    let failed = |error| KeepError::io("unpack into", into, error);
    if into.exists() {
        fs::remove_dir_all(into).map_err(failed)?;
    }
    make_directory(into)?;
    for file in &entry.manifest.files {
        let path = into.join(&file.piece.name);
        write(&entry.path, file, &path, Times::Kept)?;
        if matches!(file.piece.role, Role::Rows(_)) {
            keeping.lay_out(&path, into)?;
        }
    }
    let found = locate(entry, keeping, into)?;
    fs::write(&mark, hash).map_err(failed)?;
    Ok(found)
}

/// Removes unpacked copies, except for the `few` that were used last.
pub(super) fn close_all_but(few: usize, opened: impl Iterator<Item = PathBuf>) {
    let used = |path: &PathBuf| fs::metadata(path.join(MARK)).and_then(|mark| mark.modified());
    let mut opened: Vec<PathBuf> = opened.collect();
    // A directory without the file was never completed, and is sorted last.
    opened.sort_by_cached_key(|path| std::cmp::Reverse(used(path).ok()));
    for path in opened.iter().skip(few) {
        let _ = fs::remove_dir_all(path);
    }
}

fn locate(
    entry: &Entry,
    keeping: &dyn Keeping,
    into: &Path,
) -> Result<(Arc<dyn Reader>, Found), KeepError> {
    let reader = keeping.elsewhere(into.to_owned());
    let id = &entry.manifest.id;
    let mut found = reader.find().found.into_iter();
    let is_it = |found: &Found| {
        let fits = found.id.fits(id.as_str());
        fits && reader.head(found).is_ok_and(|head| head.id == *id)
    };
    // If two files have the same id, the larger one contains the conversation.
    let mut all: Vec<Found> = found.by_ref().filter(is_it).collect();
    all.sort_by_key(|found| found.size);
    let found = all.pop();
    let found = found.ok_or_else(|| KeepError::broken(&entry.path, "there is no session in it"))?;
    Ok((
        reader,
        Found {
            archived: true,
            ..found
        },
    ))
}
