//! Programs that a user could run instead of the catalog, for the benchmark that compares them with it.
//!
//! They are installed in `target/tools/peers`: two Python packages in a virtual environment, and ripgrep built from
//! source.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Python packages, in the versions of the results in docs/benchmarks.md.
const PYTHON_PACKAGES: [&str; 2] = ["fast-resume==2.14.0", "agentsview==0.46.1"];

const RIPGREP_VERSION: &str = "15.2.0";

/// Programs that must exist after an install.
const PEER_PROGRAMS: [&str; 3] = ["fast-resume", "agentsview", "rg"];

/// Ensures that the programs are installed. Returns their directory, for `SEGUE_PEERS`.
pub(crate) fn prepare(target: &Path) -> Result<PathBuf> {
    let install_directory = target.join("tools/peers");
    let programs = install_directory.join("bin");
    let is_installed = |program: &&str| programs.join(program).is_file();
    let versions = format!("{} ripgrep=={RIPGREP_VERSION}\n", PYTHON_PACKAGES.join(" "));
    let version_file = install_directory.join("versions");
    if PEER_PROGRAMS.iter().all(is_installed)
        && std::fs::read_to_string(&version_file).is_ok_and(|installed| installed == versions)
    {
        return Ok(programs);
    }
    println!(
        "installing {}into {}",
        versions.replace('\n', " "),
        install_directory.display()
    );
    run_command(
        Command::new("python3")
            .args(["-m", "venv"])
            .arg(&install_directory),
        "install Python 3 with venv (`apt-get install python3-venv`)",
    )?;
    run_command(
        Command::new(programs.join("python3"))
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(PYTHON_PACKAGES),
        "check the package index with `pip config list`",
    )?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_command(
        Command::new(cargo)
            .args([
                "install",
                "--quiet",
                "--locked",
                "ripgrep",
                "--version",
                RIPGREP_VERSION,
            ])
            .arg("--root")
            .arg(&install_directory),
        "check the crate registry in the configuration of cargo",
    )?;
    if let Some(missing) = PEER_PROGRAMS.iter().find(|program| !is_installed(program)) {
        bail!(
            "{missing} is missing from {} after the installation",
            programs.display()
        );
    }
    std::fs::write(&version_file, versions)?;
    Ok(programs)
}

/// Runs a command. If it fails, the error contains `hint`, which is the next action for the user.
fn run_command(command: &mut Command, hint: &str) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("cannot start {name}: {hint}"))?;
    if !status.success() {
        bail!("{name} failed ({status}): {hint}");
    }
    Ok(())
}
