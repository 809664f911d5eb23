use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use segue_core::agent::RoleDescription;
use segue_core::brief::{CachedContext, Commit, Document, ProjectContext};
use segue_core::checkpoint::{
    Checkpoint, CheckpointDelta, CheckpointItem, ItemAuthor, ItemKind, LoopState,
};
use segue_core::id::{FeatureId, ProviderId};
use segue_core::json::Json;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{Role, Tag, Title, TitleSource};
use serde_json::{Map, Value, json};

use super::session_type::{DagentSessionType, StatedPurpose};
use super::{DagentFolder, parse_folder, render_files};
use crate::{ExtraFields, PortableCheckpoint, PortableMessage, PortableSession};

fn time_at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn later_time() -> Timestamp {
    time_at(100_000_000)
}

fn count_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn build_purpose(feature: Option<&str>, task: Option<(&str, &str)>, role: Option<&str>) -> Purpose {
    let feature = feature.map(|name| FeatureId::parse(name).unwrap());
    let scope = match (feature, task) {
        (feature, Some((task, state))) => Scope::Task {
            feature,
            task: TaskId::parse(task).unwrap(),
            state: TaskState::parse(state).unwrap(),
        },
        (Some(feature), None) => Scope::Feature(feature),
        (None, None) => Scope::Project,
    };
    Purpose {
        scope,
        role: role.map(|name| RoleName::parse(name).unwrap()),
    }
}

fn message(id: &str, role: Role, text: &str, second: i64) -> PortableMessage {
    PortableMessage {
        id: id.to_owned(),
        at: time_at(second),
        has_stated_time: true,
        role,
        text: text.to_owned(),
        tokens: Some(count_words(text)),
        extra_fields: Map::new(),
        is_imported: false,
    }
}

fn build_session(name: &str, purpose: Option<Purpose>) -> PortableSession {
    let role = purpose.as_ref().and_then(|purpose| purpose.role.as_ref());
    PortableSession {
        name: name.to_owned(),
        title: Some(Title::from_prompt("hello there")),
        provider: Some(ProviderId::claude()),
        tags: vec![Tag::parse("urgent").unwrap()],
        created_at: time_at(0),
        updated_at: time_at(50),
        compacted_messages: Vec::new(),
        messages: vec![
            message("1-0", Role::User, "hello there", 1),
            message("1-1", Role::Assistant, "a\n# b\n**User**: ü", 2),
        ],
        checkpoint: None,
        role: role.and_then(RoleDescription::find_built_in),
        purpose,
        context: None,
        extra_fields: ExtraFields::default(),
    }
}

fn build_item(id: u32, kind: ItemKind, subject: Option<&str>, text: &str) -> CheckpointItem {
    CheckpointItem {
        id,
        kind,
        text: text.to_owned(),
        subject: subject.map(str::to_owned),
        turn: 3,
        message_index: 2,
        author: ItemAuthor::Extraction,
        weight: id * 7,
        pinned: id.is_multiple_of(2),
    }
}

/// Returns a checkpoint with one item of each kind and two items with the same text.
fn full_checkpoint() -> PortableCheckpoint {
    let kinds = ItemKind::ALL.into_iter().zip(1..);
    let mut set: Vec<CheckpointItem> = kinds
        .map(|(kind, id)| {
            let has_subject = matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check);
            build_item(
                id,
                kind,
                has_subject.then_some("src/a.rs"),
                &format!("text of {id}"),
            )
        })
        .collect();
    set.push(build_item(50, ItemKind::Done, None, "twice"));
    set.push(build_item(51, ItemKind::Done, None, "twice"));
    let delta = CheckpointDelta {
        changed_items: set,
        loop_state: Some(Some(LoopState {
            iteration: 4,
            passed: vec!["build".into()],
            failed: vec!["test".into()],
            last_error: Some("1 failed".into()),
        })),
        removed_ids: Vec::new(),
    };
    PortableCheckpoint {
        content: delta.apply(&Checkpoint::default()),
        version: 3,
        created_at: time_at(10),
        updated_at: time_at(20),
        tokens: 40,
        last_compaction_tokens: Some(900),
        saved_tokens: 2000,
        is_unchanged_since_import: false,
    }
}

fn gathered_context() -> CachedContext {
    let document = |name: &str, text: &str| Document {
        name: name.to_owned(),
        text: text.to_owned(),
        size: 99,
    };
    let context = ProjectContext {
        documents: vec![
            document("AGENTS.md", "be kind"),
            document("PROJECT.md", "what it is"),
        ],
        commits: vec![Commit {
            hash: "0123abc".into(),
            message: "first".into(),
            author: "A".into(),
            date: "2025-01-15".into(),
        }],
        ..ProjectContext::default()
    };
    CachedContext {
        context,
        sources: Vec::new(),
        tokens: 321,
        at: time_at(40),
    }
}

#[test]
fn a_gathered_context_is_written_unless_the_imported_one_is_newer() {
    let path = ".dagent-worktrees/pay/.dagent/sessions/context_x.json";
    let context_file = |session: &PortableSession| -> Value {
        let files = render_files(std::slice::from_ref(session), &count_words);
        serde_json::from_str(&files[path]).unwrap()
    };
    let mut session = build_session("x", Some(build_purpose(Some("pay"), None, Some("pm"))));
    session.context = Some(gathered_context());
    let file = context_file(&session);
    assert_eq!(file["project"]["claudeMd"], "be kind");
    assert_eq!(file["project"]["projectMd"], "what it is");
    assert_eq!(file["project"]["recentCommits"][0]["hash"], "0123abc");
    assert_eq!(
        (&file["tokens"], &file["feature"]["name"]),
        (&json!(321), &json!("pay"))
    );
    for (imported_at, tokens) in [(time_at(39), 321), (time_at(41), 5)] {
        let extra_fields = json!({ "context": { "tokens": 5, "theme": "dark" } }).to_string();
        session.restore_extra_fields(&Json::parse(extra_fields).unwrap(), imported_at);
        let file = context_file(&session);
        assert_eq!(
            (&file["tokens"], &file["theme"]),
            (&json!(tokens), &json!("dark"))
        );
    }
}

/// Groups files into the folders that contain them, as an import finds them.
fn group_into_folders(files: &BTreeMap<String, String>) -> Vec<DagentFolder> {
    let mut folders: BTreeMap<&str, DagentFolder> = BTreeMap::new();
    for (path, text) in files {
        let (folder, name) = path.split_once(".dagent/").unwrap();
        let feature = folder.strip_prefix(".dagent-worktrees/");
        let folder = folders.entry(folder).or_default();
        folder.feature = feature.map(|name| name.trim_end_matches('/').to_owned());
        folder.files.insert(name.to_owned(), Ok(text.clone()));
    }
    folders.into_values().collect()
}

/// Reads files, and reduces each session to what a store contains: the session itself and the stored fields.
fn import_files(files: &BTreeMap<String, String>) -> Vec<PortableSession> {
    let mut sessions = Vec::new();
    for folder in group_into_folders(files) {
        let parsed = parse_folder(&folder, later_time());
        assert_eq!(parsed.remarks, [""; 0]);
        for entry in parsed.sessions {
            assert_eq!(entry.remarks, [""; 0], "{}", entry.path);
            let imported = *entry.session.unwrap();
            let as_stored = |messages: &[PortableMessage]| {
                let stored_messages =
                    messages
                        .iter()
                        .zip(100..)
                        .map(|(message, n)| PortableMessage {
                            id: n.to_string(),
                            tokens: Some(77),
                            extra_fields: Map::new(),
                            is_imported: false,
                            ..message.clone()
                        });
                stored_messages.collect::<Vec<_>>()
            };
            let mut restored = PortableSession {
                compacted_messages: as_stored(&imported.compacted_messages),
                messages: as_stored(&imported.messages),
                checkpoint: imported
                    .checkpoint
                    .clone()
                    .map(|checkpoint| PortableCheckpoint {
                        version: 1,
                        tokens: 1,
                        saved_tokens: 0,
                        created_at: checkpoint.updated_at,
                        ..checkpoint
                    }),
                context: None,
                extra_fields: ExtraFields::default(),
                ..imported.clone()
            };
            restored.restore_extra_fields(&imported.encode_extra_fields(), later_time());
            sessions.push(restored);
        }
    }
    sessions
}

#[test]
fn exported_files_stay_the_same_after_an_import_and_another_export() {
    let titled_by = |title: &str, source| Some(Title::new(title, source).unwrap());
    let sessions = [
        build_session("a", Some(build_purpose(Some("pay"), None, Some("pm")))),
        PortableSession {
            checkpoint: Some(full_checkpoint()),
            compacted_messages: vec![message("1-0", Role::User, "long ago", 0)],
            title: titled_by("Überblick", TitleSource::User),
            ..build_session(
                "b",
                Some(build_purpose(
                    Some("pay"),
                    Some(("t1", "in_dev")),
                    Some("dev"),
                )),
            )
        },
        PortableSession {
            checkpoint: Some(full_checkpoint()),
            messages: Vec::new(),
            ..build_session(
                "c",
                Some(build_purpose(Some("pay"), Some(("t1", "in_qa")), None)),
            )
        },
        build_session(
            "d",
            Some(build_purpose(Some("other one"), None, Some("security"))),
        ),
        build_session("e", Some(build_purpose(None, None, Some("merge")))),
        build_session("f", None),
        PortableSession {
            context: Some(gathered_context()),
            ..build_session("g", Some(build_purpose(Some("pay"), None, None)))
        },
    ];
    let files = render_files(&sessions, &count_words);
    let imported_sessions = import_files(&files);
    assert_eq!(imported_sessions.len(), sessions.len());
    for imported in &imported_sessions {
        let original = sessions
            .iter()
            .find(|original| original.name == imported.name)
            .unwrap();
        assert_eq!(imported.purpose, original.purpose, "{}", original.name);
        assert_eq!(imported.title, original.title);
        assert_eq!(
            (&imported.provider, &imported.tags),
            (&original.provider, &original.tags)
        );
        let checkpoint_content = |session: &PortableSession| {
            session
                .checkpoint
                .clone()
                .map(|checkpoint| checkpoint.content)
        };
        assert_eq!(checkpoint_content(imported), checkpoint_content(original));
    }
    let exported_again = render_files(&imported_sessions, &count_words);
    for (path, text) in &files {
        assert_eq!(exported_again.get(path), Some(text), "{path}");
    }
    assert_eq!(files.len(), exported_again.len());
}

#[test]
fn a_session_type_combines_a_role_and_a_scope() {
    let cases = [
        (
            "pm-feature",
            Some("pay"),
            None,
            None,
            build_purpose(Some("pay"), None, Some("pm")),
        ),
        (
            "dev-task",
            Some("pay"),
            Some("t"),
            None,
            build_purpose(Some("pay"), Some(("t", "in_dev")), Some("dev")),
        ),
        (
            "dev-task",
            Some("pay"),
            Some("t"),
            Some("planning"),
            build_purpose(Some("pay"), Some(("t", "planning")), Some("dev")),
        ),
        (
            "qa-task",
            Some("pay"),
            Some("t"),
            None,
            build_purpose(Some("pay"), Some(("t", "in_qa")), Some("qa")),
        ),
        (
            "merge",
            Some("pay"),
            Some("t"),
            None,
            build_purpose(Some("pay"), Some(("t", "ready_for_merge")), Some("merge")),
        ),
        (
            "merge",
            Some("pay"),
            None,
            None,
            build_purpose(Some("pay"), None, Some("merge")),
        ),
        (
            "harness",
            None,
            None,
            None,
            build_purpose(None, None, Some("harness")),
        ),
    ];
    for (name, feature, task, state, expected) in cases {
        let session_type = DagentSessionType::from_name(name);
        assert_eq!(session_type.map(DagentSessionType::as_str), Some(name));
        let stated = StatedPurpose {
            session_type,
            role: None,
            feature: feature.map(|name| FeatureId::parse(name).unwrap()),
            task: task.map(|name| TaskId::parse(name).unwrap()),
            state: state.map(|name| TaskState::parse(name).unwrap()),
        };
        let purpose = stated.into_purpose();
        assert_eq!(purpose, Some(expected), "{name}");
        assert_eq!(
            DagentSessionType::for_purpose(purpose.as_ref()).as_str(),
            name
        );
    }
    assert_eq!(StatedPurpose::default().into_purpose(), None);
    assert_eq!(DagentSessionType::from_name("other"), None);
}

fn build_folder(files: &[(&str, Value)]) -> DagentFolder {
    let files = files.iter();
    DagentFolder {
        feature: Some("pay".into()),
        files: files
            .map(|(path, value)| {
                let text = match value {
                    Value::String(text) => text.clone(),
                    json => json.to_string(),
                };
                ((*path).to_owned(), Ok(text))
            })
            .collect(),
    }
}

fn parse_items(summary: &Value) -> (Vec<(ItemKind, String, bool)>, Vec<String>) {
    let checkpoint = json!({ "sessionId": "x", "version": 2, "summary": summary });
    let chat = json!({ "sessionId": "x", "messages": [] });
    let folder = build_folder(&[
        ("sessions/checkpoint_x.json", checkpoint),
        ("sessions/chat_x.json", chat),
    ]);
    let parsed = parse_folder(&folder, later_time()).sessions.remove(0);
    let portable_checkpoint = parsed.session.unwrap().checkpoint;
    let items = portable_checkpoint
        .into_iter()
        .flat_map(|portable_checkpoint| portable_checkpoint.content.items);
    let items = items.map(|item| (item.kind, item.text, item.pinned));
    (items.collect(), parsed.remarks)
}

#[test]
fn every_form_of_a_summary_is_parsed() {
    use ItemKind::{Blocker, Decision, Directive, Done, File, Focus, Note, Pending};
    let cases = [
        (
            json!({ "completedItems": ["a"], "pendingItems": ["b"], "decisions": ["c"], "blockers": ["d"] }),
            vec![
                (Decision, "c", false),
                (Done, "a", false),
                (Blocker, "d", false),
                (Pending, "b", false),
            ],
        ),
        (
            json!({ "completed": ["a"], "inProgress": ["e"], "pending": ["b"], "decisions": [], "blockers": null }),
            vec![
                (Done, "a", false),
                (Pending, "b", false),
                (Focus, "e", false),
            ],
        ),
        (
            json!({ "critical": ["a"], "important": ["b"], "minor": ["c"] }),
            vec![(Note, "a", true), (Note, "b", false), (Note, "c", false)],
        ),
        (
            json!({ "completedItems": ["File: src/a.rs: edited"], "decisions": ["Rule: no\n  unwrap"] }),
            vec![(Directive, "no unwrap", false), (File, "edited", false)],
        ),
        (json!({}), vec![]),
        (json!("nothing"), vec![]),
    ];
    for (summary, expected) in cases {
        let expected = expected.into_iter();
        let expected: Vec<_> = expected
            .map(|(kind, text, pinned)| (kind, text.to_owned(), pinned))
            .collect();
        assert_eq!(parse_items(&summary), (expected, vec![]), "{summary}");
    }
    let (items, remarks) =
        parse_items(&json!({ "completed": ["a", 3, "", null, ["b"]], "pending": "all" }));
    assert_eq!(items, [(Done, "a".to_owned(), false)]);
    insta::assert_snapshot!(remarks.join("\n"), @r"
    item 2 of `completed` was omitted: it is a number, not a string
    item 4 of `completed` was omitted: it is null, not a string
    item 5 of `completed` was omitted: it is a list, not a string
    field `pending` is a string, not a list
    ");
}

#[test]
fn changed_lists_override_the_encoded_items() {
    let mut exported = build_session("x", Some(build_purpose(Some("pay"), None, Some("pm"))));
    exported.checkpoint = Some(full_checkpoint());
    let files = render_files(&[exported], &count_words);
    let path = ".dagent-worktrees/pay/.dagent/sessions/checkpoint_x.json";
    let mut file: Value = serde_json::from_str(&files[path]).unwrap();
    file["summary"]["pendingItems"] = json!(["something new"]);
    let mut files = files.clone();
    files.insert(path.to_owned(), file.to_string());
    let parsed = parse_folder(&group_into_folders(&files)[0], later_time())
        .sessions
        .remove(0);
    let checkpoint = parsed.session.unwrap().checkpoint.unwrap().content;
    let pending: Vec<_> = checkpoint.items_of_kind(ItemKind::Pending).collect();
    assert_eq!(pending.len(), 1);
    assert_eq!(
        (pending[0].text.as_str(), pending[0].id),
        ("something new", 52)
    );
    assert_eq!(checkpoint.items_of_kind(ItemKind::NextStep).count(), 0);
    let done: Vec<u32> = checkpoint
        .items_of_kind(ItemKind::Done)
        .map(|item| item.id)
        .collect();
    assert_eq!(done, [4, 50, 51]);
}

#[test]
fn invalid_values_add_remarks_and_never_prevent_reading_the_others() {
    let message = |role: &str, content: Value| json!({ "id": "m", "timestamp": "2025-01-15T10:00:00.000Z", "role": role, "content": content });
    let folder = build_folder(&[
        ("feature.json", json!({ "id": "pay", "sessionId": "gone" })),
        (
            "nodes/t/task.json",
            json!({ "states": { "in_dev": { "sessionIds": ["c", "lost", 4] }, "in_qa": 3, "planning": { "sessionIds": "c" } } }),
        ),
        ("nodes/t/sessions/chat_c.json", json!({ "messages": null })),
        (
            "sessions/chat_a.json",
            json!({ "messages": [
            message("user", "hi".into()), message("robot", "hi".into()), 7, null, ["x"],
            message("user", json!(["parts"])), message("user", " \n".into()), { "role": "assistant", "content": "no time" },
            { "role": "user", "content": "odd time", "timestamp": "yesterday" },
        ] }),
        ),
        ("sessions/chat_b.json", "{ not json".into()),
        (
            "sessions/checkpoint_d.json",
            json!({ "summary": { "pending": ["x"] }, "version": "two" }),
        ),
        ("sessions/context_a.json", "".into()),
        (
            "sessions/context_d.json",
            json!({ "sessionId": "a", "type": "chat" }),
        ),
        ("sessions/chat_e.json", json!({ "messages": "all" })),
        ("sessions/notes.txt", "".into()),
    ]);
    let parsed = parse_folder(&folder, later_time());
    let descriptions = parsed.sessions.iter().map(|entry| {
        let session = match &entry.session {
            Ok(session) => format!(
                "{} lines, {:?}",
                session.messages.len(),
                session.purpose.as_ref().map(ToString::to_string)
            ),
            Err(reason) => format!("failed: {reason}"),
        };
        let head = format!("{} ({}): {session}", entry.name, entry.path);
        let remarks = entry.remarks.iter().map(|remark| format!("  {remark}"));
        [head].into_iter().chain(remarks).collect::<Vec<_>>()
    });
    let descriptions: Vec<String> = descriptions
        .flatten()
        .chain(parsed.remarks.clone())
        .collect();
    insta::assert_snapshot!(descriptions.join("\n"), @r#"
    a (sessions/chat_a.json): 3 lines, Some("feature pay")
      sessions/context_a.json cannot be read: not valid JSON: EOF while parsing a value at line 1 column 0
      message 2 was omitted: unknown role "robot"
      message 3 was omitted: it is a number, not an object
      message 4 was omitted: it is null, not an object
      message 5 was omitted: it is a list, not an object
      message 6 was omitted: it has no text
      message 7 was omitted: it has no text
      message 8 has no time; used the time of the previous message
      message 9 has the invalid time "yesterday"; used the time of the previous message
    b (sessions/chat_b.json): failed: not valid JSON: key must be a string at line 1 column 3
    d (sessions/checkpoint_d.json): 0 lines, Some("feature pay")
      chat_d.json not found
      sessions/context_d.json names session "a"; used the session id in the file name
      sessions/context_d.json has the unknown type "chat"; used the other fields to determine the purpose
    e (sessions/chat_e.json): failed: field `messages` is a string, not a list
    c (nodes/t/sessions/chat_c.json): 0 lines, Some("task t in state in_dev of feature pay")
    feature.json refers to session gone, which has no file
    nodes/t/task.json: an entry of `sessionIds` of state `in_dev` is a number, not a string
    nodes/t/task.json: state `in_qa` is a number, not an object
    nodes/t/task.json: `sessionIds` of state `planning` is a string, not a list
    nodes/t/task.json refers to session lost, which has no file
    "#);
}

#[test]
fn fields_without_an_equivalent_are_stored_and_exported_again() {
    let files = [
        (
            ".dagent-worktrees/pay/.dagent/feature.json",
            json!({ "id": "pay", "name": "Payments", "status": "active", "sessionId": "old" }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/sessions/chat_old.json",
            json!({
                "sessionId": "old", "theme": "dark",
                "messages": [{ "id": "m1", "timestamp": "2025-01-15T10:00:00.000Z", "role": "user", "content": "hi", "tokens": 9, "mood": "good" }],
                "metadata": { "createdAt": "2025-01-15T09:00:00.000Z", "updatedAt": "2025-01-15T10:00:00.000Z", "messageCount": 1, "tokenCount": 9, "colour": "red" },
            }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/sessions/checkpoint_old.json",
            json!({
                "sessionId": "old", "version": 7, "createdAt": "2025-01-14T09:00:00.000Z", "updatedAt": "2025-01-15T09:30:00.000Z",
                "summary": { "completed": ["set up"] }, "compactionInfo": { "messagesCompacted": 12 },
                "tokens": { "checkpoint": 11, "lastCompactionInput": 500, "totalSaved": 4000 },
            }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/sessions/context_old.json",
            json!({
                "sessionId": "old", "type": "pm-feature", "featureId": "pay", "projectRoot": "/x",
                "project": { "structure": { "srcDirs": ["src"] }, "claudeMd": "be kind", "recentCommits": [] }, "updatedAt": "2025-01-15T09:00:00.000Z", "tokens": 33,
            }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/sessions/agent-description_old.json",
            json!({
                "sessionId": "old", "agentType": "pm", "role": "You plan.", "instructions": ["Ask."], "allowedTools": ["Read"], "createdAt": "2025-01-15T09:00:00.000Z", "tokens": 5,
            }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/nodes/t/task.json",
            json!({
                "id": "t", "title": "A task", "states": { "in_dev": { "sessionIds": ["dev"] }, "planning": { "sessionIds": [] } }, "currentState": "planning",
            }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/nodes/t/sessions/chat_dev.json",
            json!({ "sessionId": "dev", "messages": [], "metadata": { "createdAt": "2025-01-15T09:00:00.000Z" } }),
        ),
        (
            ".dagent-worktrees/pay/.dagent/nodes/t/sessions/context_dev.json",
            json!({ "type": "dev-task", "taskId": "t" }),
        ),
    ];
    let files = files
        .into_iter()
        .map(|(path, value)| (path.to_owned(), value.to_string()));
    let files: BTreeMap<String, String> = files.collect();
    let exported = render_files(&import_files(&files), &count_words);
    let parse_exported = |path: &str| -> Value { serde_json::from_str(&exported[path]).unwrap() };
    let mut changed = Vec::new();
    for path in files.keys() {
        let before: Value = serde_json::from_str(&files[path]).unwrap();
        let after = parse_exported(path);
        for (name, value) in before.as_object().unwrap() {
            if after.get(name) != Some(value) {
                changed.push((path.rsplit('/').next().unwrap(), name.clone()));
            }
        }
    }
    // Only missing counts and the names of the lists change.
    let expected = [
        ("chat_dev.json", "metadata".to_owned()),
        ("checkpoint_old.json", "summary".to_owned()),
    ];
    assert_eq!(changed, expected);
    let summary = parse_exported(".dagent-worktrees/pay/.dagent/sessions/checkpoint_old.json");
    assert_eq!(summary["summary"]["completedItems"], json!(["set up"]));
}

/// Reads a session with these messages; returns its messages and its remarks.
fn parse_messages(messages: &Value) -> (Vec<PortableMessage>, Vec<String>) {
    let chat = format!("\u{feff}{}", json!({ "messages": messages }));
    let folder = build_folder(&[("sessions/chat_x.json", chat.into())]);
    let parsed = parse_folder(&folder, later_time()).sessions.remove(0);
    (parsed.session.unwrap().messages, parsed.remarks)
}

#[test]
fn text_parts_become_the_text_and_other_parts_become_extra_fields() {
    let call = json!({ "type": "tool_use", "name": "Bash" });
    let (messages, remarks) = parse_messages(&json!([
        { "role": "user", "timestamp": "2025-01-05", "content": [{ "type": "text", "text": "one" }, call, { "type": "text", "text": "two" }] },
        { "role": "assistant", "timestamp": "2025-01-05T12:00:00", "content": [call] },
        { "role": "user", "timestamp": "2025-01-05T12:00:00", "content": "", "wordless": true },
    ]));
    let texts: Vec<_> = messages
        .iter()
        .map(|message| (message.text.as_str(), message.has_stated_time))
        .collect();
    assert_eq!(texts, [("one\ntwo", true), ("", true)]);
    assert_eq!(messages[0].extra_fields["parts"], json!([call]));
    assert_eq!(remarks, ["message 2 was omitted: it has no text"]);
}

#[test]
fn messages_without_token_counts_are_counted_in_the_total() {
    let mut exported = build_session("x", None);
    exported.messages[0].tokens = None;
    exported.messages[1].tokens = Some(40);
    let files = render_files(&[exported], &count_words);
    let chat: Value = serde_json::from_str(&files[".dagent/sessions/chat_x.json"]).unwrap();
    assert_eq!(chat["metadata"]["tokenCount"], 42);
    assert_eq!(chat["messages"][0].get("tokens"), None);
}

#[test]
fn the_imported_compaction_count_is_exported_unless_segue_has_its_own() {
    let extra_fields =
        json!({ "checkpoint": { "tokens": { "lastCompactionInput": 3397, "totalSaved": 9 } } });
    let extra_fields = Json::parse(extra_fields.to_string()).unwrap();
    for (own_count, expected) in [(None, 3397), (Some(500), 500)] {
        let mut session = build_session("x", None);
        session.checkpoint = Some(PortableCheckpoint {
            last_compaction_tokens: own_count,
            ..full_checkpoint()
        });
        session.restore_extra_fields(&extra_fields, later_time());
        let files = render_files(&[session], &count_words);
        let file = &files[".dagent/sessions/checkpoint_x.json"];
        let file: Value = serde_json::from_str(file).unwrap();
        assert_eq!(file["tokens"]["lastCompactionInput"], expected);
        assert_eq!(file["tokens"]["totalSaved"], 2000, "counted here");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics_on_any_file_content(text in ".{0,200}", path in "(sessions/(chat|checkpoint|context|memory|session|agent-description)_x\\.json|feature\\.json|nodes/t/task\\.json|sessions/chat_x\\.archive\\.jsonl)") {
        let mut folder = build_folder(&[("sessions/chat_x.json", json!({ "messages": [] }))]);
        folder.files.insert(path, Ok(text));
        let _ = parse_folder(&folder, later_time());
    }
}
