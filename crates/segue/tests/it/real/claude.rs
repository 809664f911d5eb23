//! Behaviour that is specific to Claude Code, over its `stream-json` transport.

use std::time::Duration;

use segue_core::agent::{
    McpEndpoint, McpServer, PermissionAnswer, PermissionKind, PermissionRequest,
};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason, ToolStatus, Usage};
use segue_providers::{Agent, Provider, ProviderSettings, claude_provider};
use segue_testkit::model::{self, Reply, Script, ScriptedCall, StubFailure};
use segue_testkit::sandbox::{DEFAULT_CLI_TIMEOUT, Sandbox, SandboxCli};

use crate::real::direct::{DirectConnection, DirectHarness, DirectTurn, TurnControl};
use crate::real::harness::{AgentSetup, CliHarness};

const CLAUDE_SETUP: AgentSetup = AgentSetup {
    provider: "claude",
    transport: "stream-json",
};

fn claude_harness(script: Script) -> (DirectHarness, Provider) {
    let harness = DirectHarness::new(Sandbox::new(script));
    let provider = claude_provider(&harness.settings(SandboxCli::Claude), &harness.host());
    (harness, provider)
}

/// Runs a turn, fails unless it is finished, and returns the answer.
fn expect_answer(connection: &mut DirectConnection<'_>, prompt: &str) -> String {
    expect_finished(connection.run_turn(prompt)).0
}

fn expect_finished(turn: DirectTurn) -> (String, Usage) {
    match turn.end {
        Ok(end) if end.reason == StopReason::EndTurn => (turn.text, end.usage),
        _ => panic!("{turn:#?}"),
    }
}

/// Returns the usage of a turn with one request, with the default token counts of the stub.
fn single_request_usage() -> Usage {
    Usage {
        input_tokens: Some(119),
        output_tokens: Some(20),
        cached_tokens: Some(11),
        total_tokens: Some(139),
        context_tokens: Some(139),
        context_window: Some(1_000_000),
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn prompts_reach_the_model_unchanged() {
    let (harness, provider) = claude_harness(Script::new());
    let mut connection = harness.open_new(&provider);
    let prompts = [
        "/context now",
        "/compact",
        "/compact\nand more",
        "/init",
        "/help me",
        "/nosuch thing",
        "/etc/passwd is what?",
        "/",
        " \n /cost",
        "-x --help",
        "\n\nafter two lines\n",
        "!ls",
        "# a note",
        "{\"type\":\"user\"}",
        "\u{1f980} \u{0} \u{7f}",
    ];
    for prompt in prompts {
        assert_eq!(
            expect_answer(&mut connection, prompt),
            format!("You said: {prompt}")
        );
        let received = harness
            .sandbox
            .model()
            .turn_requests()
            .last()
            .unwrap()
            .prompts();
        assert_eq!(received.last().map(String::as_str), Some(prompt));
    }
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_prompt_of_a_megabyte_reaches_the_model() {
    let (harness, provider) =
        claude_harness(Script::new().with_rule("the end", [Reply::from_text("Read.")]));
    let mut connection = harness.open_new(&provider);
    let prompt = format!("{}the end", "words and words, \"quoted\"\n".repeat(40_000));
    assert!(prompt.len() > 1_000_000);
    assert_eq!(expect_answer(&mut connection, &prompt), "Read.");
    let prompts = harness
        .sandbox
        .model()
        .turn_requests()
        .last()
        .unwrap()
        .prompts();
    assert!(
        prompts.last() == Some(&prompt),
        "the model received a different prompt"
    );
    assert_eq!(expect_answer(&mut connection, "next"), "You said: next");
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_session_is_refused_or_replaced_by_a_new_one() {
    let (harness, provider) = claude_harness(Script::new());
    for unknown in ["00000000-0000-4000-8000-000000000000", "a-title"] {
        let Err(error) = harness.open(&provider, Some(unknown), true) else {
            panic!("the unknown session {unknown} was opened");
        };
        assert_eq!(error.class(), FailureClass::SessionUnknown, "{error:?}");
        let mut connection = harness.open(&provider, Some(unknown), false).unwrap();
        assert_eq!(connection.open_mode, OpenMode::Fresh);
        let fallback_reason = connection.fallback_reason.clone().unwrap();
        assert!(fallback_reason.contains(unknown), "{fallback_reason}");
        assert_ne!(connection.native_id(), unknown);
        assert_eq!(expect_answer(&mut connection, "hello"), "You said: hello");
        connection.close();
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn usage_is_reported_per_turn() {
    let (harness, provider) = claude_harness(Script::new());
    let mut connection = harness.open_new(&provider);
    for prompt in ["one", "two", "three"] {
        let (_, usage) = expect_finished(connection.run_turn(prompt));
        assert_eq!(usage, single_request_usage(), "{prompt}");
    }
    let id = connection.native_id();
    connection.close();

    let mut connection = harness.open(&provider, Some(&id), true).unwrap();
    assert_eq!(
        (connection.open_mode, connection.native_id()),
        (OpenMode::Resumed, id)
    );
    let (_, usage) = expect_finished(connection.run_turn("four"));
    assert_eq!(usage, single_request_usage(), "after a resume");
    let prompts = harness
        .sandbox
        .model()
        .turn_requests()
        .last()
        .unwrap()
        .prompts();
    assert_eq!(prompts, ["one", "two", "three", "four"]);
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_command_runs_only_if_the_policy_allows_it() {
    let script = Script::new().with_rule(
        "make it",
        [
            Reply::from_text("I will.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("That was it."),
        ],
    );
    let harness = CliHarness::new(CLAUDE_SETUP, script);
    let made_path = harness.sandbox.project().join("made");
    let result = harness.run_finished_turn(&["--permissions", "deny", "make it"]);
    assert!(!made_path.exists(), "{result:#}");
    let results = harness
        .sandbox
        .model()
        .turn_requests()
        .last()
        .unwrap()
        .tool_results();
    assert_eq!(results, ["Permission for this tool call was denied."]);
    let result = harness.run_finished_turn(&["--permissions", "allow-all", "make it"]);
    assert!(made_path.exists(), "{result:#}");
    harness.assert_no_processes();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_always_allow_answer_lasts_as_long_as_the_process() {
    let replies = || {
        [
            Reply::from_text("I will.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("That was it."),
        ]
    };
    let script = Script::new().with_rule("make", replies());
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    let allow_always = |request: &PermissionRequest| {
        let mut options = request.options.iter();
        let always_option = options.find(|option| option.kind == PermissionKind::AllowAlways);
        PermissionAnswer::Selected(always_option.unwrap().id.clone())
    };
    let first = connection.run_turn_with("make", allow_always, |_| TurnControl::Continue);
    assert_eq!(first.permission_requests.len(), 1);
    expect_finished(first);
    let second = connection.run_turn("make again");
    assert_eq!(second.permission_requests.len(), 0);
    let is_completed_tool = |event: &AgentEvent| matches!(event, AgentEvent::Tool(call) if call.status == ToolStatus::Completed);
    assert!(second.events.iter().any(is_completed_tool), "{second:#?}");
    connection.close();
    assert!(!harness.sandbox.project().join(".claude").exists());
    let mut connection = harness.open_new(&provider);
    assert_eq!(connection.run_turn("make").permission_requests.len(), 1);
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_same_process_continues_after_a_cancel() {
    let script = Script::new()
        .with_rule(
            "stall",
            [Reply::from_text("one two three four five six").with_failure(StubFailure::Stall)],
        )
        .with_rule(
            "ask",
            [
                Reply::from_call(ScriptedCall::shell("touch made")),
                Reply::from_text("No."),
            ],
        );
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    let pid = connection.pid();
    let cancel_at_text = |event: &AgentEvent| match event {
        AgentEvent::Text(_) => TurnControl::Cancel,
        _ => TurnControl::Continue,
    };
    let turn = connection.run_turn_with("stall", PermissionRequest::reject_answer, cancel_at_text);
    assert_eq!(turn.end.unwrap().reason, StopReason::Cancelled);
    assert!(turn.text.starts_with("one two"), "{}", turn.text);
    assert_eq!(expect_answer(&mut connection, "next"), "You said: next");

    // The turn is cancelled while it waits for a permission.
    let turn = connection.run_turn_with(
        "ask",
        |_| PermissionAnswer::Cancelled,
        |_| TurnControl::Continue,
    );
    assert_eq!(turn.end.unwrap().reason, StopReason::Cancelled);
    assert!(!harness.sandbox.project().join("made").exists());
    assert_eq!(expect_answer(&mut connection, "last"), "You said: last");
    assert_eq!(connection.pid(), pid);
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_compaction_by_claude_is_reported() {
    let nearly_full = model::StubUsage {
        input: 990_000,
        ..model::StubUsage::default()
    };
    let script = Script::new()
        .with_rule("much", [Reply::from_text("Much.").with_usage(nearly_full)])
        .with_summary("It was much.");
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    let has_compaction = |turn: &DirectTurn| turn.events.contains(&AgentEvent::Compacted);
    let turn = connection.run_turn("much");
    assert!(!has_compaction(&turn), "{turn:#?}");
    let (_, usage) = expect_finished(turn);
    assert_eq!(usage.context_tokens, Some(990_000 + 11 + 7 + 20));
    let turn = connection.run_turn("after");
    assert!(has_compaction(&turn), "{turn:#?}");
    let (text, usage) = expect_finished(turn);
    assert_eq!(text, "You said: after");
    assert_eq!(usage.context_tokens, Some(139));
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_answer_that_was_cut_off_is_reported_once() {
    let expected = "some words that are cut off here and there";
    let reply = Reply::from_text(expected).with_failures(StubFailure::Cut, 1);
    let (harness, provider) = claude_harness(Script::new().with_rule("cut", [reply]));
    let mut connection = harness.open_new(&provider);
    assert_eq!(expect_answer(&mut connection, "cut"), expected);
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_classified_and_survived() {
    use FailureClass::{Agent, ContextTooLong, NotLoggedIn, RateLimited};
    let rate_limit = StubFailure::RateLimit { retry_after: 1 };
    let cases = [
        ("fail: 401", StubFailure::Unauthorized, NotLoggedIn),
        ("fail: 429", rate_limit, RateLimited),
        ("fail: 500", StubFailure::ServerError, Agent),
        ("fail: 400", StubFailure::BadRequest, Agent),
        ("fail: too long", StubFailure::PromptTooLong, ContextTooLong),
        ("fail: cut", StubFailure::Cut, Agent),
    ];
    let mut script = Script::new();
    for (prompt, failure, _) in cases {
        script = script.with_rule(prompt, [Reply::from_failure(failure)]);
    }
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    for (prompt, failure, class) in cases {
        let turn = connection.run_turn(prompt);
        let error = turn.end.as_ref().unwrap_err();
        assert_eq!(error.class(), class, "{prompt}: {error:?}");
        // The agent's error text is not part of the answer. Only a cut connection leaves the beginning of an answer.
        assert_eq!(
            turn.text.is_empty(),
            failure != StubFailure::Cut,
            "{turn:#?}"
        );
        let failure = error.to_failure("2026-11-16T00:00:00Z".parse().unwrap());
        let retry_at = (class == RateLimited).then(|| "2026-11-16T00:00:01Z".parse().unwrap());
        assert_eq!(failure.retry_at, retry_at, "{prompt}");
    }
    assert_eq!(expect_answer(&mut connection, "hello"), "You said: hello");
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_started_by_claude_does_not_answer_the_next_prompt() {
    let input = serde_json::json!({"command": "true", "run_in_background": true});
    let script = Script::new().with_rule(
        "background",
        [
            Reply::from_text("I start it.").with_call(ScriptedCall::tool("Bash", input)),
            Reply::from_text("It runs."),
        ],
    );
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    let turn = connection.run_turn_with("background", PermissionRequest::allow_answer, |_| {
        TurnControl::Continue
    });
    assert_eq!(expect_finished(turn).0, "I start it.It runs.");
    // Claude Code sends another request to the model when the background command ends.
    let model = harness.sandbox.model();
    assert!(
        model.wait_for_turn_requests(3, DEFAULT_CLI_TIMEOUT),
        "Claude Code sent no request on its own"
    );
    connection.wait(Duration::from_millis(300));
    assert_eq!(expect_answer(&mut connection, "next"), "You said: next");
    assert_eq!(expect_answer(&mut connection, "last"), "You said: last");
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_subagents_text_is_not_the_answer_but_its_usage_counts() {
    let input = serde_json::json!({
        "description": "look", "prompt": "be the helper",
        "subagent_type": "general-purpose", "run_in_background": false,
    });
    let script = Script::new()
        .with_rule("be the helper", [Reply::from_text("Helping.")])
        .with_rule(
            "get help",
            [
                Reply::from_text("I ask.").with_call(ScriptedCall::tool("Agent", input)),
                Reply::from_text("Helped."),
            ],
        );
    let (harness, provider) = claude_harness(script);
    let mut connection = harness.open_new(&provider);
    let (text, usage) = expect_finished(connection.run_turn("get help"));
    assert_eq!(text, "I ask.Helped.");
    assert_eq!(harness.sandbox.model().turn_requests().len(), 3);
    assert_eq!(usage.total_tokens, Some(3 * 139));
    assert_eq!(usage.context_tokens, Some(139));
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_edit_is_reported_with_its_diff() {
    let sandbox = Sandbox::with_script_fn(|project| {
        Script::new().with_rule(
            "write",
            [
                Reply::from_call(ScriptedCall::write(project.join("new.txt"), "a\nb\n")),
                Reply::from_text("Written."),
            ],
        )
    });
    let harness = DirectHarness::new(sandbox);
    let provider = claude_provider(&harness.settings(SandboxCli::Claude), &harness.host());
    let mut connection = harness.open_new(&provider);
    let turn = connection.run_turn_with("write", PermissionRequest::allow_answer, |_| {
        TurnControl::Continue
    });
    let last = turn.events.iter().rev().find_map(|event| match event {
        AgentEvent::Tool(call) => Some(call.clone()),
        _ => None,
    });
    let call = last.unwrap();
    assert_eq!(
        (call.kind.as_str(), call.status),
        ("edit", ToolStatus::Completed)
    );
    assert_eq!(call.diffs[0].patch, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    connection.close();
}

/// An MCP server with one tool, `ping`.
const PING_SERVER_SCRIPT: &str = r#"
const answers = {
  initialize: (params) => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "ping", version: "1"}}),
  "tools/list": () => ({tools: [{name: "ping", description: "Answers.", inputSchema: {type: "object", properties: {}}}]}),
  "tools/call": () => ({content: [{type: "text", text: "pong"}]}),
};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method, params} = JSON.parse(line);
  if (id === undefined) return;
  const said = answers[method] ? {result: answers[method](params)} : {error: {code: -32601, message: "no"}};
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...said}));
});
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn segue_tools_are_offered_and_need_no_permission() {
    let ping_call = || ScriptedCall::tool("mcp__segue__ping", serde_json::json!({}));
    let script = Script::new().with_rule(
        "ping",
        [Reply::from_call(ping_call()), Reply::from_text("Pinged.")],
    );
    let (mut harness, provider) = claude_harness(script);
    let server = harness.sandbox.path().join("server.js");
    std::fs::write(&server, PING_SERVER_SCRIPT).unwrap();
    harness.mcp = vec![McpServer {
        name: "segue".to_owned(),
        endpoint: McpEndpoint::Program {
            command: harness
                .sandbox
                .path()
                .join("bin/node")
                .display()
                .to_string(),
            args: vec![server.display().to_string()],
            env: Vec::new(),
        },
    }];
    let mut connection = harness.open_new(&provider);
    let turn = connection.run_turn("ping");
    assert_eq!(turn.permission_requests.len(), 0);
    assert_eq!(expect_finished(turn).0, "Pinged.");
    let results = harness
        .sandbox
        .model()
        .turn_requests()
        .last()
        .unwrap()
        .tool_results();
    assert_eq!(results, ["pong"]);
    connection.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_probe_reports_the_version_and_an_unknown_option_is_a_crash() {
    let (harness, provider) = claude_harness(Script::new());
    let probe = harness
        .block_on(provider.probe(DEFAULT_CLI_TIMEOUT))
        .unwrap();
    let version = probe.version.unwrap();
    assert!(version.starts_with("2."), "{version}");

    let settings = ProviderSettings {
        args: vec!["--no-such-option".to_owned()],
        ..harness.settings(SandboxCli::Claude)
    };
    let provider = claude_provider(&settings, &harness.host());
    let Err(error) = harness.open(&provider, None, true) else {
        panic!("Claude Code was opened with an unknown option");
    };
    let failure = error.to_failure("2026-11-16T00:00:00Z".parse().unwrap());
    assert_eq!(failure.class, FailureClass::Crashed);
    assert!(failure.stderr.unwrap().contains("--no-such-option"));
}
