//! Sessions of other programs are imported, continued and exported.

use jiff::Timestamp;
use segue_core::checkpoint::{ItemAuthor, Checkpoint, CheckpointItem, ItemKind};
use segue_core::id::SessionId;
use segue_core::session::{Project, Role};
use segue_engine::{ImportOutcome, Target};
use segue_formats::{ExtraFields, PortableMessage, PortableSession, PortableCheckpoint};

use crate::scripted::Stage;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn project() -> Project {
    Project {
        key: "/src/app/.git".into(),
        cwd: "/src/app".into(),
    }
}

fn to_portable_message(role: Role, words: &str, second: i64) -> PortableMessage {
    PortableMessage {
        id: format!("m{second}"),
        at: at(second),
        has_stated_time: true,
        role,
        text: words.into(),
        tokens: Some(1000),
        extra_fields: serde_json::Map::new(),
        is_imported: true,
    }
}

fn format_import_decision(lines: Vec<PortableMessage>) -> PortableSession {
    let rule = CheckpointItem {
        id: 1,
        kind: ItemKind::Directive,
        text: "never touch the migrations".into(),
        subject: None,
        turn: 0,
        message_index: 0,
        author: ItemAuthor::Summariser,
        weight: 100,
        pinned: false,
    };
    let mut session = PortableSession {
        name: "3f2a".into(),
        title: None,
        purpose: None,
        provider: None,
        tags: Vec::new(),
        created_at: at(0),
        updated_at: at(90),
        compacted_messages: Vec::new(),
        messages: lines,
        checkpoint: Some(PortableCheckpoint {
            content: Checkpoint {
                items: vec![rule],
                loop_state: None,
            },
            version: 7,
            created_at: at(-50),
            updated_at: at(-10),
            tokens: 11,
            last_compaction_tokens: Some(500),
            saved_tokens: 4000,
            is_unchanged_since_import: true,
        }),
        role: None,
        context: None,
        extra_fields: ExtraFields::default(),
    };
    let figures = serde_json::json!({
        "checkpoint": { "version": 7, "createdAt": at(-50).to_string(),
            "tokens": { "checkpoint": 11, "lastCompactionInput": 500, "totalSaved": 4000 } },
    });
    session.extra_fields = serde_json::from_value(figures).unwrap();
    session
}

async fn import(stage: &Stage, session: &PortableSession) -> SessionId {
    match stage
        .engine
        .import_session(session, "dagent", &project(), None)
        .await
    {
        Ok(ImportOutcome::Imported(session, _)) => session.id,
        other => panic!("{other:?}"),
    }
}

fn prompts(stage: &Stage) -> Vec<String> {
    stage.agent.heard.lock().unwrap().prompts.clone()
}

#[tokio::test]
async fn what_came_is_told_to_the_agent_that_goes_on() {
    let stage = Stage::new();
    let said = vec![
        to_portable_message(Role::Assistant, "shall I?", 1),
        to_portable_message(Role::User, "yes", 2),
        to_portable_message(Role::Assistant, "the login works", 3),
    ];
    let id = import(&stage, &format_import_decision(said)).await;
    let turns = stage.engine.session(&id).await.unwrap().turns;
    assert_eq!(turns, 2, "what the agent says first is a turn of its own");
    assert!(prompts(&stage).is_empty(), "nobody was asked");
    let next = stage.turn("go on", Target::Session(id.clone())).await;
    assert_eq!(next.turn, 3);
    let told = prompts(&stage).remove(0);
    for words in [
        "> shall I?",
        "> the login works",
        "never touch the migrations",
    ] {
        assert!(told.contains(words), "{told}");
    }
    assert!(told.ends_with("go on"));
}

#[tokio::test]
async fn a_checkpoint_without_messages_is_told_too() {
    let stage = Stage::new();
    let id = import(&stage, &format_import_decision(Vec::new())).await;
    stage.turn("go on", Target::Session(id.clone())).await;
    let told = prompts(&stage).remove(0);
    assert!(told.contains("never touch the migrations"), "{told}");
    // The note that segue added is not exported.
    let session = stage.engine.session(&id).await.unwrap();
    let going = stage.engine.export_session(session).await.unwrap().session;
    let words: Vec<&str> = going.messages.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((going.compacted_messages.len(), words.first()), (0, Some(&"go on")));
}

#[tokio::test]
async fn versions_and_savings_count_on() {
    let stage = Stage::new();
    let said = vec![
        to_portable_message(Role::User, "add the login form to src/login.rs", 1),
        to_portable_message(Role::Assistant, "I added it, and the tests pass", 2),
    ];
    let id = import(&stage, &format_import_decision(said)).await;
    let export = async || {
        let session = stage.engine.session(&id).await.unwrap();
        stage.engine.export_session(session).await.unwrap().session
    };
    let before = export().await;
    let recap = before.checkpoint.unwrap();
    assert_eq!((recap.version, recap.tokens, recap.saved_tokens), (7, 11, 4000));
    assert_eq!((recap.created_at, recap.updated_at), (at(-50), at(-10)));
    assert_eq!((before.name.as_str(), before.compacted_messages.len()), ("3f2a", 0));
    assert_eq!(
        (before.messages[1].id.as_str(), before.messages[1].tokens),
        ("m2", Some(1000))
    );

    let session = stage.engine.session(&id).await.unwrap();
    let compacted = stage.engine.compact(&session).await.unwrap();
    let (version, _) = compacted.created.unwrap();
    let after = export().await;
    let recap = after.checkpoint.unwrap();
    assert_eq!((recap.version, recap.tokens), (8, version.tokens));
    // A checkpoint with more tokens than it replaces reduces the savings, in the export as in the view.
    assert_eq!(recap.saved_tokens, 4000 + version.replaced - version.tokens);
    let session = stage.engine.session(&id).await.unwrap();
    let shown = stage.engine.checkpoint(&session, None).await.unwrap();
    assert_eq!(recap.saved_tokens, shown.total_saved);
    assert_eq!((after.compacted_messages.len(), after.messages.len()), (2, 0));
    assert_eq!(after.compacted_messages[1].id, "m2");
}

#[tokio::test]
async fn the_same_comes_once_and_nothing_is_nothing() {
    let stage = Stage::new();
    let id = import(&stage, &format_import_decision(Vec::new())).await;
    let own = PortableSession {
        name: id.to_string(),
        ..format_import_decision(Vec::new())
    };
    for known in [format_import_decision(Vec::new()), own] {
        let again = stage
            .engine
            .import_session(&known, "dagent", &project(), None)
            .await;
        assert!(matches!(again, Ok(ImportOutcome::AlreadyPresent(there)) if there == id));
    }
    let empty = PortableSession {
        name: "empty".into(),
        checkpoint: None,
        ..format_import_decision(Vec::new())
    };
    let none = stage
        .engine
        .import_session(&empty, "dagent", &project(), None)
        .await;
    assert!(matches!(none, Ok(ImportOutcome::Empty)));
}
