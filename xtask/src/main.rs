//! Set-up, tests and checks of the whole workspace: `cargo xtask test`, `cargo xtask check`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

#[cfg(test)]
mod tidy;
mod tools;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test    set up what the tests need, and run every test
  check   formatting, lints and documentation, with warnings as errors";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", rest @ ..] => test(rest),
        ["check"] => check(),
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

/// Runs every test; further arguments go to `cargo test`.
fn test(rest: &[&str]) -> Result<()> {
    let variables = tools::prepare(&target_directory())?;
    cargo(&[&["test", "--workspace"], rest].concat(), &variables)
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
