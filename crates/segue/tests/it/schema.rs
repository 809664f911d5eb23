//! `segue schema`, and the proof that the schemas describe the real output of every command.

use std::collections::BTreeSet;
use std::fs;

use insta::assert_snapshot;
use segue_api::schema::{SCHEMAS, find_schema};
use segue_testkit::TestHome;
use serde_json::Value;

use crate::native::{self, NATIVE_ID};
use crate::new_test_home;
use crate::policy::home_with_second_agent;
use crate::resume::install_fake_program;

const NATIVE_REF: &str = "claude:0b5e4c3a-1111-4222-8333-444455556666";

/// Checks that each line of an output is described completely by a schema.
struct OutputChecker {
    home: TestHome,
    checked_names: BTreeSet<&'static str>,
}

impl OutputChecker {
    /// Runs segue, and checks its output. Returns the last line.
    fn check(&mut self, name: &str, args: &[&str]) -> Value {
        let output = self.home.run_segue(args);
        let schema = find_schema(name).unwrap();
        let mut last = None;
        for line in output.raw_stdout.lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{output}"));
            let rewritten = schema.read_and_write(value.clone());
            let rewritten = rewritten.unwrap_or_else(|error| panic!("{name}: {error}: {value:#}"));
            assert_eq!(rewritten, value, "{name}: {args:?}");
            last = Some(value);
        }
        self.checked_names.insert(schema.name);
        last.unwrap_or_else(|| panic!("{output}"))
    }

    /// Checks the output of a command that fails.
    fn check_error(&mut self, args: &[&str]) -> Value {
        let error = self.check("error", args);
        assert!(error["error"]["message"].is_string());
        error
    }

    fn chat(&mut self, args: &[&str]) -> String {
        let result = self.check(
            "chat",
            &[&["chat", "-p", "rehearsal", "--json"], args].concat(),
        );
        result["session_id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn every_schema_describes_the_real_output() {
    let mut checker = OutputChecker {
        home: home_with_second_agent(""),
        checked_names: BTreeSet::new(),
    };
    native::write_claude_session(&checker.home, NATIVE_ID, "project");
    install_fake_program(&checker.home, "claude");
    let id = check_turns(&mut checker);
    check_views(&mut checker, &id);
    check_checkpoints(&mut checker, &id);
    check_changes(&mut checker, &id);
    check_files(&mut checker, &id);
    check_set_up(&mut checker);
    let all_names: BTreeSet<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
    assert_eq!(checker.checked_names, all_names);
}

/// Creates a session with three turns and returns its id.
fn check_turns(checker: &mut OutputChecker) -> String {
    let id = checker.chat(&["--explain", "Never push to main. Build the login form."]);
    checker.chat(&[
        "--resume",
        &id,
        "rehearse: think hm; tool; say Still to do: the docs.",
    ]);
    checker.chat(&[
        "--resume",
        &id,
        "--permissions",
        "allow-all",
        "rehearse: ask; say ok",
    ]);
    checker.chat(&["rehearse: fail oh no"]);
    checker.check("chat", &["chat", "--json", "--resume", "zzzz", "x"]);
    checker.check("chat", &["chat", "--json", "--no-such-option"]);
    let prompt = "rehearse: think hm; tool; ask; garbage; say done";
    let events = ["chat", "-p", "rehearsal", "--events", "--explain", prompt];
    checker.check("chat-event", &events);
    let output = checker.home.run_segue(events);
    let kinds = output.raw_stdout.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["event"].as_str().unwrap().to_owned()
    });
    let kinds: BTreeSet<String> = kinds.collect();
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    assert_eq!(
        kinds.join(" "),
        "began decision ended explained opened permission_request result saved text thought tool usage"
    );
    id
}

fn check_views(checker: &mut OutputChecker, id: &str) {
    checker.check("session-list", &["session", "list", "--all", "--json"]);
    for id in [id, NATIVE_REF] {
        checker.check("session-info", &["session", "info", id, "--json"]);
        checker.check("session-show", &["session", "show", id, "--json"]);
        checker.check(
            "preview",
            &["session", "preview", id, "--json", "--prompt", "x"],
        );
    }
    checker.check("context", &["session", "context", id, "--json"]);
    for query in [
        &["login"][..],
        &["provider:claude"],
        &["login", "--sort", "best"],
    ] {
        checker.check(
            "search",
            &[&["session", "search", "--json"], query].concat(),
        );
    }
    for grouping in ["day", "week", "month,model", "provider,project"] {
        checker.check("stats", &["session", "stats", "--json", "--by", grouping]);
    }
    checker.check(
        "resume-print",
        &["session", "resume", NATIVE_REF, "--print", "--json"],
    );
    checker.check_error(&["session", "info", "zzzz", "--json"]);
    checker.check_error(&["session", "list", "--json", "--no-such-option"]);
    check_running_session(checker, id);
}

/// Checks the output about a session in use.
fn check_running_session(checker: &mut OutputChecker, id: &str) {
    let mut chat = checker.home.start_chat(["--resume", id, "rehearse: hang"]);
    while chat.next_event().unwrap()["event"] != "opened" {}
    let info = checker.check("session-info", &["session", "info", id, "--json"]);
    assert!(info["held_by"]["pid"].is_number(), "{info:#}");
    let error = checker.check_error(&["session", "revert", id, "--to", "1", "--json"]);
    assert!(error["error"]["held_by"]["host"].is_string(), "{error:#}");
    let _ = chat.kill();
    checker.check("session-info", &["session", "info", id, "--json"]);
}

fn check_checkpoints(checker: &mut OutputChecker, id: &str) {
    checker.check(
        "compact",
        &["session", "compact", id, "--json", "--dry-run"],
    );
    let summarise = [
        "session",
        "compact",
        id,
        "--json",
        "--summariser",
        "acp:second",
    ];
    let compaction = checker.check("compact", &summarise);
    assert!(compaction["summary"]["told"].is_string(), "{compaction:#}");
    checker.check("compact", &["session", "compact", id, "--json"]);
    let checkpoint = ["session", "checkpoint", id, "--json"];
    checker.check("checkpoint", &checkpoint);
    checker.check("checkpoint", &[&checkpoint[..], &["pin", "1"]].concat());
    checker.check("checkpoint-list", &[&checkpoint[..], &["list"]].concat());
    checker.check(
        "checkpoint-diff",
        &[&checkpoint[..], &["diff", "1", "3"]].concat(),
    );
}

fn check_changes(checker: &mut OutputChecker, id: &str) {
    checker.check("session", &["session", "rename", id, "New title", "--json"]);
    checker.check("session", &["session", "tag", id, "one", "two", "--json"]);
    checker.check("tag-list", &["session", "tag", "--list", "--json"]);
    checker.check(
        "revert-plan",
        &["session", "revert", id, "--to", "2", "--dry-run", "--json"],
    );
    checker.check("revert", &["session", "revert", id, "--to", "2", "--json"]);
    checker.chat(&["--resume", id, "a detour"]);
    let undo = checker.check("revert", &["session", "undo", id, "--json"]);
    assert_eq!(undo["set_aside"]["turns"], 1, "{undo:#}");
    let fork = checker.check("session", &["session", "fork", id, "--at", "1", "--json"]);
    assert_eq!(fork["forked_from"]["id"], id);
    checker.check("session-info", &["session", "info", id, "--json"]);
    let fork_id = fork["id"].as_str().unwrap();
    checker.check(
        "delete",
        &["session", "delete", fork_id, "--dry-run", "--json"],
    );
    checker.check("delete", &["session", "delete", fork_id, "--yes", "--json"]);
    let scope = [
        "--feature",
        "auth",
        "--task",
        "form",
        "--state",
        "dev",
        "--role",
        "dev",
    ];
    let other_id = checker.chat(&[&scope[..], &["hello"]].concat());
    checker.check("session-list", &["session", "list", "--json"]);
    checker.check("context", &["session", "context", &other_id, "--json"]);
    checker.check(
        "forget",
        &["session", "forget", &other_id, "--yes", "--json"],
    );
}

fn check_files(checker: &mut OutputChecker, id: &str) {
    checker.check(
        "archive-plan",
        &["session", "archive", NATIVE_REF, "--dry-run", "--json"],
    );
    checker.check("archive", &["session", "archive", NATIVE_REF, "--json"]);
    checker.check("archive-list", &["session", "archive", "--list", "--json"]);
    checker.check(
        "delete",
        &["session", "delete", NATIVE_REF, "--yes", "--json"],
    );
    checker.check("restore", &["session", "restore", NATIVE_REF, "--json"]);
    for format in ["dagent", "json", "markdown"] {
        let export = [
            "session", "export", id, "--json", "--to", format, "--format", format,
        ];
        checker.check("export", &export);
    }
    let transcript_path = checker.home.project().join(format!("json/{id}.json"));
    let transcript: Value = serde_json::from_slice(&fs::read(transcript_path).unwrap()).unwrap();
    let schema = find_schema("session-show").unwrap();
    assert_eq!(
        schema.read_and_write(transcript.clone()).unwrap(),
        transcript
    );
    checker.check("import", &["session", "import", "dagent", "--json"]);
    let broken = checker.home.project().join("broken/.dagent/sessions");
    fs::create_dir_all(&broken).unwrap();
    fs::write(broken.join("chat_one.json"), "{").unwrap();
    let import = checker.check("import", &["session", "import", "broken", "--json"]);
    assert_eq!(import["error"]["class"], "failed", "{import:#}");
    checker.check("session", &["session", "adopt", NATIVE_REF, "--json"]);
}

fn check_set_up(checker: &mut OutputChecker) {
    checker.check("doctor", &["doctor", "--json"]);
    checker.check("event", &["events"]);
    checker.check("role", &["role", "show", "dev", "--json"]);
    checker.check("role-list", &["role", "list", "--json"]);
    checker.check("index-status", &["index", "status", "--json"]);
    checker.check("index-refresh", &["index", "rebuild", "--json"]);
    fs::remove_file(checker.home.segue_home().join("catalog.db")).unwrap();
    checker.check("index-status", &["index", "status", "--json"]);
    checker.check("schema-list", &["schema", "--json"]);
    let project_file = checker.home.project().join("segue.toml");
    fs::write(&project_file, "budget = 0.5\n").unwrap();
    checker.check("config-check", &["config", "check", "segue.toml", "--json"]);
    fs::write(
        &project_file,
        "budget = 9000\n[acp.theirs]\npath = \"/bin/true\"\n",
    )
    .unwrap();
    checker.check(
        "config-show",
        &["config", "show", "--json", "--open-timeout", "2.5"],
    );
    checker.check("config-path", &["config", "path", "--json"]);
    checker.check("trust", &["trust", "--yes", "--json"]);
    checker.check("trust-list", &["trust", "--list", "--json"]);
    checker.check("trust-revoke", &["trust", "--revoke", "--json"]);
}

#[test]
fn a_schema_is_printed_by_name() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["schema", "forget"]), @r#"
    {
      "$schema": "https://json-schema.org/draft/2020-12/schema",
      "title": "forget",
      "description": "Deleted record of a session: `session forget`",
      "type": "object",
      "properties": {
        "forgotten": {
          "description": "ID of the session.",
          "type": "string"
        }
      },
      "required": [
        "forgotten"
      ]
    }
    --- exit 0
    "#);
    let schema = find_schema("chat-event").unwrap().schema();
    let printed = home.run_segue_json(["schema", "chat-event", "--json"]);
    assert_eq!(printed, schema.to_value());
    let list = home.run_segue(["schema"]);
    let names = list.stdout.lines().skip(1);
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    let all_names: Vec<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
    assert_eq!(names, all_names, "{list}");
}

#[test]
fn an_unknown_schema_is_reported_with_a_similar_name() {
    let home = new_test_home();
    let output = home.run_segue(["schema", "sesion-list"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output
            .stderr
            .contains("a similar value exists: 'session-list'"),
        "{output}"
    );
    let completions = home.run_segue(["completions", "bash"]);
    assert!(completions.stdout.contains("checkpoint-diff"));
}
