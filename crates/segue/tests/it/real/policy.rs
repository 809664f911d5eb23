//! Handling of failures, cooldowns and context limits of real agents, and handoffs between them.

use std::fs;
use std::time::Duration;

use segue_testkit::model::{ModelRequest, Reply, Script, StubFailure, StubUsage};
use segue_testkit::sandbox::{CommandOutcome, SandboxCli};
use serde_json::{Value, json};

use crate::real::harness::{AgentSetup, CliHarness};

/// A sandbox with all three agents, each with its default transport, and with additional settings.
struct AllAgentsHarness(CliHarness);

impl AllAgentsHarness {
    fn new(script: Script, settings: &str) -> Self {
        let setup = AgentSetup {
            provider: "claude",
            transport: "stream-json",
        };
        let harness = CliHarness::new(setup, script);
        fs::write(harness.sandbox.home().join("segue.toml"), settings).unwrap();
        Self(harness)
    }

    fn run_segue(&self, args: &[&str]) -> CommandOutcome {
        let harness = &self.0;
        let mut command = harness.segue_command(args);
        command.env("SEGUE_CONFIG", harness.sandbox.home().join("segue.toml"));
        for (name, cli) in [("CODEX", SandboxCli::Codex), ("GEMINI", SandboxCli::Gemini)] {
            let program = harness.sandbox.cli_command(cli).get_program().to_owned();
            command.env(format!("SEGUE_{name}_PATH"), program);
        }
        CommandOutcome::run(command, Duration::from_mins(2))
    }

    /// Runs one turn. Returns the printed JSON and the exit code.
    fn run_chat(&self, args: &[&str]) -> (Value, Option<i32>) {
        let chat_args = [&["chat", "--json"], args].concat();
        let outcome = self.run_segue(&chat_args);
        let result = serde_json::from_str(&outcome.stdout);
        let result =
            result.unwrap_or_else(|error| panic!("{error}: {args:?} printed {outcome:#?}"));
        (result, outcome.code)
    }

    /// Starts a session whose first prompt names a colour. Returns its id.
    fn start_session(&self, provider: &str) -> String {
        let (first, _) = self.run_chat(&["-p", provider, "my favourite colour is teal"]);
        assert_eq!(first["stop"], "finished", "{first:#}");
        self.0.age_gemini_sessions();
        first["session_id"].as_str().unwrap().to_owned()
    }

    /// Returns the last request to the model.
    fn last_request(&self) -> ModelRequest {
        self.0.sandbox.model().turn_requests().pop().unwrap()
    }
}

fn has_decision(turn: &Value, text: &str) -> bool {
    turn["decisions"].to_string().contains(text)
}

/// Checks that a native session ends after three failures and that the next one receives a brief.
fn assert_briefed_after_three_failures(provider: &str) {
    run_failing_turns(provider, 4).0.assert_no_leftovers();
}

/// Checks that no third native session is started after six failures, unless the user passes `--anyway`.
fn assert_stopped_after_six_failures(provider: &str) {
    let harness = run_failing_turns(provider, 6);
    let outcome = harness.run_segue(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let request_count = harness.0.sandbox.model().turn_requests().len();
    let (refused, code) = harness.run_chat(&["--resume", id, "which colour?"]);
    assert_eq!(code, Some(4), "{provider}: {refused:#}");
    assert_eq!(refused["error"]["class"], "policy", "{refused:#}");
    assert_eq!(
        harness.0.sandbox.model().turn_requests().len(),
        request_count,
        "a request was sent to the model"
    );
    let (last, _) = harness.run_chat(&["--resume", id, "--anyway", "which colour?"]);
    assert_eq!(
        (&last["stop"], &last["opened"]),
        (&json!("finished"), &json!("briefed")),
        "{provider}: {last:#}"
    );
    assert!(
        harness.last_request().contains("colour is teal"),
        "{provider}: {last:#}"
    );
    harness.0.assert_no_leftovers();
}

/// Runs `turn_count` failing turns in one session and checks that the fourth one starts a native session with a brief.
fn run_failing_turns(provider: &str, turn_count: usize) -> AllAgentsHarness {
    let script = Script::new()
        .with_rule("which colour?", [Reply::from_text("teal")])
        .with_rule("boom", [Reply::from_failure(StubFailure::ServerError)]);
    let harness = AllAgentsHarness::new(script, "backoff_seconds = 0\n");
    let id = harness.start_session(provider);
    for n in 1..=turn_count {
        let (turn, code) = harness.run_chat(&["--resume", &id, "boom"]);
        assert_eq!(
            (&turn["error"]["class"], code),
            (&json!("agent_error"), Some(3)),
            "{provider} {n}: {turn:#}"
        );
        // A Gemini session is also replaced because it is younger than a minute, so its leg is not checked after turn
        // 4.
        if n <= 4 || provider != "gemini" {
            let leg = if n <= 3 { 1 } else { 2 };
            assert_eq!(turn["leg"], leg, "{provider} {n}: {turn:#}");
        }
        assert_eq!(
            has_decision(&turn, "ended the native session"),
            n % 3 == 0,
            "{n}: {turn:#}"
        );
        if n == 4 {
            assert_eq!(turn["opened"], "briefed", "{turn:#}");
            let request = harness.last_request();
            assert!(
                request.contains("colour is teal"),
                "{provider}: {request:#?}"
            );
            assert!(request.contains("boom"), "{provider}: {request:#?}");
        }
    }
    harness
}

/// Checks that a native session is resumed up to its context limit and replaced above it.
fn assert_new_leg_above_limit(provider: &str, limit: u64, settings: &str) {
    let reply = |input| {
        let usage = StubUsage {
            input,
            output: 0,
            thoughts: 0,
            cache_read: 0,
            cache_write: 0,
        };
        [Reply::from_text("counted").with_usage(usage)]
    };
    let script = Script::new()
        .with_rule("just enough", reply(limit))
        .with_rule("too much", reply(limit + 1));
    let harness = AllAgentsHarness::new(script, settings);
    let id = harness.start_session(provider);
    let (exact, _) = harness.run_chat(&["--resume", &id, "just enough"]);
    assert_eq!(
        exact["usage"]["context_tokens"], limit,
        "{provider}: {exact:#}"
    );
    assert!(
        !has_decision(&exact, "ended the native session"),
        "{provider}: {exact:#}"
    );
    let (excess, _) = harness.run_chat(&["--resume", &id, "too much"]);
    assert_eq!(
        excess["usage"]["context_tokens"],
        limit + 1,
        "{provider}: {excess:#}"
    );
    assert_eq!(
        (&exact["leg"], &excess["leg"]),
        (&json!(1), &json!(1)),
        "{excess:#}"
    );
    assert!(
        has_decision(&excess, "ended the native session"),
        "{provider}: {excess:#}"
    );
    let (next, _) = harness.run_chat(&["--resume", &id, "which colour?"]);
    assert_eq!(
        (&next["leg"], &next["opened"]),
        (&json!(2), &json!("briefed"))
    );
    assert!(
        harness.last_request().contains("colour is teal"),
        "{provider}: {next:#}"
    );
    harness.0.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_continues_in_a_new_native_session_after_three_failures() {
    assert_briefed_after_three_failures("claude");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_is_not_retried_after_six_failures() {
    assert_stopped_after_six_failures("codex");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_continues_in_a_new_native_session_after_three_failures() {
    assert_briefed_after_three_failures("gemini");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_starts_a_new_native_session_above_its_context_limit() {
    // Claude Code compacts its own context long before the default limit.
    assert_new_leg_above_limit("claude", 100_000, "[claude]\ncontext_limit = 100_000\n");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_starts_a_new_native_session_above_its_context_limit() {
    assert_new_leg_above_limit("codex", 100_000, "context_limit = 100_000\n");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_starts_a_new_native_session_above_its_context_limit() {
    assert_new_leg_above_limit("gemini", 350_000, "");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_exhausted_quota_delays_the_prompt_or_hands_it_off() {
    let rate_limit = |retry_after| StubFailure::RateLimit { retry_after };
    // The brief repeats the first prompt in the second one, so the rule for the second prompt comes first.
    let script = Script::new()
        .with_rule(
            "tomorrow",
            [Reply::from_text("taken over").with_failures(rate_limit(7200), 1)],
        )
        .with_rule(
            "in a moment",
            [Reply::from_text("here").with_failures(rate_limit(3), 1)],
        );
    let harness = AllAgentsHarness::new(script, "fallback = [\"gemini\", \"codex\"]\n");
    let id = harness.start_session("gemini");
    let (waited, _) = harness.run_chat(&["--resume", &id, "in a moment"]);
    assert_eq!(
        (&waited["text"], &waited["leg"]),
        (&json!("here"), &json!(1)),
        "{waited:#}"
    );
    assert!(has_decision(&waited, "waiting"), "{waited:#}");

    let (handed_off, code) = harness.run_chat(&["--resume", &id, "tomorrow"]);
    assert_eq!(
        (&handed_off["text"], &handed_off["provider"], code),
        (&json!("taken over"), &json!("codex"), Some(0)),
        "{handed_off:#}"
    );
    assert!(
        has_decision(&handed_off, "codex took over the prompt from gemini"),
        "{handed_off:#}"
    );
    assert!(
        harness.last_request().contains("colour is teal"),
        "{handed_off:#}"
    );
    // A new session does not try the agent during its cooldown either.
    let request_count = harness.0.sandbox.model().turn_requests().len();
    let (new, _) = harness.run_chat(&["-p", "gemini", "--new", "hello"]);
    assert_eq!(new["provider"], "codex", "{new:#}");
    assert_eq!(
        harness.0.sandbox.model().turn_requests().len(),
        request_count + 1
    );
    harness.0.assert_no_leftovers();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_session_retains_its_facts_across_three_agents() {
    let harness = AllAgentsHarness::new(Script::new(), "");
    let (first, _) = harness.run_chat(&["-p", "claude", "the colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let handoffs = [
        ("codex", "the number is forty-two"),
        ("gemini", "the fish is a sword"),
        ("claude", "what do you know?"),
    ];
    let mut native_ids = vec![first["native_session_id"].clone()];
    for (provider, prompt) in handoffs {
        let handoff = harness.run_segue(&["session", "handoff", id, "-p", provider]);
        assert_eq!(handoff.code, Some(0), "{handoff:#?}");
        let (turn, _) = harness.run_chat(&["--resume", id, prompt]);
        assert_eq!(
            (&turn["provider"], &turn["opened"]),
            (&json!(provider), &json!("briefed")),
            "{turn:#}"
        );
        assert!(!native_ids.contains(&turn["native_session_id"]), "{turn:#}");
        native_ids.push(turn["native_session_id"].clone());
    }
    let request = harness.last_request();
    for fact in ["colour is teal", "number is forty-two", "fish is a sword"] {
        assert!(request.contains(fact), "{fact}: {request:#?}");
    }
    // The request also contains the earlier answers.
    assert!(
        request.contains("You said: the colour is teal"),
        "{request:#?}"
    );
    harness.0.assert_no_leftovers();
}
