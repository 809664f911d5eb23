//! Tests with opencode, from a shell and over ACP.

use segue_core::session::TitleSource;
use segue_providers::{OpencodeReader, ReadStart, Reader, RequestCollector, RequestDeduplicator};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use serde_json::Value;

use crate::conversation_text::format_turns;
use crate::real::session::{cli_script, find_session, format_echo_turn, read_turns};

fn create_sandbox() -> Sandbox {
    Sandbox::new(cli_script("What is here?"))
}

fn open_reader(sandbox: &Sandbox) -> OpencodeReader {
    OpencodeReader::new(sandbox.home().join(".local/share/opencode"))
}

fn read_session_text(sandbox: &Sandbox, id: &str) -> String {
    let reader = open_reader(sandbox);
    format_turns(&read_turns(&reader, &find_session(&reader, id)))
}

/// Runs a prompt, and returns the session's id.
fn run_prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let run = sandbox.run(
        SandboxCli::Opencode,
        ["run", "--format=json"].iter().chain(args),
    );
    let events = run.json_lines();
    let id = events.iter().find_map(|event| event["sessionID"].as_str());
    id.unwrap_or_else(|| panic!("{run:#?}")).to_owned()
}

const LOOK_AROUND_TURN: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call bash {"command":"echo hi-from-here"}
  result of bash ok: "hi-from-here\n"
  assistant: It says hi.
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_after_a_resume_and_a_fork() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look", "around"]);
    assert_eq!(read_session_text(&sandbox, &id), LOOK_AROUND_TURN);
    assert_eq!(run_prompt(&sandbox, &["--session", &id, "again"]), id);
    assert_eq!(
        read_session_text(&sandbox, &id),
        [LOOK_AROUND_TURN, &format_echo_turn(2, "again")].concat()
    );
    let fork = run_prompt(&sandbox, &["--session", &id, "--fork", "elsewhere"]);
    assert_ne!(fork, id);
    let forked = [
        LOOK_AROUND_TURN,
        &format_echo_turn(2, "again"),
        &format_echo_turn(3, "elsewhere"),
    ]
    .concat();
    assert_eq!(read_session_text(&sandbox, &fork), forked);
    let reader = open_reader(&sandbox);
    // Two requests to look around, and one for each later prompt. Requests that the fork copied count once.
    let mut deduplicator = RequestDeduplicator::default();
    for (session, expected_requests) in [(&id, 3), (&fork, 1)] {
        let location = find_session(&reader, session);
        let mut records = reader
            .open_records(&location, &ReadStart::Beginning)
            .unwrap();
        let requests = RequestCollector::from_records(records.as_mut())
            .unwrap()
            .into_requests();
        assert!(requests.iter().all(|request| request.model.is_some()));
        let own_requests = deduplicator.remove_copies(requests);
        assert_eq!(own_requests.len(), expected_requests, "{own_requests:#?}");
    }
    let head = reader.read_head(&find_session(&reader, &id)).unwrap();
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    let title = head.title.unwrap();
    assert_eq!(
        (title.as_str(), title.source()),
        ("Looking around", TitleSource::Model)
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_acp_session_is_read_back_with_its_cancelled_turn() {
    let sandbox = create_sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Opencode);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let is_first_text = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", is_first_text);
    acp.prompt(&id, "go on");
    let session_text = read_session_text(&sandbox, &id);
    let (first_turn, later_turns) = session_text.split_at(LOOK_AROUND_TURN.len());
    assert_eq!(first_turn, LOOK_AROUND_TURN);
    assert!(
        later_turns.starts_with("2 cancelled\n  user: hang\n"),
        "{later_turns}"
    );
    assert!(
        later_turns.ends_with(&format_echo_turn(3, "go on")),
        "{later_turns}"
    );
}
