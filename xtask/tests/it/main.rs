//! Tests of the test runner with tests that do not end: it names and ends each of them, and the run fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test panics")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Builds a test program from this source.
fn build_test_program(source: &str, directory: &Path) -> PathBuf {
    let file = directory.join("sample.rs");
    fs::write(&file, source).unwrap();
    let program = directory.join("sample");
    let mut rustc = Command::new("rustc");
    rustc.args(["--test", "--edition=2024", "-o"]).arg(&program);
    assert!(rustc.arg(&file).status().unwrap().success());
    program
}

/// Returns the command that runs the tests of a program.
fn xtask_command(program: &Path, args: &[&str]) -> Command {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["test", "--program"]).arg(program).args(args);
    xtask
}

/// Runs a test program with this source. Returns whether the run succeeded, and its output.
fn run_source(source: &str, args: &[&str]) -> (bool, String) {
    let directory = tempfile::tempdir().unwrap();
    let program = build_test_program(source, directory.path());
    let output = xtask_command(&program, args).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), printed)
}

/// Returns a number of seconds, about an hour, that no other process on this machine sleeps.
fn unique_seconds() -> String {
    static CALL_COUNT: AtomicU32 = AtomicU32::new(0);
    let count = CALL_COUNT.fetch_add(1, Ordering::Relaxed);
    format!("3600.{}{count}", std::process::id())
}

/// Waits until a condition holds, and fails after a minute.
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_mins(1), "waited too long");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns `true` if a running process has this argument.
fn is_running(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| {
        line.split(|byte| *byte == 0)
            .any(|word| word == argument.as_bytes())
    })
}

/// Source of tests that do not end. `SECONDS` is replaced by a time that no other process on this machine sleeps.
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
    shell.args(["-c", "setsid sleep SECONDS & echo started"]).stdout(Stdio::piped());
    shell.output().unwrap();
}
"#;

#[test]
fn tests_that_do_not_end_are_named_and_ended_and_the_run_fails() {
    let seconds = unique_seconds();
    let source = HANGING_TESTS.replace("SECONDS", &seconds);
    let (is_success, printed) = run_source(&source, &["--limit", "2"]);

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
    assert!(printed.contains(&format!("sleep {seconds}\n")), "{printed}");
    assert!(
        printed.contains("0 passed, 3 failed, 0 skipped"),
        "{printed}"
    );
    assert!(!is_running(&seconds));
}

#[test]
fn a_test_that_leaves_a_process_fails_and_the_process_is_ended() {
    let seconds = unique_seconds();
    let source = r#"
        #[test]
        fn leaves() {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "setsid sleep SECONDS >/dev/null 2>&1 </dev/null &"]);
            assert!(shell.status().unwrap().success());
        }
    "#;
    let (is_success, printed) = run_source(&source.replace("SECONDS", &seconds), &[]);

    assert!(!is_success, "{printed}");
    let line = "FAILED: sample leaves passed, but left processes running";
    assert!(printed.contains(line), "{printed}");
    assert!(printed.contains(&format!("sleep {seconds}\n")), "{printed}");
    assert!(!is_running(&seconds));
}

#[test]
fn a_signal_to_the_group_of_the_runner_ends_its_tests() {
    let seconds = unique_seconds();
    let source = r#"
        #[test]
        fn waits() {
            std::process::Command::new("sleep").arg("SECONDS").status().unwrap();
        }
    "#;
    let directory = tempfile::tempdir().unwrap();
    let program = build_test_program(&source.replace("SECONDS", &seconds), directory.path());
    let mut runner = xtask_command(&program, &[]);
    let mut runner = runner
        .process_group(0)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| is_running(&seconds));

    let group = Pid::from_raw(i32::try_from(runner.id()).unwrap()).unwrap();
    kill_process_group(group, Signal::TERM).unwrap();

    assert!(!runner.wait().unwrap().success());
    wait_until(|| !is_running(&seconds));
}

#[test]
fn a_test_that_loses_its_guard_fails_and_is_ended() {
    let seconds = unique_seconds();
    let source = r#"
        #[test]
        fn kills_its_guard() {
            let guard = std::os::unix::process::parent_id().to_string();
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", "kill -9 $0; exec sleep SECONDS"]).arg(guard);
            shell.status().unwrap();
        }
        #[test]
        fn passes() {}
    "#;

    let (is_success, printed) = run_source(&source.replace("SECONDS", &seconds), &[]);

    assert!(!is_success, "{printed}");
    let line = "FAILED: sample kills_its_guard ended without a report from its guard";
    assert!(printed.contains(line), "{printed}");
    assert!(
        printed.contains("1 passed, 1 failed, 0 skipped"),
        "{printed}"
    );
    assert!(!is_running(&seconds));
}

#[test]
fn tests_that_exit_early_or_write_without_end_fail() {
    let source = r#"
        #[test]
        fn exits() { std::process::exit(0) }
        #[test]
        fn floods() {
            let line = "x".repeat(1 << 20);
            loop { println!("{line}"); }
        }
    "#;

    let (is_success, printed) = run_source(source, &[]);

    assert!(!is_success, "{printed}");
    for line in [
        "FAILED: sample exits exited with code 0 before the test had ended",
        "FAILED: sample floods wrote too much output and was ended",
        "0 passed, 2 failed, 0 skipped",
    ] {
        assert!(printed.contains(line), "no {line:?} in\n{printed}");
    }
    assert!(printed.len() < 100_000, "{} bytes", printed.len());
}

#[test]
fn a_run_counts_tests_that_pass_fail_and_are_skipped() {
    let source = r#"
        #[test]
        fn passes() {}
        #[test]
        fn fails() { panic!("expected panic") }
        mod real {
            #[test]
            #[ignore]
            fn needs_a_cli() {}
        }
    "#;

    let (is_success, printed) = run_source(source, &[]);
    assert!(
        !is_success && printed.contains("expected panic"),
        "{printed}"
    );
    assert!(
        printed.contains("FAILED: sample fails failed (exit code 101)"),
        "{printed}"
    );
    assert!(
        printed.contains("2 passed, 1 failed, 0 skipped"),
        "{printed}"
    );

    let (is_success, printed) = run_source(source, &["--quick", "e"]);
    assert!(
        !is_success && printed.contains("1 passed, 1 failed, 1 skipped"),
        "{printed}"
    );

    let (is_success, printed) = run_source(source, &["passes"]);
    assert!(
        is_success && printed.contains("1 passed, 0 failed, 0 skipped"),
        "{printed}"
    );
}

#[test]
fn a_run_without_tests_fails_and_gives_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#[test] #[ignore] fn needs_a_cli() {}";
    let program = build_test_program(source, directory.path());
    for (args, reason) in [
        (&["other", "word"][..], "no tests match `other word`"),
        (
            &["--quick", "needs"],
            "no tests to run: `--quick` skipped 1 test",
        ),
    ] {
        let output = xtask_command(&program, args).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert_eq!(printed, format!("error: {reason}\n"));
    }
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
    assert!(printed.contains("did not start 2 tests"), "{printed}");
    assert!(
        printed.contains("0 passed, 3 failed, 0 skipped"),
        "{printed}"
    );
}
