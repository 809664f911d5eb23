//! Failing agents: each failure gives a clear error and the right exit code, loses no data and leaves no process.

use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::Value;

use crate::new_test_home;

/// Reads events up to the first one of this kind and returns it.
fn read_until_event(events: &mut segue_testkit::ChatProcess, kind: &str) -> Value {
    loop {
        let event = events
            .next_event()
            .unwrap_or_else(|| panic!("the turn ended before the event `{kind}`"));
        if event["event"] == kind {
            return event;
        }
    }
}

#[test]
fn an_agent_that_dies_mid_turn_fails_the_turn_and_can_be_resumed() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "rehearse: say half an; open-tool; die"]), @r#"
    half an
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    error: the agent stopped before it completed the prompt (killed by signal 6)
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    assert_snapshot!(home.run_segue(["session", "show", "latest"]), @r#"
    rehearse: say half an; open-tool; die
    [SESSION] · rehearsal · 4 messages, 1 turn

    ── turn 1 · failed ─────────────────────────────────────────────────────────────
    you
      rehearse: say half an; open-tool; die
    rehearsal
      half an
      ▸ Read notes.txt {"path":"notes.txt"}
    tool
      ✗ The turn was interrupted before this call ended; whether it took effect is unknown.
      (interrupted: true)
      the agent stopped before it completed the prompt (killed by signal 6)
    --- exit 0
    "#);
    let turn = home.run_segue_json(["chat", "--json", "--now", "--continue", "are you there?"]);
    assert_eq!(turn["stop"], "finished");
    assert_eq!(turn["opened"], "resumed");
    home.assert_no_processes();
}

#[test]
fn an_error_from_the_agent_fails_the_turn_with_its_message() {
    let home = new_test_home();
    assert_snapshot!(home.run_segue(["chat", "rehearse: say so far; fail the model is on holiday"]), @r#"
    so far
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    error: the agent answered the prompt with an error: the model is on holiday
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    assert_snapshot!(home.run_segue(["chat", "--json", "rehearse: fail \u{1b}[31mno"]), @r#"
    {"session_id":"[SESSION]","turn":1,"provider":"rehearsal","native_session_id":"[NATIVE]","leg":1,"opened":"fresh","opened_why":"a new session","opened_reason":{"type":"new_native","cause":{"type":"new_session"},"agent_message":null,"has_checkpoint":false,"omitted_turns":0},"text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":["using rehearsal, the agent last used in this project"],"decision_details":[{"kind":"provider","text":"using rehearsal, the agent last used in this project","decision":"provider_chosen","provider":"rehearsal","reason":"last_used_in_project"}],"error":{"class":"agent_error","message":"the agent answered the prompt with an error: \u001b[31mno","hint":"all messages so far are saved; resume the session with `segue chat --resume [SESSION] \"…\"`","hints":["all messages so far are saved; resume the session with `segue chat --resume [SESSION] \"…\"`"],"advice":{"hint":"resume","session":"[SESSION]"},"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 3
    "#);
    assert_snapshot!(home.run_segue(["chat", "rehearse: dance"]), @r#"
    --- stderr
    segue: using rehearsal, the agent last used in this project
    error: the agent answered the prompt with an error: Invalid params: unknown rehearsal step "dance"
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    home.assert_no_processes();
}

#[test]
fn an_agent_that_closes_its_output_mid_line_fails_the_turn() {
    let home = new_test_home();
    let start = Instant::now();
    assert_snapshot!(home.run_segue(["chat", "rehearse: say before; half-line"]), @r#"
    before
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    segue: the agent printed a line that is not part of the protocol: "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"[NATIVE]\",\"update"
    error: the agent stopped before it completed the prompt (closed its output)
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    assert!(start.elapsed() < Duration::from_secs(20));
    home.assert_no_processes();
}

#[test]
fn an_agent_that_never_answers_initialize_times_out() {
    let home = new_test_home();
    let run_chat = |args: &[&str]| {
        let mut command = home.segue_command(["chat", "--open-timeout", "0.5"]);
        command.args(args).env("SEGUE_REHEARSAL_FAULT", "silent");
        segue_testkit::ProgramOutput::from_std(&command.output().unwrap(), &home)
    };
    assert_snapshot!(run_chat(&["precious words"]), @r#"
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    error: the agent did not respond to initialize within 0.5 s
    hint: retry with longer timeouts: `segue chat --resume [SESSION] --open-timeout 120 --timeout 3600 "…"`
    --- exit 3
    "#);
    // The prompt is not lost.
    assert_snapshot!(home.run_segue(["session", "show", "latest"]), @"
    precious words
    [SESSION] · rehearsal · 1 message, 1 turn

    ── turn 1 · failed ─────────────────────────────────────────────────────────────
    you
      precious words
      the agent did not respond to initialize within 0.5 s
    --- exit 0
    ");
    let turn = home.run_segue_json(["chat", "--json", "--now", "--continue", "better now?"]);
    assert_eq!(turn["stop"], "finished");
    home.assert_no_processes();
}

#[test]
fn an_agent_that_exits_at_once_fails_the_turn_and_shows_its_stderr() {
    let home = new_test_home();
    let mut command = home.segue_command(["chat", "hi"]);
    let output = command
        .env("SEGUE_REHEARSAL_FAULT", "exit")
        .output()
        .unwrap();
    assert_snapshot!(segue_testkit::ProgramOutput::from_std(&output, &home), @r#"
    --- stderr
    segue: using rehearsal, the built-in offline agent: no other agent was found
    rehearsal wrote to standard error:
      error: the rehearsal agent failed: exited because of the start fault `exit`
    error: the agent stopped before it completed initialize (exit code 1)
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    home.assert_no_processes();
}

#[test]
fn grandchildren_that_ignore_termination_end_with_the_agent() {
    let home = new_test_home();
    let turn = home.run_segue_json([
        "chat",
        "--json",
        "rehearse: grandchild; grandchild; say started",
    ]);
    assert_eq!(turn["stop"], "finished");
    home.assert_no_processes();
    // The same applies if the agent dies, and if segue is killed.
    let output = home.run_segue(["chat", "rehearse: grandchild; die"]);
    assert!(output.stderr.contains("(killed by signal 6)"), "{output}");
    home.assert_no_processes();
    let mut events = home.start_chat(["rehearse: grandchild; say started; hang"]);
    read_until_event(&mut events, "text");
    assert!(home.processes().len() >= 3, "{:?}", home.processes());
    let _ = events.kill();
    home.assert_no_processes();
}

#[test]
fn a_killed_leash_ends_the_turn_and_leaves_no_process() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say go; hang"]);
    read_until_event(&mut events, "text");
    let leash = home
        .processes()
        .into_iter()
        .find(|process| process.contains(" leash --lifeline"))
        .unwrap();
    let pid = leash.split_once(':').unwrap().0.parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let result = read_until_event(&mut events, "result");
    assert_eq!(
        (&result["stop"], &result["text"]),
        (&"failed".into(), &"go".into())
    );
    assert_eq!(result["error"]["class"], "crashed");
    assert_eq!(events.wait(), Some(3));
    home.assert_no_processes();
}

#[test]
fn a_missing_session_directory_is_named_in_the_error() {
    let home = new_test_home();
    let removed_dir = home.path().join("removed");
    std::fs::create_dir(&removed_dir).unwrap();
    let chat = home
        .segue_command(["chat", "hi"])
        .current_dir(&removed_dir)
        .output()
        .unwrap();
    assert!(chat.status.success());
    std::fs::remove_dir(&removed_dir).unwrap();
    let id = home.run_segue_json(["session", "list", "--all", "--json"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_snapshot!(home.run_segue(["chat", "--resume", &id, "hi"]), @"
    --- stderr
    error: the session's directory [HOME]/removed no longer exists
    hint: recreate the directory, or run `segue session fork [SESSION]` to fork the session into the current directory
    --- exit 1
    ");
    assert_eq!(
        home.run_segue_json(["session", "info", "--json", &id])["session"]["turns"],
        1
    );
    // A fork uses the current directory.
    let fork = home.run_segue_json(["session", "fork", "--json", &id]);
    assert_eq!(fork["cwd"], home.project().to_str().unwrap());
}

#[test]
fn a_message_of_fifty_megabytes_is_stored_completely() {
    let home = new_test_home();
    let turn = home.run_segue_json(["chat", "--json", "rehearse: say first; big 50mb"]);
    let text = turn["text"].as_str().unwrap();
    assert_eq!(text.len(), "first".len() + 50_000_000);
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    let parts = &transcript["turns"][0]["messages"][1]["parts"];
    assert_eq!(parts[0]["text"].as_str().unwrap().len(), text.len());
    let next = home.run_segue_json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(next["stop"], "finished");
    home.assert_no_processes();
}

#[test]
fn an_interrupt_cancels_the_turn_and_saves_the_partial_answer() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say some words; hang"]);
    read_until_event(&mut events, "text");
    events.send_signal(Signal::INT);
    let result = read_until_event(&mut events, "result");
    assert_eq!(
        (&result["stop"], &result["error"]),
        (&"cancelled".into(), &Value::Null)
    );
    assert_eq!(result["text"], "some words");
    assert_eq!(events.wait(), Some(130));
    let turn = home.run_segue_json(["chat", "--json", "--continue", "go on"]);
    assert_eq!(turn["opened"], "resumed");
    home.assert_no_processes();
}

#[test]
fn a_single_sigterm_cancels_the_turn() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say some words; hang"]);
    read_until_event(&mut events, "text");
    events.send_signal(Signal::TERM);
    assert_eq!(read_until_event(&mut events, "result")["stop"], "cancelled");
    assert_eq!(events.wait(), Some(130));
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    assert_eq!(transcript["turns"][0]["messages"][1]["complete"], false);
    home.assert_no_processes();
}

#[test]
fn the_stderr_of_a_crashed_agent_is_in_the_json() {
    let home = new_test_home();
    let mut command = home.segue_command(["chat", "--json", "hi"]);
    let output = command
        .env("SEGUE_REHEARSAL_FAULT", "exit")
        .output()
        .unwrap();
    let turn: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(turn["error"]["class"], "crashed");
    assert_eq!(
        turn["error"]["stderr"],
        "error: the rehearsal agent failed: exited because of the start fault `exit`"
    );
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    assert_eq!(
        transcript["turns"][0]["error"]["stderr"],
        turn["error"]["stderr"]
    );
}

#[test]
fn a_stalled_reader_does_not_delay_the_turn() {
    let home = new_test_home();
    let mut command = home.segue_command(["chat", "rehearse: big 1mb; say done"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The turn ends even though the full pipe is not read.
    for _ in 0..100 {
        let list = home.run_segue_json(["session", "list", "--json"]);
        if list[0]["status"] == "idle" && list[0]["turns"] == 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let transcript = home.run_segue_json(["session", "show", "--json", "latest"]);
    assert_eq!(transcript["turns"][0]["state"], "finished");
    // A signal still ends the blocked process.
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    home.assert_no_processes();
}

#[test]
fn an_interrupt_during_agent_startup_ends_the_agent() {
    let home = new_test_home();
    let mut command = home.segue_command(["chat", "--events", "hi"]);
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
        home.processes().is_empty(),
        "segue exited before the agent: {:?}",
        home.processes()
    );
    // The prompt was not sent, so it is not a turn, but it is in the log.
    let info = home.run_segue_json(["session", "info", "--json", "latest"]);
    assert_eq!(info["session"]["turns"], 0);
    let log = info["decisions"].to_string();
    assert!(
        log.contains(r#"before the prompt was sent: \"hi\""#),
        "{log}"
    );
}

#[test]
fn a_missing_native_session_is_replaced_by_a_briefed_one() {
    let home = new_test_home();
    let first = home.run_segue_json(["chat", "--json", "the password is swordfish"]);
    let native = first["native_session_id"].as_str().unwrap();
    std::fs::remove_file(home.segue_home().join(format!("rehearsal/{native}.jsonl"))).unwrap();
    let turn = home.run_segue_json(["chat", "--json", "--continue", "what was it?"]);
    assert_eq!(
        (&turn["opened"], turn["leg"].as_u64()),
        (&"briefed".into(), Some(2))
    );
    let native = turn["native_session_id"].as_str().unwrap();
    let native_text =
        std::fs::read_to_string(home.segue_home().join(format!("rehearsal/{native}.jsonl")))
            .unwrap();
    assert!(
        native_text.contains("> the password is swordfish"),
        "{native_text}"
    );
    assert_snapshot!(turn["decisions"][1].as_str().unwrap().replace(first["native_session_id"].as_str().unwrap(), "[NATIVE]"), @"started a new native session with a brief of this session: the agent could not resume its native session (the agent answered session/load with an error: session not found: [NATIVE])");
    let legs = home.run_segue_json(["session", "info", "--json", "latest"])["legs"].clone();
    assert_eq!(legs[0]["ended_why"], "lost");
}

#[test]
fn an_agent_that_overstates_its_capabilities_gets_a_briefed_session() {
    let home = new_test_home();
    let run_chat = |args: &[&str]| {
        let mut command = home.segue_command(["chat", "--json"]);
        command.args(args).env("SEGUE_REHEARSAL_FAULT", "liar");
        serde_json::from_slice::<serde_json::Value>(&command.output().unwrap().stdout).unwrap()
    };
    let first = run_chat(&["the password is swordfish"]);
    let id = first["session_id"].as_str().unwrap();
    let strict = run_chat(&["--resume", id, "--strict", "what was it?"]);
    assert_eq!(strict["error"]["class"], "session_unknown", "{strict:#}");
    let second = run_chat(&["--resume", id, "what was it?"]);
    assert_eq!(
        (&second["opened"], &second["stop"]),
        (&"briefed".into(), &"finished".into()),
        "{second:#}"
    );
    let reason = second["opened_why"].as_str().unwrap();
    assert!(reason.contains("Method not found"), "{reason}");
    // `doctor` shows the observed capabilities, not the announced ones.
    let mut doctor = home.segue_command(["doctor", "--json"]);
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
fn a_turn_with_very_many_updates_has_the_complete_text() {
    let home = new_test_home();
    let count = std::env::var("SEGUE_UPDATES").map_or(20_000, |count| count.parse().unwrap());
    let words: Vec<String> = (0..count).map(|n: u32| n.to_string()).collect();
    let words = words.join(" ");
    let script = format!("rehearse: garbage; unknown; say {words}; unknown; garbage");
    let turn = home.run_segue_with_input(["chat", "--json", "-"], script.as_bytes());
    let turn: serde_json::Value = serde_json::from_str(&turn.raw_stdout).unwrap();
    assert_eq!(turn["stop"], "finished");
    assert_eq!(turn["text"].as_str().unwrap().trim(), words.trim());
}
