use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use rusqlite::Connection;
use segue_core::session::{Part, TitleSource, Usage};
use segue_core::spend::Cost;

use super::super::database::sibling_path;
use super::super::schema::OpencodeFileTokens;
use super::*;
use crate::read_turn;
use crate::reader::line_reader::MAX_LINE_BYTES;

const SCHEMA: &str = "
    CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, title text, version text,
        revert text, time_created integer, time_updated integer, time_archived integer);
    CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer,
        data text);
    CREATE INDEX message_session ON message (session_id, time_created, id);
    CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text);
    CREATE INDEX part_message ON part (message_id, id);";

/// A data directory with a database that another connection has open.
struct OpencodeTestHome {
    directory: tempfile::TempDir,
    db: Connection,
}

impl OpencodeTestHome {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test acts as opencode")]
        let db = Connection::open(directory.path().join("opencode.db")).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch(SCHEMA).unwrap();
        Self { directory, db }
    }

    /// Creates a session `ses_1` with these messages, each with its parts. Ids are `msg_0`, `prt_0_0` and so on.
    fn with_messages(messages: &[(&str, &[&str])]) -> Self {
        let test_home = Self::new();
        test_home.insert_session("ses_1", "A title", None);
        for (at, (message, parts)) in messages.iter().enumerate() {
            test_home.insert_message("ses_1", at, message, parts);
        }
        test_home
    }

    fn insert_session(&self, id: &str, title: &str, parent: Option<&str>) {
        let values = (id, parent, title);
        let insert =
            "INSERT INTO session VALUES (?1, ?2, '/work', ?3, '1.18.33', NULL, 1000, 2000, NULL)";
        self.db.execute(insert, values).unwrap();
    }

    fn insert_message(&self, session: &str, at: usize, message: &str, parts: &[&str]) {
        let id = format!("msg_{at}");
        let insert = "INSERT INTO message VALUES (?1, ?2, ?3, 3000 + ?3, ?4)";
        self.db
            .execute(insert, (&id, session, at, message))
            .unwrap();
        for (nth, part) in parts.iter().enumerate() {
            let values = (format!("prt_{at}_{nth}"), &id, session, part);
            let insert = "INSERT INTO part VALUES (?1, ?2, ?3, ?4)";
            self.db.execute(insert, values).unwrap();
        }
    }

    fn reader(&self) -> OpencodeReader {
        OpencodeReader::new(self.directory.path())
    }

    fn location(&self) -> SessionLocation {
        find_only_session(&self.reader())
    }

    fn formatted_turns(&self) -> Vec<String> {
        read_formatted_turns(&self.reader(), &self.location())
    }

    fn read_files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap_or_default()))
            .collect();
        files.sort();
        files
    }
}

fn find_only_session(reader: &OpencodeReader) -> SessionLocation {
    let scan = reader.scan_sessions();
    assert!(scan.unreadable.is_empty(), "{:?}", scan.unreadable);
    assert_eq!(scan.locations.len(), 1);
    scan.locations.into_iter().next().unwrap()
}

fn read_formatted_turns(reader: &OpencodeReader, location: &SessionLocation) -> Vec<String> {
    let mut records = reader
        .open_records(location, &ReadStart::Beginning)
        .unwrap();
    let builder = read_turns(records.as_mut()).unwrap();
    builder.turns().iter().map(format_turn).collect()
}

fn format_turn(turn: &NativeTurn) -> String {
    let messages = turn.messages.iter().map(|message| {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Thought(text) => format!("({text})"),
            Part::FunctionCall { id, name, args } => format!("{id} {name}{}", args.as_str()),
            Part::FunctionResponse {
                call_id,
                response,
                is_error,
                ..
            } => {
                format!(
                    "{call_id} {}{}",
                    if *is_error { "!" } else { "" },
                    response.as_str()
                )
            }
            Part::InlineData(data) => format!("<{} {:?}>", data.mime_type, data.data),
            Part::Unknown(json) => format!("? {}", json.as_str()),
        });
        let parts: Vec<String> = parts.collect();
        let cut = if message.complete { "" } else { "…" };
        format!("{}: {}{cut}", message.role.as_str(), parts.join(" + "))
    });
    let messages: Vec<String> = messages.collect();
    format!("{} | {}", messages.join(" | "), turn.state.as_str())
}

const USER_MESSAGE: &str = r#"{"role":"user","time":{"created":1000}}"#;
const STEP_MESSAGE: &str =
    r#"{"role":"assistant","time":{"created":1000,"completed":2000},"finish":"tool-calls"}"#;
const FINAL_MESSAGE: &str =
    r#"{"role":"assistant","time":{"created":1000,"completed":2000},"finish":"stop"}"#;
const ABORTED_MESSAGE: &str = r#"{"role":"assistant","time":{"created":1,"completed":2},"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}}"#;
const FAILED_MESSAGE: &str = r#"{"role":"assistant","time":{"created":1,"completed":2},"error":{"name":"APIError","data":{}}}"#;
const TOOL_PART: &str = r#"{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"ls"},"output":"a\nb","metadata":{"output":"a\nb"},"time":{"start":1,"end":2}}}"#;
const TOKENS_PART: &str = r#"{"type":"step-finish","reason":"stop","tokens":{"total":122,"input":91,"output":15,"reasoning":5,"cache":{"write":0,"read":11}}}"#;

fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

/// Creates a session of two turns, the first with a tool call.
fn home_with_two_turns() -> OpencodeTestHome {
    OpencodeTestHome::with_messages(&[
        (USER_MESSAGE, &[&text_part("one")]),
        (
            STEP_MESSAGE,
            &[
                r#"{"type":"step-start","snapshot":"f3"}"#,
                r#"{"type":"reasoning","text":"hm","time":{"start":1,"end":2}}"#,
                &text_part("I look"),
                TOOL_PART,
                TOKENS_PART,
            ],
        ),
        (FINAL_MESSAGE, &[&text_part("done"), TOKENS_PART]),
        (USER_MESSAGE, &[&text_part("two")]),
        (FINAL_MESSAGE, &[&text_part("again"), TOKENS_PART]),
    ])
}

const FIRST_TURN: &str = r#"user: one | assistant: (hm) | assistant: I look | assistant: c1 bash{"command":"ls"} | tool: c1 "a\nb" | assistant: done | finished"#;
const SECOND_TURN: &str = "user: two | assistant: again | finished";

#[test]
fn a_cost_of_zero_is_not_reported() {
    let message_by = |model: &str| {
        format!(
            r#"{{"role":"assistant","modelID":"{model}","time":{{"created":1,"completed":2}},"finish":"stop"}}"#
        )
    };
    let step_finish = |cost: &str| {
        format!(r#"{{"type":"step-finish","cost":{cost},"tokens":{{"input":91,"output":15}}}}"#)
    };
    let (first, second) = (message_by("claude-opus-5"), message_by("gpt-5.5"));
    let (expensive, cheap, free) = (step_finish("0.3"), step_finish("1.5e-6"), step_finish("0"));
    let test_home = OpencodeTestHome::with_messages(&[
        (USER_MESSAGE, &[&text_part("one")]),
        (&first, &[&text_part("done"), &expensive]),
        (&second, &[&text_part("done"), &cheap]),
        (USER_MESSAGE, &[&text_part("two")]),
        (&first, &[&text_part("again"), &free]),
        (USER_MESSAGE, &[&text_part("three")]),
        (&first, &[&text_part("again"), &expensive]),
        (FINAL_MESSAGE, &[&text_part("again"), &free]),
    ]);
    let location = test_home.location();
    let mut records = test_home
        .reader()
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let turns = read_turns(records.as_mut()).unwrap().into_turns();
    let model_and_cost = |turn: &NativeTurn| (turn.model.clone(), turn.cost.map(Cost::micros));
    let costs: Vec<_> = turns.iter().map(model_and_cost).collect();
    let (opus, gpt) = (Some("claude-opus-5".to_owned()), Some("gpt-5.5".to_owned()));
    assert_eq!(
        costs,
        [(gpt, Some(300_002)), (opus.clone(), None), (opus, None)]
    );
}

#[test]
fn each_part_is_a_message_and_a_prompt_begins_a_turn() {
    assert_eq!(
        home_with_two_turns().formatted_turns(),
        [FIRST_TURN, SECOND_TURN]
    );
}

#[test]
fn usage_includes_cached_tokens_and_thoughts() {
    let test_home = home_with_two_turns();
    let location = test_home.location();
    let mut records = test_home
        .reader()
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let builder = read_turns(records.as_mut()).unwrap();
    let usage = builder.turns()[0].usage;
    assert_eq!(usage.input_tokens, Some(2 * 102));
    assert_eq!(usage.output_tokens, Some(2 * 20));
    assert_eq!(usage.cached_tokens, Some(2 * 11));
    assert_eq!(usage.context_tokens, Some(122));
    assert_eq!(builder.title().unwrap().as_str(), "A title");
    // Before opencode wrote a total, the output included thoughts.
    let old = r#"{"input":10,"output":7,"reasoning":5,"cache":{"read":3,"write":2}}"#;
    let usage = Usage::from(&serde_json::from_str::<OpencodeFileTokens>(old).unwrap());
    assert_eq!(
        (usage.output_tokens, usage.total_tokens),
        (Some(7), Some(22))
    );
    let invalid = r#"{"input":-3,"output":1.5}"#;
    let usage = Usage::from(&serde_json::from_str::<OpencodeFileTokens>(invalid).unwrap());
    assert_eq!(usage, Usage::default());
}

#[test]
fn a_turn_ends_like_its_last_answer() {
    let open = r#"{"role":"assistant","time":{"created":1}}"#;
    let shell = r#"{"role":"assistant","time":{"created":1,"completed":2}}"#;
    let complete_text = r#"{"type":"text","text":"so","time":{"start":1,"end":2}}"#;
    let incomplete_text = r#"{"type":"text","text":"so","time":{"start":1}}"#;
    let running =
        r#"{"type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{}}}"#;
    let failing = r#"{"type":"tool","tool":"read","callID":"c","state":{"status":"error","input":{},"error":"no file"}}"#;
    let cases: &[(&str, &[&str], &str)] = &[
        (FINAL_MESSAGE, &[complete_text], "assistant: so | finished"),
        (
            STEP_MESSAGE,
            &[failing],
            r#"assistant: c read{} | tool: c !"no file" | running"#,
        ),
        (
            ABORTED_MESSAGE,
            &[complete_text],
            "assistant: so | cancelled",
        ),
        (FAILED_MESSAGE, &[], "failed"),
        (open, &[incomplete_text], "assistant: so… | running"),
        (open, &[running], "assistant: c bash{} | running"),
        (
            shell,
            &[TOOL_PART],
            r#"assistant: c1 bash{"command":"ls"} | tool: c1 "a\nb" | finished"#,
        ),
        (
            FINAL_MESSAGE,
            &[r#"{"type":"novelty","x":1}"#],
            r#"assistant: ? {"type":"novelty","x":1} | finished"#,
        ),
    ];
    for (message, parts, expected) in cases {
        let test_home = OpencodeTestHome::with_messages(&[
            (USER_MESSAGE, &[&text_part("go")]),
            (message, parts),
        ]);
        assert_eq!(
            test_home.formatted_turns(),
            [format!("user: go | {expected}")]
        );
    }
}

#[test]
fn text_that_the_user_did_not_write_is_not_a_prompt() {
    let note = r#"{"type":"text","synthetic":true,"text":"Called the Read tool"}"#;
    let image =
        r#"{"type":"file","mime":"image/png","url":"data:image/png;base64,AAA=","synthetic":true}"#;
    let file = r#"{"type":"file","mime":"text/plain","url":"file:///w/note.txt"}"#;
    let subtask = r#"{"type":"subtask","prompt":"look into it","agent":"general"}"#;
    let cases: &[(&[&str], &[&str])] = &[
        (
            &[note, image, &text_part("see")],
            &[r#"user: <image/png Some("AAA=")> + see | running"#],
        ),
        (&[note, file], &["user: <text/plain None> | running"]),
        (&[subtask], &["user: look into it | running"]),
        (&[note], &[]),
        (&[&text_part("<system-reminder>")], &[]),
    ];
    for (parts, expected) in cases {
        assert_eq!(
            OpencodeTestHome::with_messages(&[(USER_MESSAGE, parts)]).formatted_turns(),
            *expected
        );
    }
}

#[test]
fn a_summary_is_a_compaction_and_does_not_end_the_turn() {
    let compaction_part = r#"{"type":"compaction","auto":true}"#;
    let summary =
        r#"{"role":"assistant","summary":true,"time":{"created":1,"completed":2},"finish":"stop"}"#;
    let continue_part =
        r#"{"type":"text","synthetic":true,"text":"Continue if you have next steps"}"#;
    let test_home = OpencodeTestHome::with_messages(&[
        (USER_MESSAGE, &[&text_part("go")]),
        (STEP_MESSAGE, &[TOOL_PART]),
        (USER_MESSAGE, &[compaction_part]),
        (summary, &[&text_part("so far"), TOKENS_PART]),
        (USER_MESSAGE, &[continue_part]),
        (FINAL_MESSAGE, &[&text_part("done")]),
    ]);
    let location = test_home.location();
    let mut records = test_home
        .reader()
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let mut compacted = Vec::new();
    while let Some(record) = records.next().unwrap() {
        compacted.extend(record.events.into_iter().filter_map(|event| match event {
            RecordEvent::Compacted(summary) => Some(summary),
            _ => None,
        }));
    }
    assert_eq!(compacted, [Some("so far".to_owned())]);
    assert_eq!(test_home.formatted_turns().len(), 1);
    assert!(test_home.formatted_turns()[0].ends_with("assistant: done | finished"));
}

#[test]
fn reverted_messages_do_not_count() {
    let cases = [
        (r#"{"messageID":"msg_3"}"#, vec![FIRST_TURN.to_owned()]),
        (r#"{"messageID":"msg_0"}"#, vec![]),
        (
            r#"{"messageID":"gone"}"#,
            vec![FIRST_TURN.to_owned(), SECOND_TURN.to_owned()],
        ),
        (
            "not json",
            vec![FIRST_TURN.to_owned(), SECOND_TURN.to_owned()],
        ),
        (
            r#"{"messageID":"msg_1","partID":"prt_1_3"}"#,
            vec!["user: one | assistant: (hm) | assistant: I look | running".to_owned()],
        ),
    ];
    for (revert, expected) in cases {
        let test_home = home_with_two_turns();
        test_home
            .db
            .execute("UPDATE session SET revert = ?1", [revert])
            .unwrap();
        assert_eq!(test_home.formatted_turns(), expected, "{revert}");
    }
    let test_home = home_with_two_turns();
    let revert = "UPDATE session SET revert = json_object('messageID', 'msg_3')";
    test_home.db.execute(revert, []).unwrap();
    let start = ReadStart::After(Mark::Id("msg_4".into()));
    let error = test_home
        .reader()
        .open_records(&test_home.location(), &start)
        .err()
        .unwrap();
    assert!(matches!(error, ReadError::MarkNotFound { .. }), "{error}");
}

#[test]
fn a_read_starts_after_a_mark_or_with_the_last_turns() {
    let test_home = home_with_two_turns();
    let (reader, location) = (test_home.reader(), test_home.location());
    let start = ReadStart::After(Mark::Id("msg_2".into()));
    let mut records = reader.open_records(&location, &start).unwrap();
    let builder = read_turns(records.as_mut()).unwrap();
    assert_eq!(format_turn(&builder.turns()[0]), SECOND_TURN);
    assert!(builder.title().is_none());

    let outline = crate::read_outline(
        reader
            .open_records(&location, &ReadStart::Beginning)
            .unwrap()
            .as_mut(),
    );
    let outline = outline.unwrap().into_turns();
    let read: Vec<String> = outline
        .iter()
        .map(|outlined| format_turn(&read_turn(&reader, &location, outlined).unwrap()))
        .collect();
    assert_eq!(read, [FIRST_TURN, SECOND_TURN]);

    for (wanted, expected, all) in [(0, 0, false), (1, 1, false), (2, 2, true), (9, 2, true)] {
        let (turns, is_complete) = reader.read_recent_turns(&location, wanted).unwrap();
        assert_eq!((turns.len(), is_complete), (expected, all), "{wanted}");
        if wanted == 1 {
            assert_eq!(format_turn(&turns[0]), SECOND_TURN);
        }
    }
}

#[test]
fn a_head_describes_its_session() {
    let test_home = OpencodeTestHome::new();
    let default = "New session - 2026-11-16T00:42:16.764Z";
    test_home.insert_session("ses_1", default, None);
    test_home.insert_message("ses_1", 0, USER_MESSAGE, &[&text_part("fix it")]);
    test_home.insert_message("ses_1", 1, FINAL_MESSAGE, &[&text_part("done")]);
    test_home.insert_session("ses_2", "sub work (@general subagent)", Some("ses_1"));
    test_home.insert_session("ses_3", default, None);
    test_home.insert_session("../../etc", "a path", None);
    test_home
        .db
        .execute(
            "UPDATE session SET time_archived = 5 WHERE id = 'ses_2'",
            [],
        )
        .unwrap();
    let reader = test_home.reader();
    let scan = reader.scan_sessions();
    assert_eq!(scan.locations.len(), 3);
    let heads: Vec<(SessionHead, bool)> = scan
        .locations
        .iter()
        .map(|location| (reader.read_head(location).unwrap(), location.archived))
        .collect();
    let (first, _) = &heads[0];
    assert_eq!(first.kind, NativeSessionKind::Conversation);
    assert_eq!(first.cwd.as_deref(), Some("/work"));
    assert_eq!(first.agent_version.as_deref(), Some("1.18.33"));
    assert_eq!(first.first_prompt.as_deref(), Some("fix it"));
    assert_eq!(first.title, Some(Title::from_prompt("fix it")));
    assert_eq!(first.created_at, Timestamp::from_millisecond(1000).ok());
    // The last answer is newer than the row of the session.
    assert_eq!(first.updated_at, Timestamp::from_millisecond(3001).unwrap());
    let (second, archived) = &heads[1];
    assert_eq!(
        (second.kind, *archived),
        (NativeSessionKind::Subagent, true)
    );
    assert_eq!(second.title.as_ref().unwrap().source(), TitleSource::Model);
    assert_eq!(
        (heads[2].0.kind, &heads[2].0.title),
        (NativeSessionKind::Empty, &None)
    );
}

#[test]
fn files_of_older_versions_read_like_the_database() {
    let test_home = home_with_two_turns();
    let old_directory = tempfile::tempdir().unwrap();
    let write = |path: String, text: String| {
        let path = old_directory.path().join("storage").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let head = r#"{"id":"ses_1","directory":"/work","title":"A title","version":"1.0.1","time":{"created":1000,"updated":2000}}"#;
    write("session/global/ses_1.json".into(), head.into());
    let mut query = test_home
        .db
        .prepare("SELECT id, data FROM message")
        .unwrap();
    let mut rows = query.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        write(
            format!("message/ses_1/{}.json", row.get::<_, String>(0).unwrap()),
            row.get(1).unwrap(),
        );
    }
    let mut query = test_home
        .db
        .prepare("SELECT message_id, id, data FROM part")
        .unwrap();
    let mut rows = query.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (message, id): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        write(format!("part/{message}/{id}.json"), row.get(2).unwrap());
    }
    let reader = OpencodeReader::new(old_directory.path());
    let location = find_only_session(&reader);
    assert_eq!(
        read_formatted_turns(&reader, &location),
        [FIRST_TURN, SECOND_TURN]
    );
    let head = reader.read_head(&location).unwrap();
    assert_eq!(head.first_prompt.as_deref(), Some("one"));
    assert_eq!(head.agent_version.as_deref(), Some("1.0.1"));

    // After the move, both exist, and the database has precedence.
    fs::rename(
        old_directory.path().join("storage"),
        test_home.directory.path().join("storage"),
    )
    .unwrap();
    assert!(is_database(&test_home.location().path));
}

#[test]
fn reads_change_no_files_in_any_state_of_the_database() {
    let test_home = home_with_two_turns();
    let read = |test_home: &OpencodeTestHome| {
        let before = test_home.read_files();
        assert_eq!(test_home.formatted_turns(), [FIRST_TURN, SECOND_TURN]);
        assert_eq!(
            test_home
                .reader()
                .read_head(&test_home.location())
                .unwrap()
                .kind,
            NativeSessionKind::Conversation
        );
        let after = test_home.read_files();
        // Within one process, all SQLite connections share one index of the log. It is compared only if no other
        // connection is open.
        let is_compared = |(path, _): &&(PathBuf, Vec<u8>)| {
            test_home.db.path().is_none_or(str::is_empty)
                || !path.to_string_lossy().ends_with("-shm")
        };
        assert_eq!(before.len(), after.len());
        assert!(
            before
                .iter()
                .filter(is_compared)
                .eq(after.iter().filter(is_compared)),
            "a file was changed"
        );
    };
    read(&test_home);
    // Files of a killed program: the log exists, and no process has it open.
    let copy_directory = tempfile::tempdir().unwrap();
    for (path, bytes) in test_home.read_files() {
        fs::write(copy_directory.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let closed_home = OpencodeTestHome {
        directory: copy_directory,
        db: Connection::open_in_memory().unwrap(),
    };
    read(&closed_home);
    // A copy of the two without the index of the log.
    fs::remove_file(closed_home.directory.path().join("opencode.db-shm")).unwrap();
    read(&closed_home);
    assert_eq!(closed_home.read_files().len(), 2);
    // A regular close, which removes the log.
    let OpencodeTestHome { directory, db } = test_home;
    db.close().unwrap();
    let idle_home = OpencodeTestHome {
        directory,
        db: Connection::open_in_memory().unwrap(),
    };
    assert_eq!(idle_home.read_files().len(), 1);
    read(&idle_home);
    // An unusable log is not changed, either.
    fs::write(
        idle_home.directory.path().join("opencode.db-wal"),
        "not a log",
    )
    .unwrap();
    read(&idle_home);
}

#[test]
fn an_unfinished_change_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opencode.db");
    #[expect(clippy::disallowed_methods, reason = "the test acts as opencode")]
    let db = Connection::open(&path).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    let test_home = OpencodeTestHome { directory, db };
    test_home.insert_session("ses_1", "A title", None);
    for at in 0..200 {
        test_home.insert_message("ses_1", at, USER_MESSAGE, &[&text_part(&"x".repeat(2000))]);
    }
    // The change is so large that SQLite writes it into the file before the commit.
    let change = "PRAGMA cache_size = 1; BEGIN; UPDATE part SET data = replace(data, 'xx', 'yy')";
    test_home.db.execute_batch(change).unwrap();
    assert!(sibling_path(&path, "-journal").exists());
    let copy_directory = tempfile::tempdir().unwrap();
    for (path, bytes) in test_home.read_files() {
        fs::write(copy_directory.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    // No process has this copy open and could complete or undo the change, and segue must not do so.
    let scan = OpencodeReader::new(copy_directory.path()).scan_sessions();
    assert_eq!((scan.locations.len(), scan.unreadable.len()), (0, 1));
    test_home.db.execute_batch("COMMIT").unwrap();
    assert_eq!(test_home.formatted_turns().len(), 200);
}

#[test]
fn a_database_is_opened_once_for_many_reads() {
    let test_home = home_with_two_turns();
    let (reader, location) = (test_home.reader(), test_home.location());
    // A temporary table exists only in its connection, so it shows whether the connection is the same.
    let was_marked = |reader: &OpencodeReader| {
        let databases = reader.cached_databases.lock().unwrap();
        assert_eq!(databases.len(), 1);
        let connection = &databases[0].connection;
        connection
            .execute_batch("CREATE TEMP TABLE known (x)")
            .is_err()
    };
    reader.read_head(&location).unwrap();
    assert!(!was_marked(&reader));
    reader.read_head(&location).unwrap();
    assert!(was_marked(&reader));
    let start = ReadStart::After(Mark::Id("msg_2".into()));
    drop(reader.open_records(&location, &start).unwrap());
    assert!(was_marked(&reader));
    reader.read_recent_turns(&location, 1).unwrap();
    assert!(was_marked(&reader));
}

#[test]
fn a_long_session_is_read_in_pages() {
    let test_home = OpencodeTestHome::with_messages(&[]);
    let page_size = ID_PAGE_SIZE as usize;
    for at in 0..3 * page_size {
        // The order of the messages differs from that of their ids.
        let message = format!("msg_{}", 9000 - at);
        let insert = "INSERT INTO message VALUES (?1, 'ses_1', ?2, ?2, ?3)";
        test_home
            .db
            .execute(insert, (&message, at, USER_MESSAGE))
            .unwrap();
        let insert = "INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3)";
        let values = (format!("prt_{at}"), &message, text_part(&at.to_string()));
        test_home.db.execute(insert, values).unwrap();
    }
    let (reader, location) = (test_home.reader(), test_home.location());
    let read = |start: &ReadStart| {
        let mut records = reader.open_records(&location, start).unwrap();
        let mut marks = Vec::new();
        while let Some(record) = records.next().unwrap() {
            marks.push(record.mark);
        }
        marks
    };
    let all: Vec<Mark> = (0..3 * page_size)
        .map(|at| Mark::Id(format!("msg_{}", 9000 - at)))
        .collect();
    assert_eq!(read(&ReadStart::Beginning), all);
    for at in [
        0,
        1,
        page_size - 1,
        page_size,
        2 * page_size - 2,
        3 * page_size - 1,
    ] {
        assert_eq!(
            read(&ReadStart::After(all[at].clone())),
            all[at + 1..],
            "{at}"
        );
    }
    let revert = "UPDATE session SET revert = json_object('messageID', ?1)";
    for at in [0, page_size - 1, page_size, page_size + 1, 2 * page_size] {
        test_home
            .db
            .execute(revert, [format!("msg_{}", 9000 - at)])
            .unwrap();
        assert_eq!(read(&ReadStart::Beginning), all[..at], "{at}");
        let start = ReadStart::After(all[at].clone());
        assert!(reader.open_records(&location, &start).is_err());
    }
}

#[test]
fn a_later_writer_is_noticed_and_not_blocked() {
    let OpencodeTestHome { directory, db } = home_with_two_turns();
    db.close().unwrap();
    let reader = OpencodeReader::new(directory.path());
    let location = find_only_session(&reader);
    reader.read_head(&location).unwrap();
    let mut records = reader
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    records.next().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test acts as opencode")]
    let db = Connection::open(&location.path).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    let test_home = OpencodeTestHome { directory, db };
    test_home.insert_message("ses_1", 5, USER_MESSAGE, &[&text_part("three")]);
    test_home.insert_session("ses_2", "Another", None);
    test_home
        .db
        .execute("DELETE FROM message WHERE id = 'msg_4'", [])
        .unwrap();
    test_home
        .db
        .pragma_update(None, "wal_checkpoint", "TRUNCATE")
        .unwrap();
    // Later messages belong to the next read. Deleted messages are omitted.
    let mut marks = Vec::new();
    while let Some(record) = records.next().unwrap() {
        marks.push(record.mark.to_string());
    }
    assert_eq!(marks, ["id:msg_1", "id:msg_2", "id:msg_3"]);
    assert_eq!(
        read_formatted_turns(&reader, &location).last().unwrap(),
        "user: three | running"
    );
    assert_eq!(reader.scan_sessions().locations.len(), 2);
}

#[test]
fn unreadable_objects_are_counted_and_skipped() {
    let test_home = OpencodeTestHome::with_messages(&[
        (
            USER_MESSAGE,
            &[&text_part("go"), "{", "", "[]", r#"{"type":5}"#],
        ),
        ("nonsense", &[&text_part("lost")]),
        (FINAL_MESSAGE, &[&text_part("done")]),
    ]);
    let insert = "INSERT INTO part VALUES (?1, 'msg_2', 'ses_1', ?2)";
    test_home.db.execute(insert, ("prt_x1", 7)).unwrap();
    test_home
        .db
        .execute(insert, ("prt_x2", None::<String>))
        .unwrap();
    test_home
        .db
        .execute(insert, ("prt_x3", "x".repeat(MAX_LINE_BYTES + 1)))
        .unwrap();
    let bad = "INSERT INTO part VALUES ('prt_x4', 'msg_2', 'ses_1', CAST(x'7b2274797065223a2274657874222c2274657874223a22ff227d' AS TEXT))";
    test_home.db.execute(bad, []).unwrap();
    let location = test_home.location();
    let mut records = test_home
        .reader()
        .open_records(&location, &ReadStart::Beginning)
        .unwrap();
    let builder = read_turns(records.as_mut()).unwrap();
    let turns: Vec<String> = builder.turns().iter().map(format_turn).collect();
    assert_eq!(
        turns,
        ["user: go | assistant: done | assistant: \u{fffd} | finished"]
    );
    let skipped = records.skipped();
    assert_eq!(
        (skipped.malformed, skipped.oversized, skipped.repaired),
        (6, 2, 1)
    );
}

#[test]
fn a_file_that_is_not_a_database_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("opencode.db"), "x".repeat(5000)).unwrap();
    fs::create_dir(home.path().join("opencode-dev.db")).unwrap();
    fs::write(home.path().join("opencode-empty.db"), "").unwrap();
    let pipe = home.path().join("opencode-pipe.db");
    let status = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(status.unwrap().success());
    let scan = OpencodeReader::new(home.path()).scan_sessions();
    assert_eq!((scan.locations.len(), scan.unreadable.len()), (0, 4));
    assert!(
        OpencodeReader::new(home.path().join("nowhere"))
            .scan_sessions()
            .unreadable
            .is_empty()
    );
}

proptest! {
    #[test]
    fn any_object_is_read_without_panic(words in r#"[{}\[\]",:.a-z0-9-]{0,40}"#, is_user in any::<bool>()) {
        let info = if is_user { USER_MESSAGE } else { FINAL_MESSAGE };
        let fields = ["state", "tokens", "time", "text", "url", "type"].iter();
        let part_types = ["text", "tool", "file", "step-finish", "reasoning", "subtask"].iter();
        let parts = fields.flat_map(|field| {
            let words = &words;
            part_types.clone().map(move |kind| format!(r#"{{"type":"{kind}","{field}":{words}}}"#))
        });
        for text in parts.chain([words.clone()]) {
            let info: OpencodeFileMessageInfo<'_> = serde_json::from_str(info).unwrap();
            let mut collector = OpencodeEventCollector::new(&info);
            let _ = collector.add_part("prt_1", &text);
            collector.finish(&info);
            let _ = serde_json::from_str::<OpencodeFileMessageInfo<'_>>(&text);
            let _ = serde_json::from_str::<OpencodeFileSession<'_>>(&text).map(|session| session.title());
        }
    }
}
