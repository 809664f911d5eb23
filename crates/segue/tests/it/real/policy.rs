//! What becomes of a prompt when a real agent fails, rests or is full, and sessions that go from one agent to another.

use std::fs;
use std::time::Duration;

use segue_testkit::model::{StubFailure, ModelRequest, Reply, Script, StubUsage};
use segue_testkit::sandbox::{SandboxCli, CommandOutcome};
use serde_json::{Value, json};

use crate::real::stage::{Stage, Way};

/// A machine with all three agents, each talked to in its default way, and with these settings.
struct All(Stage);

impl All {
    fn new(script: Script, settings: &str) -> Self {
        let way = Way {
            provider: "claude",
            transport: "stream-json",
        };
        let stage = Stage::new(way, script);
        fs::write(stage.sandbox.home().join("segue.toml"), settings).unwrap();
        Self(stage)
    }

    fn run(&self, args: &[&str]) -> CommandOutcome {
        let stage = &self.0;
        let mut command = stage.command(args);
        command.env("SEGUE_CONFIG", stage.sandbox.home().join("segue.toml"));
        for (name, cli) in [("CODEX", SandboxCli::Codex), ("GEMINI", SandboxCli::Gemini)] {
            let program = stage.sandbox.cli_command(cli).get_program().to_owned();
            command.env(format!("SEGUE_{name}_PATH"), program);
        }
        CommandOutcome::run(command, Duration::from_mins(2))
    }

    /// One turn; what `--json` printed, and the exit code.
    fn chat(&self, args: &[&str]) -> (Value, Option<i32>) {
        let all = [&["chat", "--json"], args].concat();
        let ran = self.run(&all);
        let result = serde_json::from_str(&ran.stdout);
        let result = result.unwrap_or_else(|error| panic!("{error}: {args:?} gave {ran:#?}"));
        (result, ran.code)
    }

    /// A session that knows a colour; its id.
    fn begin(&self, provider: &str) -> String {
        let (first, _) = self.chat(&["-p", provider, "my favourite colour is teal"]);
        assert_eq!(first["stop"], "finished", "{first:#}");
        self.0.age_gemini_sessions();
        first["session_id"].as_str().unwrap().to_owned()
    }

    /// What the model saw last.
    fn seen(&self) -> ModelRequest {
        self.0.sandbox.model().turn_requests().pop().unwrap()
    }
}

fn decided(turn: &Value, words: &str) -> bool {
    turn["decisions"].to_string().contains(words)
}

/// Ends a native session after three failures and goes on in the next one.
fn fails_again(provider: &str) {
    fail(provider, 4).0.assert_nothing_left();
}

/// Starts no third native session after six failures, unless the user insists.
fn fails_again_and_again(provider: &str) {
    let all = fail(provider, 6);
    let listed = all.run(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    let asked = all.0.sandbox.model().turn_requests().len();
    let (stopped, code) = all.chat(&["--resume", id, "which colour?"]);
    assert_eq!(code, Some(4), "{provider}: {stopped:#}");
    assert_eq!(stopped["error"]["class"], "policy", "{stopped:#}");
    assert_eq!(
        all.0.sandbox.model().turn_requests().len(),
        asked,
        "nobody is asked"
    );
    let (last, _) = all.chat(&["--resume", id, "--anyway", "which colour?"]);
    assert_eq!(
        (&last["stop"], &last["opened"]),
        (&json!("finished"), &json!("briefed")),
        "{provider}: {last:#}"
    );
    assert!(
        all.seen().contains("colour is teal"),
        "{provider}: {last:#}"
    );
    all.0.assert_nothing_left();
}

/// Lets the agent fail in so many turns of one session: after three the next native session begins with a brief.
fn fail(provider: &str, turns: usize) -> All {
    let script = Script::new()
        .with_rule("which colour?", [Reply::from_text("teal")])
        .with_rule("boom", [Reply::from_failure(StubFailure::ServerError)]);
    let all = All::new(script, "backoff_seconds = 0\n");
    let id = all.begin(provider);
    for n in 1..=turns {
        let (turn, code) = all.chat(&["--resume", &id, "boom"]);
        assert_eq!(
            (&turn["error"]["class"], code),
            (&json!("agent_error"), Some(3)),
            "{provider} {n}: {turn:#}"
        );
        // A session of Gemini's that is younger than a minute is replaced for that alone.
        if n <= 4 || provider != "gemini" {
            let leg = if n <= 3 { 1 } else { 2 };
            assert_eq!(turn["leg"], leg, "{provider} {n}: {turn:#}");
        }
        assert_eq!(decided(&turn, "is over"), n % 3 == 0, "{n}: {turn:#}");
        if n == 4 {
            assert_eq!(turn["opened"], "briefed", "{turn:#}");
            let seen = all.seen();
            assert!(seen.contains("colour is teal"), "{provider}: {seen:#?}");
            assert!(seen.contains("boom"), "{provider}: {seen:#?}");
        }
    }
    all
}

/// A native session goes on up to its limit, and not above it.
fn is_full_above_its_limit(provider: &str, limit: u64, settings: &str) {
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
    let all = All::new(script, settings);
    let id = all.begin(provider);
    let (exact, _) = all.chat(&["--resume", &id, "just enough"]);
    assert_eq!(
        exact["usage"]["context_tokens"], limit,
        "{provider}: {exact:#}"
    );
    assert!(!decided(&exact, "is over"), "{provider}: {exact:#}");
    let (over, _) = all.chat(&["--resume", &id, "too much"]);
    assert_eq!(
        over["usage"]["context_tokens"],
        limit + 1,
        "{provider}: {over:#}"
    );
    assert_eq!(
        (&exact["leg"], &over["leg"]),
        (&json!(1), &json!(1)),
        "{over:#}"
    );
    assert!(decided(&over, "is over"), "{provider}: {over:#}");
    let (next, _) = all.chat(&["--resume", &id, "which colour?"]);
    assert_eq!(
        (&next["leg"], &next["opened"]),
        (&json!(2), &json!("briefed"))
    );
    assert!(
        all.seen().contains("colour is teal"),
        "{provider}: {next:#}"
    );
    all.0.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_fails_again() {
    fails_again("claude");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_fails_again_and_again() {
    fails_again_and_again("codex");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_fails_again() {
    fails_again("gemini");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn claude_is_full_above_its_limit() {
    // By itself it makes its context smaller long before the usual limit.
    is_full_above_its_limit("claude", 100_000, "[claude]\ncontext_limit = 100_000\n");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn codex_is_full_above_its_limit() {
    is_full_above_its_limit("codex", 100_000, "context_limit = 100_000\n");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn gemini_is_full_above_its_limit() {
    is_full_above_its_limit("gemini", 350_000, "");
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_spent_quota_is_waited_out_or_hands_the_prompt_over() {
    let limit = |retry_after| StubFailure::RateLimit { retry_after };
    // What is told of the first prompt is part of the second one, so the second one's rule comes first.
    let script = Script::new()
        .with_rule(
            "tomorrow",
            [Reply::from_text("taken over").with_failures(limit(7200), 1)],
        )
        .with_rule(
            "in a moment",
            [Reply::from_text("here").with_failures(limit(3), 1)],
        );
    let all = All::new(script, "fallback = [\"gemini\", \"codex\"]\n");
    let id = all.begin("gemini");
    let (waited, _) = all.chat(&["--resume", &id, "in a moment"]);
    assert_eq!(
        (&waited["text"], &waited["leg"]),
        (&json!("here"), &json!(1)),
        "{waited:#}"
    );
    assert!(decided(&waited, "waiting"), "{waited:#}");

    let (handed, code) = all.chat(&["--resume", &id, "tomorrow"]);
    assert_eq!(
        (&handed["text"], &handed["provider"], code),
        (&json!("taken over"), &json!("codex"), Some(0)),
        "{handed:#}"
    );
    assert!(
        decided(&handed, "codex takes the prompt over from gemini"),
        "{handed:#}"
    );
    assert!(all.seen().contains("colour is teal"), "{handed:#}");
    // A new session does not knock either.
    let asked = all.0.sandbox.model().turn_requests().len();
    let (new, _) = all.chat(&["-p", "gemini", "--new", "hello"]);
    assert_eq!(new["provider"], "codex", "{new:#}");
    assert_eq!(all.0.sandbox.model().turn_requests().len(), asked + 1);
    all.0.assert_nothing_left();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn one_session_goes_from_agent_to_agent_and_forgets_nothing() {
    let all = All::new(Script::new(), "");
    let (first, _) = all.chat(&["-p", "claude", "the colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    let hops = [
        ("codex", "the number is forty-two"),
        ("gemini", "the fish is a sword"),
        ("claude", "what do you know?"),
    ];
    let mut natives = vec![first["native_session_id"].clone()];
    for (provider, prompt) in hops {
        let handed = all.run(&["session", "handoff", id, "-p", provider]);
        assert_eq!(handed.code, Some(0), "{handed:#?}");
        let (turn, _) = all.chat(&["--resume", id, prompt]);
        assert_eq!(
            (&turn["provider"], &turn["opened"]),
            (&json!(provider), &json!("briefed")),
            "{turn:#}"
        );
        assert!(!natives.contains(&turn["native_session_id"]), "{turn:#}");
        natives.push(turn["native_session_id"].clone());
    }
    let seen = all.seen();
    for fact in ["colour is teal", "number is forty-two", "fish is a sword"] {
        assert!(seen.contains(fact), "{fact}: {seen:#?}");
    }
    // What each of them answered is known as well.
    assert!(seen.contains("You said: the colour is teal"), "{seen:#?}");
    all.0.assert_nothing_left();
}
