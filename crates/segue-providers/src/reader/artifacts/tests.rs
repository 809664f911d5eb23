//! Tests of the artifacts of a session, in a generated home of each agent.

use std::fs;

use super::*;
use crate::{ClaudeReader, CodexReader, GeminiReader, OpencodeReader};

const SESSION_ID: &str = "0b5e4c3a-1111-4222-8333-444455556666";
const OTHER_SESSION_ID: &str = "0b5e4c3a-9999-4222-8333-444455556666";

/// Writes these files, and returns the artifacts of the session whose file is the first of them.
fn collect_and_remove(
    make_storage: impl Fn(&Path) -> Box<dyn SessionStorage>,
    files: &[(&str, &str)],
) -> Vec<(String, ArtifactRole)> {
    let home = tempfile::tempdir().unwrap();
    let with_ids = |text: &str| {
        text.replace("ID", SESSION_ID)
            .replace("OTHER", OTHER_SESSION_ID)
    };
    for (name, text) in files {
        let path = home.path().join(with_ids(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, with_ids(text)).unwrap();
    }
    let storage = make_storage(home.path());
    let location = SessionLocation {
        path: home.path().join(with_ids(files[0].0)),
        id_hint: crate::IdHint::Complete(SESSION_ID.into()),
        size: 0,
        modified: Timestamp::UNIX_EPOCH,
        archived: false,
    };
    let artifacts = storage
        .collect_artifacts(&location, &NativeId::parse(SESSION_ID).unwrap())
        .unwrap();
    let all = artifacts.artifacts.clone().into_iter().map(|artifact| {
        let name = artifact
            .relative_path
            .to_str()
            .unwrap()
            .replace(SESSION_ID, "ID")
            .replace(OTHER_SESSION_ID, "OTHER");
        (name, artifact.role)
    });
    let all = all.collect();
    artifacts.remove_own_files().unwrap();
    for (name, _) in files {
        let should_exist = !artifacts
            .own_files()
            .any(|path| path == home.path().join(with_ids(name)));
        assert_eq!(
            home.path().join(with_ids(name)).exists(),
            should_exist,
            "{name}"
        );
    }
    assert!(
        artifacts
            .directories
            .iter()
            .all(|directory| !directory.exists())
    );
    all
}

fn artifact_names(artifacts: &[(String, ArtifactRole)]) -> Vec<&str> {
    artifacts.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn claude_code_artifacts_are_collected_and_removed() {
    let all = collect_and_remove(
        |home| Box::new(ClaudeReader::new(home)),
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
        artifact_names(&all),
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
    assert_eq!(all[0].1, ArtifactRole::Main);
}

#[test]
fn codex_artifacts_are_collected_and_removed() {
    let all = collect_and_remove(
        |home| Box::new(CodexReader::new(home)),
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
fn gemini_cli_artifacts_are_collected_and_removed() {
    let header = "{\"sessionId\":\"ID\",\"projectHash\":\"h\"}\n";
    let other_header = "{\"sessionId\":\"OTHER\",\"projectHash\":\"h\"}\n";
    let all = collect_and_remove(
        |home| Box::new(GeminiReader::new(home)),
        &[
            (
                "tmp/p/chats/session-2026-11-16T06-30-0b5e4c3a.jsonl",
                header,
            ),
            (
                "tmp/p/chats/session-2026-11-16T06-31-0b5e4c3a.jsonl",
                header,
            ),
            (
                "tmp/p/chats/session-2026-11-16T06-32-0b5e4c3a.jsonl",
                other_header,
            ),
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
        artifact_names(&all),
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
fn opencode_artifacts_in_files_are_collected_and_removed() {
    let all = collect_and_remove(
        |home| Box::new(OpencodeReader::new(home)),
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
        artifact_names(&all),
        [
            "storage/session/p/ID.json",
            "storage/part/msg_1/prt_1.json",
            "storage/message/ID/msg_1.json",
            "storage/todo/ID.json",
        ]
    );
}
