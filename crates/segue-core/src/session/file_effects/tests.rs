use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::json::Json;
use crate::session::Role;

/// Returns the effects of a call with this response, as text.
fn format_call_effects(name: &str, args: Value, result: TestCallResult) -> String {
    let call = Part::FunctionCall {
        id: "c".into(),
        name: name.into(),
        args: Json::from(args),
    };
    let result = match result {
        TestCallResult::Succeeded(response) => Some((response, false)),
        TestCallResult::Failed(response) => Some((response, true)),
        TestCallResult::Missing => None,
    };
    let mut parts = vec![call];
    parts.extend(result.map(|(response, is_error)| Part::FunctionResponse {
        call_id: "c".into(),
        name: name.into(),
        response: Json::from(response),
        is_error,
    }));
    let message = Message::new(Role::Assistant, parts, Timestamp::UNIX_EPOCH);
    format_effects(&collect_effects(&[message], "/p"))
}

fn format_effects(effects: &Effects) -> String {
    let files = effects.files.iter();
    let mut entries: Vec<String> = files
        .map(|file| format!("{} {}", file.kind.as_str(), file.path))
        .collect();
    if effects.commands > 0 {
        entries.push(format!("{} commands", effects.commands));
    }
    entries.join(", ")
}

#[derive(Debug)]
enum TestCallResult {
    Succeeded(Value),
    Failed(Value),
    Missing,
}

fn ok(response: Value) -> TestCallResult {
    TestCallResult::Succeeded(response)
}

/// Builds a response with a diff of a file.
fn with_diff(path: &str, diff: &str) -> TestCallResult {
    let diff = json!({"path": path, "patch": diff});
    ok(json!({"output": "ok", "diffs": [diff]}))
}

fn check(cases: impl IntoIterator<Item = (&'static str, Value, TestCallResult, &'static str)>) {
    for (name, args, result, expected) in cases {
        let case = format!("{name} {args} {result:?}");
        assert_eq!(format_call_effects(name, args, result), expected, "{case}");
    }
}

fn file_args(path: &str) -> Value {
    json!({ "file_path": path })
}

#[test]
fn claude_code_names_the_file_it_edits() {
    let (created, edited) = ("@@ -0,0 +1,1 @@\n+a\n", "@@ -1,1 +1,1 @@\n-a\n+b\n");
    let notebook = json!({"notebook_path": "/p/n.ipynb"});
    check([
        (
            "Edit",
            file_args("/p/a.rs"),
            with_diff("/p/a.rs", edited),
            "edited a.rs",
        ),
        (
            "Write",
            file_args("/p/a.rs"),
            with_diff("/p/a.rs", created),
            "created a.rs",
        ),
        (
            "Write",
            file_args("/p/empty"),
            ok(json!("ok")),
            "edited empty",
        ),
        (
            "MultiEdit",
            file_args("/p/a.rs"),
            ok(json!("ok")),
            "edited a.rs",
        ),
        ("NotebookEdit", notebook, ok(json!("ok")), "edited n.ipynb"),
        ("Read", file_args("/p/a.rs"), ok(json!("text")), ""),
        (
            "Bash",
            json!({"command": "ls"}),
            ok(json!("")),
            "1 commands",
        ),
    ]);
}

#[test]
fn codex_lists_changes_or_sends_a_patch() {
    const SAMPLE_PATCH: &str = "*** Begin Patch\n*** Add File: new.rs\n+x\n*** Update File: /p/old.rs\n\
        *** Move to: moved.rs\n@@\n-a\n+b\n*** Delete File: gone.rs\n*** End Patch";
    let all = "created new.rs, deleted old.rs, created moved.rs, deleted gone.rs";
    let change = |path: &str, kind: &str| json!({"path": path, "kind": kind});
    let changes = [
        change("/p/a", "add"),
        change("/p/b", "update"),
        change("/p/c", "delete"),
    ];
    let script = json!({"command": "/bin/bash -lc 'touch x'", "cwd": "/p"});
    check([
        (
            "edit a, b, c",
            json!({ "changes": changes }),
            with_diff("/p/a", ""),
            "created a, edited b, deleted c",
        ),
        ("apply_patch", json!(SAMPLE_PATCH), ok(json!("ok")), all),
        (
            "apply_patch",
            json!({ "input": SAMPLE_PATCH }),
            ok(json!("ok")),
            all,
        ),
        (
            "shell",
            json!({"command": ["apply_patch", SAMPLE_PATCH]}),
            ok(json!("ok")),
            all,
        ),
        ("apply_patch", json!("no patch"), ok(json!("ok")), ""),
        (
            "exec_command",
            json!({"cmd": "touch x"}),
            ok(json!("")),
            "1 commands",
        ),
        ("touch x", script, ok(json!("")), "1 commands"),
    ]);
}

#[test]
fn gemini_cli_and_acp_agents_name_their_tools_differently() {
    let created = with_diff("/p/a.txt", "@@ -0,0 +1 @@\n+a\n");
    let removed = with_diff("/p/a.txt", "@@ -1 +0,0 @@\n-a\n");
    check([
        (
            "Edit notes.txt",
            json!({"path": "notes.txt"}),
            ok(json!({"output": "edited"})),
            "edited notes.txt",
        ),
        (
            "Edit notes.txt",
            json!({"path": "notes.txt"}),
            TestCallResult::Failed(json!({"output": "not allowed"})),
            "",
        ),
        (
            "Read notes.txt",
            json!({"path": "notes.txt"}),
            ok(json!({"output": "three lines"})),
            "",
        ),
        (
            "write_file",
            file_args("/p/a.txt"),
            ok(json!({"output": "ok"})),
            "edited a.txt",
        ),
        (
            "replace",
            file_args("a.txt"),
            ok(json!({"output": "ok"})),
            "edited a.txt",
        ),
        (
            "run_shell_command",
            json!({"command": "make"}),
            ok(json!("")),
            "1 commands",
        ),
        // The name of the call is a title.
        ("Writing to a.txt", json!({}), created, "created a.txt"),
        ("Remove a.txt", json!({}), removed, "deleted a.txt"),
    ]);
}

#[test]
fn a_failed_edit_is_ignored_and_an_interrupted_edit_counts() {
    let interrupted = json!({"interrupted": true});
    check([
        (
            "Edit",
            file_args("/p/a.rs"),
            TestCallResult::Failed(json!("no such text")),
            "",
        ),
        (
            "Bash",
            json!({"command": "make"}),
            TestCallResult::Failed(json!("exit 2")),
            "1 commands",
        ),
        (
            "Edit",
            file_args("/p/a.rs"),
            TestCallResult::Failed(interrupted),
            "edited a.rs",
        ),
        (
            "Edit",
            file_args("/p/a.rs"),
            TestCallResult::Missing,
            "edited a.rs",
        ),
        ("Edit", json!({"file_path": 7}), ok(json!(null)), ""),
    ]);
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    check([
        (
            "Edit",
            file_args("/etc/hosts"),
            ok(json!("ok")),
            "edited /etc/hosts",
        ),
        (
            "Edit",
            file_args("/project/x"),
            ok(json!("ok")),
            "edited /project/x",
        ),
        ("Edit", file_args("./x"), ok(json!("ok")), "edited x"),
        ("Edit", file_args("/p/d/x"), ok(json!("ok")), "edited d/x"),
    ]);
}

#[test]
fn each_file_is_listed_once_with_its_overall_change() {
    use FileChangeKind::{Created, Deleted, Edited};
    let cases: [(&[FileChangeKind], FileChangeKind); 6] = [
        (&[Created, Edited], Created),
        (&[Edited, Edited], Edited),
        (&[Edited, Deleted], Deleted),
        (&[Created, Deleted], Deleted),
        (&[Deleted, Created], Edited),
        (&[Edited, Created], Edited),
    ];
    for (changes, expected) in cases {
        let mut effects = Effects::default();
        effects.record_change("/p/first", Edited, "/p/");
        for change in changes {
            effects.record_change("/p/x", *change, "/p");
        }
        effects.record_change("first", Edited, "/p");
        assert_eq!(
            format_effects(&effects),
            format!("edited first, {} x", expected.as_str()),
            "{changes:?}"
        );
    }
}
