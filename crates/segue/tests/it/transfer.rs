//! `segue session export`, `import` and `migrate`

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use insta::assert_snapshot;
use segue_testkit::World;
use serde_json::{Value, json};

use crate::{count_sessions, world};

/// The id that a session has in the files of the other program.
const OLD: &str = "7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a";

#[expect(clippy::needless_pass_by_value, reason = "it is made for this")]
fn put(world: &World, path: &str, content: impl ToString) {
    let path = world.project().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content.to_string()).unwrap();
}

/// A feature whose session was compacted, with one message since.
fn put_feature(world: &World) {
    let at = |path: &str| format!(".dagent-worktrees/pay/.dagent/{path}");
    put(
        world,
        &at("feature.json"),
        json!({ "id": "pay", "name": "Payments", "status": "active", "sessionId": OLD }),
    );
    put(
        world,
        &at(&format!("sessions/chat_{OLD}.json")),
        json!({
            "sessionId": OLD,
            "messages": [{ "id": "m1", "timestamp": "2025-01-15T10:00:00.000Z", "role": "user", "content": "and refunds?", "tokens": 3 }],
            "metadata": { "createdAt": "2025-01-15T09:00:00.000Z", "updatedAt": "2025-01-15T10:00:00.000Z", "messageCount": 1, "tokenCount": 3 },
        }),
    );
    put(
        world,
        &at(&format!("sessions/checkpoint_{OLD}.json")),
        json!({
            "sessionId": OLD, "version": 4, "createdAt": "2025-01-15T09:00:00.000Z", "updatedAt": "2025-01-15T09:30:00.000Z",
            "summary": { "completedItems": ["chose the provider"], "pendingItems": ["write the webhook"], "decisions": ["Stripe, since it has refunds"], "blockers": [] },
            "ralphLoop": { "currentIteration": 2, "passedChecks": ["build"], "failedChecks": ["test"], "lastError": "1 failed" },
            "tokens": { "checkpoint": 20, "lastCompactionInput": 90000, "totalSaved": 250_000 },
        }),
    );
    put(
        world,
        &at(&format!("sessions/context_{OLD}.json")),
        json!({
            "sessionId": OLD, "type": "pm-feature", "featureId": "pay",
            "project": { "structure": { "srcDirs": ["src"] }, "recentCommits": [] }, "updatedAt": "2025-01-15T09:00:00.000Z", "tokens": 12,
        }),
    );
    put(
        world,
        &at("nodes/hook/task.json"),
        json!({
            "title": "The webhook", "states": { "in_dev": { "sessionIds": ["dev-1", "lost"] }, "planning": { "sessionIds": [] } }, "currentState": "in_dev",
        }),
    );
    put(
        world,
        &at("nodes/hook/sessions/chat_dev-1.json"),
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
    put(
        world,
        &at("nodes/hook/sessions/context_dev-1.json"),
        json!({ "type": "dev-task", "featureId": "pay", "taskId": "hook" }),
    );
}

/// All files below a directory with what is in them.
fn tree(directory: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
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
fn what_another_program_kept_is_taken_in_once() {
    let world = world();
    put_feature(&world);
    assert_snapshot!(world.segue(["session", "import", ".", "--dry-run"]), @"
    would come: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    would come: dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 has no text, and was left out
    [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json names session lost, of which there is no file
    2 would come, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    assert_eq!(count_sessions(&world), 0);
    assert_snapshot!(world.segue(["session", "import", "."]), @"
    [SESSION]  7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    [SESSION]  dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 has no text, and was left out
    [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json names session lost, of which there is no file
    2 came, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "import", ".dagent-worktrees/pay"]), @"
    [SESSION]  is here already: 7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a
    [SESSION]  is here already: dev-1
    [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json names session lost, of which there is no file
    0 came, 2 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    let info = world.segue(["session", "info", OLD]);
    let known = format!("known as  {OLD} (from dagent)\n");
    assert!(info.stdout.contains(&known), "{info}");
    let info = world.json(["session", "info", OLD, "--json"]);
    assert_eq!(info["origin"]["name"], OLD);
    assert_eq!(info["session"]["created_at"], "2025-01-15T09:00:00Z");
    let list = world.json([
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
fn it_goes_on_with_what_it_came_to() {
    let world = world();
    put_feature(&world);
    let report = world.json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&report["imported"], &report["failed"]),
        (&json!(2), &json!(0))
    );
    let pm = &report["entries"][0];
    assert_eq!(
        (&pm["name"], &pm["checkpoint"], &pm["role"]),
        (&json!(OLD), &json!(4), &json!("pm"))
    );
    let preview = world.json(["session", "preview", OLD, "--prompt", "next?", "--json"]);
    let told = preview["system_prompt"].as_str().unwrap();
    for words in [
        "write the webhook",
        "Stripe, since it has refunds",
        "> and refunds?",
        "last error: 1 failed",
    ] {
        assert!(told.contains(words), "{told}");
    }
    // It is the one that is meant by its feature and role.
    let said = world.json([
        "chat",
        "--json",
        "--feature",
        "pay",
        "--role",
        "pm",
        "next?",
    ]);
    assert_eq!(said["session_id"], pm["session_id"]);
    assert_eq!(said["opened"], "briefed");
}

#[test]
fn what_is_exported_is_imported_and_exported_as_it_was() {
    let here = world();
    put_feature(&here);
    let _ = here.json(["session", "import", ".", "--json"]);
    let _ = here.json([
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
    let _ = here.json(["chat", "--json", "Always run the tests. Then fix src/a.rs"]);
    let _ = here.json(["session", "compact", "latest", "--json"]);
    let _ = here.json(["chat", "--json", "--continue", "and now?"]);
    let _ = here.json(["session", "tag", "latest", "urgent", "--json"]);
    assert_snapshot!(here.segue(["session", "export", "--all", "--format", "dagent", "--to", "out"]), @"
    Exported 4 sessions to out: 19 new files, 0 replaced, 0 as before.
    --- stderr
    3 messages without words are left out (calls of tools, their answers, thoughts): this format has words alone
    --- exit 0
    ");

    let there = world();
    let out = here.project().join("out");
    let import = there.json(["session", "import", out.to_str().unwrap(), "--json"]);
    assert_eq!(import["imported"], 4, "{import}");
    let _ = there.json([
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ]);
    let (first, second) = (tree(&out), tree(&there.project().join("out")));
    let paths = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(&first), paths(&second));
    for (path, text) in &first {
        assert_eq!(&second[path], text, "{path}");
    }
    let archived = first.keys().filter(|path| path.ends_with(".archive.jsonl"));
    assert_eq!(archived.count(), 1, "what was compacted goes along");
    // What came unchanged went unchanged.
    let feature: Value =
        serde_json::from_str(&first[".dagent-worktrees/pay/.dagent/feature.json"]).unwrap();
    assert_eq!(
        (&feature["status"], &feature["sessionId"]),
        (&json!("active"), &json!(OLD))
    );
    let checkpoint =
        &first[&format!(".dagent-worktrees/pay/.dagent/sessions/checkpoint_{OLD}.json")];
    let checkpoint: Value = serde_json::from_str(checkpoint).unwrap();
    assert_eq!(
        (&checkpoint["version"], &checkpoint["tokens"]["totalSaved"]),
        (&json!(4), &json!(250_000))
    );
    let task: Value =
        serde_json::from_str(&first[".dagent-worktrees/pay/.dagent/nodes/hook/task.json"]).unwrap();
    assert_eq!(task["currentState"], "in_qa", "a session was touched since");
    assert_eq!(task["title"], "The webhook");
    // Back where all of it is from, there is nothing new.
    let back = here.json(["session", "import", "out", "--json"]);
    assert_eq!(
        (&back["imported"], &back["already"]),
        (&json!(0), &json!(4))
    );
}

#[test]
fn a_feature_that_nothing_is_for_is_no_empty_export() {
    let world = world();
    let args = [
        "session",
        "export",
        "--format",
        "dagent",
        "--feature",
        "pya",
    ];
    assert_snapshot!(world.segue(args), @"
    --- stderr
    error: no session of this project is for feature pya
    hint: `segue session list` shows what there is, with what it is for
    --- exit 1
    ");
    assert!(!world.project().join("segue-export").exists());
}

#[test]
fn nothing_that_differs_is_written_over() {
    let world = world();
    let said = world.json(["chat", "--json", "--feature", "pay", "hello"]);
    let id = said["session_id"].as_str().unwrap();
    let export = ["session", "export", id, "--format", "dagent", "--to", "."];
    put(
        &world,
        ".dagent-worktrees/pay/.dagent/feature.json",
        "{\"id\":\"pay\"}",
    );
    assert_snapshot!(world.segue(export), @"
    --- stderr
    error: ./.dagent-worktrees/pay/.dagent/feature.json is there and differs
    hint: nothing was written; --to names another directory, --force replaces what differs
    --- exit 1
    ");
    assert!(
        !world
            .project()
            .join(".dagent-worktrees/pay/.dagent/sessions")
            .exists()
    );
    assert_snapshot!(world.segue([&export[..], &["--dry-run", "--force"]].concat()), @"
    replaced   ./.dagent-worktrees/pay/.dagent/feature.json
    new        ./.dagent-worktrees/pay/.dagent/sessions/agent-description_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/chat_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/checkpoint_[SESSION].json
    new        ./.dagent-worktrees/pay/.dagent/sessions/context_[SESSION].json
    Would export 1 session to .: 4 new files, 1 replaced, 0 as before.
    --- exit 0
    ");
    assert_snapshot!(world.segue([&export[..], &["--force"]].concat()), @"
    Exported 1 session to .: 4 new files, 1 replaced, 0 as before.
    --- exit 0
    ");
    assert_snapshot!(world.segue(export), @"
    Exported 1 session to .: 0 new files, 0 replaced, 5 as before.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "export", "--format", "dagent"]), @"
    --- stderr
    error: the following required arguments were not provided:
      <ID>...

    Usage: segue session export --format <FORMAT> <ID>...

    For more information, try '--help'.
    --- exit 2
    ");
    assert_snapshot!(world.segue(["session", "export", "nothing", "--format", "dagent"]), @r#"
    --- stderr
    error: no session matches "nothing"
    hint: `segue session list --all` shows every session there is
    --- exit 1
    "#);
}

#[test]
fn one_session_is_printed_to_be_read() {
    let world = world();
    let _ = world.json([
        "chat",
        "--json",
        "--feature",
        "pay",
        "rehearse: tool; say done",
    ]);
    assert_snapshot!(world.segue(["session", "export", "latest", "--format", "markdown"]), @"
    # rehearse: tool; say done

    - session: [SESSION]
    - agent: rehearsal
    - for: feature pay
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
    let shown = world.json(["session", "show", "latest", "--json"]);
    let exported = world.json(["session", "export", "latest", "--format", "json"]);
    assert_eq!(shown, exported);
    let report = world.json([
        "session", "export", "--all", "--format", "md", "--to", "out", "--json",
    ]);
    assert_eq!(report["files"][0]["outcome"], "written");
}

#[test]
fn a_bad_file_is_told_and_the_others_come() {
    let world = world();
    put_feature(&world);
    put(
        &world,
        ".dagent-worktrees/pay/.dagent/sessions/chat_bad.json",
        "{ torn",
    );
    let output = world.segue(["session", "import", "."]);
    assert_eq!(output.code, Some(1));
    assert_eq!(count_sessions(&world), 2);
    assert_snapshot!(output, @"
    [SESSION]  7d8e0c2a-3b1f-4a6e-9c55-0f1e2d3c4b5a  (1 message, a checkpoint, feature pay as pm)
    failed: [WORLD]/project/.dagent-worktrees/pay/.dagent/sessions/chat_bad.json: it is not JSON: key must be a string at line 1 column 3
    [SESSION]  dev-1  (2 messages, task hook in state in_dev of feature pay as dev)
      message 3 has no text, and was left out
    [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/task.json names session lost, of which there is no file
    2 came, 0 here already, 0 with nothing in them, 1 failed.
    --- stderr
    error: 1 of 3 could not be read
    hint: what failed changed nothing; mend it, and do the same again
    --- exit 1
    ");
    let report = world.segue(["session", "import", ".", "--json"]);
    let report: Value = serde_json::from_str(&report.raw_stdout).unwrap();
    assert_eq!(report["error"]["message"], "1 of 3 could not be read");
    assert_snapshot!(world.segue(["session", "import", "nowhere"]), @"
    --- stderr
    error: cannot look at nowhere: No such file or directory (os error 2)
    hint: name something that is there: a project, a worktree of a feature, or the `.dagent` in it
    --- exit 2
    ");
    assert_snapshot!(world.segue(["session", "import", ".", "-p", "nobody"]), @"
    --- stderr
    error: nobody here is called nobody
    hint: there are: claude, codex, gemini, opencode, rehearsal
    --- exit 2
    ");
    fs::create_dir(world.project().join("empty")).unwrap();
    assert_snapshot!(world.segue(["session", "import", "empty"]), @"
    --- stderr
    there is nothing to take in at [WORLD]/project/empty; a `.dagent` with sessions was looked for
    --- exit 0
    ");
}

/// A session of a feature with one message for each text.
fn put_chat(world: &World, feature: &str, id: &str, texts: &[&str]) {
    let message = |(n, text): (usize, &&str)| json!({ "id": n.to_string(), "timestamp": format!("2025-01-15T10:00:0{n}.000Z"), "role": "user", "content": text });
    let messages: Vec<Value> = texts.iter().enumerate().map(message).collect();
    put(
        world,
        &format!(".dagent-worktrees/{feature}/.dagent/sessions/chat_{id}.json"),
        json!({ "sessionId": id, "messages": messages, "metadata": { "createdAt": "2025-01-15T10:00:00.000Z" } }),
    );
}

#[test]
fn one_name_for_two_sessions_loses_neither() {
    let world = world();
    put_chat(&world, "auth", "chat-1", &["about the login"]);
    put_chat(&world, "pay", "chat-1", &["about the invoices"]);
    assert_snapshot!(world.segue(["session", "import", "."]), @"
    [SESSION]  chat-1  (1 message, feature auth)
    [SESSION]  chat-1  (1 message, feature pay)
      it is a session of its own: [SESSION] has the same name, but is for something else; that one stays as it is
    2 came, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    for words in ["login", "invoices"] {
        let found = world
            .json(["session", "search", words, "--json"])
            .to_string();
        assert!(found.contains("about the"), "{words}: {found}");
    }
    let again = world.json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&again["imported"], &again["already"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(count_sessions(&world), 2);
    let both = world.segue(["session", "show", "chat-1"]);
    assert!(both.stderr.contains("matches 2 sessions"), "{both}");
    // Each goes back to where it was, by its old name.
    let export = [
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ];
    let _ = world.json(export);
    let out = tree(&world.project().join("out"));
    for (feature, words) in [("auth", "login"), ("pay", "invoices")] {
        let chat = &out[&format!(".dagent-worktrees/{feature}/.dagent/sessions/chat_chat-1.json")];
        assert!(chat.contains(words), "{chat}");
    }
}

#[test]
fn a_file_that_grew_comes_as_a_session_of_its_own() {
    let world = world();
    put_chat(&world, "pay", "chat-1", &["one", "two"]);
    let _ = world.json(["session", "import", ".", "--json"]);
    put_chat(&world, "pay", "chat-1", &["one", "two", "three"]);
    assert_snapshot!(world.segue(["session", "import", ".", "--dry-run"]), @"
    would come: chat-1  (3 messages, feature pay)
      it is a session of its own: [SESSION] has the same name, but only 2 of its 3 messages; that one stays as it is
    1 would come, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    assert_snapshot!(world.segue(["session", "import", "."]), @"
    [SESSION]  chat-1  (3 messages, feature pay)
      it is a session of its own: [SESSION] has the same name, but only 2 of its 3 messages; that one stays as it is
    1 came, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    let third = world.json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&third["imported"], &third["already"]),
        (&json!(0), &json!(1))
    );
    // What was there before is not new either, and neither is what both of them go as.
    put_chat(&world, "pay", "chat-1", &["one", "two"]);
    let _ = world.json(["session", "import", ".", "--json"]);
    let _ = world.json([
        "session", "export", "--all", "--format", "dagent", "--to", "out", "--json",
    ]);
    let chats = tree(&world.project().join("out"));
    let chats = chats.keys().filter(|path| path.contains("/chat_"));
    assert_eq!(chats.count(), 2, "none in the place of the other");
    let back = world.json(["session", "import", "out", "--json"]);
    assert_eq!(
        (&back["imported"], &back["already"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(count_sessions(&world), 2);
}

#[test]
fn what_went_back_here_has_come_nevertheless() {
    let world = world();
    put_chat(&world, "pay", "chat-1", &["one", "two"]);
    let _ = world.json(["session", "import", ".", "--json"]);
    let _ = world.json(["session", "revert", "chat-1", "--to", "1", "--json"]);
    let again = world.json(["session", "import", ".", "--json"]);
    assert_eq!(
        (&again["imported"], &again["already"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn what_it_came_to_elsewhere_is_shown_and_counts_on() {
    let here = world();
    put_feature(&here);
    let _ = here.json(["session", "import", ".", "--json"]);
    let shown = here.segue(["session", "checkpoint", OLD]).stdout;
    // How long ago it was made is another number every day.
    let shown: Vec<&str> = shown
        .lines()
        .filter(|line| !line.contains("days ago"))
        .collect();
    assert_snapshot!(shown.join("\n"), @"
    checkpoint 1 of [SESSION]: and refunds?
    sums up in 62 tokens what was said before the session came; the session has 1 turn(s)
    ▏···················  331 of 100,000 tokens to be told next; 250,000 saved in all

    1 done, 1 open, 1 decided, 0 in the way

    Still to do
       2  write the webhook  (came with the session)

    Done
       1  chose the provider  (came with the session)

    Decided
       3  Stripe, since it has refunds  (came with the session)

    Loop of checks, round 2
          passed: build
          failed: test
          last error: 1 failed
    ");
    let list = here.segue(["session", "checkpoint", OLD, "list"]);
    assert!(list.stdout.contains("*  1  before  62"), "{list}");
    // A pin reads nothing of what was said.
    let _ = here.json(["session", "checkpoint", OLD, "pin", "1", "--json"]);
    let saved = here.json(["session", "checkpoint", OLD, "--json"])["total_saved"].clone();
    assert_eq!(saved, 250_000);
    let _ = here.json([
        "session", "export", OLD, "--format", "dagent", "--to", "out", "--json",
    ]);
    let out = here.project().join("out");
    let path = format!(".dagent-worktrees/pay/.dagent/sessions/checkpoint_{OLD}.json");
    let file: Value = serde_json::from_str(&tree(&out)[&path]).unwrap();
    assert_eq!(
        (&file["version"], &file["tokens"]["lastCompactionInput"]),
        (&json!(5), &json!(90_000))
    );
    assert_eq!(file["tokens"]["totalSaved"], 250_000);
    let there = world();
    let _ = there.json(["session", "import", out.to_str().unwrap(), "--json"]);
    let shown = there.json(["session", "checkpoint", OLD, "--json"]);
    assert_eq!(shown["total_saved"], 250_000);
}

#[test]
fn a_pin_is_no_compaction() {
    let world = world();
    let _ = world.json(["chat", "--json", "Always run the tests. Then fix src/a.rs"]);
    let _ = world.json(["session", "compact", "latest", "--json"]);
    let tokens = || {
        let _ = world.json([
            "session", "export", "latest", "--format", "dagent", "--to", "out", "--force", "--json",
        ]);
        let out = tree(&world.project().join("out"));
        let mut files = out.iter();
        let (_, text) = files
            .find(|(path, _)| path.contains("/checkpoint_"))
            .unwrap();
        let file: Value = serde_json::from_str(text).unwrap();
        (file["version"].clone(), file["tokens"].clone())
    };
    let (version, before) = tokens();
    let shown = world.json(["session", "checkpoint", "latest", "--json"]);
    let item = shown["items"][0]["id"].to_string();
    let _ = world.json(["session", "checkpoint", "latest", "pin", &item, "--json"]);
    assert_eq!(version, 1);
    assert_eq!(tokens(), (json!(2), before));
}

fn chat_json() -> String {
    json!({ "entries": [
        { "role": "user", "content": "plan the payments", "timestamp": "2024-12-01T10:00:00.000Z", "media": ["a.png"] },
        { "role": "assistant", "content": "here is a plan", "timestamp": "2024-12-01T10:00:30.000Z" },
        null, 7, { "role": "user" },
        { "type": "user", "text": "thanks", "timestamp": "2024-12-01T10:01:00.000Z" },
    ] })
    .to_string()
}

#[test]
fn old_files_are_migrated_once_with_their_times() {
    let world = world();
    let chat = ".dagent-worktrees/pay/.dagent/chat.json";
    put(&world, chat, chat_json());
    put(
        &world,
        ".dagent-worktrees/pay/.dagent/nodes/hook/session.json",
        json!({
            "taskId": "hook", "agentId": "a", "status": "completed", "startedAt": "2024-12-02T10:00:00Z", "messages": [
                { "timestamp": "2024-12-02T10:00:00Z", "direction": "task_to_harness", "type": "intention", "content": "I will" },
                { "timestamp": "2024-12-02T10:00:01Z", "direction": "harness_to_task", "type": "approval", "content": "go on" },
            ],
        }),
    );
    put(&world, ".dagent/chat.json", "");
    assert_snapshot!(world.segue(["session", "migrate", ".", "--dry-run"]), @"
    nothing was said in [WORLD]/project/.dagent/chat.json
      the file is empty
    would come: [WORLD]/project/.dagent-worktrees/pay/.dagent/chat.json  (3 messages, feature pay as pm)
      entry 3 is null, and was left out
      entry 4 is a number, and was left out
      entry 5 has no text, and was left out
    would come: [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/session.json  (2 messages, task hook in state in_dev of feature pay as dev)
    2 would come, 0 here already, 1 with nothing in them, 0 failed.
    --- exit 0
    ");
    assert_eq!(count_sessions(&world), 0);
    assert!(!world.home().join("backups").exists());
    let report = world.json(["session", "migrate", ".", "--json"]);
    assert_eq!(report["imported"], 2, "{report}");
    assert_snapshot!(world.segue(["session", "migrate", "."]), @"
    nothing was said in [WORLD]/project/.dagent/chat.json
      the file is empty
    [SESSION]  is here already: [WORLD]/project/.dagent-worktrees/pay/.dagent/chat.json
    [SESSION]  is here already: [WORLD]/project/.dagent-worktrees/pay/.dagent/nodes/hook/session.json
    0 came, 2 here already, 1 with nothing in them, 0 failed.
    --- exit 0
    ");

    let entries = report["entries"].as_array().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry["role"] == "pm" && entry["feature"] == "pay")
        .unwrap();
    assert_eq!(entry["created_at"], "2024-12-01T10:00:00Z");
    assert_eq!(
        fs::read_to_string(world.project().join(chat)).unwrap(),
        chat_json()
    );
    assert_eq!(
        fs::read_to_string(entry["backup"].as_str().unwrap()).unwrap(),
        chat_json()
    );
    let id = entry["session_id"].as_str().unwrap();
    assert!(id.starts_with("20241201_100000_"), "{id}");
    let shown = world.json(["session", "show", id, "--json"]);
    let turns = shown["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[0]["messages"][1]["at"], "2024-12-01T10:00:30Z");
    assert_eq!(turns[1]["started_at"], "2024-12-01T10:01:00Z");
    assert_eq!(shown["legs"], json!([]), "no agent was asked");
}

#[test]
fn an_old_file_that_grew_or_is_dated_ahead_is_told() {
    let world = world();
    let chat = ".dagent/chat.json";
    let entry =
        |text: &str, time: &str| json!({ "role": "user", "content": text, "timestamp": time });
    let mut entries = vec![
        entry("one", "2024-12-01T10:00:00Z"),
        entry("", "2024-12-01T10:00:00Z"),
    ];
    put(
        &world,
        chat,
        format!("\u{feff}{}", json!({ "entries": entries })),
    );
    let _ = world.json(["session", "migrate", ".", "--json"]);
    let said = world.json(["chat", "--json", "hello"]);
    entries.push(entry("later", "2999-01-01T00:00:00Z"));
    put(&world, chat, json!({ "entries": entries }));
    assert_snapshot!(world.segue(["session", "migrate", "."]), @"
    [SESSION]  [WORLD]/project/.dagent/chat.json  (2 messages, the project as pm)
      entry 2 has no text, and was left out
      it is dated ahead, up to [TIME]; messages keep their times, and the session counts as touched now
      it is a session of its own: [SESSION] has the same name, but only 1 of its 2 messages; that one stays as it is
    1 came, 0 here already, 0 with nothing in them, 0 failed.
    --- exit 0
    ");
    let again = world.json(["session", "migrate", ".", "--json"]);
    assert_eq!(
        (&again["imported"], &again["already"]),
        (&json!(0), &json!(1))
    );
    let id = again["entries"][0]["session_id"].as_str().unwrap();
    let shown = world.json(["session", "show", id, "--json"]);
    assert_eq!(
        shown["turns"][1]["messages"][0]["at"],
        "2999-01-01T00:00:00Z"
    );
    let _ = world.json([
        "chat",
        "--json",
        "--resume",
        said["session_id"].as_str().unwrap(),
        "once more",
    ]);
    let latest = world.json(["session", "info", "latest", "--json"]);
    assert_eq!(
        latest["session"]["id"], said["session_id"],
        "what was touched last"
    );
    // Old files have no counts, and what goes has one.
    let _ = world.json([
        "session", "export", id, "--format", "dagent", "--to", "out", "--json",
    ]);
    let out = tree(&world.project().join("out"));
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
fn many_migrations_at_once_take_it_in_once() {
    let world = world();
    put(&world, ".dagent/chat.json", chat_json());
    let start = || {
        let mut command = world.command(["session", "migrate", ".", "--json"]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let running: Vec<_> = (0..6).map(|_| start()).collect();
    let mut imported = 0;
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        imported += report["imported"].as_u64().unwrap();
    }
    assert_eq!((imported, count_sessions(&world)), (1, 1));
}

#[test]
fn what_is_no_old_file_changes_nothing() {
    let world = world();
    let chat = ".dagent/chat.json";
    for (content, code) in [
        ("{ torn", 1),
        ("{\"entries\":\"all\"}", 1),
        ("null", 0),
        ("{\"entries\":[]}", 0),
        ("{\"version\":2}", 0),
    ] {
        put(&world, chat, content);
        let output = world.segue(["session", "migrate", chat]);
        assert_eq!(output.code, Some(code), "{content}: {output}");
        assert_eq!(
            fs::read_to_string(world.project().join(chat)).unwrap(),
            content
        );
    }
    assert_eq!(count_sessions(&world), 0);
    assert!(!world.home().join("backups").exists());
    put(&world, chat, "{ torn");
    assert_snapshot!(world.segue(["session", "migrate", chat]), @"
    failed: [WORLD]/project/.dagent/chat.json: it is not JSON: key must be a string at line 1 column 3
    0 came, 0 here already, 0 with nothing in them, 1 failed.
    --- stderr
    error: 1 of 1 could not be read
    hint: what failed changed nothing; mend it, and do the same again
    --- exit 1
    ");
    put(&world, "notes.json", "{}");
    assert_snapshot!(world.segue(["session", "migrate", "notes.json"]), @"
    --- stderr
    error: [WORLD]/project/notes.json is none of the old files
    hint: they are called chat.json and session.json; a directory that has some will do
    --- exit 2
    ");
    fs::remove_dir_all(world.project().join(".dagent")).unwrap();
    assert_snapshot!(world.segue(["session", "migrate", "."]), @"
    --- stderr
    there is nothing to take in at [WORLD]/project; a `.dagent` with chat.json or session.json was looked for
    --- exit 0
    ");
}
