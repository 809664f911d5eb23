//! Native sessions: listed together with the sessions of segue, and shown.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use insta::assert_snapshot;
use segue_testkit::TestHome;

use crate::new_test_home;

const CLAUDE_SAMPLE: &str = include_str!("../../../segue-providers/tests/it/samples/claude.jsonl");
pub(crate) const NATIVE_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";

/// Writes a Claude Code session whose working directory is `directory`. Returns its path.
pub(crate) fn write_claude_session(home: &TestHome, id: &str, directory: &str) -> PathBuf {
    let cwd = home.path().join(directory);
    let path = home
        .path()
        .join(".claude/projects/-somewhere")
        .join(format!("{id}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = CLAUDE_SAMPLE
        .replace(NATIVE_ID, id)
        .replace("\"/w\"", &format!("{:?}", cwd.display().to_string()));
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_list_shows_native_sessions_of_the_project_next_to_segues_own() {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID, "project");
    write_claude_session(&home, "aaaaaaaa-1111-4222-8333-444455556666", "other-dir");
    let _ = home.run_segue(["chat", "hello"]);
    let list = home.run_segue(["session", "list"]);
    let rows: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(
        rows[1].contains("rehearsal") && rows[1].ends_with("hello"),
        "{list}"
    );
    assert!(
        rows[2].starts_with("2  0b5e4c3a-1111         claude     3  "),
        "{list}"
    );
    assert!(rows[2].ends_with(" days ago  Shopping"), "{list}");

    let count = |args: &[&str]| {
        let all = [&["session", "list", "--json"], args].concat();
        home.run_segue_json(all).as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 2);
    assert_eq!(count(&["--all"]), 3);
    assert_eq!(count(&["--all", "-p", "claude"]), 2);
    assert_eq!(count(&["--all", "-p", "rehearsal"]), 1);
    assert_eq!(count(&["--all", "-p", "rehearsal,claude"]), 3);
    assert_eq!(count(&["--all", "-p", "claude", "-p", "rehearsal"]), 3);
    assert_eq!(count(&["--all", "-p", "claude,claude"]), 2);
    assert_eq!(count(&["--all", "-p", "claude,rehearsal", "-n", "1"]), 1);
    let unknown = home.run_segue(["session", "list", "-p", "claude,nobody"]);
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert_eq!(count(&["--all", "--since", "1d"]), 1);
    assert_eq!(count(&["--all", "--limit", "2"]), 2);
    assert_eq!(count(&["--feature", "pay"]), 0);
    let entry = &home.run_segue_json(["session", "list", "--json", "-p", "claude"])[0];
    assert_eq!(entry["id"], serde_json::Value::Null);
    assert_eq!(entry["native_session_id"], NATIVE_ID);
    assert_eq!(entry["title"], "Shopping");
    assert_eq!(entry["title_from"], "user");
    assert_eq!(entry["turns"], 3);
    assert_eq!(entry["total_tokens"], 284);
    assert_eq!(entry["updated_at"], "2026-01-02T03:05:01Z");
}

#[test]
fn a_native_session_is_shown_by_prefix_by_number_and_as_the_latest() {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID, "project");
    assert_snapshot!(home.run_segue(["session", "show", "0b5e"]), @r#"
    Shopping
    0b5e4c3a-1111-4222-8333-444455556666 · native session of claude

    ── turn 1 ──────────────────────────────────────────────────────────────────────
    you
      /model opus
    note
      Set model to opus

    ── turn 2 ──────────────────────────────────────────────────────────────────────
    you
      What is in "notes"?
      [image/png]
    claude
      (thinks) I should look.
      ▸ Read {"file_path":"/w/notes"}
    tool
      ✓ buy milk
    you
      quickly, please
    claude
      Milk is to be bought.
      [unknown content] {"type":"novelty","of":"the future"}

    ── turn 3 · cancelled ──────────────────────────────────────────────────────────
    you
      And in the cellar?
    --- exit 0
    "#);
    let _ = home.run_segue(["session", "list"]);
    let expected = home
        .run_segue(["session", "show", "--json", NATIVE_ID])
        .stdout;
    for name in ["1", "latest", "claude:0b5e", "0b5e4c3a-1111"] {
        assert_eq!(
            home.run_segue(["session", "show", "--json", name]).stdout,
            expected,
            "{name}"
        );
    }
    let last = home.run_segue_json(["session", "show", "--json", "--last", "1", "1"]);
    assert_eq!(last["turns"].as_array().unwrap().len(), 1);
    assert_eq!(last["turns"][0]["n"], 3);
    assert_eq!(last["turns"][0]["state"], "cancelled");
    assert_eq!(last["skipped"]["malformed"], 0);
    let last = home.run_segue_json(["session", "show", "--json", "--last", "0", "1"]);
    assert_eq!(last["turns"], serde_json::json!([]));
}

#[test]
fn session_info_describes_a_native_session() {
    let home = new_test_home();
    let path = write_claude_session(&home, NATIVE_ID, "project");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("not json\n{\"type\":\"user\"");
    fs::write(&path, text).unwrap();
    let mut info = home.run_segue(["session", "info", "0b5e"]);
    info.stdout = info
        .stdout
        .lines()
        .filter(|line| !line.contains("ago)"))
        .collect::<Vec<_>>()
        .join("\n")
        + "\n";
    assert_snapshot!(info, @"
    Shopping
    native id 0b5e4c3a-1111-4222-8333-444455556666
    agent     claude 1.0.60
    directory [HOME]/project
    branch    main
    turns     3, 284 tokens
    file      [HOME]/.claude/projects/-somewhere/0b5e4c3a-1111-4222-8333-444455556666.jsonl (4671 bytes)
    resume    claude --resume 0b5e4c3a-1111-4222-8333-444455556666   (in the directory above)
    native session of claude; segue only reads it
    --- stderr
    segue: not fully read: 1 invalid line; the last line, which is incomplete or still being written
    --- exit 0
    ");
    let info = home.run_segue_json(["session", "info", "--json", "0b5e"]);
    assert_eq!(info["session"]["turns"], 3);
    assert_eq!(info["session"]["total_tokens"], 284);
    assert_eq!(info["native"]["skipped"]["malformed"], 1);
    assert_eq!(info["native"]["skipped"]["torn"], true);
    assert_eq!(info["native"]["first_prompt"], "What is in \"notes\"?");
}

#[test]
fn an_ambiguous_unknown_or_unadopted_session_is_an_error() {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID, "project");
    write_claude_session(&home, "0b5e4c3a-9999-4222-8333-444455556666", "project");
    for text in ["0b5e", "claude:"] {
        let output = home.run_segue(["session", "show", text]);
        assert_eq!(output.code, Some(2), "{output}");
        let lines: Vec<&str> = output.stderr.lines().collect();
        let first = format!("error: {text:?} matches 2 sessions");
        assert_eq!(lines[..2], [first.as_str(), "hint: use one of these IDs:"]);
        for (line, group) in lines[2..].iter().zip(["1111", "9999"]) {
            let id = format!("  claude:0b5e4c3a-{group}-4222-8333-444455556666  ");
            assert!(line.starts_with(&id), "{output}");
            assert!(line.ends_with(" days ago    Shopping"), "{output}");
        }
        assert_eq!(lines.len(), 4, "{output}");
    }
    assert_snapshot!(home.run_segue(["session", "info", "0b5f"]), @r#"
    --- stderr
    error: no session matches "0b5f"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["session", "undo", NATIVE_ID]), @r#"
    --- stderr
    error: claude:0b5e4c3a-1111-4222-8333-444455556666 is a native session of claude that segue has not adopted
    hint: run `segue session adopt claude:0b5e4c3a-1111-4222-8333-444455556666` to adopt it, or `segue session show claude:0b5e4c3a-1111-4222-8333-444455556666` to read it
    --- exit 1
    "#);
    assert_snapshot!(home.run_segue(["session", "show", "../../etc/passwd"]), @"
    --- stderr
    error: invalid value '../../etc/passwd' for '<ID>': a session id may not contain '/'

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn an_unreadable_session_is_reported_and_the_others_are_listed() {
    let home = new_test_home();
    write_claude_session(&home, NATIVE_ID, "project");
    let unreadable = write_claude_session(&home, "aaaaaaaa-1111-4222-8333-444455556666", "project");
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_dir(home.segue_home()).unwrap();
    fs::set_permissions(home.segue_home(), fs::Permissions::from_mode(0o777)).unwrap();
    let list = crate::failing_disks::run_unprivileged(&home, &["session", "list"]);
    assert!(list.stdout.contains("0b5e4c3a"), "{list}");
    assert!(
        list.stderr.contains("some sessions of claude are not listed: cannot read [HOME]/.claude/projects/-somewhere/aaaaaaaa-1111-4222-8333-444455556666.jsonl: Permission denied"),
        "{list}"
    );
    assert_eq!(list.code, Some(0));
    let output = crate::failing_disks::run_unprivileged(&home, &["session", "show", "aaaaaaaa"]);
    assert!(
        output.stderr.contains("cannot read") && output.code == Some(1),
        "{output}"
    );
    let output = crate::failing_disks::run_unprivileged(&home, &["session", "show", "bbbbbbbb"]);
    assert!(output.stderr.contains("no session matches"), "{output}");
}

#[test]
fn a_number_refers_to_the_last_list_of_the_project() {
    let home = new_test_home();
    let path = write_claude_session(&home, NATIVE_ID, "project");
    write_claude_session(&home, "aaaaaaaa-1111-4222-8333-444455556666", "other-dir");
    fs::create_dir(home.path().join("other-dir")).unwrap();
    let _ = home.run_segue(["session", "list"]);
    let mut command = home.segue_command(["session", "show", "1"]);
    command.current_dir(home.path().join("other-dir"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // A number is not used as the prefix of an id.
    assert_eq!(home.run_segue(["session", "show", "0"]).code, Some(2));
    fs::remove_file(path).unwrap();
    assert_snapshot!(home.run_segue(["session", "show", "1"]), @"
    --- stderr
    error: session claude:0b5e4c3a-1111-4222-8333-444455556666 from the last list no longer exists
    hint: run `segue session list` to list sessions again
    --- exit 1
    ");
    let all = home.run_segue(["session", "list", "--all"]).stdout;
    assert!(
        all.contains(
            "UPDATED       DIRECTORY    TITLE
"
        ),
        "{all}"
    );
    assert!(
        all.contains(
            " days ago  ~/other-dir  Shopping
"
        ),
        "{all}"
    );
    assert_snapshot!(home.run_segue(["session", "list", "-p", "codx"]), @"
    --- stderr
    error: unknown agent `codx`
    hint: available agents: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    // A failed list does not replace the last list; an empty list does.
    assert_eq!(
        home.run_segue(["session", "list", "-p", "codex"]).code,
        Some(0)
    );
    assert_snapshot!(home.run_segue(["session", "show", "1"]), @"
    --- stderr
    error: list number 1 not found in the last list of this project
    hint: run `segue session list` to list sessions
    --- exit 2
    ");
}

#[test]
fn long_tool_results_are_truncated_unless_full_is_requested() {
    let home = new_test_home();
    let path = write_claude_session(&home, NATIVE_ID, "project");
    let text = fs::read_to_string(&path).unwrap();
    let long = (1..=30)
        .map(|n| format!("line {n}"))
        .collect::<Vec<_>>()
        .join("\\n");
    fs::write(&path, text.replace("buy milk", &long)).unwrap();
    let transcript = home.run_segue(["session", "show", "0b5e"]).stdout;
    assert!(
        transcript.contains("  line 10\n  … 20 more lines (--full shows them)\n"),
        "{transcript}"
    );
    let transcript = home.run_segue(["session", "show", "--full", "0b5e"]).stdout;
    assert!(transcript.contains("  line 30\n"), "{transcript}");
}

#[test]
fn a_stray_file_neither_causes_a_warning_nor_starts_gemini() {
    let home = new_test_home();
    let chats = home.path().join(".gemini/tmp/project/chats");
    fs::create_dir_all(&chats).unwrap();
    fs::write(
        chats.join("session-2026-01-02T03-04-0b5e4c3a.jsonl"),
        "junk\n",
    )
    .unwrap();
    let gemini = home.path().join("bin/gemini");
    fs::write(&gemini, "#!/bin/sh\necho started > \"$HOME/started\"\n").unwrap();
    fs::set_permissions(&gemini, fs::Permissions::from_mode(0o755)).unwrap();
    let list = home.run_segue(["session", "list", "--ask", "-p", "gemini"]);
    assert_eq!(
        (list.stderr.as_str(), list.code),
        ("no matching sessions\n", Some(0))
    );
    assert!(!home.path().join("started").exists());
}

#[test]
fn gemini_is_started_only_if_its_files_are_unreadable_and_the_user_requests_it() {
    let home = new_test_home();
    fs::create_dir_all(home.path().join(".gemini")).unwrap();
    // A file instead of the directory, so that no session can be read.
    fs::write(home.path().join(".gemini/tmp"), "").unwrap();
    let gemini = home.path().join("bin/gemini");
    fs::write(
        &gemini,
        "#!/bin/sh\necho\necho 'Available sessions for this project (2):'\n\
         echo '  1. fix the (old) parser (2 days ago) [0b5e4c3a-1111-4222-8333-444455556666]'\n\
         echo '  2. hello (Just now) [aaaaaaaa-1111-4222-8333-444455556666]'\n\
         echo 'garbage'\n",
    )
    .unwrap();
    fs::set_permissions(&gemini, fs::Permissions::from_mode(0o755)).unwrap();
    assert_snapshot!(home.run_segue(["session", "list"]), @r#"
    --- stderr
    segue: some sessions of gemini are not listed: cannot read [HOME]/.gemini/tmp: Not a directory (os error 20)
    segue: use --ask to list them with Gemini CLI, which calls the model
    no sessions in this project (`segue session list --all` lists all projects); start a session with `segue chat "…"`
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "list", "--ask"]), @"
    #  ID             AGENT   TURNS  UPDATED     TITLE
    1  aaaaaaaa-1111  gemini  -      just now    hello
    2  0b5e4c3a-1111  gemini  -      2 days ago  fix the (old) parser
    --- stderr
    segue: some sessions of gemini are not listed: cannot read [HOME]/.gemini/tmp: Not a directory (os error 20)
    segue: listing sessions with Gemini CLI; this takes a few seconds
    segue: ignored 1 line of Gemini CLI's list: unknown format
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "list", "-p", "claude"]), @"
    --- stderr
    no matching sessions
    --- exit 0
    ");
    home.assert_no_processes();
}
