use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use segue_core::session::{Part, TitleSource, TurnState};
use serde_json::{Value, json};

use super::*;
use crate::compression::compress;
use crate::{conversation, outline, turn};

#[test]
fn requests_are_by_the_model_of_their_turn() {
    let used = json!({"response_id": "r", "usage": {"input_tokens": 3, "output_tokens": 1}});
    let turn = |log: Log, model: &Value| {
        log.starts()
            .line("turn_context", model)
            .user("x")
            .says("y")
            .line("token_usage_record", &used)
            .ends()
    };
    let log = turn(
        Log::numbered(0).meta(PARENT, &json!({})),
        &json!({"model": "gpt-5"}),
    );
    let log = turn(turn(log, &json!({})), &json!({"model": "gpt-5-mini"}));
    let world = tempfile::tempdir().unwrap();
    let path = world.path().join("rollout.jsonl");
    fs::write(&path, log.text).unwrap();
    let mut records = LineRecords::<Lines>::open(&path, &Start::Beginning).unwrap();
    let turns = conversation(&mut records).unwrap().into_turns();
    let models: Vec<_> = turns
        .iter()
        .map(|turn| turn.model.as_deref().unwrap())
        .collect();
    assert_eq!(models, ["gpt-5", "gpt-5", "gpt-5-mini"]);
}

const PARENT: &str = "01a1e1c9-a9d7-7401-9e63-df60adf7fbc8";
const FORK: &str = "01a1e1c9-b34e-7500-936f-4f21715570df";
const LATER: &str = "01a1e1c9-b225-7eb3-9ba5-499d24b95664";

/// Writer of the records of a file, with numbers from `first` on in the format that has them.
struct Log {
    text: String,
    ordinal: Option<u64>,
}

impl Log {
    fn numbered(first: u64) -> Self {
        let (text, ordinal) = (String::new(), Some(first));
        Self { text, ordinal }
    }

    fn legacy() -> Self {
        let (text, ordinal) = (String::new(), None);
        Self { text, ordinal }
    }

    fn line(mut self, kind: &str, payload: &Value) -> Self {
        let number = self.ordinal.map(|number| format!(r#""ordinal":{number},"#));
        let number = number.unwrap_or_default();
        let frame = format!(r#"{{"timestamp":"2026-11-16T00:37:34.379Z",{number}"type":"{kind}""#);
        let payload = type_first(payload);
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

    fn says(self, text: &str) -> Self {
        self.item(&json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}))
    }

    fn starts(self) -> Self {
        self.event("task_started", &json!({"model_context_window": 1000}))
    }

    fn ends(self) -> Self {
        self.event("task_complete", &json!({"last_agent_message": "x"}))
    }

    fn turn(self, asked: &str, said: &str) -> Self {
        self.starts().user(asked).says(said).ends()
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}

/// Formats a payload with its type first, as Codex does.
fn type_first(payload: &Value) -> String {
    let mut rest = payload.clone();
    let kind = rest
        .as_object_mut()
        .and_then(|fields| fields.remove("type"));
    let rest = rest.to_string();
    match kind {
        Some(kind) if rest == "{}" => format!("{{\"type\":{kind}}}"),
        Some(kind) => format!("{{\"type\":{kind},{}", &rest[1..]),
        None => rest,
    }
}

struct Lab {
    home: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { home }
    }

    fn reader(&self) -> Codex {
        Codex::new(self.home.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        let name = format!("rollout-2026-11-16T00-37-34-{name}");
        self.home.path().join("sessions/2026/11/16").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        write(&path, text);
        path
    }

    fn found(&self, id: &str) -> Found {
        let found = self.reader().find().found;
        let fits = |found: &Found| found.id == IdHint::Whole(id.to_owned());
        found.into_iter().find(fits).unwrap()
    }

    fn head(&self, id: &str) -> Head {
        self.reader().head(&self.found(id)).unwrap()
    }

    fn turns(&self, id: &str) -> Vec<NativeTurn> {
        let records = self.reader().records(&self.found(id), &Start::Beginning);
        conversation(records.unwrap().as_mut())
            .unwrap()
            .into_turns()
    }

    /// Returns the turns of a session, after checking that all methods of reading return the same.
    fn told(&self, id: &str) -> Vec<String> {
        let (reader, found) = (self.reader(), self.found(id));
        let turns = self.turns(id);
        let records = reader.records(&found, &Start::Beginning);
        let outlined = outline(records.unwrap().as_mut()).unwrap().into_turns();
        for (outlined, whole) in outlined.iter().zip(&turns) {
            assert_eq!(
                turn(&reader, &found, outlined).unwrap().messages,
                whole.messages
            );
        }
        for wanted in 1..=turns.len() + 1 {
            let (recent, all) = reader.recent(&found, wanted).unwrap();
            let told = |turns: &[NativeTurn]| turns.iter().map(tell).collect::<Vec<_>>();
            let last = &turns[turns.len().saturating_sub(wanted)..];
            assert_eq!(told(&recent), told(last), "the last {wanted}");
            assert_eq!(all, wanted >= turns.len());
        }
        turns.iter().map(tell).collect()
    }
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tell(turn: &NativeTurn) -> String {
    let part = |part: &Part| match part {
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
    let parts: Vec<_> = parts.map(part).collect();
    format!("{}: {}", turn.state.as_str(), parts.join(" | "))
}

/// Returns the turns of a complete file.
fn tells(log: Log) -> Vec<String> {
    let lab = Lab::new();
    lab.write(&format!("{PARENT}.jsonl"), log.text);
    lab.told(PARENT)
}

#[test]
fn what_was_said_and_done_in_both_dialects() {
    for (numbered, log) in [(true, Log::numbered(0)), (false, Log::legacy())] {
        let mut log = log
            .meta(PARENT, &json!({}))
            .starts()
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
            .item(&json!({"type": "of_tomorrow", "x": 1}))
            .says("done")
            .ends();
        assert_eq!(
            tells(log),
            [concat!(
                "finished: look | (hm) | mcp__lab__ls{\"a\": 1} | apply_patch\"*** x\" | local_shell{\"type\":\"exec\"} | ",
                "web_search{\"query\":\"q\",\"type\":\"search\"} | mcp__lab__ls=[{\"text\":\"a\",\"type\":\"input_text\"}] | ",
                "apply_patch!=\"Exit code: 1\\nOutput:\\nno\" | local_shell=\"ok\" | ?{\"type\":\"of_tomorrow\",\"x\":1} | done"
            )]
        );
    }
}

#[test]
fn a_prompt_may_have_pictures_and_what_is_put_beside_them_is_no_part_of_it() {
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD"});
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let content = json!([text("see"), text("<image name=[Image #1]>"), image, text("</image>"),
        {"type": "input_image", "image_url": "https://example.org/x.png"}]);
    let log = Log::numbered(0)
        .starts()
        .item(&json!({"type": "message", "role": "user", "content": content}));
    let told = tells(log);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("running: see | [image/png] | ?{"),
        "{told:?}"
    );
}

#[test]
fn the_kind_of_a_text_counts_more_than_how_it_begins() {
    let kinds = |kind: &str| {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}],
            "internal_chat_message_metadata_passthrough": {"content_item_kinds": [kind]}})
    };
    let log = Log::numbered(0)
        .starts()
        .item(&kinds("environments.environment_context"));
    assert_eq!(
        tells(log.item(&kinds("user.text"))),
        ["running: <environment_context>"]
    );
    let log = Log::numbered(0)
        .starts()
        .item(&kinds("unknown"))
        .user("<user_action>");
    assert_eq!(tells(log), [""; 0]);
}

#[test]
fn turns_end_as_they_are_told_to() {
    let aborted = json!({"reason": "interrupted"});
    let error = json!({"last_agent_message": null, "error": {"message": "no"}});
    let silent = json!({"last_agent_message": null});
    let log = Log::numbered(0)
        .turn("one", "1")
        .starts()
        .user("two")
        .user("<turn_aborted>\nx")
        .event("turn_aborted", &aborted)
        .starts()
        .user("three")
        .event("task_complete", &error)
        .starts()
        .user("four")
        .event("error", &json!({"message": "no"}))
        .event("task_complete", &silent)
        .starts()
        .user("five")
        .event("error", &json!({"message": "no"}))
        .says("5")
        .ends()
        .starts()
        .user("six")
        .starts()
        .user("seven");
    assert_eq!(
        tells(log),
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
fn words_to_a_running_agent_begin_no_turn() {
    for log in [Log::numbered(0), Log::legacy()] {
        let log = log
            .turn("zero", "0")
            .starts()
            .user("one")
            .user("and this")
            .user("and that")
            .says("1")
            .ends()
            .turn("two", "2");
        assert_eq!(
            tells(log),
            [
                "finished: zero | 0",
                "finished: one | and this | and that | 1",
                "finished: two | 2"
            ]
        );
    }
}

#[test]
fn a_session_may_begin_without_tasks_and_go_on_with_them() {
    let log = Log::legacy()
        .user("one")
        .says("1")
        .user("two")
        .says("2")
        .starts()
        .user("three")
        .user("and this")
        .says("3")
        .ends();
    assert_eq!(
        tells(log),
        [
            "finished: one | 1",
            "finished: two | 2",
            "finished: three | and this | 3"
        ]
    );
}

#[test]
fn what_a_person_runs_is_a_note_and_leaves_the_turn_as_it_was() {
    let ran = "<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>";
    let log = Log::numbered(0)
        .starts()
        .user("one")
        .event("turn_aborted", &json!({}))
        .starts()
        .user(ran)
        .ends();
    assert_eq!(tells(log), ["cancelled: one | <command>\nls\n</command>"]);
}

#[test]
fn a_summary_for_the_agent_itself_is_not_said() {
    let compacted = json!({"message": "It was told:\nall about it", "replacement_history": []});
    let log = Log::numbered(0)
        .starts()
        .user("one")
        .event("turn_aborted", &json!({}))
        .starts()
        .says("all about it")
        .line("compacted", &compacted)
        .ends()
        .starts()
        .user("two")
        .says("in between")
        .says("all about it")
        .line("compacted", &compacted)
        .says("2")
        .ends();
    let lab = Lab::new();
    lab.write(&format!("{PARENT}.jsonl"), log.text);
    assert_eq!(
        lab.told(PARENT),
        ["cancelled: one", "finished: two | in between | 2"]
    );
    let compacted: Vec<bool> = lab
        .turns(PARENT)
        .iter()
        .map(|turn| turn.compacted)
        .collect();
    assert_eq!(compacted, [true, true]);
}

#[test]
fn the_oldest_files_tell_nothing_of_tasks_or_have_no_frames() {
    let log = Log::legacy()
        .meta(PARENT, &json!({}))
        .user("one")
        .says("1")
        .user("two")
        .says("so")
        .says("2")
        .user("three");
    assert_eq!(
        tells(log),
        [
            "finished: one | 1",
            "finished: two | so | 2",
            "running: three"
        ]
    );
    let lab = Lab::new();
    lab.write(&format!("{PARENT}.jsonl"), concat!(
        r#"{"id":"x","timestamp":"2025-08-01T10:00:00Z","instructions":null,"git":{"branch":"old"}}"#, "\n",
        r#"{"record_type":"state"}"#, "\n",
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#, "\n",
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ho"}]}"#, "\n",
    ));
    assert_eq!(lab.told(PARENT), ["finished: hi | ho"]);
    let head = lab.head(PARENT);
    assert_eq!(
        (head.branch.as_deref(), head.kind),
        (Some("old"), Kind::Conversation)
    );
}

#[test]
fn turns_that_were_rolled_back_are_gone() {
    let back = |turns: u32| json!({"num_turns": turns});
    let log = Log::legacy()
        .turn("one", "1")
        .turn("two", "2")
        .turn("three", "3")
        .event("thread_rolled_back", &back(2))
        .turn("four", "4");
    assert_eq!(tells(log), ["finished: one | 1", "finished: four | 4"]);
    assert_eq!(
        tells(
            Log::legacy()
                .turn("one", "1")
                .event("thread_rolled_back", &back(9))
        ),
        [""; 0]
    );
}

#[test]
fn each_request_is_counted_once() {
    let tokens = |input: u64| json!({"input_tokens": input, "cached_input_tokens": 2, "output_tokens": 5, "total_tokens": input + 5});
    let count = |input: u64| json!({"info": {"last_token_usage": tokens(input), "model_context_window": 1000}});
    let used = |input: u64| json!({"response_id": format!("r{input}"), "usage": tokens(input)});
    let call = json!({"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let newer = Log::numbered(0)
        .starts()
        .user("one")
        .item(&call)
        .line("token_usage_record", &used(10))
        .item(&output)
        .event("token_count", &count(10))
        .says("1")
        .line("token_usage_record", &used(20))
        .event("token_count", &count(20))
        .ends()
        .starts()
        .user("two")
        .event("token_count", &count(20))
        .event("turn_aborted", &json!({}));
    let older = Log::legacy()
        .starts()
        .user("one")
        .item(&call)
        .item(&output)
        .event("token_count", &count(10))
        .event("token_count", &count(10))
        .says("1")
        .event("token_count", &count(20))
        .ends()
        .starts()
        .user("two")
        .event("token_count", &count(20))
        .event("turn_aborted", &json!({}));
    for log in [newer, older] {
        let lab = Lab::new();
        lab.write(&format!("{PARENT}.jsonl"), log.text);
        let turns = lab.turns(PARENT);
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
fn failures_are_told_by_words_or_by_the_event_before_them() {
    let tells = |text: &str| failure::tells(&json!(text).to_string());
    for text in [
        "Chunk ID: 1\nProcess exited with code 3\nOutput:\n",
        "Exit code: 127\nOutput:\n",
        "unsupported call: x",
        "{\"output\":\"x\",\"metadata\":{\"exit_code\":1,\"duration_seconds\":0}}",
        "Wall time: 1.3 seconds\naborted by user",
    ] {
        assert!(tells(text), "{text:?}");
    }
    for text in [
        "",
        "Process exited with code 0\nOutput:\nProcess exited with code 3",
        "Exit code: 0\n",
        "error: exit code 3",
        "{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}",
    ] {
        assert!(!tells(text), "{text:?}");
    }
    assert!(failure::tells(r#"{"content":"x","success":false}"#));
    let told = |event: Value| failure::told(&event.to_string());
    let failed = Some("c".to_owned());
    assert_eq!(
        told(
            json!({"item": {"type": "CommandExecution", "id": "c", "status": "failed", "exit_code": 1}})
        ),
        failed
    );
    assert_eq!(
        told(json!({"item": {"type": "McpToolCall", "id": "c", "status": "failed"}})),
        failed
    );
    assert_eq!(
        told(json!({"call_id": "c", "result": {"Err": "x"}})),
        failed
    );
    assert_eq!(told(json!({"call_id": "c", "success": false})), failed);
    assert_eq!(
        told(
            json!({"item": {"type": "CommandExecution", "id": "c", "status": "completed", "exit_code": 0}})
        ),
        None
    );
    assert_eq!(
        told(json!({"call_id": "c", "result": {"Ok": {"content": [], "is_error": false}}})),
        None
    );
}

/// Writes a conversation of two turns, a revert of the second, and a fork with the first turn and another one.
fn family(lab: &Lab) {
    let parent = Log::numbered(0).meta(PARENT, &json!({})).turn("one", "1");
    let (kept, at) = (parent.len(), parent.ordinal.unwrap());
    lab.write(&format!("{PARENT}.jsonl"), parent.turn("two", "2").text);
    let base = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": at, "end_byte_offset": kept}});
    let later = Log::numbered(at).meta(PARENT, &base).turn("three", "3");
    let (kept, at) = (later.len(), later.ordinal.unwrap());
    lab.write(
        &format!("{PARENT}_{LATER}.jsonl"),
        later.turn("four", "4").text,
    );
    let base = json!({"forked_from_id": PARENT, "forked_from_ordinal_exclusive": at,
        "history_base": {"thread_id": LATER, "end_ordinal_exclusive": at, "end_byte_offset": kept}});
    lab.write(
        &format!("{FORK}.jsonl"),
        Log::numbered(at).meta(FORK, &base).turn("five", "5").text,
    );
}

const REVERTED: [&str; 3] = [
    "finished: one | 1",
    "finished: three | 3",
    "finished: four | 4",
];
const FORKED: [&str; 3] = [
    "finished: one | 1",
    "finished: three | 3",
    "finished: five | 5",
];

#[test]
fn forks_and_reverts_go_on_from_other_files() {
    let lab = Lab::new();
    family(&lab);
    assert_eq!(lab.reader().find().found.len(), 2);
    assert_eq!(lab.told(PARENT), REVERTED);
    assert_eq!(lab.told(FORK), FORKED);
    let (parent, fork) = (lab.head(PARENT), lab.head(FORK));
    assert_eq!(parent.first_prompt.as_deref(), Some("one"));
    assert_eq!(parent.created_at, home::made_at(PARENT));
    assert_eq!(fork.first_prompt.as_deref(), Some("one"));
    assert_eq!(fork.forked_from.as_deref(), Some(PARENT));
    // A mark in the shared records is the same in both.
    let (parent, fork) = (lab.turns(PARENT), lab.turns(FORK));
    assert_eq!(parent[1].until, fork[1].until);
    let start = Start::After(parent[1].until.clone());
    let records = lab.reader().records(&lab.found(FORK), &start).unwrap();
    let rest = conversation({ records }.as_mut()).unwrap().into_turns();
    assert_eq!(rest.iter().map(tell).collect::<Vec<_>>(), [FORKED[2]]);
    let start = Start::After(parent[2].until.clone());
    let lost = lab.reader().records(&lab.found(FORK), &start);
    assert!(matches!(lost.err(), Some(ReadError::MarkLost { .. })));
}

#[test]
fn packed_files_read_the_same() {
    let lab = Lab::new();
    family(&lab);
    let marks = |id: &str| {
        lab.turns(id)
            .into_iter()
            .map(|turn| turn.until)
            .collect::<Vec<_>>()
    };
    let (parent, fork) = (marks(PARENT), marks(FORK));
    for name in [
        PARENT.to_owned(),
        format!("{PARENT}_{LATER}"),
        FORK.to_owned(),
    ] {
        let plain = lab.path(&format!("{name}.jsonl"));
        let packed = compress(&fs::read(&plain).unwrap());
        fs::write(lab.path(&format!("{name}.jsonl.zst")), packed).unwrap();
        fs::remove_file(plain).unwrap();
        assert_eq!(lab.told(PARENT), REVERTED);
        assert_eq!(lab.told(FORK), FORKED);
        assert_eq!((marks(PARENT), marks(FORK)), (parent.clone(), fork.clone()));
        assert_eq!(lab.head(FORK).first_prompt.as_deref(), Some("one"));
    }
}

#[test]
fn a_packed_file_that_was_cut_off_is_read_as_far_as_it_goes() {
    let lab = Lab::new();
    let mut log = Log::numbered(0);
    for number in 0..2000 {
        log = log.turn(&format!("ask {number}"), &format!("{number:0200}"));
    }
    let packed = compress(log.text.as_bytes());
    lab.write(&format!("{PARENT}.jsonl.zst"), &packed[..packed.len() / 2]);
    let mut records = lab
        .reader()
        .records(&lab.found(PARENT), &Start::Beginning)
        .unwrap();
    conversation(records.as_mut()).unwrap();
    assert_eq!(records.skipped().malformed, 0);
    lab.write(&format!("{PARENT}.jsonl.zst"), b"no zstd at all");
    assert!(lab.turns(PARENT).is_empty());
    assert_eq!(lab.head(PARENT).kind, Kind::Empty);
}

#[test]
fn what_a_fork_goes_on_from_may_be_gone_or_itself() {
    let lab = Lab::new();
    family(&lab);
    fs::remove_file(lab.path(&format!("{PARENT}.jsonl"))).unwrap();
    let orphaned = |id: &str| {
        let mut records = lab
            .reader()
            .records(&lab.found(id), &Start::Beginning)
            .unwrap();
        conversation(records.as_mut()).unwrap();
        records.skipped().orphaned
    };
    assert_eq!(lab.told(FORK), FORKED[1..]);
    assert!(orphaned(FORK));
    // A cycle.
    let base = |id: &str| json!({"history_base": {"thread_id": id, "end_ordinal_exclusive": 9}});
    lab.write(
        &format!("{PARENT}.jsonl"),
        Log::numbered(9)
            .meta(PARENT, &base(FORK))
            .turn("six", "6")
            .text,
    );
    fs::remove_file(lab.path(&format!("{PARENT}_{LATER}.jsonl"))).unwrap();
    lab.write(
        &format!("{FORK}.jsonl"),
        Log::numbered(9)
            .meta(FORK, &base(PARENT))
            .turn("seven", "7")
            .text,
    );
    assert!(orphaned(FORK) && orphaned(PARENT));
    // A path instead of an id.
    let hostile = Log::numbered(9)
        .meta(FORK, &base("../../../../etc/passwd"))
        .turn("eight", "8");
    lab.write(&format!("{FORK}.jsonl"), hostile.text);
    assert_eq!(lab.told(FORK), ["finished: eight | 8"]);
    assert!(orphaned(FORK));
}

#[test]
fn a_fork_may_tell_only_a_number() {
    let lab = Lab::new();
    let parent = Log::numbered(0).meta(PARENT, &json!({})).turn("one", "1");
    let at = parent.ordinal.unwrap();
    lab.write(&format!("{PARENT}.jsonl"), parent.turn("two", "2").text);
    let fork = json!({"forked_from_id": PARENT, "forked_from_ordinal_exclusive": at});
    lab.write(
        &format!("{FORK}.jsonl"),
        Log::numbered(at).meta(FORK, &fork).turn("three", "3").text,
    );
    assert_eq!(lab.told(FORK), ["finished: one | 1", "finished: three | 3"]);
    // A byte offset that is not the end of a line is ignored.
    let base = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": at, "end_byte_offset": 33}});
    lab.write(
        &format!("{FORK}.jsonl"),
        Log::numbered(at).meta(FORK, &base).turn("three", "3").text,
    );
    assert_eq!(lab.told(FORK), ["finished: one | 1", "finished: three | 3"]);
}

#[test]
fn an_older_fork_is_a_copy() {
    let lab = Lab::new();
    let log = Log::legacy()
        .meta(FORK, &json!({}))
        .meta(PARENT, &json!({"cwd": "/other"}))
        .turn("one", "1")
        .turn("two", "2");
    lab.write(&format!("{FORK}.jsonl"), log.text);
    assert_eq!(lab.told(FORK), ["finished: one | 1", "finished: two | 2"]);
    let head = lab.head(FORK);
    assert_eq!(
        (head.forked_from.as_deref(), head.cwd.as_deref()),
        (Some(PARENT), Some("/w"))
    );
}

#[test]
fn a_head_tells_what_the_first_line_and_the_list_of_names_do() {
    let lab = Lab::new();
    let asked = "# Context from my IDE setup:\n\n## My request for Codex:\nfix it";
    let log = Log::numbered(0)
        .meta(PARENT, &json!({"thread_source": "user"}))
        .turn(asked, "ok");
    lab.write(&format!("{PARENT}.jsonl"), log.text);
    let head = lab.head(PARENT);
    assert_eq!(head.kind, Kind::Conversation);
    assert_eq!(
        (
            head.cwd.as_deref(),
            head.branch.as_deref(),
            head.version.as_deref()
        ),
        (Some("/w"), Some("main"), Some("0.166.0"))
    );
    assert_eq!(head.title.unwrap().as_str(), "fix it");
    let index = lab.home.path().join("session_index.jsonl");
    fs::write(&index, format!("{{\"id\":\"{PARENT}\",\"thread_name\":\"old\"}}\nrubbish\n{{\"id\":\"{PARENT}\",\"thread_name\":\"Mine\"}}\n")).unwrap();
    let reader = lab.reader();
    let title = |reader: &Codex| reader.head(&lab.found(PARENT)).unwrap().title.unwrap();
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

/// Creates an image of about this many bytes in Base64.
fn picture(bytes: usize) -> Value {
    let url = format!("data:image/png;base64,{}", "QUJD".repeat(bytes / 4));
    json!({"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": url}]})
}

#[test]
fn a_session_is_one_even_if_its_first_prompt_is_too_long_for_its_head() {
    let begun = || Log::numbered(0).meta(PARENT, &json!({})).starts();
    let cases = [
        (
            begun().item(&picture(LAST_LOOK)).says("1"),
            Kind::Conversation,
        ),
        (begun().item(&picture(FIRST_LOOK)), Kind::Conversation),
        (begun(), Kind::Empty),
        (
            begun().event("of_tomorrow", &picture(FIRST_LOOK)),
            Kind::Empty,
        ),
    ];
    for (log, kind) in cases {
        let lab = Lab::new();
        lab.write(&format!("{PARENT}.jsonl"), log.text);
        assert_eq!(lab.head(PARENT).kind, kind);
    }
}

#[test]
fn a_long_first_line_does_not_hide_when_a_session_was_last_written_to() {
    let meta = json!({"base_instructions": {"text": "x".repeat(FIRST_LOOK)}});
    let mut log = Log::numbered(0)
        .meta(PARENT, &meta)
        .turn("one", "1")
        .starts()
        .item(&picture(LAST_LOOK));
    log.text += r#"{"timestamp":"2026-11-17T00:00:00Z","type":"event_msg","payload":{}}"#;
    let lab = Lab::new();
    lab.write(&format!("{PARENT}.jsonl"), log.text);
    let head = lab.head(PARENT);
    assert_eq!(head.updated_at.to_string(), "2026-11-17T00:00:00Z");
    assert_eq!(head.first_prompt.as_deref(), Some("one"));
}

#[test]
fn a_pipe_is_no_session() {
    let lab = Lab::new();
    let goes_on = json!({"history_base": {"thread_id": PARENT, "end_ordinal_exclusive": 9}});
    lab.write(
        &format!("{FORK}.jsonl"),
        Log::numbered(0).meta(FORK, &goes_on).turn("one", "1").text,
    );
    pipe(&lab.path(&format!("{PARENT}.jsonl")));
    pipe(&lab.home.path().join("session_index.jsonl"));
    assert_eq!(lab.told(FORK), ["finished: one | 1"]);
    assert_eq!(lab.head(FORK).kind, Kind::Conversation);
    assert_eq!(lab.reader().find().found.len(), 1);
}

fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn what_agents_start_is_no_conversation() {
    let kinds = [
        (json!({"source": {"subagent": "review"}}), Kind::Subagent),
        (
            json!({"source": {"subagent": {"thread_spawn": {}}}, "thread_source": "subagent"}),
            Kind::Subagent,
        ),
        (json!({"source": "cli"}), Kind::Conversation),
        (json!({"source": {"custom": "tool"}}), Kind::Conversation),
    ];
    for (meta, kind) in kinds {
        let lab = Lab::new();
        lab.write(
            &format!("{PARENT}.jsonl"),
            Log::numbered(0).meta(PARENT, &meta).turn("one", "1").text,
        );
        assert_eq!(lab.head(PARENT).kind, kind, "{meta}");
    }
    let lab = Lab::new();
    lab.write(
        &format!("{PARENT}.jsonl"),
        Log::numbered(0).meta(PARENT, &json!({})).text,
    );
    assert_eq!(lab.head(PARENT).kind, Kind::Empty);
}

#[test]
fn a_session_is_found_once_where_it_goes_on() {
    let lab = Lab::new();
    let text = Log::numbered(0).meta(PARENT, &json!({})).text;
    lab.write(&format!("{PARENT}.jsonl.zst"), "x");
    let plain = lab.write(&format!("{PARENT}.jsonl"), &text);
    assert_eq!(lab.found(PARENT).path, plain);
    let later = lab.write(&format!("{PARENT}_{LATER}.jsonl"), &text);
    assert_eq!(lab.found(PARENT).path, later);
    let archived = lab.home.path().join("archived_sessions");
    write(
        &archived.join(format!("rollout-2026-11-16T00-37-34-{FORK}.jsonl")),
        &text,
    );
    assert!(lab.found(FORK).archived);
    lab.write("../x.jsonl", &text);
    fs::create_dir_all(lab.path(&format!("{LATER}.jsonl"))).unwrap();
    assert_eq!(lab.reader().find().found.len(), 2);
    let none = Codex::new(lab.home.path().join("nowhere")).find();
    assert!(none.found.is_empty() && none.unreadable.is_empty());
}

#[test]
fn bad_lines_are_counted_and_end_nothing() {
    let lab = Lab::new();
    let good = Log::numbered(0).turn("one", "1");
    let bad = "rubbish\n{\"timestamp\":\"x\",\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":7}}\n";
    let more = Log::numbered(4).turn("two", "2");
    lab.write(
        &format!("{PARENT}.jsonl"),
        format!("{}{bad}{}{{\"timest", good.text, more.text),
    );
    assert_eq!(lab.told(PARENT), ["finished: one | 1", "finished: two | 2"]);
    let mut records = lab
        .reader()
        .records(&lab.found(PARENT), &Start::Beginning)
        .unwrap();
    conversation(records.as_mut()).unwrap();
    assert_eq!(
        (records.skipped().malformed, records.skipped().torn),
        (2, true)
    );
}

#[test]
fn the_state_of_a_turn_does_not_depend_on_how_lines_are_spaced() {
    let spaced = concat!(
        "{\"type\": \"event_msg\", \"payload\": {\"turn_id\": \"t\", \"type\": \"task_started\"}, \"ordinal\": 0}\n",
        "{\"payload\": {\"content\": [{\"text\": \"hi\", \"type\": \"input_text\"}], \"role\": \"user\", \"type\": \"message\"}, \"type\": \"response_item\", \"ordinal\": 1}\n",
        "{\"type\": \"event_msg\", \"payload\": {\"type\": \"turn_aborted\"}, \"ordinal\": 2}\n",
    );
    let lab = Lab::new();
    lab.write(&format!("{PARENT}.jsonl"), spaced);
    assert_eq!(lab.told(PARENT), ["cancelled: hi"]);
    assert_eq!(lab.turns(PARENT)[0].state, TurnState::Cancelled);
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in ".{0,80}", mixed in prop::collection::vec(prop::sample::select(vec![
        "{\"timestamp\":\"", "2026-11-16T00:37:34Z", "\",", "\"ordinal\":", "7", "\"type\":\"", "response_item", "event_msg",
        "\",\"payload\":", "{\"type\":\"", "message", "task_complete", "}", "{", "\"", ",", "\\", "é", "\"role\":\"user\"", "[", "]", "null",
    ]), 0..30)) {
        for line in [line, mixed.concat()] {
            let mut dialect = Lines::default();
            let _ = dialect.read(&line, &mut Told::default());
            let _ = Lines::may_prompt(line.as_bytes()) && Lines::begins(line.as_bytes());
            let _ = Meta::read(&without_instructions(line.as_bytes()));
            let _ = (failure::tells(&line), failure::told(&line));
        }
    }
}
