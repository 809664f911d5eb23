//! What every provider must do, by every way to talk to it: the same scenes for all.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use rustix::process::Signal;
use segue_testkit::model::{Call, Failure, Reply, Script};
use segue_testkit::sandbox::Sandbox;
use serde_json::{Value, json};

use crate::stage::{Following, Stage, Way};

/// A turn, and a second one that the model sees in one conversation; again after everything was killed.
fn converses(way: Way) {
    let slow = Reply::say("counting one two three four five six seven eight nine")
        .pace(Duration::from_millis(400));
    let stage = Stage::new(way, Script::new().on("count", [slow]));
    let first = stage.says(&["my favourite colour is teal"]);
    assert_eq!(first["opened"], "fresh", "{first:#}");
    assert_eq!(first["text"], "You said: my favourite colour is teal");
    assert_eq!(first["provider"], way.provider);
    let id = first["session_id"].as_str().unwrap();
    stage.wait_for_another_minute();

    let second = stage.says(&["--resume", id, "and my name is Ada"]);
    assert_goes_on(&stage, &first, &second);
    let seen = stage.sandbox.model().turns().pop().unwrap();
    assert!(seen.contains("teal"), "{way:?}: {:#?}", seen.prompts());
    assert_figures(way, &first, &second);

    // segue and everything of its is killed in the middle of an answer.
    let mut turn = stage.follow(&["--resume", id, "count"]);
    await_the_middle(&stage, &mut turn, 3);
    turn.signal(Signal::KILL);
    turn.wait();
    stage.assert_nothing_runs();

    let last = stage.says(&["--resume", id, "what do you know of me?"]);
    let seen = stage.sandbox.model().turns().pop().unwrap();
    for told in ["teal", "my name is Ada", "what do you know of me?"] {
        assert!(seen.contains(told), "{way:?}: {told} in {seen:#?}");
    }
    assert_ne!(last["opened"], "fresh", "{last:#}");
    stage.assert_nothing_left();
}

/// Waits until an answer has begun: the first words of it, or the request of this number to the model.
fn await_the_middle(stage: &Stage, turn: &mut Following, request: usize) {
    if stage.way.streams() {
        turn.until("text");
        return;
    }
    turn.until("opened");
    let model = stage.sandbox.model();
    assert!(model.wait_for_turns(request, Duration::from_mins(1)));
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
    stage.wait_for_another_minute();
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
    let seen = stage.sandbox.model().turns().pop().unwrap();
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

/// An id that nobody knows is refused, and nothing is started; one that is lost is told apart.
fn refuses_the_unknown(way: Way) {
    let stage = Stage::new(way, Script::new());
    let nobody = stage.run(&[
        "chat",
        "--json",
        "--resume",
        "5f1c2d3e-0000-4000-8000-00000000abcd",
        "x",
    ]);
    assert_eq!(nobody.code, Some(1), "{nobody:#?}");
    assert!(stage.sandbox.model().turns().is_empty());

    let first = stage.says(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    stage.lose(first["native_session_id"].as_str().unwrap());
    let asked = stage.sandbox.model().turns().len();
    let strict = stage.chat(&["--resume", id, "--strict", "still there?"]);
    assert_eq!(
        strict["error"]["class"], "session_unknown",
        "{way:?}: {strict:#}"
    );
    assert_eq!(
        stage.sandbox.model().turns().len(),
        asked,
        "nothing was asked"
    );

    let briefed = stage.says(&["--resume", id, "which colour?"]);
    assert_eq!(briefed["opened"], "briefed", "{way:?}: {briefed:#}");
    assert_ne!(briefed["native_session_id"], first["native_session_id"]);
    let seen = stage.sandbox.model().turns().pop().unwrap();
    assert!(seen.contains("teal"), "{seen:#?}");
    stage.assert_nothing_left();
}

/// A tool call that is allowed has its effect, and one that is not has none.
fn keeps_to_the_policy(way: Way) {
    let stage = Stage::of(
        way,
        Sandbox::with(|project| {
            let touch =
                |name: &str| Call::shell(&format!("touch {}", project.join(name).display()));
            Script::new()
                .on(
                    "make yes",
                    [Reply::calling(touch("yes")), Reply::say("made yes")],
                )
                .on(
                    "make no",
                    [Reply::calling(touch("no")), Reply::say("tried no")],
                )
        }),
    );
    let denied = stage.chat(&["--permissions", "deny", "make no"]);
    assert_eq!(stage.project_files(), ["README.md"], "{way:?}: {denied:#}");
    let allowed = stage.says(&["--permissions", "allow-all", "make yes"]);
    assert_eq!(
        stage.project_files(),
        ["README.md", "yes"],
        "{way:?}: {allowed:#}"
    );
    if way.asks() {
        let decided = |turn: &Value, what: &str| turn["decisions"].to_string().contains(what);
        assert!(decided(&denied, "refused"), "{way:?}: {denied:#}");
        assert!(decided(&allowed, "allowed"), "{way:?}: {allowed:#}");
        // Nobody is there to be asked, so by default it is refused.
        let asked = stage.chat(&["make no"]);
        assert!(
            decided(&asked, "since nobody answered"),
            "{way:?}: {asked:#}"
        );
    }
    assert_eq!(stage.project_files(), ["README.md", "yes"], "{way:?}");
    fs::remove_file(stage.sandbox.project().join("yes")).unwrap();
    stage.assert_nothing_left();
}

/// A turn is stopped in the middle, what came is kept, and the conversation goes on.
fn stops_and_goes_on(way: Way) {
    let slow = Reply::say("counting one two three four five six seven eight nine ten")
        .pace(Duration::from_millis(500));
    let stage = Stage::new(way, Script::new().on("count", [slow]));
    let first = stage.says(&["my favourite colour is teal"]);
    let id = first["session_id"].as_str().unwrap();
    stage.wait_for_another_minute();
    let mut turn = stage.follow(&["--resume", id, "count"]);
    await_the_middle(&stage, &mut turn, 2);
    turn.signal(Signal::INT);
    let (result, code) = turn.end();
    assert_eq!(
        (&result["stop"], code),
        (&json!("cancelled"), Some(130)),
        "{way:?}: {result:#}"
    );
    if way.streams() {
        assert!(
            result["text"].as_str().unwrap().contains("counting"),
            "{result:#}"
        );
        assert!(
            !result["text"].as_str().unwrap().contains("ten"),
            "{result:#}"
        );
    }
    stage.wait_for_another_minute();
    let next = stage.says(&["--resume", id, "which colour?"]);
    let seen = stage.sandbox.model().turns().pop().unwrap();
    assert!(seen.contains("teal"), "{way:?}: {next:#}");
    stage.assert_nothing_left();
}

/// Every failure the model can have comes out as what it is, and never as an answer.
fn tells_failures_apart(way: Way) {
    let fail = |failure| [Reply::fail(failure)];
    let stage = Stage::new(
        way,
        Script::new()
            .on("case limit", fail(Failure::RateLimit { retry_after: 1 }))
            .on("case login", fail(Failure::Unauthorized))
            .on("case server", fail(Failure::Server))
            .on("case request", fail(Failure::BadRequest))
            .on("case long", fail(Failure::TooLong))
            .on("case cut", [Reply::say("It begins").failing(Failure::Cut)]),
    );
    let cases = [
        ("case limit", &["rate_limited", "quota"][..]),
        ("case login", &["not_logged_in"]),
        ("case server", &["agent_error"]),
        ("case request", &["agent_error"]),
        ("case long", &["context_too_long"]),
        ("case cut", &["agent_error", "crashed"]),
    ];
    for (prompt, classes) in cases {
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

/// The model names the session through segue's own tool, without anybody being asked.
fn is_named_by_the_model(way: Way) {
    let Some(tool) = way.own_tool("session_describe") else {
        return;
    };
    let call = Call::tool(&tool, json!({ "description": "Painting the shed teal" }));
    let stage = Stage::new(
        way,
        Script::new().on("name it", [Reply::calling(call), Reply::say("named")]),
    );
    stage.use_a_model_that_sees_all_tools();
    let result = stage.says(&["name it"]);
    let info = stage.run(&[
        "session",
        "info",
        "--json",
        result["session_id"].as_str().unwrap(),
    ]);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    assert_eq!(
        info["session"]["title"], "Painting the shed teal",
        "{way:?}: {result:#} {info:#}"
    );
    assert_eq!(info["session"]["title_from"], "model");
    stage.assert_nothing_left();
}

/// Two sessions at once do not get into each other's way.
fn serves_two_at_once(way: Way) {
    let reply = |text: &str| Reply::say(text).pace(Duration::from_millis(100));
    let stage = Stage::new(
        way,
        Script::new()
            .on("left", [reply("this is the left answer")])
            .on("right", [reply("this is the right answer")]),
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

/// Prompts arrive as they are, whatever they begin with and however long they are.
fn takes_any_prompt(way: Way) {
    // Repeating the long one would make a loop of the answer.
    let stage = Stage::new(way, Script::new().on("and the end", [Reply::say("read")]));
    let long = format!("{} and the end", "all work and no play ".repeat(10_000));
    for prompt in [
        "-h is a dash",
        "--help me",
        "\nfirst a line",
        "/init is no command",
        &long,
    ] {
        let mut command = stage.command(&["chat", "-p", way.provider, "--json", "--new", "-"]);
        let result = stage.finish_with(&mut command, prompt);
        assert_eq!(result["stop"], "finished", "{way:?}: {result:#}");
        let seen = stage.sandbox.model().turns().pop().unwrap();
        assert!(
            seen.contains(prompt.trim()),
            "{way:?}: {:.200?} became {:.300?}",
            prompt,
            seen.prompts()
        );
    }
    stage.assert_nothing_left();
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

/// The scenes of a way to talk to one of the three.
macro_rules! all_scenes {
    ($($way:ident: $provider:literal $transport:literal,)+) => {
        scenes! {
            $($way: $provider $transport,
                converses continues_what_was_begun_elsewhere refuses_the_unknown keeps_to_the_policy
                stops_and_goes_on tells_failures_apart is_named_by_the_model serves_two_at_once
                takes_any_prompt;)+
        }
    };
}

all_scenes! {
    claude_stream_json: "claude" "stream-json",
    claude_acp: "claude" "acp",
    codex_app_server: "codex" "app-server",
    codex_exec: "codex" "exec",
    codex_acp: "codex" "acp",
    gemini_acp: "gemini" "acp",
    gemini_stream_json: "gemini" "stream-json",
    gemini_json: "gemini" "json",
}

// Any other agent; this one takes half a minute to start where there is no network.
scenes! {
    opencode_acp: "acp:opencode" "acp",
        converses refuses_the_unknown keeps_to_the_policy is_named_by_the_model takes_any_prompt;
}
