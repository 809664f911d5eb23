//! The summariser: `session compact --summariser`, `compaction.summariser`, and in the background of a REPL.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use segue_testkit::TestHome;
use serde_json::Value;

use crate::count_sessions;
use crate::policy::home_with_second_agent;

/// Creates a session with two turns and returns its id.
fn create_session(home: &TestHome) -> String {
    let first = home.run_segue_json([
        "chat",
        "-p",
        "rehearsal",
        "--json",
        "Port the cache to Rust.",
    ]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    let next = home.run_segue(["chat", "--resume", &id, "Look at the lexer in detail."]);
    assert_eq!(next.code, Some(0), "{next}");
    id
}

#[test]
fn the_requested_summariser_refines_the_checkpoint() {
    let home = home_with_second_agent("");
    let id = create_session(&home);
    let output = home.run_segue(["session", "compact", &id, "--summariser", "acp:second"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output
            .stderr
            .contains("segue: acp:second added 1 statement to checkpoint 1: checkpoint 2 has "),
        "{output}"
    );
    home.assert_no_processes();
    // Without new turns, the summariser is not called again.
    let second = home.run_segue_json([
        "session",
        "compact",
        &id,
        "--json",
        "--summariser",
        "acp:second",
    ]);
    assert_eq!(
        (&second["version"], &second["summary"]),
        (&Value::Null, &Value::Null)
    );
    // The summariser's own session is neither listed nor continued.
    assert_eq!(count_sessions(&home), 1);
    let next = home.run_segue_json([
        "chat",
        "-p",
        "acp:second",
        "--continue",
        "--json",
        "and you?",
    ]);
    assert_eq!(next["turn"], 1, "{next:#}");
    // The brief contains the statement of the summariser.
    let preview = home.run_segue_json(["session", "preview", &id, "--json"]);
    let brief = preview["system_prompt"].as_str().unwrap();
    assert!(
        brief.contains("> Under way:\n> - [2] Look at the lexer in detail.\n"),
        "{brief}"
    );
}

#[test]
fn the_refinement_of_an_existing_checkpoint_is_reported_as_a_change() {
    let home = home_with_second_agent("");
    let id = create_session(&home);
    let _ = home.run_segue_json(["session", "compact", &id, "--json"]);
    let output = home.run_segue(["session", "compact", &id, "--summariser", "acp:second"]);
    assert!(output.stderr.contains("checkpoint 2 has "), "{output}");
    assert!(!output.stdout.contains("no changes made"), "{output}");
}

#[test]
fn an_unavailable_summariser_is_refused_before_any_change() {
    let home = home_with_second_agent("");
    let id = create_session(&home);
    assert_snapshot!(home.run_segue(["session", "compact", &id, "--summariser", "claude"]), @"
    --- stderr
    error: cannot use `claude` as summariser: agent not found on this machine
    hint: run `segue doctor` to list available agents, or use `--summariser none`
    --- exit 2
    ");
    assert_snapshot!(home.run_segue(["session", "compact", &id, "--summariser", "a b"]), @"
    --- stderr
    error: invalid value 'a b' for '--summariser <AGENT>': a provider name may not contain ' '

    For more information, try '--help'.
    --- exit 2
    ");
    let plan = home.run_segue_json(["session", "compact", &id, "--dry-run", "--json"]);
    assert_eq!(plan["turns"], 2, "{plan:#}");
}

#[test]
fn the_command_line_overrides_the_configured_summariser() {
    let home = home_with_second_agent("[compaction]\nsummariser = \"acp:second\"\n");
    let id = create_session(&home);
    let without =
        home.run_segue_json(["session", "compact", &id, "--json", "--summariser", "none"]);
    assert_eq!(
        (&without["version"], &without["summary"]),
        (&1.into(), &Value::Null)
    );
    // A turn without a compaction does not call the summariser.
    let chat = home.run_segue(["chat", "--resume", &id, "Now the parser."]);
    assert!(!chat.stderr.contains("acp:second"), "{chat}");
    let outcome = home.run_segue_json(["session", "compact", &id, "--json"]);
    assert_eq!(outcome["version"], 2, "{outcome:#}");
    let summary = &outcome["summary"];
    assert_eq!(
        (&summary["provider"], &summary["version"]),
        (&"acp:second".into(), &3.into()),
        "{outcome:#}"
    );
    assert!(
        summary["told"]
            .as_str()
            .unwrap()
            .starts_with("acp:second added 1 statement to checkpoint ")
    );
}

#[test]
fn a_repl_refines_a_checkpoint_in_the_background() {
    let home = home_with_second_agent("[compaction]\nsummariser = \"acp:second\"\n");
    let mut repl = home
        .segue_command(["repl", "-p", "rehearsal"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = repl.stdin.take().unwrap();
    let mut errors = repl.stderr.take().unwrap();
    let stderr_text = Arc::new(Mutex::new(String::new()));
    let reader = {
        let stderr_text = Arc::clone(&stderr_text);
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = errors.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]);
                stderr_text.lock().unwrap().push_str(&text);
            }
        })
    };
    let mut type_in = |line: &str| writeln!(input, "{line}").unwrap();
    type_in("Port the cache to Rust.");
    type_in("/compact");
    // The REPL applies the result between two prompts.
    for n in 0..300 {
        type_in(&format!("go on, {n}"));
        std::thread::sleep(Duration::from_millis(100));
        if stderr_text
            .lock()
            .unwrap()
            .contains("acp:second added 1 statement to checkpoint 1")
        {
            break;
        }
    }
    drop(input);
    assert!(repl.wait().unwrap().success());
    reader.join().unwrap();
    let stderr_text = stderr_text.lock().unwrap();
    assert_eq!(
        stderr_text
            .matches("acp:second added 1 statement to checkpoint ")
            .count(),
        1,
        "{stderr_text}"
    );
    home.assert_no_processes();
}

#[test]
fn a_repl_does_not_wait_for_a_summariser_that_never_answers() {
    let settings = "[compaction]\nsummariser = \"acp:mute\"\n[acp.mute]\npath = \"sleep\"\nargs = [\"3600\"]\n";
    let home = home_with_second_agent(settings);
    let lines = "Port the cache to Rust.\n/compact\ngo on\n/session\n";
    let output = home.run_segue_with_input(["repl", "-p", "rehearsal"], lines.as_bytes());
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("You said: go on"), "{output}");
    assert!(!output.stderr.contains("acp:mute"), "{output}");
    home.assert_no_processes();
}
