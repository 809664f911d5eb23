//! Real CLIs that make their own context smaller, by themselves or by hand: the model is told again what must not be
//! forgotten.

use std::fs;

use segue_testkit::model::{ModelRequest, Reply, Script, StubUsage};
use segue_testkit::sandbox::SandboxCli;
use serde_json::Value;

use crate::real::stage::{Stage, Way};

const RULE: &str = "Never push to main without my review.";

/// The newest prompt that the model saw.
fn prompted(stage: &Stage) -> String {
    let seen: ModelRequest = stage.sandbox.model().turn_requests().pop().unwrap();
    seen.prompts().pop().unwrap()
}

/// A turn of a session that may hold as much as its agent lets it.
fn says(stage: &Stage, args: &[&str]) -> Value {
    let config = stage.sandbox.home().join("unlimited.toml");
    fs::write(&config, "context_limit = 0\n").unwrap();
    let mut all = vec!["chat", "-p", stage.way.provider, "--json"];
    all.extend(args);
    let mut command = stage.command(&all);
    command.env("SEGUE_CONFIG", config);
    let turn = stage.finish(command);
    assert_eq!(turn["stop"], "finished", "{:?}: {turn:#}", stage.way);
    turn
}

fn tells_again(way: Way) {
    let nearly_full = StubUsage {
        input: 990_000,
        ..StubUsage::default()
    };
    let script = Script::new()
        .with_rule("much", [Reply::from_text("Much.").with_usage(nearly_full)])
        .with_summary("It was much.");
    let stage = Stage::new(way, script);
    let first = says(&stage, &[&format!("Port the parser. {RULE}")]);
    let id = first["session_id"].as_str().unwrap();
    says(&stage, &["--resume", id, "much"]);
    let smaller = says(&stage, &["--resume", id, "after"]);
    let decided = smaller["decisions"].to_string();
    assert!(
        decided.contains("made its own context smaller"),
        "{way:?}: {smaller:#}"
    );
    let told = says(&stage, &["--resume", id, "go on"]);
    assert_eq!(told["native_session_id"], first["native_session_id"]);
    let prompt = prompted(&stage);
    assert!(prompt.contains(RULE), "{way:?}: {prompt}");
    assert!(prompt.ends_with("go on"), "{way:?}: {prompt}");
    says(&stage, &["--resume", id, "and on"]);
    assert_eq!(prompted(&stage), "and on", "{way:?}: once");
    stage.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_tells_of_it() {
    tells_again(Way {
        provider: "claude",
        transport: "stream-json",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_tells_of_it() {
    tells_again(Way {
        provider: "codex",
        transport: "app-server",
    });
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claudes_own_record_tells_what_was_done_by_hand() {
    let way = Way {
        provider: "claude",
        transport: "stream-json",
    };
    let stage = Stage::new(way, Script::new().with_summary("It was a parser."));
    let first = stage.says(&[&format!("Port the parser. {RULE}")]);
    let id = first["session_id"].as_str().unwrap();
    let native = first["native_session_id"].as_str().unwrap();
    let ran = stage
        .sandbox
        .run(SandboxCli::Claude, ["-p", "--resume", native, "/compact"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let told = stage.says(&["--resume", id, "go on"]);
    let decided = told["decisions"].to_string();
    assert!(decided.contains("made its own context smaller"), "{told:#}");
    let prompt = prompted(&stage);
    assert!(
        prompt.contains(RULE) && prompt.ends_with("go on"),
        "{prompt}"
    );
}
