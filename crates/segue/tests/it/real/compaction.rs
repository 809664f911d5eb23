//! A session that is driven over its budget: it is summed up by itself, and the model is shown what matters, within it.

use std::fs;

use segue_testkit::model::{ScriptedCall, ModelRequest, Reply, Script, TranscriptEntry};
use serde_json::{Value, json};

use crate::real::stage::{Stage, Way};

const BUDGET: u64 = 6_000;

/// What was said early on, and must be known to the end.
const FACTS: [&str; 4] = [
    "Never push to the main branch",
    "port 8417",
    "src/login.rs",
    "cookies leak",
];

/// How many tokens of the conversation a model was shown, without what its CLI adds by itself.
fn shown(request: &ModelRequest) -> u64 {
    let seen = request.transcript().into_iter();
    let counted = seen.map(|piece| match piece {
        TranscriptEntry::System(_) | TranscriptEntry::Injected(_) => 0,
        TranscriptEntry::User(text) | TranscriptEntry::Assistant(text) | TranscriptEntry::Thought(text) | TranscriptEntry::Result(text) => {
            segue_tokens::count(&text)
        }
        TranscriptEntry::Call { input, .. } => segue_tokens::count(&input.to_string()),
    });
    counted.sum()
}

fn keeps_its_budget(way: Way) {
    // Gemini CLI stops a model that repeats itself.
    let various = (1..500_u32).map(|n| format!("w{:x}", n.wrapping_mul(2_654_435_761) >> 16));
    let long = format!("Part done: {}.", various.collect::<Vec<_>>().join(" "));
    let stage = Stage::new(way, Script::new().with_rule("part", [Reply::from_text(&long)]));
    let config = stage.sandbox.home().join("small.toml");
    fs::write(&config, format!("budget = {BUDGET}\n")).unwrap();
    let say = |args: &[&str]| {
        let args = [&["chat", "-p", way.provider, "--json"], args].concat();
        let mut command = stage.command(&args);
        command.env("SEGUE_CONFIG", &config);
        stage.finish(command)
    };
    let first = say(&[
        "Never push to the main branch. Use port 8417 for the stub. Build part 0 in src/login.rs; \
         we use tokens because cookies leak.",
    ]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    let versions = || {
        let listed = stage.run(&["session", "checkpoint", &id, "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        listed.as_array().unwrap().clone()
    };
    let mut told = 0;
    for n in 1..=14 {
        let turn = say(&["--resume", &id, &format!("go on with part {n}")]);
        assert_eq!(turn["stop"], "finished", "{way:?} {n}: {turn:#}");
        told += usize::from(turn["decisions"].to_string().contains("summed up"));
        if versions().len() >= 2 {
            break;
        }
    }
    let made = versions();
    assert_eq!(
        made.len(),
        2,
        "{way:?}: it was summed up, and again: {made:#?}"
    );
    assert!(told >= 2, "{way:?}: and each time it was said");

    let last = say(&["--resume", &id, "what do you know?"]);
    assert_eq!(last["opened"], "briefed", "{way:?}: {last:#}");
    let requests = stage.sandbox.model().turn_requests();
    for request in &requests {
        let tokens = shown(request);
        assert!(tokens <= BUDGET, "{way:?}: {tokens} in {request:#?}");
    }
    let seen = requests.last().unwrap();
    for fact in FACTS {
        assert!(
            seen.contains(fact),
            "{way:?}: {fact:?} in {:#?}",
            seen.prompts()
        );
    }
    stage.assert_nothing_left();
}

macro_rules! budgets {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(#[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            keeps_its_budget(Way { provider: $provider, transport: $transport });
        })+
    };
}

budgets! {
    claude_keeps_its_budget: "claude" "stream-json",
    codex_keeps_its_budget: "codex" "app-server",
    gemini_keeps_its_budget: "gemini" "acp",
}

/// A list that the model keeps with its agent's own tool: who plans may always plan. (Claude Code and Codex offer theirs
/// to some models only, and only on search; Gemini CLI does not tell over ACP what it noted.)
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_may_plan_in_any_role() {
    let todo = json!({ "description": "Read the dates", "status": "pending" });
    let replies = [
        Reply::from_call(ScriptedCall::tool("write_todos", json!({ "todos": [todo] }))),
        Reply::from_text("It is noted."),
    ];
    let way = Way {
        provider: "gemini",
        transport: "acp",
    };
    let stage = Stage::new(way, Script::new().with_rule("list", replies));
    let turn = stage.chat(&["--role", "pm", "list what is to be done"]);
    assert_eq!(turn["text"], "It is noted.", "{turn:#}");
    let decided = turn["decisions"].to_string();
    assert!(!decided.contains("may not use"), "{turn:#}");
    stage.assert_nothing_left();
}
