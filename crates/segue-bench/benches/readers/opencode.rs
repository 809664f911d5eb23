//! Sessions in opencode's format: rows of JSON in one database.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use segue_bench::corpus::{CorpusTexts, splitmix64, uuid};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, parent_id text, directory text, title text,
        version text, revert text, time_created integer, time_updated integer, time_archived integer);
    CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text, time_created integer,
        time_updated integer, data text);
    CREATE INDEX IF NOT EXISTS message_session ON message (session_id, time_created, id);
    CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text, session_id text,
        time_created integer, time_updated integer, data text);
    CREATE INDEX IF NOT EXISTS part_message ON part (message_id, id);";

pub(crate) fn open_database(path: &Path) -> Connection {
    #[allow(clippy::disallowed_methods, reason = "this is the other program")]
    Connection::open(path).unwrap()
}

pub(crate) fn write_session(
    home: &Path,
    session_number: u64,
    bytes: u64,
    texts: &CorpusTexts,
) -> u64 {
    let path: PathBuf = home.join("opencode.db");
    let connection = open_database(&path);
    let fast_writes = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;";
    connection.execute_batch(fast_writes).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let mut writer = OpencodeRowWriter {
        connection: &connection,
        texts,
        id: format!("ses_{}", &uuid(session_number, 0)[..8]),
        started_at_millis: 1_790_000_000_000 + session_number * 1_000_000,
        session_number,
        message_count: 0,
        part_count: 0,
        bytes_written: 0,
    };
    writer.insert_session();
    let mut turns = 0;
    while turns == 0 || writer.bytes_written < bytes {
        writer.write_turn(turns);
        turns += 1;
    }
    connection.execute_batch("COMMIT").unwrap();
    turns
}

struct OpencodeRowWriter<'a> {
    connection: &'a Connection,
    texts: &'a CorpusTexts,
    id: String,
    started_at_millis: u64,
    session_number: u64,
    message_count: u64,
    part_count: u64,
    bytes_written: u64,
}

impl OpencodeRowWriter<'_> {
    fn insert_session(&self) {
        let insert = "INSERT INTO session VALUES (?1, NULL, ?2, ?3, '1.18.33', NULL, ?4, ?4, NULL)";
        let directory = format!("/src/app-{}", self.session_number % 50);
        // Default title of a new session.
        let title = "New session - 2026-11-16T01:28:34.302Z";
        let values = (&self.id, directory, title, self.started_at_millis);
        self.connection.execute(insert, values).unwrap();
    }

    fn insert_message(&mut self, data: &str) {
        self.message_count += 1;
        let mut statement = self
            .connection
            .prepare_cached("INSERT INTO message VALUES (?1, ?2, ?3, ?3, ?4)")
            .unwrap();
        let at = self.started_at_millis + self.message_count * 1000;
        statement
            .execute((self.message_id(), &self.id, at, data))
            .unwrap();
        self.bytes_written += data.len() as u64;
    }

    fn message_id(&self) -> String {
        format!("msg_{:06x}{:08x}", self.session_number, self.message_count)
    }

    fn insert_part(&mut self, data: &str) {
        self.part_count += 1;
        let mut statement = self
            .connection
            .prepare_cached("INSERT INTO part VALUES (?1, ?2, ?3, ?4, ?4, ?5)")
            .unwrap();
        let id = format!("prt_{:06x}{:08x}", self.session_number, self.part_count);
        let values = (
            id,
            self.message_id(),
            &self.id,
            self.started_at_millis,
            data,
        );
        statement.execute(values).unwrap();
        self.bytes_written += data.len() as u64;
    }

    fn write_turn(&mut self, turn: u64) {
        let prompt = self.texts.prompt(self.session_number + turn);
        let at = self.started_at_millis;
        self.insert_message(&format!(
            r#"{{"role":"user","time":{{"created":{at}}},"agent":"build","model":{{"providerID":"openai","modelID":"gpt-5.5"}},"summary":{{"diffs":[]}}}}"#
        ));
        self.insert_part(&format!(r#"{{"type":"text","text":"{prompt}"}}"#));
        for _ in 0..=splitmix64(turn) % 8 {
            self.insert_tool_call();
        }
        self.insert_answer_message("stop");
        let answer = self
            .texts
            .answer(self.part_count, 400 + splitmix64(self.part_count) % 1200);
        self.insert_part(&format!(
            r#"{{"type":"text","text":"{answer}","time":{{"start":{at},"end":{at}}}}}"#
        ));
        self.insert_step_finish("stop");
    }

    fn insert_answer_message(&mut self, finish: &str) {
        let at = self.started_at_millis;
        self.insert_message(&format!(
            r#"{{"role":"assistant","time":{{"created":{at},"completed":{at}}},"parentID":"msg_1","modelID":"gpt-5.5","providerID":"openai","mode":"build","agent":"build","path":{{"cwd":"/src/app","root":"/src/app"}},"cost":0,"tokens":{{"total":10570,"input":1100,"output":420,"reasoning":50,"cache":{{"write":0,"read":9000}}}},"finish":"{finish}"}}"#
        ));
        self.insert_part(
            r#"{"type":"step-start","snapshot":"f37cf11ea7a8f67a4d4d97f7ddbf8a66c6c8a9a4"}"#,
        );
    }

    fn insert_tool_call(&mut self) {
        self.insert_answer_message("tool-calls");
        let (n, at) = (
            self.session_number + self.part_count,
            self.started_at_millis,
        );
        let listing = self.texts.listing(n, 1000 + splitmix64(n) % 19_000);
        let thought = self.texts.thought(n);
        self.insert_part(&format!(
            r#"{{"type":"reasoning","text":"{thought}","time":{{"start":{at},"end":{at}}}}}"#
        ));
        // opencode stores the text for the screen next to the text for the model.
        self.insert_part(&format!(
            r#"{{"type":"tool","tool":"read","callID":"call_{n}","state":{{"status":"completed","input":{{"filePath":"/src/app/lib-{n}.rs"}},"output":"<file>\n{listing}\n</file>","title":"lib-{n}.rs","metadata":{{"preview":"{listing}","truncated":false}},"time":{{"start":{at},"end":{at}}}}}}}"#
        ));
        self.insert_step_finish("tool-calls");
    }

    fn insert_step_finish(&mut self, reason: &str) {
        self.insert_part(&format!(
            r#"{{"type":"step-finish","reason":"{reason}","snapshot":"f37cf11ea7a8f67a4d4d97f7ddbf8a66c6c8a9a4","cost":0,"tokens":{{"total":10570,"input":1100,"output":420,"reasoning":50,"cache":{{"write":0,"read":9000}}}}}}"#
        ));
    }
}
