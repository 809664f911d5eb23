//! The programs that the tests use besides Rust, from Debian's packages.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program, what shows that it is there, and the package it comes from.
const TOOLS: [(&str, &str, &str); 5] = [
    ("strace", "-V", "strace"),
    ("git", "--version", "git"),
    ("python3", "--version", "python3"),
    ("script", "--version", "bsdutils"),
    ("setpriv", "--version", "util-linux"),
];

/// Installs what is missing, where that is possible; else says what to install.
pub(crate) fn install_missing() -> Result<()> {
    let missing: Vec<&str> = TOOLS
        .iter()
        .filter(|(program, argument, _)| !runs(program, argument))
        .map(|(_, _, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("installing {}", missing.join(", "));
    let update = apt_get(&["update"]);
    let install = apt_get(
        &[
            &["install", "--yes", "--no-install-recommends"],
            missing.as_slice(),
        ]
        .concat(),
    );
    if update.and(install).is_err() {
        bail!(
            "the tests need these packages, which could not be installed: {}",
            missing.join(" ")
        );
    }
    Ok(())
}

fn runs(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

fn apt_get(args: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(args)
        .stdout(Stdio::null())
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("cannot start apt-get")?;
    if !status.success() {
        bail!("apt-get failed");
    }
    Ok(())
}
