//! Statistics of the real CLIs, with and without segue: each turn counts once.

use segue_testkit::model::Script;
use serde_json::{Value, json};

use crate::real::harness::{AgentSetup, CliHarness};

fn run_stats(harness: &CliHarness, args: &[&str]) -> Value {
    let mut stats_args = vec!["session", "stats", "--json"];
    stats_args.extend(args);
    let outcome = harness.run_segue(&stats_args);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// Checks one turn in the agent's own program and one through segue: both are in the agent's files, the second one is
/// also in segue's store.
fn assert_turns_count_once(
    provider: &'static str,
    transport: &'static str,
    storage_provider: &str,
    model: &str,
) {
    let setup = AgentSetup {
        provider,
        transport,
    };
    let harness = CliHarness::new(setup, Script::new());
    harness.start_native_session("hello");
    let before = run_stats(&harness, &["--by", "provider,model"]);
    let turn_tokens = before["total"]["total_tokens"].as_u64().unwrap();
    assert_eq!(before["total"]["turns"], 1, "{before:#}");
    let turn = harness.run_finished_turn(&["hello again"]);
    let used = turn["usage"]["total_tokens"].as_u64();
    let after = run_stats(&harness, &["--by", "provider,model"]);
    let total = &after["total"];
    assert_eq!(total["turns"], 2, "{after:#}");
    // The stub reports the same usage for every request.
    assert_eq!(total["total_tokens"], 2 * turn_tokens, "{after:#}");
    assert_eq!(used.unwrap_or(turn_tokens), turn_tokens, "{turn:#}");
    assert_eq!(total["untold_turns"], 0, "{after:#}");
    assert_eq!(
        after["groups"][0]["provider"], storage_provider,
        "{after:#}"
    );
    let models = &after["groups"][0]["groups"];
    assert_eq!(models.as_array().map(Vec::len), Some(1), "{after:#}");
    assert_eq!(models[0]["model"], model, "{after:#}");
    // Without the native session, the second turn is only in the store.
    let id = turn["native_session_id"].as_str().unwrap();
    harness.delete_native_session(id);
    let remaining = run_stats(&harness, &["--by", "model", "--since", "all"]);
    if provider == "acp:opencode" {
        // opencode stores all sessions together, so the first turn is deleted too.
        assert_eq!(remaining["total"]["turns"], 1, "{remaining:#}");
    } else {
        assert_eq!(remaining["total"]["turns"], 2, "{remaining:#}");
        assert_eq!(
            remaining["groups"][0]["model"],
            json!(model),
            "{remaining:#}"
        );
        assert_eq!(
            remaining["groups"][1]["model"],
            Value::Null,
            "{remaining:#}"
        );
    }
    harness.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_claude_counts_once() {
    assert_turns_count_once("claude", "stream-json", "claude", "claude-opus-5-5");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_codex_counts_once() {
    assert_turns_count_once("codex", "app-server", "codex", "gpt-5.5");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_gemini_counts_once() {
    assert_turns_count_once("gemini", "stream-json", "gemini", "gemini-2.5-flash");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_opencode_counts_once() {
    assert_turns_count_once("acp:opencode", "acp", "opencode", "stub-model");
}
