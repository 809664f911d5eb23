//! Sessions as Gemini CLI writes them: since 0.58 or so as a log, before as one indented document.
//!
//! In the log an answer is written when it is there, and again in whole when its tools are through. A session
//! that was resumed tells its whole history anew.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::texts::{Texts, mixed, time, uuid};
use crate::written::Written;

const PROJECTS: u64 = 50;

/// A log, resumed after this many turns.
const RESUMED_AFTER: u64 = 4;

pub(crate) fn write_log(home: &Path, session: u64, bytes: u64, texts: &Texts) -> u64 {
    let mut out = Written::create(&path(home, session, "jsonl"));
    let (id, at, context) = (uuid(session, 0), time(session, 0), context(session, texts));
    let begin = |out: &mut Written| {
        out.line(format_args!(
            r#"{{"sessionId":"{id}","projectHash":"{:064x}","startTime":"{at}","lastUpdated":"{at}","kind":"main"}}"#,
            session % PROJECTS
        ));
        out.line(format_args!(
            r#"{{"$set":{{"messages":[{context}],"lastUpdated":"{at}"}}}}"#
        ));
    };
    begin(&mut out);
    let mut history = vec![context.clone()];
    let (mut turn, mut step) = (0, 0);
    while turn == 0 || out.bytes < bytes {
        if turn == RESUMED_AFTER {
            begin(&mut out);
            out.line(format_args!(r#"{{"$set":{{"sessionId":"{id}"}}}}"#));
            let messages = history.join(",");
            out.line(format_args!(
                r#"{{"$set":{{"messages":[{messages}],"lastUpdated":"{at}"}}}}"#
            ));
        }
        for said in said(session, turn, &mut step, texts) {
            if let Some(before) = &said.before {
                out.line(format_args!("{before}"));
                updated(&mut out, session, step);
            }
            out.line(format_args!("{}", said.message));
            updated(&mut out, session, step);
            if turn < RESUMED_AFTER {
                history.push(said.message);
            }
        }
        turn += 1;
    }
    out.finish();
    turn
}

pub(crate) fn write_document(home: &Path, session: u64, bytes: u64, texts: &Texts) -> u64 {
    let mut out = Written::create(&path(home, session, "json"));
    let (id, at) = (uuid(session, 0), time(session, 0));
    out.text(format_args!(
        "{{\n  \"sessionId\": \"{id}\",\n  \"projectHash\": \"{:064x}\",\n  \"startTime\": \"{at}\",\n  \"lastUpdated\": \"{at}\",\n  \"messages\": [\n    ",
        session % PROJECTS
    ));
    out.text(format_args!("{}", indented(&context(session, texts))));
    let (mut turn, mut step) = (0, 0);
    while turn == 0 || out.bytes < bytes {
        for said in said(session, turn, &mut step, texts) {
            out.text(format_args!(",\n    {}", indented(&said.message)));
        }
        turn += 1;
    }
    out.text(format_args!("\n  ]\n}}"));
    out.finish();
    turn
}

/// The file of a session, in a directory that knows its project.
fn path(home: &Path, session: u64, extension: &str) -> PathBuf {
    let project = session % PROJECTS;
    let directory = home.join(format!("tmp/app-{project}"));
    fs::create_dir_all(directory.join("chats")).unwrap();
    fs::write(
        directory.join(".project_root"),
        format!("/src/app-{project}"),
    )
    .unwrap();
    let at = time(session, 0)[..16].replace(':', "-");
    let id = &uuid(session, 0)[..8];
    directory.join(format!("chats/session-{at}-{id}.{extension}"))
}

/// The first message of every session, which no person wrote.
fn context(session: u64, texts: &Texts) -> String {
    let (at, text) = (time(session, 0), texts.thought(session));
    format!(
        r#"{{"id":"d04923d38bb0f6017037e74183378ef4","timestamp":"{at}","type":"user","content":[{{"text":"<session_context>\n{text}\n</session_context>"}}]}}"#
    )
}

fn updated(out: &mut Written, session: u64, step: u64) {
    let at = time(session, step);
    out.line(format_args!(r#"{{"$set":{{"lastUpdated":"{at}"}}}}"#));
}

/// A message, and what stood in its place before.
struct Said {
    before: Option<String>,
    message: String,
}

/// All messages of a turn.
fn said(session: u64, turn: u64, step: &mut u64, texts: &Texts) -> Vec<Said> {
    let mut all = Vec::new();
    let mut say = |before: Option<String>, what: &str| {
        *step += 1;
        let (id, at) = (uuid(session, *step), time(session, *step));
        let whole = |what: &str| format!(r#"{{"id":"{id}","timestamp":"{at}",{what}}}"#);
        all.push(Said {
            before: before.map(|before| whole(&before)),
            message: whole(what),
        });
        session + *step
    };
    let prompt = texts.prompt(session + turn);
    let mut n = say(
        None,
        &format!(r#""type":"user","content":[{{"text":"{prompt}"}}]"#),
    );
    let tokens = r#""tokens":{"input":10100,"output":420,"cached":9000,"thoughts":50,"tool":0,"total":10570},"model":"gemini-2.5-pro""#;
    for _ in 0..=mixed(turn) % 8 {
        let (thought, listing) = (texts.thought(n), texts.listing(n));
        let before = format!(
            r#""type":"gemini","content":"","thoughts":[{{"subject":"Looking","description":"{thought}","timestamp":"2026-11-16T01:35:02.498Z"}}],{tokens}"#
        );
        let response = format!(
            r#"{{"functionResponse":{{"id":"read_file__{n}","name":"read_file","response":{{"output":"{listing}"}}}}}}"#
        );
        let with_tools = format!(
            r#"{before},"toolCalls":[{{"id":"read_file__{n}","name":"read_file","args":{{"file_path":"src/lib-{n}.rs"}},"result":[{response}],"status":"success","timestamp":"2026-11-16T01:35:02.550Z","resultDisplay":"{listing}","description":"src/lib-{n}.rs","displayName":"ReadFile","renderOutputAsMarkdown":true}}]"#
        );
        say(Some(before), &with_tools);
        n = say(None, &format!(r#""type":"user","content":[{response}]"#));
    }
    let answer = texts.answer(n);
    say(
        None,
        &format!(r#""type":"gemini","content":"{answer}","thoughts":[],{tokens}"#),
    );
    all
}

/// As it stands in an indented document.
fn indented(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    let message = serde_json::to_string_pretty(&message).unwrap();
    message.replace('\n', "\n    ")
}
