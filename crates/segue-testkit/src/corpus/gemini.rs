//! Sessions in the format of Gemini CLI: a log since about 0.58, one indented document before that.
//!
//! The log contains an answer when it arrives, and contains it again, complete, when its tools have finished. A resumed
//! session repeats its complete history.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Counts;
use super::file_writer::Written;
use super::session::{Age, Session, uuid};
use super::texts::Texts;

/// Number of turns after which the session of a log is resumed.
const RESUMED_AFTER: u64 = 4;

/// Writes a session into a home directory of Gemini CLI.
pub fn write(home: &Path, session: &Session, texts: &Texts) -> Counts {
    let file = File {
        session: *session,
        texts,
        step: 0,
        messages: 0,
    };
    match session.age {
        Age::New => file.log(&path(home, session, "jsonl")),
        Age::Old => file.document(&path(home, session, "json")),
    }
}

/// Returns the file of a session, and creates its directory with the file that names the project.
fn path(home: &Path, session: &Session, extension: &str) -> PathBuf {
    let directory = home.join(format!("tmp/app-{}", session.project));
    fs::create_dir_all(directory.join("chats")).unwrap();
    fs::write(directory.join(".project_root"), session.cwd()).unwrap();
    let at = session.time(0)[..16].replace(':', "-");
    let id = &session.id()[..8];
    directory.join(format!("chats/session-{at}-{id}.{extension}"))
}

/// A message, and the earlier state of it that precedes it in the log.
struct Said {
    before: Option<String>,
    message: String,
}

struct File<'a> {
    session: Session,
    texts: &'a Texts,
    /// Number of messages so far.
    step: u64,
    /// Number of messages in the sense of [`Counts`]. The log stores a thought and the call after it as one message.
    messages: u64,
}

impl File<'_> {
    fn log(mut self, path: &Path) -> Counts {
        let mut out = Written::create(path);
        let (id, at) = (self.session.id(), self.session.time(0));
        let (context, project) = (self.context(), self.session.project);
        let begin = |out: &mut Written| {
            out.line(format_args!(
                r#"{{"sessionId":"{id}","projectHash":"{project:064x}","startTime":"{at}","lastUpdated":"{at}","kind":"main"}}"#
            ));
            out.line(format_args!(
                r#"{{"$set":{{"messages":[{context}],"lastUpdated":"{at}"}}}}"#
            ));
        };
        begin(&mut out);
        let mut history = vec![context.clone()];
        let mut turn = 0;
        while self.session.goes_on(turn, out.bytes) {
            if turn == RESUMED_AFTER {
                begin(&mut out);
                out.line(format_args!(r#"{{"$set":{{"sessionId":"{id}"}}}}"#));
                let messages = history.join(",");
                out.line(format_args!(
                    r#"{{"$set":{{"messages":[{messages}],"lastUpdated":"{at}"}}}}"#
                ));
            }
            for said in self.turn(turn) {
                if let Some(before) = &said.before {
                    out.line(format_args!("{before}"));
                    self.updated(&mut out);
                }
                out.line(format_args!("{}", said.message));
                self.updated(&mut out);
                if turn < RESUMED_AFTER {
                    history.push(said.message);
                }
            }
            turn += 1;
        }
        self.finish(out, turn)
    }

    fn document(mut self, path: &Path) -> Counts {
        let mut out = Written::create(path);
        let (id, at) = (self.session.id(), self.session.time(0));
        out.text(format_args!(
            "{{\n  \"sessionId\": \"{id}\",\n  \"projectHash\": \"{:064x}\",\n  \"startTime\": \"{at}\",\n  \"lastUpdated\": \"{at}\",\n  \"messages\": [\n    ",
            self.session.project
        ));
        out.text(format_args!("{}", indented(&self.context())));
        let mut turn = 0;
        while self.session.goes_on(turn, out.bytes) {
            for said in self.turn(turn) {
                out.text(format_args!(",\n    {}", indented(&said.message)));
            }
            turn += 1;
        }
        out.text(format_args!("\n  ]\n}}"));
        self.finish(out, turn)
    }

    fn finish(self, out: Written, turns: u64) -> Counts {
        Counts {
            sessions: 1,
            turns,
            messages: self.messages,
            bytes: out.finish(self.session.modified(self.step)),
        }
    }

    /// Returns the first message of every session, which the user did not write.
    fn context(&self) -> String {
        let at = self.session.time(0);
        let text = self.texts.thought(self.session.number);
        format!(
            r#"{{"id":"d04923d38bb0f6017037e74183378ef4","timestamp":"{at}","type":"user","content":[{{"text":"<session_context>\n{text}\n</session_context>"}}]}}"#
        )
    }

    fn updated(&self, out: &mut Written) {
        let at = self.session.time(self.step);
        out.line(format_args!(r#"{{"$set":{{"lastUpdated":"{at}"}}}}"#));
    }

    /// Creates all messages of a turn.
    fn turn(&mut self, turn: u64) -> Vec<Said> {
        let prompt = self.texts.prompt(self.session.seed(self.step));
        let mut all = vec![self.say(
            None,
            &format!(r#""type":"user","content":[{{"text":"{prompt}"}}]"#),
        )];
        for _ in 0..self.session.calls(turn) {
            all.extend(self.tool_call());
        }
        let (n, length) = (
            self.session.seed(self.step),
            self.session.answer_length(self.step),
        );
        let answer = self.texts.answer(n, length);
        all.push(self.say(
            None,
            &format!(r#""type":"gemini","content":"{answer}","thoughts":[],{TOKENS}"#),
        ));
        self.messages += 2;
        all
    }

    fn say(&mut self, before: Option<&str>, what: &str) -> Said {
        self.step += 1;
        let id = uuid(self.session.number, self.step);
        let at = self.session.time(self.step);
        let whole = |what: &str| format!(r#"{{"id":"{id}","timestamp":"{at}",{what}}}"#);
        Said {
            before: before.map(whole),
            message: whole(what),
        }
    }

    fn tool_call(&mut self) -> [Said; 2] {
        let n = self.session.seed(self.step);
        let length = self.session.output_length(self.step);
        let (path, listing) = (self.texts.path(n), self.texts.listing(n, length));
        let mut thoughts = String::new();
        if self.session.thinks(self.step) {
            thoughts = format!(
                r#"{{"subject":"Looking","description":"{}","timestamp":"2026-11-16T01:35:02.498Z"}}"#,
                self.texts.thought(n)
            );
        }
        let before = format!(r#""type":"gemini","content":"","thoughts":[{thoughts}],{TOKENS}"#);
        let response = format!(
            r#"{{"functionResponse":{{"id":"read_file__{n}","name":"read_file","response":{{"output":"{listing}"}}}}}}"#
        );
        let with_tools = format!(
            r#"{before},"toolCalls":[{{"id":"read_file__{n}","name":"read_file","args":{{"file_path":"{path}"}},"result":[{response}],"status":"success","timestamp":"2026-11-16T01:35:02.550Z","resultDisplay":"{listing}","description":"{path}","displayName":"ReadFile","renderOutputAsMarkdown":true}}]"#
        );
        self.messages += 2;
        [
            self.say(Some(&before), &with_tools),
            self.say(None, &format!(r#""type":"user","content":[{response}]"#)),
        ]
    }
}

const TOKENS: &str = r#""tokens":{"input":10100,"output":420,"cached":9000,"thoughts":50,"tool":0,"total":10570},"model":"gemini-2.5-pro""#;

/// Indents a message for its position in the document.
fn indented(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    let message = serde_json::to_string_pretty(&message).unwrap();
    message.replace('\n', "\n    ")
}
