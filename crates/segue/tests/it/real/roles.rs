//! Roles with the real CLIs: what a role may not do is not done, and that is on record.

use segue_testkit::model::{ScriptedCall, Reply, Script};
use segue_testkit::sandbox::Sandbox;

use crate::real::stage::{Stage, Way};

/// Who plans may not change a file or run a command, whatever the policy and the mode; what reads is done.
fn a_project_manager_changes_nothing(provider: &'static str, transport: &'static str) {
    let way = Way {
        provider,
        transport,
    };
    let stage = Stage::of(
        way,
        Sandbox::with_script_fn(|project| {
            let write = ScriptedCall::write(project.join("made.txt"), "made\n");
            let touch = ScriptedCall::shell(&format!("touch {}", project.join("touched").display()));
            let read = ScriptedCall::read(project.join("README.md"));
            Script::new()
                .with_rule("case file", [Reply::from_call(write), Reply::from_text("tried to")])
                .with_rule(
                    "case command",
                    [Reply::from_call(touch), Reply::from_text("tried to")],
                )
                .with_rule("case look", [Reply::from_call(read), Reply::from_text("was read")])
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
        let turn = stage.chat(&args);
        assert_eq!(stage.project_files(), ["README.md"], "{way:?}: {turn:#}");
        let seen = stage.sandbox.model().turn_requests().pop().unwrap();
        assert!(
            seen.contains("You are the project manager"),
            "{way:?}: {seen:#?}"
        );
        // Claude Code does not even offer what is denied, and those that can't ask are kept from it by themselves.
        let offers = !turn["text"].to_string().contains("offers no tool");
        assert!(!offers || provider != "claude", "{way:?}: {turn:#}");
        assert!(
            offers || provider == "claude" || !way.asks(),
            "{way:?}: {turn:#}"
        );
        if way.asks() && offers {
            let decided = turn["decisions"].to_string();
            assert!(
                decided.contains("since the role pm may not use it"),
                "{way:?}: {turn:#}"
            );
        }
    }
    let read = stage.chat(&[
        "--role",
        "pm",
        "--new",
        "--permissions",
        "allow-all",
        "case look",
    ]);
    assert_eq!(read["text"], "was read", "{way:?}: {read:#}");
    stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_changes_nothing_with_claude() {
    a_project_manager_changes_nothing("claude", "stream-json");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_changes_nothing_with_codex() {
    a_project_manager_changes_nothing("codex", "app-server");
    a_project_manager_changes_nothing("codex", "exec");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_project_manager_changes_nothing_with_gemini() {
    a_project_manager_changes_nothing("gemini", "acp");
    a_project_manager_changes_nothing("gemini", "stream-json");
}
