//! Sessions of other programs are imported, continued and exported.

use jiff::Timestamp;
use segue_core::checkpoint::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind};
use segue_core::id::SessionId;
use segue_core::session::{Project, Role};
use segue_engine::{ImportOutcome, Target};
use segue_formats::{ExtraFields, PortableCheckpoint, PortableMessage, PortableSession};

use crate::scripted::EngineHarness;

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn project() -> Project {
    Project {
        key: "/src/app/.git".into(),
        cwd: "/src/app".into(),
    }
}

fn portable_line(role: Role, text: &str, second: i64) -> PortableMessage {
    PortableMessage {
        id: format!("m{second}"),
        at: timestamp(second),
        has_stated_time: true,
        role,
        text: text.into(),
        tokens: Some(1000),
        extra_fields: serde_json::Map::new(),
        is_imported: true,
    }
}

fn portable_session(lines: Vec<PortableMessage>) -> PortableSession {
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
        created_at: timestamp(0),
        updated_at: timestamp(90),
        compacted_messages: Vec::new(),
        messages: lines,
        checkpoint: Some(PortableCheckpoint {
            content: Checkpoint {
                items: vec![rule],
                loop_state: None,
            },
            version: 7,
            created_at: timestamp(-50),
            updated_at: timestamp(-10),
            tokens: 11,
            last_compaction_tokens: Some(500),
            saved_tokens: 4000,
            is_unchanged_since_import: true,
        }),
        role: None,
        context: None,
        extra_fields: ExtraFields::default(),
    };
    let metrics = serde_json::json!({
        "checkpoint": { "version": 7, "createdAt": timestamp(-50).to_string(),
            "tokens": { "checkpoint": 11, "lastCompactionInput": 500, "totalSaved": 4000 } },
    });
    session.extra_fields = serde_json::from_value(metrics).unwrap();
    session
}

async fn import_session(harness: &EngineHarness, session: &PortableSession) -> SessionId {
    match harness
        .engine
        .sessions()
        .import_session(session, "dagent", &project(), None)
        .await
    {
        Ok(ImportOutcome::Imported(session, _)) => session.id,
        outcome => panic!("{outcome:?}"),
    }
}

fn received_prompts(harness: &EngineHarness) -> Vec<String> {
    harness.agent.received.lock().unwrap().prompts.clone()
}

#[tokio::test]
async fn an_imported_session_is_briefed_to_the_next_agent() {
    let harness = EngineHarness::new();
    let lines = vec![
        portable_line(Role::Assistant, "shall I?", 1),
        portable_line(Role::User, "yes", 2),
        portable_line(Role::Assistant, "the login works", 3),
    ];
    let id = import_session(&harness, &portable_session(lines)).await;
    let turns = harness.engine.library().session(&id).await.unwrap().turns;
    assert_eq!(
        turns, 2,
        "an agent message before the first prompt is a separate turn"
    );
    assert!(received_prompts(&harness).is_empty(), "no prompt was sent");
    let next = harness.run_turn("go on", Target::Session(id.clone())).await;
    assert_eq!(next.turn, 3);
    let brief = received_prompts(&harness).remove(0);
    for expected in [
        "> shall I?",
        "> the login works",
        "never touch the migrations",
    ] {
        assert!(brief.contains(expected), "{brief}");
    }
    assert!(brief.ends_with("go on"));
}

#[tokio::test]
async fn an_imported_checkpoint_without_messages_is_briefed() {
    let harness = EngineHarness::new();
    let id = import_session(&harness, &portable_session(Vec::new())).await;
    harness.run_turn("go on", Target::Session(id.clone())).await;
    let brief = received_prompts(&harness).remove(0);
    assert!(brief.contains("never touch the migrations"), "{brief}");
    // The note that segue added is not exported.
    let session = harness.engine.library().session(&id).await.unwrap();
    let exported = harness
        .engine
        .sessions()
        .export_session(session)
        .await
        .unwrap()
        .session;
    let texts: Vec<&str> = exported
        .messages
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(
        (exported.compacted_messages.len(), texts.first()),
        (0, Some(&"go on"))
    );
}

#[tokio::test]
async fn versions_and_savings_continue_after_an_import() {
    let harness = EngineHarness::new();
    let lines = vec![
        portable_line(Role::User, "add the login form to src/login.rs", 1),
        portable_line(Role::Assistant, "I added it, and the tests pass", 2),
    ];
    let id = import_session(&harness, &portable_session(lines)).await;
    let export = async || {
        let session = harness.engine.library().session(&id).await.unwrap();
        harness
            .engine
            .sessions()
            .export_session(session)
            .await
            .unwrap()
            .session
    };
    let before = export().await;
    let recap = before.checkpoint.unwrap();
    assert_eq!(
        (recap.version, recap.tokens, recap.saved_tokens),
        (7, 11, 4000)
    );
    assert_eq!(
        (recap.created_at, recap.updated_at),
        (timestamp(-50), timestamp(-10))
    );
    assert_eq!(
        (before.name.as_str(), before.compacted_messages.len()),
        ("3f2a", 0)
    );
    assert_eq!(
        (before.messages[1].id.as_str(), before.messages[1].tokens),
        ("m2", Some(1000))
    );

    let session = harness.engine.library().session(&id).await.unwrap();
    let compaction = harness.engine.compactor().compact(&session).await.unwrap();
    let (version, _) = compaction.created.unwrap();
    let after = export().await;
    let recap = after.checkpoint.unwrap();
    assert_eq!((recap.version, recap.tokens), (8, version.tokens));
    // A checkpoint with more tokens than it replaces reduces the savings, in the export as in the view.
    assert_eq!(recap.saved_tokens, 4000 + version.replaced - version.tokens);
    let session = harness.engine.library().session(&id).await.unwrap();
    let view = harness
        .engine
        .compactor()
        .checkpoint(&session, None)
        .await
        .unwrap();
    assert_eq!(recap.saved_tokens, view.total_saved);
    assert_eq!(
        (after.compacted_messages.len(), after.messages.len()),
        (2, 0)
    );
    assert_eq!(after.compacted_messages[1].id, "m2");
}

#[tokio::test]
async fn a_session_is_imported_once_and_an_empty_one_never() {
    let harness = EngineHarness::new();
    let id = import_session(&harness, &portable_session(Vec::new())).await;
    let own_session = PortableSession {
        name: id.to_string(),
        ..portable_session(Vec::new())
    };
    for existing in [portable_session(Vec::new()), own_session] {
        let outcome = harness
            .engine
            .sessions()
            .import_session(&existing, "dagent", &project(), None)
            .await;
        assert!(
            matches!(outcome, Ok(ImportOutcome::AlreadyPresent(existing_id)) if existing_id == id)
        );
    }
    let empty = PortableSession {
        name: "empty".into(),
        checkpoint: None,
        ..portable_session(Vec::new())
    };
    let outcome = harness
        .engine
        .sessions()
        .import_session(&empty, "dagent", &project(), None)
        .await;
    assert!(matches!(outcome, Ok(ImportOutcome::Empty)));
}
