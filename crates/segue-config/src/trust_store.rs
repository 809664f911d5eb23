//! Project files that the user trusts, each by path and content.
//!
//! The list is stored as `trusted.json` in segue's home. A file that has changed is not trusted. If the list cannot be
//! read, [`load`](crate::load) trusts no file, and `segue trust` fails.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const TRUST_FILE_NAME: &str = "trusted.json";

/// Error of reading or changing the list of trusted files.
#[derive(Debug, thiserror::Error)]
pub enum TrustStoreError {
    /// The list cannot be read.
    #[error("cannot read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// The list has no valid content.
    #[error("{} is damaged", .0.display())]
    Damaged(PathBuf, #[source] serde_json::Error),
    /// The list cannot be written.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

/// List of trusted files, as `trusted.json` contains it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TrustStore {
    /// Trusted files, each path once.
    pub files: Vec<TrustedFile>,
}

/// A file with the content that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Time at which the user trusted the file, in RFC 3339 format.
    pub trusted_at: String,
}

impl TrustStore {
    /// Reads the list from segue's home. Returns an empty list if the file does not exist.
    pub fn load(home: &Path) -> Result<Self, TrustStoreError> {
        let path = home.join(TRUST_FILE_NAME);
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(TrustStoreError::Read(path, error)),
        };
        serde_json::from_slice(&content).map_err(|error| TrustStoreError::Damaged(path, error))
    }

    /// Returns `true` if the file at `path` is trusted with exactly this content.
    #[must_use]
    pub fn is_trusted(&self, path: &Path, content: &[u8]) -> bool {
        let file = self.files.iter().find(|file| file.path == path);
        file.is_some_and(|file| file.sha256 == sha256_hex(content))
    }

    /// Reads the list, applies `change` and saves the list. Holds a lock, so that no other process changes the list
    /// concurrently. Replaces the file atomically, so that no process reads a partial list.
    pub fn update<T>(
        home: &Path,
        change: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, TrustStoreError> {
        let write_error = |error| TrustStoreError::Write(home.join(TRUST_FILE_NAME), error);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(home)
            .map_err(write_error)?;
        let lock = open_private_file(&home.join("trusted.lock")).map_err(write_error)?;
        lock.lock().map_err(write_error)?;
        let mut list = Self::load(home)?;
        let result = change(&mut list);
        list.save(home).map_err(write_error)?;
        Ok(result)
    }

    fn save(&self, home: &Path) -> std::io::Result<()> {
        let temp_path = home.join("trusted.json.new");
        // A temporary file from a killed process would keep its own permissions, which may let other users read it.
        match std::fs::remove_file(&temp_path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = open_private_file(&temp_path)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&temp_path, home.join(TRUST_FILE_NAME))?;
        File::open(home)?.sync_all()
    }
}

/// Creates or truncates a file. Only the owner may read a file that is created.
fn open_private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Returns the SHA-256 of the content in hexadecimal.
#[must_use]
pub fn sha256_hex(content: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
