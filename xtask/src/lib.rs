//! Set-up, tests and checks of the complete workspace: `cargo xtask test`, `cargo xtask check`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool for developers"
)]

mod clis;
mod compare;
mod documentation;
mod guard;
#[cfg(test)]
mod language;
#[cfg(test)]
mod log_fields;
mod peers;
mod phases;
mod processes;
mod runner;
#[cfg(test)]
mod sentences;
mod suite;
#[cfg(test)]
mod tidy;
mod tools;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::compare::CompareArgs;
use crate::phases::Phases;
use crate::runner::{RunCounts, RunOptions, format_plural};
use crate::suite::TestBinary;
use crate::tools::TestVariables;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--quick] [--jobs N] [--limit SECONDS] [--program PATH] [WORD]…
            install the programs that the tests need, and run every test or those whose name contains every WORD;
            --quick skips tests with the real CLIs, --limit replaces the default time limit of each test,
            --program runs the tests of one test program and builds nothing
  check     check formatting, lints and documentation; any warning is an error
  clis      install the real CLIs and print their directory, the value of SEGUE_CLIS for tests in `real`
  fixtures  run the real CLIs to rewrite the fixtures in crates/segue-providers/fixtures
  compare BASE [--rounds N] [WORD]…
            measure this checkout and the checkout BASE in turn, N rounds [default: 21] of each measurement, or of those
            whose name contains a WORD; both are built first
  peers     install the programs that `--bench catalog` compares segue with and print their directory (SEGUE_PEERS)";

/// Maximum number of tests with the real CLIs that run at once.
const REAL_JOBS: usize = 3;

/// Maximum time for a cargo command other than the build.
const CARGO_LIMIT: Duration = Duration::from_mins(15);

/// Runs the command that the arguments of this process name.
#[must_use]
pub fn run_program() -> ExitCode {
    match documentation::record_call() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    }
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let command = match XtaskCommand::parse(&args) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        XtaskCommand::Help => {
            println!("{USAGE}");
            Ok(())
        }
        XtaskCommand::Test(args) => run_test_command(&args),
        XtaskCommand::Check => run_check_command(),
        XtaskCommand::Fixtures => rewrite_fixtures(),
        XtaskCommand::Peers => {
            peers::prepare(&target_directory()).map(|path| println!("{}", path.display()))
        }
        XtaskCommand::Compare(args) => {
            compare::compare_checkouts(&root(), &target_directory(), &args)
        }
        XtaskCommand::Clis => clis::prepare(&root()).map(|path| println!("{}", path.display())),
        XtaskCommand::Guard(args) => guard::serve(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A command with its arguments.
#[derive(Debug, PartialEq, Eq)]
enum XtaskCommand<'a> {
    Help,
    Test(TestArgs<'a>),
    Check,
    Fixtures,
    Peers,
    Clis,
    Compare(CompareArgs<'a>),
    /// The guard process of a test, started by `cargo xtask test`.
    Guard(&'a [&'a str]),
}

impl<'a> XtaskCommand<'a> {
    fn parse(args: &'a [&'a str]) -> Result<Self> {
        let (&name, command_args) = args.split_first().context("no command given")?;
        if name == "guard" {
            return Ok(Self::Guard(command_args));
        }
        if args
            .iter()
            .any(|arg| matches!(*arg, "help" | "--help" | "-h"))
        {
            return Ok(Self::Help);
        }
        let command = match name {
            "test" => return Ok(Self::Test(TestArgs::parse(command_args)?)),
            "compare" => return Ok(Self::Compare(CompareArgs::parse(command_args)?)),
            "check" => Self::Check,
            "fixtures" => Self::Fixtures,
            "peers" => Self::Peers,
            "clis" => Self::Clis,
            _ => bail!("unknown command `{name}`"),
        };
        if let Some(extra) = command_args.first() {
            bail!("unexpected argument `{extra}`: `{name}` takes no arguments");
        }
        Ok(command)
    }
}

/// Arguments of `cargo xtask test`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct TestArgs<'a> {
    is_quick: bool,
    jobs: Option<usize>,
    limit: Option<Duration>,
    program: Option<&'a Path>,
    words: Vec<&'a str>,
}

impl<'a> TestArgs<'a> {
    fn parse(args: &[&'a str]) -> Result<Self> {
        let mut parsed = Self::default();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            let (name, inline_value) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value)),
                _ => (arg, None),
            };
            let mut value = || {
                let value = inline_value.or_else(|| args.next());
                value.with_context(|| format!("`{name}` needs a value"))
            };
            match name {
                "--quick" if inline_value.is_none() => parsed.is_quick = true,
                "--jobs" => parsed.jobs = Some(parse_number(name, value()?)?),
                "--limit" => {
                    let seconds: u32 = parse_number(name, value()?)?;
                    parsed.limit = Some(Duration::from_secs(seconds.into()));
                }
                "--program" => parsed.program = Some(Path::new(value()?)),
                _ if name.starts_with('-') => bail!("unknown option `{arg}`"),
                word => parsed.words.push(word),
            }
        }
        Ok(parsed)
    }
}

/// Parses the value of an option: a number that is greater than 0.
fn parse_number<T: FromStr + Default + PartialEq>(option: &str, value: &str) -> Result<T> {
    let number = value.parse().ok().filter(|number| *number != T::default());
    number.with_context(|| format!("`{option} {value}` is not a number greater than 0"))
}

/// Runs every test, or those that the arguments select.
fn run_test_command(args: &TestArgs<'_>) -> Result<()> {
    let mut phases = Phases::start();
    let outcome = run_tests(args, &mut phases);
    phases.print();
    let (counts, skipped) = outcome?;
    if skipped > 0 {
        println!(
            "skipped {} with the real CLIs (--quick)",
            format_plural(skipped, "test")
        );
    }
    println!(
        "\n{} passed, {} failed, {skipped} skipped",
        counts.passed, counts.failed
    );
    ensure!(counts.failed == 0 && counts.not_run == 0, "tests failed");
    Ok(())
}

fn run_tests(args: &TestArgs<'_>, phases: &mut Phases) -> Result<(RunCounts, usize)> {
    let (binaries, variables, logs) = if let Some(program) = args.program {
        let binary = TestBinary::from_path(program)?;
        let logs = binary.program.with_extension("logs");
        (vec![binary], Vec::new(), logs)
    } else {
        let (binaries, variables) = prepare_tests(args.is_quick, phases)?;
        (binaries, variables, target_directory().join("test-logs"))
    };
    // Logs of tests that no longer exist would mislead.
    let _ = fs::remove_dir_all(&logs);
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    let suite = phases.run("list tests", || {
        suite::list_tests(&binaries, &args.words, args.is_quick, &logs)
    })?;
    if suite.cases.is_empty() {
        match suite.skipped {
            0 if args.words.is_empty() => bail!("no tests found"),
            0 => bail!("no tests match `{}`", args.words.join(" ")),
            count => bail!(
                "no tests to run: `--quick` skipped {}",
                format_plural(count, "test")
            ),
        }
    }
    let cores = std::thread::available_parallelism()?.get();
    let options = RunOptions {
        jobs: args.jobs.unwrap_or(cores + 2),
        real_jobs: REAL_JOBS,
        limit: args.limit,
        variables,
        logs,
    };
    let mut counts = phases.run("tests", || runner::run(suite.cases, &options))?;
    if args.program.is_none() && args.words.is_empty() {
        let documentation = phases.run("documentation tests", || {
            documentation::run_doc_tests(&root(), &options.logs.join("documentation.log"))
        })?;
        counts.passed += documentation.passed;
        counts.failed += documentation.failed;
    }
    Ok((counts, suite.skipped))
}

/// Installs the programs that the tests need and builds the tests. Returns the test programs and their environment
/// variables.
fn prepare_tests(is_quick: bool, phases: &mut Phases) -> Result<(Vec<TestBinary>, TestVariables)> {
    // The tools come before the long steps, so that a missing program is reported at once.
    let mut variables = phases.run("set up tools", || tools::prepare(&target_directory()))?;
    if !is_quick {
        let clis = phases.run("set up the real CLIs", || clis::prepare(&root()))?;
        variables.push(("SEGUE_CLIS", clis.into()));
    }
    // Without this variable every test that compares a snapshot starts cargo to find the workspace.
    variables.push(("INSTA_WORKSPACE_ROOT", root().into()));
    let build = phases.run("build", || suite::build_tests(&root(), &[]))?;
    Ok((build.binaries, variables))
}

/// Runs the real CLIs to rewrite the fixtures: each test of the readers saves the files that its CLI wrote.
fn rewrite_fixtures() -> Result<()> {
    let clis = clis::prepare(&root())?;
    let mut cargo = suite::cargo();
    cargo
        .args([
            "test",
            "--package",
            "segue-providers",
            "--test",
            "it",
            "--",
            "--ignored",
            "real::",
        ])
        .arg(format!("--test-threads={REAL_JOBS}"))
        .env("SEGUE_CLIS", clis)
        .env("SEGUE_FIXTURES", "1");
    run_cargo(&mut cargo)?;
    println!(
        "review the changes, then accept them with `INSTA_UPDATE=always cargo test -p segue-providers --test it corpus`"
    );
    Ok(())
}

/// Returns the checkout that this program was built from.
fn root() -> PathBuf {
    let manifest_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_directory
        .parent()
        .unwrap_or(manifest_directory)
        .to_owned()
}

/// Returns the directory of this build: `target`, two directories above this program.
fn target_directory() -> PathBuf {
    let executable = env::current_exe().unwrap_or_default();
    executable
        .ancestors()
        .nth(2)
        .map_or_else(|| PathBuf::from("target"), Path::to_owned)
}

/// Checks formatting, lints and documentation.
fn run_check_command() -> Result<()> {
    let mut phases = Phases::start();
    let outcome = run_checks(&mut phases);
    phases.print();
    outcome
}

fn run_checks(phases: &mut Phases) -> Result<()> {
    phases.run("formatting", || {
        run_cargo(suite::cargo().args(["fmt", "--all", "--check"]))
    })?;
    phases.run("build with lints", || {
        ensure!(
            suite::has_clippy(),
            "clippy is not installed: run `rustup component add clippy`"
        );
        // The targets of `cargo xtask test` come first, so that it then builds nothing: `--all-targets` would build
        // each example as a test, and not as a program.
        let tests = suite::build_tests(&root(), &[])?;
        let benches = suite::build_tests(&root(), &["--benches"])?;
        let warnings = tests.warnings + benches.warnings;
        ensure!(
            warnings == 0,
            "the build printed {}",
            format_plural(warnings, "warning")
        );
        Ok(())
    })?;
    phases.run("documentation", || {
        documentation::check_documentation(&root(), &target_directory())
    })
}

/// Runs a cargo command, and fails if the command fails or exceeds its time limit.
fn run_cargo(command: &mut Command) -> Result<()> {
    let args: Vec<_> = command
        .get_args()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    println!("$ cargo {}", args.join(" "));
    let status = processes::run_within(command, CARGO_LIMIT)?;
    ensure!(
        status.success(),
        "`cargo {}` failed",
        args.first().map_or("", String::as_str)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_arguments_are_options_and_words() {
        let expected = TestArgs {
            is_quick: true,
            jobs: Some(3),
            limit: Some(Duration::from_mins(10)),
            program: None,
            words: vec!["kills"],
        };
        for args in [
            &["test", "--quick", "kills", "--jobs", "3", "--limit", "600"][..],
            &["test", "--jobs=3", "--limit=600", "--quick", "kills"],
        ] {
            let command = XtaskCommand::parse(args).unwrap();
            assert_eq!(command, XtaskCommand::Test(expected.clone()));
        }
        assert_eq!(
            XtaskCommand::parse(&["test", "--help"]).unwrap(),
            XtaskCommand::Help
        );
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (args, expected) in [
            (&[][..], "no command given"),
            (&["tets"], "unknown command `tets`"),
            (
                &["check", "--quick"],
                "unexpected argument `--quick`: `check` takes no arguments",
            ),
            (&["test", "--fast"], "unknown option `--fast`"),
            (&["compare"], "no base checkout given"),
            (&["compare", ".", "--fast"], "unknown option `--fast`"),
            (&["test", "--quick=1"], "unknown option `--quick=1`"),
            (&["test", "--jobs"], "`--jobs` needs a value"),
            (
                &["test", "--jobs", "0"],
                "`--jobs 0` is not a number greater than 0",
            ),
            (
                &["test", "--limit=18446744073709551615"],
                "`--limit 18446744073709551615` is not a number greater than 0",
            ),
        ] {
            let error = XtaskCommand::parse(args).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
