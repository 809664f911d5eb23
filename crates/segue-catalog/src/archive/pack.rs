//! Compression of a session's files, and verification before a copy counts as complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};

use super::create_private_dir;
use super::manifest::{self, Manifest, PackedFile};
use crate::ArchiveError;
use crate::modification_time;
use crate::{Artifact, ArtifactRole, SessionArtifacts, SessionLocation, SessionStorage};
use segue_providers::compression::{Compressor, Decompressor};

/// Maximum window of a compressed file that is read: the limit of the reference implementation.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// Number of attempts to copy a file that changes during the copy.
const MAX_COPY_ATTEMPTS: u32 = 3;

/// Writes a copy of a session into `copy_dir`. Replaces an older copy only when the new one is complete.
pub(crate) fn pack_session(
    storage: &dyn SessionStorage,
    location: &SessionLocation,
    artifacts: &SessionArtifacts,
    mut manifest: Manifest,
    copy_dir: &Path,
) -> Result<Manifest, ArchiveError> {
    if artifacts.artifacts.is_empty() {
        return Err(ArchiveError::NotFound(manifest.id.to_string()));
    }
    let existed = copy_dir.exists();
    create_private_dir(copy_dir)?;
    let result = write_copy(storage, location, artifacts, &mut manifest, copy_dir);
    match result {
        Ok(()) => {
            remove_stale_files(&manifest, copy_dir);
            Ok(manifest)
        }
        Err(error) => {
            if existed {
                // The older copy stays unchanged. Only the files of the failed copy are removed.
                remove_failed_copy(copy_dir);
            } else {
                let _ = fs::remove_dir_all(copy_dir);
            }
            Err(error)
        }
    }
}

fn write_copy(
    storage: &dyn SessionStorage,
    location: &SessionLocation,
    artifacts: &SessionArtifacts,
    manifest: &mut Manifest,
    copy_dir: &Path,
) -> Result<(), ArchiveError> {
    for artifact in &artifacts.artifacts {
        let packed = copy_artifact(storage, location, artifact, copy_dir)?;
        manifest.files.push(packed);
    }
    for file in &manifest.files {
        verify_file(copy_dir, file)?;
    }
    write_manifest(manifest, copy_dir)?;
    if let Some(parent) = copy_dir.parent() {
        sync_directory(parent).map_err(|error| ArchiveError::io("write", parent, error))?;
    }
    Ok(())
}

/// Writes the manifest of a copy, and replaces an older one atomically.
pub(super) fn write_manifest(manifest: &Manifest, copy_dir: &Path) -> Result<(), ArchiveError> {
    let temporary = temporary_path(copy_dir);
    let result = write_synced(&temporary, &manifest.to_json())
        .and_then(|()| fs::rename(&temporary, copy_dir.join(manifest::MANIFEST_FILE_NAME)))
        .and_then(|()| sync_directory(copy_dir));
    result.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        ArchiveError::io("write", &copy_dir.join(manifest::MANIFEST_FILE_NAME), error)
    })
}

/// Compresses an artifact into a file that is named by its hash.
fn copy_artifact(
    storage: &dyn SessionStorage,
    location: &SessionLocation,
    artifact: &Artifact,
    copy_dir: &Path,
) -> Result<PackedFile, ArchiveError> {
    let temporary = temporary_path(copy_dir);
    let outcome = (0..MAX_COPY_ATTEMPTS).find_map(|_| {
        match try_copy_artifact(storage, location, artifact, &temporary) {
            Ok(None) => None,
            Ok(Some(packed)) => Some(Ok(packed)),
            Err(error) => Some(Err(error)),
        }
    });
    let changing = || {
        Err(ArchiveError::Changing(
            storage.home().join(&artifact.relative_path),
        ))
    };
    let packed = outcome.unwrap_or_else(changing).and_then(|packed| {
        let path = packed_path(copy_dir, &packed.sha256);
        let renamed = fs::rename(&temporary, &path);
        renamed.map_err(|error| ArchiveError::io("write", &path, error))?;
        Ok(packed)
    });
    packed.inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

/// Compresses an artifact. Returns `None` if it changed during the read.
fn try_copy_artifact(
    storage: &dyn SessionStorage,
    location: &SessionLocation,
    artifact: &Artifact,
    target_path: &Path,
) -> Result<Option<PackedFile>, ArchiveError> {
    let failed = |error| ArchiveError::io("write", target_path, error);
    let target = create_private_file(target_path).map_err(failed)?;
    let mut writer = HashingWriter::new(Compressor::new(target));
    let mut artifact = artifact.clone();
    if let ArtifactRole::Rows(session) = &artifact.role {
        storage.export_session(location, session, &mut writer)?;
    } else {
        let path = storage.home().join(&artifact.relative_path);
        let unreadable = |error| ArchiveError::io("read", &path, error);
        let source = File::open(&path).map_err(unreadable)?;
        let before = source.metadata().map_err(unreadable)?;
        // Reading stops at the current size, because a file that grows faster than it is read has no end.
        copy_bytes(
            &mut source.take(before.len()),
            &mut writer,
            &path,
            target_path,
        )?;
        let after = fs::symlink_metadata(&path).map_err(unreadable)?;
        if (before.len(), modification_time(&before)) != (after.len(), modification_time(&after)) {
            return Ok(None);
        }
        artifact.modified = modification_time(&after);
    }
    let (size, sha256, encoder) = writer.into_parts();
    artifact.size = size;
    let file = encoder.finish().map_err(failed)?;
    file.sync_all().map_err(failed)?;
    let packed_size = file.metadata().map_err(failed)?.len();
    Ok(Some(PackedFile {
        artifact,
        sha256,
        packed_size,
    }))
}

/// Copies bytes. Distinguishes a source that can't be read from a target that can't be written.
fn copy_bytes(
    source: &mut dyn Read,
    writer: &mut dyn Write,
    source_path: &Path,
    target_path: &Path,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::io("read", source_path, error)),
        };
        let chunk = buffer.get(..read).unwrap_or_default();
        writer
            .write_all(chunk)
            .map_err(|error| ArchiveError::io("write", target_path, error))?;
    }
}

/// Reads a compressed file completely and compares it with the manifest.
pub(super) fn verify_file(copy_dir: &Path, file: &PackedFile) -> Result<(), ArchiveError> {
    let mut writer = HashingWriter::new(io::sink());
    unpack_file(copy_dir, file, &mut writer)
}

/// Decompresses a file into a writer. Fails if the content does not match the manifest.
pub(super) fn unpack_file<W: Write>(
    copy_dir: &Path,
    file: &PackedFile,
    writer: &mut HashingWriter<W>,
) -> Result<(), ArchiveError> {
    let path = packed_path(copy_dir, &file.sha256);
    let failed = |error| ArchiveError::io("read", &path, error);
    let source = File::open(&path).map_err(failed)?;
    let mut decoder = Decompressor::new(BufReader::new(source), MAX_WINDOW_BYTES);
    let copied = io::copy(&mut decoder, writer);
    copied.map_err(failed)?;
    let (size, sha256) = writer.size_and_hash();
    if size != file.artifact.size || sha256 != file.sha256 {
        return Err(ArchiveError::damaged(
            &path,
            "its content does not match the manifest",
        ));
    }
    Ok(())
}

/// Returns the path of a file in a copy.
pub(super) fn packed_path(copy_dir: &Path, sha256: &str) -> PathBuf {
    copy_dir.join(format!("{sha256}.zst"))
}

/// Removes the files that the copy does not contain any more.
fn remove_stale_files(manifest: &Manifest, copy_dir: &Path) {
    for path in crate::list_directory(copy_dir) {
        let is_in_manifest = |file: &PackedFile| packed_path(copy_dir, &file.sha256) == path;
        if path != copy_dir.join(manifest::MANIFEST_FILE_NAME)
            && !manifest.files.iter().any(is_in_manifest)
        {
            // A file that can't be removed only takes space.
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the files of a failed copy, and the complete directory if it contains no older copy.
fn remove_failed_copy(copy_dir: &Path) {
    match Manifest::read(copy_dir) {
        Ok(Some(manifest)) => remove_stale_files(&manifest, copy_dir),
        Ok(None) => drop(fs::remove_dir_all(copy_dir)),
        Err(_) => {}
    }
}

/// Returns a name in a directory that no other process or thread uses.
fn temporary_path(copy_dir: &Path) -> PathBuf {
    static TEMPORARY_FILE_COUNT: AtomicU32 = AtomicU32::new(0);
    let (process, n) = (
        std::process::id(),
        TEMPORARY_FILE_COUNT.fetch_add(1, Ordering::Relaxed),
    );
    copy_dir.join(format!(".new-{process}-{n}"))
}

fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// A writer that counts and hashes the bytes that it passes on.
pub(super) struct HashingWriter<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> HashingWriter<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn size_and_hash(&self) -> (u64, String) {
        (self.size, hex_digest(self.hash.clone()))
    }

    pub(super) fn into_parts(self) -> (u64, String, W) {
        (self.size, hex_digest(self.hash), self.inner)
    }
}

impl<W: Write> Write for HashingWriter<W> {
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

fn hex_digest(hash: Sha256) -> String {
    use std::fmt::Write as _;
    let digest = hash.finalize();
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the size and the hash of a file.
pub(super) fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let mut writer = HashingWriter::new(io::sink());
    io::copy(&mut File::open(path)?, &mut writer)?;
    let (size, hash, _) = writer.into_parts();
    Ok((size, hash))
}
