//! Agents that fail in every way: a clear error, the right exit code, nothing lost, no process left behind.

use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::Value;

use crate::world;

/// Reads events up to the first of this kind.
fn until(events: &mut segue_testkit::Events, kind: &str) -> Value {
    loop {
        let event = events
            .next_event()
            .unwrap_or_else(|| panic!("no {kind} came"));
        if event["event"] == kind {
            return event;
        }
    }
}

#[test]
fn an_agent_that_dies_in_the_middle_of_a_turn() {
    let world = world();
    assert_snapshot!(world.segue(["chat", "rehearse: say half an; open-tool; die"]), @r#"
    half an
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    error: the agent went away before it was done with the prompt (killed by signal 6)
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    assert_snapshot!(world.segue(["session", "show", "latest"]), @r#"
    rehearse: say half an; open-tool; die
    [SESSION] · rehearsal · 4 message(s), 1 turn(s)

    ── turn 1 · failed ─────────────────────────────────────────────────────────────
    you
      rehearse: say half an; open-tool; die
    rehearsal
      half an
      ▸ Read notes.txt {"path":"notes.txt"}
    tool
      ✗ The turn was interrupted before this call ended; whether it took effect is unknown.
      (interrupted: true)
      the agent went away before it was done with the prompt (killed by signal 6)
    --- exit 0
    "#);
    let turn = world.json(["chat", "--json", "--now", "--continue", "are you there?"]);
    assert_eq!(turn["stop"], "finished");
    assert_eq!(turn["opened"], "resumed");
    world.assert_nothing_runs();
}

#[test]
fn an_agent_that_answers_with_an_error() {
    let world = world();
    assert_snapshot!(world.segue(["chat", "rehearse: say so far; fail the model is on holiday"]), @r#"
    so far
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    error: the agent answered the prompt with an error: the model is on holiday
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    assert_snapshot!(world.segue(["chat", "--json", "rehearse: fail \u{1b}[31mno"]), @r#"
    {"session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":["using rehearsal, the agent last used in this project"],"error":{"class":"agent_error","message":"the agent answered the prompt with an error: \u001b[31mno","hint":"what was said is kept; go on with: segue chat --resume [SESSION] \"…\"","hints":["what was said is kept; go on with: segue chat --resume [SESSION] \"…\""],"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 3
    "#);
    assert_snapshot!(world.segue(["chat", "rehearse: dance"]), @r#"
    --- stderr
    segue: using rehearsal, the agent last used in this project
    error: the agent answered the prompt with an error: Invalid params: rehearsal does not know the step "dance"
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    world.assert_nothing_runs();
}

#[test]
fn an_agent_that_closes_its_output_in_the_middle_of_a_line() {
    let world = world();
    let start = Instant::now();
    assert_snapshot!(world.segue(["chat", "rehearse: say before; half-line"]), @r#"
    before
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    segue: the agent printed something that is not the protocol: "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"[NATIVE]\",\"update"
    error: the agent went away before it was done with the prompt (it closed its output)
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    assert!(start.elapsed() < Duration::from_secs(20));
    world.assert_nothing_runs();
}

#[test]
fn an_agent_that_never_answers_initialize() {
    let world = world();
    let chat = |args: &[&str]| {
        let mut command = world.command(["chat", "--open-timeout", "0.5"]);
        command.args(args).env("SEGUE_REHEARSAL_FAULT", "silent");
        segue_testkit::Output::from(&command.output().unwrap(), &world)
    };
    assert_snapshot!(chat(&["precious words"]), @r#"
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    error: the agent gave no answer to initialize within 0.5 s
    hint: give it longer: segue chat --resume [SESSION] --open-timeout 120 --timeout 3600 "…"
    --- exit 3
    "#);
    // What was typed is not lost.
    assert_snapshot!(world.segue(["session", "show", "latest"]), @"
    precious words
    [SESSION] · rehearsal · 1 message(s), 1 turn(s)

    ── turn 1 · failed ─────────────────────────────────────────────────────────────
    you
      precious words
      the agent gave no answer to initialize within 0.5 s
    --- exit 0
    ");
    let turn = world.json(["chat", "--json", "--now", "--continue", "better now?"]);
    assert_eq!(turn["stop"], "finished");
    world.assert_nothing_runs();
}

#[test]
fn an_agent_that_exits_at_once() {
    let world = world();
    let mut command = world.command(["chat", "hi"]);
    let output = command
        .env("SEGUE_REHEARSAL_FAULT", "exit")
        .output()
        .unwrap();
    assert_snapshot!(segue_testkit::Output::from(&output, &world), @r#"
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other was found on this machine
    rehearsal wrote to its error output:
      error: rehearsal: told to exit at once
    error: the agent went away before it was done with initialize (exit code 1)
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    world.assert_nothing_runs();
}

#[test]
fn an_agent_with_grandchildren_that_ignore_requests_to_end() {
    let world = world();
    let turn = world.json([
        "chat",
        "--json",
        "rehearse: grandchild; grandchild; say started",
    ]);
    assert_eq!(turn["stop"], "finished");
    world.assert_nothing_runs();
    // The same when the agent dies, and when segue does.
    let output = world.segue(["chat", "rehearse: grandchild; die"]);
    assert!(output.stderr.contains("(killed by signal 6)"), "{output}");
    world.assert_nothing_runs();
    let mut events = world.events(["rehearse: grandchild; say started; hang"]);
    until(&mut events, "text");
    assert!(world.processes().len() >= 3, "{:?}", world.processes());
    let _ = events.kill();
    world.assert_nothing_runs();
}

#[test]
fn a_leash_that_is_killed_ends_the_turn_and_leaves_nothing_behind() {
    let world = world();
    let mut events = world.events(["rehearse: say go; hang"]);
    until(&mut events, "text");
    let leash = world
        .processes()
        .into_iter()
        .find(|process| process.contains(" leash --lifeline"))
        .unwrap();
    let pid = leash.split_once(':').unwrap().0.parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let result = until(&mut events, "result");
    assert_eq!(
        (&result["stop"], &result["text"]),
        (&"failed".into(), &"go".into())
    );
    assert_eq!(result["error"]["class"], "crashed");
    assert_eq!(events.wait(), Some(3));
    world.assert_nothing_runs();
}

#[test]
fn a_directory_that_is_gone_is_named() {
    let world = world();
    let gone = world.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let chat = world
        .command(["chat", "hi"])
        .current_dir(&gone)
        .output()
        .unwrap();
    assert!(chat.status.success());
    std::fs::remove_dir(&gone).unwrap();
    let id = world.json(["session", "list", "--all", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_snapshot!(world.segue(["chat", "--resume", &id, "hi"]), @"
    --- stderr
    error: the session's directory [WORLD]/gone is not there
    hint: make it again, or branch off into the directory you are in with `segue session fork [SESSION]`
    --- exit 1
    ");
    assert_eq!(
        world.json(["session", "info", "--json", &id])["session"]["turns"],
        1
    );
    // A fork goes on where one can be.
    let fork = world.json(["session", "fork", "--json", &id]);
    assert_eq!(fork["cwd"], world.project().to_str().unwrap());
}

#[test]
fn a_message_of_fifty_megabytes() {
    let world = world();
    let turn = world.json(["chat", "--json", "rehearse: say first; big 50mb"]);
    let text = turn["text"].as_str().unwrap();
    assert_eq!(text.len(), "first".len() + 50_000_000);
    let shown = world.json(["session", "show", "--json", "latest"]);
    let parts = &shown["turns"][0]["messages"][1]["parts"];
    assert_eq!(parts[0]["text"].as_str().unwrap().len(), text.len());
    let next = world.json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(next["stop"], "finished");
    world.assert_nothing_runs();
}

#[test]
fn an_interrupt_asks_the_agent_to_stop_and_keeps_what_it_said() {
    let world = world();
    let mut events = world.events(["rehearse: say some words; hang"]);
    until(&mut events, "text");
    events.signal(Signal::INT);
    let result = until(&mut events, "result");
    assert_eq!(
        (&result["stop"], &result["error"]),
        (&"cancelled".into(), &Value::Null)
    );
    assert_eq!(result["text"], "some words");
    assert_eq!(events.wait(), Some(130));
    let turn = world.json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(turn["opened"], "resumed");
    world.assert_nothing_runs();
}

#[test]
fn one_request_to_terminate_is_enough() {
    let world = world();
    let mut events = world.events(["rehearse: say some words; hang"]);
    until(&mut events, "text");
    events.signal(Signal::TERM);
    assert_eq!(until(&mut events, "result")["stop"], "cancelled");
    assert_eq!(events.wait(), Some(130));
    let shown = world.json(["session", "show", "--json", "latest"]);
    assert_eq!(shown["turns"][0]["messages"][1]["complete"], false);
    world.assert_nothing_runs();
}

#[test]
fn the_agents_last_words_reach_a_program_as_well() {
    let world = world();
    let mut command = world.command(["chat", "--json", "hi"]);
    let output = command
        .env("SEGUE_REHEARSAL_FAULT", "exit")
        .output()
        .unwrap();
    let turn: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(turn["error"]["class"], "crashed");
    assert_eq!(
        turn["error"]["stderr"],
        "error: rehearsal: told to exit at once"
    );
    let shown = world.json(["session", "show", "--json", "latest"]);
    assert_eq!(
        shown["turns"][0]["error"]["stderr"],
        turn["error"]["stderr"]
    );
}

#[test]
fn a_reader_that_does_not_read_holds_no_turn_up() {
    let world = world();
    let mut command = world.command(["chat", "rehearse: big 1mb; say done"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The pipe is full and nobody empties it; the turn is over all the same.
    for _ in 0..100 {
        let list = world.json(["session", "list", "--json"]);
        if list[0]["status"] == "idle" && list[0]["turns"] == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let shown = world.json(["session", "show", "--json", "latest"]);
    assert_eq!(shown["turns"][0]["state"], "finished");
    // Nor does it keep a process that is told to end.
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    world.assert_nothing_runs();
}

#[test]
fn an_interrupt_while_the_agent_starts_ends_it() {
    let world = world();
    let mut command = world.command(["chat", "--events", "hi"]);
    command
        .env("SEGUE_REHEARSAL_FAULT", "silent")
        .stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(
        world.processes().is_empty(),
        "the agent is gone before segue is: {:?}",
        world.processes()
    );
    // The prompt was never sent, and so is no turn; it is not lost either.
    let shown = world.json(["session", "info", "--json", "latest"]);
    assert_eq!(shown["session"]["turns"], 0);
    let log = shown["decisions"].to_string();
    assert!(
        log.contains(r#"before the prompt was sent: \"hi\""#),
        "{log}"
    );
}

#[test]
fn a_native_session_that_is_gone_is_replaced_by_one_that_knows_the_story() {
    let world = world();
    let first = world.json(["chat", "--json", "the password is swordfish"]);
    let native = first["native_session_id"].as_str().unwrap();
    std::fs::remove_file(world.home().join(format!("rehearsal/{native}.jsonl"))).unwrap();
    let turn = world.json(["chat", "--json", "--continue", "what was it?"]);
    assert_eq!(
        (&turn["opened"], turn["leg"].as_u64()),
        (&"briefed".into(), Some(2))
    );
    let native = turn["native_session_id"].as_str().unwrap();
    let told =
        std::fs::read_to_string(world.home().join(format!("rehearsal/{native}.jsonl"))).unwrap();
    assert!(told.contains("> the password is swordfish"), "{told}");
    assert_snapshot!(turn["decisions"][1].as_str().unwrap().replace(first["native_session_id"].as_str().unwrap(), "[NATIVE]"), @"started a new native session and told it the story so far: the agent could not go on with its own session (the agent answered session/load with an error: session not found: [NATIVE])");
    let legs = world.json(["session", "info", "--json", "latest"])["legs"].clone();
    assert_eq!(legs[0]["ended_why"], "lost");
}

#[test]
fn an_agent_that_lies_about_what_it_can_do() {
    let world = world();
    let chat = |args: &[&str]| {
        let mut command = world.command(["chat", "--json"]);
        command.args(args).env("SEGUE_REHEARSAL_FAULT", "liar");
        serde_json::from_slice::<serde_json::Value>(&command.output().unwrap().stdout).unwrap()
    };
    let first = chat(&["the password is swordfish"]);
    let id = first["session_id"].as_str().unwrap();
    let strict = chat(&["--resume", id, "--strict", "what was it?"]);
    assert_eq!(strict["error"]["class"], "session_unknown", "{strict:#}");
    let second = chat(&["--resume", id, "what was it?"]);
    assert_eq!(
        (&second["opened"], &second["stop"]),
        (&"briefed".into(), &"finished".into()),
        "{second:#}"
    );
    let why = second["opened_why"].as_str().unwrap();
    assert!(why.contains("Method not found"), "{why}");
    // What it can do is what it did, not what it said.
    let mut doctor = world.command(["doctor", "--json"]);
    doctor.env("SEGUE_REHEARSAL_FAULT", "liar");
    let doctor = doctor.output().unwrap().stdout;
    let doctor: serde_json::Value = serde_json::from_slice(&doctor).unwrap();
    let providers = doctor["providers"].as_array().unwrap();
    let rehearsal = providers.iter().find(|agent| agent["name"] == "rehearsal");
    assert_eq!(
        rehearsal.unwrap()["capabilities"]["list"],
        serde_json::Value::Null
    );
}

#[test]
fn an_agent_that_sends_very_many_updates() {
    let world = world();
    let count = std::env::var("SEGUE_UPDATES").map_or(20_000, |count| count.parse().unwrap());
    let words: Vec<String> = (0..count).map(|n: u32| n.to_string()).collect();
    let words = words.join(" ");
    let script = format!("rehearse: garbage; unknown; say {words}; unknown; garbage");
    let turn = world.segue_with_input(["chat", "--json", "-"], script.as_bytes());
    let turn: serde_json::Value = serde_json::from_str(&turn.raw_stdout).unwrap();
    assert_eq!(turn["stop"], "finished");
    assert_eq!(turn["text"].as_str().unwrap().trim(), words.trim());
}
