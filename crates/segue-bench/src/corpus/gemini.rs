//! Sessions in the format of Gemini CLI: a log since about 0.58, one indented document before that.
//!
//! The log contains an answer when it arrives, and contains it again, complete, when its tools have finished. A resumed
//! session repeats its complete history.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::CorpusCounts;
use super::file_writer::CorpusFileWriter;
use super::session::{CorpusFormat, CorpusSession, uuid};
use super::texts::CorpusTexts;

/// Number of turns after which the session of a log is resumed.
const TURNS_BEFORE_RESUME: u64 = 4;

/// Writes a session into a home directory of Gemini CLI.
pub fn write_session(home: &Path, session: &CorpusSession, texts: &CorpusTexts) -> CorpusCounts {
    let writer = GeminiCorpusWriter {
        session: *session,
        texts,
        record_count: 0,
        message_count: 0,
    };
    match session.format {
        CorpusFormat::Current => writer.write_log(&create_session_path(home, session, "jsonl")),
        CorpusFormat::Legacy => writer.write_document(&create_session_path(home, session, "json")),
    }
}

/// Returns the file of a session, and creates its directory with the file that names the project.
fn create_session_path(home: &Path, session: &CorpusSession, extension: &str) -> PathBuf {
    let directory = home.join(format!("tmp/app-{}", session.project));
    fs::create_dir_all(directory.join("chats")).unwrap();
    fs::write(directory.join(".project_root"), session.cwd()).unwrap();
    let at = session.record_time(0)[..16].replace(':', "-");
    let id = &session.id()[..8];
    directory.join(format!("chats/session-{at}-{id}.{extension}"))
}

/// A message, and the earlier state of it that precedes it in the log.
struct GeminiCorpusMessage {
    earlier_state: Option<String>,
    message: String,
}

struct GeminiCorpusWriter<'a> {
    session: CorpusSession,
    texts: &'a CorpusTexts,
    /// Number of messages so far.
    record_count: u64,
    /// Number of messages in the sense of [`CorpusCounts`]. The log stores a thought and the call after it as one
    /// message.
    message_count: u64,
}

impl GeminiCorpusWriter<'_> {
    fn write_log(mut self, path: &Path) -> CorpusCounts {
        let mut out = CorpusFileWriter::create(path);
        let (id, at) = (self.session.id(), self.session.record_time(0));
        let (context, project) = (self.context_message(), self.session.project);
        let write_header = |out: &mut CorpusFileWriter| {
            out.write_line(format_args!(
                r#"{{"sessionId":"{id}","projectHash":"{project:064x}","startTime":"{at}","lastUpdated":"{at}","kind":"main"}}"#
            ));
            out.write_line(format_args!(
                r#"{{"$set":{{"messages":[{context}],"lastUpdated":"{at}"}}}}"#
            ));
        };
        write_header(&mut out);
        let mut history = vec![context.clone()];
        let mut turn = 0;
        while self.session.needs_another_turn(turn, out.written_bytes) {
            if turn == TURNS_BEFORE_RESUME {
                write_header(&mut out);
                out.write_line(format_args!(r#"{{"$set":{{"sessionId":"{id}"}}}}"#));
                let messages = history.join(",");
                out.write_line(format_args!(
                    r#"{{"$set":{{"messages":[{messages}],"lastUpdated":"{at}"}}}}"#
                ));
            }
            for message in self.build_turn(turn) {
                if let Some(earlier_state) = &message.earlier_state {
                    out.write_line(format_args!("{earlier_state}"));
                    self.write_update_time(&mut out);
                }
                out.write_line(format_args!("{}", message.message));
                self.write_update_time(&mut out);
                if turn < TURNS_BEFORE_RESUME {
                    history.push(message.message);
                }
            }
            turn += 1;
        }
        self.finish(out, turn)
    }

    fn write_document(mut self, path: &Path) -> CorpusCounts {
        let mut out = CorpusFileWriter::create(path);
        let (id, at) = (self.session.id(), self.session.record_time(0));
        out.write_text(format_args!(
            "{{\n  \"sessionId\": \"{id}\",\n  \"projectHash\": \"{:064x}\",\n  \"startTime\": \"{at}\",\n  \"lastUpdated\": \"{at}\",\n  \"messages\": [\n    ",
            self.session.project
        ));
        out.write_text(format_args!("{}", indent_message(&self.context_message())));
        let mut turn = 0;
        while self.session.needs_another_turn(turn, out.written_bytes) {
            for message in self.build_turn(turn) {
                out.write_text(format_args!(",\n    {}", indent_message(&message.message)));
            }
            turn += 1;
        }
        out.write_text(format_args!("\n  ]\n}}"));
        self.finish(out, turn)
    }

    fn finish(self, out: CorpusFileWriter, turns: u64) -> CorpusCounts {
        CorpusCounts {
            sessions: 1,
            turns,
            messages: self.message_count,
            bytes: out.finish(self.session.modified_time(self.record_count)),
        }
    }

    /// Returns the first message of every session, which the user did not write.
    fn context_message(&self) -> String {
        let at = self.session.record_time(0);
        let text = self.texts.thought(self.session.number);
        format!(
            r#"{{"id":"d04923d38bb0f6017037e74183378ef4","timestamp":"{at}","type":"user","content":[{{"text":"<session_context>\n{text}\n</session_context>"}}]}}"#
        )
    }

    fn write_update_time(&self, out: &mut CorpusFileWriter) {
        let at = self.session.record_time(self.record_count);
        out.write_line(format_args!(r#"{{"$set":{{"lastUpdated":"{at}"}}}}"#));
    }

    /// Creates all messages of a turn.
    fn build_turn(&mut self, turn: u64) -> Vec<GeminiCorpusMessage> {
        let prompt = self.texts.prompt(self.session.seed(self.record_count));
        let mut turn_messages = vec![self.build_message(
            None,
            &format!(r#""type":"user","content":[{{"text":"{prompt}"}}]"#),
        )];
        for _ in 0..self.session.call_count(turn) {
            turn_messages.extend(self.build_tool_call());
        }
        let (n, length) = (
            self.session.seed(self.record_count),
            self.session.answer_length(self.record_count),
        );
        let answer = self.texts.answer(n, length);
        turn_messages.push(self.build_message(
            None,
            &format!(r#""type":"gemini","content":"{answer}","thoughts":[],{TOKEN_FIELDS}"#),
        ));
        self.message_count += 2;
        turn_messages
    }

    fn build_message(&mut self, earlier_fields: Option<&str>, fields: &str) -> GeminiCorpusMessage {
        self.record_count += 1;
        let id = uuid(self.session.number, self.record_count);
        let at = self.session.record_time(self.record_count);
        let render = |fields: &str| format!(r#"{{"id":"{id}","timestamp":"{at}",{fields}}}"#);
        GeminiCorpusMessage {
            earlier_state: earlier_fields.map(render),
            message: render(fields),
        }
    }

    fn build_tool_call(&mut self) -> [GeminiCorpusMessage; 2] {
        let n = self.session.seed(self.record_count);
        let length = self.session.output_length(self.record_count);
        let (path, listing) = (self.texts.path(n), self.texts.listing(n, length));
        let mut thoughts = String::new();
        if self.session.has_thought(self.record_count) {
            thoughts = format!(
                r#"{{"subject":"Looking","description":"{}","timestamp":"2026-11-16T01:35:02.498Z"}}"#,
                self.texts.thought(n)
            );
        }
        let earlier_fields =
            format!(r#""type":"gemini","content":"","thoughts":[{thoughts}],{TOKEN_FIELDS}"#);
        let response = format!(
            r#"{{"functionResponse":{{"id":"read_file__{n}","name":"read_file","response":{{"output":"{listing}"}}}}}}"#
        );
        let fields_with_tools = format!(
            r#"{earlier_fields},"toolCalls":[{{"id":"read_file__{n}","name":"read_file","args":{{"file_path":"{path}"}},"result":[{response}],"status":"success","timestamp":"2026-11-16T01:35:02.550Z","resultDisplay":"{listing}","description":"{path}","displayName":"ReadFile","renderOutputAsMarkdown":true}}]"#
        );
        self.message_count += 2;
        [
            self.build_message(Some(&earlier_fields), &fields_with_tools),
            self.build_message(None, &format!(r#""type":"user","content":[{response}]"#)),
        ]
    }
}

const TOKEN_FIELDS: &str = r#""tokens":{"input":10100,"output":420,"cached":9000,"thoughts":50,"tool":0,"total":10570},"model":"gemini-2.5-pro""#;

/// Indents a message for its position in the document.
fn indent_message(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    let message = serde_json::to_string_pretty(&message).unwrap();
    message.replace('\n', "\n    ")
}
