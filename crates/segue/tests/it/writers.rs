//! Eight processes write to one store, four of them to one session.

use std::collections::BTreeSet;
use std::time::Duration;

use segue_testkit::World;

use crate::world;

const TURNS: usize = 10;

/// Makes a turn in a session, as often as it takes until no other process is at work in it.
fn turn(world: &World, id: &str, prompt: &str) {
    for _ in 0..2000 {
        let output = world.segue(["chat", "--resume", id, prompt]);
        assert!(
            !output.stderr.contains("locked") && !output.stderr.contains("busy"),
            "{output}"
        );
        match output.code {
            Some(0) => {
                assert!(
                    output.stdout.starts_with(&format!("You said: {prompt}\n")),
                    "{output}"
                );
                return;
            }
            Some(1) => assert!(
                output.stderr.contains("is in use by process [PID] on "),
                "{output}"
            ),
            _ => panic!("{output}"),
        }
        std::thread::sleep(Duration::from_millis(15));
    }
    panic!("the session {id} never came free");
}

fn new_session(world: &World) -> String {
    world.json(["chat", "--json", "start"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn no_update_is_lost_and_no_turn_is_interleaved() {
    let world = world();
    let shared = new_session(&world);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (world, shared) = (&world, &shared);
            scope.spawn(move || {
                let id = if writer < 4 {
                    shared.clone()
                } else {
                    new_session(world)
                };
                for n in 0..TURNS {
                    turn(world, &id, &format!("writer {writer} turn {n}"));
                }
            });
        }
    });
    let list = world.json(["session", "list", "--json"]);
    let mut prompts = BTreeSet::new();
    for session in list.as_array().unwrap() {
        let shown = world.json(["session", "show", "--json", session["id"].as_str().unwrap()]);
        for turn in shown["turns"].as_array().unwrap() {
            assert_eq!(turn["state"], "finished");
            let messages = turn["messages"].as_array().unwrap();
            assert_eq!(
                messages.len(),
                2,
                "a turn holds its own prompt and answer, and nothing else"
            );
            let text = |n: usize| messages[n]["parts"][0]["text"].as_str().unwrap().to_owned();
            assert!(text(1).starts_with(&format!("You said: {}\n", text(0))));
            prompts.insert(text(0));
        }
    }
    assert_eq!(prompts.len(), 8 * TURNS + 1);
    let shown = world.json(["session", "show", "--json", &shared]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 4 * TURNS + 1);
    world.assert_nothing_runs();
}

#[test]
fn fifty_processes_make_one_store() {
    let world = world();
    std::thread::scope(|scope| {
        for n in 0..50 {
            let world = &world;
            scope.spawn(move || {
                let output = world.segue(["chat", &format!("first words {n}")]);
                assert_eq!(output.code, Some(0), "{output}");
            });
        }
    });
    assert_eq!(
        crate::count_sessions(&world),
        20,
        "a list shows twenty unless asked for more"
    );
    let all = world.json(["session", "list", "--json", "--limit", "0"]);
    assert_eq!(all.as_array().unwrap().len(), 50);
}

#[test]
fn a_session_in_use_says_by_whom_and_can_be_read() {
    let world = world();
    let mut events = world.events(["rehearse: say busy; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let attempts: [&[&str]; 5] = [
        &["chat", "--continue", "me too"],
        &["session", "revert", "latest", "--to", "1"],
        &["session", "undo", "latest"],
        &["session", "delete", "latest", "--yes"],
        &["session", "forget", "latest", "--yes"],
    ];
    let told = [
        "session [SESSION] is in use by process [PID] on ",
        "hint: it has been at work there since [TIME] UTC (",
        "); wait until it is done, or end it\n",
    ];
    for args in attempts {
        let output = world.segue(args.iter().copied());
        assert_eq!(output.code, Some(1), "{output}");
        // Nothing was said before.
        assert!(!output.stderr.contains("fork"), "{output}");
        for told in told {
            assert!(
                output.stderr.contains(told),
                "{args:?}: {told:?} in {output}"
            );
        }
    }
    let info = world.json(["session", "info", "--json", "latest"]);
    assert_eq!(info["session"]["status"], "running");
    assert!(info["held_by"]["pid"].is_u64());
    for args in [
        &["chat", "--json", "--continue", "me too"][..],
        &["session", "undo", "--json", "latest"],
    ] {
        let output = world.segue(args.iter().copied());
        let refused: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
        assert_eq!(refused["error"]["held_by"], info["held_by"], "{output}");
        assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 1);
        if args[0] == "chat" {
            assert_eq!(refused["session_id"], info["session"]["id"]);
            assert_eq!(refused["provider"], info["session"]["provider"]);
            assert!(refused["turn"].is_null());
        }
    }
    let list = world.segue(["session", "list"]);
    assert!(list.stdout.contains("(running)"), "{list}");
    let _ = events.kill();
    let list = world.segue(["session", "list"]);
    assert!(list.stdout.contains("(interrupted)"), "{list}");
    let mut events = world.events(["--continue", "rehearse: say busy; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let output = world.segue(["chat", "--continue", "me too"]);
    let fork = "hint: `segue session fork [SESSION]` branches off from what was said before";
    assert!(output.stderr.contains(fork), "{output}");
    let output = world.segue(["chat", "--json", "--continue", "me too"]);
    let refused: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 2);
    let _ = events.kill();
    world.assert_nothing_runs();
}

#[test]
fn a_store_that_is_being_made_is_not_taken_for_damaged() {
    for _ in 0..15 {
        let world = world();
        std::thread::scope(|scope| {
            for _ in 0..5 {
                let world = &world;
                scope.spawn(move || {
                    let output = world.segue(["session", "list", "--all"]);
                    assert_eq!(output.code, Some(0), "{output}");
                });
            }
        });
    }
}
