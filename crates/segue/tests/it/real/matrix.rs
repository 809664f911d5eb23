//! Tests that every provider must pass with each of its transports.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use segue_core::id::ProviderId;
use segue_core::session::StopReason;
use segue_providers::{Provider, ProviderSettings, claude_provider, gemini_provider};
use segue_testkit::model::{Reply, Script, ScriptedCall, StubFailure};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use serde_json::{Value, json};

use crate::real::direct::DirectHarness;
use crate::real::harness::{AgentSetup, CliHarness, RunningTurn};

/// Checks one session with six turns: a first turn, a second one that resumes it, one that is cancelled, one in which
/// segue is killed, one after the kill, and one after the native session is lost.
fn a_session_survives_a_cancel_a_kill_and_a_lost_native_session(setup: AgentSetup) {
    let slow = Reply::from_text("counting one two three four five six seven eight nine ten")
        .with_pace(Duration::from_millis(500));
    let harness = CliHarness::new(setup, Script::new().with_rule("count", [slow]));
    assert_unknown_session_is_refused(&harness);
    let first = harness.run_finished_turn(&["my favourite colour is teal"]);
    assert_eq!(first["opened"], "fresh", "{first:#}");
    assert_eq!(first["text"], "You said: my favourite colour is teal");
    assert_eq!(first["provider"], setup.provider);
    let id = first["session_id"].as_str().unwrap();
    harness.age_gemini_sessions();

    let second = harness.run_finished_turn(&["--resume", id, "and my name is Ada"]);
    assert_resumed(&harness, &first, &second);
    assert_model_received(&harness, &["teal"]);
    assert_usage_is_per_turn(setup, &first, &second);

    // Skipped for opencode, which takes seconds to start: a test of segue-testkit cancels it.
    if setup.provider != "acp:opencode" {
        cancel_turn(&harness, id);
    }
    kill_turn(&harness, id);
    let last = harness.run_finished_turn(&["--resume", id, "what do you know of me?"]);
    assert_model_received(
        &harness,
        &["teal", "my name is Ada", "what do you know of me?"],
    );
    assert_ne!(last["opened"], "fresh", "{last:#}");
    assert_lost_session_is_briefed(&harness, &last);
    harness.assert_no_leftovers();
}

/// Checks that an unknown session is refused without a request to the model.
fn assert_unknown_session_is_refused(harness: &CliHarness) {
    let unknown = "5f1c2d3e-0000-4000-8000-00000000abcd";
    let refused = harness.run_segue(&["chat", "--json", "--resume", unknown, "x"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(harness.sandbox.model().turn_requests().is_empty());
}

/// Fails unless the last request to the model contains all of `texts`.
fn assert_model_received(harness: &CliHarness, texts: &[&str]) {
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    for text in texts {
        assert!(
            request.contains(text),
            "{:?}: {text} in {request:#?}",
            harness.setup
        );
    }
}

/// Interrupts segue during an answer and checks that the received part is stored.
fn cancel_turn(harness: &CliHarness, id: &str) {
    let turn = start_slow_turn(harness, id);
    turn.send_signal(Signal::INT);
    let (result, code) = turn.wait_for_result();
    assert_eq!(
        (&result["stop"], code),
        (&json!("cancelled"), Some(130)),
        "{:?}: {result:#}",
        harness.setup
    );
    if harness.setup.is_streaming() {
        let text = result["text"].as_str().unwrap();
        assert!(text.contains("counting"), "{result:#}");
        assert!(!text.contains("ten"), "{result:#}");
    }
}

/// Kills segue during an answer and checks that all processes end.
fn kill_turn(harness: &CliHarness, id: &str) {
    let turn = start_slow_turn(harness, id);
    // The session was resumed after the cancelled turn.
    assert_model_received(harness, &["teal"]);
    turn.send_signal(Signal::KILL);
    turn.wait_for_exit();
    harness.assert_no_processes();
}

/// Starts a turn with a slow answer and waits for the first words of it, or for the request to the model if the agent
/// does not stream.
fn start_slow_turn(harness: &CliHarness, id: &str) -> RunningTurn {
    let model = harness.sandbox.model();
    let request_count = model.turn_requests().len();
    let mut turn = harness.start_turn(&["--resume", id, "count"]);
    if harness.setup.is_streaming() {
        turn.wait_for_event("text");
    } else {
        turn.wait_for_event("opened");
        assert!(model.wait_for_turn_requests(request_count + 1, Duration::from_mins(1)));
    }
    turn
}

/// Deletes the native session and checks that `--strict` fails, and that otherwise a new native session gets a brief.
fn assert_lost_session_is_briefed(harness: &CliHarness, last: &Value) {
    let id = last["session_id"].as_str().unwrap();
    harness.delete_native_session(last["native_session_id"].as_str().unwrap());
    let request_count = harness.sandbox.model().turn_requests().len();
    let strict_result = harness.run_chat(&["--resume", id, "--strict", "still there?"]);
    assert_eq!(
        strict_result["error"]["class"], "session_unknown",
        "{:?}: {strict_result:#}",
        harness.setup
    );
    assert_eq!(
        harness.sandbox.model().turn_requests().len(),
        request_count,
        "a request was sent to the model"
    );

    let briefed = harness.run_finished_turn(&["--resume", id, "which colour?"]);
    assert_eq!(
        briefed["opened"], "briefed",
        "{:?}: {briefed:#}",
        harness.setup
    );
    assert_ne!(briefed["native_session_id"], last["native_session_id"]);
    assert_model_received(harness, &["teal"]);
}

/// Checks that the second turn resumed the native session of the first.
fn assert_resumed(harness: &CliHarness, first: &Value, second: &Value) {
    let open_mode = second["opened"].as_str().unwrap();
    assert!(
        ["resumed", "loaded"].contains(&open_mode),
        "{:?}: {second:#}",
        harness.setup
    );
    assert_eq!(second["native_session_id"], first["native_session_id"]);
    assert_eq!(second["session_id"], first["session_id"]);
    assert_eq!(second["turn"], 2);
}

/// Checks that token counts are those of one turn, even if the agent reports totals of the session.
fn assert_usage_is_per_turn(setup: AgentSetup, first: &Value, second: &Value) {
    let usage_count = |turn: &Value, name: &str| turn["usage"][name].as_u64();
    let output = usage_count(first, "output_tokens");
    assert!(output.is_some(), "{setup:?}: {:#}", first["usage"]);
    assert_eq!(
        usage_count(second, "output_tokens"),
        output,
        "{setup:?}: {second:#}"
    );
    let [first_input, second_input] =
        [first, second].map(|turn| usage_count(turn, "input_tokens").unwrap());
    assert!(
        first_input.abs_diff(second_input) < 20,
        "{setup:?}: {first_input} input tokens, then {second_input}"
    );
    for turn in [first, second] {
        let total = usage_count(turn, "total_tokens").unwrap();
        assert!(
            total >= usage_count(turn, "input_tokens").unwrap(),
            "{turn:#}"
        );
    }
}

/// Checks that segue resumes a session that was started in the agent's own program.
fn a_native_session_is_continued_in_segue(setup: AgentSetup) {
    let harness = CliHarness::new(setup, Script::new());
    harness.start_native_session("the password is swordfish");
    harness.age_gemini_sessions();
    // A symbolic link is another path of the same directory.
    let link = harness.sandbox.path().join("link");
    symlink(harness.sandbox.project(), &link).unwrap();
    let mut command = harness.segue_command(&[
        "chat",
        "-p",
        setup.provider,
        "--json",
        "--continue",
        "what was it?",
    ]);
    command.current_dir(&link);
    let result = harness.run_chat_command(command);
    assert_eq!(result["stop"], "finished", "{setup:?}: {result:#}");
    let request = harness.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        request.contains("the password is swordfish"),
        "{setup:?}: {request:#?}"
    );
    assert_ne!(result["opened"], "fresh", "{result:#}");
    assert_ne!(result["opened"], "briefed", "{setup:?}: {result:#}");
    // The list has one session with both turns.
    let outcome = harness.run_segue(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["turns"], 2, "{listed:#}");
    harness.assert_no_leftovers();
}

/// Checks that a tool call runs only if the policy allows it, and that the model can title the session with segue's own
/// tool without permission.
fn the_permission_policy_is_enforced(setup: AgentSetup) {
    let own_tool = setup.own_tool_name("session_describe");
    let harness = CliHarness::from_sandbox(
        setup,
        Sandbox::with_script_fn(|project| {
            let touch = |name: &str| {
                let command = format!("touch {}", project.join(name).display());
                Reply::from_call(ScriptedCall::shell(&command))
            };
            let mut replies = Vec::new();
            if let Some(tool) = &own_tool {
                let description = json!({ "description": "Painting the shed teal" });
                replies.push(Reply::from_call(ScriptedCall::tool(tool, description)));
            }
            if setup.can_ask_permission() {
                replies.push(touch("no"));
            }
            replies.push(Reply::from_text("done"));
            Script::new()
                .with_rule("make yes", [touch("yes"), Reply::from_text("made yes")])
                .with_rule("make no", [touch("no"), Reply::from_text("tried no")])
                .with_rule("name it", replies)
        }),
    );
    harness.use_model_with_all_tools();
    let denied = harness.run_chat(&["--permissions", "deny", "make no"]);
    assert_eq!(
        harness.project_files(),
        ["README.md"],
        "{setup:?}: {denied:#}"
    );
    let allowed = harness.run_finished_turn(&["--permissions", "allow-all", "make yes"]);
    assert_eq!(
        harness.project_files(),
        ["README.md", "yes"],
        "{setup:?}: {allowed:#}"
    );
    let has_decision = |turn: &Value, text: &str| turn["decisions"].to_string().contains(text);
    if setup.can_ask_permission() {
        assert!(has_decision(&denied, "refused"), "{setup:?}: {denied:#}");
        assert!(has_decision(&allowed, "allowed"), "{setup:?}: {allowed:#}");
    }
    if own_tool.is_some() {
        // Without a terminal segue refuses by default, except for its own tool.
        let described = harness.run_chat(&["name it"]);
        if setup.can_ask_permission() {
            assert!(
                has_decision(&described, "because the user did not or could not answer"),
                "{setup:?}: {described:#}"
            );
        }
        assert_model_named_session(&harness, &described);
    }
    assert_eq!(harness.project_files(), ["README.md", "yes"], "{setup:?}");
    fs::remove_file(harness.sandbox.project().join("yes")).unwrap();
    harness.assert_no_leftovers();
}

/// Fails unless the model set the title of the session of `turn`.
fn assert_model_named_session(harness: &CliHarness, turn: &Value) {
    let id = turn["session_id"].as_str().unwrap();
    let outcome = harness.run_segue(&["session", "info", "--json", id]);
    let info: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let setup = harness.setup;
    assert_eq!(
        info["session"]["title"], "Painting the shed teal",
        "{setup:?}: {turn:#} {info:#}"
    );
    assert_eq!(info["session"]["title_from"], "model");
}

/// Failures of the model with the prompts that cause them and the failure classes that segue may report.
const MODEL_FAILURES: [(&str, StubFailure, &[&str]); 6] = [
    (
        "case limit",
        StubFailure::RateLimit { retry_after: 1 },
        &["rate_limited", "quota"],
    ),
    ("case login", StubFailure::Unauthorized, &["not_logged_in"]),
    ("case server", StubFailure::ServerError, &["agent_error"]),
    ("case request", StubFailure::BadRequest, &["agent_error"]),
    (
        "case long",
        StubFailure::PromptTooLong,
        &["context_too_long"],
    ),
    ("case cut", StubFailure::Cut, &["agent_error", "crashed"]),
];

/// Returns a script with a rule for each entry of [`MODEL_FAILURES`].
fn failing_script() -> Script {
    let add_rule = |script: Script, (prompt, failure, _): (&str, StubFailure, _)| {
        let reply = match failure {
            StubFailure::Cut => Reply::from_text("It begins").with_failure(failure),
            _ => Reply::from_failure(failure),
        };
        script.with_rule(prompt, [reply])
    };
    MODEL_FAILURES.into_iter().fold(Script::new(), add_rule)
}

/// Checks that each failure of the model is reported with its class, not as an answer.
fn model_failures_are_classified(setup: AgentSetup) {
    let harness = CliHarness::new(setup, failing_script());
    for (prompt, _, classes) in MODEL_FAILURES {
        if setup.is_failure_hidden(prompt) {
            continue;
        }
        let result = harness.run_chat(&["--new", prompt]);
        let class = result["error"]["class"].as_str().unwrap_or("none");
        assert!(classes.contains(&class), "{setup:?} {prompt}: {result:#}");
        assert_eq!(result["stop"], "failed", "{setup:?} {prompt}");
        assert!(result["error"]["hint"].is_string(), "{setup:?} {prompt}");
    }
    harness.assert_no_leftovers();
}

/// Checks that two sessions can run at the same time.
fn two_sessions_run_concurrently(setup: AgentSetup) {
    let reply = |text: &str| Reply::from_text(text).with_pace(Duration::from_millis(100));
    let harness = CliHarness::new(
        setup,
        Script::new()
            .with_rule("left", [reply("this is the left answer")])
            .with_rule("right", [reply("this is the right answer")]),
    );
    let left_turn = harness.start_turn(&["--new", "left"]);
    let right_turn = harness.start_turn(&["--new", "right"]);
    let (left_result, left_code) = left_turn.wait_for_result();
    let (right_result, right_code) = right_turn.wait_for_result();
    assert_eq!(
        (left_code, right_code),
        (Some(0), Some(0)),
        "{setup:?}: {left_result:#} {right_result:#}"
    );
    assert_eq!(left_result["text"], "this is the left answer");
    assert_eq!(right_result["text"], "this is the right answer");
    assert_ne!(
        left_result["native_session_id"],
        right_result["native_session_id"]
    );
    harness.assert_no_leftovers();
}

/// Returns a prompt of about 200,000 characters. The model answers it with one word, because repeating it would look
/// like a loop.
fn long_prompt() -> String {
    format!("{} and the end", "all work and no play ".repeat(10_000))
}

/// Prompts that a CLI might parse as options or commands, or ignore.
const UNUSUAL_PROMPTS: [&str; 4] = [
    "-h is a dash",
    "--help me",
    "\nfirst a line",
    "/init is no command",
];

/// Checks that prompts reach the model unchanged, whatever they begin with and however long they are.
fn any_prompt_reaches_the_model(setup: AgentSetup) {
    let harness = CliHarness::new(
        setup,
        Script::new().with_rule("and the end", [Reply::from_text("read")]),
    );
    for prompt in UNUSUAL_PROMPTS.into_iter().chain([long_prompt().as_str()]) {
        let mut command =
            harness.segue_command(&["chat", "-p", setup.provider, "--json", "--new", "-"]);
        let result = harness.run_chat_with_input(&mut command, prompt);
        assert_eq!(result["stop"], "finished", "{setup:?}: {result:#}");
        assert_model_received(&harness, &[prompt.trim()]);
    }
    harness.assert_no_leftovers();
}

/// Checks the same as `any_prompt_reaches_the_model` and `model_failures_are_classified`, in one process, because the
/// agent starts slowly.
fn any_prompt_reaches_the_model_and_failures_are_survived(setup: AgentSetup) {
    let script = failing_script().with_rule("and the end", [Reply::from_text("read")]);
    let harness = DirectHarness::new(Sandbox::new(script));
    let provider = acp_provider(&harness, setup);
    let mut connection = harness.open_new(&provider);
    for prompt in UNUSUAL_PROMPTS.into_iter().chain([long_prompt().as_str()]) {
        let turn = connection.run_turn(prompt);
        let reason = turn.end.map(|end| end.reason);
        assert!(
            matches!(reason, Ok(StopReason::EndTurn)),
            "{setup:?} {prompt:.80}: {reason:?}"
        );
        let request = harness.sandbox.model().turn_requests().pop().unwrap();
        assert!(
            request.contains(prompt.trim()),
            "{setup:?}: {prompt:.200} became {:.300?}",
            request.prompts()
        );
    }
    for (prompt, _, classes) in MODEL_FAILURES {
        if setup.is_failure_hidden(prompt) {
            continue;
        }
        match connection.run_turn(prompt).end {
            Ok(end) => panic!("{setup:?} {prompt}: {end:?}"),
            Err(error) => assert!(
                classes.contains(&error.class().as_str()),
                "{setup:?} {prompt}: {error:?}"
            ),
        }
    }
    assert_eq!(
        connection.run_turn("hello").text,
        "You said: hello",
        "{setup:?}"
    );
    connection.close();
}

/// Returns the provider of a setup that uses ACP.
fn acp_provider(harness: &DirectHarness, setup: AgentSetup) -> Provider {
    let home = |name| harness.sandbox.home().join(name);
    let adapter = |cli| Some(harness.sandbox.cli_command(cli).get_program().into());
    let settings = |cli| ProviderSettings {
        transports: vec!["acp".to_owned()],
        ..harness.settings(cli)
    };
    let host = harness.host();
    match setup.provider {
        "claude" => claude_provider(
            &ProviderSettings {
                adapter: adapter(SandboxCli::ClaudeAcp),
                home: home(".claude"),
                ..settings(SandboxCli::Claude)
            },
            &host,
        ),
        "gemini" => gemini_provider(
            &ProviderSettings {
                home: home(".gemini"),
                ..settings(SandboxCli::Gemini)
            },
            &host,
        ),
        name => segue_providers::acp_provider(
            &ProviderId::parse(name).unwrap(),
            &ProviderSettings {
                args: vec!["acp".to_owned()],
                ..settings(SandboxCli::Opencode)
            },
            &host,
        ),
    }
}

/// Generates a module for each setup with one test per check.
macro_rules! scenes {
    ($($setup:ident: $provider:literal $transport:literal, $($scene:ident)+;)+) => {
        $(mod $setup {
            use super::AgentSetup;

            const AGENT_SETUP: AgentSetup = AgentSetup { provider: $provider, transport: $transport };

            $(#[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn $scene() {
                super::$scene(AGENT_SETUP);
            })+
        })+
    };
}

scenes! {
    // `real/claude.rs` checks prompts and failures of this transport in more detail.
    claude_stream_json: "claude" "stream-json",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently;
    claude_acp: "claude" "acp",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently
        any_prompt_reaches_the_model_and_failures_are_survived;
    codex_app_server: "codex" "app-server",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently
        any_prompt_reaches_the_model model_failures_are_classified;
    codex_exec: "codex" "exec",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently
        any_prompt_reaches_the_model model_failures_are_classified;
    codex_acp: "codex" "acp",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently
        any_prompt_reaches_the_model model_failures_are_classified;
    gemini_acp: "gemini" "acp",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue the_permission_policy_is_enforced two_sessions_run_concurrently
        any_prompt_reaches_the_model_and_failures_are_survived;
    // `real/gemini.rs` checks prompts, failures and permissions of these two transports in more detail.
    gemini_stream_json: "gemini" "stream-json",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue two_sessions_run_concurrently;
    gemini_json: "gemini" "json",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session a_native_session_is_continued_in_segue two_sessions_run_concurrently;
    // Represents all other ACP agents.
    opencode_acp: "acp:opencode" "acp",
        a_session_survives_a_cancel_a_kill_and_a_lost_native_session the_permission_policy_is_enforced any_prompt_reaches_the_model_and_failures_are_survived;
}
