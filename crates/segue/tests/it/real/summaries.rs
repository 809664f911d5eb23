//! Real CLIs as summarisers: asked in a session of their own that nobody sees again.

use segue_core::checkpoint::SUMMARISER_PROMPT_PREFIX;
use segue_testkit::model::{Reply, Script};
use serde_json::Value;

use crate::real::stage::{Stage, Way};

fn sums_up(way: Way) {
    let answer = r#"{"decisions": ["SQLite for the cache, since it is one file"]}"#;
    let script = Script::new().with_rule(SUMMARISER_PROMPT_PREFIX, [Reply::from_text(answer)]);
    let stage = Stage::new(way, script);
    let first = stage.says(&["Use SQLite for the cache, it is one file."]);
    let id = first["session_id"].as_str().unwrap();
    let args = [
        "session",
        "compact",
        id,
        "--json",
        "--summariser",
        way.provider,
    ];
    let ran = stage.run(&args);
    let compacted: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(compacted["summary"]["version"], 2, "{way:?}: {ran:#?}");
    let asked = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(asked.contains(SUMMARISER_PROMPT_PREFIX), "{way:?}: {asked:#?}");
    if way.provider == "claude" {
        assert_eq!(asked.tool_names(), Vec::<String>::new());
    }
    // Neither a list nor `--continue` nor the figures know of it.
    for refresh in [&["index", "refresh"][..], &[]] {
        if !refresh.is_empty() {
            stage.run(refresh);
        }
        let listed = stage.run(&["session", "list", "--all", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), 1, "{way:?}: {listed:#}");
    }
    stage.age_gemini_sessions();
    let next = stage.says(&["--continue", "go on"]);
    assert_eq!(next["session_id"], id, "{way:?}: {next:#}");
    let told = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        told.contains("> - [1] SQLite for the cache, since it is one file"),
        "{way:?}: {told:#?}"
    );
    stage.assert_nothing_left();
}

macro_rules! summarisers {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(#[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            sums_up(Way { provider: $provider, transport: $transport });
        })+
    };
}

summarisers! {
    claude: "claude" "stream-json",
    codex: "codex" "app-server",
    gemini: "gemini" "stream-json",
}
