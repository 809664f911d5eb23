//! Behaviour that is specific to Codex.

mod direct;
mod permissions;

use std::fs;
use std::path::Path;
use std::time::Duration;

use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason};
use segue_testkit::model::{Reply, Script, StubFailure, StubUsage};

use self::direct::{CodexHarness, CodexOpenOptions, list_rollout_files};
use crate::real::harness::{AgentSetup, CliHarness};

const APP_SERVER_SETUP: AgentSetup = AgentSetup {
    provider: "codex",
    transport: "app-server",
};
const ACP_SETUP: AgentSetup = AgentSetup {
    provider: "codex",
    transport: "acp",
};

fn panic_on_permission_request(request: &PermissionRequest) -> PermissionAnswer {
    panic!("unexpected permission request: {request:?}")
}

fn usage_with_input(input: u64) -> StubUsage {
    StubUsage {
        input,
        ..StubUsage::default()
    }
}

/// Returns a script whose three answers use 100, 200 and 400 tokens.
fn three_answer_script() -> Script {
    Script::new()
        .with_rule(
            "first",
            [Reply::from_text("one").with_usage(usage_with_input(100))],
        )
        .with_rule(
            "second",
            [Reply::from_text("two").with_usage(usage_with_input(200))],
        )
        .with_rule(
            "third",
            [Reply::from_text("three").with_usage(usage_with_input(400))],
        )
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn usage_is_reported_per_turn() {
    for transport in ["app-server", "exec"] {
        let codex = CodexHarness::new(transport, three_answer_script());
        let mut connection = codex.open_new();
        for (prompt, input) in [
            ("first", 100),
            ("second", 200),
            ("third", 400),
            ("first", 100),
        ] {
            let usage = codex
                .run_turn(connection.as_mut(), prompt, panic_on_permission_request)
                .usage();
            assert_eq!(usage.input_tokens, Some(input), "{transport} {prompt}");
            assert_eq!(usage.output_tokens, Some(20), "{transport} {prompt}");
            assert_eq!(usage.cached_tokens, Some(11), "{transport} {prompt}");
            assert_eq!(usage.total_tokens, Some(input + 20), "{transport} {prompt}");
            assert_eq!(
                usage.context_tokens,
                Some(input + 20),
                "{transport} {prompt}"
            );
            assert!(usage.context_window.is_some_and(|size| size > 100_000));
        }
        let id = connection.native_id().unwrap().to_string();
        codex.close(connection);
        let opened = codex.resume(&id);
        assert_eq!(opened.open_mode, OpenMode::Resumed, "{transport}");
        let mut connection = opened.connection;
        for (prompt, input) in [("second", 200), ("third", 400)] {
            let usage = codex
                .run_turn(connection.as_mut(), prompt, panic_on_permission_request)
                .usage();
            assert_eq!(
                usage.input_tokens,
                Some(input),
                "{transport} resumed {prompt}"
            );
        }
        assert_eq!(connection.native_id().unwrap().as_str(), id);
        codex.close(connection);
        assert_eq!(codex.rollout_files().len(), 1, "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_stopped_turn_leaves_the_thread_usable() {
    let slow =
        Reply::from_text("one two three four five six").with_pace(Duration::from_millis(700));
    let script = Script::new().with_rule("slow", [slow]);
    for transport in ["app-server", "exec"] {
        let codex = CodexHarness::new(transport, script.clone());
        let mut connection = codex.open_new();
        let first = codex.run_turn(connection.as_mut(), "hello", panic_on_permission_request);
        assert_eq!(first.text(), "You said: hello", "{transport}");
        if transport == "app-server" {
            let is_text = |event: &AgentEvent| matches!(event, AgentEvent::Text(_));
            let stopped = codex.run_turn_and_cancel(
                connection.as_mut(),
                "slow",
                panic_on_permission_request,
                is_text,
            );
            assert_eq!(stopped.end.unwrap().reason, StopReason::Cancelled);
        }
        let after = codex.run_turn(connection.as_mut(), "after", panic_on_permission_request);
        assert_eq!(after.text(), "You said: after", "{transport}");
        assert_eq!(after.usage().input_tokens, Some(101), "{transport}");
        codex.close(connection);
        assert_eq!(codex.sandbox.processes(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_thread_is_refused_or_replaced_with_a_reason() {
    let unknown = ["nosuch", "01a1e266-8bb6-7452-89d0-896c6ea51600"];
    for transport in ["app-server", "exec"] {
        let codex = CodexHarness::new(transport, Script::new());
        for id in unknown {
            let strict_options = CodexOpenOptions {
                native_id: Some(id.to_owned()),
                strict: true,
                ..codex.default_options()
            };
            let error = codex.open(strict_options).err().expect(id);
            assert_eq!(
                error.class(),
                FailureClass::SessionUnknown,
                "{transport} {id}"
            );
            let opened = codex.resume(id);
            assert_eq!(opened.open_mode, OpenMode::Fresh, "{transport} {id}");
            assert!(opened.fallback_reason.is_some(), "{transport} {id}");
            codex.close(opened.connection);
        }
        assert_eq!(
            codex.rollout_files().len(),
            0,
            "{transport} created a thread"
        );
        assert_eq!(codex.sandbox.model().requests().len(), 0, "{transport}");
    }
}

/// Changes a thread so that a newer version of Codex seems to have written it. Returns the new content.
fn mark_as_newer_codex(file: &Path) -> String {
    let original = fs::read_to_string(file).unwrap();
    let newer = original.replacen(
        r#""cli_version":"0.166.0""#,
        r#""cli_version":"0.999.0""#,
        1,
    );
    assert_ne!(original, newer);
    fs::write(file, &newer).unwrap();
    newer
}

/// An older Codex would damage a thread of a newer version by resuming it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_thread_of_a_newer_codex_is_not_resumed() {
    for transport in ["app-server", "exec", "acp"] {
        let codex = CodexHarness::new(transport, Script::new());
        let mut connection = codex.open_new();
        codex
            .run_turn(connection.as_mut(), "hello", panic_on_permission_request)
            .usage();
        let id = connection.native_id().unwrap().to_string();
        codex.close(connection);
        let file = codex.rollout_files().remove(0);
        let newer = mark_as_newer_codex(&file);
        let strict_options = CodexOpenOptions {
            native_id: Some(id.clone()),
            strict: true,
            ..codex.default_options()
        };
        let error = codex.open(strict_options).err().unwrap();
        assert_eq!(error.class(), FailureClass::SessionUnknown, "{transport}");
        let opened = codex.resume(&id);
        assert_eq!(opened.open_mode, OpenMode::Fresh, "{transport}");
        let reason = opened.fallback_reason.unwrap();
        assert!(
            reason.contains("Codex 0.999.0 wrote the native session; the older Codex 0.166.0"),
            "{reason}"
        );
        let mut connection = opened.connection;
        codex
            .run_turn(connection.as_mut(), "again", panic_on_permission_request)
            .usage();
        assert_ne!(connection.native_id().unwrap().as_str(), id);
        codex.close(connection);
        assert_eq!(fs::read_to_string(&file).unwrap(), newer, "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_new_thread_is_briefed_from_a_thread_of_a_newer_codex() {
    let harness = CliHarness::new(APP_SERVER_SETUP, Script::new());
    let first = harness.run_finished_turn(&["hello"]);
    let newer = mark_as_newer_codex(&list_rollout_files(&harness.sandbox)[0]);
    let second =
        harness.run_finished_turn(&["--resume", first["session_id"].as_str().unwrap(), "again"]);
    assert_eq!(second["opened"], "briefed", "{second:#}");
    let reason = second["opened_why"].as_str().unwrap();
    assert!(
        reason.contains("Codex 0.999.0 wrote the native session"),
        "{reason}"
    );
    assert_ne!(first["native_session_id"], second["native_session_id"]);
    let files = list_rollout_files(&harness.sandbox);
    assert!(
        files
            .iter()
            .any(|file| fs::read_to_string(file).unwrap() == newer)
    );
    harness.assert_no_processes();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapter_reports_model_failures() {
    let script = Script::new()
        .with_rule(
            "limited",
            [Reply::from_failure(StubFailure::RateLimit {
                retry_after: 7,
            })],
        )
        .with_rule("broken", [Reply::from_failure(StubFailure::ServerError)]);
    for (prompt, class) in [("limited", "rate_limited"), ("broken", "agent_error")] {
        let harness = CliHarness::new(ACP_SETUP, script.clone());
        let result = harness.run_chat(&[prompt]);
        assert_eq!(result["stop"], "failed", "{prompt}: {result:#}");
        assert_eq!(result["error"]["class"], class, "{prompt}: {result:#}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_classified() {
    let script = Script::new()
        .with_rule(
            "limited",
            [Reply::from_failure(StubFailure::RateLimit {
                retry_after: 7,
            })],
        )
        .with_rule("stranger", [Reply::from_failure(StubFailure::Unauthorized)])
        .with_rule("huge", [Reply::from_failure(StubFailure::PromptTooLong)])
        .with_rule("broken", [Reply::from_failure(StubFailure::ServerError)]);
    for transport in ["app-server", "exec"] {
        let codex = CodexHarness::new(transport, script.clone());
        let mut connection = codex.open_new();
        for (prompt, class) in [
            ("limited", FailureClass::RateLimited),
            ("stranger", FailureClass::NotLoggedIn),
            ("broken", FailureClass::Agent),
            ("huge", FailureClass::ContextTooLong),
        ] {
            let failed = codex.run_turn(connection.as_mut(), prompt, panic_on_permission_request);
            let error = failed.end.expect_err(prompt);
            assert_eq!(error.class(), class, "{transport} {prompt}: {error:?}");
        }
        let after = codex.run_turn(connection.as_mut(), "after", panic_on_permission_request);
        assert!(
            after.text().ends_with("You said: after"),
            "{transport}: {}",
            after.text()
        );
        codex.close(connection);
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn exec_is_refused_outside_a_repository() {
    let codex = CodexHarness::new("exec", Script::new());
    let plain_dir = codex.sandbox.path().join("plain");
    fs::create_dir(&plain_dir).unwrap();
    let options = CodexOpenOptions {
        cwd: plain_dir,
        permissions: PermissionPolicy::AllowAll,
        ..codex.default_options()
    };
    let mut connection = codex.open(options).unwrap().connection;
    let error = codex
        .run_turn(connection.as_mut(), "hello", panic_on_permission_request)
        .end;
    let error = error.unwrap_err();
    assert_eq!(error.class(), FailureClass::UntrustedFolder, "{error:?}");
    assert!(error.to_string().contains("git init"), "{error}");
    codex.close(connection);
    assert_eq!(codex.sandbox.model().requests().len(), 0);
}
