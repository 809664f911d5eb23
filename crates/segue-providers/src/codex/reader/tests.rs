use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use segue_core::session::{Part, TitleSource, TurnState};
use serde_json::{Value, json};

use super::super::tool_failure;
use super::*;
use crate::compression::compress;
use crate::{read_outline, read_turn, read_turns};

/// Id of the session, which is the parent if there is a fork.
const PARENT: &str = "01a1e1c9-a9d7-7401-9e63-df60adf7fbc8";
/// Id of a fork of the session.
const FORK: &str = "01a1e1c9-b34e-7500-936f-4f21715570df";
/// Id of a revert, and of the file in which the reverted session continues.
const REVERT: &str = "01a1e1c9-b225-7eb3-9ba5-499d24b95664";

/// Builder of the text of a session file. Newer versions of Codex number the lines of a file (`ordinal`), older ones do
/// not.
struct CodexLogBuilder {
    text: String,
    /// Number of the next line. `None` in a file without numbers.
    ordinal: Option<u64>,
}

impl CodexLogBuilder {
    fn with_ordinals(first: u64) -> Self {
        let (text, ordinal) = (String::new(), Some(first));
        Self { text, ordinal }
    }

    fn without_ordinals() -> Self {
        let (text, ordinal) = (String::new(), None);
        Self { text, ordinal }
    }

    fn line(mut self, kind: &str, payload: &Value) -> Self {
        let number = self.ordinal.map(|number| format!(r#""ordinal":{number},"#));
        let number = number.unwrap_or_default();
        let frame = format!(r#"{{"timestamp":"2026-11-16T00:37:34.379Z",{number}"type":"{kind}""#);
        let payload = format_type_first(payload);
        self.text += &[frame.as_str(), ",\"payload\":", &payload, "}\n"].concat();
        self.ordinal = self.ordinal.map(|number| number + 1);
        self
    }

    fn meta(self, id: &str, more: &Value) -> Self {
        let mut meta = json!({"id": id, "timestamp": "2026-11-16T00:37:34.373Z", "cwd": "/w", "source": "exec",
            "cli_version": "0.166.0", "base_instructions": {"text": "Say \"hello\" \\"}, "git": {"branch": "main"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            meta[key] = value.clone();
        }
        self.line("session_meta", &meta)
    }

    fn item(self, item: &Value) -> Self {
        self.line("response_item", item)
    }

    fn event(self, kind: &str, more: &Value) -> Self {
        let mut event = more.clone();
        event["type"] = json!(kind);
        self.line("event_msg", &event)
    }

    fn user(self, text: &str) -> Self {
        self.item(&json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}))
    }

    fn assistant(self, text: &str) -> Self {
        self.item(&json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}))
    }

    fn task_start(self) -> Self {
        self.event("task_started", &json!({"model_context_window": 1000}))
    }

    fn task_end(self) -> Self {
        self.event("task_complete", &json!({"last_agent_message": "x"}))
    }

    fn turn(self, prompt: &str, answer: &str) -> Self {
        self.task_start().user(prompt).assistant(answer).task_end()
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}

/// Formats a payload with its type first, as Codex does.
fn format_type_first(payload: &Value) -> String {
    let mut remainder = payload.clone();
    let kind = remainder
        .as_object_mut()
        .and_then(|fields| fields.remove("type"));
    let remainder = remainder.to_string();
    match kind {
        Some(kind) if remainder == "{}" => format!("{{\"type\":{kind}}}"),
        Some(kind) => format!("{{\"type\":{kind},{}", &remainder[1..]),
        None => remainder,
    }
}

struct CodexTestHome {
    directory: tempfile::TempDir,
}

impl CodexTestHome {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn reader(&self) -> CodexReader {
        CodexReader::new(self.directory.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        let name = format!("rollout-2026-11-16T00-37-34-{name}");
        self.directory.path().join("sessions/2026/11/16").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        write(&path, text);
        path
    }

    fn location(&self, id: &str) -> SessionLocation {
        let locations = self.reader().scan_sessions().locations;
        let has_id =
            |location: &SessionLocation| location.id_hint == IdHint::Complete(id.to_owned());
        locations.into_iter().find(has_id).unwrap()
    }

    fn head(&self, id: &str) -> SessionHead {
        self.reader().read_head(&self.location(id)).unwrap()
    }

    fn turns(&self, id: &str) -> Vec<NativeTurn> {
        let records = self
            .reader()
            .open_records(&self.location(id), &ReadStart::Beginning);
        read_turns(records.unwrap().as_mut()).unwrap().into_turns()
    }

    /// Returns the formatted turns of a session. Asserts that all methods of reading return the same turns.
    fn read_checked_turns(&self, id: &str) -> Vec<String> {
        let (reader, location) = (self.reader(), self.location(id));
        let turns = self.turns(id);
        let records = reader.open_records(&location, &ReadStart::Beginning);
        let outline = read_outline(records.unwrap().as_mut())
            .unwrap()
            .into_turns();
        for (outline_turn, full_turn) in outline.iter().zip(&turns) {
            assert_eq!(
                read_turn(&reader, &location, outline_turn)
                    .unwrap()
                    .messages,
                full_turn.messages
            );
        }
        for count in 1..=turns.len() + 1 {
            let (recent, is_complete) = reader.read_recent_turns(&location, count).unwrap();
            let format_turns =
                |turns: &[NativeTurn]| turns.iter().map(format_turn).collect::<Vec<_>>();
            let last = &turns[turns.len().saturating_sub(count)..];
            assert_eq!(
                format_turns(&recent),
                format_turns(last),
                "the last {count}"
            );
            assert_eq!(is_complete, count >= turns.len());
        }
        turns.iter().map(format_turn).collect()
    }
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn format_turn(turn: &NativeTurn) -> String {
    let format_part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Thought(text) => format!("({text})"),
        Part::FunctionCall { name, args, .. } => format!("{name}{}", args.as_str()),
        Part::FunctionResponse {
            name,
            response,
            is_error,
            ..
        } => {
            let failed = if *is_error { "!" } else { "" };
            format!("{name}{failed}={}", response.as_str())
        }
        Part::InlineData(data) => format!("[{}]", data.mime_type),
        Part::Unknown(json) => format!("?{}", json.as_str()),
    };
    let parts = turn.messages.iter().flat_map(|message| &message.parts);
    let parts: Vec<_> = parts.map(format_part).collect();
    format!("{}: {}", turn.state.as_str(), parts.join(" | "))
}

/// Writes a session file and returns the formatted turns of the session.
fn read_log_turns(log: CodexLogBuilder) -> Vec<String> {
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), log.text);
    test_home.read_checked_turns(PARENT)
}

#[test]
fn messages_and_tool_calls_are_read_in_both_formats() {
    for (numbered, log) in [
        (true, CodexLogBuilder::with_ordinals(0)),
        (false, CodexLogBuilder::without_ordinals()),
    ] {
        let mut log = log
            .meta(PARENT, &json!({}))
            .task_start()
            .item(&json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be good"}]}))
            .user("<environment_context>\n  <cwd>/w</cwd></environment_context>")
            .line("turn_context", &json!({"cwd": "/w"}))
            .user("look");
        log = if numbered {
            log.event("item_completed", &json!({"item": {"type": "UserMessage", "content": [{"type": "text", "text": "look"}]}}))
        } else {
            log.event("user_message", &json!({"message": "look"}))
                .event("agent_reasoning", &json!({"text": "hm"}))
                .event("agent_message", &json!({"message": "done"}))
        };
        let log = log
            .item(&json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": null}))
            .item(&json!({"type": "function_call", "name": "ls", "namespace": "mcp__lab", "arguments": "{\"a\": 1}", "call_id": "c1"}))
            .item(&json!({"type": "custom_tool_call", "name": "apply_patch", "input": "*** x", "call_id": "c2"}))
            .item(&json!({"type": "local_shell_call", "call_id": "c3", "action": {"type": "exec"}}))
            .item(&json!({"type": "web_search_call", "action": {"query": "q", "type": "search"}}))
            .item(&json!({"type": "function_call_output", "call_id": "c1", "output": [{"text": "a", "type": "input_text"}]}))
            .item(&json!({"type": "custom_tool_call_output", "call_id": "c2", "output": "Exit code: 1\nOutput:\nno"}))
            .item(&json!({"type": "function_call_output", "call_id": "c3", "output": "ok"}))
            .item(&json!({"type": "unknown_type", "x": 1}))
            .assistant("done")
            .task_end();
        assert_eq!(
            read_log_turns(log),
            [concat!(
                "finished: look | (hm) | mcp__lab__ls{\"a\": 1} | apply_patch\"*** x\" | local_shell{\"type\":\"exec\"} | ",
                "web_search{\"query\":\"q\",\"type\":\"search\"} | mcp__lab__ls=[{\"text\":\"a\",\"type\":\"input_text\"}] | ",
                "apply_patch!=\"Exit code: 1\\nOutput:\\nno\" | local_shell=\"ok\" | ?{\"type\":\"unknown_type\",\"x\":1} | done"
            )]
        );
    }
}

#[test]
fn a_prompt_contains_its_images_but_not_their_labels() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let content = json!([text("see"), text("<image name=[Image #1]>"), image, text("</image>"),
        {"type": "input_image", "image_url": "https://example.org/x.png"}]);
    let log = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .item(&json!({"type": "message", "role": "user", "content": content}));
    let turns = read_log_turns(log);
    assert_eq!(turns.len(), 1);
    assert!(
        turns[0].starts_with("running: see | [image/png] | ?{"),
        "{turns:?}"
    );
}

#[test]
fn the_kind_of_a_text_takes_precedence_over_its_beginning() {
    let message_of_kind = |kind: &str| {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}],
            "internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}})
    };
    let log = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .item(&message_of_kind("environments.environment_context"));
    assert_eq!(
        read_log_turns(log.item(&message_of_kind("user.text"))),
        ["running: <environment_context>"]
    );
    let log = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .item(&message_of_kind("unknown"))
        .user("<user_action>");
    assert_eq!(read_log_turns(log), [""; 0]);
}

#[test]
fn turns_end_as_their_events_report() {
    let aborted = json!({"reason": "interrupted"});
    let error = json!({"last_agent_message": null, "error": {"message": "no"}});
    let silent = json!({"last_agent_message": null});
    let log = CodexLogBuilder::with_ordinals(0)
        .turn("one", "1")
        .task_start()
        .user("two")
        .user("<turn_aborted>\nx")
        .event("turn_aborted", &aborted)
        .task_start()
        .user("three")
        .event("task_complete", &error)
        .task_start()
        .user("four")
        .event("error", &json!({"message": "no"}))
        .event("task_complete", &silent)
        .task_start()
        .user("five")
        .event("error", &json!({"message": "no"}))
        .assistant("5")
        .task_end()
        .task_start()
        .user("six")
        .task_start()
        .user("seven");
    assert_eq!(
        read_log_turns(log),
        [
            "finished: one | 1",
            "cancelled: two",
            "failed: three",
            "failed: four",
            "finished: five | 5",
            "interrupted: six",
            "running: seven"
        ]
    );
}

#[test]
fn messages_to_a_running_agent_begin_no_turn() {
    for log in [
        CodexLogBuilder::with_ordinals(0),
        CodexLogBuilder::without_ordinals(),
    ] {
        let log = log
            .turn("zero", "0")
            .task_start()
            .user("one")
            .user("and this")
            .user("and that")
            .assistant("1")
            .task_end()
            .turn("two", "2");
        assert_eq!(
            read_log_turns(log),
            [
                "finished: zero | 0",
                "finished: one | and this | and that | 1",
                "finished: two | 2"
            ]
        );
    }
}

#[test]
fn a_session_may_begin_without_tasks_and_continue_with_them() {
    let log = CodexLogBuilder::without_ordinals()
        .user("one")
        .assistant("1")
        .user("two")
        .assistant("2")
        .task_start()
        .user("three")
        .user("and this")
        .assistant("3")
        .task_end();
    assert_eq!(
        read_log_turns(log),
        [
            "finished: one | 1",
            "finished: two | 2",
            "finished: three | and this | 3"
        ]
    );
}

#[test]
fn a_shell_command_of_the_user_is_a_note_and_does_not_change_the_turn_state() {
    let shell_command = "<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>";
    let log = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .user("one")
        .event("turn_aborted", &json!({}))
        .task_start()
        .user(shell_command)
        .task_end();
    assert_eq!(
        read_log_turns(log),
        ["cancelled: one | <command>\nls\n</command>"]
    );
}

#[test]
fn a_summary_for_the_agent_itself_is_not_a_message() {
    let compacted = json!({"message": "Summary:\nall about it", "replacement_history": []});
    let log = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .user("one")
        .event("turn_aborted", &json!({}))
        .task_start()
        .assistant("all about it")
        .line("compacted", &compacted)
        .task_end()
        .task_start()
        .user("two")
        .assistant("in between")
        .assistant("all about it")
        .line("compacted", &compacted)
        .assistant("2")
        .task_end();
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), log.text);
    assert_eq!(
        test_home.read_checked_turns(PARENT),
        ["cancelled: one", "finished: two | in between | 2"]
    );
    let compacted: Vec<bool> = test_home
        .turns(PARENT)
        .iter()
        .map(|turn| turn.compacted)
        .collect();
    assert_eq!(compacted, [true, true]);
}

#[test]
fn the_oldest_files_contain_no_tasks_or_no_frames() {
    let log = CodexLogBuilder::without_ordinals()
        .meta(PARENT, &json!({}))
        .user("one")
        .assistant("1")
        .user("two")
        .assistant("so")
        .assistant("2")
        .user("three");
    assert_eq!(
        read_log_turns(log),
        [
            "finished: one | 1",
            "finished: two | so | 2",
            "running: three"
        ]
    );
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), concat!(
        r#"{"id":"x","timestamp":"2025-08-01T10:00:00Z","instructions":null,"git":{"branch":"old"}}"#, "\n",
        r#"{"record_type":"state"}"#, "\n",
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#, "\n",
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ho"}]}"#, "\n",
    ));
    assert_eq!(test_home.read_checked_turns(PARENT), ["finished: hi | ho"]);
    let head = test_home.head(PARENT);
    assert_eq!(
        (head.branch.as_deref(), head.kind),
        (Some("old"), NativeSessionKind::Conversation)
    );
}

#[test]
fn rolled_back_turns_are_removed() {
    let rollback = |turns: u32| json!({"num_turns": turns});
    let log = CodexLogBuilder::without_ordinals()
        .turn("one", "1")
        .turn("two", "2")
        .turn("three", "3")
        .event("thread_rolled_back", &rollback(2))
        .turn("four", "4");
    assert_eq!(
        read_log_turns(log),
        ["finished: one | 1", "finished: four | 4"]
    );
    assert_eq!(
        read_log_turns(
            CodexLogBuilder::without_ordinals()
                .turn("one", "1")
                .event("thread_rolled_back", &rollback(9))
        ),
        [""; 0]
    );
}

#[test]
fn each_request_is_counted_once() {
    let tokens = |input: u64| json!({"input_tokens": input, "cached_input_tokens": 2, "output_tokens": 5, "total_tokens": input + 5});
    let count = |input: u64| json!({"info": {"last_token_usage": tokens(input), "model_context_window": 1000}});
    let usage_record =
        |input: u64| json!({"response_id": format!("r{input}"), "usage": tokens(input)});
    let call = json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let newer = CodexLogBuilder::with_ordinals(0)
        .task_start()
        .user("one")
        .item(&call)
        .line("token_usage_record", &usage_record(10))
        .item(&output)
        .event("token_count", &count(10))
        .assistant("1")
        .line("token_usage_record", &usage_record(20))
        .event("token_count", &count(20))
        .task_end()
        .task_start()
        .user("two")
        .event("token_count", &count(20))
        .event("turn_aborted", &json!({}));
    let older = CodexLogBuilder::without_ordinals()
        .task_start()
        .user("one")
        .item(&call)
        .item(&output)
        .event("token_count", &count(10))
        .event("token_count", &count(10))
        .assistant("1")
        .event("token_count", &count(20))
        .task_end()
        .task_start()
        .user("two")
        .event("token_count", &count(20))
        .event("turn_aborted", &json!({}));
    for log in [newer, older] {
        let test_home = CodexTestHome::new();
        test_home.write(&format!("{PARENT}.jsonl"), log.text);
        let turns = test_home.turns(PARENT);
        let usage = turns[0].usage;
        assert_eq!(
            (usage.input_tokens, usage.output_tokens, usage.cached_tokens),
            (Some(30), Some(10), Some(4))
        );
        assert_eq!(
            (
                usage.total_tokens,
                usage.context_tokens,
                usage.context_window
            ),
            (Some(40), Some(25), Some(1000))
        );
        assert_eq!(turns[1].usage.total_tokens, None);
    }
}

#[test]
fn a_turn_without_a_model_uses_the_model_of_the_previous_turn() {
    let usage_record =
        json!({"response_id": "r", "usage": {"input_tokens": 3, "output_tokens": 1}});
    let add_turn = |log: CodexLogBuilder, turn_context: &Value| {
        log.task_start()
            .line("turn_context", turn_context)
            .user("x")
            .assistant("y")
            .line("token_usage_record", &usage_record)
            .task_end()
    };
    let log = CodexLogBuilder::with_ordinals(0).meta(PARENT, &json!({}));
    let log = add_turn(log, &json!({"model": "gpt-5"}));
    let log = add_turn(log, &json!({}));
    let log = add_turn(log, &json!({"model": "gpt-5-mini"}));
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), log.text);
    let turns = test_home.turns(PARENT);
    let models: Vec<_> = turns
        .iter()
        .map(|turn| turn.model.as_deref().unwrap())
        .collect();
    assert_eq!(models, ["gpt-5", "gpt-5", "gpt-5-mini"]);
}

#[test]
fn failures_are_detected_by_text_or_by_the_preceding_event() {
    let is_failed = |text: &str| tool_failure::is_failed_output(&json!(text).to_string());
    for text in [
        "Chunk ID: 1\nProcess exited with code 3\nOutput:\n",
        "Exit code: 127\nOutput:\n",
        "unsupported call: x",
        "{\"output\":\"x\",\"metadata\":{\"exit_code\":1,\"duration_seconds\":0}}",
        "Wall time: 1.3 seconds\naborted by user",
    ] {
        assert!(is_failed(text), "{text:?}");
    }
    for text in [
        "",
        "Process exited with code 0\nOutput:\nProcess exited with code 3",
        "Exit code: 0\n",
        "error: exit code 3",
        "{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}",
    ] {
        assert!(!is_failed(text), "{text:?}");
    }
    assert!(tool_failure::is_failed_output(
        r#"{"content":"x","success":false}"#
    ));
    let failed_id = |event: Value| tool_failure::failed_call_id(&event.to_string());
    let failed = Some("c".to_owned());
    assert_eq!(
        failed_id(
            json!({"item": {"type": "CommandExecution", "id": "c", "status": "failed", "exit_code": 1}})
        ),
        failed
    );
    assert_eq!(
        failed_id(json!({"item": {"type": "McpToolCall", "id": "c", "status": "failed"}})),
        failed
    );
    assert_eq!(
        failed_id(json!({"call_id": "c", "result": {"Err": "x"}})),
        failed
    );
    assert_eq!(failed_id(json!({"call_id": "c", "success": false})), failed);
    assert_eq!(
        failed_id(
            json!({"item": {"type": "CommandExecution", "id": "c", "status": "completed", "exit_code": 0}})
        ),
        None
    );
    assert_eq!(
        failed_id(json!({"call_id": "c", "result": {"Ok": {"content": [], "is_error": false}}})),
        None
    );
}

/// Writes a session with the turns "one" and "two", which is reverted to "one" and continued with "three" and "four",
/// and a fork after "three", which is continued with "five".
fn write_fork_family(test_home: &CodexTestHome) {
    let parent = CodexLogBuilder::with_ordinals(0)
        .meta(PARENT, &json!({}))
        .turn("one", "1");
    let (shared_bytes, at) = (parent.len(), parent.ordinal.unwrap());
    test_home.write(&format!("{PARENT}.jsonl"), parent.turn("two", "2").text);
    let base = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": at, "end_byte_offset": shared_bytes}});
    let later = CodexLogBuilder::with_ordinals(at)
        .meta(PARENT, &base)
        .turn("three", "3");
    let (shared_bytes, at) = (later.len(), later.ordinal.unwrap());
    test_home.write(
        &format!("{PARENT}_{REVERT}.jsonl"),
        later.turn("four", "4").text,
    );
    let base = json!({"forked_from_id": PARENT, "forked_from_ordinal_exclusive": at,
        "history_base": {"thread_id": REVERT, "end_ordinal_exclusive": at, "end_byte_offset": shared_bytes}});
    test_home.write(
        &format!("{FORK}.jsonl"),
        CodexLogBuilder::with_ordinals(at)
            .meta(FORK, &base)
            .turn("five", "5")
            .text,
    );
}

/// Turns of the session that [`write_fork_family`] writes.
const REVERTED_TURNS: [&str; 3] = [
    "finished: one | 1",
    "finished: three | 3",
    "finished: four | 4",
];
/// Turns of the fork that [`write_fork_family`] writes.
const FORKED_TURNS: [&str; 3] = [
    "finished: one | 1",
    "finished: three | 3",
    "finished: five | 5",
];

#[test]
fn forks_and_reverts_continue_other_files() {
    let test_home = CodexTestHome::new();
    write_fork_family(&test_home);
    assert_eq!(test_home.reader().scan_sessions().locations.len(), 2);
    assert_eq!(test_home.read_checked_turns(PARENT), REVERTED_TURNS);
    assert_eq!(test_home.read_checked_turns(FORK), FORKED_TURNS);
    let (parent, fork) = (test_home.head(PARENT), test_home.head(FORK));
    assert_eq!(parent.first_prompt.as_deref(), Some("one"));
    assert_eq!(parent.created_at, home::id_creation_time(PARENT));
    assert_eq!(fork.first_prompt.as_deref(), Some("one"));
    assert_eq!(fork.forked_from.as_deref(), Some(PARENT));
    // Both sessions have the same marks for shared records.
    let (parent, fork) = (test_home.turns(PARENT), test_home.turns(FORK));
    assert_eq!(parent[1].until, fork[1].until);
    let start = ReadStart::After(parent[1].until.clone());
    let mut records = test_home
        .reader()
        .open_records(&test_home.location(FORK), &start)
        .unwrap();
    let later_turns = read_turns(records.as_mut()).unwrap().into_turns();
    assert_eq!(
        later_turns.iter().map(format_turn).collect::<Vec<_>>(),
        [FORKED_TURNS[2]]
    );
    let start = ReadStart::After(parent[2].until.clone());
    let result = test_home
        .reader()
        .open_records(&test_home.location(FORK), &start);
    assert!(matches!(result.err(), Some(ReadError::MarkNotFound { .. })));
}

#[test]
fn compressed_files_read_the_same() {
    let test_home = CodexTestHome::new();
    write_fork_family(&test_home);
    let marks = |id: &str| {
        test_home
            .turns(id)
            .into_iter()
            .map(|turn| turn.until)
            .collect::<Vec<_>>()
    };
    let (parent, fork) = (marks(PARENT), marks(FORK));
    for name in [
        PARENT.to_owned(),
        format!("{PARENT}_{REVERT}"),
        FORK.to_owned(),
    ] {
        let uncompressed = test_home.path(&format!("{name}.jsonl"));
        let compressed = compress(&fs::read(&uncompressed).unwrap());
        fs::write(test_home.path(&format!("{name}.jsonl.zst")), compressed).unwrap();
        fs::remove_file(uncompressed).unwrap();
        assert_eq!(test_home.read_checked_turns(PARENT), REVERTED_TURNS);
        assert_eq!(test_home.read_checked_turns(FORK), FORKED_TURNS);
        assert_eq!((marks(PARENT), marks(FORK)), (parent.clone(), fork.clone()));
        assert_eq!(test_home.head(FORK).first_prompt.as_deref(), Some("one"));
    }
}

#[test]
fn a_truncated_compressed_file_is_read_up_to_its_end() {
    let test_home = CodexTestHome::new();
    let mut log = CodexLogBuilder::with_ordinals(0);
    for number in 0..2000 {
        log = log.turn(&format!("ask {number}"), &format!("{number:0200}"));
    }
    let compressed = compress(log.text.as_bytes());
    test_home.write(
        &format!("{PARENT}.jsonl.zst"),
        &compressed[..compressed.len() / 2],
    );
    let mut records = test_home
        .reader()
        .open_records(&test_home.location(PARENT), &ReadStart::Beginning)
        .unwrap();
    read_turns(records.as_mut()).unwrap();
    assert_eq!(records.skipped().malformed, 0);
    test_home.write(&format!("{PARENT}.jsonl.zst"), b"no zstd at all");
    assert!(test_home.turns(PARENT).is_empty());
    assert_eq!(test_home.head(PARENT).kind, NativeSessionKind::Empty);
}

#[test]
fn the_base_of_a_fork_may_be_missing_or_cyclic() {
    let test_home = CodexTestHome::new();
    write_fork_family(&test_home);
    fs::remove_file(test_home.path(&format!("{PARENT}.jsonl"))).unwrap();
    let is_orphaned = |id: &str| {
        let mut records = test_home
            .reader()
            .open_records(&test_home.location(id), &ReadStart::Beginning)
            .unwrap();
        read_turns(records.as_mut()).unwrap();
        records.skipped().orphaned
    };
    assert_eq!(test_home.read_checked_turns(FORK), FORKED_TURNS[1..]);
    assert!(is_orphaned(FORK));
    // A cycle.
    let base = |id: &str| json!({"history_base": {"thread_id": id, "end_ordinal_exclusive": 9}});
    test_home.write(
        &format!("{PARENT}.jsonl"),
        CodexLogBuilder::with_ordinals(9)
            .meta(PARENT, &base(FORK))
            .turn("six", "6")
            .text,
    );
    fs::remove_file(test_home.path(&format!("{PARENT}_{REVERT}.jsonl"))).unwrap();
    test_home.write(
        &format!("{FORK}.jsonl"),
        CodexLogBuilder::with_ordinals(9)
            .meta(FORK, &base(PARENT))
            .turn("seven", "7")
            .text,
    );
    assert!(is_orphaned(FORK) && is_orphaned(PARENT));
    // A path instead of an id.
    let hostile = CodexLogBuilder::with_ordinals(9)
        .meta(FORK, &base("../../../../etc/passwd"))
        .turn("eight", "8");
    test_home.write(&format!("{FORK}.jsonl"), hostile.text);
    assert_eq!(test_home.read_checked_turns(FORK), ["finished: eight | 8"]);
    assert!(is_orphaned(FORK));
}

#[test]
fn a_fork_may_name_only_an_ordinal() {
    let test_home = CodexTestHome::new();
    let parent = CodexLogBuilder::with_ordinals(0)
        .meta(PARENT, &json!({}))
        .turn("one", "1");
    let at = parent.ordinal.unwrap();
    test_home.write(&format!("{PARENT}.jsonl"), parent.turn("two", "2").text);
    let fork = json!({"forked_from_id": PARENT, "forked_from_ordinal_exclusive": at});
    test_home.write(
        &format!("{FORK}.jsonl"),
        CodexLogBuilder::with_ordinals(at)
            .meta(FORK, &fork)
            .turn("three", "3")
            .text,
    );
    assert_eq!(
        test_home.read_checked_turns(FORK),
        ["finished: one | 1", "finished: three | 3"]
    );
    // A byte offset that is not the end of a line is ignored.
    let base = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": at, "end_byte_offset": 33}});
    test_home.write(
        &format!("{FORK}.jsonl"),
        CodexLogBuilder::with_ordinals(at)
            .meta(FORK, &base)
            .turn("three", "3")
            .text,
    );
    assert_eq!(
        test_home.read_checked_turns(FORK),
        ["finished: one | 1", "finished: three | 3"]
    );
}

#[test]
fn forks_of_older_codex_versions_contain_copied_turns() {
    let test_home = CodexTestHome::new();
    let log = CodexLogBuilder::without_ordinals()
        .meta(FORK, &json!({}))
        .meta(PARENT, &json!({"cwd": "/other"}))
        .turn("one", "1")
        .turn("two", "2");
    test_home.write(&format!("{FORK}.jsonl"), log.text);
    assert_eq!(
        test_home.read_checked_turns(FORK),
        ["finished: one | 1", "finished: two | 2"]
    );
    let head = test_home.head(FORK);
    assert_eq!(
        (head.forked_from.as_deref(), head.cwd.as_deref()),
        (Some(PARENT), Some("/w"))
    );
}

#[test]
fn a_head_combines_the_first_line_and_the_title_list() {
    let test_home = CodexTestHome::new();
    let prompt = "# Context from my IDE setup:\n\n## My request for Codex:\nfix it";
    let log = CodexLogBuilder::with_ordinals(0)
        .meta(PARENT, &json!({"thread_source": "user"}))
        .turn(prompt, "ok");
    test_home.write(&format!("{PARENT}.jsonl"), log.text);
    let head = test_home.head(PARENT);
    assert_eq!(head.kind, NativeSessionKind::Conversation);
    assert_eq!(
        (
            head.cwd.as_deref(),
            head.branch.as_deref(),
            head.agent_version.as_deref()
        ),
        (Some("/w"), Some("main"), Some("0.166.0"))
    );
    assert_eq!(head.title.unwrap().as_str(), "fix it");
    let index = test_home.directory.path().join("session_index.jsonl");
    fs::write(&index, format!("{{\"id\":\"{PARENT}\",\"thread_name\":\"old\"}}\nrubbish\n{{\"id\":\"{PARENT}\",\"thread_name\":\"Mine\"}}\n")).unwrap();
    let reader = test_home.reader();
    let title = |reader: &CodexReader| {
        reader
            .read_head(&test_home.location(PARENT))
            .unwrap()
            .title
            .unwrap()
    };
    assert_eq!(
        (title(&reader).as_str(), title(&reader).source()),
        ("Mine", TitleSource::User)
    );
    fs::write(
        &index,
        format!("{{\"id\":\"{PARENT}\",\"thread_name\":\"Another\"}}\n"),
    )
    .unwrap();
    assert_eq!(title(&reader).as_str(), "Another");
}

/// Creates a message with an image whose Base64 text has about this many bytes.
fn image_message(bytes: usize) -> Value {
    let url = format!("data:image/png;base64,{}", "QUJD".repeat(bytes / 4));
    json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": url}]})
}

#[test]
fn a_session_with_a_too_long_first_prompt_is_a_conversation() {
    let started_log = || {
        CodexLogBuilder::with_ordinals(0)
            .meta(PARENT, &json!({}))
            .task_start()
    };
    let cases = [
        (
            started_log()
                .item(&image_message(MAX_HEAD_READ_BYTES))
                .assistant("1"),
            NativeSessionKind::Conversation,
        ),
        (
            started_log().item(&image_message(FIRST_HEAD_READ_BYTES)),
            NativeSessionKind::Conversation,
        ),
        (started_log(), NativeSessionKind::Empty),
        (
            started_log().event("unknown_type", &image_message(FIRST_HEAD_READ_BYTES)),
            NativeSessionKind::Empty,
        ),
    ];
    for (log, kind) in cases {
        let test_home = CodexTestHome::new();
        test_home.write(&format!("{PARENT}.jsonl"), log.text);
        assert_eq!(test_home.head(PARENT).kind, kind);
    }
}

#[test]
fn a_long_first_line_does_not_hide_the_last_write_time() {
    let meta = json!({"base_instructions": {"text": "x".repeat(FIRST_HEAD_READ_BYTES)}});
    let mut log = CodexLogBuilder::with_ordinals(0)
        .meta(PARENT, &meta)
        .turn("one", "1")
        .task_start()
        .item(&image_message(MAX_HEAD_READ_BYTES));
    log.text += r#"{"timestamp":"2026-11-17T00:00:00Z","type":"event_msg","payload":{}}"#;
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), log.text);
    let head = test_home.head(PARENT);
    assert_eq!(head.updated_at.to_string(), "2026-11-17T00:00:00Z");
    assert_eq!(head.first_prompt.as_deref(), Some("one"));
}

#[test]
fn a_pipe_is_not_a_session() {
    let test_home = CodexTestHome::new();
    let base = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": 9}});
    test_home.write(
        &format!("{FORK}.jsonl"),
        CodexLogBuilder::with_ordinals(0)
            .meta(FORK, &base)
            .turn("one", "1")
            .text,
    );
    create_pipe(&test_home.path(&format!("{PARENT}.jsonl")));
    create_pipe(&test_home.directory.path().join("session_index.jsonl"));
    assert_eq!(test_home.read_checked_turns(FORK), ["finished: one | 1"]);
    assert_eq!(test_home.head(FORK).kind, NativeSessionKind::Conversation);
    assert_eq!(test_home.reader().scan_sessions().locations.len(), 1);
}

fn create_pipe(path: &Path) {
    let status = std::process::Command::new("mkfifo").arg(path).status();
    assert!(status.unwrap().success());
}

#[test]
fn sessions_that_agents_start_are_not_conversations() {
    let kinds = [
        (
            json!({"source": {"subagent": "review"}}),
            NativeSessionKind::Subagent,
        ),
        (
            json!({"source": {"subagent": {"thread_spawn": {}}}, "thread_source": "subagent"}),
            NativeSessionKind::Subagent,
        ),
        (json!({"source": "cli"}), NativeSessionKind::Conversation),
        (
            json!({"source": {"custom": "tool"}}),
            NativeSessionKind::Conversation,
        ),
    ];
    for (meta, kind) in kinds {
        let test_home = CodexTestHome::new();
        test_home.write(
            &format!("{PARENT}.jsonl"),
            CodexLogBuilder::with_ordinals(0)
                .meta(PARENT, &meta)
                .turn("one", "1")
                .text,
        );
        assert_eq!(test_home.head(PARENT).kind, kind, "{meta}");
    }
    let test_home = CodexTestHome::new();
    test_home.write(
        &format!("{PARENT}.jsonl"),
        CodexLogBuilder::with_ordinals(0)
            .meta(PARENT, &json!({}))
            .text,
    );
    assert_eq!(test_home.head(PARENT).kind, NativeSessionKind::Empty);
}

#[test]
fn a_session_is_found_once_at_its_newest_file() {
    let test_home = CodexTestHome::new();
    let text = CodexLogBuilder::with_ordinals(0)
        .meta(PARENT, &json!({}))
        .text;
    test_home.write(&format!("{PARENT}.jsonl.zst"), "x");
    let uncompressed = test_home.write(&format!("{PARENT}.jsonl"), &text);
    assert_eq!(test_home.location(PARENT).path, uncompressed);
    let later = test_home.write(&format!("{PARENT}_{REVERT}.jsonl"), &text);
    assert_eq!(test_home.location(PARENT).path, later);
    let archived = test_home.directory.path().join("archived_sessions");
    write(
        &archived.join(format!("rollout-2026-11-16T00-37-34-{FORK}.jsonl")),
        &text,
    );
    assert!(test_home.location(FORK).archived);
    test_home.write("../x.jsonl", &text);
    fs::create_dir_all(test_home.path(&format!("{REVERT}.jsonl"))).unwrap();
    assert_eq!(test_home.reader().scan_sessions().locations.len(), 2);
    let scan = CodexReader::new(test_home.directory.path().join("nowhere")).scan_sessions();
    assert!(scan.locations.is_empty() && scan.unreadable.is_empty());
}

#[test]
fn malformed_lines_are_counted_and_do_not_end_the_read() {
    let test_home = CodexTestHome::new();
    let good = CodexLogBuilder::with_ordinals(0).turn("one", "1");
    let bad = "rubbish\n{\"timestamp\":\"x\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":7}}\n";
    let more = CodexLogBuilder::with_ordinals(4).turn("two", "2");
    test_home.write(
        &format!("{PARENT}.jsonl"),
        format!("{}{bad}{}{{\"timest", good.text, more.text),
    );
    assert_eq!(
        test_home.read_checked_turns(PARENT),
        ["finished: one | 1", "finished: two | 2"]
    );
    let mut records = test_home
        .reader()
        .open_records(&test_home.location(PARENT), &ReadStart::Beginning)
        .unwrap();
    read_turns(records.as_mut()).unwrap();
    assert_eq!(
        (records.skipped().malformed, records.skipped().truncated),
        (2, true)
    );
}

#[test]
fn the_state_of_a_turn_does_not_depend_on_json_spacing() {
    let spaced = concat!(
        "{\"type\": \"event_msg\", \"payload\": {\"turn_id\": \"t\", \"type\": \"task_started\"}, \"ordinal\": 0}\n",
        "{\"payload\": {\"content\": [{\"text\": \"hi\", \"type\": \"input_text\"}], \"role\": \"user\", \"type\": \"message\"}, \"type\": \"response_item\", \"ordinal\": 1}\n",
        "{\"type\": \"event_msg\", \"payload\": {\"type\": \"turn_aborted\"}, \"ordinal\": 2}\n",
    );
    let test_home = CodexTestHome::new();
    test_home.write(&format!("{PARENT}.jsonl"), spaced);
    assert_eq!(test_home.read_checked_turns(PARENT), ["cancelled: hi"]);
    assert_eq!(test_home.turns(PARENT)[0].state, TurnState::Cancelled);
}

proptest! {
    #[test]
    fn any_line_is_read_without_panic(line in ".{0,80}", mixed in prop::collection::vec(prop::sample::select(vec![
        "{\"timestamp\":\"", "2026-11-16T00:37:34Z", "\",", "\"ordinal\":", "7", "\"type\":\"", "response_item", "event_msg",
        "\",\"payload\":", "{\"type\":\"", "message", "task_complete", "}", "{", "\"", ",", "\\", "é", "\"role\":\"user\"", "[", "]", "null",
    ]), 0..30)) {
        for line in [line, mixed.concat()] {
            let mut format = CodexLineFormat::default();
            let _ = format.parse_line(&line, &mut LineEvents::default());
            let _ = CodexLineFormat::can_begin_turn(line.as_bytes()) && CodexLineFormat::is_turn_start(line.as_bytes());
            let _ = CodexFileMeta::parse(&strip_instructions(line.as_bytes()));
            let _ = (tool_failure::is_failed_output(&line), tool_failure::failed_call_id(&line));
        }
    }
}
