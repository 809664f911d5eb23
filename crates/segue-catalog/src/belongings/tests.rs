//! Tests of the artifacts of a session, in a generated home of each agent.

use std::fs;

use super::*;
use crate::{Claude, Codex, Gemini, Opencode};

const ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const OTHER: &str = "0b5e4c3a-9999-4222-8333-444455556666";

/// Writes these files, and returns the artifacts of the session whose file is the first of them.
fn belonging(
    make: impl Fn(&Path) -> Box<dyn Keeping>,
    files: &[(&str, &str)],
) -> Vec<(String, Role)> {
    let home = tempfile::tempdir().unwrap();
    let named = |text: &str| text.replace("ID", ID).replace("OTHER", OTHER);
    for (name, text) in files {
        let path = home.path().join(named(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, named(text)).unwrap();
    }
    let keeping = make(home.path());
    let found = Found {
        path: home.path().join(named(files[0].0)),
        id: crate::IdHint::Whole(ID.into()),
        size: 0,
        modified: Timestamp::UNIX_EPOCH,
        archived: false,
    };
    let belongings = keeping
        .belongings(&found, &NativeId::parse(ID).unwrap())
        .unwrap();
    let all = belongings.pieces.clone().into_iter().map(|piece| {
        let name = piece
            .name
            .to_str()
            .unwrap()
            .replace(ID, "ID")
            .replace(OTHER, "OTHER");
        (name, piece.role)
    });
    let all = all.collect();
    remove(&belongings).unwrap();
    for (name, _) in files {
        let stays = !belongings
            .own_files()
            .any(|path| path == home.path().join(named(name)));
        assert_eq!(home.path().join(named(name)).exists(), stays, "{name}");
    }
    assert!(
        belongings
            .directories
            .iter()
            .all(|directory| !directory.exists())
    );
    all
}

fn names(pieces: &[(String, Role)]) -> Vec<&str> {
    pieces.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn of_claude_code() {
    let all = belonging(
        |home| Box::new(Claude::new(home)),
        &[
            ("projects/-w/ID.jsonl", "{}"),
            ("projects/-w/ID/subagents/agent-a.jsonl", "{}"),
            ("projects/-w/ID/tool-results/b.txt", "b"),
            ("projects/-w/ID.precompact.json", "{}"),
            (
                "projects/-w/agent-1.jsonl",
                "{\"sessionId\":\"ID\"}\n{\"sessionId\":\"OTHER\"}\n",
            ),
            (
                "projects/-w/agent-2.jsonl",
                "{\"sessionId\":\"OTHER\"}\n{\"sessionId\":\"ID\"}\n",
            ),
            ("projects/-w/OTHER.jsonl", "{}"),
            ("projects/-w/memory/MEMORY.md", "ID"),
            ("projects/-copy/ID.jsonl", "{}"),
            ("file-history/ID/x@v1", "old"),
            ("file-history/OTHER/x@v1", "old"),
            ("todos/ID-agent-ID.json", "[]"),
            ("todos/OTHER-agent-ID.json", "[]"),
            ("debug/ID.txt", "d"),
            ("settings.json", "{}"),
        ],
    );
    assert_eq!(
        names(&all),
        [
            "projects/-w/ID.jsonl",
            "projects/-copy/ID.jsonl",
            "projects/-w/ID/subagents/agent-a.jsonl",
            "projects/-w/ID/tool-results/b.txt",
            "projects/-w/ID.precompact.json",
            "projects/-w/agent-1.jsonl",
            "file-history/ID/x@v1",
            "todos/ID-agent-ID.json",
            "debug/ID.txt",
        ]
    );
    assert_eq!(all[0].1, Role::Main);
}

#[test]
fn of_codex() {
    let all = belonging(
        |home| Box::new(Codex::new(home)),
        &[
            (
                "sessions/2026/11/16/rollout-2026-11-16T06-30-09-ID.jsonl",
                "{\"type\":\"session_meta\",\"payload\":{\"id\":\"ID\"}}\n",
            ),
            (
                "sessions/2026/11/16/rollout-2026-11-16T06-30-09-ID.jsonl.zst",
                "",
            ),
            (
                "sessions/2026/11/17/rollout-2026-11-17T06-30-09-ID_OTHER.jsonl",
                "{}",
            ),
            (
                "archived_sessions/rollout-2026-11-16T06-30-09-ID.jsonl",
                "{}",
            ),
            (
                "sessions/2026/11/16/rollout-2026-11-16T06-30-09-OTHER.jsonl",
                "{}",
            ),
            ("state_5.sqlite", "ID"),
        ],
    );
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.iter().all(|(name, _)| name.contains("-ID")), "{all:?}");
}

#[test]
fn of_gemini_cli() {
    let header = "{\"sessionId\":\"ID\",\"projectHash\":\"h\"}\n";
    let other = "{\"sessionId\":\"OTHER\",\"projectHash\":\"h\"}\n";
    let all = belonging(
        |home| Box::new(Gemini::new(home)),
        &[
            (
                "tmp/p/chats/session-2026-11-16T06-30-0b5e4c3a.jsonl",
                header,
            ),
            (
                "tmp/p/chats/session-2026-11-16T06-31-0b5e4c3a.jsonl",
                header,
            ),
            ("tmp/p/chats/session-2026-11-16T06-32-0b5e4c3a.jsonl", other),
            ("tmp/p/chats/ID/helper-1.jsonl", "{}"),
            ("tmp/p/chats/OTHER/helper-2.jsonl", "{}"),
            ("tmp/p/tool-outputs/session-ID/a.txt", "a"),
            ("tmp/p/tool-outputs/session-helper-1/a.txt", "a"),
            ("tmp/p/tool-outputs/session-OTHER/a.txt", "a"),
            ("tmp/p/logs/session-ID.jsonl", "{}"),
            ("tmp/p/ID/plans/plan.md", "p"),
            ("tmp/q/tool-outputs/session-ID/a.txt", "a"),
            ("projects.json", "{}"),
        ],
    );
    assert_eq!(
        names(&all),
        [
            "tmp/p/chats/session-2026-11-16T06-30-0b5e4c3a.jsonl",
            "tmp/p/chats/session-2026-11-16T06-31-0b5e4c3a.jsonl",
            "tmp/p/tool-outputs/session-helper-1/a.txt",
            "tmp/p/chats/ID/helper-1.jsonl",
            "tmp/p/logs/session-ID.jsonl",
            "tmp/p/tool-outputs/session-ID/a.txt",
            "tmp/p/ID/plans/plan.md",
        ]
    );
}

#[test]
fn of_opencode_before_it_had_a_database() {
    let all = belonging(
        |home| Box::new(Opencode::new(home)),
        &[
            ("storage/session/p/ID.json", "{}"),
            ("storage/message/ID/msg_1.json", "{}"),
            ("storage/part/msg_1/prt_1.json", "{}"),
            ("storage/message/OTHER/msg_2.json", "{}"),
            ("storage/part/msg_2/prt_2.json", "{}"),
            ("storage/todo/ID.json", "[]"),
        ],
    );
    assert_eq!(
        names(&all),
        [
            "storage/session/p/ID.json",
            "storage/part/msg_1/prt_1.json",
            "storage/message/ID/msg_1.json",
            "storage/todo/ID.json",
        ]
    );
}
