//! The documentation of the workspace, with warnings as errors, and the tests in it.
//!
//! `cargo doc` would check every dependency again before it starts. `cargo test --doc` uses the libraries that the
//! tests were built with. So this module records how `cargo test --doc` calls rustdoc, and then calls rustdoc itself
//! with the same libraries. The programs `segue` and `xtask` are libraries with a `main` of one line, so only the two
//! small programs of `segue-testkit` are not checked.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::guard::{self, TestEnd};
use crate::runner::{self, RunCounts};
use crate::{processes, suite};

/// Environment variable with the path of the file to which a call of rustdoc is recorded instead of being executed.
const CALLS_VARIABLE: &str = "XTASK_RUSTDOC_CALLS";

/// Maximum time for the documentation tests, or for the documentation of one crate.
const RUSTDOC_LIMIT: Duration = Duration::from_mins(5);

/// Options of a documentation test, each with a value.
const TEST_OPTIONS: &[&str] = &["--test-run-directory", "--test-args", "--test-runtool"];

/// Records the call if cargo started this process instead of rustdoc. Returns `false` otherwise.
pub(crate) fn record_call() -> Result<bool> {
    let Some(calls) = env::var_os(CALLS_VARIABLE) else {
        return Ok(false);
    };
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    if !args.iter().any(|arg| arg == "--test") {
        // Other calls of cargo, such as the query for the version, go to rustdoc.
        return Err(Command::new("rustdoc").args(args).exec().into());
    }
    let mut line = Vec::new();
    for arg in &args {
        line.extend_from_slice(arg.as_bytes());
        line.push(0);
    }
    line.push(b'\n');
    OpenOptions::new()
        .append(true)
        .open(calls)?
        .write_all(&line)?;
    Ok(true)
}

/// Documents every library of the workspace; any warning is an error.
pub(crate) fn check_documentation(root: &Path, target: &Path) -> Result<()> {
    let calls = target.join("rustdoc-calls");
    File::create(&calls)?;
    let mut cargo = suite::cargo();
    cargo
        .args(["test", "--workspace", "--doc", "--quiet"])
        .envs(suite::build_variables())
        // The build of the workspace has replaced the file of this program with a new one at the same path.
        .env("RUSTDOC", target.join("debug/xtask"))
        .env(CALLS_VARIABLE, &calls)
        .current_dir(root);
    let status = processes::run_within(&mut cargo, RUSTDOC_LIMIT)?;
    ensure!(status.success(), "`cargo test --doc` failed");
    let calls = fs::read(&calls)?;
    let calls = calls
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let calls: Vec<_> = calls.map(parse_call).collect();
    ensure!(!calls.is_empty(), "`cargo test --doc` did not call rustdoc");
    let calls = Mutex::new(calls);
    let output = target.join("doc");
    let cores = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let worker = || -> Result<()> {
            let next = || calls.lock().ok()?.pop();
            while let Some(args) = next() {
                let mut rustdoc = Command::new("rustdoc");
                rustdoc
                    .args(args)
                    .args([
                        "--document-private-items",
                        "--deny",
                        "warnings",
                        "--out-dir",
                    ])
                    .arg(&output)
                    .current_dir(root);
                let status = processes::run_within(&mut rustdoc, RUSTDOC_LIMIT)?;
                ensure!(status.success(), "the documentation has errors");
            }
            Ok(())
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| match worker.join() {
                Ok(outcome) => outcome,
                Err(_) => bail!("a call of rustdoc panicked"),
            })
    })
}

/// Parses a recorded call, without the options of a test.
fn parse_call(line: &[u8]) -> Vec<OsString> {
    let args = line.split(|byte| *byte == 0).filter(|arg| !arg.is_empty());
    let mut args = args.map(|arg| OsString::from_vec(arg.to_vec()));
    let mut retained = Vec::new();
    while let Some(arg) = args.next() {
        if TEST_OPTIONS.iter().any(|option| arg == *option) {
            args.next();
        } else if arg != "--test" {
            retained.push(arg);
        }
    }
    retained
}

/// Runs the tests in doc comments.
pub(crate) fn run_doc_tests(root: &Path, log: &Path) -> Result<RunCounts> {
    let mut cargo = suite::cargo();
    cargo
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .envs(suite::build_variables())
        .current_dir(root);
    let report = guard::run(&cargo, RUSTDOC_LIMIT, log)?;
    let output = fs::read(log).context("cannot read the output of the documentation tests")?;
    let mut counts = count_results(&String::from_utf8_lossy(&output));
    if report.end != (TestEnd::Exited { code: 0 }) || !report.leftover_processes.is_empty() {
        counts.failed = counts.failed.max(1);
        println!(
            "FAILED: documentation tests ({:?}); processes that they left running, now killed: {:?}\n\
             last lines of their output (complete output: {}):\n{}",
            report.end,
            report.leftover_processes,
            log.display(),
            runner::last_lines(&guard::read_tail(log))
        );
    }
    Ok(counts)
}

/// Adds the numbers of all lines such as `test result: ok. 3 passed; 0 failed; …`.
fn count_results(output: &str) -> RunCounts {
    let mut counts = RunCounts::default();
    for line in output.lines() {
        let Some((_, result)) = line
            .strip_prefix("test result: ")
            .and_then(|result| result.split_once(". "))
        else {
            continue;
        };
        for part in result.split("; ") {
            match part.split_once(' ') {
                Some((count, "passed")) => counts.passed += count.parse().unwrap_or(0),
                Some((count, "failed")) => counts.failed += count.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_options_are_removed_from_a_recorded_call() {
        let line = b"--crate-name\0a b\0--test\0--test-run-directory\0/src\0lib.rs\0";
        assert_eq!(parse_call(line), ["--crate-name", "a b", "lib.rs"]);
    }

    #[test]
    fn the_results_of_all_crates_are_added() {
        let output = "running 4 tests\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; finished in 0.1s\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; finished in 0.1s\n";
        let counts = count_results(output);
        assert_eq!((counts.passed, counts.failed), (4, 2));
    }
}
