//! Protection of sessions from the automatic deletion by Gemini CLI.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use segue_core::id::NativeId;
use segue_core::session::{GuardAction, OpenMode};
use segue_providers::Agent;
use segue_testkit::model::{Reply, Script, StubFailure};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use serde_json::Value;

use super::direct::{block_on, gemini_agent, open_request, run_turn};
use super::{ACP_SETUP, STREAM_JSON_SETUP, enable_retention, files_of_session, last_prompts};
use crate::real::harness::{AgentSetup, CliHarness};

/// Returns the current minute in the format of session file names.
fn current_minute() -> String {
    Timestamp::now().to_string()[..16].replace(':', "-")
}

fn current_second() -> i64 {
    Timestamp::now().as_second().rem_euclid(60)
}

/// Waits until the current minute is at most 15 seconds old.
fn wait_for_minute_start() {
    while current_second() > 15 {
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn sandbox_with_retention() -> Sandbox {
    enable_retention(Sandbox::new(Script::new()))
}

/// Creates a session with Gemini CLI itself. Returns its id.
fn create_native_session(sandbox: &Sandbox) -> String {
    let outcome = sandbox.run(SandboxCli::Gemini, ["-o", "json", "first"]);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    answer["session_id"].as_str().unwrap().to_owned()
}

fn start_other_session(sandbox: &Sandbox) {
    let outcome = sandbox.run(SandboxCli::Gemini, ["-o", "json", "something else"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
}

/// Checks that a session is not loaded over ACP within the minute of its creation and stays unchanged. Returns its id.
fn assert_not_loaded_in_its_minute(sandbox: &Sandbox) -> NativeId {
    let agent = gemini_agent(sandbox, "acp");
    for _ in 0..3 {
        wait_for_minute_start();
        let id = block_on(async {
            let opened = agent
                .open(&open_request(sandbox, None, false))
                .await
                .unwrap();
            let mut connection = opened.connection;
            run_turn(connection.as_mut(), "first").await.1.unwrap();
            let id = connection.native_id().unwrap().clone();
            connection.close().await;
            id
        });
        let [file] = files_of_session(sandbox, id.as_str()).try_into().unwrap();
        let before = fs::read(&file).unwrap();
        let strict_result = block_on(agent.open(&open_request(sandbox, Some(&id), true)));
        let second_open = block_on(async {
            let opened = agent
                .open(&open_request(sandbox, Some(&id), false))
                .await
                .unwrap();
            let (open_mode, fallback_reason) = (opened.open_mode, opened.fallback_reason);
            opened.connection.close().await;
            (open_mode, fallback_reason)
        });
        if !file.to_str().unwrap().contains(&current_minute()) {
            // Too slow: the minute has passed.
            continue;
        }
        let error = strict_result.err().unwrap().to_string();
        assert!(error.contains("in the minute of its creation"), "{error}");
        assert_eq!(second_open.0, OpenMode::Fresh);
        assert!(
            second_open
                .1
                .unwrap()
                .contains("in the minute of its creation")
        );
        assert_eq!(fs::read(&file).unwrap(), before);
        return id;
    }
    panic!("the machine is too slow for two starts within a minute");
}

/// Creates a harness and, with segue, a session of one turn. Returns its id, its native id and its file.
fn harness_with_session(setup: AgentSetup) -> (CliHarness, [String; 2], PathBuf) {
    let harness = CliHarness::from_sandbox(setup, sandbox_with_retention());
    let result = harness.run_finished_turn(&["first"]);
    let ids =
        ["session_id", "native_session_id"].map(|key| result[key].as_str().unwrap().to_owned());
    let [file] = files_of_session(&harness.sandbox, &ids[1])
        .try_into()
        .unwrap();
    (harness, ids, file)
}

/// Creates a harness with a session that was resumed within a minute and so continued in another native session.
/// Returns its id and its first native id.
fn harness_with_replaced_session() -> (CliHarness, [String; 2]) {
    for _ in 0..3 {
        let (harness, [session, id], _) = harness_with_session(ACP_SETUP);
        let second = harness.run_finished_turn(&["--resume", &session, "second"]);
        if second["opened"] == "loaded" {
            // Too slow: the minute has passed.
            continue;
        }
        let reason = second["opened_why"].as_str().unwrap();
        assert!(
            reason.contains("could not resume its native session at this time"),
            "{reason}"
        );
        let outcome = harness.run_segue(&["session", "info", &session, "--json"]);
        let info: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(info["legs"][0]["ended_why"], "not_now", "{info:#}");
        return (harness, [session, id]);
    }
    panic!("the machine is too slow for two turns within a minute");
}

/// One test for all checks that have to wait for the next minute.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn sessions_survive_the_cleanup_of_gemini_cli() {
    let direct_sandbox = sandbox_with_retention();
    let direct_id = assert_not_loaded_in_its_minute(&direct_sandbox);
    let control = sandbox_with_retention();
    let lost_id = create_native_session(&control);
    let harnesses = [STREAM_JSON_SETUP, ACP_SETUP].map(harness_with_session);
    let (replaced, [session, id]) = harness_with_replaced_session();
    let start_minute = current_minute();
    while current_minute() == start_minute {
        std::thread::sleep(Duration::from_millis(200));
    }

    // Without segue, Gemini CLI deletes the session after a resume and another start.
    let outcome = control.run(SandboxCli::Gemini, ["-o", "json", "-r", &lost_id, "second"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert_eq!(
        files_of_session(&control, &lost_id).len(),
        2,
        "no twin file was created"
    );
    start_other_session(&control);
    assert!(
        files_of_session(&control, &lost_id).is_empty(),
        "Gemini CLI no longer deletes the session"
    );

    // The native session that could not be loaded within its minute is loaded now.
    let reverted = replaced.run_segue(&["session", "revert", &session, "--to", "1"]);
    assert_eq!(reverted.code, Some(0), "{reverted:#?}");
    let result = replaced.run_finished_turn(&["--resume", &session, "another second"]);
    assert_eq!(
        (&result["opened"], &result["native_session_id"]),
        (&"loaded".into(), &id.as_str().into()),
        "{result:#}"
    );

    // With segue, the session survives and is resumed.
    for (harness, [session, id], file) in &harnesses {
        let setup = harness.setup;
        let expected_mode = if setup == ACP_SETUP {
            "loaded"
        } else {
            "resumed"
        };
        let result = harness.run_finished_turn(&["--resume", session, "second"]);
        assert_eq!(result["opened"], expected_mode, "{setup:?}: {result:#}");
        assert_eq!(
            files_of_session(&harness.sandbox, id),
            std::slice::from_ref(file),
            "{setup:?}: a twin file was not removed"
        );
        start_other_session(&harness.sandbox);
        start_other_session(&harness.sandbox);
        let result = harness.run_finished_turn(&["--resume", session, "third"]);
        assert_eq!(result["opened"], expected_mode, "{setup:?}: {result:#}");
        assert_eq!(result["native_session_id"], id.as_str(), "{setup:?}");
        assert_eq!(
            last_prompts(&harness.sandbox),
            ["first", "second", "third"],
            "{setup:?}"
        );
    }

    // The session that was not loaded within its minute is loaded in the next one.
    block_on(async {
        let agent = gemini_agent(&direct_sandbox, "acp");
        let opened = agent
            .open(&open_request(&direct_sandbox, Some(&direct_id), true))
            .await
            .unwrap();
        assert_eq!(opened.open_mode, OpenMode::Loaded);
        assert_eq!(opened.guard_actions.len(), 1, "{:?}", opened.guard_actions);
        assert!(matches!(
            opened.guard_actions[0],
            GuardAction::DuplicateRemoved { .. }
        ));
        let mut connection = opened.connection;
        run_turn(connection.as_mut(), "second").await.1.unwrap();
        assert_eq!(connection.close().await, []);
    });
    assert_eq!(last_prompts(&direct_sandbox), ["first", "second"]);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_deleted_outside_segue_is_restored() {
    let (harness, [session, id], file) = harness_with_session(STREAM_JSON_SETUP);
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let result = harness.run_finished_turn(&["--resume", &session, "second"]);
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(result["native_session_id"], id.as_str());
    assert!(fs::read_to_string(&file).unwrap().starts_with(&text));
    assert_eq!(last_prompts(&harness.sandbox), ["first", "second"]);

    // Over ACP, Gemini CLI resets the session file; the next open undoes that.
    let full_text = fs::read_to_string(&file).unwrap();
    let header: String = full_text.split_inclusive('\n').take(2).collect();
    fs::write(&file, format!("{full_text}{header}")).unwrap();
    let result = harness.run_finished_turn(&["--resume", &session, "third"]);
    assert_eq!(result["opened"], "resumed", "{result:#}");
    assert_eq!(last_prompts(&harness.sandbox), ["first", "second", "third"]);
}

/// Renames a session file to an earlier minute, so that a resume creates a twin file. Returns the new path.
fn age_session(sandbox: &Sandbox, id: &str) -> PathBuf {
    let [file] = files_of_session(sandbox, id).try_into().unwrap();
    let older = file.with_file_name(format!("session-2026-01-01T00-00-{}.jsonl", &id[..8]));
    fs::rename(file, &older).unwrap();
    older
}

/// Waits until `condition` is true, for at least a minute.
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the condition was never true");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_abandoned_open_leaves_no_twin() {
    let sandbox = sandbox_with_retention();
    let id = create_native_session(&sandbox);
    let expected_files = [age_session(&sandbox, &id)];
    let native_id = NativeId::parse(&id).unwrap();
    let agent = gemini_agent(&sandbox, "acp");
    let request = open_request(&sandbox, Some(&native_id), true);
    block_on(async {
        let twin = async {
            while files_of_session(&sandbox, &id).len() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            () = twin => {}
            _ = agent.open(&request) => panic!("the session was opened before the twin file was created"),
        }
    });
    let at_risk_dir = sandbox.path().join("kept/gemini/.endangered");
    wait_until(|| fs::read_dir(&at_risk_dir).unwrap().count() == 0);
    assert_eq!(sandbox.processes(), Vec::<String>::new());
    assert_eq!(files_of_session(&sandbox, &id), expected_files);
    start_other_session(&sandbox);
    assert_eq!(files_of_session(&sandbox, &id), expected_files);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn leftovers_of_a_killed_segue_are_removed_by_the_next() {
    for setup in [ACP_SETUP, STREAM_JSON_SETUP] {
        let stall = Reply::from_text("some words").with_failure(StubFailure::Stall);
        let script = Script::new().with_rule("stall", [stall]);
        let harness = CliHarness::from_sandbox(setup, enable_retention(Sandbox::new(script)));
        let result = harness.run_finished_turn(&["first"]);
        let [session, id] =
            ["session_id", "native_session_id"].map(|key| result[key].as_str().unwrap());
        let expected_files = [age_session(&harness.sandbox, id)];
        let running_turn = harness.start_turn(&["--resume", session, "stall"]);
        wait_until(|| files_of_session(&harness.sandbox, id).len() == 2);
        running_turn.send_signal(Signal::KILL);
        running_turn.wait_for_exit();
        harness.assert_no_processes();
        // The next run of segue cleans up, even if it uses another session.
        let result = harness.run_finished_turn(&["something else"]);
        assert_ne!(result["session_id"], session, "{setup:?}");
        let decisions = result["decisions"].to_string();
        assert!(
            decisions.contains("removed an empty duplicate"),
            "{decisions}"
        );
        assert!(!decisions.contains("restore"), "{decisions}");
        assert_eq!(
            files_of_session(&harness.sandbox, id),
            expected_files,
            "{setup:?}"
        );
        start_other_session(&harness.sandbox);
        assert_eq!(
            files_of_session(&harness.sandbox, id),
            expected_files,
            "{setup:?}"
        );
    }
}

/// Gemini CLI, started by `resume --exec`, deletes the session later; the next segue command restores it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_resumed_in_gemini_cli_survives() {
    let harness = CliHarness::from_sandbox(STREAM_JSON_SETUP, sandbox_with_retention());
    let id = create_native_session(&harness.sandbox);
    let expected_files = [age_session(&harness.sandbox, &id)];
    let outcome = crate::real::exec::resume_in_gemini_cli(&harness, &id);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let copy_notice = format!("saved a copy of Gemini session {}", &id[..8]);
    assert!(outcome.stderr.contains(&copy_notice), "{outcome:#?}");
    assert_eq!(
        files_of_session(&harness.sandbox, &id).len(),
        2,
        "no twin file was created"
    );
    start_other_session(&harness.sandbox);
    assert!(
        files_of_session(&harness.sandbox, &id).is_empty(),
        "Gemini CLI no longer deletes the session"
    );

    let listed = harness.run_segue(&["session", "list"]);
    let restore_notice = format!("segue: restored Gemini session {}", &id[..8]);
    assert!(listed.stderr.contains(&restore_notice), "{listed:#?}");
    assert!(listed.stdout.contains(&id[..8]), "{listed:#?}");
    assert_eq!(files_of_session(&harness.sandbox, &id), expected_files);
    start_other_session(&harness.sandbox);
    let result = harness.run_finished_turn(&["--resume", &format!("gemini:{id}"), "third"]);
    assert_eq!(result["native_session_id"], id.as_str(), "{result:#}");
    assert_eq!(
        last_prompts(&harness.sandbox),
        ["first", "what was it?", "third"]
    );
}
