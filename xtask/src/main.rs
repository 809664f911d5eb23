//! Set-up, tests and checks of the whole workspace: `cargo xtask test`, `cargo xtask check`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

mod clis;
mod peers;
#[cfg(test)]
mod tidy;
mod tools;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test      set up what the tests need, and run every test; with --quick, without the real CLIs
  check     formatting, lints and documentation, with warnings as errors
  clis      install the real CLIs, and print where they are: SEGUE_CLIS for the tests named `real`
  fixtures  have the real CLIs write the corpus of crates/segue-catalog/fixtures anew
  peers     install what the catalog is measured beside, and print where: SEGUE_PEERS for `--bench catalog`";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", rest @ ..] => test(rest),
        ["check"] => check(),
        ["fixtures"] => fixtures(),
        ["peers"] => {
            peers::prepare(&target_directory()).map(|place| println!("{}", place.display()))
        }
        ["clis"] => clis::prepare(&root()).map(|place| println!("{}", place.display())),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The real CLIs are heavy: more at once than this, and they run into their own time limits.
const REAL_THREADS: &str = "--test-threads=2";

/// Runs every test; further arguments go to `cargo test`, of the whole workspace.
fn test(rest: &[&str]) -> Result<()> {
    let (quick, rest): (Vec<&str>, Vec<&str>) = rest.iter().partition(|arg| **arg == "--quick");
    let mut variables = tools::prepare(&target_directory())?;
    if quick.is_empty() {
        // Before the long part, so that what is missing is known at once.
        variables.push(("SEGUE_CLIS", clis::prepare(&root())?.into()));
    }
    cargo(
        &[&["test", "--workspace"], rest.as_slice()].concat(),
        &variables,
    )?;
    let packages = real_suites()?;
    if !quick.is_empty() {
        println!(
            "left out (--quick): the tests with the real CLIs, in {}",
            packages.join(", ")
        );
        return Ok(());
    }
    // Of the whole workspace, so that what was just built serves: a crate by itself has other features.
    real(&["--workspace"], &variables)
}

/// Runs the tests of some crates with the real CLIs.
fn real(of: &[&str], variables: &[(&str, OsString)]) -> Result<()> {
    let real = ["--test", "real", "--", "--ignored", REAL_THREADS];
    cargo(&[&["test"], of, &real].concat(), variables)
}

/// Makes the corpus anew: each test of the readers leaves what its CLI wrote.
fn fixtures() -> Result<()> {
    let clis = clis::prepare(&root())?.into();
    let variables = [("SEGUE_CLIS", clis), ("SEGUE_FIXTURES", "1".into())];
    real(&["--package", "segue-catalog"], &variables)?;
    println!(
        "now read what changed, and accept it: INSTA_UPDATE=always cargo test -p segue-catalog --test it corpus"
    );
    Ok(())
}

/// The crates that have tests with the real CLIs.
fn real_suites() -> Result<Vec<String>> {
    let crates = root().join("crates");
    let mut found = Vec::new();
    for entry in
        fs::read_dir(&crates).with_context(|| format!("cannot read {}", crates.display()))?
    {
        let entry = entry?;
        if entry.path().join("tests/real/main.rs").is_file() {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// The checkout that this program was built from.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where this very program was built: `target`, two directories above it.
fn target_directory() -> PathBuf {
    let own = env::current_exe().unwrap_or_default();
    own.ancestors()
        .nth(2)
        .map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

fn check() -> Result<()> {
    cargo(&["fmt", "--all", "--check"], &[])?;
    cargo(
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ],
        &[],
    )?;
    cargo(
        &[
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        &[("RUSTDOCFLAGS", "--deny warnings".into())],
    )
}

fn cargo(args: &[&str], variables: &[(&str, OsString)]) -> Result<()> {
    println!("$ cargo {}", args.join(" "));
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(args)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {} failed", args.first().unwrap_or(&""));
    }
    Ok(())
}
