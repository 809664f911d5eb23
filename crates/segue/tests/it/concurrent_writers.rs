//! Eight processes write to one store, four of them to one session.

use std::collections::BTreeSet;
use std::time::Duration;

use segue_testkit::TestHome;

use crate::new_test_home;

const TURNS_PER_WRITER: usize = 10;

/// Runs a turn in a session and retries while another process has the lease.
fn run_turn_when_free(home: &TestHome, id: &str, prompt: &str) {
    for _ in 0..2000 {
        let output = home.run_segue(["chat", "--resume", id, prompt]);
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
    panic!("the lease of session {id} was never released");
}

fn create_session(home: &TestHome) -> String {
    home.run_segue_json(["chat", "--json", "start"])["session_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn concurrent_writers_lose_no_update_and_interleave_no_turn() {
    let home = new_test_home();
    let shared = create_session(&home);
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (home, shared) = (&home, &shared);
            scope.spawn(move || {
                let id = if writer < 4 {
                    shared.clone()
                } else {
                    create_session(home)
                };
                for n in 0..TURNS_PER_WRITER {
                    run_turn_when_free(home, &id, &format!("writer {writer} turn {n}"));
                }
            });
        }
    });
    let list = home.run_segue_json(["session", "list", "--json"]);
    let mut prompts = BTreeSet::new();
    for session in list.as_array().unwrap() {
        let transcript =
            home.run_segue_json(["session", "show", "--json", session["id"].as_str().unwrap()]);
        for turn in transcript["turns"].as_array().unwrap() {
            assert_eq!(turn["state"], "finished");
            let messages = turn["messages"].as_array().unwrap();
            assert_eq!(
                messages.len(),
                2,
                "a turn does not have exactly its own prompt and answer"
            );
            let text = |n: usize| messages[n]["parts"][0]["text"].as_str().unwrap().to_owned();
            assert!(text(1).starts_with(&format!("You said: {}\n", text(0))));
            prompts.insert(text(0));
        }
    }
    assert_eq!(prompts.len(), 8 * TURNS_PER_WRITER + 1);
    let transcript = home.run_segue_json(["session", "show", "--json", &shared]);
    assert_eq!(
        transcript["turns"].as_array().unwrap().len(),
        4 * TURNS_PER_WRITER + 1
    );
    home.assert_no_processes();
}

#[test]
fn fifty_processes_create_one_store() {
    let home = new_test_home();
    std::thread::scope(|scope| {
        for n in 0..50 {
            let home = &home;
            scope.spawn(move || {
                let output = home.run_segue(["chat", &format!("first words {n}")]);
                assert_eq!(output.code, Some(0), "{output}");
            });
        }
    });
    assert_eq!(
        crate::count_sessions(&home),
        20,
        "the default limit of the list is not 20"
    );
    let all = home.run_segue_json(["session", "list", "--json", "--limit", "0"]);
    assert_eq!(all.as_array().unwrap().len(), 50);
}

#[test]
fn a_session_in_use_names_its_process_and_can_be_read() {
    let home = new_test_home();
    let mut events = home.start_chat(["rehearse: say busy; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let attempts: [&[&str]; 5] = [
        &["chat", "--continue", "me too"],
        &["session", "revert", "latest", "--to", "1"],
        &["session", "undo", "latest"],
        &["session", "delete", "latest", "--yes"],
        &["session", "forget", "latest", "--yes"],
    ];
    let expected_messages = [
        "session [SESSION] is in use by process [PID] on ",
        "hint: it has been running there since [TIME] UTC (",
        "): wait until it finishes, or end that process\n",
    ];
    for args in attempts {
        let output = home.run_segue(args.iter().copied());
        assert_eq!(output.code, Some(1), "{output}");
        // The session has no finished turn, so a fork is not suggested.
        assert!(!output.stderr.contains("fork"), "{output}");
        for message in expected_messages {
            assert!(
                output.stderr.contains(message),
                "{args:?}: {message:?} in {output}"
            );
        }
    }
    let info = home.run_segue_json(["session", "info", "--json", "latest"]);
    assert_eq!(info["session"]["status"], "running");
    assert!(info["held_by"]["pid"].is_u64());
    for args in [
        &["chat", "--json", "--continue", "me too"][..],
        &["session", "undo", "--json", "latest"],
    ] {
        let output = home.run_segue(args.iter().copied());
        let refused: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
        assert_eq!(refused["error"]["held_by"], info["held_by"], "{output}");
        assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 1);
        if args[0] == "chat" {
            assert_eq!(refused["session_id"], info["session"]["id"]);
            assert_eq!(refused["provider"], info["session"]["provider"]);
            assert!(refused["turn"].is_null());
        }
    }
    let list = home.run_segue(["session", "list"]);
    assert!(list.stdout.contains("(running)"), "{list}");
    let _ = events.kill();
    let list = home.run_segue(["session", "list"]);
    assert!(list.stdout.contains("(interrupted)"), "{list}");
    let mut events = home.start_chat(["--continue", "rehearse: say busy; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let output = home.run_segue(["chat", "--continue", "me too"]);
    let fork = "hint: run `segue session fork [SESSION]` to continue in a fork";
    assert!(output.stderr.contains(fork), "{output}");
    let output = home.run_segue(["chat", "--json", "--continue", "me too"]);
    let refused: serde_json::Value = serde_json::from_str(&output.raw_stdout).unwrap();
    assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 2);
    let _ = events.kill();
    home.assert_no_processes();
}

#[test]
fn a_store_being_created_is_not_reported_as_damaged() {
    for _ in 0..15 {
        let home = new_test_home();
        std::thread::scope(|scope| {
            for _ in 0..5 {
                let home = &home;
                scope.spawn(move || {
                    let output = home.run_segue(["session", "list", "--all"]);
                    assert_eq!(output.code, Some(0), "{output}");
                });
            }
        });
    }
}
