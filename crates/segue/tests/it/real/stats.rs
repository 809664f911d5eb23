//! What the real CLIs spent, with and without segue: each turn once.

use segue_testkit::model::Script;
use serde_json::{Value, json};

use crate::real::stage::{Stage, Way};

fn stats(stage: &Stage, args: &[&str]) -> Value {
    let mut all = vec!["session", "stats", "--json"];
    all.extend(args);
    let ran = stage.run(&all);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// A turn in the agent's own program and one through segue: both in its files, and one in segue's as well.
fn counts(provider: &'static str, transport: &'static str, keeper: &str, model: &str) {
    let way = Way {
        provider,
        transport,
    };
    let stage = Stage::new(way, Script::new());
    stage.begin_elsewhere("hello");
    let before = stats(&stage, &["--by", "provider,model"]);
    let alone = before["total"]["total_tokens"].as_u64().unwrap();
    assert_eq!(before["total"]["turns"], 1, "{before:#}");
    let said = stage.says(&["hello again"]);
    let used = said["usage"]["total_tokens"].as_u64();
    let after = stats(&stage, &["--by", "provider,model"]);
    let total = &after["total"];
    assert_eq!(total["turns"], 2, "{after:#}");
    // The stub uses the same for every request.
    assert_eq!(total["total_tokens"], 2 * alone, "{after:#}");
    assert_eq!(used.unwrap_or(alone), alone, "{said:#}");
    assert_eq!(total["untold_turns"], 0, "{after:#}");
    assert_eq!(after["groups"][0]["provider"], keeper, "{after:#}");
    let models = &after["groups"][0]["groups"];
    assert_eq!(models.as_array().map(Vec::len), Some(1), "{after:#}");
    assert_eq!(models[0]["model"], model, "{after:#}");
    // Without its files, only segue knows of the second turn.
    let id = said["native_session_id"].as_str().unwrap();
    stage.lose(id);
    let left = stats(&stage, &["--by", "model", "--since", "all"]);
    if provider == "acp:opencode" {
        // Which keeps all in one.
        assert_eq!(left["total"]["turns"], 1, "{left:#}");
    } else {
        assert_eq!(left["total"]["turns"], 2, "{left:#}");
        assert_eq!(left["groups"][0]["model"], json!(model), "{left:#}");
        assert_eq!(left["groups"][1]["model"], Value::Null, "{left:#}");
    }
    stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_claude_counts_once() {
    counts("claude", "stream-json", "claude", "claude-opus-5-5");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_codex_counts_once() {
    counts("codex", "app-server", "codex", "gpt-5.5");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_gemini_counts_once() {
    counts("gemini", "stream-json", "gemini", "gemini-2.5-flash");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_of_opencode_counts_once() {
    counts("acp:opencode", "acp", "opencode", "stub-model");
}
