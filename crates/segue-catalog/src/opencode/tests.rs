use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use rusqlite::Connection;
use segue_core::session::{Part, TitleSource, Usage};
use segue_core::spend::Cost;

use super::database::beside;
use super::objects::Tokens;
use super::*;
use crate::lines::LONGEST;
use crate::turn;

const SCHEMA: &str = "
    CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, title text, version text,
        revert text, time_created integer, time_updated integer, time_archived integer);
    CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer,
        data text);
    CREATE INDEX message_session ON message (session_id, time_created, id);
    CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text);
    CREATE INDEX part_message ON part (message_id, id);";

/// A data directory with a database that another connection has open.
struct World {
    home: tempfile::TempDir,
    db: Connection,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "this is the other program")]
        let db = Connection::open(home.path().join("opencode.db")).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch(SCHEMA).unwrap();
        Self { home, db }
    }

    /// Creates a session `ses_1` with these messages, each with its parts. Ids are `msg_0`, `prt_0_0` and so on.
    fn with(messages: &[(&str, &[&str])]) -> Self {
        let world = Self::new();
        world.session("ses_1", "A title", None);
        for (at, (message, parts)) in messages.iter().enumerate() {
            world.message("ses_1", at, message, parts);
        }
        world
    }

    fn session(&self, id: &str, title: &str, parent: Option<&str>) {
        let values = (id, parent, title);
        let insert =
            "INSERT INTO session VALUES (?1, ?2, '/work', ?3, '1.18.33', NULL, 1000, 2000, NULL)";
        self.db.execute(insert, values).unwrap();
    }

    fn message(&self, session: &str, at: usize, message: &str, parts: &[&str]) {
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

    fn reader(&self) -> Opencode {
        Opencode::new(self.home.path())
    }

    fn found(&self) -> Found {
        only(&self.reader())
    }

    fn turns(&self) -> Vec<String> {
        turns(&self.reader(), &self.found())
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.home.path()).unwrap();
        let mut files: Vec<_> = entries
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(path).unwrap_or_default()))
            .collect();
        files.sort();
        files
    }
}

fn only(reader: &Opencode) -> Found {
    let there = reader.find();
    assert!(there.unreadable.is_empty(), "{:?}", there.unreadable);
    assert_eq!(there.found.len(), 1);
    there.found.into_iter().next().unwrap()
}

fn turns(reader: &Opencode, found: &Found) -> Vec<String> {
    let mut records = reader.records(found, &Start::Beginning).unwrap();
    let fold = conversation(records.as_mut()).unwrap();
    fold.turns().iter().map(shown).collect()
}

fn shown(turn: &NativeTurn) -> String {
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

const USER: &str = r#"{"role":"user","time":{"created":1000}}"#;
const STEP: &str =
    r#"{"role":"assistant","time":{"created":1000,"completed":2000},"finish":"tool-calls"}"#;
const LAST: &str =
    r#"{"role":"assistant","time":{"created":1000,"completed":2000},"finish":"stop"}"#;
const ABORTED: &str = r#"{"role":"assistant","time":{"created":1,"completed":2},"error":{"name":"MessageAbortedError","data":{"message":"Aborted"}}}"#;
const FAILED: &str = r#"{"role":"assistant","time":{"created":1,"completed":2},"error":{"name":"APIError","data":{}}}"#;
const TOOL: &str = r#"{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"ls"},"output":"a\nb","metadata":{"output":"a\nb"},"time":{"start":1,"end":2}}}"#;
const TOKENS: &str = r#"{"type":"step-finish","reason":"stop","tokens":{"total":122,"input":91,"output":15,"reasoning":5,"cache":{"write":0,"read":11}}}"#;

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

/// Creates a session of two turns, the first with a tool call.
fn two_turns() -> World {
    World::with(&[
        (USER, &[&text("one")]),
        (
            STEP,
            &[
                r#"{"type":"step-start","snapshot":"f3"}"#,
                r#"{"type":"reasoning","text":"hm","time":{"start":1,"end":2}}"#,
                &text("I look"),
                TOOL,
                TOKENS,
            ],
        ),
        (LAST, &[&text("done"), TOKENS]),
        (USER, &[&text("two")]),
        (LAST, &[&text("again"), TOKENS]),
    ])
}

const FIRST: &str = r#"user: one | assistant: (hm) | assistant: I look | assistant: c1 bash{"command":"ls"} | tool: c1 "a\nb" | assistant: done | finished"#;
const SECOND: &str = "user: two | assistant: again | finished";

#[test]
fn a_cost_of_nothing_tells_nothing() {
    let by = |model: &str| {
        format!(
            r#"{{"role":"assistant","modelID":"{model}","time":{{"created":1,"completed":2}},"finish":"stop"}}"#
        )
    };
    let used = |cost: &str| {
        format!(r#"{{"type":"step-finish","cost":{cost},"tokens":{{"input":91,"output":15}}}}"#)
    };
    let (first, second) = (by("claude-opus-5"), by("gpt-5.5"));
    let (dear, cheap, free) = (used("0.3"), used("1.5e-6"), used("0"));
    let world = World::with(&[
        (USER, &[&text("one")]),
        (&first, &[&text("done"), &dear]),
        (&second, &[&text("done"), &cheap]),
        (USER, &[&text("two")]),
        (&first, &[&text("again"), &free]),
        (USER, &[&text("three")]),
        (&first, &[&text("again"), &dear]),
        (LAST, &[&text("again"), &free]),
    ]);
    let found = world.found();
    let mut records = world.reader().records(&found, &Start::Beginning).unwrap();
    let turns = conversation(records.as_mut()).unwrap().into_turns();
    let spent = |turn: &NativeTurn| (turn.model.clone(), turn.cost.map(Cost::micros));
    let told: Vec<_> = turns.iter().map(spent).collect();
    let (opus, gpt) = (Some("claude-opus-5".to_owned()), Some("gpt-5.5".to_owned()));
    assert_eq!(
        told,
        [(gpt, Some(300_002)), (opus.clone(), None), (opus, None)]
    );
}

#[test]
fn each_part_is_a_message_and_a_prompt_begins_a_turn() {
    assert_eq!(two_turns().turns(), [FIRST, SECOND]);
}

#[test]
fn usage_counts_what_is_cached_and_thought() {
    let world = two_turns();
    let found = world.found();
    let mut records = world.reader().records(&found, &Start::Beginning).unwrap();
    let fold = conversation(records.as_mut()).unwrap();
    let usage = fold.turns()[0].usage;
    assert_eq!(usage.input_tokens, Some(2 * 102));
    assert_eq!(usage.output_tokens, Some(2 * 20));
    assert_eq!(usage.cached_tokens, Some(2 * 11));
    assert_eq!(usage.context_tokens, Some(122));
    assert_eq!(fold.title().unwrap().as_str(), "A title");
    // Before opencode wrote a total, the output included thoughts.
    let old = r#"{"input":10,"output":7,"reasoning":5,"cache":{"read":3,"write":2}}"#;
    let usage = Usage::from(&serde_json::from_str::<Tokens>(old).unwrap());
    assert_eq!(
        (usage.output_tokens, usage.total_tokens),
        (Some(7), Some(22))
    );
    let odd = r#"{"input":-3,"output":1.5}"#;
    let usage = Usage::from(&serde_json::from_str::<Tokens>(odd).unwrap());
    assert_eq!(usage, Usage::default());
}

#[test]
fn a_turn_ends_as_its_last_answer_does() {
    let open = r#"{"role":"assistant","time":{"created":1}}"#;
    let shell = r#"{"role":"assistant","time":{"created":1,"completed":2}}"#;
    let said = r#"{"type":"text","text":"so","time":{"start":1,"end":2}}"#;
    let torn = r#"{"type":"text","text":"so","time":{"start":1}}"#;
    let running =
        r#"{"type":"tool","tool":"bash","callID":"c","state":{"status":"running","input":{}}}"#;
    let failing = r#"{"type":"tool","tool":"read","callID":"c","state":{"status":"error","input":{},"error":"no file"}}"#;
    let cases: &[(&str, &[&str], &str)] = &[
        (LAST, &[said], "assistant: so | finished"),
        (
            STEP,
            &[failing],
            r#"assistant: c read{} | tool: c !"no file" | running"#,
        ),
        (ABORTED, &[said], "assistant: so | cancelled"),
        (FAILED, &[], "failed"),
        (open, &[torn], "assistant: so… | running"),
        (open, &[running], "assistant: c bash{} | running"),
        (
            shell,
            &[TOOL],
            r#"assistant: c1 bash{"command":"ls"} | tool: c1 "a\nb" | finished"#,
        ),
        (
            LAST,
            &[r#"{"type":"novelty","x":1}"#],
            r#"assistant: ? {"type":"novelty","x":1} | finished"#,
        ),
    ];
    for (message, parts, expected) in cases {
        let world = World::with(&[(USER, &[&text("go")]), (message, parts)]);
        assert_eq!(world.turns(), [format!("user: go | {expected}")]);
    }
}

#[test]
fn what_a_person_did_not_write_is_no_prompt() {
    let note = r#"{"type":"text","synthetic":true,"text":"Called the Read tool"}"#;
    let image =
        r#"{"type":"file","mime":"image/png","url":"data:image/png;base64,AAA=","synthetic":true}"#;
    let file = r#"{"type":"file","mime":"text/plain","url":"file:///w/note.txt"}"#;
    let subtask = r#"{"type":"subtask","prompt":"look into it","agent":"general"}"#;
    let cases: &[(&[&str], &[&str])] = &[
        (
            &[note, image, &text("see")],
            &[r#"user: <image/png Some("AAA=")> + see | running"#],
        ),
        (&[note, file], &["user: <text/plain None> | running"]),
        (&[subtask], &["user: look into it | running"]),
        (&[note], &[]),
        (&[&text("<system-reminder>")], &[]),
    ];
    for (parts, expected) in cases {
        assert_eq!(World::with(&[(USER, parts)]).turns(), *expected);
    }
}

#[test]
fn a_summary_is_a_compaction_and_ends_nothing() {
    let asks = r#"{"type":"compaction","auto":true}"#;
    let summary =
        r#"{"role":"assistant","summary":true,"time":{"created":1,"completed":2},"finish":"stop"}"#;
    let on = r#"{"type":"text","synthetic":true,"text":"Continue if you have next steps"}"#;
    let world = World::with(&[
        (USER, &[&text("go")]),
        (STEP, &[TOOL]),
        (USER, &[asks]),
        (summary, &[&text("so far"), TOKENS]),
        (USER, &[on]),
        (LAST, &[&text("done")]),
    ]);
    let found = world.found();
    let mut records = world.reader().records(&found, &Start::Beginning).unwrap();
    let mut compacted = Vec::new();
    while let Some(record) = records.next().unwrap() {
        compacted.extend(record.events.into_iter().filter_map(|event| match event {
            Event::Compacted(summary) => Some(summary),
            _ => None,
        }));
    }
    assert_eq!(compacted, [Some("so far".to_owned())]);
    assert_eq!(world.turns().len(), 1);
    assert!(world.turns()[0].ends_with("assistant: done | finished"));
}

#[test]
fn what_was_reverted_does_not_count() {
    let cases = [
        (r#"{"messageID":"msg_3"}"#, vec![FIRST.to_owned()]),
        (r#"{"messageID":"msg_0"}"#, vec![]),
        (
            r#"{"messageID":"gone"}"#,
            vec![FIRST.to_owned(), SECOND.to_owned()],
        ),
        ("not json", vec![FIRST.to_owned(), SECOND.to_owned()]),
        (
            r#"{"messageID":"msg_1","partID":"prt_1_3"}"#,
            vec!["user: one | assistant: (hm) | assistant: I look | running".to_owned()],
        ),
    ];
    for (revert, expected) in cases {
        let world = two_turns();
        world
            .db
            .execute("UPDATE session SET revert = ?1", [revert])
            .unwrap();
        assert_eq!(world.turns(), expected, "{revert}");
    }
    let world = two_turns();
    let revert = "UPDATE session SET revert = json_object('messageID', 'msg_3')";
    world.db.execute(revert, []).unwrap();
    let start = Start::After(Mark::Id("msg_4".into()));
    let error = world
        .reader()
        .records(&world.found(), &start)
        .err()
        .unwrap();
    assert!(matches!(error, ReadError::MarkLost { .. }), "{error}");
}

#[test]
fn a_read_starts_after_a_mark_or_with_the_last_turns() {
    let world = two_turns();
    let (reader, found) = (world.reader(), world.found());
    let start = Start::After(Mark::Id("msg_2".into()));
    let mut records = reader.records(&found, &start).unwrap();
    let fold = conversation(records.as_mut()).unwrap();
    assert_eq!(shown(&fold.turns()[0]), SECOND);
    assert!(fold.title().is_none());

    let outline = crate::outline(reader.records(&found, &Start::Beginning).unwrap().as_mut());
    let outline = outline.unwrap().into_turns();
    let read: Vec<String> = outline
        .iter()
        .map(|of| shown(&turn(&reader, &found, of).unwrap()))
        .collect();
    assert_eq!(read, [FIRST, SECOND]);

    for (wanted, expected, all) in [(0, 0, false), (1, 1, false), (2, 2, true), (9, 2, true)] {
        let (turns, whole) = reader.recent(&found, wanted).unwrap();
        assert_eq!((turns.len(), whole), (expected, all), "{wanted}");
        if wanted == 1 {
            assert_eq!(shown(&turns[0]), SECOND);
        }
    }
}

#[test]
fn a_head_tells_what_a_session_is() {
    let world = World::new();
    let default = "New session - 2026-11-16T00:42:16.764Z";
    world.session("ses_1", default, None);
    world.message("ses_1", 0, USER, &[&text("fix it")]);
    world.message("ses_1", 1, LAST, &[&text("done")]);
    world.session("ses_2", "sub work (@general subagent)", Some("ses_1"));
    world.session("ses_3", default, None);
    world.session("../../etc", "a path", None);
    world
        .db
        .execute(
            "UPDATE session SET time_archived = 5 WHERE id = 'ses_2'",
            [],
        )
        .unwrap();
    let reader = world.reader();
    let there = reader.find();
    assert_eq!(there.found.len(), 3);
    let heads: Vec<(Head, bool)> = there
        .found
        .iter()
        .map(|found| (reader.head(found).unwrap(), found.archived))
        .collect();
    let (first, _) = &heads[0];
    assert_eq!(first.kind, Kind::Conversation);
    assert_eq!(first.cwd.as_deref(), Some("/work"));
    assert_eq!(first.version.as_deref(), Some("1.18.33"));
    assert_eq!(first.first_prompt.as_deref(), Some("fix it"));
    assert_eq!(first.title, Some(Title::from_prompt("fix it")));
    assert_eq!(first.created_at, Timestamp::from_millisecond(1000).ok());
    // The last answer is newer than the row of the session.
    assert_eq!(first.updated_at, Timestamp::from_millisecond(3001).unwrap());
    let (second, archived) = &heads[1];
    assert_eq!((second.kind, *archived), (Kind::Subagent, true));
    assert_eq!(second.title.as_ref().unwrap().source(), TitleSource::Model);
    assert_eq!((heads[2].0.kind, &heads[2].0.title), (Kind::Empty, &None));
}

#[test]
fn the_files_of_old_are_read_as_the_database_is() {
    let world = two_turns();
    let old = tempfile::tempdir().unwrap();
    let write = |path: String, text: String| {
        let path = old.path().join("storage").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let head = r#"{"id":"ses_1","directory":"/work","title":"A title","version":"1.0.1","time":{"created":1000,"updated":2000}}"#;
    write("session/global/ses_1.json".into(), head.into());
    let mut query = world.db.prepare("SELECT id, data FROM message").unwrap();
    let mut rows = query.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        write(
            format!("message/ses_1/{}.json", row.get::<_, String>(0).unwrap()),
            row.get(1).unwrap(),
        );
    }
    let mut query = world
        .db
        .prepare("SELECT message_id, id, data FROM part")
        .unwrap();
    let mut rows = query.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let (message, id): (String, String) = (row.get(0).unwrap(), row.get(1).unwrap());
        write(format!("part/{message}/{id}.json"), row.get(2).unwrap());
    }
    let reader = Opencode::new(old.path());
    let found = only(&reader);
    assert_eq!(turns(&reader, &found), [FIRST, SECOND]);
    let head = reader.head(&found).unwrap();
    assert_eq!(head.first_prompt.as_deref(), Some("one"));
    assert_eq!(head.version.as_deref(), Some("1.0.1"));

    // After the move, both exist, and the database has precedence.
    fs::rename(
        old.path().join("storage"),
        world.home.path().join("storage"),
    )
    .unwrap();
    assert!(is_database(&world.found().path));
}

#[test]
fn nothing_is_written_whoever_has_the_database_open() {
    let world = two_turns();
    let read = |world: &World| {
        let before = world.files();
        assert_eq!(world.turns(), [FIRST, SECOND]);
        assert_eq!(
            world.reader().head(&world.found()).unwrap().kind,
            Kind::Conversation
        );
        let after = world.files();
        // Within one process, all SQLite connections share one index of the log. It is compared only if no other
        // connection is open.
        let ours = |(path, _): &&(PathBuf, Vec<u8>)| {
            world.db.path().is_none_or(str::is_empty) || !path.to_string_lossy().ends_with("-shm")
        };
        assert_eq!(before.len(), after.len());
        assert!(
            before.iter().filter(ours).eq(after.iter().filter(ours)),
            "a file was changed"
        );
    };
    read(&world);
    // Files of a killed program: the log exists, and no process has it open.
    let left = tempfile::tempdir().unwrap();
    for (path, bytes) in world.files() {
        fs::write(left.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let closed = World {
        home: left,
        db: Connection::open_in_memory().unwrap(),
    };
    read(&closed);
    // A copy of the two without the index of the log.
    fs::remove_file(closed.home.path().join("opencode.db-shm")).unwrap();
    read(&closed);
    assert_eq!(closed.files().len(), 2);
    // A regular close, which removes the log.
    let World { home, db } = world;
    db.close().unwrap();
    let rested = World {
        home,
        db: Connection::open_in_memory().unwrap(),
    };
    assert_eq!(rested.files().len(), 1);
    read(&rested);
    // An unusable log is not changed, either.
    fs::write(rested.home.path().join("opencode.db-wal"), "not a log").unwrap();
    read(&rested);
}

#[test]
fn a_change_that_was_not_finished_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("opencode.db");
    #[expect(clippy::disallowed_methods, reason = "this is the other program")]
    let db = Connection::open(&path).unwrap();
    db.execute_batch(SCHEMA).unwrap();
    let world = World { home, db };
    world.session("ses_1", "A title", None);
    for at in 0..200 {
        world.message("ses_1", at, USER, &[&text(&"x".repeat(2000))]);
    }
    // The change is so large that SQLite writes it into the file before the commit.
    let change = "PRAGMA cache_size = 1; BEGIN; UPDATE part SET data = replace(data, 'xx', 'yy')";
    world.db.execute_batch(change).unwrap();
    assert!(beside(&path, "-journal").exists());
    let left = tempfile::tempdir().unwrap();
    for (path, bytes) in world.files() {
        fs::write(left.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    // No process has this copy open and could complete or undo the change, and segue must not do so.
    let there = Opencode::new(left.path()).find();
    assert_eq!((there.found.len(), there.unreadable.len()), (0, 1));
    world.db.execute_batch("COMMIT").unwrap();
    assert_eq!(world.turns().len(), 200);
}

#[test]
fn a_database_is_opened_once_for_many_reads() {
    let world = two_turns();
    let (reader, found) = (world.reader(), world.found());
    // A temporary table exists only in its connection, so it shows whether the connection is the same.
    let mark = |reader: &Opencode| {
        let kept = reader.kept.lock().unwrap();
        assert_eq!(kept.len(), 1);
        let connection = &kept[0].connection;
        connection
            .execute_batch("CREATE TEMP TABLE known (x)")
            .is_err()
    };
    reader.head(&found).unwrap();
    assert!(!mark(&reader));
    reader.head(&found).unwrap();
    assert!(mark(&reader));
    let start = Start::After(Mark::Id("msg_2".into()));
    drop(reader.records(&found, &start).unwrap());
    assert!(mark(&reader));
    reader.recent(&found, 1).unwrap();
    assert!(mark(&reader));
}

#[test]
fn a_long_session_is_read_some_messages_at_a_time() {
    let world = World::with(&[]);
    let some = SOME as usize;
    for at in 0..3 * some {
        // The order of the messages differs from that of their ids.
        let message = format!("msg_{}", 9000 - at);
        let insert = "INSERT INTO message VALUES (?1, 'ses_1', ?2, ?2, ?3)";
        world.db.execute(insert, (&message, at, USER)).unwrap();
        let insert = "INSERT INTO part VALUES (?1, ?2, 'ses_1', ?3)";
        let values = (format!("prt_{at}"), &message, text(&at.to_string()));
        world.db.execute(insert, values).unwrap();
    }
    let (reader, found) = (world.reader(), world.found());
    let read = |start: &Start| {
        let mut records = reader.records(&found, start).unwrap();
        let mut marks = Vec::new();
        while let Some(record) = records.next().unwrap() {
            marks.push(record.mark);
        }
        marks
    };
    let all: Vec<Mark> = (0..3 * some)
        .map(|at| Mark::Id(format!("msg_{}", 9000 - at)))
        .collect();
    assert_eq!(read(&Start::Beginning), all);
    for at in [0, 1, some - 1, some, 2 * some - 2, 3 * some - 1] {
        assert_eq!(read(&Start::After(all[at].clone())), all[at + 1..], "{at}");
    }
    let revert = "UPDATE session SET revert = json_object('messageID', ?1)";
    for at in [0, some - 1, some, some + 1, 2 * some] {
        world
            .db
            .execute(revert, [format!("msg_{}", 9000 - at)])
            .unwrap();
        assert_eq!(read(&Start::Beginning), all[..at], "{at}");
        let start = Start::After(all[at].clone());
        assert!(reader.records(&found, &start).is_err());
    }
}

#[test]
fn a_writer_that_comes_later_is_seen_and_not_held_up() {
    let World { home, db } = two_turns();
    db.close().unwrap();
    let reader = Opencode::new(home.path());
    let found = only(&reader);
    reader.head(&found).unwrap();
    let mut records = reader.records(&found, &Start::Beginning).unwrap();
    records.next().unwrap();
    #[expect(clippy::disallowed_methods, reason = "this is the other program")]
    let db = Connection::open(&found.path).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    let world = World { home, db };
    world.message("ses_1", 5, USER, &[&text("three")]);
    world.session("ses_2", "Another", None);
    world
        .db
        .execute("DELETE FROM message WHERE id = 'msg_4'", [])
        .unwrap();
    world
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
        turns(&reader, &found).last().unwrap(),
        "user: three | running"
    );
    assert_eq!(reader.find().found.len(), 2);
}

#[test]
fn what_can_not_be_read_is_counted_and_skipped() {
    let world = World::with(&[
        (USER, &[&text("go"), "{", "", "[]", r#"{"type":5}"#]),
        ("nonsense", &[&text("lost")]),
        (LAST, &[&text("done")]),
    ]);
    let insert = "INSERT INTO part VALUES (?1, 'msg_2', 'ses_1', ?2)";
    world.db.execute(insert, ("prt_x1", 7)).unwrap();
    world
        .db
        .execute(insert, ("prt_x2", None::<String>))
        .unwrap();
    world
        .db
        .execute(insert, ("prt_x3", "x".repeat(LONGEST + 1)))
        .unwrap();
    let bad = "INSERT INTO part VALUES ('prt_x4', 'msg_2', 'ses_1', CAST(x'7b2274797065223a2274657874222c2274657874223a22ff227d' AS TEXT))";
    world.db.execute(bad, []).unwrap();
    let found = world.found();
    let mut records = world.reader().records(&found, &Start::Beginning).unwrap();
    let fold = conversation(records.as_mut()).unwrap();
    let shown: Vec<String> = fold.turns().iter().map(shown).collect();
    assert_eq!(
        shown,
        ["user: go | assistant: done | assistant: \u{fffd} | finished"]
    );
    let skipped = records.skipped();
    assert_eq!(
        (skipped.malformed, skipped.oversized, skipped.mended),
        (6, 2, 1)
    );
}

#[test]
fn a_file_that_is_no_database_is_reported() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("opencode.db"), "x".repeat(5000)).unwrap();
    fs::create_dir(home.path().join("opencode-dev.db")).unwrap();
    fs::write(home.path().join("opencode-empty.db"), "").unwrap();
    let pipe = home.path().join("opencode-pipe.db");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    let there = Opencode::new(home.path()).find();
    assert_eq!((there.found.len(), there.unreadable.len()), (0, 4));
    assert!(
        Opencode::new(home.path().join("nowhere"))
            .find()
            .unreadable
            .is_empty()
    );
}

proptest! {
    #[test]
    fn no_object_makes_it_panic(words in r#"[{}\[\]",:.a-z0-9-]{0,40}"#, by_user in any::<bool>()) {
        let info = if by_user { USER } else { LAST };
        let fields = ["state", "tokens", "time", "text", "url", "type"].iter();
        let known = ["text", "tool", "file", "step-finish", "reasoning", "subtask"].iter();
        let parts = fields.flat_map(|field| {
            let words = &words;
            known.clone().map(move |kind| format!(r#"{{"type":"{kind}","{field}":{words}}}"#))
        });
        for text in parts.chain([words.clone()]) {
            let info: Info<'_> = serde_json::from_str(info).unwrap();
            let mut telling = Telling::new(&info);
            let _ = telling.take("prt_1", &text);
            telling.finish(&info);
            let _ = serde_json::from_str::<Info<'_>>(&text);
            let _ = serde_json::from_str::<Session<'_>>(&text).map(|session| session.title());
        }
    }
}
