//! Tests with Codex, from a shell, over its app server and over ACP.

use segue_catalog::{CodexReader, Reader};
use segue_core::session::TitleSource;
use segue_testkit::model::{ScriptedCall, Reply};
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use serde_json::{Value, json};

use crate::real::corpus::{MakeReader, keep};
use crate::real::session::{echoed, find, read, script};
use crate::story::story;

const VERSION: &str = "0.166.0";
const READER: MakeReader = |home| Box::new(CodexReader::new(home));

fn sandbox() -> Sandbox {
    Sandbox::new(script("What is here?").with_rule(
        "fail a call",
        [
            Reply::from_call(ScriptedCall::shell("exit 3")),
            Reply::from_text("It failed."),
        ],
    ))
}

/// Runs a prompt, and returns the session's id.
fn prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = sandbox.run(SandboxCli::Codex, ["exec", "--json"].iter().chain(args));
    let told = ran.json_lines();
    let id = told.iter().find_map(|event| event["thread_id"].as_str());
    id.unwrap_or_else(|| panic!("{ran:#?}")).to_owned()
}

fn reader(sandbox: &Sandbox) -> CodexReader {
    CodexReader::new(sandbox.home().join(".codex"))
}

fn told(sandbox: &Sandbox, id: &str) -> String {
    let reader = reader(sandbox);
    story(&read(&reader, &find(&reader, id)))
}

const LOOKED: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call exec_command {"cmd":"echo hi-from-here"}
  result of exec_command ok: "Chunk ID: …\nWall time: …\nProcess exited with code 0\nOriginal token count: …\nOutput:\nhi-from-here\n"
  assistant: It says hi.
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_and_again_after_a_resume_and_a_fork() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    assert_eq!(told(&sandbox, &id), LOOKED);
    assert_eq!(prompt(&sandbox, &["resume", &id, "and then?"]), id);
    let resumed = echoed(2, "and then?");
    assert_eq!(told(&sandbox, &id), [LOOKED, &resumed].concat());

    let fork = prompt(&sandbox, &["fork", &id, "another way"]);
    // The fork refers to records of its parent, also after the parent was continued.
    prompt(&sandbox, &["resume", &id, "and on"]);
    let forked = echoed(3, "another way");
    assert_eq!(told(&sandbox, &fork), [LOOKED, &resumed, &forked].concat());
    let on = echoed(3, "and on");
    assert_eq!(told(&sandbox, &id), [LOOKED, &resumed, &on].concat());

    let reader = reader(&sandbox);
    let head = reader.read_head(&find(&reader, &fork)).unwrap();
    assert_eq!(head.forked_from.as_deref(), Some(id.as_str()));
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(head.agent_version.as_deref(), Some(VERSION));
    assert_eq!(head.title.unwrap().as_str(), "look around");
    keep(&sandbox, VERSION, "resumed-and-forked", ".codex", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn failures_are_read_back_and_each_turn_has_its_own_usage() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    prompt(&sandbox, &["resume", &id, "break"]);
    prompt(&sandbox, &["resume", &id, "fail a call"]);
    let turns = read(&reader(&sandbox), &find(&reader(&sandbox), &id));
    let failed = r#"2 failed
  user: break
3 finished
  user: fail a call
  call exec_command {"cmd":"exit 3"}
  result of exec_command failed: "Chunk ID: …\nWall time: …\nProcess exited with code 3\nOriginal token count: …\nOutput:\n"
  assistant: It failed.
"#;
    assert_eq!(story(&turns), [LOOKED, failed].concat());
    // The totals of the thread grow; those of a turn do not. Each turn has two requests of 101 tokens, 11 of them from
    // a cache.
    for turn in [&turns[0], &turns[2]] {
        assert_eq!(turn.usage.input_tokens, Some(2 * 101));
        assert_eq!(turn.usage.cached_tokens, Some(2 * 11));
        assert_eq!(turn.usage.output_tokens, Some(2 * 20));
        assert_eq!(turn.usage.context_tokens, Some(101 + 20));
    }
    assert_eq!(turns[1].usage.total_tokens, None);
    keep(&sandbox, VERSION, "failed", ".codex", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn over_the_app_server_a_revert_takes_turns_back_and_a_compaction_does_not() {
    let sandbox = sandbox();
    let mut server = sandbox.start_app_server();
    let id = server.start_thread();
    server.run_turn(&id, "look around");
    let second = server.run_turn(&id, "not this");
    let begun = |method: &str, _: &_| method == "item/agentMessage/delta";
    server.run_and_interrupt_turn(&id, "hang", begun);
    let cancelled = "3 cancelled\n  user: hang\n";
    let before = [LOOKED, &echoed(2, "not this"), cancelled].concat();
    assert_eq!(told(&sandbox, &id), before);

    server.revert_thread(&id, second.id()).unwrap();
    server.run_turn(&id, "but this");
    let reverted = echoed(2, "but this");
    assert_eq!(told(&sandbox, &id), [LOOKED, &reverted].concat());

    server.compact_thread(&id);
    server.run_turn(&id, "go on");
    let reverted = reverted.replacen("finished", "finished, compacted", 1);
    let after = [LOOKED, &reverted, &echoed(3, "go on")].concat();
    assert_eq!(told(&sandbox, &id), after);

    let name = json!({"threadId": id, "name": "Looking"});
    server.call("thread/name/set", &name).unwrap();
    server
        .call("thread/archive", &json!({"threadId": id}))
        .unwrap();
    drop(server);
    let reader = reader(&sandbox);
    let found = find(&reader, &id);
    assert!(found.archived);
    let title = reader.read_head(&found).unwrap().title.unwrap();
    assert_eq!(
        (title.as_str(), title.source()),
        ("Looking", TitleSource::User)
    );
    assert_eq!(told(&sandbox, &id), after);
    keep(
        &sandbox,
        VERSION,
        "reverted-compacted-archived",
        ".codex",
        READER,
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn over_acp_the_same_is_read_back_and_what_was_cancelled_is_marked() {
    let sandbox = sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::CodexAcp);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let first_words = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", first_words);
    acp.prompt(&id, "go on");
    let cancelled = "2 cancelled\n  user: hang\n";
    let story = [LOOKED, cancelled, &echoed(3, "go on")].concat();
    assert_eq!(told(&sandbox, &id), story);
    drop(acp);

    let mut acp = sandbox.start_acp(SandboxCli::CodexAcp);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    let story = [story, echoed(4, "once more")].concat();
    assert_eq!(told(&sandbox, &id), story);
    let fork = acp.fork_session(&id).unwrap();
    acp.prompt(&fork, "elsewhere");
    assert_eq!(
        told(&sandbox, &fork),
        [story, echoed(5, "elsewhere")].concat()
    );
    drop(acp);
    keep(&sandbox, VERSION, "acp", ".codex", READER);
}
