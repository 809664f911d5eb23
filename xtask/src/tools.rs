//! Programs that the tests use in addition to Rust.
//!
//! Missing programs are taken from Debian's packages and unpacked under `target/tools`, which needs no privileges. If
//! that is not enough, the packages are installed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::processes;

/// Environment variables of the tests.
pub(crate) type Variables = Vec<(&'static str, OsString)>;

/// Maximum time for a command of the package manager.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

/// Programs, each with the argument of a test call and the packages that contain it.
const TOOLS: [(&str, &str, &[&str]); 5] = [
    ("strace", "-V", &["strace", "libunwind8"]),
    ("git", "--version", &["git"]),
    ("python3", "--version", &["python3"]),
    ("script", "--version", &["bsdutils"]),
    ("setpriv", "--version", &["util-linux"]),
];

/// Ensures that every program runs. Returns the environment variables for the tests.
pub(crate) fn prepare(target: &Path) -> Result<Variables> {
    let tools = target.join("tools");
    let variables = variables(&tools)?;
    let missing = |variables: &[(&str, OsString)]| -> Vec<&str> {
        let tools = TOOLS
            .iter()
            .filter(|(program, argument, _)| !runs(program, argument, variables));
        tools
            .flat_map(|(_, _, packages)| *packages)
            .copied()
            .collect()
    };
    let packages = missing(&variables);
    if packages.is_empty() {
        return Ok(variables);
    }
    println!("fetching {} into {}", packages.join(", "), tools.display());
    unpack(&packages, &tools)?;
    let packages = missing(&variables);
    if !packages.is_empty() {
        println!("installing {}", packages.join(", "));
        let install = [
            &["install", "--yes", "--no-install-recommends"],
            packages.as_slice(),
        ]
        .concat();
        if apt_get(&install, Path::new("/")).is_err() || !missing(&variables).is_empty() {
            bail!("the tests need these packages: {}", packages.join(" "));
        }
    }
    Ok(variables)
}

/// Returns the search paths, with `target/tools` at their ends.
fn variables(tools: &Path) -> Result<Variables> {
    let longer = |name, more: &[PathBuf]| -> Result<(&'static str, OsString)> {
        let old = env::var_os(name).unwrap_or_default();
        let paths = env::split_paths(&old).filter(|path| !path.as_os_str().is_empty());
        Ok((name, env::join_paths(paths.chain(more.iter().cloned()))?))
    };
    let libraries = tools
        .join("usr/lib")
        .join(format!("{}-linux-gnu", env::consts::ARCH));
    Ok(vec![
        longer("PATH", &[tools.join("usr/bin")])?,
        longer("LD_LIBRARY_PATH", &[libraries])?,
    ])
}

fn runs(program: &str, argument: &str, variables: &[(&str, OsString)]) -> bool {
    let mut command = Command::new(program);
    command
        .arg(argument)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    processes::prints_version(&mut command)
}

/// Downloads packages and unpacks them without installing them.
fn unpack(packages: &[&str], tools: &Path) -> Result<()> {
    fs::create_dir_all(tools)?;
    let download = [&["download"], packages].concat();
    if apt_get(&download, tools).is_err() {
        // The package lists may be missing or outdated.
        let _ = apt_get(&["update"], tools);
        let _ = apt_get(&download, tools);
    }
    for entry in fs::read_dir(tools)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let mut dpkg = Command::new("dpkg");
            dpkg.arg("-x").arg(&path).arg(tools);
            processes::run_within(&mut dpkg, INSTALL_LIMIT)?;
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn apt_get(args: &[&str], directory: &Path) -> Result<()> {
    let mut command = Command::new("apt-get");
    command
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .env("DEBIAN_FRONTEND", "noninteractive");
    let status = processes::run_within(&mut command, INSTALL_LIMIT)?;
    if !status.success() {
        bail!("apt-get failed");
    }
    Ok(())
}
