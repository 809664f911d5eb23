//! Contract cases for sessions that are imported from another program.

use segue_core::checkpoint::{Checkpoint, CheckpointItem, CheckpointReason, ItemAuthor, ItemKind};
use segue_core::json::Json;
use segue_core::session::{
    Decision, MatchedBy, Message, RefCandidate, Role, Tag, TurnState, Usage,
};

use super::{lease_request, list_prompts, new_session, owner, session_id, time_at};
use crate::{
    AdoptedTurn, ImportedCheckpoint, ImportedSession, NewSession, SessionOrigin, Store, StoreError,
};

fn adopted_turn(question: &str, answer: &str, second: i64) -> AdoptedTurn {
    AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            Message::from_text(Role::User, question, time_at(second)),
            Message::from_text(Role::Assistant, answer, time_at(second + 1)),
        ],
        usage: Usage::default(),
        started_at: time_at(second),
        ended_at: time_at(second + 1),
        mark: None,
    }
}

fn imported_session(name: &str) -> ImportedSession {
    let item = CheckpointItem {
        id: 1,
        kind: ItemKind::Pending,
        text: "write the docs".into(),
        subject: None,
        turn: 1,
        message_index: 0,
        author: ItemAuthor::Summariser,
        weight: 1,
        pinned: false,
    };
    ImportedSession {
        origin: SessionOrigin {
            name: name.to_owned(),
            format: "other-program".into(),
            extra_fields: Json::parse(r#"{"b":1,"a":[2]}"#).unwrap(),
            at: time_at(900),
        },
        turns: vec![
            adopted_turn("one", "two", 10),
            adopted_turn("three", "four", 20),
        ],
        checkpoint: Some(ImportedCheckpoint {
            turn: 1,
            covers: 0,
            checkpoint: Checkpoint {
                items: vec![item],
                loop_state: None,
            },
            tokens: 5,
            replaced: 500,
            at: time_at(15),
        }),
        tags: vec![Tag::parse("imported").unwrap()],
        updated_at: time_at(30),
        decision: Decision::SessionImported {
            format: "dagent".to_owned(),
            name: "developer".to_owned(),
            messages: 3,
            checkpoint: Some(1),
        },
        distinct_from: Vec::new(),
    }
}

/// Verifies that an imported session has its turns, times, checkpoint and previous name, and that its lease is free.
pub async fn an_imported_session_is_complete(store: &dyn Store) {
    let new = NewSession {
        at: time_at(5),
        ..new_session(1)
    };
    let session = store
        .import_session(new, owner(1), imported_session("3f2a-old"))
        .await
        .unwrap();
    assert_eq!(
        (session.created_at, session.updated_at),
        (time_at(5), time_at(30))
    );
    assert_eq!((session.turns, session.native_id.as_ref()), (2, None));
    assert_eq!(session.tags, imported_session("").tags);
    assert_eq!(list_prompts(store, &session.id).await, ["one", "three"]);
    let turns = store.turns(&session.id).await.unwrap();
    assert!(turns.iter().all(segue_core::session::Turn::is_added));
    assert_eq!(
        (turns[1].started_at, turns[1].ended_at),
        (time_at(20), Some(time_at(21)))
    );
    let active = store.checkpoint_at(&session.id, turns[1].id).await;
    let (version, checkpoint) = active.unwrap().unwrap();
    assert_eq!(
        (version.n, version.covers, version.reason, version.at),
        (1, 0, CheckpointReason::Imported, time_at(15))
    );
    assert_eq!(checkpoint.items.len(), 1);
    let origin = store.session_origin(&session.id).await.unwrap().unwrap();
    assert_eq!(origin, imported_session("3f2a-old").origin);
    let alias_match = RefCandidate {
        id: session.id.clone(),
        matched_by: MatchedBy::Alias,
    };
    assert_eq!(
        store.ref_candidates("3f2a-old").await.unwrap(),
        [alias_match]
    );
    assert_eq!(store.ref_candidates("3f2a").await.unwrap(), []);
    let log = store.decisions(&session.id, 9).await.unwrap();
    assert_eq!(log.len(), 1);
    let granted = store
        .acquire_lease(lease_request(&session.id, 2))
        .await
        .unwrap();
    store.delete_session(&granted.lease).await.unwrap();
    assert_eq!(store.session_origin(&session.id).await.unwrap(), None);
    assert_eq!(store.ref_candidates("3f2a-old").await.unwrap(), []);
}

/// Verifies that a session is imported only once into a project, that a failed import leaves no data, and that another
/// project can import the same session.
pub async fn a_session_is_imported_once_per_project(store: &dyn Store) {
    let first = store
        .import_session(new_session(1), owner(1), imported_session("old"))
        .await
        .unwrap();
    assert_eq!(store.session_origin(&session_id(2)).await.unwrap(), None);
    let duplicate = store
        .import_session(new_session(2), owner(1), imported_session("old"))
        .await;
    assert!(matches!(duplicate, Err(StoreError::PurposeTaken(existing)) if existing == first.id));
    assert_eq!(store.session(&session_id(2)).await.unwrap(), None);
    let distinct = ImportedSession {
        distinct_from: vec![first.id.clone()],
        ..imported_session("old")
    };
    let second = store
        .import_session(new_session(2), owner(1), distinct.clone())
        .await;
    let second = second.unwrap().id;
    let repeated = store
        .import_session(new_session(3), owner(1), distinct)
        .await;
    assert!(matches!(repeated, Err(StoreError::PurposeTaken(existing)) if existing == second));
    let bad = ImportedSession {
        checkpoint: imported_session("x")
            .checkpoint
            .map(|checkpoint| ImportedCheckpoint {
                turn: 7,
                ..checkpoint
            }),
        ..imported_session("bad")
    };
    assert!(
        store
            .import_session(new_session(3), owner(1), bad)
            .await
            .is_err()
    );
    assert_eq!(store.session(&session_id(3)).await.unwrap(), None);
    let mut other_project = new_session(4);
    other_project.project.key = "/src/other/.git".into();
    store
        .import_session(other_project, owner(1), imported_session("old"))
        .await
        .unwrap();
    assert_eq!(store.ref_candidates("old").await.unwrap().len(), 3);
}
