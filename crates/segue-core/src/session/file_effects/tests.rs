use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::json::Json;
use crate::session::Role;

/// Returns the effects of a call with this response, as text.
fn done(name: &str, args: Value, answer: Answer) -> String {
    let call = Part::FunctionCall {
        id: "c".into(),
        name: name.into(),
        args: Json::from(args),
    };
    let answer = match answer {
        Answer::Gave(response) => Some((response, false)),
        Answer::Failed(response) => Some((response, true)),
        Answer::Nothing => None,
    };
    let mut parts = vec![call];
    parts.extend(answer.map(|(response, is_error)| Part::FunctionResponse {
        call_id: "c".into(),
        name: name.into(),
        response: Json::from(response),
        is_error,
    }));
    let message = Message::new(Role::Assistant, parts, Timestamp::UNIX_EPOCH);
    told(&effects(&[message], "/p"))
}

fn told(effects: &Effects) -> String {
    let files = effects.files.iter();
    let mut told: Vec<String> = files
        .map(|file| format!("{} {}", file.change.as_str(), file.path))
        .collect();
    if effects.commands > 0 {
        told.push(format!("{} commands", effects.commands));
    }
    told.join(", ")
}

#[derive(Debug)]
enum Answer {
    Gave(Value),
    Failed(Value),
    Nothing,
}

fn ok(response: Value) -> Answer {
    Answer::Gave(response)
}

/// Builds a response with a diff of a file.
fn shown(path: &str, diff: &str) -> Answer {
    let diff = json!({"path": path, "patch": diff});
    ok(json!({"output": "ok", "diffs": [diff]}))
}

fn check(cases: impl IntoIterator<Item = (&'static str, Value, Answer, &'static str)>) {
    for (name, args, answer, expected) in cases {
        let case = format!("{name} {args} {answer:?}");
        assert_eq!(done(name, args, answer), expected, "{case}");
    }
}

fn file(path: &str) -> Value {
    json!({ "file_path": path })
}

#[test]
fn claude_code_names_the_file_it_edits() {
    let (made, edited) = ("@@ -0,0 +1,1 @@\n+a\n", "@@ -1,1 +1,1 @@\n-a\n+b\n");
    let notebook = json!({"notebook_path": "/p/n.ipynb"});
    check([
        (
            "Edit",
            file("/p/a.rs"),
            shown("/p/a.rs", edited),
            "edited a.rs",
        ),
        (
            "Write",
            file("/p/a.rs"),
            shown("/p/a.rs", made),
            "created a.rs",
        ),
        ("Write", file("/p/empty"), ok(json!("ok")), "edited empty"),
        ("MultiEdit", file("/p/a.rs"), ok(json!("ok")), "edited a.rs"),
        ("NotebookEdit", notebook, ok(json!("ok")), "edited n.ipynb"),
        ("Read", file("/p/a.rs"), ok(json!("text")), ""),
        (
            "Bash",
            json!({"command": "ls"}),
            ok(json!("")),
            "1 commands",
        ),
    ]);
}

#[test]
fn codex_tells_changes_or_hands_over_a_patch() {
    const PATCH: &str = "*** Begin Patch\n*** Add File: new.rs\n+x\n*** Update File: /p/old.rs\n\
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
            shown("/p/a", ""),
            "created a, edited b, deleted c",
        ),
        ("apply_patch", json!(PATCH), ok(json!("ok")), all),
        (
            "apply_patch",
            json!({ "input": PATCH }),
            ok(json!("ok")),
            all,
        ),
        (
            "shell",
            json!({"command": ["apply_patch", PATCH]}),
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
fn gemini_cli_and_those_that_speak_acp_have_their_own_names() {
    let made = shown("/p/a.txt", "@@ -0,0 +1 @@\n+a\n");
    let removed = shown("/p/a.txt", "@@ -1 +0,0 @@\n-a\n");
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
            Answer::Failed(json!({"output": "not allowed"})),
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
            file("/p/a.txt"),
            ok(json!({"output": "ok"})),
            "edited a.txt",
        ),
        (
            "replace",
            file("a.txt"),
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
        ("Writing to a.txt", json!({}), made, "created a.txt"),
        ("Remove a.txt", json!({}), removed, "deleted a.txt"),
    ]);
}

#[test]
fn what_failed_changed_nothing_and_what_was_cut_off_may_have() {
    let cut = json!({"interrupted": true});
    check([
        (
            "Edit",
            file("/p/a.rs"),
            Answer::Failed(json!("no such text")),
            "",
        ),
        (
            "Bash",
            json!({"command": "make"}),
            Answer::Failed(json!("exit 2")),
            "1 commands",
        ),
        ("Edit", file("/p/a.rs"), Answer::Failed(cut), "edited a.rs"),
        ("Edit", file("/p/a.rs"), Answer::Nothing, "edited a.rs"),
        ("Edit", json!({"file_path": 7}), ok(json!(null)), ""),
    ]);
}

#[test]
fn paths_are_told_from_the_working_directory() {
    check([
        (
            "Edit",
            file("/etc/hosts"),
            ok(json!("ok")),
            "edited /etc/hosts",
        ),
        (
            "Edit",
            file("/project/x"),
            ok(json!("ok")),
            "edited /project/x",
        ),
        ("Edit", file("./x"), ok(json!("ok")), "edited x"),
        ("Edit", file("/p/d/x"), ok(json!("ok")), "edited d/x"),
    ]);
}

#[test]
fn a_file_is_told_once_with_what_became_of_it() {
    use Change::{Created, Deleted, Edited};
    let cases: [(&[Change], Change); 6] = [
        (&[Created, Edited], Created),
        (&[Edited, Edited], Edited),
        (&[Edited, Deleted], Deleted),
        (&[Created, Deleted], Deleted),
        (&[Deleted, Created], Edited),
        (&[Edited, Created], Edited),
    ];
    for (changes, expected) in cases {
        let mut effects = Effects::default();
        effects.add("/p/first", Edited, "/p/");
        for change in changes {
            effects.add("/p/x", *change, "/p");
        }
        effects.add("first", Edited, "/p");
        assert_eq!(
            told(&effects),
            format!("edited first, {} x", expected.as_str()),
            "{changes:?}"
        );
    }
}
