//! Tests with Gemini CLI, from a shell and over ACP.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use segue_catalog::{Catalog, GeminiReader, parse_listing};
use segue_testkit::model::{Reply, StubUsage};
use segue_testkit::sandbox::{SandboxCli, Sandbox};
use serde_json::Value;

use crate::real::corpus::{MakeReader, keep};
use crate::real::session::{echoed, find, read, script};
use crate::story::story;

const VERSION: &str = "0.61.0";
const READER: MakeReader = |home| Box::new(GeminiReader::new(home));

fn sandbox() -> Sandbox {
    let usage = StubUsage {
        input: 900_000,
        ..StubUsage::default()
    };
    let full = Reply::from_text("It is full.").with_usage(usage);
    Sandbox::new(script("**Looking** What is here?").with_rule("fill it up", [full]))
}

/// Runs a prompt, and returns the session's id.
fn prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let always = ["--yolo", "-m", "gemini-2.5-flash", "-o", "stream-json"];
    let ran = sandbox.run(SandboxCli::Gemini, always.iter().chain(args));
    let told = ran.json_lines();
    let id = told.iter().find_map(|event| event["session_id"].as_str());
    id.unwrap_or_else(|| panic!("{ran:#?}")).to_owned()
}

fn reader(sandbox: &Sandbox) -> GeminiReader {
    GeminiReader::new(sandbox.home().join(".gemini"))
}

fn told(sandbox: &Sandbox, id: &str) -> String {
    let reader = reader(sandbox);
    story(&read(&reader, &find(&reader, id)))
}

const LOOKED: &str = r#"1 finished
  user: look around
  thought: **Looking**⏎What is here?
  assistant: I look.
  call run_shell_command {"command":"echo hi-from-here"}
  result of run_shell_command ok: {"output":"<untrusted_context>\nOutput: hi-from-here\nProcess Group PGID: …\n</untrusted_context>"}
  assistant: It says hi.
"#;

/// Waits for the next minute. Files are named by the minute, and a session that is resumed in another minute is written
/// to two of them.
fn next_minute() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    thread::sleep(Duration::from_secs(61 - now % 60));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_and_again_after_each_resume() {
    let sandbox = sandbox();
    let id = prompt(&sandbox, &["look around"]);
    assert_eq!(told(&sandbox, &id), LOOKED);
    assert_eq!(prompt(&sandbox, &["-r", &id, "and then?"]), id);
    let then = [LOOKED, &echoed(2, "and then?")].concat();
    assert_eq!(told(&sandbox, &id), then);
    // Gemini CLI removes a failed prompt from its history.
    prompt(&sandbox, &["-r", &id, "break"]);
    assert_eq!(told(&sandbox, &id), then);

    next_minute();
    assert_eq!(prompt(&sandbox, &["-r", &id, "later"]), id);
    let later = [then, echoed(3, "later")].concat();
    assert_eq!(told(&sandbox, &id), later);
    let catalog = Catalog::new(vec![Arc::new(reader(&sandbox))]);
    let listed = catalog.list_sessions(None, None).sessions;
    assert_eq!(listed.len(), 1, "{listed:#?}");
    assert_eq!(listed[0].head.id.as_str(), id);
    assert_eq!(listed[0].head.cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(listed[0].head.first_prompt.as_deref(), Some("look around"));

    let turns = read(&reader(&sandbox), &find(&reader(&sandbox), &id));
    // Two requests, each of 101 tokens, 11 of them from a cache, and 5 tokens of thoughts in addition to 20 of the
    // answer.
    assert_eq!(turns[0].usage.input_tokens, Some(2 * 101));
    assert_eq!(turns[0].usage.cached_tokens, Some(2 * 11));
    assert_eq!(turns[0].usage.output_tokens, Some(2 * (20 + 5)));
    keep(&sandbox, VERSION, "resumed", ".gemini", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn over_acp_the_same_is_read_back_also_after_a_load() {
    let sandbox = sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let first_words = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", first_words);
    acp.prompt(&id, "go on");
    drop(acp);
    // Gemini CLI also removes a stopped prompt from its history.
    let before = [LOOKED, &echoed(2, "go on")].concat();
    assert_eq!(told(&sandbox, &id), before);

    next_minute();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    drop(acp);
    assert_eq!(
        told(&sandbox, &id),
        [before, echoed(3, "once more")].concat()
    );
    keep(&sandbox, VERSION, "acp", ".gemini", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_was_compacted_still_counts() {
    let sandbox = sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    acp.prompt(&id, "fill it up");
    acp.prompt(&id, "go on");
    drop(acp);
    let filled = "2 finished, compacted\n  user: fill it up\n  assistant: It is full.\n";
    let story = [LOOKED, filled, &echoed(3, "go on")].concat();
    assert_eq!(told(&sandbox, &id), story);
    keep(&sandbox, VERSION, "compacted", ".gemini", READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn what_gemini_lists_is_understood() {
    let sandbox = sandbox();
    let nothing = sandbox.run(SandboxCli::Gemini, ["--list-sessions"]);
    let listing = parse_listing(&nothing.stdout, Timestamp::now());
    assert_eq!(
        (listing.sessions.len(), listing.skipped),
        (0, 0),
        "{nothing:#?}"
    );
    let first = prompt(&sandbox, &["what (is) [this]?"]);
    let second = prompt(&sandbox, &["and that?"]);
    let listed = sandbox.run(SandboxCli::Gemini, ["--list-sessions"]);
    let listing = parse_listing(&listed.stdout, Timestamp::now());
    assert_eq!(listing.skipped, 0, "{listed:#?}");
    let ids: Vec<&str> = listing.sessions.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, [first.as_str(), second.as_str()]);
    // The listing may have caused the model to create a title for the newest session.
    assert_eq!(listing.sessions[0].title, "what (is) [this]?");
}
