//! Real CLIs as summarisers, each in a separate native session that is not listed.

use segue_core::checkpoint::SUMMARISER_PROMPT_PREFIX;
use segue_testkit::model::{Reply, Script};
use serde_json::Value;

use crate::real::harness::{AgentSetup, CliHarness};

fn assert_agent_summarises(setup: AgentSetup) {
    let answer = r#"{"decisions": ["SQLite for the cache, since it is one file"]}"#;
    let script = Script::new().with_rule(SUMMARISER_PROMPT_PREFIX, [Reply::from_text(answer)]);
    let harness = CliHarness::new(setup, script);
    let first = harness.run_finished_turn(&["Use SQLite for the cache, it is one file."]);
    let id = first["session_id"].as_str().unwrap();
    let args = [
        "session",
        "compact",
        id,
        "--json",
        "--summariser",
        setup.provider,
    ];
    let outcome = harness.run_segue(&args);
    let compacted: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        compacted["summary"]["version"], 2,
        "{setup:?}: {outcome:#?}"
    );
    let summary_request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        summary_request.contains(SUMMARISER_PROMPT_PREFIX),
        "{setup:?}: {summary_request:#?}"
    );
    if setup.provider == "claude" {
        assert_eq!(summary_request.tool_names(), Vec::<String>::new());
    }
    // Neither `session list` nor `--continue` finds the summariser's session.
    for refresh in [&["index", "refresh"][..], &[]] {
        if !refresh.is_empty() {
            harness.run_segue(refresh);
        }
        let outcome = harness.run_segue(&["session", "list", "--all", "--json"]);
        let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{setup:?}: {listed:#}");
    }
    harness.age_gemini_sessions();
    let next = harness.run_finished_turn(&["--continue", "go on"]);
    assert_eq!(next["session_id"], id, "{setup:?}: {next:#}");
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        request.contains("> - [1] SQLite for the cache, since it is one file"),
        "{setup:?}: {request:#?}"
    );
    harness.assert_no_leftovers();
}

macro_rules! summarisers {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(#[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            assert_agent_summarises(AgentSetup { provider: $provider, transport: $transport });
        })+
    };
}

summarisers! {
    claude_summarises_in_a_separate_session: "claude" "stream-json",
    codex_summarises_in_a_separate_session: "codex" "app-server",
    gemini_summarises_in_a_separate_session: "gemini" "stream-json",
}
