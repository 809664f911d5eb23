//! Every agent over ACP, and `codex app-server`.

use std::time::Duration;

use serde_json::Value;

use segue_testkit::model::{Reply, Script, ScriptedCall, StubFailure};
use segue_testkit::sandbox::{AcpPermissionAnswer, Sandbox, SandboxCli};

fn script() -> Script {
    Script::new()
        .with_rule(
            "greet",
            [
                Reply::from_text("I run something.")
                    .with_thoughts("What to run?")
                    .with_call(ScriptedCall::shell("touch made-by-tool")),
                Reply::from_text("It went well."),
            ],
        )
        .with_rule(
            "hang",
            [Reply::from_text("I begin and never end.").with_failure(StubFailure::Stall)],
        )
        .with_rule("break", [Reply::from_failure(StubFailure::ServerError)])
}

fn assert_cli_runs_cancels_and_fails(cli: SandboxCli) {
    let sandbox = Sandbox::new(script());
    let mut agent = sandbox.start_acp(cli);
    let session = agent.new_session();

    let greeted = agent.prompt(&session, "greet");

    assert_eq!(greeted.stop_reason(), Some("end_turn"), "{greeted:#?}");
    assert!(greeted.text().contains("It went well."), "{greeted:#?}");
    // Gemini and Codex add text of their own before the thoughts.
    assert!(greeted.thoughts().ends_with("What to run?"), "{greeted:#?}");
    assert!(
        sandbox.project().join("made-by-tool").exists(),
        "{greeted:#?}"
    );
    let turns = sandbox.model().turn_requests();
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert_eq!(turns[1].prompts(), ["greet"]);
    assert_eq!(turns[1].tool_results().len(), 1);

    let second = agent.prompt(&session, "and now?");
    assert!(second.text().contains("You said: and now?"), "{second:#?}");
    assert_eq!(
        sandbox.model().turn_requests()[2].prompts(),
        ["greet", "and now?"]
    );

    let hung = agent.prompt_and_cancel(&session, "hang", is_message_chunk);
    assert_eq!(hung.stop_reason(), Some("cancelled"), "{hung:#?}");
    assert!(hung.text().starts_with("I begin"), "{hung:#?}");
    let next = agent.prompt(&session, "still there?");
    assert!(next.text().contains("You said: still there?"), "{next:#?}");

    agent.set_timeout(Duration::from_secs(30));
    match cli {
        // opencode repeats a failed request for more than a minute.
        SandboxCli::Opencode => {}
        // codex-acp reports success; only the missing usage shows the failure.
        SandboxCli::CodexAcp => {
            let broken = agent.prompt(&session, "break").response.unwrap();
            assert_eq!(broken["usage"], Value::Null);
        }
        _ => {
            let broken = agent.prompt(&session, "break");
            assert!(broken.response.is_err(), "{broken:#?}");
        }
    }
    let external_requests = sandbox.external_requests();
    assert!(
        external_requests.is_empty() || cli == SandboxCli::Opencode,
        "{external_requests:#?}"
    );
}

fn is_message_chunk(update: &Value) -> bool {
    update["sessionUpdate"] == "agent_message_chunk"
}

macro_rules! real {
    ($($name:ident: $cli:ident;)*) => {$(
        #[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            assert_cli_runs_cancels_and_fails(SandboxCli::$cli);
        }
    )*};
}

real! {
    gemini_runs_cancels_and_fails: Gemini;
    claude_runs_cancels_and_fails: ClaudeAcp;
    codex_runs_cancels_and_fails: CodexAcp;
    opencode_runs_cancels_and_fails: Opencode;
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_app_server_runs_forks_interrupts_and_compacts() {
    let sandbox = Sandbox::new(script());
    let mut server = sandbox.start_app_server();
    let thread = server.start_thread();

    let greeted = server.run_turn(&thread, "greet");
    assert_eq!(greeted.status(), "completed", "{greeted:#?}");
    assert_eq!(greeted.messages(), ["I run something.", "It went well."]);

    let fork = server.fork_thread(&thread).unwrap();
    let forked = server.run_turn(&fork, "on the fork");
    assert_eq!(forked.messages(), ["You said: on the fork"]);
    let request = sandbox.model().turn_requests().pop().unwrap();
    assert_eq!(request.prompts(), ["greet", "on the fork"]);

    let hung = server.run_and_interrupt_turn(&thread, "hang", |method, _| {
        method == "item/agentMessage/delta"
    });
    assert_eq!(hung.status(), "interrupted", "{hung:#?}");

    let compacted = server.compact_thread(&thread);
    assert_eq!(compacted.status(), "completed", "{compacted:#?}");
    let dropped = server.run_turn(&thread, "to be dropped");
    server.revert_thread(&thread, dropped.id()).unwrap();
    server.run_turn(&thread, "at last");
    let request = sandbox.model().turn_requests().pop().unwrap();
    assert_eq!(request.prompts(), ["greet", "hang", "at last"]);
    assert!(
        request.contains("Stub summary."),
        "{:#?}",
        request.transcript()
    );
    assert!(
        !request.contains("It went well."),
        "{:#?}",
        request.transcript()
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_permission_can_be_refused() {
    let sandbox = Sandbox::new(script());
    let mut agent = sandbox.start_acp(SandboxCli::ClaudeAcp);
    agent.answer_permissions(AcpPermissionAnswer::Reject);
    let session = agent.new_session();

    let greeted = agent.prompt(&session, "greet");

    assert_eq!(greeted.permission_requests.len(), 1, "{greeted:#?}");
    assert!(!sandbox.project().join("made-by-tool").exists());
}
