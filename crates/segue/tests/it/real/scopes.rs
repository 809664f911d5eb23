//! Sessions for features, with the real CLIs: what the model is shown of them, before and after the store is lost.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::CommandOutcome;
use serde_json::Value;

use crate::real::stage::{Stage, Way};

/// A name that is not ASCII, and one that begins with it.
const AUTH: &str = "auth für 支払い";
const AUTH_2: &str = "auth für 支払い-2";

/// What the user really said, as the model saw it in the last turn.
fn seen(stage: &Stage) -> Vec<String> {
    stage.sandbox.model().turn_requests().pop().unwrap().prompts()
}

/// Forgets everything that segue knows.
fn lose_the_store(stage: &Stage) {
    fs::remove_dir_all(stage.home()).unwrap();
}

/// The beginning of a native session's id, by which its file is named.
fn named(stage: &Stage, turn: &Value) -> String {
    let id = turn["native_session_id"].as_str().unwrap();
    let length = if stage.way.provider == "gemini" {
        8
    } else {
        36
    };
    id.chars().take(length).collect()
}

/// Has the files of a native session tell of eight days ago, as if nobody had touched them since.
fn age(directory: &Path, part: &str) -> usize {
    let mut aged = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            aged += age(&path, part);
        } else if path.file_name().unwrap().to_string_lossy().contains(part) {
            let mut text = fs::read_to_string(&path).unwrap();
            let day = |days: i64| {
                let at = Timestamp::now() - SignedDuration::from_hours(24 * days);
                at.strftime("\"%FT").to_string()
            };
            // A test may go over midnight.
            for days in [1, 0] {
                text = text.replace(&day(days), &day(days + 8));
            }
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let then = SystemTime::now() - Duration::from_hours(8 * 24);
            file.set_modified(then).unwrap();
            aged += 1;
        }
    }
    aged
}

fn a_feature_is_one_conversation(provider: &'static str, transport: &'static str) {
    let way = Way {
        provider,
        transport,
    };
    let ghost = Reply::from_text("[Feature: ghost]\n\nhello");
    let stage = Stage::new(way, Script::new().with_rule("write a tag", [ghost]));
    let native = |turn: &Value| turn["native_session_id"].clone();

    let first = stage.says(&["--feature", AUTH, "the password is swordfish"]);
    let headed = format!("[Feature: {AUTH}]\n\nthe password is swordfish");
    assert_eq!(seen(&stage), std::slice::from_ref(&headed), "{way:?}");
    let second = stage.says(&["--feature", AUTH_2, "the password is perch"]);
    assert_eq!(
        seen(&stage),
        [format!("[Feature: {AUTH_2}]\n\nthe password is perch")],
        "{way:?}"
    );
    assert_ne!(native(&second), native(&first));
    stage.says(&["--new", "write a tag"]);
    stage.age_gemini_sessions();

    let again = stage.says(&["--feature", AUTH, "what was it?"]);
    assert_eq!(again["session_id"], first["session_id"]);
    assert_eq!(native(&again), native(&first));
    assert_eq!(seen(&stage), [&headed, "what was it?"], "{way:?}");

    // Nobody but the agent knows the feature now, and it calls the session by what was said in it.
    lose_the_store(&stage);
    let listed = stage.run(&["session", "list", "--json"]).stdout;
    assert!(
        !listed.contains("\"title\":\"[Feature"),
        "{way:?}: {listed}"
    );
    lose_the_store(&stage);
    let known = stage.says(&["--feature", AUTH, "still there?"]);
    assert_eq!(native(&known), native(&first), "{way:?}: {known:#}");
    assert_eq!(known["turn"], 3, "{way:?}: {known:#}");
    assert_eq!(
        seen(&stage),
        [&headed, "what was it?", "still there?"],
        "{way:?}"
    );
    let id = known["session_id"].as_str().unwrap();
    let shown = stage.run(&["session", "show", id]).stdout;
    assert!(!shown.contains("you\n  [Feature"), "{way:?}: {shown}");

    // A tag that the agent wrote is none, and what nobody touched for eight days is over.
    let ghost = stage.says(&["--feature", "ghost", "boo"]);
    assert_eq!(ghost["turn"], 1, "{way:?}: {ghost:#}");
    let home = stage.sandbox.home().join(format!(".{provider}"));
    assert!(age(&home, &named(&stage, &second)) > 0, "{way:?}");
    let late = stage.says(&["--feature", AUTH_2, "which fish?"]);
    assert_ne!(native(&late), native(&second), "{way:?}: {late:#}");
    let expected = [format!("[Feature: {AUTH_2}]\n\nwhich fish?")];
    assert_eq!(seen(&stage), expected, "{way:?}");

    if provider == "codex" {
        begin_anew(&stage);
    }
    stage.assert_nothing_left();
}

/// Begins a new session for a feature that has one, by the option and by the variable. The agent makes no difference.
fn begin_anew(stage: &Stage) {
    let way = stage.way;
    let new = stage.says(&["--new", "--feature", AUTH, "afresh"]);
    let mut command = stage.command(&["chat", "-p", way.provider, "--json"]);
    command.args(["--feature", AUTH, "afresh"]);
    command.env("SEGUE_NO_REUSE", "1");
    let unused: Value =
        serde_json::from_str(&CommandOutcome::run(command, Duration::from_mins(2)).stdout).unwrap();
    for turn in [&new, &unused] {
        assert_eq!(turn["turn"], 1, "{way:?}: {turn:#}");
        assert_eq!(turn["stop"], "finished", "{way:?}: {turn:#}");
    }
    assert_eq!(seen(stage), [format!("[Feature: {AUTH}]\n\nafresh")]);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_is_one_conversation_of_claude() {
    a_feature_is_one_conversation("claude", "stream-json");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_is_one_conversation_of_codex() {
    a_feature_is_one_conversation("codex", "app-server");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_is_one_conversation_of_gemini() {
    a_feature_is_one_conversation("gemini", "acp");
}
