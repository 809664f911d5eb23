//! Programs that a user could run instead of the catalog, for the benchmark that compares them with it.
//!
//! They are installed in `target/tools/peers`: two Python packages in a virtual environment, and ripgrep built from
//! source.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Python packages, in the versions of the results in docs/benchmarks.md.
const PACKAGES: [&str; 2] = ["fast-resume==2.14.0", "agentsview==0.46.1"];

const RIPGREP: &str = "15.2.0";

/// Programs that must exist after an install.
const PROGRAMS: [&str; 3] = ["fast-resume", "agentsview", "rg"];

/// Ensures that the programs are installed. Returns their directory, for `SEGUE_PEERS`.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let place = target.join("tools/peers");
    let programs = place.join("bin");
    let there = |program: &&str| programs.join(program).is_file();
    let versions = format!("{} ripgrep=={RIPGREP}\n", PACKAGES.join(" "));
    let note = place.join("versions");
    if PROGRAMS.iter().all(there) && std::fs::read_to_string(&note).is_ok_and(|old| old == versions)
    {
        return Ok(programs);
    }
    println!(
        "installing {}into {}",
        versions.replace('\n', " "),
        place.display()
    );
    run(
        Command::new("python3").args(["-m", "venv"]).arg(&place),
        "install Python 3 with venv (`apt-get install python3-venv`)",
    )?;
    run(
        Command::new(programs.join("python3"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(PACKAGES),
        "is there a package index (`pip config list`)?",
    )?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(
        Command::new(cargo)
            .args([
                "install",
                "--quiet",
                "--locked",
                "ripgrep",
                "--version",
                RIPGREP,
            ])
            .arg("--root")
            .arg(&place),
        "is there a registry of crates?",
    )?;
    if let Some(missing) = PROGRAMS.iter().find(|program| !there(program)) {
        bail!(
            "{missing} was installed but is not in {}",
            programs.display()
        );
    }
    std::fs::write(&note, versions)?;
    Ok(programs)
}

/// Runs a command. If it fails, the error contains `hint`, which names a possible cause.
fn run(command: &mut Command, hint: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot start {name}: {hint}"))?;
    if !status.success() {
        bail!("{name} failed ({status}): {hint}");
    }
    Ok(())
}
