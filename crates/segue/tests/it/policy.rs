//! What becomes of a prompt when its agent fails or rests, as a person sees it.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;
use segue_testkit::World;
use serde_json::Value;

use crate::{count_sessions, world};

/// The user's file, with a second agent that is called `acp:second`.
pub(crate) fn with_second(settings: &str) -> World {
    let world = world();
    let directory = world.path().join(".config/segue");
    fs::create_dir_all(&directory).unwrap();
    let (program, home) = (env!("CARGO_BIN_EXE_segue"), world.path().join("second"));
    let text = format!(
        "{settings}\n[acp.second]\npath = {program:?}\nargs = [\"rehearsal-agent\", \"{}\"]\n",
        home.display()
    );
    fs::write(directory.join("config.toml"), text).unwrap();
    world
}

#[test]
fn a_session_that_fails_again_and_again_is_stopped() {
    let world = with_second("backoff_seconds = 0\nfallback = [\"acp:second\"]");
    let fail = || {
        world.segue([
            "chat",
            "--resume",
            "latest",
            "rehearse: fail the kettle is cold",
        ])
    };
    let _ = world.segue(["chat", "-p", "rehearsal", "the password is swordfish"]);
    assert_eq!((fail().code, fail().code), (Some(3), Some(3)));
    let info = world.json(["session", "info", "latest", "--json"]);
    assert_eq!(info["standings"][0]["failures"], 2);
    assert_eq!(info["legs"][0]["consecutive_failures"], 2);
    assert_snapshot!(fail(), @r#"
    --- stderr
    segue: 3 failures in a row: the native session is over; the next prompt opens a new one, which is told the story so far
    error: the agent answered the prompt with an error: the kettle is cold
    hint: what was said is kept; go on with: segue chat --resume [SESSION] "…"
    --- exit 3
    "#);
    let fourth = fail();
    assert!(
        fourth.stderr.contains(
            "told it the story so far: the last native session failed too often in a row"
        ),
        "{fourth}"
    );
    fail();
    let sixth = fail();
    assert!(sixth.stderr.contains("no other is opened"), "{sixth}");
    assert_snapshot!(fail(), @r#"
    --- stderr
    error: rehearsal failed 3 times in a row in session [SESSION], and as often again in a new native session
    hint: have another agent go on: segue session handoff [SESSION] -p acp:second
    hint: try it once more: segue chat --resume [SESSION] --anyway "…"; --new begins another session
    --- exit 4
    "#);
    assert_snapshot!(world.segue_with_input(["repl", "--resume", "latest"], b"hello?\n"), @"
    --- stderr
    error: rehearsal failed 3 times in a row in session [SESSION], and as often again in a new native session
    hint: have another agent go on: /handoff acp:second
    hint: try it once more: /quit, then segue repl --resume [SESSION] --anyway; /new begins another session
    --- exit 4
    ");
    let turns = || world.json(["session", "info", "latest", "--json"])["session"]["turns"].clone();
    assert_eq!(turns(), 7);
    assert_snapshot!(world.segue(["chat", "--resume", "latest", "--json", "hello?"]), @r#"
    {"session_id":"[SESSION]","turn":null,"provider":"rehearsal","native_session_id":null,"leg":null,"opened":null,"opened_why":null,"text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":[],"error":{"class":"policy","message":"rehearsal failed 3 times in a row in session [SESSION], and as often again in a new native session","hint":"have another agent go on: segue session handoff [SESSION] -p acp:second","hints":["have another agent go on: segue session handoff [SESSION] -p acp:second","try it once more: segue chat --resume [SESSION] --anyway \"…\"; --new begins another session"],"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 4
    "#);
    assert_eq!(
        turns(),
        7,
        "nothing is written down of what is not let through"
    );

    let anyway = world.json(["chat", "--resume", "latest", "--anyway", "--json", "hello?"]);
    assert_eq!(
        (&anyway["stop"], &anyway["leg"]),
        (&"finished".into(), &3.into())
    );
    let after = world.json(["chat", "--resume", "latest", "--json", "and now?"]);
    assert_eq!(
        (&after["opened"], &after["leg"]),
        (&"resumed".into(), &3.into())
    );
    world.assert_nothing_runs();
}

#[test]
fn after_a_failure_a_prompt_waits_and_can_be_stopped_or_hurried() {
    let world = with_second("backoff_seconds = 50");
    let _ = world.segue([
        "chat",
        "-p",
        "rehearsal",
        "rehearse: fail the kettle is cold",
    ]);
    let mut events = world.events(["--resume", "latest", "hello?"]);
    let waits = loop {
        let event = events.next_event().unwrap();
        if event["kind"] == "backed_off" {
            break event;
        }
    };
    let text = waits["text"].as_str().unwrap();
    assert!(
        text.starts_with("waiting ") && text.ends_with(": its last turn failed"),
        "{text}"
    );
    events.signal(Signal::INT);
    assert_eq!(events.wait(), Some(130));
    let shown = world.json(["session", "show", "latest", "--json"]);
    assert_eq!(shown["turns"].as_array().unwrap().len(), 1, "{shown:#}");

    let _ = world.segue([
        "chat",
        "--now",
        "--resume",
        "latest",
        "rehearse: fail again",
    ]);
    // Too long to be waited for.
    assert_snapshot!(world.segue(["chat", "--resume", "latest", "hello?"]), @r"
    --- stderr
    error: rehearsal is not asked before [TIME] UTC: its last turn failed
    hint: have another agent go on: segue session handoff [SESSION] -p NAME
    hint: --now asks it all the same
    --- exit 4
    ");
    let refused = world.segue(["chat", "--resume", "latest", "--json", "hello?"]);
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(refused["error"]["class"], "policy");
    assert!(refused["error"]["retry_at"].is_string(), "{refused}");
    assert!(refused["provider"].is_string(), "{refused}");
    assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 2);
    // Another session is none the worse for it.
    let other = world.json(["chat", "--new", "-p", "rehearsal", "--json", "hello?"]);
    assert_eq!(other["decisions"], serde_json::json!([]));
}

const SPENT: &str = "rehearse: fail Your quota will reset after 2h52m39s";

#[test]
fn a_spent_quota_hands_the_prompt_over_and_is_remembered() {
    let world = with_second("fallback = [\"rehearsal\", \"acp:second\"]");
    let _ = world.segue(["chat", "-p", "rehearsal", "the password is swordfish"]);
    let output = world.segue(["chat", "--resume", "latest", SPENT]);
    // The other one plays the same script.
    assert_snapshot!(output, @r#"
    --- stderr
    segue: acp:second takes the prompt over from rehearsal, which rests until [TIME] UTC
    segue: started a new native session and told it the story so far: acp:second takes over from rehearsal
    error: the agent answered the prompt with an error: Your quota will reset after 2h52m39s
    hint: it can be tried again at [TIME] UTC, then go on with: segue chat --resume [SESSION] "…"; or have another agent go on: segue session handoff [SESSION] -p NAME
    --- exit 4
    "#);
    let sessions = count_sessions(&world);
    assert_snapshot!(world.segue(["chat", "--new", "-p", "rehearsal", "hello?"]), @r"
    --- stderr
    error: rehearsal is not asked before [TIME] UTC: the quota is spent
    hint: ask another agent: -p NAME
    hint: --now asks it all the same
    --- exit 4
    ");
    assert_eq!(count_sessions(&world), sessions, "nothing is made");
    // One that is asked all the same and answers is awake again.
    let now = world.json([
        "chat",
        "--new",
        "-p",
        "rehearsal",
        "--now",
        "--json",
        "hello?",
    ]);
    assert_eq!(now["stop"], "finished");
    let next = world.json([
        "chat",
        "--resume",
        "latest",
        "-p",
        "acp:second",
        "--json",
        "and you?",
    ]);
    assert_eq!(next["provider"], "rehearsal");
    world.assert_nothing_runs();
}

#[test]
fn a_project_sends_no_conversation_elsewhere_by_itself() {
    let world = with_second("");
    fs::write(
        world.project().join("segue.toml"),
        "fallback = [\"acp:second\"]",
    )
    .unwrap();
    let output = world.segue(["chat", "-p", "rehearsal", SPENT]);
    assert!(
        output.stderr.contains("need your trust (fallback)"),
        "{output}"
    );
    assert!(!output.stderr.contains("takes the prompt over"), "{output}");
    assert_eq!(output.code, Some(4));
}
