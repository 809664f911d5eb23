//! Handling of a prompt whose agent fails or is in a cooldown.

use std::fs;

use insta::assert_snapshot;
use rustix::process::Signal;
use segue_testkit::TestHome;
use serde_json::Value;

use crate::{count_sessions, new_test_home};

/// Creates a home whose configuration has these settings and a second agent, `acp:second`.
pub(crate) fn home_with_second_agent(settings: &str) -> TestHome {
    let home = new_test_home();
    let directory = home.path().join(".config/segue");
    fs::create_dir_all(&directory).unwrap();
    let (program, agent_dir) = (env!("CARGO_BIN_EXE_segue"), home.path().join("second"));
    let text = format!(
        "{settings}\n[acp.second]\npath = {program:?}\nargs = [\"rehearsal-agent\", \"{}\"]\n",
        agent_dir.display()
    );
    fs::write(directory.join("config.toml"), text).unwrap();
    home
}

#[test]
fn a_session_is_blocked_after_repeated_failures() {
    let home = home_with_second_agent("backoff_seconds = 0\nfallback = [\"acp:second\"]");
    let fail_turn = || {
        home.run_segue([
            "chat",
            "--resume",
            "latest",
            "rehearse: fail the kettle is cold",
        ])
    };
    let _ = home.run_segue(["chat", "-p", "rehearsal", "the password is swordfish"]);
    assert_eq!((fail_turn().code, fail_turn().code), (Some(3), Some(3)));
    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    assert_eq!(info["standings"][0]["failures"], 2);
    assert_eq!(info["legs"][0]["consecutive_failures"], 2);
    assert_snapshot!(fail_turn(), @r#"
    --- stderr
    segue: ended the native session after 3 failures in a row; the next prompt starts a new one with a brief of this session
    error: the agent answered the prompt with an error: the kettle is cold
    hint: all messages so far are saved; resume the session with `segue chat --resume [SESSION] "…"`
    --- exit 3
    "#);
    let fourth = fail_turn();
    assert!(
        fourth.stderr.contains(
            "started a new native session with a brief of this session: the last native session failed too often in a row"
        ),
        "{fourth}"
    );
    fail_turn();
    let sixth = fail_turn();
    assert!(
        sixth
            .stderr
            .contains("segue does not start another one automatically"),
        "{sixth}"
    );
    assert_snapshot!(fail_turn(), @r#"
    --- stderr
    error: rehearsal failed too often in session [SESSION]: 3 failures in a row, and 3 more in a new native session
    hint: hand the session off with `segue session handoff [SESSION] -p acp:second`
    hint: retry anyway with `segue chat --resume [SESSION] --anyway "…"`, or use `--new` to start another session
    --- exit 4
    "#);
    assert_snapshot!(home.run_segue_with_input(["repl", "--resume", "latest"], b"hello?\n"), @"
    --- stderr
    error: rehearsal failed too often in session [SESSION]: 3 failures in a row, and 3 more in a new native session
    hint: hand the session off with `/handoff acp:second`
    hint: retry anyway: `/quit`, then `segue repl --resume [SESSION] --anyway`, or use `/new` to start another session
    --- exit 4
    ");
    let count_turns =
        || home.run_segue_json(["session", "info", "latest", "--json"])["session"]["turns"].clone();
    assert_eq!(count_turns(), 7);
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "--json", "hello?"]), @r#"
    {"session_id":"[SESSION]","turn":null,"provider":"rehearsal","native_session_id":null,"leg":null,"opened":null,"opened_why":null,"opened_reason":null,"text":"","stop":"failed","usage":{"input_tokens":null,"output_tokens":null,"cached_tokens":null,"total_tokens":null,"context_tokens":null,"context_window":null},"decisions":[],"decision_details":[],"error":{"class":"policy","message":"rehearsal failed too often in session [SESSION]: 3 failures in a row, and 3 more in a new native session","hint":"hand the session off with `segue session handoff [SESSION] -p acp:second`","hints":["hand the session off with `segue session handoff [SESSION] -p acp:second`","retry anyway with `segue chat --resume [SESSION] --anyway \"…\"`, or use `--new` to start another session"],"advice":null,"stderr":null,"retry_at":null,"held_by":null}}
    --- exit 4
    "#);
    assert_eq!(count_turns(), 7, "a refused prompt was recorded");

    let forced =
        home.run_segue_json(["chat", "--resume", "latest", "--anyway", "--json", "hello?"]);
    assert_eq!(
        (&forced["stop"], &forced["leg"]),
        (&"finished".into(), &3.into())
    );
    let after = home.run_segue_json(["chat", "--resume", "latest", "--json", "and now?"]);
    assert_eq!(
        (&after["opened"], &after["leg"]),
        (&"resumed".into(), &3.into())
    );
    home.assert_no_processes();
}

#[test]
fn a_prompt_after_a_failure_waits_and_can_be_cancelled_or_sent_now() {
    let home = home_with_second_agent("backoff_seconds = 50");
    let _ = home.run_segue([
        "chat",
        "-p",
        "rehearsal",
        "rehearse: fail the kettle is cold",
    ]);
    let mut events = home.start_chat(["--resume", "latest", "hello?"]);
    let wait_event = loop {
        let event = events.next_event().unwrap();
        if event["kind"] == "backed_off" {
            break event;
        }
    };
    let text = wait_event["text"].as_str().unwrap();
    assert!(
        text.starts_with("waiting ") && text.ends_with(": the last turn failed"),
        "{text}"
    );
    events.send_signal(Signal::INT);
    assert_eq!(events.wait(), Some(130));
    let transcript = home.run_segue_json(["session", "show", "latest", "--json"]);
    assert_eq!(
        transcript["turns"].as_array().unwrap().len(),
        1,
        "{transcript:#}"
    );

    let _ = home.run_segue([
        "chat",
        "--now",
        "--resume",
        "latest",
        "rehearse: fail again",
    ]);
    // The wait would be too long.
    assert_snapshot!(home.run_segue(["chat", "--resume", "latest", "hello?"]), @r"
    --- stderr
    error: rehearsal is in cooldown until [TIME] UTC: the last turn failed
    hint: hand the session off with `segue session handoff [SESSION] -p NAME`
    hint: use `--now` to send the prompt anyway
    --- exit 4
    ");
    let refused = home.run_segue(["chat", "--resume", "latest", "--json", "hello?"]);
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(refused["error"]["class"], "policy");
    assert!(refused["error"]["retry_at"].is_string(), "{refused}");
    assert!(refused["provider"].is_string(), "{refused}");
    assert_eq!(refused["error"]["hints"].as_array().unwrap().len(), 2);
    // Another session is not affected.
    let other_turn = home.run_segue_json(["chat", "--new", "-p", "rehearsal", "--json", "hello?"]);
    assert_eq!(other_turn["decisions"], serde_json::json!([]));
}

const EXHAUSTED_QUOTA_PROMPT: &str = "rehearse: fail Your quota will reset after 2h52m39s";

#[test]
fn an_exhausted_quota_hands_off_the_prompt_and_starts_a_cooldown() {
    let home = home_with_second_agent("fallback = [\"rehearsal\", \"acp:second\"]");
    let _ = home.run_segue(["chat", "-p", "rehearsal", "the password is swordfish"]);
    let output = home.run_segue(["chat", "--resume", "latest", EXHAUSTED_QUOTA_PROMPT]);
    // The other agent runs the same script.
    assert_snapshot!(output, @r#"
    --- stderr
    segue: acp:second took over the prompt from rehearsal, which is in cooldown until [TIME] UTC
    segue: started a new native session with a brief of this session: acp:second took over from rehearsal
    error: the agent answered the prompt with an error: Your quota will reset after 2h52m39s
    hint: wait until [TIME] UTC, then resume the session with `segue chat --resume [SESSION] "…"`; or hand the session off with `segue session handoff [SESSION] -p NAME`
    --- exit 4
    "#);
    let sessions = count_sessions(&home);
    assert_snapshot!(home.run_segue(["chat", "--new", "-p", "rehearsal", "hello?"]), @r"
    --- stderr
    error: rehearsal is in cooldown until [TIME] UTC: the quota is used up
    hint: use another agent with `-p NAME`
    hint: use `--now` to send the prompt anyway
    --- exit 4
    ");
    assert_eq!(count_sessions(&home), sessions, "a session was created");
    // A successful forced prompt ends the cooldown.
    let forced = home.run_segue_json([
        "chat",
        "--new",
        "-p",
        "rehearsal",
        "--now",
        "--json",
        "hello?",
    ]);
    assert_eq!(forced["stop"], "finished");
    let next = home.run_segue_json([
        "chat",
        "--resume",
        "latest",
        "-p",
        "acp:second",
        "--json",
        "and you?",
    ]);
    assert_eq!(next["provider"], "rehearsal");
    home.assert_no_processes();
}

#[test]
fn an_untrusted_project_cannot_configure_a_fallback_agent() {
    let home = home_with_second_agent("");
    fs::write(
        home.project().join("segue.toml"),
        "fallback = [\"acp:second\"]",
    )
    .unwrap();
    let output = home.run_segue(["chat", "-p", "rehearsal", EXHAUSTED_QUOTA_PROMPT]);
    assert!(
        output.stderr.contains("need your trust (fallback)"),
        "{output}"
    );
    assert!(!output.stderr.contains("took over the prompt"), "{output}");
    assert_eq!(output.code, Some(4));
}
