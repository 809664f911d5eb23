//! Tests with Codex, from a shell, over its app server and over ACP.

use segue_core::session::TitleSource;
use segue_providers::{CodexReader, Reader};
use segue_testkit::model::{Reply, ScriptedCall};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use serde_json::{Value, json};

use crate::conversation_text::format_turns;
use crate::real::corpus::{ReaderFactory, save_fixture};
use crate::real::session::{cli_script, find_session, format_echo_turn, read_turns};

const VERSION: &str = "0.166.0";
const NEW_READER: ReaderFactory = |home| Box::new(CodexReader::new(home));

fn create_sandbox() -> Sandbox {
    Sandbox::new(cli_script("What is here?").with_rule(
        "fail a call",
        [
            Reply::from_call(ScriptedCall::shell("exit 3")),
            Reply::from_text("It failed."),
        ],
    ))
}

/// Runs a prompt, and returns the session's id.
fn run_prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let run = sandbox.run(SandboxCli::Codex, ["exec", "--json"].iter().chain(args));
    let events = run.json_lines();
    let id = events.iter().find_map(|event| event["thread_id"].as_str());
    id.unwrap_or_else(|| panic!("{run:#?}")).to_owned()
}

fn open_reader(sandbox: &Sandbox) -> CodexReader {
    CodexReader::new(sandbox.home().join(".codex"))
}

fn read_session_text(sandbox: &Sandbox, id: &str) -> String {
    let reader = open_reader(sandbox);
    format_turns(&read_turns(&reader, &find_session(&reader, id)))
}

const LOOK_AROUND_TURN: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call exec_command {"cmd":"echo hi-from-here"}
  result of exec_command ok: "Chunk ID: …\nWall time: …\nProcess exited with code 0\nOriginal token count: …\nOutput:\nhi-from-here\n"
  assistant: It says hi.
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_after_a_resume_and_a_fork() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look around"]);
    assert_eq!(read_session_text(&sandbox, &id), LOOK_AROUND_TURN);
    assert_eq!(run_prompt(&sandbox, &["resume", &id, "and then?"]), id);
    let resumed = format_echo_turn(2, "and then?");
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, &resumed].concat()
    );

    let fork = run_prompt(&sandbox, &["fork", &id, "another way"]);
    // The fork refers to records of its parent, also after the parent was continued.
    run_prompt(&sandbox, &["resume", &id, "and on"]);
    let forked = format_echo_turn(3, "another way");
    assert_eq!(
        read_session_text(&sandbox, &fork),
        [LOOK_AROUND_TURN, &resumed, &forked].concat()
    );
    let continued = format_echo_turn(3, "and on");
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, &resumed, &continued].concat()
    );

    let reader = open_reader(&sandbox);
    let head = reader.read_head(&find_session(&reader, &fork)).unwrap();
    assert_eq!(head.forked_from.as_deref(), Some(id.as_str()));
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(head.agent_version.as_deref(), Some(VERSION));
    assert_eq!(head.title.unwrap().as_str(), "look around");
    save_fixture(
        &sandbox,
        VERSION,
        "resumed-and-forked",
        ".codex",
        NEW_READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_read_back_and_each_turn_has_its_own_usage() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look around"]);
    run_prompt(&sandbox, &["resume", &id, "break"]);
    run_prompt(&sandbox, &["resume", &id, "fail a call"]);
    let turns = read_turns(
        &open_reader(&sandbox),
        &find_session(&open_reader(&sandbox), &id),
    );
    let failed = r#"2 failed
  user: break
3 finished
  user: fail a call
  call exec_command {"cmd":"exit 3"}
  result of exec_command failed: "Chunk ID: …\nWall time: …\nProcess exited with code 3\nOriginal token count: …\nOutput:\n"
  assistant: It failed.
"#;
    assert_eq!(format_turns(&turns), [LOOK_AROUND_TURN, failed].concat());
    // The totals of the thread grow; those of a turn do not. Each turn has two requests of 101 tokens, 11 of them from
    // a cache.
    for turn in [&turns[0], &turns[2]] {
        assert_eq!(turn.usage.input_tokens, Some(2 * 101));
        assert_eq!(turn.usage.cached_tokens, Some(2 * 11));
        assert_eq!(turn.usage.output_tokens, Some(2 * 20));
        assert_eq!(turn.usage.context_tokens, Some(101 + 20));
    }
    assert_eq!(turns[1].usage.total_tokens, None);
    save_fixture(&sandbox, VERSION, "failed", ".codex", NEW_READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_app_server_revert_drops_turns_and_a_compaction_retains_them() {
    let sandbox = create_sandbox();
    let mut server = sandbox.start_app_server();
    let id = server.start_thread();
    server.run_turn(&id, "look around");
    let second = server.run_turn(&id, "not this");
    let has_started = |method: &str, _: &_| method == "item/agentMessage/delta";
    server.run_and_interrupt_turn(&id, "hang", has_started);
    let cancelled = "3 cancelled\n  user: hang\n";
    let before = [
        LOOK_AROUND_TURN,
        &format_echo_turn(2, "not this"),
        cancelled,
    ]
    .concat();
    assert_eq!(read_session_text(&sandbox, &id), before);

    server.revert_thread(&id, second.id()).unwrap();
    server.run_turn(&id, "but this");
    let reverted = format_echo_turn(2, "but this");
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, &reverted].concat()
    );

    server.compact_thread(&id);
    server.run_turn(&id, "go on");
    let reverted = reverted.replacen("finished", "finished, compacted", 1);
    let after = [LOOK_AROUND_TURN, &reverted, &format_echo_turn(3, "go on")].concat();
    assert_eq!(read_session_text(&sandbox, &id), after);

    let name = json!({"threadId": id, "name": "Looking"});
    server.call("thread/name/set", &name).unwrap();
    server
        .call("thread/archive", &json!({"threadId": id}))
        .unwrap();
    drop(server);
    let reader = open_reader(&sandbox);
    let location = find_session(&reader, &id);
    assert!(location.archived);
    let title = reader.read_head(&location).unwrap().title.unwrap();
    assert_eq!(
        (title.as_str(), title.source()),
        ("Looking", TitleSource::User)
    );
    assert_eq!(read_session_text(&sandbox, &id), after);
    save_fixture(
        &sandbox,
        VERSION,
        "reverted-compacted-archived",
        ".codex",
        NEW_READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_acp_session_is_read_back_with_its_cancelled_turn() {
    let sandbox = create_sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::CodexAcp);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let is_first_text = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", is_first_text);
    acp.prompt(&id, "go on");
    let cancelled = "2 cancelled\n  user: hang\n";
    let session_text = [LOOK_AROUND_TURN, cancelled, &format_echo_turn(3, "go on")].concat();
    assert_eq!(read_session_text(&sandbox, &id), session_text);
    drop(acp);

    let mut acp = sandbox.start_acp(SandboxCli::CodexAcp);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    let session_text = [session_text, format_echo_turn(4, "once more")].concat();
    assert_eq!(read_session_text(&sandbox, &id), session_text);
    let fork = acp.fork_session(&id).unwrap();
    acp.prompt(&fork, "elsewhere");
    assert_eq!(
        read_session_text(&sandbox, &fork),
        [session_text, format_echo_turn(5, "elsewhere")].concat()
    );
    drop(acp);
    save_fixture(&sandbox, VERSION, "acp", ".codex", NEW_READER);
}
