//! Tests with opencode, from a shell and over ACP.

use segue_catalog::{OpencodeReader, RequestDeduplicator, Reader, ReadStart, RequestCounter};
use segue_core::session::TitleSource;
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use serde_json::Value;

use crate::real::session::{echoed, find, read, script};
use crate::story::story;

fn sandbox() -> Sandbox {
    Sandbox::new(script("What is here?"))
}

fn reader(sandbox: &Sandbox) -> OpencodeReader {
    OpencodeReader::new(sandbox.home().join(".local/share/opencode"))
}

fn told(sandbox: &Sandbox, id: &str) -> String {
    let reader = reader(sandbox);
    story(&read(&reader, &find(&reader, id)))
}

/// Runs a prompt, and returns the session's id.
fn prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = sandbox.run(SandboxCli::Opencode, ["run", "--format=json"].iter().chain(args));
    let told = ran.json_lines();
    let id = told.iter().find_map(|event| event["sessionID"].as_str());
    id.unwrap_or_else(|| panic!("{ran:#?}")).to_owned()
}

const LOOKED: &str = r#"1 finished
  user: look around
  thought: What is here?
  assistant: I look.
  call bash {"command":"echo hi-from-here"}
  result of bash ok: "hi-from-here\n"
  assistant: It says hi.
"#;

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_and_again_after_a_resume_and_a_fork() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look", "around"]);
    assert_eq!(told(&sandbox, &id), LOOKED);
    assert_eq!(prompt(&sandbox, &["--session", &id, "again"]), id);
    assert_eq!(told(&sandbox, &id), [LOOKED, &echoed(2, "again")].concat());
    let fork = prompt(&sandbox, &["--session", &id, "--fork", "elsewhere"]);
    assert_ne!(fork, id);
    let forked = [LOOKED, &echoed(2, "again"), &echoed(3, "elsewhere")].concat();
    assert_eq!(told(&sandbox, &fork), forked);
    let reader = reader(&sandbox);
    // Two requests to look around, and one for each later prompt. Requests that the fork copied count once.
    let mut originals = RequestDeduplicator::default();
    for (session, asked) in [(&id, 3), (&fork, 1)] {
        let found = find(&reader, session);
        let mut records = reader.open_records(&found, &ReadStart::Beginning).unwrap();
        let requests = RequestCounter::from_records(records.as_mut()).unwrap().into_requests();
        assert!(requests.iter().all(|request| request.model.is_some()));
        let own = originals.remove_copies(requests);
        assert_eq!(own.len(), asked, "{own:#?}");
    }
    let head = reader.read_head(&find(&reader, &id)).unwrap();
    assert_eq!(head.cwd.as_deref(), sandbox.project().to_str());
    let title = head.title.unwrap();
    assert_eq!(
        (title.as_str(), title.source()),
        ("Looking around", TitleSource::Model)
    );
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn over_acp_the_same_is_read_back_and_what_was_cancelled_is_marked() {
    let sandbox = sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Opencode);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let first_words = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", first_words);
    acp.prompt(&id, "go on");
    let story = told(&sandbox, &id);
    let (looked, rest) = story.split_at(LOOKED.len());
    assert_eq!(looked, LOOKED);
    assert!(rest.starts_with("2 cancelled\n  user: hang\n"), "{rest}");
    assert!(rest.ends_with(&echoed(3, "go on")), "{rest}");
}
