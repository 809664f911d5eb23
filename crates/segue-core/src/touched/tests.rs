use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{Json, Role};

/// What a call with this answer did; `None` for a call without one.
fn done(name: &str, args: Value, answer: Option<(Value, bool)>) -> String {
    let call = Part::FunctionCall {
        id: "c".into(),
        name: name.into(),
        args: Json::from(args),
    };
    let mut parts = vec![call];
    parts.extend(answer.map(|(response, is_error)| Part::FunctionResponse {
        call_id: "c".into(),
        name: name.into(),
        response: Json::from(response),
        is_error,
    }));
    told(&effects(
        &[Message::new(Role::Assistant, parts, Timestamp::UNIX_EPOCH)],
        "/p",
    ))
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

#[test]
fn each_agent_tells_in_its_own_way_what_it_changed() {
    let ok = |response: Value| Some((response, false));
    let diffs = |path: &str, patch: &str| {
        ok(json!({"output": "ok", "diffs": [{"path": path, "patch": patch}]}))
    };
    let patch = "*** Begin Patch\n*** Add File: new.rs\n+x\n*** Update File: /p/old.rs\n*** Move to: moved.rs\n@@\n-a\n+b\n*** Delete File: gone.rs\n*** End Patch";
    let cases = [
        // Claude Code.
        (
            "Edit",
            json!({"file_path": "/p/a.rs"}),
            diffs("/p/a.rs", "@@ -1,1 +1,1 @@\n-a\n+b\n"),
            "edited a.rs",
        ),
        (
            "Write",
            json!({"file_path": "/p/a.rs"}),
            diffs("/p/a.rs", "@@ -0,0 +1,1 @@\n+a\n"),
            "created a.rs",
        ),
        (
            "Write",
            json!({"file_path": "/p/empty"}),
            ok(json!("ok")),
            "edited empty",
        ),
        (
            "MultiEdit",
            json!({"file_path": "/p/a.rs", "edits": []}),
            ok(json!("ok")),
            "edited a.rs",
        ),
        (
            "NotebookEdit",
            json!({"notebook_path": "/p/n.ipynb"}),
            ok(json!("ok")),
            "edited n.ipynb",
        ),
        (
            "Read",
            json!({"file_path": "/p/a.rs"}),
            ok(json!("text")),
            "",
        ),
        (
            "Bash",
            json!({"command": "ls"}),
            ok(json!("")),
            "1 commands",
        ),
        // Codex, as it is driven and as it keeps its threads.
        (
            "edit a, b, c",
            json!({"changes": [{"path": "/p/a", "kind": "add"}, {"path": "/p/b", "kind": "update"}, {"path": "/p/c", "kind": "delete"}]}),
            diffs("/p/a", "@@ -0,0 +1,1 @@\n+a\n"),
            "created a, edited b, deleted c",
        ),
        (
            "apply_patch",
            json!(patch),
            ok(json!("ok")),
            "created new.rs, deleted old.rs, created moved.rs, deleted gone.rs",
        ),
        (
            "shell",
            json!({"command": ["apply_patch", patch]}),
            ok(json!("ok")),
            "created new.rs, deleted old.rs, created moved.rs, deleted gone.rs",
        ),
        (
            "exec_command",
            json!({"cmd": "touch x"}),
            ok(json!("")),
            "1 commands",
        ),
        (
            "touch x",
            json!({"command": "/bin/bash -lc 'touch x'", "cwd": "/p"}),
            ok(json!("")),
            "1 commands",
        ),
        // Gemini CLI.
        (
            "write_file",
            json!({"file_path": "/p/a.txt", "content": "x"}),
            ok(json!({"output": "ok"})),
            "edited a.txt",
        ),
        (
            "replace",
            json!({"file_path": "a.txt"}),
            ok(json!({"output": "ok"})),
            "edited a.txt",
        ),
        (
            "run_shell_command",
            json!({"command": "make"}),
            ok(json!("")),
            "1 commands",
        ),
        // Over ACP a call has a title for a name, and a diff.
        (
            "Writing to a.txt",
            json!({}),
            diffs("/p/a.txt", "@@ -0,0 +1 @@\n+a\n"),
            "created a.txt",
        ),
        (
            "Remove a.txt",
            json!({}),
            diffs("/p/a.txt", "@@ -1 +0,0 @@\n-a\n"),
            "deleted a.txt",
        ),
        // Outside of the project, and hardly inside.
        (
            "Edit",
            json!({"file_path": "/etc/hosts"}),
            ok(json!("ok")),
            "edited /etc/hosts",
        ),
        (
            "Edit",
            json!({"file_path": "/project/x"}),
            ok(json!("ok")),
            "edited /project/x",
        ),
        (
            "Edit",
            json!({"file_path": "./x"}),
            ok(json!("ok")),
            "edited x",
        ),
        // What failed, what was cut off, and what can't be understood.
        (
            "Edit",
            json!({"file_path": "/p/a.rs"}),
            Some((json!("no such text"), true)),
            "",
        ),
        (
            "Bash",
            json!({"command": "make"}),
            Some((json!("exit 2"), true)),
            "1 commands",
        ),
        (
            "Edit",
            json!({"file_path": "/p/a.rs"}),
            Some((json!({"interrupted": true}), true)),
            "edited a.rs",
        ),
        ("Edit", json!({"file_path": "/p/a.rs"}), None, "edited a.rs"),
        ("Edit", json!({"file_path": 7}), ok(json!(null)), ""),
        ("apply_patch", json!("no patch"), ok(json!("ok")), ""),
    ];
    for (name, args, answer, expected) in cases {
        let case = format!("{name} {args} {answer:?}");
        assert_eq!(done(name, args, answer), expected, "{case}");
    }
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
