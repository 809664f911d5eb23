//! Packing the files of a session, and reading them back before that is called done.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::manifest::{self, Manifest, Packed};
use super::{KeepError, make_directory};
use crate::belongings::written;
use crate::{Belongings, Found, Keeping, Piece, Role};

/// How hard is tried to make it small: the usual.
const LEVEL: i32 = 3;
/// How often a file is copied that changes meanwhile.
const TRIES: u32 = 3;

/// Makes `place` a copy of a session; what was there before is replaced once all of it is there.
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
                // What was there before stays as it was; new files beside it go with the next copy.
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

/// Writes what a copy is a copy of, in place of what was there.
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

/// Packs one piece under the name of its hash.
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

/// Packs one piece; nothing if it changed while it was read.
fn copy_once(
    keeping: &dyn Keeping,
    found: &Found,
    piece: &Piece,
    to: &Path,
) -> Result<Option<Packed>, KeepError> {
    let failed = |error| KeepError::io("write", to, error);
    let target = create(to).map_err(failed)?;
    let mut packing = Hashing::new(zstd::Encoder::new(target, LEVEL).map_err(failed)?);
    let mut piece = piece.clone();
    if let Role::Rows(session) = &piece.role {
        keeping.export(found, session, &mut packing)?;
    } else {
        let path = keeping.home().join(&piece.name);
        let unreadable = |error| KeepError::io("read", &path, error);
        let source = File::open(&path).map_err(unreadable)?;
        let before = source.metadata().map_err(unreadable)?;
        // One that grows faster than it is read has no end.
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

/// Copies, and tells a source that can't be read from a target that can't be written.
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

/// Reads a packed file through and compares it with what went in.
pub(super) fn verify(place: &Path, file: &Packed) -> Result<(), KeepError> {
    let mut through = Hashing::new(io::sink());
    unpack_to(place, file, &mut through)
}

/// Unpacks a file into a writer; fails if it is not what went in.
pub(super) fn unpack_to<W: Write>(
    place: &Path,
    file: &Packed,
    to: &mut Hashing<W>,
) -> Result<(), KeepError> {
    let path = file_of(place, &file.sha256);
    let failed = |error| KeepError::io("read", &path, error);
    let source = File::open(&path).map_err(failed)?;
    let mut decoder = zstd::Decoder::with_buffer(BufReader::new(source)).map_err(failed)?;
    let copied = io::copy(&mut decoder, to);
    copied.map_err(failed)?;
    let (size, sha256) = to.so_far();
    if size != file.piece.size || sha256 != file.sha256 {
        return Err(KeepError::broken(&path, "it is not what was put in"));
    }
    Ok(())
}

/// Where a file of a copy is.
pub(super) fn file_of(place: &Path, sha256: &str) -> PathBuf {
    place.join(format!("{sha256}.zst"))
}

/// Removes the files that the copy does not have any more.
fn forget_others(manifest: &Manifest, place: &Path) {
    for path in crate::belongings::entries(place) {
        let is_ours = |file: &Packed| file_of(place, &file.sha256) == path;
        if path != place.join(manifest::NAME) && !manifest.files.iter().any(is_ours) {
            // It only takes room.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes what a copy that failed left beside the one that is there.
fn sweep(place: &Path) {
    match Manifest::read(place) {
        Ok(Some(manifest)) => forget_others(&manifest, place),
        Ok(None) => drop(fs::remove_dir_all(place)),
        Err(_) => {}
    }
}

/// A name in a directory that nobody else uses.
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

/// Counts and hashes what goes through.
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

/// The hash and the size of a file as it is.
pub(super) fn hash_of(path: &Path) -> io::Result<(u64, String)> {
    let mut through = Hashing::new(io::sink());
    io::copy(&mut File::open(path)?, &mut through)?;
    let (size, hash, _) = through.done();
    Ok((size, hash))
}
