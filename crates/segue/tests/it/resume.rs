//! `segue session resume`, in segue and in the agent's own program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use insta::assert_snapshot;
use segue_testkit::{ProgramOutput, TestHome};
use serde_json::json;

use crate::native::{self, NATIVE_ID};
use crate::new_test_home;

/// Installs a program on `PATH` that prints its arguments, directory and environment. Returns its path.
pub(crate) fn install_fake_program(home: &TestHome, name: &str) -> PathBuf {
    let path = home.path().join("bin").join(name);
    let script = "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nprintf 'cwd %s\\n' \"$(pwd)\" \"$PWD\"\n\
                  printf 'extra %s\\n' \"$EXTRA\"\nexit 7\n";
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Adds a program of the system to `PATH`.
fn link_system_program(home: &TestHome, name: &str) {
    let path = std::env::var_os("PATH").unwrap();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
    let program = candidates.find(|candidate| candidate.is_file()).unwrap();
    symlink(program, home.path().join("bin").join(name)).unwrap();
}

pub(crate) fn write_user_config(home: &TestHome, text: &str) {
    let path = home.path().join(".config/segue/config.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs segue in a directory of the home.
fn run_in_directory(home: &TestHome, directory: &str, args: &[&str]) -> ProgramOutput {
    let mut command = home.segue_command(args);
    let output = command.current_dir(home.path().join(directory)).output();
    ProgramOutput::from_std(&output.unwrap(), home)
}

#[test]
fn resuming_with_a_prompt_adds_one_turn() {
    let home = new_test_home();
    let first = home.run_segue_json(["chat", "--json", "one"]);
    let id = first["session_id"].as_str().unwrap();
    let second = home.run_segue_json(["session", "resume", "--json", &id[16..], "two"]);
    assert_eq!(second["session_id"], id);
    assert_eq!(second["turn"], 2);
    let piped = home.run_segue_with_input(["session", "resume", id, "--json"], b"three");
    let piped: serde_json::Value = serde_json::from_str(&piped.raw_stdout).unwrap();
    assert_eq!(piped["turn"], 3);
    assert_snapshot!(home.run_segue(["session", "resume"]), @"
    --- stderr
    error: no session given
    hint: run `segue session list` to list sessions, or use `latest` for the newest one of this project
    --- exit 2
    ");
    assert_eq!(
        home.run_segue(["session", "resume", "nothing", "hi"]).code,
        Some(1)
    );
    let info = home.run_segue_json(["session", "info", "--json", id]);
    assert_eq!(info["session"]["turns"], 3);
}

#[test]
fn resume_exec_replaces_segue_with_the_agents_own_program() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    fs::create_dir(home.path().join("other-dir")).unwrap();
    install_fake_program(&home, "claude");
    let output = run_in_directory(&home, "other-dir", &["session", "resume", "--exec", "0b5e"]);
    assert_snapshot!(output, @"
    [HOME]/bin/claude
    --resume
    0b5e4c3a-1111-4222-8333-444455556666
    cwd [HOME]/project
    cwd [HOME]/project
    extra 
    --- stderr
    segue: starting claude --resume 0b5e4c3a-1111-4222-8333-444455556666 in [HOME]/project
    --- exit 7
    ");
    let _ = home.run_segue(["session", "adopt", NATIVE_ID]);
    let adopted = run_in_directory(
        &home,
        "other-dir",
        &["session", "resume", "--exec", "latest"],
    );
    assert_eq!(
        adopted.code,
        Some(1),
        "`latest` found a session of another project: {adopted}"
    );
    let adopted = home.run_segue(["session", "resume", "--exec", "latest"]);
    assert_eq!(adopted.stdout, output.stdout, "{adopted}");
    assert_eq!(adopted.code, Some(7));
    home.assert_no_processes();
}

#[test]
fn resume_exec_runs_the_configured_program() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    let program = install_fake_program(&home, "my claude");
    write_user_config(
        &home,
        &format!(
            "[claude]\npath = {program:?}\nargs = [\"--add-dir\", \"/x y\"]\nenv = {{ EXTRA = \"it's\" }}\n"
        ),
    );
    let output = home.run_segue(["session", "resume", "--exec", NATIVE_ID]);
    assert_snapshot!(output, @"
    [HOME]/bin/my claude
    --add-dir
    /x y
    --resume
    0b5e4c3a-1111-4222-8333-444455556666
    cwd [HOME]/project
    cwd [HOME]/project
    extra it's
    --- stderr
    segue: starting 'my claude' --add-dir '/x y' --resume 0b5e4c3a-1111-4222-8333-444455556666 in [HOME]/project
    --- exit 7
    ");
    let printed = home.run_segue(["session", "resume", "--print", NATIVE_ID]);
    assert_snapshot!(printed, @r"
    cd [HOME]/project && env 'EXTRA=it'\''s' '[HOME]/bin/my claude' --add-dir '/x y' --resume 0b5e4c3a-1111-4222-8333-444455556666
    --- exit 0
    ");
    link_system_program(&home, "env");
    let shell = home
        .program_command("sh")
        .args(["-c", &printed.raw_stdout])
        .output();
    let shell = ProgramOutput::from_std(&shell.unwrap(), &home);
    assert_eq!((shell.stdout, shell.code), (output.stdout, Some(7)));
    let printed_json = home.run_segue_json(["session", "resume", "--print", "--json", NATIVE_ID]);
    assert_eq!(printed_json["provider"], "claude");
    assert_eq!(printed_json["native_session_id"], NATIVE_ID);
    assert_eq!(
        printed_json["args"],
        json!(["--add-dir", "/x y", "--resume", NATIVE_ID])
    );
    assert_eq!(printed_json["env"], json!({"EXTRA": "it's"}));
}

#[test]
fn an_impossible_native_resume_is_refused_with_a_hint() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "missing");
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", NATIVE_ID]), @"
    --- stderr
    error: cannot resume claude:0b5e4c3a-1111-4222-8333-444455556666 in the agent's own program: its working directory [HOME]/missing does not exist
    hint: recreate the directory, or run `segue session fork claude:0b5e4c3a-1111-4222-8333-444455556666` to fork the session into the current directory
    --- exit 1
    ");
    fs::create_dir(home.path().join("missing")).unwrap();
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", NATIVE_ID]), @"
    --- stderr
    error: agent `claude` not found on this machine
    hint: put `claude` on PATH, or set its `path` in the configuration
    --- exit 1
    ");
    install_fake_program(&home, "claude");
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", NATIVE_ID, "-p", "codex"]), @r#"
    --- stderr
    error: the session belongs to claude, not to codex
    hint: hand it off to codex with `segue session resume claude:0b5e4c3a-1111-4222-8333-444455556666 -p codex "…"`
    --- exit 2
    "#);
    let with_default_provider = home
        .segue_command(["session", "resume", "--print", NATIVE_ID])
        .env("SEGUE_PROVIDER", "codex")
        .output();
    assert!(
        with_default_provider.unwrap().status.success(),
        "the default provider was applied to a native resume"
    );
    for args in [
        ["--exec", "hi"],
        ["--exec", "--json"],
        ["--print", "--strict"],
        ["--exec", "-mopus"],
    ] {
        let output = home.run_segue([&["session", "resume", NATIVE_ID], &args[..]].concat());
        assert_eq!(output.code, Some(2), "{args:?}: {output}");
    }
    let fork = home.run_segue_json(["session", "fork", "--json", NATIVE_ID]);
    let fork = fork["id"].as_str().unwrap();
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", fork]), @r#"
    --- stderr
    error: cannot resume [SESSION] in the agent's own program: it has no native session yet
    hint: run `segue session resume [SESSION] "…"` to start one with the next prompt
    --- exit 1
    "#);
    let _ = home.run_segue(["session", "revert", NATIVE_ID, "--to", "1"]);
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", NATIVE_ID]), @r#"
    --- stderr
    error: cannot resume [SESSION] in the agent's own program: its last turn is missing from the native session of claude
    hint: run `segue session resume [SESSION] "…"` first, which sends claude the missing turns
    --- exit 1
    "#);
    let _ = home.run_segue(["session", "undo", NATIVE_ID]);
    assert_eq!(
        home.run_segue(["session", "resume", "--exec", NATIVE_ID])
            .code,
        Some(7)
    );
    // A truncated native session is detected before the program is started.
    let file = native::write_claude_session(&home, NATIVE_ID, "missing");
    let text = fs::read_to_string(&file).unwrap();
    let first_lines: Vec<&str> = text.lines().take(3).collect();
    fs::write(&file, first_lines.join("\n") + "\n").unwrap();
    let truncated = home.run_segue(["session", "resume", "--exec", NATIVE_ID]);
    assert_eq!(truncated.code, Some(1), "{truncated}");
    assert!(
        truncated
            .stderr
            .contains("its last turn is missing from the native session of claude"),
        "{truncated}"
    );
    fs::remove_dir_all(home.path().join(".claude")).unwrap();
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", NATIVE_ID]), @r#"
    --- stderr
    error: cannot resume [SESSION] in the agent's own program: claude no longer has it
    hint: run `segue session resume [SESSION] "…"` to continue in a new native session with a brief
    --- exit 1
    "#);
}

#[test]
fn a_session_in_use_is_not_resumed_in_the_agents_own_program() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say begun; hang"]);
    let first_event = events.next_event().unwrap();
    let id = first_event["session_id"].as_str().unwrap().to_owned();
    let output = home.run_segue(["session", "resume", "--exec", &id]);
    assert_eq!(output.code, Some(1));
    assert!(
        output
            .stderr
            .contains("is using it\nhint: wait until that process finishes, or end it"),
        "{output}"
    );
    let _ = events.kill();
    home.assert_no_processes();
    let output = home.run_segue(["session", "resume", "--exec", &id]);
    assert!(
        output
            .stderr
            .contains("rehearsal has no command that resumes a session")
            || output.stderr.contains("it has no native session yet"),
        "{output}"
    );
}

#[test]
fn an_archived_codex_session_must_be_unarchived_first() {
    const THREAD_ID: &str = "019b0a00-1111-7222-8333-444455556666";
    let home = new_test_home();
    let sample = include_str!("../../../segue-providers/tests/it/samples/codex.jsonl");
    let directory = home.path().join(".codex/archived_sessions");
    fs::create_dir_all(&directory).unwrap();
    let id = sample
        .split("\"id\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let text = sample
        .replace(id, THREAD_ID)
        .replace("\"/w\"", &format!("{:?}", home.project()));
    fs::write(
        directory.join(format!("rollout-2026-01-02T03-04-05-{THREAD_ID}.jsonl")),
        text,
    )
    .unwrap();
    install_fake_program(&home, "codex");
    assert_snapshot!(home.run_segue(["session", "resume", "--exec", THREAD_ID]), @"
    --- stderr
    error: cannot resume codex:019b0a00-1111-7222-8333-444455556666 in the agent's own program: codex has archived it
    hint: run `codex unarchive 019b0a00-1111-7222-8333-444455556666` first
    --- exit 1
    ");
}

#[test]
fn a_list_is_sorted_as_requested() {
    let home = new_test_home();
    let beta = home.run_segue_json(["chat", "--json", "beta"]);
    let _ = home.run_segue_json(["chat", "--json", "Alpha"]);
    let id = beta["session_id"].as_str().unwrap();
    let _ = home.run_segue_json([
        "session",
        "resume",
        "--json",
        id,
        "and a longer prompt for more tokens",
    ]);
    native::write_claude_session(&home, NATIVE_ID, "project");
    let titles = |args: &[&str]| {
        let all = [&["session", "list", "--json"], args].concat();
        let listed = home.run_segue_json(all);
        let titles = listed.as_array().unwrap().iter();
        titles
            .map(|entry| entry["title"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let cases: [(&[&str], [&str; 3]); 9] = [
        (&[], ["beta", "Alpha", "Shopping"]),
        (
            &["--sort", "updated", "--reverse"],
            ["Shopping", "Alpha", "beta"],
        ),
        (&["--sort", "created"], ["Alpha", "beta", "Shopping"]),
        (&["--sort", "turns"], ["Shopping", "beta", "Alpha"]),
        (&["--sort", "tokens"], ["Shopping", "beta", "Alpha"]),
        (&["--sort", "title"], ["Alpha", "beta", "Shopping"]),
        (
            &["--sort", "title", "--reverse"],
            ["Shopping", "beta", "Alpha"],
        ),
        (&["--sort", "provider"], ["Shopping", "beta", "Alpha"]),
        (
            &["--sort", "provider", "--reverse"],
            ["beta", "Alpha", "Shopping"],
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(titles(args), expected, "{args:?}");
    }
    assert_eq!(titles(&["--sort", "title", "-n", "1"]), ["Alpha"]);
    let first = home.run_segue(["session", "list", "--sort", "title", "-n", "1"]);
    assert!(first.stderr.contains("there are more"), "{first}");
    assert_eq!(
        home.run_segue(["session", "list", "--sort", "size"]).code,
        Some(2)
    );
}

#[test]
fn a_day_is_interpreted_in_the_local_time_zone() {
    let home = new_test_home();
    // The session was last updated at 03:05 UTC.
    native::write_claude_session(&home, NATIVE_ID, "project");
    let cases = [
        ("UTC0", "2026-01-02T03:00", 1),
        ("UTC0", "2026-01-02T04:00", 0),
        ("JST-9", "2026-01-02T12:00", 1),
        ("JST-9", "2026-01-02T13:00", 0),
        ("UTC0", "2026-01-02", 1),
        ("UTC0", "yesterday", 0),
    ];
    for (zone, since, expected) in cases {
        let mut command = home.segue_command(["session", "list", "--json", "--since", since]);
        let output = command.env("TZ", zone).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = listed.as_array().unwrap().len();
        assert_eq!(count, expected, "{since} in {zone}");
    }
}

#[test]
fn a_narrow_list_has_short_lines() {
    let home = new_test_home();
    let turn = home.run_segue_json([
        "chat",
        "--json",
        "a prompt that is longer than a narrow terminal is wide",
    ]);
    let id = turn["session_id"].as_str().unwrap();
    native::write_claude_session(&home, NATIVE_ID, "project");
    let _ = home.run_segue(["session", "tag", id, "urgent"]);
    for (columns, all) in [("40", false), ("40", true), ("60", true), ("80", true)] {
        let mut command = home.segue_command(["session", "list"]);
        command.env("COLUMNS", columns).args(all.then_some("--all"));
        let output = ProgramOutput::from_std(&command.output().unwrap(), &home).raw_stdout;
        let widest = output.lines().map(|line| line.chars().count()).max();
        assert!(widest <= columns.parse().ok(), "{columns}: {output}");
        assert!(
            output.contains(&id[16..]) && output.contains("a prompt"),
            "{output}"
        );
        assert!(output.contains("0b5e4c3a"), "{output}");
        // In a narrow terminal, agent and time are shown instead of the directory.
        assert!(
            columns != "80" || (output.contains("rehearsal") && output.contains("just now")),
            "{output}"
        );
    }
}

#[test]
fn a_list_works_in_a_removed_directory() {
    let home = new_test_home();
    let removed_dir = home.path().join("lost");
    fs::create_dir(&removed_dir).unwrap();
    let mut chat = home.segue_command(["chat", "--json", "here"]);
    assert!(
        chat.current_dir(&removed_dir)
            .output()
            .unwrap()
            .status
            .success()
    );
    link_system_program(&home, "rmdir");
    let script = format!(
        "rmdir \"$PWD\" && {0} session list && {0} session show latest && {0} chat again",
        env!("CARGO_BIN_EXE_segue")
    );
    let mut shell = home.program_command("sh");
    shell
        .args(["-c", &script])
        .env("PWD", &removed_dir)
        .current_dir(&removed_dir);
    let output = ProgramOutput::from_std(&shell.output().unwrap(), &home);
    assert!(output.stdout.contains("just now  here\n"), "{output}");
    assert!(output.stdout.contains("── turn 1"), "{output}");
    assert!(
        output
            .stderr
            .contains("error: cannot determine the working directory"),
        "an agent was started without a working directory: {output}"
    );
}
