//! What is special to Claude Code, over its stream of JSON lines.

use std::time::Duration;

use segue_agents::{Agent, Provider, ProviderSettings, claude_provider};
use segue_core::agent::{McpEndpoint, McpServer, PermissionAnswer, PermissionKind, PermissionRequest};
use segue_core::session::{AgentEvent, FailureClass, OpenMode, StopReason, ToolStatus, Usage};
use segue_testkit::model::{self, ScriptedCall, StubFailure, Reply, Script};
use segue_testkit::sandbox::{SandboxCli, DEFAULT_CLI_TIMEOUT, Sandbox};

use crate::real::direct::{Direct, Talk, Then, Turned};
use crate::real::stage::{Stage, Way};

const WAY: Way = Way {
    provider: "claude",
    transport: "stream-json",
};

fn direct(script: Script) -> (Direct, Provider) {
    let direct = Direct::new(Sandbox::new(script));
    let provider = claude_provider(&direct.settings(SandboxCli::Claude), &direct.host());
    (direct, provider)
}

/// A turn that must end well; its answer.
fn answer(talk: &mut Talk<'_>, prompt: &str) -> String {
    finished(talk.say(prompt)).0
}

fn finished(turned: Turned) -> (String, Usage) {
    match turned.end {
        Ok(end) if end.reason == StopReason::EndTurn => (turned.text, end.usage),
        _ => panic!("{turned:#?}"),
    }
}

/// What a turn with one request of the stub's usual figures used.
fn usual() -> Usage {
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
fn prompts_reach_the_model_as_they_are() {
    let (direct, provider) = direct(Script::new());
    let mut talk = direct.begin(&provider);
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
        assert_eq!(answer(&mut talk, prompt), format!("You said: {prompt}"));
        let seen = direct.sandbox.model().turn_requests().last().unwrap().prompts();
        assert_eq!(seen.last().map(String::as_str), Some(prompt));
    }
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_megabyte_is_a_prompt() {
    let (direct, provider) = direct(Script::new().with_rule("the end", [Reply::from_text("Read.")]));
    let mut talk = direct.begin(&provider);
    let prompt = format!("{}the end", "words and words, \"quoted\"\n".repeat(40_000));
    assert!(prompt.len() > 1_000_000);
    assert_eq!(answer(&mut talk, &prompt), "Read.");
    let seen = direct.sandbox.model().turn_requests().last().unwrap().prompts();
    assert!(seen.last() == Some(&prompt), "it arrived changed");
    assert_eq!(answer(&mut talk, "next"), "You said: next");
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_unknown_session_is_an_error_or_a_new_one() {
    let (direct, provider) = direct(Script::new());
    for unknown in ["00000000-0000-4000-8000-000000000000", "a-title"] {
        let Err(error) = direct.open(&provider, Some(unknown), true) else {
            panic!("{unknown} was opened");
        };
        assert_eq!(error.class(), FailureClass::SessionUnknown, "{error:?}");
        let mut talk = direct.open(&provider, Some(unknown), false).unwrap();
        assert_eq!(talk.opened, OpenMode::Fresh);
        let why_not = talk.why_not.clone().unwrap();
        assert!(why_not.contains(unknown), "{why_not}");
        assert_ne!(talk.native_id(), unknown);
        assert_eq!(answer(&mut talk, "hello"), "You said: hello");
        talk.close();
    }
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_a_turn_used_is_the_turns_own() {
    let (direct, provider) = direct(Script::new());
    let mut talk = direct.begin(&provider);
    for prompt in ["one", "two", "three"] {
        let (_, usage) = finished(talk.say(prompt));
        assert_eq!(usage, usual(), "{prompt}");
    }
    let id = talk.native_id();
    talk.close();

    let mut talk = direct.open(&provider, Some(&id), true).unwrap();
    assert_eq!((talk.opened, talk.native_id()), (OpenMode::Resumed, id));
    let (_, usage) = finished(talk.say("four"));
    assert_eq!(usage, usual(), "after a resume");
    let seen = direct.sandbox.model().turn_requests().last().unwrap().prompts();
    assert_eq!(seen, ["one", "two", "three", "four"]);
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_command_is_run_only_where_the_policy_allows() {
    let script = Script::new().with_rule(
        "make it",
        [
            Reply::from_text("I will.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("That was it."),
        ],
    );
    let stage = Stage::new(WAY, script);
    let made = stage.sandbox.project().join("made");
    let result = stage.says(&["--permissions", "deny", "make it"]);
    assert!(!made.exists(), "{result:#}");
    let told = stage.sandbox.model().turn_requests().last().unwrap().tool_results();
    assert_eq!(told, ["Permission to do this was refused."]);
    let result = stage.says(&["--permissions", "allow-all", "make it"]);
    assert!(made.exists(), "{result:#}");
    stage.assert_nothing_runs();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_is_always_allowed_is_not_asked_again_and_not_kept() {
    let steps = || {
        [
            Reply::from_text("I will.").with_call(ScriptedCall::shell("touch made")),
            Reply::from_text("That was it."),
        ]
    };
    let script = Script::new().with_rule("make", steps());
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    let always = |request: &PermissionRequest| {
        let mut options = request.options.iter();
        let always = options.find(|option| option.kind == PermissionKind::AllowAlways);
        PermissionAnswer::Selected(always.unwrap().id.clone())
    };
    let first = talk.follow("make", always, |_| Then::Nothing);
    assert_eq!(first.asked.len(), 1);
    finished(first);
    let second = talk.say("make again");
    assert_eq!(second.asked.len(), 0);
    let completed = |event: &AgentEvent| matches!(event, AgentEvent::Tool(call) if call.status == ToolStatus::Completed);
    assert!(second.events.iter().any(completed), "{second:#?}");
    talk.close();
    assert!(!direct.sandbox.project().join(".claude").exists());
    let mut talk = direct.begin(&provider);
    assert_eq!(talk.say("make").asked.len(), 1);
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn after_a_cancel_the_same_process_goes_on() {
    let script = Script::new()
        .with_rule(
            "stall",
            [Reply::from_text("one two three four five six").with_failure(StubFailure::Stall)],
        )
        .with_rule(
            "ask",
            [Reply::from_call(ScriptedCall::shell("touch made")), Reply::from_text("No.")],
        );
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    let pid = talk.pid();
    let cancel_at_words = |event: &AgentEvent| match event {
        AgentEvent::Text(_) => Then::Cancel,
        _ => Then::Nothing,
    };
    let turned = talk.follow("stall", PermissionRequest::reject_answer, cancel_at_words);
    assert_eq!(turned.end.unwrap().reason, StopReason::Cancelled);
    assert!(turned.text.starts_with("one two"), "{}", turned.text);
    assert_eq!(answer(&mut talk, "next"), "You said: next");

    // Stopped while it asks.
    let turned = talk.follow("ask", |_| PermissionAnswer::Cancelled, |_| Then::Nothing);
    assert_eq!(turned.end.unwrap().reason, StopReason::Cancelled);
    assert!(!direct.sandbox.project().join("made").exists());
    assert_eq!(answer(&mut talk, "last"), "You said: last");
    assert_eq!(talk.pid(), pid);
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn it_is_told_when_claude_makes_its_context_smaller() {
    let nearly_full = model::StubUsage {
        input: 990_000,
        ..model::StubUsage::default()
    };
    let script = Script::new()
        .with_rule("much", [Reply::from_text("Much.").with_usage(nearly_full)])
        .with_summary("It was much.");
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    let compacted = |turned: &Turned| turned.events.contains(&AgentEvent::Compacted);
    let turned = talk.say("much");
    assert!(!compacted(&turned), "{turned:#?}");
    let (_, usage) = finished(turned);
    assert_eq!(usage.context_tokens, Some(990_000 + 11 + 7 + 20));
    let turned = talk.say("after");
    assert!(compacted(&turned), "{turned:#?}");
    let (text, usage) = finished(turned);
    assert_eq!(text, "You said: after");
    assert_eq!(usage.context_tokens, Some(139));
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_answer_that_was_cut_off_is_told_once() {
    let words = "some words that are cut off here and there";
    let reply = Reply::from_text(words).with_failures(StubFailure::Cut, 1);
    let (direct, provider) = direct(Script::new().with_rule("cut", [reply]));
    let mut talk = direct.begin(&provider);
    assert_eq!(answer(&mut talk, "cut"), words);
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_told_apart_and_survived() {
    use FailureClass::{Agent, ContextTooLong, NotLoggedIn, RateLimited};
    let limit = StubFailure::RateLimit { retry_after: 1 };
    let cases = [
        ("fail: 401", StubFailure::Unauthorized, NotLoggedIn),
        ("fail: 429", limit, RateLimited),
        ("fail: 500", StubFailure::ServerError, Agent),
        ("fail: 400", StubFailure::BadRequest, Agent),
        ("fail: too long", StubFailure::PromptTooLong, ContextTooLong),
        ("fail: cut", StubFailure::Cut, Agent),
    ];
    let mut script = Script::new();
    for (prompt, failure, _) in cases {
        script = script.with_rule(prompt, [Reply::from_failure(failure)]);
    }
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    for (prompt, failure, class) in cases {
        let turned = talk.say(prompt);
        let error = turned.end.as_ref().unwrap_err();
        assert_eq!(error.class(), class, "{prompt}: {error:?}");
        // Its own words about the error are no answer; only a cut comes after the first words of one.
        assert_eq!(
            turned.text.is_empty(),
            failure != StubFailure::Cut,
            "{turned:#?}"
        );
        let failure = error.to_failure("2026-11-16T00:00:00Z".parse().unwrap());
        let retry_at = (class == RateLimited).then(|| "2026-11-16T00:00:01Z".parse().unwrap());
        assert_eq!(failure.retry_at, retry_at, "{prompt}");
    }
    assert_eq!(answer(&mut talk, "hello"), "You said: hello");
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_turn_that_claude_begins_by_itself_is_not_the_next_prompts() {
    let input = serde_json::json!({"command": "true", "run_in_background": true});
    let script = Script::new().with_rule(
        "background",
        [
            Reply::from_text("I start it.").with_call(ScriptedCall::tool("Bash", input)),
            Reply::from_text("It runs."),
        ],
    );
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    let turned = talk.follow("background", PermissionRequest::allow_answer, |_| {
        Then::Nothing
    });
    assert_eq!(finished(turned).0, "I start it.It runs.");
    // Claude takes the end of the command for a reason to ask the model again.
    let model = direct.sandbox.model();
    assert!(model.wait_for_turn_requests(3, DEFAULT_CLI_TIMEOUT), "nothing came by itself");
    talk.pause(Duration::from_millis(300));
    assert_eq!(answer(&mut talk, "next"), "You said: next");
    assert_eq!(answer(&mut talk, "last"), "You said: last");
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_a_subagent_says_is_not_the_answer_and_what_it_uses_counts() {
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
    let (direct, provider) = direct(script);
    let mut talk = direct.begin(&provider);
    let (text, usage) = finished(talk.say("get help"));
    assert_eq!(text, "I ask.Helped.");
    assert_eq!(direct.sandbox.model().turn_requests().len(), 3);
    assert_eq!(usage.total_tokens, Some(3 * 139));
    assert_eq!(usage.context_tokens, Some(139));
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_edit_comes_with_its_diff() {
    let sandbox = Sandbox::with_script_fn(|project| {
        Script::new().with_rule(
            "write",
            [
                Reply::from_call(ScriptedCall::write(project.join("new.txt"), "a\nb\n")),
                Reply::from_text("Written."),
            ],
        )
    });
    let direct = Direct::new(sandbox);
    let provider = claude_provider(&direct.settings(SandboxCli::Claude), &direct.host());
    let mut talk = direct.begin(&provider);
    let turned = talk.follow("write", PermissionRequest::allow_answer, |_| Then::Nothing);
    let last = turned.events.iter().rev().find_map(|event| match event {
        AgentEvent::Tool(call) => Some(call.clone()),
        _ => None,
    });
    let call = last.unwrap();
    assert_eq!(
        (call.kind.as_str(), call.status),
        ("edit", ToolStatus::Completed)
    );
    assert_eq!(call.diffs[0].patch, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    talk.close();
}

/// An MCP server with one tool, `ping`.
const SERVER: &str = r#"
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
fn our_own_tools_are_in_sight_and_need_no_permission() {
    let ping = || ScriptedCall::tool("mcp__segue__ping", serde_json::json!({}));
    let script = Script::new().with_rule("ping", [Reply::from_call(ping()), Reply::from_text("Pinged.")]);
    let (mut direct, provider) = direct(script);
    let server = direct.sandbox.path().join("server.js");
    std::fs::write(&server, SERVER).unwrap();
    direct.mcp = vec![McpServer {
        name: "segue".to_owned(),
        endpoint: McpEndpoint::Program {
            command: direct.sandbox.path().join("bin/node").display().to_string(),
            args: vec![server.display().to_string()],
            env: Vec::new(),
        },
    }];
    let mut talk = direct.begin(&provider);
    let turned = talk.say("ping");
    assert_eq!(turned.asked.len(), 0);
    assert_eq!(finished(turned).0, "Pinged.");
    let told = direct.sandbox.model().turn_requests().last().unwrap().tool_results();
    assert_eq!(told, ["pong"]);
    talk.close();
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn it_tells_its_version_and_ends_where_it_is_not_understood() {
    let (direct, provider) = direct(Script::new());
    let probe = direct.block_on(provider.probe(DEFAULT_CLI_TIMEOUT)).unwrap();
    let version = probe.version.unwrap();
    assert!(version.starts_with("2."), "{version}");

    let settings = ProviderSettings {
        args: vec!["--no-such-option".to_owned()],
        ..direct.settings(SandboxCli::Claude)
    };
    let provider = claude_provider(&settings, &direct.host());
    let Err(error) = direct.open(&provider, None, true) else {
        panic!("it was opened");
    };
    let failure = error.to_failure("2026-11-16T00:00:00Z".parse().unwrap());
    assert_eq!(failure.class, FailureClass::Crashed);
    assert!(failure.stderr.unwrap().contains("--no-such-option"));
}
