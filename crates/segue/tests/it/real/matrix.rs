//! What every provider must do, by every way to talk to it: the same scenes for all.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use segue_agents::{Provider, ProviderSettings, claude_provider, gemini_provider};
use segue_core::id::ProviderId;
use segue_core::session::StopReason;
use segue_testkit::model::{ScriptedCall, StubFailure, Reply, Script};
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use serde_json::{Value, json};

use crate::real::direct::Direct;
use crate::real::stage::{Following, Stage, Way};

/// Has one conversation: a turn, a second one that the model sees together with the first, one that is cancelled, one
/// that is killed together with segue, one after that, and one after the agent lost its session.
fn converses(way: Way) {
    let slow = Reply::from_text("counting one two three four five six seven eight nine ten")
        .with_pace(Duration::from_millis(500));
    let stage = Stage::new(way, Script::new().with_rule("count", [slow]));
    refuse_an_unknown_session(&stage);
    let first = stage.says(&["my favourite colour is teal"]);
    assert_eq!(first["opened"], "fresh", "{first:#}");
    assert_eq!(first["text"], "You said: my favourite colour is teal");
    assert_eq!(first["provider"], way.provider);
    let id = first["session_id"].as_str().unwrap();
    stage.age_gemini_sessions();

    let second = stage.says(&["--resume", id, "and my name is Ada"]);
    assert_goes_on(&stage, &first, &second);
    assert_seen(&stage, &["teal"]);
    assert_figures(way, &first, &second);

    // Each start of opencode takes seconds, and a test of segue-testkit cancels it.
    if way.provider != "acp:opencode" {
        cancel_a_turn(&stage, id);
    }
    kill_a_turn(&stage, id);
    let last = stage.says(&["--resume", id, "what do you know of me?"]);
    assert_seen(
        &stage,
        &["teal", "my name is Ada", "what do you know of me?"],
    );
    assert_ne!(last["opened"], "fresh", "{last:#}");
    lose_the_native_session(&stage, &last);
    stage.assert_nothing_left();
}

/// Asks for a session that does not exist: nothing is started.
fn refuse_an_unknown_session(stage: &Stage) {
    let unknown = "5f1c2d3e-0000-4000-8000-00000000abcd";
    let refused = stage.run(&["chat", "--json", "--resume", unknown, "x"]);
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    assert!(stage.sandbox.model().turn_requests().is_empty());
}

/// Fails unless the last request to the model contains all of `texts`.
fn assert_seen(stage: &Stage, texts: &[&str]) {
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    for text in texts {
        assert!(seen.contains(text), "{:?}: {text} in {seen:#?}", stage.way);
    }
}

/// Interrupts segue in the middle of an answer: the part that arrived is kept.
fn cancel_a_turn(stage: &Stage, id: &str) {
    let turn = begin_to_count(stage, id);
    turn.signal(Signal::INT);
    let (result, code) = turn.end();
    assert_eq!(
        (&result["stop"], code),
        (&json!("cancelled"), Some(130)),
        "{:?}: {result:#}",
        stage.way
    );
    if stage.way.streams() {
        let text = result["text"].as_str().unwrap();
        assert!(text.contains("counting"), "{result:#}");
        assert!(!text.contains("ten"), "{result:#}");
    }
}

/// Kills segue in the middle of an answer: everything that it started ends.
fn kill_a_turn(stage: &Stage, id: &str) {
    let turn = begin_to_count(stage, id);
    // The conversation went on after the cancelled turn.
    assert_seen(stage, &["teal"]);
    turn.signal(Signal::KILL);
    turn.wait();
    stage.assert_nothing_runs();
}

/// Starts a turn with a slow answer and waits until the answer has begun: for the first words of it, or for the request
/// to the model if the agent does not stream.
fn begin_to_count(stage: &Stage, id: &str) -> Following {
    let model = stage.sandbox.model();
    let asked = model.turn_requests().len();
    let mut turn = stage.follow(&["--resume", id, "count"]);
    if stage.way.streams() {
        turn.until("text");
    } else {
        turn.until("opened");
        assert!(model.wait_for_turn_requests(asked + 1, Duration::from_mins(1)));
    }
    turn
}

/// Removes the agent's session: `--strict` refuses to go on, otherwise the agent is briefed.
fn lose_the_native_session(stage: &Stage, last: &Value) {
    let id = last["session_id"].as_str().unwrap();
    stage.lose(last["native_session_id"].as_str().unwrap());
    let asked = stage.sandbox.model().turn_requests().len();
    let strict = stage.chat(&["--resume", id, "--strict", "still there?"]);
    assert_eq!(
        strict["error"]["class"], "session_unknown",
        "{:?}: {strict:#}",
        stage.way
    );
    assert_eq!(
        stage.sandbox.model().turn_requests().len(),
        asked,
        "nothing was asked"
    );

    let briefed = stage.says(&["--resume", id, "which colour?"]);
    assert_eq!(briefed["opened"], "briefed", "{:?}: {briefed:#}", stage.way);
    assert_ne!(briefed["native_session_id"], last["native_session_id"]);
    assert_seen(stage, &["teal"]);
}

/// What has to be the same when the same native session goes on.
fn assert_goes_on(stage: &Stage, first: &Value, second: &Value) {
    let opened = second["opened"].as_str().unwrap();
    assert!(
        ["resumed", "loaded"].contains(&opened),
        "{:?}: {second:#}",
        stage.way
    );
    assert_eq!(second["native_session_id"], first["native_session_id"]);
    assert_eq!(second["session_id"], first["session_id"]);
    assert_eq!(second["turn"], 2);
}

/// Figures are those of the turn, whatever the agent counts; unknown ones are unknown.
fn assert_figures(way: Way, first: &Value, second: &Value) {
    let figure = |turn: &Value, name: &str| turn["usage"][name].as_u64();
    let output = figure(first, "output_tokens");
    assert!(output.is_some(), "{way:?}: {:#}", first["usage"]);
    assert_eq!(
        figure(second, "output_tokens"),
        output,
        "{way:?}: {second:#}"
    );
    let [one, two] = [first, second].map(|turn| figure(turn, "input_tokens").unwrap());
    assert!(one.abs_diff(two) < 20, "{way:?}: {one} and then {two}");
    for turn in [first, second] {
        let total = figure(turn, "total_tokens").unwrap();
        assert!(total >= figure(turn, "input_tokens").unwrap(), "{turn:#}");
    }
}

/// A session that was begun in the agent's own program, or over its own protocol, goes on in segue.
fn continues_what_was_begun_elsewhere(way: Way) {
    let stage = Stage::new(way, Script::new());
    stage.begin_elsewhere("the password is swordfish");
    stage.age_gemini_sessions();
    // Reached by another name of the same directory.
    let link = stage.sandbox.path().join("link");
    symlink(stage.sandbox.project(), &link).unwrap();
    let mut command = stage.command(&[
        "chat",
        "-p",
        way.provider,
        "--json",
        "--continue",
        "what was it?",
    ]);
    command.current_dir(&link);
    let result = stage.finish(command);
    assert_eq!(result["stop"], "finished", "{way:?}: {result:#}");
    let seen = stage.sandbox.model().turn_requests().pop().unwrap();
    assert!(
        seen.contains("the password is swordfish"),
        "{way:?}: {seen:#?}"
    );
    assert_ne!(result["opened"], "fresh", "{result:#}");
    assert_ne!(result["opened"], "briefed", "{way:?}: {result:#}");
    // It is one conversation from now on, and has its past.
    let listed = stage.run(&["session", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["turns"], 2, "{listed:#}");
    stage.assert_nothing_left();
}

/// Runs a tool call that the policy allows and none that it denies; the model names the session by segue's own tool
/// without permission.
fn keeps_to_the_policy(way: Way) {
    let own_tool = way.own_tool("session_describe");
    let stage = Stage::of(
        way,
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
            if way.asks() {
                replies.push(touch("no"));
            }
            replies.push(Reply::from_text("done"));
            Script::new()
                .with_rule("make yes", [touch("yes"), Reply::from_text("made yes")])
                .with_rule("make no", [touch("no"), Reply::from_text("tried no")])
                .with_rule("name it", replies)
        }),
    );
    stage.use_a_model_that_sees_all_tools();
    let denied = stage.chat(&["--permissions", "deny", "make no"]);
    assert_eq!(stage.project_files(), ["README.md"], "{way:?}: {denied:#}");
    let allowed = stage.says(&["--permissions", "allow-all", "make yes"]);
    assert_eq!(
        stage.project_files(),
        ["README.md", "yes"],
        "{way:?}: {allowed:#}"
    );
    let decided = |turn: &Value, words: &str| turn["decisions"].to_string().contains(words);
    if way.asks() {
        assert!(decided(&denied, "refused"), "{way:?}: {denied:#}");
        assert!(decided(&allowed, "allowed"), "{way:?}: {allowed:#}");
    }
    if own_tool.is_some() {
        // Nobody is there to be asked, so segue refuses by default, except for its own tool.
        let named = stage.chat(&["name it"]);
        if way.asks() {
            assert!(
                decided(&named, "since nobody answered"),
                "{way:?}: {named:#}"
            );
        }
        assert_named(&stage, &named);
    }
    assert_eq!(stage.project_files(), ["README.md", "yes"], "{way:?}");
    fs::remove_file(stage.sandbox.project().join("yes")).unwrap();
    stage.assert_nothing_left();
}

/// Fails unless the model named the session of `turn`.
fn assert_named(stage: &Stage, turn: &Value) {
    let id = turn["session_id"].as_str().unwrap();
    let info = stage.run(&["session", "info", "--json", id]);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    let way = stage.way;
    assert_eq!(
        info["session"]["title"], "Painting the shed teal",
        "{way:?}: {turn:#} {info:#}"
    );
    assert_eq!(info["session"]["title_from"], "model");
}

/// The failures of a model, each with the classes that segue may give it.
const FAILURES: [(&str, StubFailure, &[&str]); 6] = [
    (
        "case limit",
        StubFailure::RateLimit { retry_after: 1 },
        &["rate_limited", "quota"],
    ),
    ("case login", StubFailure::Unauthorized, &["not_logged_in"]),
    ("case server", StubFailure::ServerError, &["agent_error"]),
    ("case request", StubFailure::BadRequest, &["agent_error"]),
    ("case long", StubFailure::PromptTooLong, &["context_too_long"]),
    ("case cut", StubFailure::Cut, &["agent_error", "crashed"]),
];

/// Returns a script in which the model fails as [`FAILURES`] says.
fn failing_script() -> Script {
    let add = |script: Script, (prompt, failure, _): (&str, StubFailure, _)| {
        let reply = match failure {
            StubFailure::Cut => Reply::from_text("It begins").with_failure(failure),
            _ => Reply::from_failure(failure),
        };
        script.with_rule(prompt, [reply])
    };
    FAILURES.into_iter().fold(Script::new(), add)
}

/// Gives each failure of the model its class, and never takes one for an answer.
fn tells_failures_apart(way: Way) {
    let stage = Stage::new(way, failing_script());
    for (prompt, _, classes) in FAILURES {
        if way.hides(prompt) {
            continue;
        }
        let result = stage.chat(&["--new", prompt]);
        let class = result["error"]["class"].as_str().unwrap_or("none");
        assert!(classes.contains(&class), "{way:?} {prompt}: {result:#}");
        assert_eq!(result["stop"], "failed", "{way:?} {prompt}");
        assert!(result["error"]["hint"].is_string(), "{way:?} {prompt}");
    }
    stage.assert_nothing_left();
}

/// Two sessions at once do not get into each other's way.
fn serves_two_at_once(way: Way) {
    let reply = |text: &str| Reply::from_text(text).with_pace(Duration::from_millis(100));
    let stage = Stage::new(
        way,
        Script::new()
            .with_rule("left", [reply("this is the left answer")])
            .with_rule("right", [reply("this is the right answer")]),
    );
    let left = stage.follow(&["--new", "left"]);
    let right = stage.follow(&["--new", "right"]);
    let (left, left_code) = left.end();
    let (right, right_code) = right.end();
    assert_eq!(
        (left_code, right_code),
        (Some(0), Some(0)),
        "{way:?}: {left:#} {right:#}"
    );
    assert_eq!(left["text"], "this is the left answer");
    assert_eq!(right["text"], "this is the right answer");
    assert_ne!(left["native_session_id"], right["native_session_id"]);
    stage.assert_nothing_left();
}

/// A prompt of about 200,000 characters, to which the model answers with one word: repeating it would look like a loop.
fn long_prompt() -> String {
    format!("{} and the end", "all work and no play ".repeat(10_000))
}

/// Prompts that a careless program takes for options, commands or nothing.
const PROMPTS: [&str; 4] = [
    "-h is a dash",
    "--help me",
    "\nfirst a line",
    "/init is no command",
];

/// Delivers prompts as they are, whatever they begin with and however long they are.
fn takes_any_prompt(way: Way) {
    let stage = Stage::new(way, Script::new().with_rule("and the end", [Reply::from_text("read")]));
    for prompt in PROMPTS.into_iter().chain([long_prompt().as_str()]) {
        let mut command = stage.command(&["chat", "-p", way.provider, "--json", "--new", "-"]);
        let result = stage.finish_with(&mut command, prompt);
        assert_eq!(result["stop"], "finished", "{way:?}: {result:#}");
        assert_seen(&stage, &[prompt.trim()]);
    }
    stage.assert_nothing_left();
}

/// Checks the same as `takes_any_prompt` and `tells_failures_apart`, by one process of an agent that takes long to start.
fn takes_any_prompt_and_survives_failures(way: Way) {
    let script = failing_script().with_rule("and the end", [Reply::from_text("read")]);
    let direct = Direct::new(Sandbox::new(script));
    let provider = acp_provider(&direct, way);
    let mut talk = direct.begin(&provider);
    for prompt in PROMPTS.into_iter().chain([long_prompt().as_str()]) {
        let turned = talk.say(prompt);
        let reason = turned.end.map(|end| end.reason);
        assert!(
            matches!(reason, Ok(StopReason::EndTurn)),
            "{way:?} {prompt:.80}: {reason:?}"
        );
        let seen = direct.sandbox.model().turn_requests().pop().unwrap();
        assert!(
            seen.contains(prompt.trim()),
            "{way:?}: {prompt:.200} became {:.300?}",
            seen.prompts()
        );
    }
    for (prompt, _, classes) in FAILURES {
        if way.hides(prompt) {
            continue;
        }
        match talk.say(prompt).end {
            Ok(end) => panic!("{way:?} {prompt}: {end:?}"),
            Err(error) => assert!(
                classes.contains(&error.class().as_str()),
                "{way:?} {prompt}: {error:?}"
            ),
        }
    }
    assert_eq!(talk.say("hello").text, "You said: hello", "{way:?}");
    talk.close();
}

/// Returns the provider of a way that uses ACP.
fn acp_provider(direct: &Direct, way: Way) -> Provider {
    let home = |name| direct.sandbox.home().join(name);
    let adapter = |cli| Some(direct.sandbox.cli_command(cli).get_program().into());
    let settings = |cli| ProviderSettings {
        transports: vec!["acp".to_owned()],
        ..direct.settings(cli)
    };
    let host = direct.host();
    match way.provider {
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
        name => segue_agents::acp_provider(
            &ProviderId::parse(name).unwrap(),
            &ProviderSettings {
                args: vec!["acp".to_owned()],
                ..settings(SandboxCli::Opencode)
            },
            &host,
        ),
    }
}

/// Makes a module for each way, with a test for each of its scenes.
macro_rules! scenes {
    ($($way:ident: $provider:literal $transport:literal, $($scene:ident)+;)+) => {
        $(mod $way {
            use super::Way;

            const WAY: Way = Way { provider: $provider, transport: $transport };

            $(#[test]
            #[ignore = "runs the real CLIs: cargo xtask test"]
            fn $scene() {
                super::$scene(WAY);
            })+
        })+
    };
}

scenes! {
    // `claude_provider` checks prompts and failures of this one more closely.
    claude_stream_json: "claude" "stream-json",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once;
    claude_acp: "claude" "acp",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once
        takes_any_prompt_and_survives_failures;
    codex_app_server: "codex" "app-server",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once
        takes_any_prompt tells_failures_apart;
    codex_exec: "codex" "exec",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once
        takes_any_prompt tells_failures_apart;
    codex_acp: "codex" "acp",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once
        takes_any_prompt tells_failures_apart;
    gemini_acp: "gemini" "acp",
        converses continues_what_was_begun_elsewhere keeps_to_the_policy serves_two_at_once
        takes_any_prompt_and_survives_failures;
    // `gemini_provider` checks prompts, failures and permissions of these two more closely.
    gemini_stream_json: "gemini" "stream-json",
        converses continues_what_was_begun_elsewhere serves_two_at_once;
    gemini_json: "gemini" "json",
        converses continues_what_was_begun_elsewhere serves_two_at_once;
    // Stands for any other agent.
    opencode_acp: "acp:opencode" "acp",
        converses keeps_to_the_policy takes_any_prompt_and_survives_failures;
}
