//! A summariser reads what was summed up: `session compact --summariser`, `compaction.summariser`, and in the background
//! of a `repl`.

use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use insta::assert_snapshot;
use segue_testkit::World;
use serde_json::Value;

use crate::count_sessions;
use crate::policy::with_second;

/// A session of two turns; its id.
fn session(world: &World) -> String {
    let first = world.json([
        "chat",
        "-p",
        "rehearsal",
        "--json",
        "Port the cache to Rust.",
    ]);
    let id = first["session_id"].as_str().unwrap().to_owned();
    let next = world.segue(["chat", "--resume", &id, "Look at the lexer in detail."]);
    assert_eq!(next.code, Some(0), "{next}");
    id
}

#[test]
fn what_is_summed_up_is_read_by_whom_one_names() {
    let world = with_second("");
    let id = session(&world);
    let output = world.segue(["session", "compact", &id, "--summariser", "acp:second"]);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output
            .stderr
            .contains("segue: acp:second added 1 statement(s) to checkpoint 1: checkpoint 2 has "),
        "{output}"
    );
    world.assert_nothing_runs();
    // It is read once, and not without being asked for.
    let again = world.json([
        "session",
        "compact",
        &id,
        "--json",
        "--summariser",
        "acp:second",
    ]);
    assert_eq!(
        (&again["version"], &again["summary"]),
        (&Value::Null, &Value::Null)
    );
    // Nobody lists the summariser's own session, and nobody goes on with it.
    assert_eq!(count_sessions(&world), 1);
    let next = world.json([
        "chat",
        "-p",
        "acp:second",
        "--continue",
        "--json",
        "and you?",
    ]);
    assert_eq!(next["turn"], 1, "{next:#}");
    // Whoever goes on is told what it said.
    let told = world.json(["session", "preview", &id, "--json"]);
    let told = told["system_prompt"].as_str().unwrap();
    assert!(
        told.contains("> Under way:\n> - [2] Look at the lexer in detail.\n"),
        "{told}"
    );
}

#[test]
fn what_one_adds_to_an_old_checkpoint_is_a_change() {
    let world = with_second("");
    let id = session(&world);
    let _ = world.json(["session", "compact", &id, "--json"]);
    let output = world.segue(["session", "compact", &id, "--summariser", "acp:second"]);
    assert!(output.stderr.contains("checkpoint 2 has "), "{output}");
    assert!(!output.stdout.contains("no changes made"), "{output}");
}

#[test]
fn one_that_is_not_there_is_told_before_anything_changes() {
    let world = with_second("");
    let id = session(&world);
    assert_snapshot!(world.segue(["session", "compact", &id, "--summariser", "claude"]), @"
    --- stderr
    error: claude can't sum up: it is not on this machine
    hint: `segue doctor` shows which agents can be started; `--summariser none` does without
    --- exit 2
    ");
    assert_snapshot!(world.segue(["session", "compact", &id, "--summariser", "a b"]), @"
    --- stderr
    error: invalid value 'a b' for '--summariser <AGENT>': a provider name may not contain ' '

    For more information, try '--help'.
    --- exit 2
    ");
    let dry = world.json(["session", "compact", &id, "--dry-run", "--json"]);
    assert_eq!(dry["turns"], 2, "{dry:#}");
}

#[test]
fn the_configuration_names_one_and_the_command_line_another() {
    let world = with_second("[compaction]\nsummariser = \"acp:second\"\n");
    let id = session(&world);
    let without = world.json(["session", "compact", &id, "--json", "--summariser", "none"]);
    assert_eq!(
        (&without["version"], &without["summary"]),
        (&1.into(), &Value::Null)
    );
    // One turn by itself asks nobody.
    let chat = world.segue(["chat", "--resume", &id, "Now the parser."]);
    assert!(!chat.stderr.contains("acp:second"), "{chat}");
    let read = world.json(["session", "compact", &id, "--json"]);
    assert_eq!(read["version"], 2, "{read:#}");
    let summary = &read["summary"];
    assert_eq!(
        (&summary["provider"], &summary["version"]),
        (&"acp:second".into(), &3.into()),
        "{read:#}"
    );
    assert!(
        summary["told"]
            .as_str()
            .unwrap()
            .starts_with("acp:second added 1 statement(s)")
    );
}

#[test]
fn a_repl_has_it_read_while_one_goes_on() {
    let world = with_second("[compaction]\nsummariser = \"acp:second\"\n");
    let mut repl = world
        .command(["repl", "-p", "rehearsal"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = repl.stdin.take().unwrap();
    let mut errors = repl.stderr.take().unwrap();
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = {
        let heard = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut some = [0; 1024];
            while let Ok(length @ 1..) = errors.read(&mut some) {
                let words = String::from_utf8_lossy(&some[..length]);
                heard.lock().unwrap().push_str(&words);
            }
        })
    };
    let mut type_in = |line: &str| writeln!(input, "{line}").unwrap();
    type_in("Port the cache to Rust.");
    type_in("/compact");
    // It is taken up between two prompts, whenever it is there.
    for n in 0..300 {
        type_in(&format!("go on, {n}"));
        std::thread::sleep(Duration::from_millis(100));
        if heard
            .lock()
            .unwrap()
            .contains("acp:second added 1 statement(s) to checkpoint 1")
        {
            break;
        }
    }
    drop(input);
    assert!(repl.wait().unwrap().success());
    listener.join().unwrap();
    let heard = heard.lock().unwrap();
    assert_eq!(
        heard.matches("acp:second added 1 statement(s)").count(),
        1,
        "{heard}"
    );
    world.assert_nothing_runs();
}

#[test]
fn a_repl_does_not_wait_for_one_that_never_answers() {
    let settings = "[compaction]\nsummariser = \"acp:mute\"\n[acp.mute]\npath = \"sleep\"\nargs = [\"3600\"]\n";
    let world = with_second(settings);
    let lines = "Port the cache to Rust.\n/compact\ngo on\n/session\n";
    let output = world.segue_with_input(["repl", "-p", "rehearsal"], lines.as_bytes());
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("You said: go on"), "{output}");
    assert!(!output.stderr.contains("acp:mute"), "{output}");
    world.assert_nothing_runs();
}
