//! A session that exceeds its budget is compacted automatically, and the model receives the important facts.

use std::fs;

use segue_testkit::model::{ModelRequest, Reply, Script, ScriptedCall, TranscriptEntry};
use serde_json::{Value, json};

use crate::real::harness::{AgentSetup, CliHarness};

const BUDGET_TOKENS: u64 = 6_000;

/// Facts from the first prompt that every later model must receive.
const EARLY_FACTS: [&str; 4] = [
    "Never push to the main branch",
    "port 8417",
    "src/login.rs",
    "cookies leak",
];

/// Returns the tokens of the conversation in a request, without the system prompt and the text that the CLI adds.
fn count_conversation_tokens(request: &ModelRequest) -> u64 {
    let entries = request.transcript().into_iter();
    let token_counts = entries.map(|entry| match entry {
        TranscriptEntry::System(_) | TranscriptEntry::Injected(_) => 0,
        TranscriptEntry::User(text)
        | TranscriptEntry::Assistant(text)
        | TranscriptEntry::Thought(text)
        | TranscriptEntry::Result(text) => segue_tokens::count(&text),
        TranscriptEntry::Call { input, .. } => segue_tokens::count(&input.to_string()),
    });
    token_counts.sum()
}

fn assert_budget_is_respected(setup: AgentSetup) {
    // Gemini CLI stops a model that repeats itself, so all words are different.
    let distinct_words =
        (1..500_u32).map(|n| format!("w{:x}", n.wrapping_mul(2_654_435_761) >> 16));
    let long_answer = format!(
        "Part done: {}.",
        distinct_words.collect::<Vec<_>>().join(" ")
    );
    let harness = CliHarness::new(
        setup,
        Script::new().with_rule("part", [Reply::from_text(&long_answer)]),
    );
    let config = harness.sandbox.home().join("small.toml");
    fs::write(&config, format!("budget = {BUDGET_TOKENS}\n")).unwrap();
    let run_turn = |args: &[&str]| {
        let args = [&["chat", "-p", setup.provider, "--json"], args].concat();
        let mut command = harness.segue_command(&args);
        command.env("SEGUE_CONFIG", &config);
        harness.run_chat_command(command)
    };
    let first = run_turn(&[
        "Never push to the main branch. Use port 8417 for the stub. Build part 0 in src/login.rs; \
         we use tokens because cookies leak.",
    ]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    let list_versions = || {
        let outcome = harness.run_segue(&["session", "checkpoint", &id, "list", "--json"]);
        let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        listed.as_array().unwrap().clone()
    };
    let mut reported_compactions = 0;
    for n in 1..=14 {
        let turn = run_turn(&["--resume", &id, &format!("go on with part {n}")]);
        assert_eq!(turn["stop"], "finished", "{setup:?} {n}: {turn:#}");
        let decisions = turn["decisions"].to_string();
        let is_reported = ["into checkpoint", "contains a checkpoint of earlier turns"]
            .iter()
            .any(|text| decisions.contains(text));
        reported_compactions += usize::from(is_reported);
        if list_versions().len() >= 2 {
            break;
        }
    }
    let versions = list_versions();
    assert_eq!(
        versions.len(),
        2,
        "{setup:?}: the session was not compacted twice: {versions:#?}"
    );
    assert!(
        reported_compactions >= 2,
        "{setup:?}: not every compaction was reported"
    );

    let last = run_turn(&["--resume", &id, "what do you know?"]);
    assert_eq!(last["opened"], "briefed", "{setup:?}: {last:#}");
    let requests = harness.sandbox.model().turn_requests();
    for request in &requests {
        let tokens = count_conversation_tokens(request);
        assert!(
            tokens <= BUDGET_TOKENS,
            "{setup:?}: {tokens} in {request:#?}"
        );
    }
    let last_request = requests.last().unwrap();
    for fact in EARLY_FACTS {
        assert!(
            last_request.contains(fact),
            "{setup:?}: {fact:?} in {:#?}",
            last_request.prompts()
        );
    }
    harness.assert_no_leftovers();
}

macro_rules! budgets {
    ($($name:ident: $provider:literal $transport:literal,)+) => {
        $(#[test]
        #[ignore = "runs the real CLIs: cargo xtask test"]
        fn $name() {
            assert_budget_is_respected(AgentSetup { provider: $provider, transport: $transport });
        })+
    };
}

budgets! {
    claude_stays_within_its_budget: "claude" "stream-json",
    codex_stays_within_its_budget: "codex" "app-server",
    gemini_stays_within_its_budget: "gemini" "acp",
}

/// The to-do tool of the agent is allowed in a role without write access. Only Gemini CLI over this transport is
/// tested: Claude Code and Codex offer their tool only to some models, and Gemini CLI over ACP does not report the
/// list.
#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_can_plan_in_any_role() {
    let todo = json!({ "description": "Read the dates", "status": "pending" });
    let replies = [
        Reply::from_call(ScriptedCall::tool(
            "write_todos",
            json!({ "todos": [todo] }),
        )),
        Reply::from_text("It is noted."),
    ];
    let setup = AgentSetup {
        provider: "gemini",
        transport: "acp",
    };
    let harness = CliHarness::new(setup, Script::new().with_rule("list", replies));
    let turn = harness.run_chat(&["--role", "pm", "list what is to be done"]);
    assert_eq!(turn["text"], "It is noted.", "{turn:#}");
    let decisions = turn["decisions"].to_string();
    assert!(!decisions.contains("does not allow it"), "{turn:#}");
    harness.assert_no_leftovers();
}
