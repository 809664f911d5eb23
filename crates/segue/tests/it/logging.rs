//! `--log` and `SEGUE_LOG`: destinations, filters and errors of the log, and what it never contains.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};

use crate::new_test_home;

/// Prefix of all texts that must not be in the log.
const SECRET_MARK: &str = "SECRET-";

/// Runs segue with a log filter in the environment.
fn run_with_filter(home: &TestHome, filter: &str, args: &[&str]) -> ProgramOutput {
    let mut command = home.segue_command(args);
    command.env("SEGUE_LOG", filter);
    command.env("SEGUE_TEST_API_KEY", format!("{SECRET_MARK}variable"));
    ProgramOutput::from_std(&command.output().unwrap(), home)
}

fn permissions(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn log_path(home: &TestHome) -> PathBuf {
    home.path().join("segue.log")
}

/// Runs segue with `--log` and a filter, and expects an exit code. Returns the content of the log.
fn run_logged(home: &TestHome, filter: &str, args: &[&str], exit_code: i32) -> String {
    let path = log_path(home);
    let log_args = ["--log", path.to_str().unwrap()];
    let output = run_with_filter(home, filter, &[&log_args, args].concat());
    assert_eq!(output.code, Some(exit_code), "{output}");
    fs::read_to_string(&path).unwrap()
}

#[test]
fn the_log_identifies_everything_and_contains_no_content() {
    let home = new_test_home();
    let prompt = format!("rehearse: think {SECRET_MARK}thought; tool; say {SECRET_MARK}answer");
    let _ = run_logged(&home, "trace", &["chat", "-p", "rehearsal", &prompt], 0);
    let title = format!("{SECRET_MARK}title");
    let rename = ["session", "rename", "latest", &title];
    let _ = run_logged(&home, "trace", &rename, 0);
    let query = format!("{SECRET_MARK}query");
    let _ = run_logged(&home, "trace", &["session", "search", &query], 0);
    let failing_prompt = format!("rehearse: fail {SECRET_MARK}failure");
    let log = run_logged(&home, "trace", &["chat", "--continue", &failing_prompt], 3);
    let transcript = home.run_segue(["session", "show", "latest"]);
    for text in ["thought", "answer", "failure"] {
        let secret = format!("{SECRET_MARK}{text}");
        assert!(transcript.stdout.contains(&secret), "{transcript}");
    }
    assert!(!log.contains(SECRET_MARK), "{log}");

    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    let session = info["session"]["id"].as_str().unwrap();
    let native = info["session"]["native_session_id"].as_str().unwrap();
    for expected in [
        "segue started version=",
        "command=\"session rename\"",
        "store migrated path=",
        " from=0 to=",
        &format!("lease granted session={session} epoch=1 pid="),
        &format!("lease released session={session} epoch="),
        "provider{provider=rehearsal transport=\"acp\"}: segue_providers::process: process started pid=",
        &format!(
            "native_id=\"{native}\"}}: segue_providers::provider: agent opened mode=\"fresh\""
        ),
        &format!("agent opened mode=\"resumed\" requested_id=\"{native}\""),
        "segue_providers::provider: close time.busy=",
        "process stopped pid=",
        "TRACE segue_sqlite::writer: commit operations=1 synchronous=\"FULL\" elapsed_us=",
        "DEBUG segue_catalog::index::refresh: index refreshed sources=",
    ] {
        assert!(log.contains(expected), "{expected} in {log}");
    }
    // Each line begins with the time in UTC, the process and the level. Other libraries have no lines.
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let is_prefix = words[0].ends_with('Z')
            && words[1].parse::<u32>().is_ok()
            && ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&words[2]);
        assert!(is_prefix && line.contains("segue"), "{line}");
    }
    assert_eq!(permissions(&log_path(&home)), 0o600);
}

#[test]
fn the_log_shows_why_a_new_native_session_was_started() {
    let home = new_test_home();
    let first = home.run_segue_json(["chat", "--json", "hello"]);
    let native = first["native_session_id"].as_str().unwrap();
    fs::remove_file(home.segue_home().join(format!("rehearsal/{native}.jsonl"))).unwrap();
    let log = run_logged(&home, "info", &["chat", "--continue", "again"], 0);
    let reason = "native session not resumed: starting a new one class=\"session_unknown\"";
    assert!(log.contains(reason), "{log}");
    let opened = format!("agent opened mode=\"fresh\" requested_id=\"{native}\"");
    assert!(log.contains(&opened), "{log}");
    assert!(!log.contains("DEBUG"), "{log}");
}

#[test]
fn the_log_shows_which_process_has_the_lease() {
    let home = new_test_home();
    let mut chat = home.start_chat(["-p", "rehearsal", "rehearse: say hello; hang"]);
    while chat.next_event().unwrap()["event"] != "text" {}
    let log = run_logged(&home, "segue_sqlite", &["chat", "--continue", "me too"], 1);
    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    let (session, pid) = (&info["session"]["id"], &info["held_by"]["pid"]);
    let session = session.as_str().unwrap();
    let holder = format!("lease in use session={session} epoch=1 pid={pid}");
    assert!(log.contains(&holder), "{log}");
    let _ = chat.kill();
    home.assert_no_processes();
}

#[test]
fn the_variable_alone_logs_to_standard_error() {
    let home = new_test_home();
    let output = run_with_filter(&home, "info", &["chat", "-p", "rehearsal", "hello"]);
    assert_snapshot!(output.stdout, @"
    You said: hello
    This is where our conversation begins.
    ");
    assert!(
        output.stderr.contains("INFO segue: segue started"),
        "{output}"
    );
    assert!(!output.stderr.contains("DEBUG"), "{output}");
    assert!(!home.segue_home().join("log").exists());
}

#[test]
fn a_large_log_in_the_home_is_renamed_and_a_named_log_is_not() {
    let home = new_test_home();
    let directory = home.segue_home().join("log");
    let (path, old_path) = (directory.join("segue.log"), directory.join("segue.log.1"));
    fs::create_dir_all(&directory).unwrap();
    fs::write(&old_path, "older log").unwrap();
    let large_len = 10_000_001;
    let set_large = |path: &Path| {
        let file = fs::File::create(path).unwrap();
        file.set_len(large_len).unwrap();
    };
    set_large(&path);
    let _ = run_with_filter(&home, "info", &["repl"]);
    assert_eq!(fs::metadata(&old_path).unwrap().len(), large_len);
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.contains("segue started"), "{log}");
    assert_eq!(permissions(&path), 0o600);

    let _ = run_with_filter(&home, "info", &["repl"]);
    let continued_log = fs::read_to_string(&path).unwrap();
    assert!(continued_log.starts_with(&log), "{continued_log}");

    set_large(&log_path(&home));
    let log = run_logged(&home, "info", &["repl"], 0);
    assert!(log.len() as u64 > large_len && log.contains("segue started"));
    assert!(!log_path(&home).with_extension("log.1").exists());
}

#[test]
fn the_repl_and_the_mcp_server_log_to_a_file_in_the_home() {
    let home = new_test_home();
    for command in ["repl", "mcp"] {
        let output = run_with_filter(&home, "debug", &[command]);
        assert!(!output.stderr.contains("INFO"), "{output}");
    }
    let path = home.segue_home().join("log/segue.log");
    let log = fs::read_to_string(&path).unwrap();
    for command in ["repl", "mcp"] {
        assert!(log.contains(&format!("command=\"{command}\"")), "{log}");
    }
    assert_eq!(permissions(&path), 0o600);
    assert_eq!(permissions(path.parent().unwrap()), 0o700);
}

#[test]
fn a_file_is_appended_to_at_the_debug_level() {
    let home = new_test_home();
    let path = log_path(&home);
    fs::write(&path, "first line\n").unwrap();
    // The option may follow the command.
    for args in [
        ["--log", path.to_str().unwrap(), "session", "list", "--json"],
        ["session", "list", "--json", "--log", path.to_str().unwrap()],
    ] {
        let output = home.run_segue(args);
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (Some(0), ""),
            "{output}"
        );
    }
    let log = fs::read_to_string(&path).unwrap();
    assert!(log.starts_with("first line\n"), "{log}");
    assert_eq!(log.matches("command=\"session list\"").count(), 2, "{log}");
    assert!(log.contains("DEBUG") && !log.contains("TRACE"), "{log}");
}

#[test]
fn without_option_and_variable_there_is_no_log() {
    let home = new_test_home();
    let output = run_with_filter(&home, "", &["chat", "-p", "rehearsal", "hello"]);
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (Some(0), ""),
        "{output}"
    );
    assert!(!home.segue_home().join("log").exists());
}

#[test]
fn an_invalid_filter_is_a_usage_error_that_changes_nothing() {
    let home = new_test_home();
    assert_snapshot!(run_with_filter(&home, "info,rmcp=trace", &["chat", "hello"]), @"
    --- stderr
    error: invalid log filter `rmcp=trace` in SEGUE_LOG
    hint: use a level (off, error, warn, info, debug, trace), or targets with levels such as `info,segue_sqlite=trace`
    --- exit 2
    ");
    let output = run_with_filter(&home, "loud", &["chat", "--json", "hello"]);
    let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(result["error"]["class"], "usage", "{output}");
    let output = run_with_filter(&home, "loud", &["session", "list", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(output.code, Some(2), "{output}");
    assert!(result["error"].is_object(), "{output}");
    assert!(!home.segue_home().exists());
}

#[test]
fn a_file_that_cannot_be_written_is_a_usage_error_that_changes_nothing() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["--log", "missing/segue.log", "chat", "hello"]), @"
    --- stderr
    error: cannot write the log to missing/segue.log: No such file or directory (os error 2)
    hint: name a file that you may write with `--log FILE`
    --- exit 2
    ");
    let output = home.run_segue(["--log", ".", "chat", "--json", "hello"]);
    let result: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(result["error"]["class"], "usage", "{output}");
    assert!(!home.segue_home().exists());
}

#[test]
fn a_full_disk_for_the_log_does_not_affect_the_turn() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["--log", "/dev/full", "chat", "-p", "rehearsal", "hello"]), @"
    You said: hello
    This is where our conversation begins.
    --- exit 0
    ");
}

#[test]
fn completion_offers_files_for_the_log() {
    let home = new_test_home();
    let zsh = home.run_segue(["completions", "zsh"]);
    assert!(zsh.stdout.contains("]:FILE:_files'"), "{zsh}");
    let fish = home.run_segue(["completions", "fish"]);
    let has_file_option = |line: &str| line.contains(" -l log ") && line.contains(" -r -F");
    assert!(fish.stdout.lines().any(has_file_option), "{fish}");
}
