//! Tests with Gemini CLI, from a shell and over ACP.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use segue_providers::{GeminiReader, NativeSessionKind, Reader, SessionHead, parse_listing};
use segue_testkit::model::{Reply, StubUsage};
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use serde_json::Value;

use crate::conversation_text::format_turns;
use crate::real::corpus::{ReaderFactory, save_fixture};
use crate::real::session::{cli_script, find_session, format_echo_turn, read_turns};

const VERSION: &str = "0.61.0";
const NEW_READER: ReaderFactory = |home| Box::new(GeminiReader::new(home));

fn create_sandbox() -> Sandbox {
    let usage = StubUsage {
        input: 900_000,
        ..StubUsage::default()
    };
    let full_reply = Reply::from_text("It is full.").with_usage(usage);
    Sandbox::new(cli_script("**Looking** What is here?").with_rule("fill it up", [full_reply]))
}

/// Runs a prompt, and returns the session's id.
fn run_prompt(sandbox: &Sandbox, args: &[&str]) -> String {
    let common_args = ["--yolo", "-m", "gemini-2.5-flash", "-o", "stream-json"];
    let run = sandbox.run(SandboxCli::Gemini, common_args.iter().chain(args));
    let events = run.json_lines();
    let id = events.iter().find_map(|event| event["session_id"].as_str());
    id.unwrap_or_else(|| panic!("{run:#?}")).to_owned()
}

fn open_reader(sandbox: &Sandbox) -> GeminiReader {
    GeminiReader::new(sandbox.home().join(".gemini"))
}

fn read_session_text(sandbox: &Sandbox, id: &str) -> String {
    let reader = open_reader(sandbox);
    format_turns(&read_turns(&reader, &find_session(&reader, id)))
}

const LOOK_AROUND_TURN: &str = r#"1 finished
  user: look around
  thought: **Looking**⏎What is here?
  assistant: I look.
  call run_shell_command {"command":"echo hi-from-here"}
  result of run_shell_command ok: {"output":"<untrusted_context>\nOutput: hi-from-here\nProcess Group PGID: …\n</untrusted_context>"}
  assistant: It says hi.
"#;

/// Waits for the next minute. Files are named by the minute, and a session that is resumed in another minute is written
/// to two of them.
fn wait_for_next_minute() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    thread::sleep(Duration::from_secs(61 - now % 60));
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn a_conversation_is_read_back_after_each_resume() {
    let sandbox = create_sandbox();
    let id = run_prompt(&sandbox, &["look around"]);
    assert_eq!(read_session_text(&sandbox, &id), LOOK_AROUND_TURN);
    assert_eq!(run_prompt(&sandbox, &["-r", &id, "and then?"]), id);
    let after_resume = [LOOK_AROUND_TURN, &format_echo_turn(2, "and then?")].concat();
    assert_eq!(read_session_text(&sandbox, &id), after_resume);
    // Gemini CLI removes a failed prompt from its history.
    run_prompt(&sandbox, &["-r", &id, "break"]);
    assert_eq!(read_session_text(&sandbox, &id), after_resume);

    wait_for_next_minute();
    assert_eq!(run_prompt(&sandbox, &["-r", &id, "later"]), id);
    let after_second_resume = [after_resume, format_echo_turn(3, "later")].concat();
    assert_eq!(read_session_text(&sandbox, &id), after_second_resume);
    let reader = open_reader(&sandbox);
    let locations = reader.scan_sessions().locations;
    let mut heads: Vec<SessionHead> = locations
        .iter()
        .map(|location| reader.read_head(location).unwrap())
        .collect();
    heads.retain(|head| head.kind == NativeSessionKind::Conversation);
    assert_eq!(heads.len(), 1, "{heads:#?}");
    assert_eq!(heads[0].id.as_str(), id);
    assert_eq!(heads[0].cwd.as_deref(), sandbox.project().to_str());
    assert_eq!(heads[0].first_prompt.as_deref(), Some("look around"));

    let turns = read_turns(
        &open_reader(&sandbox),
        &find_session(&open_reader(&sandbox), &id),
    );
    // Two requests, each of 101 tokens, 11 of them from a cache, and 5 tokens of thoughts in addition to 20 of the
    // answer.
    assert_eq!(turns[0].usage.input_tokens, Some(2 * 101));
    assert_eq!(turns[0].usage.cached_tokens, Some(2 * 11));
    assert_eq!(turns[0].usage.output_tokens, Some(2 * (20 + 5)));
    save_fixture(&sandbox, VERSION, "resumed", ".gemini", NEW_READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn an_acp_session_is_read_back_after_a_load() {
    let sandbox = create_sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    let is_first_text = |update: &Value| update["sessionUpdate"] == "agent_message_chunk";
    acp.prompt_and_cancel(&id, "hang", is_first_text);
    acp.prompt(&id, "go on");
    drop(acp);
    // Gemini CLI also removes a stopped prompt from its history.
    let before = [LOOK_AROUND_TURN, &format_echo_turn(2, "go on")].concat();
    assert_eq!(read_session_text(&sandbox, &id), before);

    wait_for_next_minute();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    acp.load_session(&id).unwrap();
    acp.prompt(&id, "once more");
    drop(acp);
    assert_eq!(
        read_session_text(&sandbox, &id),
        [before, format_echo_turn(3, "once more")].concat()
    );
    save_fixture(&sandbox, VERSION, "acp", ".gemini", NEW_READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn compacted_turns_are_retained() {
    let sandbox = create_sandbox();
    let mut acp = sandbox.start_acp(SandboxCli::Gemini);
    let id = acp.new_session();
    acp.prompt(&id, "look around");
    acp.prompt(&id, "fill it up");
    acp.prompt(&id, "go on");
    drop(acp);
    let filled = "2 finished, compacted\n  user: fill it up\n  assistant: It is full.\n";
    let session_text = [LOOK_AROUND_TURN, filled, &format_echo_turn(3, "go on")].concat();
    assert_eq!(read_session_text(&sandbox, &id), session_text);
    save_fixture(&sandbox, VERSION, "compacted", ".gemini", NEW_READER);
}

#[test]
#[ignore = "runs the real CLIs: cargo xtask test"]
fn the_listing_of_gemini_cli_is_parsed() {
    let sandbox = create_sandbox();
    let empty_output = sandbox.run(SandboxCli::Gemini, ["--list-sessions"]);
    let listing = parse_listing(&empty_output.stdout, Timestamp::now());
    assert_eq!(
        (listing.sessions.len(), listing.skipped),
        (0, 0),
        "{empty_output:#?}"
    );
    let first = run_prompt(&sandbox, &["what (is) [this]?"]);
    let second = run_prompt(&sandbox, &["and that?"]);
    let output = sandbox.run(SandboxCli::Gemini, ["--list-sessions"]);
    let listing = parse_listing(&output.stdout, Timestamp::now());
    assert_eq!(listing.skipped, 0, "{output:#?}");
    let ids: Vec<&str> = listing
        .sessions
        .iter()
        .map(|session| session.id.as_str())
        .collect();
    assert_eq!(ids, [first.as_str(), second.as_str()]);
    // The listing may have caused the model to create a title for the newest session.
    assert_eq!(listing.sessions[0].title, "what (is) [this]?");
}
