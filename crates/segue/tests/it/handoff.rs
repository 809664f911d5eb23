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
    handed session [SESSION] off from rehearsal to acp:second; the next prompt starts a new native session with a brief. Continue with: segue chat --resume [SESSION] "…"
    --- exit 0
    "#);
    assert_snapshot!(home.run_segue(["session", "handoff", id, "-p", "acp:second"]), @r#"
    session [SESSION] already uses acp:second, so no handoff was needed. Continue with: segue chat --resume [SESSION] "…"
    --- exit 0
    "#);
    let next = home.run_segue_json(["chat", "--resume", id, "--json", "what was it?"]);
    assert_eq!(
        (&next["provider"], &next["opened"]),
        (&"acp:second".into(), &"briefed".into())
    );
    let text = next["text"].as_str().unwrap();
    assert!(
        text.contains("I received a brief of our conversation"),
        "{text}"
    );
    // Hand off back, with a prompt.
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
        output.stderr.contains("off from acp:second to rehearsal; ")
            && output
                .stderr
                .contains("rehearsal took over from acp:second"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("I received a brief of our conversation"),
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
    let home = home_with_second_agent("[codex]\npath = \"/nonexistent/codex\"\n");
    let first = home.run_segue_json(["chat", "-p", "rehearsal", "--json", "hello"]);
    let id = first["session_id"].as_str().unwrap();
    let hand_off_to = |agent: &str| home.run_segue(["session", "handoff", id, "-p", agent]);
    assert_snapshot!(hand_off_to("claude"), @"
    --- stderr
    error: agent `claude` not found on this machine
    hint: put `claude` on PATH, or set `claude.path` in the configuration
    --- exit 2
    ");
    assert_snapshot!(hand_off_to("codex"), @r"
    --- stderr
    error: program of codex not found at its configured path
    hint: set `codex.path` in the configuration to the program's location
    --- exit 2
    ");
    assert_snapshot!(hand_off_to("nobody"), @r"
    --- stderr
    error: unknown agent `nobody`
    hint: available agents: codex, acp:second, rehearsal; configure another ACP agent as [acp.NAME]
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
    assert_snapshot!(output, @"
    You said: the password is swordfish
    This is where our conversation begins.
    You said: what was it?
    I received a brief of our conversation.
    --- stderr
    handed session [SESSION] off from rehearsal to acp:second; the next prompt starts a new native session with a brief
    session [SESSION] already uses acp:second, so no handoff was needed
    error: unknown agent `nobody`
    hint: available agents: acp:second, rehearsal; configure another ACP agent as [acp.NAME]
    segue: started a new native session with a brief of this session: acp:second took over from rehearsal
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
    // Its creation time is that of its first message.
    let info = home.run_segue_json(["session", "info", "latest", "--json"]);
    let session = &info["session"];
    let times = ["created_at", "updated_at"].map(|name| session[name].as_str().unwrap());
    assert!(times[0] < times[1] && times[0] < "2026-11", "{session:#}");
}
