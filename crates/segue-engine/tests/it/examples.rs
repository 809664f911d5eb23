//! The examples print the expected output. `cargo test` builds them together with this suite.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the output of an example.
fn run_example(name: &str) -> String {
    let test_binary = std::env::current_exe().unwrap();
    let build_dir = test_binary.parent().and_then(|deps| deps.parent());
    let example: PathBuf = build_dir.unwrap().join("examples").join(name);
    assert!(
        example.is_file(),
        "build it first: cargo build -p segue-engine --example {name}"
    );
    let result = Command::new(&example).stdin(Stdio::null()).output();
    let output = result.unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_turn_example_prints_its_events() {
    let output = run_example("turn");
    let expected = [
        "rehearsal: fresh",
        "thinks: hm",
        "tool: Read notes.txt (completed)",
        "asks: Edit notes.txt",
        "decided: allowed \"Edit notes.txt\" by the user",
        "tool: Edit notes.txt (completed)",
        "I edited the notes. all is done",
        "turn 1: finished",
    ];
    let mut lines = output.lines();
    for line in expected {
        assert!(
            lines.any(|output_line| output_line == line),
            "no {line:?} in\n{output}"
        );
    }
}

#[test]
fn the_scope_example_prints_the_brief() {
    let output = run_example("scope");
    assert!(output.starts_with(
        "created: true, found by its purpose: true\nadded as turn 1\n[Feature: checkout]\n"
    ));
    assert!(output.contains("\n> amounts are in cents\n"));
    assert!(
        output.ends_with("---\nYou said: round them\nI received a brief of our conversation.\n")
    );
}

#[test]
fn the_handoff_example_briefs_the_other_agent() {
    assert_eq!(
        run_example("handoff"),
        "\
rehearsal (fresh):
  You said: the key is under the mat
  This is where our conversation begins.
handed off from rehearsal to understudy
understudy (briefed):
  You said: where is the key?
  I received a brief of our conversation.
"
    );
}

#[test]
fn the_orchestrator_example_resumes_a_session() {
    let output = run_example("orchestrator");
    let (capabilities, remainder) = output.split_once("plan login").unwrap();
    assert!(
        capabilities.contains("rehearsal can list, load, resume"),
        "{output}"
    );
    assert!(
        capabilities.contains("understudy can list, load, resume"),
        "{output}"
    );
    assert_eq!(
        remainder,
        "\
: rehearsal, 1 turn, idle
plan search: understudy, 1 turn, idle
resumed: You said: go on
This is turn 2 of our conversation; before this you said: plan login
"
    );
}
