//! `segue session export`, `import` and `migrate`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::TestHome;
use serde_json::{Value, json};

use crate::{count_sessions, new_test_home};

/// Id of a session in the files of dagent.
const DAGENT_SESSION_ID: &str = "7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a";

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers pass temporary JSON values"
)]
fn write_project_file(home: &TestHome, path: &str, content: impl ToString) {
    let path = home.project().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content.to_string()).unwrap();
}

/// Writes a feature whose session was compacted, with one later message.
fn write_dagent_feature(home: &TestHome) {
    let dagent_path = |path: &str| format!(".dagent-worktrees/pay/.dagent/{path}");
    write_project_file(
        home,
        &dagent_path("feature.json"),
        json!({ "id": "pay", "name": "Payments", "status": "active", "sessionId": DAGENT_SESSION_ID }),
    );
    write_project_file(
        home,
        &dagent_path(&format!("sessions/chat_{DAGENT_SESSION_ID}.json")),
        json!({
            "sessionId": DAGENT_SESSION_ID,
            "messages": [{ "id": "m1", "timestamp": "2025-01-15T10:00:00.000Z", "role": "user", "content": "and refunds?", "tokens": 3 }],
            "metadata": { "createdAt": "2025-01-15T09:00:00.000Z", "updatedAt": "2025-01-15T10:00:00.000Z", "messageCount": 1, "tokenCount": 3 },
        }),
    );
    write_project_file(
        home,
        &dagent_path(&format!("sessions/checkpoint_{DAGENT_SESSION_ID}.json")),
        json!({
            "sessionId": DAGENT_SESSION_ID, "version": 4, "createdAt": "2025-01-15T09:00:00.000Z", "updatedAt": "2025-01-15T09:30:00.000Z",
            "summary": { "completedItems": ["chose the provider"], "pendingItems": ["write the webhook"], "decisions": ["Stripe, since it has refunds"], "blockers": [] },
            "ralphLoop": { "currentIteration": 2, "passedChecks": ["build"], "failedChecks": ["test"], "lastError": "1 failed" },
            "tokens": { "checkpoint": 20, "lastCompactionInput": 90000, "totalSaved": 250_000 },
        }),
    );
    write_project_file(
        home,
        &dagent_path(&format!("sessions/context_{DAGENT_SESSION_ID}.json")),
        json!({
            "sessionId": DAGENT_SESSION_ID, "type": "pm-feature", "featureId": "pay",
            "project": { "structure": { "srcDirs": ["src"] }, "recentCommits": [] }, "updatedAt": "2025-01-15T09:00:00.000Z", "tokens": 12,
        }),
    );
    write_project_file(
        home,
        &dagent_path("nodes/hook/task.json"),
        json!({
            "title": "The webhook", "states": { "in_dev": { "sessionIds": ["dev-1", "lost"] }, "planning": { "sessionIds": [] } }, "currentState": "in_dev",
        }),
    );
    write_project_file(
        home,
        &dagent_path("nodes/hook/sessions/chat_dev-1.json"),
        json!({
            "sessionId": "dev-1",
            "messages": [
                { "id": "a", "timestamp": "2025-01-15T11:00:00.000Z", "role": "user", "content": "Iteration 1: build it" },
                { "id": "b", "timestamp": "2025-01-15T11:05:00.000Z", "role": "assistant", "content": "built" },
                { "role": "user" },
            ],
            "metadata": { "createdAt": "2025-01-15T11:00:00.000Z", "updatedAt": "2025-01-15T11:05:00.000Z" },
        }),
    );
    write_project_file(
        home,
        &dagent_path("nodes/hook/sessions/context_dev-1.json"),
        json!({ "type": "dev-task", "featureId": "pay", "taskId": "hook" }),
    );
}

/// Returns all files below a directory with their contents.
fn read_tree(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path
                    .strip_prefix(directory)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn dagent_sessions_are_imported_once() {
    let home = new_test_home();
    write_dagent_feature(&home);
    assert_snapshot!(home.run_segue(["session", "import", ".", "--dry-run"]), @"
    would import: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    would import: dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 was omitted: it has no text
    [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json refers to session lost, which has no file
    2 to import, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    assert_eq!(count_sessions(&home), 0);
    assert_snapshot!(home.run_segue(["session", "import", "."]), @"
    [SESSION]  imported: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    [SESSION]  imported: dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 was omitted: it has no text
    [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json refers to session lost, which has no file
    2 imported, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "import", ".dagent-worktrees/pay"]), @"
    [SESSION]  already present: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a
    [SESSION]  already present: dev-1
    [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json refers to session lost, which has no file
    0 imported, 2 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    let info = home.run_segue(["session", "info", DAGENT_SESSION_ID]);
    let expected = format!("alias     {DAGENT_SESSION_ID} (from dagent)\n");
    assert!(info.stdout.contains(&expected), "{info}");
    let info = home.run_segue_json(["session", "info", DAGENT_SESSION_ID, "--json"]);
    assert_eq!(info["origin"]["name"], DAGENT_SESSION_ID);
    assert_eq!(info["session"]["created_at"], "2025-01-15T09:00:00Z");
    let list = home.run_segue_json([
        "session",
        "list",
        "--feature",
        "pay",
        "--task",
        "hook",
        "--json",
    ]);
    assert_eq!(list[0]["task_state"], "in_dev");
    assert_eq!(list[0]["created_at"], "2025-01-15T11:00:00Z");
    assert_eq!(list[0]["updated_at"], "2025-01-15T11:05:00Z");
    assert_eq!(list.as_array().unwrap().len(), 1);
}

#[test]
fn an_imported_session_resumes_with_its_checkpoint() {
    let home = new_test_home();
    write_dagent_feature(&home);
    let report = home.run_segue_json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&report["imported"], &report["failed"]),
        (&json!(2), &json!(0))
    );
    let pm = &report["entries"][0];
    assert_eq!(
        (&pm["name"], &pm["checkpoint"], &pm["role"]),
        (&json!(DAGENT_SESSION_ID), &json!(4), &json!("pm"))
    );
    let preview = home.run_segue_json([
        "session",
        "preview",
        DAGENT_SESSION_ID,
        "--prompt",
        "next?",
        "--json",
    ]);
    let brief = preview["system_prompt"].as_str().unwrap();
    for text in [
        "write the webhook",
        "Stripe, since it has refunds",
        "> and refunds?",
        "last error: 1 failed",
    ] {
        assert!(brief.contains(text), "{brief}");
    }
    // The imported session is found by its feature and role.
    let turn = home.run_segue_json([
        "chat",
        "--json",
        "--feature",
        "pay",
        "--role",
        "pm",
        "next?",
    ]);
    assert_eq!(turn["session_id"], pm["session_id"]);
    assert_eq!(turn["opened"], "briefed");
}

#[test]
fn an_exported_session_is_unchanged_by_an_import_and_another_export() {
    let source_home = new_test_home();
    write_dagent_feature(&source_home);
    let _ = source_home.run_segue_json(["session", "import", ".", "--json"]);
    let _ = source_home.run_segue_json([
        "chat",
        "--json",
        "--feature",
        "pay",
        "--task",
        "hook",
        "--state",
        "in_qa",
        "--role",
        "qa",
        "rehearse: think hm; tool; say it works",
    ]);
    let _ =
        source_home.run_segue_json(["chat", "--json", "Always run the tests. Then fix src/a.rs"]);
    let _ = source_home.run_segue_json(["session", "compact", "latest", "--json"]);
    let _ = source_home.run_segue_json(["chat", "--json", "--continue", "and now?"]);
    let _ = source_home.run_segue_json(["session", "tag", "latest", "urgent", "--json"]);
    assert_snapshot!(source_home.run_segue(["session", "export", "--all", "--format", "dagent", "--to", "out"]), @"
    Exported 4 sessions to out: 19 new files, 0 replaced, 0 unchanged.
    --- stderr
    omitted 3 messages without text (tool calls, tool results, thoughts): this format contains only text
    --- exit 0
    ");

    let target_home = new_test_home();
    let out = source_home.project().join("out");
    let import = target_home.run_segue_json(["session", "import", out.to_str().unwrap(), "--json"]);
    assert_eq!(import["imported"], 4, "{import}");
    let _ = target_home.run_segue_json([
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ]);
    let (first, second) = (
        read_tree(&out),
        read_tree(&target_home.project().join("out")),
    );
    let paths = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&first), paths(&second));
    for (path, text) in &first {
        assert_eq!(&second[path], text, "{path}");
    }
    let archived = first.keys().filter(|path| path.ends_with(".archive.jsonl"));
    assert_eq!(
        archived.count(),
        1,
        "the archived messages were not exported"
    );
    // Imported values that were not changed are exported unchanged.
    let feature: Value =
        serde_json::from_str(&first[".dagent-worktrees/pay/.dagent/feature.json"]).unwrap();
    assert_eq!(
        (&feature["status"], &feature["sessionId"]),
        (&json!("active"), &json!(DAGENT_SESSION_ID))
    );
    let checkpoint = &first
        [&format!(".dagent-worktrees/pay/.dagent/sessions/checkpoint_{DAGENT_SESSION_ID}.json")];
    let checkpoint: Value = serde_json::from_str(checkpoint).unwrap();
    assert_eq!(
        (&checkpoint["version"], &checkpoint["tokens"]["totalSaved"]),
        (&json!(4), &json!(250_000))
    );
    let task: Value =
        serde_json::from_str(&first[".dagent-worktrees/pay/.dagent/nodes/hook/task.json"]).unwrap();
    assert_eq!(
        task["currentState"], "in_qa",
        "the task does not have the state of its newest session"
    );
    assert_eq!(task["title"], "The webhook");
    // An import into the original home adds nothing.
    let reimport = source_home.run_segue_json(["session", "import", "out", "--json"]);
    assert_eq!(
        (&reimport["imported"], &reimport["already"]),
        (&json!(0), &json!(4))
    );
}

#[test]
fn exporting_an_unknown_feature_is_an_error() {
    let home = new_test_home();
    let args = [
        "session",
        "export",
        "--format",
        "dagent",
        "--feature",
        "pya",
    ];
    assert_snapshot!(home.run_segue(args), @"
    --- stderr
    error: no sessions for feature `pya` in this project
    hint: run `segue session list` to see the sessions and their purposes
    --- exit 1
    ");
    assert!(!home.project().join("segue-export").exists());
}

#[test]
fn an_export_never_overwrites_a_different_file() {
    let home = new_test_home();
    let turn = home.run_segue_json(["chat", "--json", "--feature", "pay", "hello"]);
    let id = turn["session_id"].as_str().unwrap();
    let export = ["session", "export", id, "--format", "dagent", "--to", "."];
    write_project_file(
        &home,
        ".dagent-worktrees/pay/.dagent/feature.json",
        "{\"id\":\"pay\"}",
    );
    assert_snapshot!(home.run_segue(export), @"
    --- stderr
    error: ./.dagent-worktrees/pay/.dagent/feature.json already exists with different content; nothing was written
    hint: use `--to DIR` for another directory, or `--force` to overwrite
    --- exit 1
    ");
    assert!(
        !home
            .project()
            .join(".dagent-worktrees/pay/.dagent/sessions")
            .exists()
    );
    assert_snapshot!(home.run_segue([&export[..], &["--dry-run", "--force"]].concat()), @"
    replaced   ./.dagent-worktrees/pay/.dagent/feature.json
    new        ./.dagent-worktrees/pay/.dagent/sessions/agent-description_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/chat_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/checkpoint_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/context_[SESSION].json
    Would export 1 session to .: 4 new files, 1 replaced, 0 unchanged.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue([&export[..], &["--force"]].concat()), @"
    Exported 1 session to .: 4 new files, 1 replaced, 0 unchanged.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(export), @"
    Exported 1 session to .: 0 new files, 0 replaced, 5 unchanged.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "export", "--format", "dagent"]), @"
    --- stderr
    error: the following required arguments were not provided:
      <ID>...

    Usage: segue session export --format <FORMAT> <ID>...

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "export", "nothing", "--format", "dagent"]), @r#"
    --- stderr
    error: no session matches "nothing"
    hint: run `segue session list --all` to list all sessions
    --- exit 1
    "#);
}

#[test]
fn a_session_is_exported_as_markdown_and_json() {
    let home = new_test_home();
    let _ = home.run_segue_json([
        "chat",
        "--json",
        "--feature",
        "pay",
        "rehearse: tool; say done",
    ]);
    assert_snapshot!(home.run_segue(["session", "export", "latest", "--format", "markdown"]), @"
    # rehearse: tool; say done

    - session: [SESSION]
    - agent: rehearsal
    - purpose: feature pay
    - created: [TIME]
    - updated: [TIME]

    ## Turn 1

    **User**

    rehearse: tool; say done

    > `Read notes.txt`

    **Assistant**

    done
    --- exit 0
    ");
    let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
    let exported = home.run_segue_json(["session", "export", "latest", "--format", "json"]);
    assert_eq!(transcript, exported);
    let report = home.run_segue_json([
        "session", "export", "--all", "--format", "md", "--to", "out", "--json",
    ]);
    assert_eq!(report["files"][0]["outcome"], "written");
}

#[test]
fn a_bad_file_is_reported_and_the_others_are_imported() {
    let home = new_test_home();
    write_dagent_feature(&home);
    write_project_file(
        &home,
        ".dagent-worktrees/pay/.dagent/sessions/chat_bad.json",
        "{ torn",
    );
    let output = home.run_segue(["session", "import", "."]);
    assert_eq!(output.code, Some(1));
    assert_eq!(count_sessions(&home), 2);
    assert_snapshot!(output, @"
    [SESSION]  imported: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    failed: [HOME]/project/.dagent-worktrees/pay/.dagent/sessions/chat_bad.json: not valid JSON: key must be a string at line 1 column 3
    [SESSION]  imported: dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 was omitted: it has no text
    [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json refers to session lost, which has no file
    2 imported, 0 already present, 0 empty, 1 failed.
    --- stderr
    error: cannot read 1 of 3 sessions
    hint: fix the files and run the command again; it skips sessions that are already present
    --- exit 1
    ");
    let report = home.run_segue(["session", "import", ".", "--json"]);
    let report: Value = serde_json::from_str(&report.raw_stdout).unwrap();
    assert_eq!(report["error"]["message"], "cannot read 1 of 3 sessions");
    assert_snapshot!(home.run_segue(["session", "import", "missing"]), @"
    --- stderr
    error: cannot open missing: No such file or directory (os error 2)
    hint: give the path of a project, of a worktree of a feature, or of its `.dagent` directory
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "import", ".", "-p", "nobody"]), @"
    --- stderr
    error: unknown agent `nobody`
    hint: available agents: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    fs::create_dir(home.project().join("empty")).unwrap();
    assert_snapshot!(home.run_segue(["session", "import", "empty"]), @"
    --- stderr
    nothing to import from [HOME]/project/empty: found no `.dagent` directory with sessions
    --- exit 0
    ");
}

/// Writes a dagent session of a feature with one message for each text.
fn write_dagent_chat(home: &TestHome, feature: &str, id: &str, texts: &[&str]) {
    let message = |(n, text): (usize, &&str)| json!({ "id": n.to_string(), "timestamp": format!("2025-01-15T10:00:0{n}.000Z"), "role": "user", "content": text });
    let messages: Vec<Value> = texts.iter().enumerate().map(message).collect();
    write_project_file(
        home,
        &format!(".dagent-worktrees/{feature}/.dagent/sessions/chat_{id}.json"),
        json!({ "sessionId": id, "messages": messages, "metadata": { "createdAt": "2025-01-15T10:00:00.000Z" } }),
    );
}

#[test]
fn two_sessions_with_the_same_name_are_both_imported() {
    let home = new_test_home();
    write_dagent_chat(&home, "auth", "chat-1", &["about the login"]);
    write_dagent_chat(&home, "pay", "chat-1", &["about the invoices"]);
    assert_snapshot!(home.run_segue(["session", "import", "."]), @"
    [SESSION]  imported: chat-1  (1 message, feature auth)
    [SESSION]  imported: chat-1  (1 message, feature pay)
      a separate session: [SESSION] has the same name, but another purpose
    2 imported, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    for words in ["login", "invoices"] {
        let found = home
            .run_segue_json(["session", "search", words, "--json"])
            .to_string();
        assert!(found.contains("about the"), "{words}: {found}");
    }
    let second = home.run_segue_json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&second["imported"], &second["already"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(count_sessions(&home), 2);
    let both = home.run_segue(["session", "show", "chat-1"]);
    assert!(both.stderr.contains("matches 2 sessions"), "{both}");
    // The export writes each session to its original path.
    let export = [
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ];
    let _ = home.run_segue_json(export);
    let out = read_tree(&home.project().join("out"));
    for (feature, words) in [("auth", "login"), ("pay", "invoices")] {
        let chat = &out[&format!(".dagent-worktrees/{feature}/.dagent/sessions/chat_chat-1.json")];
        assert!(chat.contains(words), "{chat}");
    }
}

#[test]
fn a_grown_file_is_imported_as_a_separate_session() {
    let home = new_test_home();
    write_dagent_chat(&home, "pay", "chat-1", &["one", "two"]);
    let _ = home.run_segue_json(["session", "import", ".", "--json"]);
    write_dagent_chat(&home, "pay", "chat-1", &["one", "two", "three"]);
    assert_snapshot!(home.run_segue(["session", "import", ".", "--dry-run"]), @"
    would import: chat-1  (3 messages, feature pay)
      a separate session: [SESSION] has the same name, but only 2 of these 3 messages
    1 to import, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    assert_snapshot!(home.run_segue(["session", "import", "."]), @"
    [SESSION]  imported: chat-1  (3 messages, feature pay)
      a separate session: [SESSION] has the same name, but only 2 of these 3 messages
    1 imported, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    let third = home.run_segue_json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&third["imported"], &third["already"]),
        (&json!(0), &json!(1))
    );
    // The earlier file is not imported again, and neither are the exported files of both sessions.
    write_dagent_chat(&home, "pay", "chat-1", &["one", "two"]);
    let _ = home.run_segue_json(["session", "import", ".", "--json"]);
    let _ = home.run_segue_json([
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ]);
    let chats = read_tree(&home.project().join("out"));
    let chats = chats.keys().filter(|path| path.contains("/chat_"));
    assert_eq!(chats.count(), 2, "one export overwrote the other");
    let reimport = home.run_segue_json(["session", "import", "out", "--json"]);
    assert_eq!(
        (&reimport["imported"], &reimport["already"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(count_sessions(&home), 2);
}

#[test]
fn a_reverted_session_counts_as_already_imported() {
    let home = new_test_home();
    write_dagent_chat(&home, "pay", "chat-1", &["one", "two"]);
    let _ = home.run_segue_json(["session", "import", ".", "--json"]);
    let _ = home.run_segue_json(["session", "revert", "chat-1", "--to", "1", "--json"]);
    let second = home.run_segue_json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&second["imported"], &second["already"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn an_imported_checkpoint_is_shown_and_its_totals_continue() {
    let source_home = new_test_home();
    write_dagent_feature(&source_home);
    let _ = source_home.run_segue_json(["session", "import", ".", "--json"]);
    let output = source_home
        .run_segue(["session", "checkpoint", DAGENT_SESSION_ID])
        .stdout;
    // The age of the session changes every day.
    let lines: Vec<&str> = output
        .lines()
        .filter(|line| !line.contains("days ago"))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    checkpoint 1 of [SESSION]: and refunds?
    summarises the imported conversation in 62 tokens; the session has 1 turn
    ▏···················  315 of 100,000 tokens in the next brief; 250,000 saved in total

    1 done, 1 open, 1 decided, 0 blocking

    Still to do
       2  write the webhook  (imported)

    Done
       1  chose the provider  (imported)

    Decided
       3  Stripe, since it has refunds  (imported)

    Check loop, iteration 2
          passed: build
          failed: test
          last error: 1 failed
    ");
    let list = source_home.run_segue(["session", "checkpoint", DAGENT_SESSION_ID, "list"]);
    assert!(
        list.stdout.contains("\n*  1        imported  62  "),
        "{list}"
    );
    // A pin does not change the count of saved tokens.
    let _ = source_home.run_segue_json([
        "session",
        "checkpoint",
        DAGENT_SESSION_ID,
        "pin",
        "1",
        "--json",
    ]);
    let saved = source_home.run_segue_json(["session", "checkpoint", DAGENT_SESSION_ID, "--json"])
        ["total_saved"]
        .clone();
    assert_eq!(saved, 250_000);
    let _ = source_home.run_segue_json([
        "session",
        "export",
        DAGENT_SESSION_ID,
        "--format",
        "dagent",
        "--to",
        "out",
        "--json",
    ]);
    let out = source_home.project().join("out");
    let path =
        format!(".dagent-worktrees/pay/.dagent/sessions/checkpoint_{DAGENT_SESSION_ID}.json");
    let file: Value = serde_json::from_str(&read_tree(&out)[&path]).unwrap();
    assert_eq!(
        (&file["version"], &file["tokens"]["lastCompactionInput"]),
        (&json!(5), &json!(90_000))
    );
    assert_eq!(file["tokens"]["totalSaved"], 250_000);
    let target_home = new_test_home();
    let _ = target_home.run_segue_json(["session", "import", out.to_str().unwrap(), "--json"]);
    let checkpoint =
        target_home.run_segue_json(["session", "checkpoint", DAGENT_SESSION_ID, "--json"]);
    assert_eq!(checkpoint["total_saved"], 250_000);
}

#[test]
fn a_pin_does_not_count_as_a_compaction() {
    let home = new_test_home();
    let _ = home.run_segue_json(["chat", "--json", "Always run the tests. Then fix src/a.rs"]);
    let _ = home.run_segue_json(["session", "compact", "latest", "--json"]);
    let tokens = || {
        let _ = home.run_segue_json([
            "session", "export", "latest", "--format", "dagent", "--to", "out", "--force", "--json",
        ]);
        let out = read_tree(&home.project().join("out"));
        let mut files = out.iter();
        let (_, text) = files
            .find(|(path, _)| path.contains("/checkpoint_"))
            .unwrap();
        let file: Value = serde_json::from_str(text).unwrap();
        (file["version"].clone(), file["tokens"].clone())
    };
    let (version, before) = tokens();
    let checkpoint = home.run_segue_json(["session", "checkpoint", "latest", "--json"]);
    let item = checkpoint["items"][0]["id"].to_string();
    let _ = home.run_segue_json(["session", "checkpoint", "latest", "pin", &item, "--json"]);
    assert_eq!(version, 1);
    assert_eq!(tokens(), (json!(2), before));
}

fn legacy_chat_json() -> String {
    json!({ "entries": [
        { "role": "user", "content": "plan the payments", "timestamp": "2024-12-01T10:00:00.000Z", "media": ["a.png"] },
        { "role": "assistant", "content": "here is a plan", "timestamp": "2024-12-01T10:00:30.000Z" },
        null, 7, { "role": "user" },
        { "type": "user", "text": "thanks", "timestamp": "2024-12-01T10:01:00.000Z" },
    ] })
    .to_string()
}

#[test]
fn legacy_files_are_migrated_once_with_their_times() {
    let home = new_test_home();
    let chat = ".dagent-worktrees/pay/.dagent/chat.json";
    write_project_file(&home, chat, legacy_chat_json());
    write_project_file(
        &home,
        ".dagent-worktrees/pay/.dagent/nodes/hook/session.json",
        json!({
            "taskId": "hook", "agentId": "a", "status": "completed", "startedAt": "2024-12-02T10:00:00Z", "messages": [
                { "timestamp": "2024-12-02T10:00:00Z", "direction": "task_to_harness", "type": "intention", "content": "I will" },
                { "timestamp": "2024-12-02T10:00:01Z", "direction": "harness_to_task", "type": "approval", "content": "go on" },
            ],
        }),
    );
    write_project_file(&home, ".dagent/chat.json", "");
    assert_snapshot!(home.run_segue(["session", "migrate", ".", "--dry-run"]), @"
    empty: [HOME]/project/.dagent/chat.json
      the file is empty
    would import: [HOME]/project/.dagent-worktrees/pay/.dagent/chat.json  (3 messages, feature pay as pm)
      entry 3 was omitted: it is null, not an object
      entry 4 was omitted: it is a number, not an object
      entry 5 was omitted: it has no text
    would import: [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/session.json  (2 messages, task hook in state in_dev of feature pay as dev)
    2 to import, 0 already present, 1 empty, 0 failed.
    --- exit 0
    ");
    assert_eq!(count_sessions(&home), 0);
    assert!(!home.segue_home().join("backups").exists());
    let report = home.run_segue_json(["session", "migrate", ".", "--json"]);
    assert_eq!(report["imported"], 2, "{report}");
    assert_snapshot!(home.run_segue(["session", "migrate", "."]), @"
    empty: [HOME]/project/.dagent/chat.json
      the file is empty
    [SESSION]  already present: [HOME]/project/.dagent-worktrees/pay/.dagent/chat.json
    [SESSION]  already present: [HOME]/project/.dagent-worktrees/pay/.dagent/nodes/hook/session.json
    0 imported, 2 already present, 1 empty, 0 failed.
    --- exit 0
    ");

    let entries = report["entries"].as_array().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry["role"] == "pm" && entry["feature"] == "pay")
        .unwrap();
    assert_eq!(entry["created_at"], "2024-12-01T10:00:00Z");
    assert_eq!(
        fs::read_to_string(home.project().join(chat)).unwrap(),
        legacy_chat_json()
    );
    assert_eq!(
        fs::read_to_string(entry["backup"].as_str().unwrap()).unwrap(),
        legacy_chat_json()
    );
    let id = entry["session_id"].as_str().unwrap();
    assert!(id.starts_with("20241201_100000_"), "{id}");
    let transcript = home.run_segue_json(["session", "show", id, "--json"]);
    let turns = transcript["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0]["messages"][1]["at"], "2024-12-01T10:00:30Z");
    assert_eq!(turns[1]["started_at"], "2024-12-01T10:01:00Z");
    assert_eq!(transcript["legs"], json!([]), "an agent was started");
}

#[test]
fn a_legacy_file_that_grew_or_has_future_dates_is_reported() {
    let home = new_test_home();
    let chat = ".dagent/chat.json";
    let entry =
        |text: &str, time: &str| json!({ "role": "user", "content": text, "timestamp": time });
    let mut entries = vec![
        entry("one", "2024-12-01T10:00:00Z"),
        entry("", "2024-12-01T10:00:00Z"),
    ];
    write_project_file(
        &home,
        chat,
        format!("\u{feff}{}", json!({ "entries": entries })),
    );
    let _ = home.run_segue_json(["session", "migrate", ".", "--json"]);
    let turn = home.run_segue_json(["chat", "--json", "hello"]);
    entries.push(entry("later", "2999-01-01T00:00:00Z"));
    write_project_file(&home, chat, json!({ "entries": entries }));
    assert_snapshot!(home.run_segue(["session", "migrate", "."]), @"
    [SESSION]  imported: [HOME]/project/.dagent/chat.json  (2 messages, the project as pm)
      entry 2 was omitted: it has no text
      some times are in the future, up to [TIME]; limited the session's times to now; message times are unchanged
      a separate session: [SESSION] has the same name, but only 1 of these 2 messages
    1 imported, 0 already present, 0 empty, 0 failed.
    --- exit 0
    ");
    let second = home.run_segue_json(["session", "migrate", ".", "--json"]);
    assert_eq!(
        (&second["imported"], &second["already"]),
        (&json!(0), &json!(1))
    );
    let id = second["entries"][0]["session_id"].as_str().unwrap();
    let transcript = home.run_segue_json(["session", "show", id, "--json"]);
    assert_eq!(
        transcript["turns"][1]["messages"][0]["at"],
        "2999-01-01T00:00:00Z"
    );
    let _ = home.run_segue_json([
        "chat",
        "--json",
        "--resume",
        turn["session_id"].as_str().unwrap(),
        "once more",
    ]);
    let latest = home.run_segue_json(["session", "info", "latest", "--json"]);
    assert_eq!(
        latest["session"]["id"], turn["session_id"],
        "`latest` is not the session with the latest turn"
    );
    // The export has a token count, although the legacy file has none.
    let _ = home.run_segue_json([
        "session", "export", id, "--format", "dagent", "--to", "out", "--json",
    ]);
    let out = read_tree(&home.project().join("out"));
    let chat = out
        .iter()
        .find(|(path, _)| path.contains("/chat_"))
        .unwrap()
        .1;
    let chat: Value = serde_json::from_str(chat).unwrap();
    assert!(
        chat["metadata"]["tokenCount"].as_u64().unwrap() > 0,
        "{chat}"
    );
}

#[test]
fn concurrent_migrations_import_a_legacy_file_once() {
    let home = new_test_home();
    write_project_file(&home, ".dagent/chat.json", legacy_chat_json());
    let start_migration = || {
        let mut command = home.segue_command(["session", "migrate", ".", "--json"]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..6).map(|_| start_migration()).collect();
    let mut imported = 0;
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        imported += report["imported"].as_u64().unwrap();
    }
    assert_eq!((imported, count_sessions(&home)), (1, 1));
}

#[test]
fn an_invalid_legacy_file_is_left_unchanged_and_not_imported() {
    let home = new_test_home();
    let chat = ".dagent/chat.json";
    for (content, code) in [
        ("{ torn", 1),
        ("{\"entries\":\"all\"}", 1),
        ("null", 0),
        ("{\"entries\":[]}", 0),
        ("{\"version\":2}", 0),
    ] {
        write_project_file(&home, chat, content);
        let output = home.run_segue(["session", "migrate", chat]);
        assert_eq!(output.code, Some(code), "{content}: {output}");
        assert_eq!(
            fs::read_to_string(home.project().join(chat)).unwrap(),
            content
        );
    }
    assert_eq!(count_sessions(&home), 0);
    assert!(!home.segue_home().join("backups").exists());
    write_project_file(&home, chat, "{ torn");
    assert_snapshot!(home.run_segue(["session", "migrate", chat]), @"
    failed: [HOME]/project/.dagent/chat.json: not valid JSON: key must be a string at line 1 column 3
    0 imported, 0 already present, 0 empty, 1 failed.
    --- stderr
    error: cannot read 1 of 1 session
    hint: fix the files and run the command again; it skips sessions that are already present
    --- exit 1
    ");
    write_project_file(&home, "notes.json", "{}");
    assert_snapshot!(home.run_segue(["session", "migrate", "notes.json"]), @"
    --- stderr
    error: cannot migrate [HOME]/project/notes.json: unsupported file name
    hint: give a chat.json or session.json file, or a directory that contains such files
    --- exit 2
    ");
    fs::remove_dir_all(home.project().join(".dagent")).unwrap();
    assert_snapshot!(home.run_segue(["session", "migrate", "."]), @"
    --- stderr
    nothing to import from [HOME]/project: found no `.dagent` directory with chat.json or session.json
    --- exit 0
    ");
}
