//! What is special to Codex.

mod direct;
mod permissions;

use std::fs;
use std::path::Path;
use std::time::Duration;

use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason};
use segue_testkit::model::{StubFailure, Reply, Script, StubUsage};

use self::direct::{Direct, Wanted, rollouts};
use crate::real::stage::{Stage, Way};

const APP_SERVER: Way = Way {
    provider: "codex",
    transport: "app-server",
};
const ACP: Way = Way {
    provider: "codex",
    transport: "acp",
};

fn nobody(request: &PermissionRequest) -> PermissionAnswer {
    panic!("asked for {request:?}")
}

fn used(input: u64) -> StubUsage {
    StubUsage {
        input,
        ..StubUsage::default()
    }
}

/// A script whose three answers use 100, 200 and 400 tokens.
fn three_answers() -> Script {
    Script::new()
        .with_rule("first", [Reply::from_text("one").with_usage(used(100))])
        .with_rule("second", [Reply::from_text("two").with_usage(used(200))])
        .with_rule("third", [Reply::from_text("three").with_usage(used(400))])
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn usage_is_of_the_turn() {
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, three_answers());
        let mut conversation = codex.begin();
        for (prompt, input) in [
            ("first", 100),
            ("second", 200),
            ("third", 400),
            ("first", 100),
        ] {
            let usage = codex.turn(conversation.as_mut(), prompt, nobody).usage();
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
        let id = conversation.native_id().unwrap().to_string();
        codex.close(conversation);
        let opening = codex.resume(&id);
        assert_eq!(opening.open_mode, OpenMode::Resumed, "{transport}");
        let mut conversation = opening.connection;
        for (prompt, input) in [("second", 200), ("third", 400)] {
            let usage = codex.turn(conversation.as_mut(), prompt, nobody).usage();
            assert_eq!(
                usage.input_tokens,
                Some(input),
                "{transport} resumed {prompt}"
            );
        }
        assert_eq!(conversation.native_id().unwrap().as_str(), id);
        codex.close(conversation);
        assert_eq!(codex.rollouts().len(), 1, "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_that_was_stopped_leaves_the_thread_usable() {
    let slow = Reply::from_text("one two three four five six").with_pace(Duration::from_millis(700));
    let script = Script::new().with_rule("slow", [slow]);
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, script.clone());
        let mut conversation = codex.begin();
        let first = codex.turn(conversation.as_mut(), "hello", nobody);
        assert_eq!(first.text(), "You said: hello", "{transport}");
        if transport == "app-server" {
            let said = |event: &AgentEvent| matches!(event, AgentEvent::Text(_));
            let stopped = codex.turn_then_cancel(conversation.as_mut(), "slow", nobody, said);
            assert_eq!(stopped.end.unwrap().reason, StopReason::Cancelled);
        }
        let after = codex.turn(conversation.as_mut(), "after", nobody);
        assert_eq!(after.text(), "You said: after", "{transport}");
        assert_eq!(after.usage().input_tokens, Some(101), "{transport}");
        codex.close(conversation);
        assert_eq!(codex.sandbox.processes(), Vec::<String>::new());
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_thread_is_refused_or_begun_anew_and_said() {
    let unknown = ["nosuch", "01a1e266-8bb6-7452-89d0-896c6ea51600"];
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, Script::new());
        for id in unknown {
            let strict = Wanted {
                native_id: Some(id.to_owned()),
                strict: true,
                ..codex.wanted()
            };
            let error = codex.open(strict).err().expect(id);
            assert_eq!(
                error.class(),
                FailureClass::SessionUnknown,
                "{transport} {id}"
            );
            let opening = codex.resume(id);
            assert_eq!(opening.open_mode, OpenMode::Fresh, "{transport} {id}");
            assert!(opening.fallback_reason.is_some(), "{transport} {id}");
            codex.close(opening.connection);
        }
        assert_eq!(codex.rollouts().len(), 0, "{transport} made a thread");
        assert_eq!(codex.sandbox.model().requests().len(), 0, "{transport}");
    }
}

/// Makes a thread look as if a Codex of the future had written it.
fn from_the_future(file: &Path) -> String {
    let written = fs::read_to_string(file).unwrap();
    let newer = written.replacen(
        r#""cli_version":"0.166.0""#,
        r#""cli_version":"0.999.0""#,
        1,
    );
    assert_ne!(written, newer);
    fs::write(file, &newer).unwrap();
    newer
}

/// A thread of a newer Codex is ruined by an older one that goes on with it.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_thread_of_a_newer_codex_is_left_alone() {
    for transport in ["app-server", "exec", "acp"] {
        let codex = Direct::new(transport, Script::new());
        let mut conversation = codex.begin();
        codex.turn(conversation.as_mut(), "hello", nobody).usage();
        let id = conversation.native_id().unwrap().to_string();
        codex.close(conversation);
        let file = codex.rollouts().remove(0);
        let newer = from_the_future(&file);
        let strict = Wanted {
            native_id: Some(id.clone()),
            strict: true,
            ..codex.wanted()
        };
        let error = codex.open(strict).err().unwrap();
        assert_eq!(error.class(), FailureClass::SessionUnknown, "{transport}");
        let opening = codex.resume(&id);
        assert_eq!(opening.open_mode, OpenMode::Fresh, "{transport}");
        let why = opening.fallback_reason.unwrap();
        assert!(why.contains("Codex 0.999.0, this one is 0.166.0"), "{why}");
        let mut conversation = opening.connection;
        codex.turn(conversation.as_mut(), "again", nobody).usage();
        assert_ne!(conversation.native_id().unwrap().as_str(), id);
        codex.close(conversation);
        assert_eq!(fs::read_to_string(&file).unwrap(), newer, "{transport}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_thread_that_is_left_alone_is_told_to_a_new_one() {
    let stage = Stage::new(APP_SERVER, Script::new());
    let first = stage.says(&["hello"]);
    let newer = from_the_future(&rollouts(&stage.sandbox)[0]);
    let second = stage.says(&["--resume", first["session_id"].as_str().unwrap(), "again"]);
    assert_eq!(second["opened"], "briefed", "{second:#}");
    let why = second["opened_why"].as_str().unwrap();
    assert!(why.contains("written by Codex 0.999.0"), "{why}");
    assert_ne!(first["native_session_id"], second["native_session_id"]);
    let files = rollouts(&stage.sandbox);
    assert!(
        files
            .iter()
            .any(|file| fs::read_to_string(file).unwrap() == newer)
    );
    stage.assert_nothing_runs();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_adapter_does_not_fail_silently() {
    let script = Script::new()
        .with_rule(
            "limited",
            [Reply::from_failure(StubFailure::RateLimit { retry_after: 7 })],
        )
        .with_rule("broken", [Reply::from_failure(StubFailure::ServerError)]);
    for (prompt, class) in [("limited", "rate_limited"), ("broken", "agent_error")] {
        let stage = Stage::new(ACP, script.clone());
        let result = stage.chat(&[prompt]);
        assert_eq!(result["stop"], "failed", "{prompt}: {result:#}");
        assert_eq!(result["error"]["class"], class, "{prompt}: {result:#}");
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_have_their_class() {
    let script = Script::new()
        .with_rule(
            "limited",
            [Reply::from_failure(StubFailure::RateLimit { retry_after: 7 })],
        )
        .with_rule("stranger", [Reply::from_failure(StubFailure::Unauthorized)])
        .with_rule("huge", [Reply::from_failure(StubFailure::PromptTooLong)])
        .with_rule("broken", [Reply::from_failure(StubFailure::ServerError)]);
    for transport in ["app-server", "exec"] {
        let codex = Direct::new(transport, script.clone());
        let mut conversation = codex.begin();
        for (prompt, class) in [
            ("limited", FailureClass::RateLimited),
            ("stranger", FailureClass::NotLoggedIn),
            ("broken", FailureClass::Agent),
            ("huge", FailureClass::ContextTooLong),
        ] {
            let failed = codex.turn(conversation.as_mut(), prompt, nobody);
            let error = failed.end.expect_err(prompt);
            assert_eq!(error.class(), class, "{transport} {prompt}: {error:?}");
        }
        let after = codex.turn(conversation.as_mut(), "after", nobody);
        assert!(
            after.text().ends_with("You said: after"),
            "{transport}: {}",
            after.text()
        );
        codex.close(conversation);
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn exec_does_not_work_outside_of_a_repository() {
    let codex = Direct::new("exec", Script::new());
    let plain = codex.sandbox.path().join("plain");
    fs::create_dir(&plain).unwrap();
    let wanted = Wanted {
        cwd: plain,
        permissions: PermissionPolicy::AllowAll,
        ..codex.wanted()
    };
    let mut conversation = codex.open(wanted).unwrap().connection;
    let error = codex.turn(conversation.as_mut(), "hello", nobody).end;
    let error = error.unwrap_err();
    assert_eq!(error.class(), FailureClass::UntrustedFolder, "{error:?}");
    assert!(error.to_string().contains("git init"), "{error}");
    codex.close(conversation);
    assert_eq!(codex.sandbox.model().requests().len(), 0);
}
