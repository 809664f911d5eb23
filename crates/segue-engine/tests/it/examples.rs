//! The examples print what they promise. `cargo test` builds them together with this suite.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Returns the output of an example.
fn output_of(name: &str) -> String {
    let suite = std::env::current_exe().unwrap();
    let built = suite.parent().and_then(|deps| deps.parent());
    let example: PathBuf = built.unwrap().join("examples").join(name);
    assert!(
        example.is_file(),
        "build it first: cargo build -p segue-engine --example {name}"
    );
    let run = Command::new(&example).stdin(Stdio::null()).output();
    let run = run.unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && errors.is_empty(), "{errors}");
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn turn() {
    let output = output_of("turn");
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
        assert!(lines.any(|said| said == line), "no {line:?} in\n{output}");
    }
}

#[test]
fn scope() {
    let output = output_of("scope");
    assert!(
        output.starts_with("made: true, found again: true\nadded as turn 1\n[Feature: checkout]\n")
    );
    assert!(output.contains("\n> amounts are in cents\n"));
    assert!(output.ends_with("---\nYou said: round them\nI was told what was said before.\n"));
}

#[test]
fn handoff() {
    assert_eq!(
        output_of("handoff"),
        "\
rehearsal (fresh):
  You said: the key is under the mat
  This is where our conversation begins.
rehearsal hands over to understudy
understudy (briefed):
  You said: where is the key?
  I was told what was said before.
"
    );
}

#[test]
fn orchestrator() {
    let output = output_of("orchestrator");
    let (can, rest) = output.split_once("plan login").unwrap();
    assert!(can.contains("rehearsal can list, load, resume"), "{output}");
    assert!(
        can.contains("understudy can list, load, resume"),
        "{output}"
    );
    assert_eq!(
        rest,
        "\
: rehearsal, 1 turn, idle
plan search: understudy, 1 turn, idle
resumed: You said: go on
This is turn 2 of our conversation; before this you said: plan login
"
    );
}
