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
const PACKAGE_FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Maximum time for an install.
const INSTALL_LIMIT: Duration = Duration::from_mins(15);

/// Programs that must run after an install.
const INSTALLED_PROGRAMS: [&str; 6] = [
    "node",
    "gemini",
    "claude",
    "codex",
    "opencode",
    "claude-agent-acp",
];

/// Ensures that the CLIs are installed. Returns the directory that contains their `node_modules`.
pub(crate) fn prepare(root: &Path) -> Result<PathBuf> {
    let package_directory = root.join("crates/segue-testkit/clis");
    let cli_cache = find_cache_directory()?.join("segue/clis");
    let install_directory = cli_cache.join(package_files_key(&package_directory)?);
    if install_directory.is_dir() {
        return Ok(install_directory);
    }
    fs::create_dir_all(&cli_cache)
        .with_context(|| format!("cannot create {}", cli_cache.display()))?;
    remove_stale_drafts(&cli_cache);
    // Process IDs repeat if containers share the cache.
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let draft = cli_cache.join(format!(".draft-{}-{time}", std::process::id()));
    println!(
        "installing the real CLIs into {} (more than 1 GB, once for each lock file)",
        install_directory.display()
    );
    let start = Instant::now();
    let outcome = install(&package_directory, &draft)
        .and_then(|()| publish_draft(&draft, &install_directory));
    // After a successful install the draft no longer exists.
    let _ = fs::remove_dir_all(&draft);
    outcome?;
    println!("installed in {} s", start.elapsed().as_secs());
    Ok(install_directory)
}

fn find_cache_directory() -> Result<PathBuf> {
    let read_variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let cache = read_variable("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || read_variable("HOME").map(|home| Path::new(&home).join(".cache"));
    cache
        .or_else(home)
        .context("cannot install the real CLIs: neither XDG_CACHE_HOME nor HOME is set")
}

/// Returns a name for this state of the files, which contains their hash.
fn package_files_key(package_directory: &Path) -> Result<String> {
    let mut texts = Vec::new();
    for name in PACKAGE_FILES {
        let path = package_directory.join(name);
        let text = fs::read_to_string(&path);
        texts.push(text.with_context(|| format!("cannot read {}", path.display()))?);
    }
    hash_package_files(&texts)
}

fn hash_package_files(texts: &[String]) -> Result<String> {
    let mut hash = FnvHasher(0xcbf2_9ce4_8422_2325);
    for text in texts {
        ensure!(
            !text.contains("\"resolved\""),
            "the lock file of the real CLIs names a registry: remove its `resolved` members, so that it works with \
             any registry"
        );
        hash.write(text.as_bytes());
        hash.write(&[0]);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// FNV-1a hash. The hash of the standard library may change with the compiler, and everything would be downloaded
/// again.
struct FnvHasher(u64);

impl Hasher for FnvHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn install(package_directory: &Path, draft: &Path) -> Result<()> {
    fs::create_dir(draft).with_context(|| format!("cannot create {}", draft.display()))?;
    for name in PACKAGE_FILES {
        fs::copy(package_directory.join(name), draft.join(name))?;
    }
    run_npm_install(draft)?;
    for program in INSTALLED_PROGRAMS {
        ensure!(
            can_run(draft, program),
            "`{program}` does not run after its installation: retry with `cargo xtask clis`"
        );
    }
    Ok(())
}

/// Installs the packages with `npm install`. `npm ci` would be the right command, but it rejects a lock file in which
/// the packages for other platforms are missing, and not every registry has those of opencode. `npm install` also uses
/// the versions and checksums of the lock file.
fn run_npm_install(draft: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(draft)
        .stdin(Stdio::null());
    let status = processes::run_within(&mut npm, INSTALL_LIMIT).context(
        "cannot install the real CLIs: install Node.js 20 or later with npm (`apt-get install npm`), or skip \
         these tests with `cargo xtask test --quick`",
    )?;
    if !status.success() {
        bail!(
            "`npm install` failed ({status}): check the registry with `npm config get registry`, or skip the real \
             CLIs with `cargo xtask test --quick`"
        );
    }
    Ok(())
}

/// Returns `true` if a program prints its version. It runs in an empty home directory, so that it neither reads nor
/// creates the user's configuration.
fn can_run(draft: &Path, program: &str) -> bool {
    let programs = draft.join("node_modules/.bin");
    let node = draft.join("node_modules/node/bin");
    let search_path = env::var_os("PATH").unwrap_or_default();
    let paths = [node].into_iter().chain(env::split_paths(&search_path));
    let home = draft.join("home");
    let mut command = Command::new(programs.join(program));
    command
        .arg("--version")
        .env_clear()
        .env("HOME", &home)
        .envs(env::join_paths(paths).map(|path| ("PATH", path)));
    processes::can_print_version(&mut command)
}

/// Removes the drafts of installs that were killed. An install never takes longer than a day.
fn remove_stale_drafts(cache: &Path) {
    const MAX_DRAFT_AGE: Duration = Duration::from_hours(24);
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().to_string_lossy().starts_with(".draft-");
        let modified = entry.metadata().and_then(|data| data.modified()).ok();
        let age = modified.and_then(|modified| modified.elapsed().ok());
        if is_draft && age.is_some_and(|age| age > MAX_DRAFT_AGE) {
            // A gigabyte of wasted space is no reason to fail.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Renames a complete install to its final path. If another process published the same install first, that one is used.
fn publish_draft(draft: &Path, destination: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(draft.join("home"));
    match fs::rename(draft, destination) {
        Err(error) if !destination.is_dir() => {
            Err(error).with_context(|| format!("cannot create {}", destination.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_hash(texts: &[&str]) -> Option<String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        hash_package_files(&texts).ok()
    }

    #[test]
    fn every_change_of_the_package_files_changes_the_hash() {
        let hash = try_hash(&["list", "lock"]).unwrap();
        assert_eq!(try_hash(&["list", "lock"]).unwrap(), hash);
        assert_ne!(try_hash(&["list", "lock "]).unwrap(), hash);
        assert_ne!(try_hash(&["lis", "tlock"]).unwrap(), hash);
    }

    #[test]
    fn a_lock_file_that_names_a_registry_is_refused() {
        let lock = r#"{"resolved": "https://registry.example/node.tgz"}"#;
        assert_eq!(try_hash(&["list", lock]), None);
    }

    #[test]
    fn a_second_install_does_not_replace_the_first() {
        let directory = env::temp_dir().join(format!("segue-clis-{}", std::process::id()));
        let (draft, destination) = (directory.join("draft"), directory.join("install"));
        fs::create_dir_all(&draft).unwrap();
        fs::create_dir_all(destination.join("first")).unwrap();

        publish_draft(&draft, &destination).unwrap();

        assert!(destination.join("first").is_dir());
        fs::remove_dir_all(&directory).unwrap();
    }
}
