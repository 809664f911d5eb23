//! Project files that the user trusts, each by path and content.
//!
//! The list is stored as `trusted.json` in segue's home. A file that has changed is not trusted. If the list cannot be
//! read, no file is trusted.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::CliError;

const TRUST_FILE_NAME: &str = "trusted.json";

/// List of trusted files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TrustStore {
    pub(crate) files: Vec<TrustedFile>,
}

/// A file with the content that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrustedFile {
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) trusted_at: String,
}

impl TrustStore {
    /// Reads the list from segue's home. Empty if it does not exist.
    pub(crate) fn load(home: &Path) -> Result<Self, CliError> {
        let path = home.join(TRUST_FILE_NAME);
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => {
                let message = format!("cannot read {}", path.display());
                return Err(CliError::failed(message).with_cause(&error));
            }
        };
        serde_json::from_slice(&content).map_err(|error| {
            CliError::failed(format!("{} is damaged", path.display()))
                .with_cause(&error)
                .with_hint("move it away; projects then need your trust again")
        })
    }

    /// Returns `true` if a file with this content is trusted.
    pub(crate) fn is_trusted(&self, path: &Path, content: &[u8]) -> bool {
        let file = self.files.iter().find(|file| file.path == path);
        file.is_some_and(|file| file.sha256 == sha256_hex(content))
    }

    /// Changes the list under a lock, so that no other process changes it concurrently. Replaces the file atomically,
    /// so that no process reads a partial list.
    pub(crate) fn update<T>(
        home: &Path,
        update: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, CliError> {
        let write_error = |error: std::io::Error| {
            CliError::failed(format!(
                "cannot write {}",
                home.join(TRUST_FILE_NAME).display()
            ))
            .with_cause(&error)
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(home)
            .map_err(write_error)?;
        let lock = open_private_file(&home.join("trusted.lock")).map_err(write_error)?;
        lock.lock().map_err(write_error)?;
        let mut list = Self::load(home)?;
        let outcome = update(&mut list);
        list.save(home).map_err(write_error)?;
        Ok(outcome)
    }

    fn save(&self, home: &Path) -> std::io::Result<()> {
        let temp_path = home.join("trusted.json.new");
        // A file that a killed process left behind may have been made readable to other users.
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

/// Opens a file that only its owner may read.
fn open_private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

/// Returns the SHA-256 of the content in hexadecimal.
pub(crate) fn sha256_hex(content: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
