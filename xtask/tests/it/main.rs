//! Tests of the test runner with tests that do not end: it names and ends each of them, and the run fails.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a panic is how it speaks"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds a test program from this source.
fn build(source: &str, directory: &Path) -> PathBuf {
    let file = directory.join("sample.rs");
    fs::write(&file, source).unwrap();
    let program = directory.join("sample");
    let mut rustc = Command::new("rustc");
    rustc.args(["--test", "--edition=2024", "-o"]).arg(&program);
    assert!(rustc.arg(&file).status().unwrap().success());
    program
}

/// Runs the tests of a program, each within two seconds.
fn run(program: &Path, args: &[&str]) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["test", "--limit", "2", "--program"]);
    xtask.arg(program).args(args).output().unwrap()
}

/// Runs a test program with this source. Returns whether the run succeeded, and its output.
fn run_source(source: &str, args: &[&str]) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&build(source, directory.path()), args);
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), printed)
}

/// Returns `true` if a running process has this argument.
fn runs(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    })
}

const HANGING_TESTS: &str = r#"
use std::process::{Command, Stdio};

#[test]
fn sleeps() {
    println!("before the sleep");
    std::thread::sleep(std::time::Duration::from_secs(3600));
}

#[test]
fn spins() {
    loop {
        std::hint::spin_loop();
    }
}

#[test]
fn waits_for_a_pipe_that_a_grandchild_keeps_open() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "setsid sleep 3456.25 & echo started"]).stdout(Stdio::piped());
    shell.output().unwrap();
}
"#;

#[test]
fn tests_that_do_not_end_are_named_and_ended_and_the_run_fails() {
    let (is_success, printed) = run_source(HANGING_TESTS, &[]);

    assert!(!is_success, "{printed}");
    for name in [
        "sleeps",
        "spins",
        "waits_for_a_pipe_that_a_grandchild_keeps_open",
    ] {
        let line = format!("FAILED: sample {name} exceeded its limit of 2 s and was ended");
        assert!(printed.contains(&line), "no {line:?} in\n{printed}");
    }
    assert!(printed.contains("    before the sleep\n"), "{printed}");
    assert!(printed.contains("sleep 3456.25\n"), "{printed}");
    assert!(
        printed.contains("0 passed, 3 failed, 0 skipped"),
        "{printed}"
    );
    assert!(!runs("3456.25"));
}

#[test]
fn a_test_that_leaves_a_process_fails_and_the_process_is_ended() {
    let (is_success, printed) = run_source(
        r#"
        #[test]
        fn leaves() {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "setsid sleep 3456.5 >/dev/null 2>&1 </dev/null &"]);
            assert!(shell.status().unwrap().success());
        }
        "#,
        &[],
    );

    assert!(!is_success, "{printed}");
    let line = "FAILED: sample leaves passed, but left processes running";
    assert!(printed.contains(line), "{printed}");
    assert!(printed.contains("sleep 3456.5\n"), "{printed}");
    assert!(!runs("3456.5"));
}

#[test]
fn a_run_counts_tests_that_pass_fail_and_are_left_out() {
    let source = r#"
        #[test]
        fn passes() {}
        #[test]
        fn fails() { panic!("as expected of it") }
        #[test]
        #[ignore]
        fn is_left_out() {}
        mod real {
            #[test]
            #[ignore]
            fn needs_a_cli() {}
        }
    "#;

    let (is_success, printed) = run_source(source, &[]);
    assert!(
        !is_success && printed.contains("as expected of it"),
        "{printed}"
    );
    assert!(
        printed.contains("FAILED: sample fails failed (exit code 101)"),
        "{printed}"
    );
    assert!(
        printed.contains("2 passed, 1 failed, 1 skipped"),
        "{printed}"
    );

    let (is_success, printed) = run_source(source, &["--quick", "is_left", "passes"]);
    assert!(
        !is_success && printed.contains("0 passed, 0 failed"),
        "{printed}"
    );

    let (is_success, printed) = run_source(source, &["--quick", "passes"]);
    assert!(
        is_success && printed.contains("1 passed, 0 failed, 0 skipped"),
        "{printed}"
    );
}

#[test]
fn no_test_is_started_after_several_have_exceeded_their_limit() {
    let source = "
        fn hang() { std::thread::sleep(std::time::Duration::from_secs(3600)); }
        #[test] fn a() { hang() }
        #[test] fn b() { hang() }
        #[test] fn c() { hang() }
        #[test] fn d() {}
        #[test] fn e() {}
    ";
    let (is_success, printed) = run_source(source, &["--jobs", "1", "--limit", "1"]);
    assert!(!is_success, "{printed}");
    assert!(printed.contains("so 2 were not started"), "{printed}");
    assert!(
        printed.contains("0 passed, 3 failed, 0 skipped"),
        "{printed}"
    );
}
