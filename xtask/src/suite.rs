//! The tests of the workspace: builds them once, with lints, and lists them.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::guard::{self, TestEnd};
use crate::{processes, runner};

/// Maximum time for a build.
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// Time for the last messages of a build to arrive after its end.
const MESSAGE_GRACE: Duration = Duration::from_secs(30);

/// Maximum time in which a test program must list its tests.
const LIST_LIMIT: Duration = Duration::from_mins(1);

/// Module of the tests that start the real CLIs.
const REAL_MODULE: &str = "real::";

/// A built test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestBinary {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) program: PathBuf,
    /// Directory of the package, in which its tests run.
    pub(crate) directory: PathBuf,
}

impl TestBinary {
    /// Returns the test program at `path`, which was built by other means.
    pub(crate) fn from_path(path: &Path) -> Result<Self> {
        let program = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self {
            package: name.into_owned(),
            target: String::new(),
            directory: std::env::current_dir()?,
            program,
        })
    }
}

/// A test function.
#[derive(Debug, Clone)]
pub(crate) struct TestCase {
    pub(crate) binary: TestBinary,
    pub(crate) name: String,
}

impl TestCase {
    /// Returns `true` if the test starts the real CLIs.
    pub(crate) fn is_real(&self) -> bool {
        self.name.starts_with(REAL_MODULE)
    }

    /// Returns package, target and name, as `segue it kills::campaign`.
    pub(crate) fn full_name(&self) -> String {
        let TestBinary {
            package, target, ..
        } = &self.binary;
        let words = [package, target, &self.name];
        let words = words.map(String::as_str).into_iter();
        words
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Tests to run, and the number of tests that are skipped.
pub(crate) struct TestSuite {
    pub(crate) cases: Vec<TestCase>,
    pub(crate) skipped: usize,
}

/// Result of a build.
pub(crate) struct TestBuild {
    pub(crate) binaries: Vec<TestBinary>,
    /// Warnings of the compiler and of clippy in the workspace.
    pub(crate) warnings: usize,
}

/// Builds every test program of the workspace, and further targets that `targets` selects, and counts the warnings.
///
/// Clippy replaces the compiler for the crates of the workspace, so one build serves lints and tests.
pub(crate) fn build_tests(root: &Path, targets: &[&str]) -> Result<TestBuild> {
    let mut cargo = cargo();
    cargo
        .args(["test", "--workspace", "--no-run"])
        .args(targets)
        .arg(format!("--message-format={}", message_format()))
        .envs(build_variables())
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = cargo.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(read_messages(BufReader::new(output))));
    let Some(status) = processes::wait_within(&mut child, BUILD_LIMIT)? else {
        processes::kill_descendants(std::process::id());
        bail!("the build did not end within {} s", BUILD_LIMIT.as_secs());
    };
    // The last messages are printed before the outcome. A process that cargo started may keep the pipe open.
    let build = receiver.recv_timeout(MESSAGE_GRACE);
    ensure!(status.success(), "the build failed");
    build
        .context("cargo's messages did not end after the build")?
        .context("cannot read cargo's messages")
}

/// Returns the `cargo` that started this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the environment variables of every build of the workspace, so that each build reuses the results of another.
pub(crate) fn build_variables() -> Vec<(&'static str, &'static str)> {
    let mut variables = Vec::new();
    if std::env::var_os("CI").is_some() {
        // CI builds once, so incremental compilation only costs time.
        variables.push(("CARGO_INCREMENTAL", "0"));
    }
    if has_clippy() {
        variables.push(("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"));
    }
    variables
}

/// Returns `true` if clippy is installed. Without it the tests are built by the compiler, without lints.
pub(crate) fn has_clippy() -> bool {
    processes::can_print_version(Command::new("clippy-driver").arg("--version"))
}

/// Returns the format of cargo's messages. Diagnostics have colours if stderr is a terminal.
fn message_format() -> &'static str {
    if io::stderr().is_terminal() {
        "json-diagnostic-rendered-ansi"
    } else {
        "json"
    }
}

/// Reads cargo's messages to their end and prints the diagnostics.
fn read_messages(output: impl BufRead) -> Result<TestBuild> {
    let mut build = TestBuild {
        binaries: Vec::new(),
        warnings: 0,
    };
    for line in output.lines() {
        // Lines that are not messages come from a build script or a wrapper.
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if let Some(rendered) = message["message"]["rendered"].as_str() {
            eprint!("{rendered}");
        }
        build.warnings += usize::from(is_warning(&message));
        build.binaries.extend(parse_test_binary(&message));
    }
    Ok(build)
}

fn is_warning(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "warning"
}

fn parse_test_binary(message: &Value) -> Option<TestBinary> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    // A benchmark is built for the lints only.
    if message["target"]["kind"][0] == "bench" {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let directory = manifest.parent()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = message["target"]["name"].as_str()?;
    Some(TestBinary {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: if kind == "test" { name } else { kind }.to_owned(),
        program: message["executable"].as_str()?.into(),
        directory: directory.to_owned(),
    })
}

/// Lists the tests of `binaries` whose full name contains every word of `filter`.
///
/// Tests with the real CLIs are marked as ignored, so that `cargo test` skips them; `is_quick` skips every ignored
/// test. The output of the test programs goes to `logs`.
pub(crate) fn list_tests(
    binaries: &[TestBinary],
    filter: &[&str],
    is_quick: bool,
    logs: &Path,
) -> Result<TestSuite> {
    let mut suite = TestSuite {
        cases: Vec::new(),
        skipped: 0,
    };
    for binary in binaries {
        let log = logs.join(format!("list-{}-{}.log", binary.package, binary.target));
        let all = list_names(binary, &[], &log)?;
        let ignored = if is_quick {
            list_names(binary, &["--ignored"], &log)?
        } else {
            Vec::new()
        };
        for name in all {
            let case = TestCase {
                binary: binary.clone(),
                name,
            };
            let full_name = case.full_name();
            if !filter.iter().all(|word| full_name.contains(word)) {
                continue;
            }
            if ignored.contains(&case.name) {
                suite.skipped += 1;
            } else {
                suite.cases.push(case);
            }
        }
    }
    Ok(suite)
}

fn list_names(binary: &TestBinary, args: &[&str], log: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(&binary.program);
    command
        .args(["--list", "--format=terse"])
        .args(args)
        .current_dir(&binary.directory);
    let program = binary.program.display();
    let report = guard::run(&command, LIST_LIMIT, log)
        .with_context(|| format!("cannot list the tests of {program}"))?;
    ensure!(
        report.end == TestEnd::Exited { code: 0 },
        "{program} cannot list its tests ({:?}); its output:\n{}",
        report.end,
        runner::last_lines(&guard::read_tail(log))
    );
    let text = fs::read_to_string(log)?;
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact_message(kind: &str, name: &str) -> Value {
        json!({
            "reason": "compiler-artifact",
            "manifest_path": "/src/crates/segue-core/Cargo.toml",
            "target": {"kind": [kind], "name": name},
            "profile": {"test": true},
            "executable": "/target/debug/deps/x-1",
        })
    }

    #[test]
    fn test_programs_are_named_by_package_and_target() {
        let package_and_target = |kind, name| {
            let binary = parse_test_binary(&artifact_message(kind, name))?;
            Some((binary.package, binary.target))
        };
        let expected = |target: &str| Some(("segue-core".to_owned(), target.to_owned()));
        assert_eq!(package_and_target("lib", "segue_core"), expected("lib"));
        assert_eq!(package_and_target("test", "it"), expected("it"));
        assert_eq!(package_and_target("bench", "store"), None);
    }

    #[test]
    fn a_library_without_tests_is_no_test_program() {
        let mut message = artifact_message("lib", "segue_core");
        message["profile"]["test"] = false.into();
        assert_eq!(parse_test_binary(&message), None);
    }

    #[test]
    fn warnings_are_counted_and_other_lines_are_skipped() {
        let warning = r#"{"reason": "compiler-message", "message": {"level": "warning"}}"#;
        let note = r#"{"reason": "compiler-message", "message": {"level": "note"}}"#;
        let text = format!("hello\n{warning}\n{note}\n");
        assert_eq!(read_messages(text.as_bytes()).unwrap().warnings, 1);
    }
}
