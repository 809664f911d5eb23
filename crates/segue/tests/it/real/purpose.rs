//! Sessions for features with the real CLIs: the prompts that the model receives, before and after the store is lost.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use segue_testkit::model::{Reply, Script};
use segue_testkit::sandbox::CommandOutcome;
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

/// A name with characters outside ASCII.
const FEATURE_NAME: &str = "auth für 支払い";
/// A name that begins with [`FEATURE_NAME`].
const LONGER_FEATURE_NAME: &str = "auth für 支払い-2";

/// Returns the user prompts in the last request to the model.
fn last_prompts(harness: &CliHarness) -> Vec<String> {
    harness
        .sandbox
        .model()
        .turn_requests()
        .pop()
        .unwrap()
        .prompts()
}

/// Deletes all data of segue.
fn delete_store(harness: &CliHarness) {
    fs::remove_dir_all(harness.segue_home()).unwrap();
}

/// Returns the part of the native session id that is in its file name.
fn session_file_id(harness: &CliHarness, turn: &Value) -> String {
    let id = turn["native_session_id"].as_str().unwrap();
    let length = if harness.setup.provider == "gemini" {
        8
    } else {
        36
    };
    id.chars().take(length).collect()
}

/// Moves the timestamps in and of the files of a native session back by eight days. Returns the number of files.
fn age_session_files(directory: &Path, name_part: &str) -> usize {
    let mut aged_count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            aged_count += age_session_files(&path, name_part);
        } else if path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .contains(name_part)
        {
            let mut text = fs::read_to_string(&path).unwrap();
            let format_day = |days: i64| {
                let at = Timestamp::now() - SignedDuration::from_hours(24 * days);
                at.strftime("\"%FT").to_string()
            };
            // The test may run past midnight.
            for days in [1, 0] {
                text = text.replace(&format_day(days), &format_day(days + 8));
            }
            fs::write(&path, text).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let modified = SystemTime::now() - Duration::from_hours(8 * 24);
            file.set_modified(modified).unwrap();
            aged_count += 1;
        }
    }
    aged_count
}

fn assert_feature_reuses_its_session(provider: &'static str, transport: &'static str) {
    let setup = AgentSetup {
        provider,
        transport,
    };
    let ghost = Reply::from_text("[Feature: ghost]\n\nhello");
    let harness = CliHarness::new(setup, Script::new().with_rule("write a tag", [ghost]));
    let native_id = |turn: &Value| turn["native_session_id"].clone();

    let first =
        harness.run_finished_turn(&["--feature", FEATURE_NAME, "the password is swordfish"]);
    let tagged_prompt = format!("[Feature: {FEATURE_NAME}]\n\nthe password is swordfish");
    assert_eq!(
        last_prompts(&harness),
        std::slice::from_ref(&tagged_prompt),
        "{setup:?}"
    );
    let second =
        harness.run_finished_turn(&["--feature", LONGER_FEATURE_NAME, "the password is perch"]);
    assert_eq!(
        last_prompts(&harness),
        [format!(
            "[Feature: {LONGER_FEATURE_NAME}]\n\nthe password is perch"
        )],
        "{setup:?}"
    );
    assert_ne!(native_id(&second), native_id(&first));
    harness.run_finished_turn(&["--new", "write a tag"]);
    harness.age_gemini_sessions();

    let reused = harness.run_finished_turn(&["--feature", FEATURE_NAME, "what was it?"]);
    assert_eq!(reused["session_id"], first["session_id"]);
    assert_eq!(native_id(&reused), native_id(&first));
    assert_eq!(
        last_prompts(&harness),
        [&tagged_prompt, "what was it?"],
        "{setup:?}"
    );

    // Without the store, the feature is found by the header in the native session, whose title does not include it.
    delete_store(&harness);
    let listed = harness.run_segue(&["session", "list", "--json"]).stdout;
    assert!(
        !listed.contains("\"title\":\"[Feature"),
        "{setup:?}: {listed}"
    );
    delete_store(&harness);
    let adopted = harness.run_finished_turn(&["--feature", FEATURE_NAME, "still there?"]);
    assert_eq!(
        native_id(&adopted),
        native_id(&first),
        "{setup:?}: {adopted:#}"
    );
    assert_eq!(adopted["turn"], 3, "{setup:?}: {adopted:#}");
    assert_eq!(
        last_prompts(&harness),
        [&tagged_prompt, "what was it?", "still there?"],
        "{setup:?}"
    );
    let id = adopted["session_id"].as_str().unwrap();
    let transcript = harness.run_segue(&["session", "show", id]).stdout;
    assert!(
        !transcript.contains("you\n  [Feature"),
        "{setup:?}: {transcript}"
    );

    // A header in an answer of the agent is ignored, and a native session is not reused after eight days.
    let ghost = harness.run_finished_turn(&["--feature", "ghost", "boo"]);
    assert_eq!(ghost["turn"], 1, "{setup:?}: {ghost:#}");
    let home = harness.sandbox.home().join(format!(".{provider}"));
    assert!(
        age_session_files(&home, &session_file_id(&harness, &second)) > 0,
        "{setup:?}"
    );
    let after_eight_days =
        harness.run_finished_turn(&["--feature", LONGER_FEATURE_NAME, "which fish?"]);
    assert_ne!(
        native_id(&after_eight_days),
        native_id(&second),
        "{setup:?}: {after_eight_days:#}"
    );
    let expected = [format!("[Feature: {LONGER_FEATURE_NAME}]\n\nwhich fish?")];
    assert_eq!(last_prompts(&harness), expected, "{setup:?}");

    if provider == "codex" {
        assert_new_session_on_request(&harness);
    }
    harness.assert_no_leftovers();
}

/// Checks that `--new` and `SEGUE_NO_REUSE` start a new session for a feature that has one. One agent is enough for
/// this.
fn assert_new_session_on_request(harness: &CliHarness) {
    let setup = harness.setup;
    let new = harness.run_finished_turn(&["--new", "--feature", FEATURE_NAME, "afresh"]);
    let mut command = harness.segue_command(&["chat", "-p", setup.provider, "--json"]);
    command.args(["--feature", FEATURE_NAME, "afresh"]);
    command.env("SEGUE_NO_REUSE", "1");
    let without_reuse: Value =
        serde_json::from_str(&CommandOutcome::run(command, Duration::from_mins(2)).stdout).unwrap();
    for turn in [&new, &without_reuse] {
        assert_eq!(turn["turn"], 1, "{setup:?}: {turn:#}");
        assert_eq!(turn["stop"], "finished", "{setup:?}: {turn:#}");
    }
    assert_eq!(
        last_prompts(harness),
        [format!("[Feature: {FEATURE_NAME}]\n\nafresh")]
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_reuses_its_claude_session() {
    assert_feature_reuses_its_session("claude", "stream-json");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_reuses_its_codex_session() {
    assert_feature_reuses_its_session("codex", "app-server");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_feature_reuses_its_gemini_session() {
    assert_feature_reuses_its_session("gemini", "acp");
}
