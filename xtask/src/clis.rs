//! The real CLIs that the tests run, installed once for each state of their lock file.
//!
//! Together they take well over a gigabyte, so they are installed in the user's cache directory, where other checkouts
//! and clean clones find them. An install is made in a temporary directory next to its final path and then renamed. So
//! an interrupted install is never taken for a complete one, and of two concurrent installs the second discards its
//! own.

use std::env;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use crate::processes;

/// Files that determine what is installed.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Maximum time for an install.
const INSTALL_LIMIT: Duration = Duration::from_mins(15);

/// Programs that must run after an install.
const PROGRAMS: [&str; 6] = [
    "node",
    "gemini",
    "claude",
    "codex",
    "opencode",
    "claude-agent-acp",
];

/// Ensures that the CLIs are installed. Returns the directory that contains their `node_modules`.
pub(crate) fn prepare(root: &Path) -> Result<PathBuf> {
    let lists = root.join("crates/segue-testkit/clis");
    let cache = cache()?.join("segue/clis");
    let place = cache.join(key(&lists)?);
    if place.is_dir() {
        return Ok(place);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    clear_away(&cache);
    // Process IDs repeat if containers share the cache.
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let draft = cache.join(format!(".draft-{}-{time}", std::process::id()));
    println!(
        "installing the real CLIs into {} (more than 1 GB, once for each lock file)",
        place.display()
    );
    let start = Instant::now();
    let outcome = install(&lists, &draft).and_then(|()| publish(&draft, &place));
    // After a successful install the draft no longer exists.
    let _ = fs::remove_dir_all(&draft);
    outcome?;
    println!("installed in {} s", start.elapsed().as_secs());
    Ok(place)
}

fn cache() -> Result<PathBuf> {
    let given = |name| env::var_os(name).filter(|value| !value.is_empty());
    let cache = given("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || given("HOME").map(|home| Path::new(&home).join(".cache"));
    cache
        .or_else(home)
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no place for the real CLIs")
}

/// Returns a name for this state of the files, which contains their hash.
fn key(lists: &Path) -> Result<String> {
    let mut texts = Vec::new();
    for name in FILES {
        let path = lists.join(name);
        let text = fs::read_to_string(&path);
        texts.push(text.with_context(|| format!("cannot read {}", path.display()))?);
    }
    name_for(&texts)
}

fn name_for(texts: &[String]) -> Result<String> {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for text in texts {
        ensure!(
            !text.contains("\"resolved\""),
            "the lock file of the real CLIs names the registry it was made with; \
             remove its `resolved` members, so that it works with any"
        );
        hash.write(text.as_bytes());
        hash.write(&[0]);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// FNV-1a hash. The hash of the standard library may change with the compiler, and everything would be downloaded
/// again.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn install(lists: &Path, draft: &Path) -> Result<()> {
    fs::create_dir(draft).with_context(|| format!("cannot make {}", draft.display()))?;
    for name in FILES {
        fs::copy(lists.join(name), draft.join(name))?;
    }
    npm(draft)?;
    for program in PROGRAMS {
        ensure!(
            runs(draft, program),
            "{program} was installed but does not run; try again with `cargo xtask clis`"
        );
    }
    Ok(())
}

/// Installs the packages with `npm install`. `npm ci` would be the right command, but it rejects a lock file in which
/// the packages for other platforms are missing, and not every registry has those of opencode. `npm install` also uses
/// the versions and checksums of the lock file.
fn npm(draft: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(draft)
        .stdin(Stdio::null());
    let status = processes::run_within(&mut npm, INSTALL_LIMIT).context(
        "cannot install the real CLIs: install Node.js 20 or later with npm (`apt-get install npm`), or leave \
         these tests out with `cargo xtask test --quick`",
    )?;
    if !status.success() {
        bail!(
            "npm install failed ({status}); is there a registry (`npm config get registry`)? \
             `cargo xtask test --quick` leaves the real CLIs out"
        );
    }
    Ok(())
}

/// Returns `true` if a program prints its version. It runs in an empty home directory, so that it neither reads nor
/// creates the user's configuration.
fn runs(draft: &Path, program: &str) -> bool {
    let programs = draft.join("node_modules/.bin");
    let node = draft.join("node_modules/node/bin");
    let rest = env::var_os("PATH").unwrap_or_default();
    let paths = [node].into_iter().chain(env::split_paths(&rest));
    let home = draft.join("home");
    let mut command = Command::new(programs.join(program));
    command
        .arg("--version")
        .env_clear()
        .env("HOME", &home)
        .envs(env::join_paths(paths).map(|path| ("PATH", path)));
    processes::prints_version(&mut command)
}

/// Removes the drafts of installs that were killed. An install never takes longer than a day.
fn clear_away(cache: &Path) {
    const DAY: Duration = Duration::from_hours(24);
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let draft = entry.file_name().to_string_lossy().starts_with(".draft-");
        let changed = entry.metadata().and_then(|data| data.modified()).ok();
        let age = changed.and_then(|changed| changed.elapsed().ok());
        if draft && age.is_some_and(|age| age > DAY) {
            // A gigabyte of wasted space is no reason to fail.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Renames a complete install to its final path. If another process published the same install first, that one is used.
fn publish(draft: &Path, place: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(draft.join("home"));
    match fs::rename(draft, place) {
        Err(error) if !place.is_dir() => {
            Err(error).with_context(|| format!("cannot make {}", place.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(texts: &[&str]) -> Option<String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        name_for(&texts).ok()
    }

    #[test]
    fn every_change_of_the_lists_has_a_place_of_its_own() {
        let one = name(&["list", "lock"]).unwrap();
        assert_eq!(name(&["list", "lock"]).unwrap(), one);
        assert_ne!(name(&["list", "lock "]).unwrap(), one);
        assert_ne!(name(&["lis", "tlock"]).unwrap(), one);
    }

    #[test]
    fn a_lock_file_that_names_a_registry_is_refused() {
        let lock = r#"{"resolved": "https://registry.example/node.tgz"}"#;
        assert_eq!(name(&["list", lock]), None);
    }

    #[test]
    fn a_second_install_gives_way_to_the_first() {
        let directory = env::temp_dir().join(format!("segue-clis-{}", std::process::id()));
        let (draft, place) = (directory.join("draft"), directory.join("place"));
        fs::create_dir_all(&draft).unwrap();
        fs::create_dir_all(place.join("first")).unwrap();

        publish(&draft, &place).unwrap();

        assert!(place.join("first").is_dir());
        fs::remove_dir_all(&directory).unwrap();
    }
}
