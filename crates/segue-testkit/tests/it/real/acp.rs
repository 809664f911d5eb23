//! Every agent over ACP, and `codex app-server`.

use std::time::Duration;

use serde_json::Value;

use segue_testkit::model::{Call, Failure, Reply, Script};
use segue_testkit::sandbox::{Cli, Permission, Sandbox};

fn script() -> Script {
    Script::new()
        .on(
            "greet",
            [
                Reply::say("I run something.")
                    .think("What to run?")
                    .call(Call::shell("touch made-by-tool")),
                Reply::say("It went well."),
            ],
        )
        .on(
            "hang",
            [Reply::say("I begin and never end.").failing(Failure::Stall)],
        )
        .on("break", [Reply::fail(Failure::Server)])
}

fn runs_cancels_and_fails(cli: Cli) {
    let sandbox = Sandbox::new(script());
    let mut agent = sandbox.acp(cli);
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
    let turns = sandbox.model().turns();
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert_eq!(turns[1].prompts(), ["greet"]);
    assert_eq!(turns[1].results().len(), 1);

    let again = agent.prompt(&session, "and now?");
    assert!(again.text().contains("You said: and now?"), "{again:#?}");
    assert_eq!(sandbox.model().turns()[2].prompts(), ["greet", "and now?"]);

    let hung = agent.prompt_then_cancel(&session, "hang", is_text);
    assert_eq!(hung.stop_reason(), Some("cancelled"), "{hung:#?}");
    assert!(hung.text().starts_with("I begin"), "{hung:#?}");
    let after = agent.prompt(&session, "still there?");
    assert!(
        after.text().contains("You said: still there?"),
        "{after:#?}"
    );

    agent.limit(Duration::from_secs(30));
    match cli {
        // opencode repeats a failed request for more than a minute.
        Cli::Opencode => {}
        // codex-acp reports success; only the missing usage shows the failure.
        Cli::CodexAcp => {
            let broken = agent.prompt(&session, "break").outcome.unwrap();
            assert_eq!(broken["usage"], Value::Null);
        }
        _ => {
            let broken = agent.prompt(&session, "break");
            assert!(broken.outcome.is_err(), "{broken:#?}");
        }
    }
    let escapes = sandbox.escapes();
    assert!(escapes.is_empty() || cli == Cli::Opencode, "{escapes:#?}");
}

fn is_text(update: &Value) -> bool {
    update["sessionUpdate"] == "agent_message_chunk"
}

macro_rules! real {
    ($($name:ident: $cli:ident;)*) => {$(
        #[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            runs_cancels_and_fails(Cli::$cli);
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
    let mut server = sandbox.app_server();
    let thread = server.start_thread();

    let greeted = server.turn(&thread, "greet");
    assert_eq!(greeted.status(), "completed", "{greeted:#?}");
    assert_eq!(greeted.messages(), ["I run something.", "It went well."]);

    let fork = server.fork(&thread).unwrap();
    let forked = server.turn(&fork, "on the fork");
    assert_eq!(forked.messages(), ["You said: on the fork"]);
    let seen = sandbox.model().turns().pop().unwrap();
    assert_eq!(seen.prompts(), ["greet", "on the fork"]);

    let hung = server.turn_then_interrupt(&thread, "hang", |method, _| {
        method == "item/agentMessage/delta"
    });
    assert_eq!(hung.status(), "interrupted", "{hung:#?}");

    let compacted = server.compact(&thread);
    assert_eq!(compacted.status(), "completed", "{compacted:#?}");
    let dropped = server.turn(&thread, "to be dropped");
    server.revert(&thread, dropped.id()).unwrap();
    server.turn(&thread, "at last");
    let seen = sandbox.model().turns().pop().unwrap();
    assert_eq!(seen.prompts(), ["greet", "hang", "at last"]);
    assert!(seen.contains("Stub summary."), "{:#?}", seen.seen());
    assert!(!seen.contains("It went well."), "{:#?}", seen.seen());
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_permission_can_be_refused() {
    let sandbox = Sandbox::new(script());
    let mut agent = sandbox.acp(Cli::ClaudeAcp);
    agent.answer_permissions(Permission::Reject);
    let session = agent.new_session();

    let greeted = agent.prompt(&session, "greet");

    assert_eq!(greeted.permissions.len(), 1, "{greeted:#?}");
    assert!(!sandbox.project().join("made-by-tool").exists());
}
