//! Where the sessions of a directory of Gemini CLI's work.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Deserialize;

/// Tells the working directory of a project's directory.
///
/// That is named after the working directory: by a short name which is written down, or by its hash.
#[derive(Debug, Default)]
pub(super) struct Cwds {
    home: PathBuf,
    /// Paths that the caller knows.
    known: Vec<String>,
    by_directory: Mutex<HashMap<PathBuf, String>>,
    by_name: OnceLock<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct Projects {
    projects: HashMap<String, String>,
}

impl Cwds {
    pub(super) fn new(home: PathBuf) -> Self {
        Self {
            home,
            ..Self::default()
        }
    }

    pub(super) fn know(&mut self, paths: impl IntoIterator<Item = String>) {
        self.known.extend(paths);
        self.by_name = OnceLock::new();
    }

    /// The working directory of what is in `directory`, or of what has this hash.
    pub(super) fn of(&self, directory: &Path, hash: Option<&str>) -> Option<String> {
        let mut known = self
            .by_directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(cwd) = known.get(directory) {
            return Some(cwd.clone());
        }
        let name = directory.file_name()?.to_str()?;
        let by_name = || self.by_name.get_or_init(|| self.names());
        let cwd = written_in(directory)
            .or_else(|| by_name().get(name).cloned())
            .or_else(|| by_name().get(hash?).cloned())?;
        known.insert(directory.to_owned(), cwd.clone());
        Some(cwd)
    }

    /// All the paths we can know of, by their short names and by their hashes.
    fn names(&self) -> HashMap<String, String> {
        let mut names = HashMap::new();
        let mut paths = self.known.clone();
        for place in ["tmp", "history"] {
            let entries = fs::read_dir(self.home.join(place)).into_iter().flatten();
            paths.extend(entries.filter_map(|entry| written_in(&entry.ok()?.path())));
        }
        let projects = fs::read(self.home.join("projects.json")).ok();
        let projects = projects.and_then(|json| serde_json::from_slice::<Projects>(&json).ok());
        for (path, name) in projects.into_iter().flat_map(|file| file.projects) {
            names.insert(name, path.clone());
            paths.push(path);
        }
        for path in paths {
            names.insert(sha256(path.as_bytes()), path);
        }
        names
    }
}

/// What a project's directory says of itself.
fn written_in(directory: &Path) -> Option<String> {
    let path = fs::read_to_string(directory.join(".project_root")).ok()?;
    let path = path.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| path.to_owned())
}

/// SHA-256 in hexadecimal. It names directories and protects nothing.
fn sha256(bytes: &[u8]) -> String {
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_be_bytes());
    let mut state: [u32; 8] = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    for block in message.chunks_exact(64) {
        digest(&mut state, block);
    }
    state.iter().fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:08x}");
        text
    })
}

fn digest(state: &mut [u32; 8], block: &[u8]) {
    let mut words: Vec<u32> = Vec::with_capacity(64);
    for bytes in block.chunks_exact(4) {
        words.push(
            bytes
                .iter()
                .fold(0, |word, &byte| word << 8 | u32::from(byte)),
        );
    }
    let word = |words: &[u32], back: usize| words.get(words.len() - back).copied().unwrap_or(0);
    while words.len() < 64 {
        let (w15, w2) = (word(&words, 15), word(&words, 2));
        let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
        let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
        let sum = word(&words, 16)
            .wrapping_add(s0)
            .wrapping_add(word(&words, 7));
        words.push(sum.wrapping_add(s1));
    }
    let mut mixed = *state;
    for (word, round) in words.iter().zip(ROUNDS) {
        let [a0, a1, a2, a3, e0, e1, e2, e3] = mixed;
        let s1 = e0.rotate_right(6) ^ e0.rotate_right(11) ^ e0.rotate_right(25);
        let choice = (e0 & e1) ^ (!e0 & e2);
        let first = e3.wrapping_add(s1).wrapping_add(choice);
        let first = first.wrapping_add(round).wrapping_add(*word);
        let s0 = a0.rotate_right(2) ^ a0.rotate_right(13) ^ a0.rotate_right(22);
        let second = s0.wrapping_add((a0 & a1) ^ (a0 & a2) ^ (a1 & a2));
        let (a, e) = (first.wrapping_add(second), a3.wrapping_add(first));
        mixed = [a, a0, a1, a2, e, e0, e1, e2];
    }
    for (old, new) in state.iter_mut().zip(mixed) {
        *old = old.wrapping_add(new);
    }
}

#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_what_gemini_cli_writes() {
        let cases = [
            (
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            // From a session that it made.
            (
                "/tmp/gemlab/proj",
                "2919caa84a09541d3022102d9c090c83cc675b1815b272efbe6b4b1de59fd85c",
            ),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ];
        for (text, hash) in cases {
            assert_eq!(sha256(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_directory_is_known_by_its_file_its_name_its_hash_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        for (file, text) in [
            ("tmp/one/.project_root", "/work/one"),
            ("history/gone/.project_root", "/work/gone\n"),
            ("projects.json", r#"{"projects":{"/work/two":"two"}}"#),
        ] {
            let path = home.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut cwds = Cwds::new(home.to_owned());
        cwds.know(["/work/told".to_owned()]);
        let cases = [
            ("one".to_owned(), None, Some("/work/one")),
            ("two".to_owned(), None, Some("/work/two")),
            (sha256(b"/work/two"), None, Some("/work/two")),
            (sha256(b"/work/gone"), None, Some("/work/gone")),
            (sha256(b"/work/told"), None, Some("/work/told")),
            (
                "four".to_owned(),
                Some(sha256(b"/work/one")),
                Some("/work/one"),
            ),
            (sha256(b"/work/nobody knows"), None, None),
        ];
        for (name, hash, cwd) in cases {
            for _ in 0..2 {
                let found = cwds.of(&home.join("tmp").join(&name), hash.as_deref());
                assert_eq!(found.as_deref(), cwd, "{name}");
            }
        }
    }
}
