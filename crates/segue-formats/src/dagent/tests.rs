use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use segue_core::agent::RoleDescription;
use segue_core::brief::{Commit, Context, Document, KeptContext};
use segue_core::checkpoint::{Author, Checkpoint, Delta, Item, ItemKind, LoopState};
use segue_core::id::{FeatureId, ProviderId};
use segue_core::json::Json;
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};
use segue_core::session::{Role, Tag, Title, TitleSource};
use serde_json::{Map, Value, json};

use super::session_type::{Kind, Said};
use super::{Folder, read, write};
use crate::{Kept, Line, Portable, Recap};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn later() -> Timestamp {
    at(100_000_000)
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

fn purpose(feature: Option<&str>, task: Option<(&str, &str)>, role: Option<&str>) -> Purpose {
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

fn line(id: &str, role: Role, text: &str, second: i64) -> Line {
    Line {
        id: id.to_owned(),
        at: at(second),
        timed: true,
        role,
        words: text.to_owned(),
        tokens: Some(words(text)),
        rest: Map::new(),
        as_it_came: false,
    }
}

fn session(name: &str, purpose: Option<Purpose>) -> Portable {
    let role = purpose.as_ref().and_then(|purpose| purpose.role.as_ref());
    Portable {
        name: name.to_owned(),
        title: Some(Title::from_prompt("hello there")),
        provider: Some(ProviderId::claude()),
        tags: vec![Tag::parse("urgent").unwrap()],
        created_at: at(0),
        updated_at: at(50),
        past: Vec::new(),
        lines: vec![
            line("1-0", Role::User, "hello there", 1),
            line("1-1", Role::Assistant, "a\n# b\n**User**: ü", 2),
        ],
        recap: None,
        role: role.and_then(RoleDescription::built_in),
        purpose,
        context: None,
        kept: Kept::default(),
    }
}

fn item(id: u32, kind: ItemKind, subject: Option<&str>, text: &str) -> Item {
    Item {
        id,
        kind,
        text: text.to_owned(),
        subject: subject.map(str::to_owned),
        turn: 3,
        message: 2,
        by: Author::Record,
        weight: id * 7,
        pinned: id.is_multiple_of(2),
    }
}

/// Returns a checkpoint with one item of each kind and two items with the same text.
fn recap() -> Recap {
    let all = ItemKind::ALL.into_iter().zip(1..);
    let mut set: Vec<Item> = all
        .map(|(kind, id)| {
            let about = matches!(kind, ItemKind::File | ItemKind::Command | ItemKind::Check);
            item(
                id,
                kind,
                about.then_some("src/a.rs"),
                &format!("what {id} says"),
            )
        })
        .collect();
    set.push(item(50, ItemKind::Done, None, "twice"));
    set.push(item(51, ItemKind::Done, None, "twice"));
    let delta = Delta {
        set,
        loop_state: Some(Some(LoopState {
            iteration: 4,
            passed: vec!["build".into()],
            failed: vec!["test".into()],
            last_error: Some("1 failed".into()),
        })),
        gone: Vec::new(),
    };
    Recap {
        checkpoint: delta.apply(&Checkpoint::default()),
        version: 3,
        created_at: at(10),
        updated_at: at(20),
        tokens: 40,
        replaced: Some(900),
        saved: 2000,
        as_it_came: false,
    }
}

fn gathered() -> KeptContext {
    let document = |name: &str, text: &str| Document {
        name: name.to_owned(),
        text: text.to_owned(),
        size: 99,
    };
    let context = Context {
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
        ..Context::default()
    };
    KeptContext {
        context,
        sources: Vec::new(),
        tokens: 321,
        at: at(40),
    }
}

#[test]
fn what_was_gathered_is_written_unless_it_is_older_than_what_came() {
    let path = ".dagent-worktrees/pay/.dagent/sessions/context_x.json";
    let written = |session: &Portable| -> Value {
        let files = write(std::slice::from_ref(session), &words);
        serde_json::from_str(&files[path]).unwrap()
    };
    let mut session = session("x", Some(purpose(Some("pay"), None, Some("pm"))));
    session.context = Some(gathered());
    let file = written(&session);
    assert_eq!(file["project"]["claudeMd"], "be kind");
    assert_eq!(file["project"]["projectMd"], "what it is");
    assert_eq!(file["project"]["recentCommits"][0]["hash"], "0123abc");
    assert_eq!(
        (&file["tokens"], &file["feature"]["name"]),
        (&json!(321), &json!("pay"))
    );
    for (came, tokens) in [(at(39), 321), (at(41), 5)] {
        let kept = json!({ "context": { "tokens": 5, "theme": "dark" } }).to_string();
        session.recall(&Json::parse(kept).unwrap(), came);
        let file = written(&session);
        assert_eq!(
            (&file["tokens"], &file["theme"]),
            (&json!(tokens), &json!("dark"))
        );
    }
}

/// Groups files into the folders that contain them, as an import finds them.
fn folders(files: &BTreeMap<String, String>) -> Vec<Folder> {
    let mut folders: BTreeMap<&str, Folder> = BTreeMap::new();
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
fn there_and_back(files: &BTreeMap<String, String>) -> Vec<Portable> {
    let mut back = Vec::new();
    for folder in folders(files) {
        let reading = read(&folder, later());
        assert_eq!(reading.remarks, [""; 0]);
        for session in reading.sessions {
            assert_eq!(session.remarks, [""; 0], "{}", session.path);
            let came = *session.session.unwrap();
            let stored = |lines: &[Line]| {
                let bare = lines.iter().zip(100..).map(|(line, n)| Line {
                    id: n.to_string(),
                    tokens: Some(77),
                    rest: Map::new(),
                    as_it_came: false,
                    ..line.clone()
                });
                bare.collect::<Vec<_>>()
            };
            let mut again = Portable {
                past: stored(&came.past),
                lines: stored(&came.lines),
                recap: came.recap.clone().map(|recap| Recap {
                    version: 1,
                    tokens: 1,
                    saved: 0,
                    created_at: recap.updated_at,
                    ..recap
                }),
                context: None,
                kept: Kept::default(),
                ..came.clone()
            };
            again.recall(&came.aside(), later());
            back.push(again);
        }
    }
    back
}

#[test]
fn what_is_written_is_read_and_written_again_as_it_was() {
    let named = |title: &str, source| Some(Title::given(title, source).unwrap());
    let sessions = [
        session("a", Some(purpose(Some("pay"), None, Some("pm")))),
        Portable {
            recap: Some(recap()),
            past: vec![line("1-0", Role::User, "long ago", 0)],
            title: named("Überblick", TitleSource::User),
            ..session(
                "b",
                Some(purpose(Some("pay"), Some(("t1", "in_dev")), Some("dev"))),
            )
        },
        Portable {
            recap: Some(recap()),
            lines: Vec::new(),
            ..session("c", Some(purpose(Some("pay"), Some(("t1", "in_qa")), None)))
        },
        session(
            "d",
            Some(purpose(Some("other one"), None, Some("security"))),
        ),
        session("e", Some(purpose(None, None, Some("merge")))),
        session("f", None),
        Portable {
            context: Some(gathered()),
            ..session("g", Some(purpose(Some("pay"), None, None)))
        },
    ];
    let files = write(&sessions, &words);
    let back = there_and_back(&files);
    assert_eq!(back.len(), sessions.len());
    for came in &back {
        let went = sessions.iter().find(|went| went.name == came.name).unwrap();
        assert_eq!(came.purpose, went.purpose, "{}", went.name);
        assert_eq!(came.title, went.title);
        assert_eq!((&came.provider, &came.tags), (&went.provider, &went.tags));
        let checkpoint = |session: &Portable| session.recap.clone().map(|recap| recap.checkpoint);
        assert_eq!(checkpoint(came), checkpoint(went));
    }
    let again = write(&back, &words);
    for (path, text) in &files {
        assert_eq!(again.get(path), Some(text), "{path}");
    }
    assert_eq!(files.len(), again.len());
}

#[test]
fn types_are_names_for_role_and_scope() {
    let cases = [
        (
            "pm-feature",
            Some("pay"),
            None,
            None,
            purpose(Some("pay"), None, Some("pm")),
        ),
        (
            "dev-task",
            Some("pay"),
            Some("t"),
            None,
            purpose(Some("pay"), Some(("t", "in_dev")), Some("dev")),
        ),
        (
            "dev-task",
            Some("pay"),
            Some("t"),
            Some("planning"),
            purpose(Some("pay"), Some(("t", "planning")), Some("dev")),
        ),
        (
            "qa-task",
            Some("pay"),
            Some("t"),
            None,
            purpose(Some("pay"), Some(("t", "in_qa")), Some("qa")),
        ),
        (
            "merge",
            Some("pay"),
            Some("t"),
            None,
            purpose(Some("pay"), Some(("t", "ready_for_merge")), Some("merge")),
        ),
        (
            "merge",
            Some("pay"),
            None,
            None,
            purpose(Some("pay"), None, Some("merge")),
        ),
        (
            "harness",
            None,
            None,
            None,
            purpose(None, None, Some("harness")),
        ),
    ];
    for (name, feature, task, state, expected) in cases {
        let kind = Kind::from_name(name);
        assert_eq!(kind.map(Kind::as_str), Some(name));
        let said = Said {
            kind,
            role: None,
            feature: feature.map(|name| FeatureId::parse(name).unwrap()),
            task: task.map(|name| TaskId::parse(name).unwrap()),
            state: state.map(|name| TaskState::parse(name).unwrap()),
        };
        let purpose = said.purpose();
        assert_eq!(purpose, Some(expected), "{name}");
        assert_eq!(Kind::of(purpose.as_ref()).as_str(), name);
    }
    assert_eq!(Said::default().purpose(), None);
    assert_eq!(Kind::from_name("other"), None);
}

fn folder(files: &[(&str, Value)]) -> Folder {
    let files = files.iter();
    Folder {
        feature: Some("pay".into()),
        files: files
            .map(|(path, value)| {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                ((*path).to_owned(), Ok(text))
            })
            .collect(),
    }
}

fn items(summary: &Value) -> (Vec<(ItemKind, String, bool)>, Vec<String>) {
    let checkpoint = json!({ "sessionId": "x", "version": 2, "summary": summary });
    let chat = json!({ "sessionId": "x", "messages": [] });
    let folder = folder(&[
        ("sessions/checkpoint_x.json", checkpoint),
        ("sessions/chat_x.json", chat),
    ]);
    let read = read(&folder, later()).sessions.remove(0);
    let recap = read.session.unwrap().recap;
    let items = recap.into_iter().flat_map(|recap| recap.checkpoint.items);
    let items = items.map(|item| (item.kind, item.text, item.pinned));
    (items.collect(), read.remarks)
}

#[test]
fn every_shape_of_a_summary_is_read() {
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
        assert_eq!(items(&summary), (expected, vec![]), "{summary}");
    }
    let (found, remarks) =
        items(&json!({ "completed": ["a", 3, "", null, ["b"]], "pending": "all" }));
    assert_eq!(found, [(Done, "a".to_owned(), false)]);
    insta::assert_snapshot!(remarks.join("\n"), @r"
    item 2 of completed is a number, not a text, and was left out
    item 4 of completed is null, not a text, and was left out
    item 5 of completed is a list, not a text, and was left out
    pending is a text, not a list
    ");
}

#[test]
fn lists_that_somebody_changed_are_what_counts() {
    let mut going = session("x", Some(purpose(Some("pay"), None, Some("pm"))));
    going.recap = Some(recap());
    let files = write(&[going], &words);
    let path = ".dagent-worktrees/pay/.dagent/sessions/checkpoint_x.json";
    let mut file: Value = serde_json::from_str(&files[path]).unwrap();
    file["summary"]["pendingItems"] = json!(["something new"]);
    let mut files = files.clone();
    files.insert(path.to_owned(), file.to_string());
    let read = read(&folders(&files)[0], later()).sessions.remove(0);
    let checkpoint = read.session.unwrap().recap.unwrap().checkpoint;
    let pending: Vec<_> = checkpoint.of(ItemKind::Pending).collect();
    assert_eq!(pending.len(), 1);
    assert_eq!(
        (pending[0].text.as_str(), pending[0].id),
        ("something new", 52)
    );
    assert_eq!(checkpoint.of(ItemKind::NextStep).count(), 0);
    let done: Vec<u32> = checkpoint.of(ItemKind::Done).map(|item| item.id).collect();
    assert_eq!(done, [4, 50, 51]);
}

#[test]
fn what_is_odd_is_told_and_never_in_the_way_of_others() {
    let message = |role: &str, content: Value| json!({ "id": "m", "timestamp": "2025-01-15T10:00:00.000Z", "role": role, "content": content });
    let folder = folder(&[
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
    let reading = read(&folder, later());
    let told = reading.sessions.iter().map(|read| {
        let session = match &read.session {
            Ok(session) => format!(
                "{} lines, {:?}",
                session.lines.len(),
                session.purpose.as_ref().map(ToString::to_string)
            ),
            Err(why) => format!("failed: {why}"),
        };
        let head = format!("{} ({}): {session}", read.name, read.path);
        let remarks = read.remarks.iter().map(|remark| format!("  {remark}"));
        [head].into_iter().chain(remarks).collect::<Vec<_>>()
    });
    let told: Vec<String> = told.flatten().chain(reading.remarks.clone()).collect();
    insta::assert_snapshot!(told.join("\n"), @r#"
    a (sessions/chat_a.json): 3 lines, Some("feature pay")
      sessions/context_a.json can't be used: it is not JSON: EOF while parsing a value at line 1 column 0
      message 2 is of "robot", whom nobody knows, and was left out
      message 3 is a number, not an object, and was left out
      message 4 is null, not an object, and was left out
      message 5 is a list, not an object, and was left out
      message 6 has no text, and was left out
      message 7 has no text, and was left out
      message 8 has no time; it is given that of the one before
      message 9 has "yesterday" for a time, which can't be read; it is given that of the one before
    b (sessions/chat_b.json): failed: it is not JSON: key must be a string at line 1 column 3
    d (sessions/checkpoint_d.json): 0 lines, Some("feature pay")
      there is no chat_d.json
      sessions/context_d.json says that it is of session "a"; the name of the file is what counts
      sessions/context_d.json has "chat" for a type, which nobody knows; what it is for is told by the rest
    e (sessions/chat_e.json): failed: messages is a text, not a list
    c (nodes/t/sessions/chat_c.json): 0 lines, Some("task t in state in_dev of feature pay")
    feature.json names session gone, of which there is no file
    nodes/t/task.json has a number for one of the sessionIds of in_dev, not a text
    nodes/t/task.json has a number for state in_qa, not an object
    nodes/t/task.json has a text for sessionIds of planning, not a list
    nodes/t/task.json names session lost, of which there is no file
    "#);
}

#[test]
fn what_has_no_place_is_kept_and_written_again() {
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
    let written = write(&there_and_back(&files), &words);
    let parsed = |path: &str| -> Value { serde_json::from_str(&written[path]).unwrap() };
    let mut changed = Vec::new();
    for path in files.keys() {
        let before: Value = serde_json::from_str(&files[path]).unwrap();
        let after = parsed(path);
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
    let summary = parsed(".dagent-worktrees/pay/.dagent/sessions/checkpoint_old.json");
    assert_eq!(summary["summary"]["completedItems"], json!(["set up"]));
}

/// Reads a session with these messages; returns its messages and its remarks.
fn lines_of(messages: &Value) -> (Vec<Line>, Vec<String>) {
    let chat = format!("\u{feff}{}", json!({ "messages": messages }));
    let folder = folder(&[("sessions/chat_x.json", chat.into())]);
    let read = read(&folder, later()).sessions.remove(0);
    (read.session.unwrap().lines, read.remarks)
}

#[test]
fn parts_that_are_texts_are_words_and_the_others_are_kept() {
    let call = json!({ "type": "tool_use", "name": "Bash" });
    let (lines, remarks) = lines_of(&json!([
        { "role": "user", "timestamp": "2025-01-05", "content": [{ "type": "text", "text": "one" }, call, { "type": "text", "text": "two" }] },
        { "role": "assistant", "timestamp": "2025-01-05T12:00:00", "content": [call] },
        { "role": "user", "timestamp": "2025-01-05T12:00:00", "content": "", "wordless": true },
    ]));
    let words: Vec<_> = lines
        .iter()
        .map(|line| (line.words.as_str(), line.timed))
        .collect();
    assert_eq!(words, [("one\ntwo", true), ("", true)]);
    assert_eq!(lines[0].rest["parts"], json!([call]));
    assert_eq!(remarks, ["message 2 has no text, and was left out"]);
}

#[test]
fn what_came_without_counts_is_counted_in_all() {
    let mut going = session("x", None);
    going.lines[0].tokens = None;
    going.lines[1].tokens = Some(40);
    let files = write(&[going], &words);
    let chat: Value = serde_json::from_str(&files[".dagent/sessions/chat_x.json"]).unwrap();
    assert_eq!(chat["metadata"]["tokenCount"], 42);
    assert_eq!(chat["messages"][0].get("tokens"), None);
}

#[test]
fn what_was_read_last_is_told_by_the_files_unless_it_was_read_here() {
    let kept =
        json!({ "checkpoint": { "tokens": { "lastCompactionInput": 3397, "totalSaved": 9 } } });
    let kept = Json::parse(kept.to_string()).unwrap();
    for (here, expected) in [(None, 3397), (Some(500), 500)] {
        let mut session = session("x", None);
        session.recap = Some(Recap {
            replaced: here,
            ..recap()
        });
        session.recall(&kept, later());
        let files = write(&[session], &words);
        let file = &files[".dagent/sessions/checkpoint_x.json"];
        let file: Value = serde_json::from_str(file).unwrap();
        assert_eq!(file["tokens"]["lastCompactionInput"], expected);
        assert_eq!(file["tokens"]["totalSaved"], 2000, "counted here");
    }
}

proptest! {
    #[test]
    fn nothing_in_a_file_is_too_odd(text in ".{0,200}", path in "(sessions/(chat|checkpoint|context|memory|session|agent-description)_x\\.json|feature\\.json|nodes/t/task\\.json|sessions/chat_x\\.archive\\.jsonl)") {
        let mut folder = folder(&[("sessions/chat_x.json", json!({ "messages": [] }))]);
        folder.files.insert(path, Ok(text));
        let _ = read(&folder, later());
    }
}
