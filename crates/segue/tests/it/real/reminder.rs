//! Compaction by the real CLIs, automatic or manual: segue repeats the user's rules to the model.

use std::fs;

use segue_testkit::model::{ModelRequest, Reply, Script, StubUsage};
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

const USER_RULE: &str = "Never push to main without my review.";

/// Returns the last prompt in the last request to the model.
fn last_prompt(harness: &CliHarness) -> String {
    let request: ModelRequest = harness.sandbox.model().turn_requests().pop().unwrap();
    request.prompts().pop().unwrap()
}

/// Runs a turn without segue's own context limit.
fn run_unlimited_turn(harness: &CliHarness, args: &[&str]) -> Value {
    let config = harness.sandbox.home().join("unlimited.toml");
    fs::write(&config, "context_limit = 0\n").unwrap();
    let mut chat_args = vec!["chat", "-p", harness.setup.provider, "--json"];
    chat_args.extend(args);
    let mut command = harness.segue_command(&chat_args);
    command.env("SEGUE_CONFIG", config);
    let turn = harness.run_chat_command(command);
    assert_eq!(turn["stop"], "finished", "{:?}: {turn:#}", harness.setup);
    turn
}

fn assert_rule_is_repeated_once(setup: AgentSetup) {
    let nearly_full = StubUsage {
        input: 990_000,
        ..StubUsage::default()
    };
    let script = Script::new()
        .with_rule("much", [Reply::from_text("Much.").with_usage(nearly_full)])
        .with_summary("It was much.");
    let harness = CliHarness::new(setup, script);
    let first = run_unlimited_turn(&harness, &[&format!("Port the parser. {USER_RULE}")]);
    let id = first["session_id"].as_str().unwrap();
    run_unlimited_turn(&harness, &["--resume", id, "much"]);
    let compacted = run_unlimited_turn(&harness, &["--resume", id, "after"]);
    let decisions = compacted["decisions"].to_string();
    assert!(
        decisions.contains("compacted its own context"),
        "{setup:?}: {compacted:#}"
    );
    let next = run_unlimited_turn(&harness, &["--resume", id, "go on"]);
    assert_eq!(next["native_session_id"], first["native_session_id"]);
    let prompt = last_prompt(&harness);
    assert!(prompt.contains(USER_RULE), "{setup:?}: {prompt}");
    assert!(prompt.ends_with("go on"), "{setup:?}: {prompt}");
    run_unlimited_turn(&harness, &["--resume", id, "and on"]);
    assert_eq!(
        last_prompt(&harness),
        "and on",
        "{setup:?}: the rule was repeated more than once"
    );
    harness.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_receives_the_users_rule_again_after_its_own_compaction() {
    assert_rule_is_repeated_once(AgentSetup {
        provider: "claude",
        transport: "stream-json",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_receives_the_users_rule_again_after_its_own_compaction() {
    assert_rule_is_repeated_once(AgentSetup {
        provider: "codex",
        transport: "app-server",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_manual_compaction_in_claude_repeats_the_users_rule() {
    let setup = AgentSetup {
        provider: "claude",
        transport: "stream-json",
    };
    let harness = CliHarness::new(setup, Script::new().with_summary("It was a parser."));
    let first = harness.run_finished_turn(&[&format!("Port the parser. {USER_RULE}")]);
    let id = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    let outcome = harness
        .sandbox
        .run(SandboxCli::Claude, ["-p", "--resume", native, "/compact"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let turn = harness.run_finished_turn(&["--resume", id, "go on"]);
    let decisions = turn["decisions"].to_string();
    assert!(decisions.contains("compacted its own context"), "{turn:#}");
    let prompt = last_prompt(&harness);
    assert!(
        prompt.contains(USER_RULE) && prompt.ends_with("go on"),
        "{prompt}"
    );
}
