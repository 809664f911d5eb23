//! `segue session handoff` and `/handoff`.

use insta::assert_snapshot;

use crate::native::{self, NATIVE_ID};
use crate::new_test_home;
use crate::policy::home_with_second_agent;

#[test]
fn a_handoff_briefs_the_new_agent_with_the_next_prompt() {
    let home = home_with_second_agent("[claude]\n");
    let first = home.run_segue_json([
        "chat",
        "-p",
        "rehearsal",
        "--json",
        "the password is swordfish",
    ]);
    let id = first["session_id"].as_str().unwrap();
    assert_snapshot!(home.run_segue(["session", "handoff", id, "-p", "acp:second"]), @r#"
    [SESSION] is with acp:second now, not with rehearsal any more; acp:second is told what was said with the next prompt. Go on with: segue chat --resume [SESSION] "…"
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "handoff", id, "-p", "acp:second"]), @r#"
    [SESSION] is with acp:second already, no changes made. Go on with: segue chat --resume [SESSION] "…"
    --- exit 0
    "#);
    let next = home.run_segue_json(["chat", "--resume", id, "--json", "what was it?"]);
    assert_eq!(
        (&next["provider"], &next["opened"]),
        (&"acp:second".into(), &"briefed".into())
    );
    let text = next["text"].as_str().unwrap();
    assert!(text.contains("I was told what was said before"), "{text}");
    // Back again, with something to say.
    let prompt = [
        "session",
        "handoff",
        id,
        "-p",
        "rehearsal",
        "--prompt",
        "and now?",
    ];
    let output = home.run_segue(prompt);
    assert!(
        output
            .stderr
            .contains("is with rehearsal now, not with acp:second any more")
            && output
                .stderr
                .contains("rehearsal takes over from acp:second"),
        "{output}"
    );
    assert!(
        output.stdout.contains("I was told what was said before"),
        "{output}"
    );
    let info = home.run_segue_json(["session", "info", id, "--json"]);
    let legs = info["legs"].as_array().unwrap();
    let ends: Vec<_> = legs.iter().map(|leg| &leg["ended_why"]).collect();
    assert_eq!(
        ends,
        [
            &"handoff".into(),
            &"handoff".into(),
            &serde_json::Value::Null
        ]
    );
    home.assert_no_processes();
}

#[test]
fn an_impossible_handoff_is_refused_and_changes_nothing() {
    let home = home_with_second_agent("[codex]\npath = \"/nowhere/codex\"\n");
    let first = home.run_segue_json(["chat", "-p", "rehearsal", "--json", "hello"]);
    let id = first["session_id"].as_str().unwrap();
    let hand_off_to = |agent: &str| home.run_segue(["session", "handoff", id, "-p", agent]);
    assert_snapshot!(hand_off_to("claude"), @r"
    --- stderr
    error: claude was not found on this machine
    hint: put `claude` on PATH, or set `path` in [claude] of the configuration
    --- exit 2
    ");
    assert_snapshot!(hand_off_to("codex"), @r"
    --- stderr
    error: the program of codex is not where it is configured to be
    hint: mend `path` of codex in the configuration; nothing was changed
    --- exit 2
    ");
    assert_snapshot!(hand_off_to("nobody"), @r"
    --- stderr
    error: provider nobody can't be driven by this segue
    hint: it drives: codex, acp:second, rehearsal; any other that speaks ACP needs [acp.NAME] in the configuration
    --- exit 2
    ");
    let empty = home.run_segue([
        "session",
        "handoff",
        id,
        "-p",
        "acp:second",
        "--prompt",
        " ",
    ]);
    assert_eq!(empty.code, Some(2), "{empty}");
    let mut events = home.start_chat(["--resume", id, "rehearse: say so far; hang"]);
    while events.next_event().unwrap()["event"] != "text" {}
    let busy = hand_off_to("acp:second");
    assert!(busy.stderr.contains("is in use by process"), "{busy}");
    let _ = events.kill();
    let info = home.run_segue_json(["session", "info", id, "--json"]);
    assert_eq!(info["session"]["provider"], "rehearsal");
    home.assert_no_processes();
}

#[test]
fn a_repl_conversation_is_handed_off_by_a_command() {
    let home = home_with_second_agent("");
    let lines = "the password is swordfish\n/handoff acp:second\n/handoff acp:second\n/handoff nobody\nwhat was it?\n";
    let output = home.run_segue_with_input(["repl", "-p", "rehearsal"], lines.as_bytes());
    assert_snapshot!(output, @r"
    You said: the password is swordfish
    This is where our conversation begins.
    You said: what was it?
    I was told what was said before.
    --- stderr
    [SESSION] is with acp:second now, not with rehearsal any more; acp:second is told what was said with the next prompt
    [SESSION] is with acp:second already, no changes made
    error: provider nobody can't be driven by this segue
    hint: it drives: acp:second, rehearsal; any other that speaks ACP needs [acp.NAME] in the configuration
    segue: started a new native session and told it the story so far: acp:second takes over from rehearsal
    --- exit 2
    ");
    home.assert_no_processes();
}

#[test]
fn a_native_session_without_its_agent_resumes_with_another_agent() {
    let home = new_test_home();
    native::write_claude_session(&home, NATIVE_ID, "project");
    let session_ref = format!("claude:{NATIVE_ID}");
    let refused = home.run_segue(["chat", "--resume", &session_ref, "hi"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let turn = home.run_segue_json([
        "chat",
        "--resume",
        &session_ref,
        "-p",
        "rehearsal",
        "--json",
        "hi",
    ]);
    assert_eq!(turn["provider"], "rehearsal", "{turn:#}");
    assert_eq!(turn["opened"], "briefed", "{turn:#}");
    // It is as old as what was said in it.
    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    let session = &info["session"];
    let times = ["created_at", "updated_at"].map(|name| session[name].as_str().unwrap());
    assert!(times[0] < times[1] && times[0] < "2026-11", "{session:#}");
}
