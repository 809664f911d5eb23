//! Contract cases for sessions that are imported from another program.

use segue_core::checkpoint::{Author, Checkpoint, Item, ItemKind, Occasion};
use segue_core::json::Json;
use segue_core::session::{
    Candidate, Decision, DecisionKind, MatchedBy, Message, Role, Tag, TurnState, Usage,
};

use super::{at, claim, id, new_session, owner, story};
use crate::{AdoptedTurn, Imported, ImportedCheckpoint, NewSession, Origin, Store, StoreError};

fn turn(question: &str, answer: &str, second: i64) -> AdoptedTurn {
    AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            Message::text(Role::User, question, at(second)),
            Message::text(Role::Assistant, answer, at(second + 1)),
        ],
        usage: Usage::default(),
        started_at: at(second),
        ended_at: at(second + 1),
        mark: None,
    }
}

fn imported(name: &str) -> Imported {
    let item = Item {
        id: 1,
        kind: ItemKind::Pending,
        text: "write the docs".into(),
        subject: None,
        turn: 1,
        message: 0,
        by: Author::Summary,
        weight: 1,
        pinned: false,
    };
    Imported {
        origin: Origin {
            name: name.to_owned(),
            format: "elsewhere".into(),
            kept: Json::parse(r#"{"b":1,"a":[2]}"#).unwrap(),
            at: at(900),
        },
        turns: vec![turn("one", "two", 10), turn("three", "four", 20)],
        checkpoint: Some(ImportedCheckpoint {
            turn: 1,
            covers: 0,
            checkpoint: Checkpoint {
                items: vec![item],
                loop_state: None,
            },
            tokens: 5,
            replaced: 500,
            at: at(15),
        }),
        tags: vec![Tag::parse("kept").unwrap()],
        updated_at: at(30),
        noted: Decision::new(DecisionKind::Session, "came from elsewhere"),
        beside: Vec::new(),
    }
}

/// Verifies that an imported session has its turns, times, checkpoint and previous name, and that its lease is free.
pub async fn an_imported_session_is_there_whole(store: &dyn Store) {
    let new = NewSession {
        at: at(5),
        ..new_session(1)
    };
    let session = store
        .import(new, owner(1), imported("3f2a-old"))
        .await
        .unwrap();
    assert_eq!((session.created_at, session.updated_at), (at(5), at(30)));
    assert_eq!((session.turns, session.native_id.as_ref()), (2, None));
    assert_eq!(session.tags, imported("").tags);
    assert_eq!(story(store, &session.id).await, ["one", "three"]);
    let turns = store.turns(&session.id).await.unwrap();
    assert!(turns.iter().all(segue_core::session::Turn::is_added));
    assert_eq!(
        (turns[1].started_at, turns[1].ended_at),
        (at(20), Some(at(21)))
    );
    let found = store.checkpoint_at(&session.id, turns[1].id).await;
    let (version, checkpoint) = found.unwrap().unwrap();
    assert_eq!(
        (version.n, version.covers, version.why, version.at),
        (1, 0, Occasion::Imported, at(15))
    );
    assert_eq!(checkpoint.items.len(), 1);
    let origin = store.origin(&session.id).await.unwrap().unwrap();
    assert_eq!(origin, imported("3f2a-old").origin);
    let by_alias = Candidate {
        id: session.id.clone(),
        by: MatchedBy::Alias,
    };
    assert_eq!(store.candidates("3f2a-old").await.unwrap(), [by_alias]);
    assert_eq!(store.candidates("3f2a").await.unwrap(), []);
    let log = store.decisions(&session.id, 9).await.unwrap();
    assert_eq!(log.len(), 1);
    let granted = store.acquire(claim(&session.id, 2, 950)).await.unwrap();
    store.delete(&granted.lease).await.unwrap();
    assert_eq!(store.origin(&session.id).await.unwrap(), None);
    assert_eq!(store.candidates("3f2a-old").await.unwrap(), []);
}

/// Verifies that a session is imported only once into a project, that a failed import leaves no data, and that another
/// project can import the same session.
pub async fn the_same_is_imported_once(store: &dyn Store) {
    let first = store
        .import(new_session(1), owner(1), imported("old"))
        .await
        .unwrap();
    assert_eq!(store.origin(&id(2)).await.unwrap(), None);
    let again = store
        .import(new_session(2), owner(1), imported("old"))
        .await;
    assert!(matches!(again, Err(StoreError::Fits(there)) if there == first.id));
    assert_eq!(store.session(&id(2)).await.unwrap(), None);
    let other = Imported {
        beside: vec![first.id.clone()],
        ..imported("old")
    };
    let second = store.import(new_session(2), owner(1), other.clone()).await;
    let second = second.unwrap().id;
    let again = store.import(new_session(3), owner(1), other).await;
    assert!(matches!(again, Err(StoreError::Fits(there)) if there == second));
    let bad = Imported {
        checkpoint: imported("x")
            .checkpoint
            .map(|kept| ImportedCheckpoint { turn: 7, ..kept }),
        ..imported("bad")
    };
    assert!(store.import(new_session(3), owner(1), bad).await.is_err());
    assert_eq!(store.session(&id(3)).await.unwrap(), None);
    let mut elsewhere = new_session(4);
    elsewhere.project.key = "/src/other/.git".into();
    store
        .import(elsewhere, owner(1), imported("old"))
        .await
        .unwrap();
    assert_eq!(store.candidates("old").await.unwrap().len(), 3);
}
