//! Roles with the real CLIs: a tool that the role does not allow is refused, and the refusal is recorded.

use segue_testkit::model::{Reply, Script, ScriptedCall};
use segue_testkit::sandbox::Sandbox;

use crate::real::harness::{AgentSetup, CliHarness};

/// Checks that the role `pm` cannot change a file or run a command under any permission policy, but can read.
fn assert_project_manager_is_read_only(provider: &'static str, transport: &'static str) {
    let setup = AgentSetup {
        provider,
        transport,
    };
    let harness = CliHarness::from_sandbox(
        setup,
        Sandbox::with_script_fn(|project| {
            let write = ScriptedCall::write(project.join("made.txt"), "made\n");
            let touch =
                ScriptedCall::shell(&format!("touch {}", project.join("touched").display()));
            let read = ScriptedCall::read(project.join("README.md"));
            Script::new()
                .with_rule(
                    "case file",
                    [Reply::from_call(write), Reply::from_text("tried to")],
                )
                .with_rule(
                    "case command",
                    [Reply::from_call(touch), Reply::from_text("tried to")],
                )
                .with_rule(
                    "case look",
                    [Reply::from_call(read), Reply::from_text("was read")],
                )
        }),
    );
    for prompt in ["case file", "case command"] {
        let args = [
            "--role",
            "pm",
            "--new",
            "--permissions",
            "allow-all",
            prompt,
        ];
        let turn = harness.run_chat(&args);
        assert_eq!(
            harness.project_files(),
            ["README.md"],
            "{setup:?}: {turn:#}"
        );
        let request = harness.sandbox.model().turn_requests().pop().unwrap();
        assert!(
            request.contains("You are the project manager"),
            "{setup:?}: {request:#?}"
        );
        // Claude Code does not offer denied tools to the model. Agents that cannot ask for permission block them
        // themselves.
        let is_offered = !turn["text"].to_string().contains("offers no tool");
        assert!(!is_offered || provider != "claude", "{setup:?}: {turn:#}");
        assert!(
            is_offered || provider == "claude" || !setup.can_ask_permission(),
            "{setup:?}: {turn:#}"
        );
        if setup.can_ask_permission() && is_offered {
            let decisions = turn["decisions"].to_string();
            assert!(
                decisions.contains("because the role pm does not allow it"),
                "{setup:?}: {turn:#}"
            );
        }
    }
    let read = harness.run_chat(&[
        "--role",
        "pm",
        "--new",
        "--permissions",
        "allow-all",
        "case look",
    ]);
    assert_eq!(read["text"], "was read", "{setup:?}: {read:#}");
    harness.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_cannot_change_files_with_claude() {
    assert_project_manager_is_read_only("claude", "stream-json");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_cannot_change_files_with_codex() {
    assert_project_manager_is_read_only("codex", "app-server");
    assert_project_manager_is_read_only("codex", "exec");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_cannot_change_files_with_gemini() {
    assert_project_manager_is_read_only("gemini", "acp");
    assert_project_manager_is_read_only("gemini", "stream-json");
}
