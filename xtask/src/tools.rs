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
pub(crate) type TestVariables = Vec<(&'static str, OsString)>;

/// Maximum time for a command of the package manager.
const INSTALL_LIMIT: Duration = Duration::from_mins(10);

/// Programs, each with the argument of a test call and the packages that contain it.
const REQUIRED_TOOLS: [(&str, &str, &[&str]); 5] = [
    ("strace", "-V", &["strace", "libunwind8"]),
    ("git", "--version", &["git"]),
    ("python3", "--version", &["python3"]),
    ("script", "--version", &["bsdutils"]),
    ("setpriv", "--version", &["util-linux"]),
];

/// Ensures that every program runs. Returns the environment variables for the tests.
pub(crate) fn prepare(target: &Path) -> Result<TestVariables> {
    let tools = target.join("tools");
    let variables = search_path_variables(&tools)?;
    let missing_packages = |variables: &[(&str, OsString)]| -> Vec<&str> {
        let tools = REQUIRED_TOOLS
            .iter()
            .filter(|(program, argument, _)| !can_run(program, argument, variables));
        tools
            .flat_map(|(_, _, packages)| *packages)
            .copied()
            .collect()
    };
    let packages = missing_packages(&variables);
    if packages.is_empty() {
        return Ok(variables);
    }
    println!("fetching {} into {}", packages.join(", "), tools.display());
    unpack_packages(&packages, &tools)?;
    let packages = missing_packages(&variables);
    if !packages.is_empty() {
        println!("installing {}", packages.join(", "));
        let install_args = [
            &["install", "--yes", "--no-install-recommends"],
            packages.as_slice(),
        ]
        .concat();
        if run_apt_get(&install_args, Path::new("/")).is_err()
            || !missing_packages(&variables).is_empty()
        {
            bail!(
                "cannot install the packages that the tests need: {}",
                packages.join(" ")
            );
        }
    }
    Ok(variables)
}

/// Returns the search paths, with `target/tools` at their ends.
fn search_path_variables(tools: &Path) -> Result<TestVariables> {
    let append_paths = |name, added: &[PathBuf]| -> Result<(&'static str, OsString)> {
        let existing = env::var_os(name).unwrap_or_default();
        let paths = env::split_paths(&existing).filter(|path| !path.as_os_str().is_empty());
        Ok((name, env::join_paths(paths.chain(added.iter().cloned()))?))
    };
    let libraries = tools
        .join("usr/lib")
        .join(format!("{}-linux-gnu", env::consts::ARCH));
    Ok(vec![
        append_paths("PATH", &[tools.join("usr/bin")])?,
        append_paths("LD_LIBRARY_PATH", &[libraries])?,
    ])
}

fn can_run(program: &str, argument: &str, variables: &[(&str, OsString)]) -> bool {
    let mut command = Command::new(program);
    command
        .arg(argument)
        .envs(variables.iter().map(|(name, value)| (name, value)));
    processes::can_print_version(&mut command)
}

/// Downloads packages and unpacks them without installing them.
fn unpack_packages(packages: &[&str], tools: &Path) -> Result<()> {
    fs::create_dir_all(tools)?;
    let download_args = [&["download"], packages].concat();
    if run_apt_get(&download_args, tools).is_err() {
        // The package lists may be missing or outdated.
        let _ = run_apt_get(&["update"], tools);
        let _ = run_apt_get(&download_args, tools);
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

fn run_apt_get(args: &[&str], directory: &Path) -> Result<()> {
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
