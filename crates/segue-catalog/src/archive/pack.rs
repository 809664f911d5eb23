//! Compression of a session's files, and verification before a copy counts as complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::manifest::{self, Manifest, Packed};
use super::{KeepError, make_directory};
use crate::belongings::written;
use crate::compression::{Compressor, Decompressor};
use crate::{Belongings, Found, Keeping, Piece, Role};

/// Maximum window of a compressed file that is read: the limit of the reference implementation.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// Number of attempts to copy a file that changes during the copy.
const TRIES: u32 = 3;

/// Writes a copy of a session into `place`. Replaces an older copy only when the new one is complete.
pub(crate) fn pack(
    keeping: &dyn Keeping,
    found: &Found,
    belongings: &Belongings,
    mut manifest: Manifest,
    place: &Path,
) -> Result<Manifest, KeepError> {
    if belongings.pieces.is_empty() {
        return Err(KeepError::Nothing(manifest.id.to_string()));
    }
    let was_there = place.exists();
    make_directory(place)?;
    let packed = fill(keeping, found, belongings, &mut manifest, place);
    match packed {
        Ok(()) => {
            forget_others(&manifest, place);
            Ok(manifest)
        }
        Err(error) => {
            if was_there {
                // The older copy stays unchanged. Only the files of the failed copy are removed.
                sweep(place);
            } else {
                let _ = fs::remove_dir_all(place);
            }
            Err(error)
        }
    }
}

fn fill(
    keeping: &dyn Keeping,
    found: &Found,
    belongings: &Belongings,
    manifest: &mut Manifest,
    place: &Path,
) -> Result<(), KeepError> {
    for piece in &belongings.pieces {
        let packed = copy(keeping, found, piece, place)?;
        manifest.files.push(packed);
    }
    for file in &manifest.files {
        verify(place, file)?;
    }
    write_manifest(manifest, place)?;
    if let Some(parent) = place.parent() {
        sync_directory(parent).map_err(|error| KeepError::io("write", parent, error))?;
    }
    Ok(())
}

/// Writes the manifest of a copy, and replaces an older one atomically.
pub(super) fn write_manifest(manifest: &Manifest, place: &Path) -> Result<(), KeepError> {
    let temporary = beside(place);
    let written = write_whole(&temporary, &manifest.to_json())
        .and_then(|()| fs::rename(&temporary, place.join(manifest::NAME)))
        .and_then(|()| sync_directory(place));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        KeepError::io("write", &place.join(manifest::NAME), error)
    })
}

/// Compresses an artifact into a file that is named by its hash.
fn copy(
    keeping: &dyn Keeping,
    found: &Found,
    piece: &Piece,
    place: &Path,
) -> Result<Packed, KeepError> {
    let temporary = beside(place);
    let outcome = (0..TRIES).find_map(|_| match copy_once(keeping, found, piece, &temporary) {
        Ok(None) => None,
        Ok(Some(packed)) => Some(Ok(packed)),
        Err(error) => Some(Err(error)),
    });
    let changing = || Err(KeepError::Changing(keeping.home().join(&piece.name)));
    let packed = outcome.unwrap_or_else(changing).and_then(|packed| {
        let path = file_of(place, &packed.sha256);
        let renamed = fs::rename(&temporary, &path);
        renamed.map_err(|error| KeepError::io("write", &path, error))?;
        Ok(packed)
    });
    packed.inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Compresses an artifact. Returns `None` if it changed during the read.
fn copy_once(
    keeping: &dyn Keeping,
    found: &Found,
    piece: &Piece,
    to: &Path,
) -> Result<Option<Packed>, KeepError> {
    let failed = |error| KeepError::io("write", to, error);
    let target = create(to).map_err(failed)?;
    let mut packing = Hashing::new(Compressor::new(target));
    let mut piece = piece.clone();
    if let Role::Rows(session) = &piece.role {
        keeping.export(found, session, &mut packing)?;
    } else {
        let path = keeping.home().join(&piece.name);
        let unreadable = |error| KeepError::io("read", &path, error);
        let source = File::open(&path).map_err(unreadable)?;
        let before = source.metadata().map_err(unreadable)?;
        // Reading stops at the current size, because a file that grows faster than it is read has no end.
        copy_all(&mut source.take(before.len()), &mut packing, &path, to)?;
        let after = fs::symlink_metadata(&path).map_err(unreadable)?;
        if (before.len(), written(&before)) != (after.len(), written(&after)) {
            return Ok(None);
        }
        piece.modified = written(&after);
    }
    let (size, sha256, encoder) = packing.done();
    piece.size = size;
    let file = encoder.finish().map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let packed = file.metadata().map_err(failed)?.len();
    Ok(Some(Packed {
        piece,
        sha256,
        packed,
    }))
}

/// Copies bytes. Distinguishes a source that can't be read from a target that can't be written.
fn copy_all(
    source: &mut dyn Read,
    packing: &mut dyn Write,
    from: &Path,
    to: &Path,
) -> Result<(), KeepError> {
    let mut room = vec![0; 128 << 10];
    loop {
        let read = match source.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(KeepError::io("read", from, error)),
        };
        let piece = room.get(..read).unwrap_or_default();
        packing
            .write_all(piece)
            .map_err(|error| KeepError::io("write", to, error))?;
    }
}

/// Reads a compressed file completely and compares it with the manifest.
pub(super) fn verify(place: &Path, file: &Packed) -> Result<(), KeepError> {
    let mut through = Hashing::new(io::sink());
    unpack_to(place, file, &mut through)
}

/// Decompresses a file into a writer. Fails if the content does not match the manifest.
pub(super) fn unpack_to<W: Write>(
    place: &Path,
    file: &Packed,
    to: &mut Hashing<W>,
) -> Result<(), KeepError> {
    let path = file_of(place, &file.sha256);
    let failed = |error| KeepError::io("read", &path, error);
    let source = File::open(&path).map_err(failed)?;
    let mut decoder = Decompressor::new(BufReader::new(source), MAX_WINDOW_BYTES);
    let copied = io::copy(&mut decoder, to);
    copied.map_err(failed)?;
    let (size, sha256) = to.so_far();
    if size != file.piece.size || sha256 != file.sha256 {
        return Err(KeepError::broken(&path, "it is not what was put in"));
    }
    Ok(())
}

/// Returns the path of a file in a copy.
pub(super) fn file_of(place: &Path, sha256: &str) -> PathBuf {
    place.join(format!("{sha256}.zst"))
}

/// Removes the files that the copy does not contain any more.
fn forget_others(manifest: &Manifest, place: &Path) {
    for path in crate::belongings::entries(place) {
        let is_ours = |file: &Packed| file_of(place, &file.sha256) == path;
        if path != place.join(manifest::NAME) && !manifest.files.iter().any(is_ours) {
            // A file that can't be removed only takes space.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the files of a failed copy, and the complete directory if it contains no older copy.
fn sweep(place: &Path) {
    match Manifest::read(place) {
        Ok(Some(manifest)) => forget_others(&manifest, place),
        Ok(None) => drop(fs::remove_dir_all(place)),
        Err(_) => {}
    }
}

/// Returns a name in a directory that no other process or thread uses.
fn beside(place: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, n) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    place.join(format!(".new-{process}-{n}"))
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A writer that counts and hashes the bytes that it passes on.
pub(super) struct Hashing<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> Hashing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn so_far(&self) -> (u64, String) {
        (self.size, hex(self.hash.clone()))
    }

    pub(super) fn done(self) -> (u64, String, W) {
        (self.size, hex(self.hash), self.inner)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn hex(hash: Sha256) -> String {
    use std::fmt::Write as _;
    let digest = hash.finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the size and the hash of a file.
pub(super) fn hash_of(path: &Path) -> io::Result<(u64, String)> {
    let mut through = Hashing::new(io::sink());
    io::copy(&mut File::open(path)?, &mut through)?;
    let (size, hash, _) = through.done();
    Ok((size, hash))
}
