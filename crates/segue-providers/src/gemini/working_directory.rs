//! Working directories of Gemini CLI's sessions.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Resolver of the working directory of a project's directory.
///
/// Gemini CLI names a project's directory after the working directory: by a short name, which it stores in a file, or
/// by a hash.
#[derive(Debug, Default)]
pub(super) struct GeminiCwdResolver {
    home: PathBuf,
    /// Paths that the caller added.
    known_paths: Vec<String>,
    cwds_by_directory: Mutex<HashMap<PathBuf, String>>,
    cwds_by_name: OnceLock<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct GeminiFileProjects {
    projects: HashMap<String, String>,
}

impl GeminiCwdResolver {
    pub(super) fn new(home: PathBuf) -> Self {
        Self {
            home,
            ..Self::default()
        }
    }

    pub(super) fn add_known_paths(&mut self, paths: impl IntoIterator<Item = String>) {
        self.known_paths.extend(paths);
        self.cwds_by_name = OnceLock::new();
    }

    /// Returns the working directory of the sessions in `directory`, or of those with this hash. `None` if it is not
    /// known.
    pub(super) fn resolve(&self, directory: &Path, hash: Option<&str>) -> Option<String> {
        let mut cache = self
            .cwds_by_directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(cwd) = cache.get(directory) {
            return Some(cwd.clone());
        }
        let name = directory.file_name()?.to_str()?;
        let names = || self.cwds_by_name.get_or_init(|| self.collect_names());
        let cwd = read_project_root(directory)
            .or_else(|| names().get(name).cloned())
            .or_else(|| names().get(hash?).cloned())?;
        cache.insert(directory.to_owned(), cwd.clone());
        Some(cwd)
    }

    /// Returns all known paths, by their short names and by their hashes.
    fn collect_names(&self) -> HashMap<String, String> {
        let mut names = HashMap::new();
        let mut paths = self.known_paths.clone();
        for directory in ["tmp", "history"] {
            let entries = fs::read_dir(self.home.join(directory))
                .into_iter()
                .flatten();
            paths.extend(entries.filter_map(|entry| read_project_root(&entry.ok()?.path())));
        }
        for (path, name) in read_project_names(&self.home) {
            names.insert(name, path.clone());
            paths.push(path);
        }
        for path in paths {
            names.insert(sha256_hex(path.as_bytes()), path);
        }
        names
    }
}

/// Reads the short names of projects, by their working directories.
pub(super) fn read_project_names(home: &Path) -> HashMap<String, String> {
    let json = fs::read(home.join("projects.json")).unwrap_or_default();
    let file = serde_json::from_slice::<GeminiFileProjects>(&json);
    file.map(|file| file.projects).unwrap_or_default()
}

/// Reads the working directory that a project's directory contains.
pub(super) fn read_project_root(directory: &Path) -> Option<String> {
    let path = fs::read_to_string(directory.join(".project_root")).ok()?;
    let path = path.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| path.to_owned())
}

/// Returns the SHA-256 hash in hexadecimal.
fn sha256_hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_in_hexadecimal() {
        let cases = [
            (
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                "/w",
                "d1bb8ca354673cd575d31d952490058c9943aef39d5a9553fb4a21ab7a59a19d",
            ),
        ];
        for (text, hash) in cases {
            assert_eq!(sha256_hex(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_working_directory_is_resolved_by_its_file_its_name_or_its_hash() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        for (file, text) in [
            ("tmp/one/.project_root", "/w/one"),
            ("history/gone/.project_root", "/w/gone\n"),
            ("projects.json", r#"{"projects":{"/w/two":"two"}}"#),
        ] {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut cwds = GeminiCwdResolver::new(home.to_owned());
        cwds.add_known_paths(["/w/added".to_owned()]);
        let cases = [
            ("one".to_owned(), None, Some("/w/one")),
            ("two".to_owned(), None, Some("/w/two")),
            (sha256_hex(b"/w/two"), None, Some("/w/two")),
            (sha256_hex(b"/w/gone"), None, Some("/w/gone")),
            (sha256_hex(b"/w/added"), None, Some("/w/added")),
            (
                "four".to_owned(),
                Some(sha256_hex(b"/w/one")),
                Some("/w/one"),
            ),
            (sha256_hex(b"/w/unknown"), None, None),
        ];
        for (name, hash, cwd) in cases {
            for _ in 0..2 {
                let resolved = cwds.resolve(&home.join("tmp").join(&name), hash.as_deref());
                assert_eq!(resolved.as_deref(), cwd, "{name}");
            }
        }
    }
}
