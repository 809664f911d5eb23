//! Revert, undo, fork, delete: the head moves, the turns stay.

use super::{at, claim, id, new_session, open_session, story, whole_turn};
use crate::{ForkPoint, Lease, Store, StoreError};

/// A session with turns "1" to "n".
async fn with_turns(
    store: &dyn Store,
    n: u32,
) -> (segue_core::Session, Lease, Vec<segue_core::Turn>) {
    let (session, lease) = open_session(store, 1).await;
    let mut turns = Vec::new();
    for text in 1..=n {
        turns.push(whole_turn(store, &lease, &text.to_string()).await);
    }
    (session, lease, turns)
}

/// The head goes back and forth; what it passed is all still there.
pub async fn a_revert_moves_the_head_and_undo_moves_it_back(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 5).await;
    let reverted = store.revert(&lease, turns[1].id, at(9)).await.unwrap();
    assert_eq!((reverted.turns, reverted.head), (2, Some(turns[1].id)));
    assert_eq!(story(store, &session.id).await, ["1", "2"]);
    // A turn that no longer leads to the head can't be reverted to.
    let forward = store.revert(&lease, turns[3].id, at(9)).await;
    assert!(matches!(forward, Err(StoreError::NoTurn(_))));

    let undone = store.undo(&lease, at(10)).await.unwrap();
    assert_eq!((undone.turns, undone.head), (5, Some(turns[4].id)));
    assert_eq!(story(store, &session.id).await, ["1", "2", "3", "4", "5"]);
    assert!(matches!(
        store.undo(&lease, at(11)).await,
        Err(StoreError::NothingToUndo(_))
    ));
}

/// A revert can be undone also when turns were made after it; they stay on record.
pub async fn an_undo_survives_turns_made_in_between(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 3).await;
    store.revert(&lease, turns[0].id, at(9)).await.unwrap();
    let other = whole_turn(store, &lease, "2b").await;
    assert_eq!((other.n, other.parent), (2, Some(turns[0].id)));
    assert_eq!(story(store, &session.id).await, ["1", "2b"]);
    store.undo(&lease, at(10)).await.unwrap();
    assert_eq!(story(store, &session.id).await, ["1", "2", "3"]);
    assert_eq!(store.messages(other.id).await.unwrap()[0].words(), "2b");
}

/// Each undo takes one revert back, the newest first.
pub async fn undoing_twice_walks_back_through_reverts(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 4).await;
    store.revert(&lease, turns[2].id, at(9)).await.unwrap();
    store.revert(&lease, turns[0].id, at(9)).await.unwrap();
    store.undo(&lease, at(10)).await.unwrap();
    assert_eq!(story(store, &session.id).await, ["1", "2", "3"]);
    store.undo(&lease, at(11)).await.unwrap();
    assert_eq!(story(store, &session.id).await, ["1", "2", "3", "4"]);
    assert!(store.undo(&lease, at(12)).await.is_err());
}

/// A fork has the same past and a future of its own.
pub async fn a_fork_shares_and_then_goes_its_own_way(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 3).await;
    let point = |turn| ForkPoint {
        session: session.id.clone(),
        turn,
    };
    let fork = store.fork(new_session(2), point(2)).await.unwrap();
    assert_eq!(
        (fork.turns, fork.head),
        (2, Some(turns[1].id)),
        "shared, not copied"
    );
    assert_eq!(fork.forked_from, Some((session.id.clone(), 2)));

    let granted = store.acquire(claim(&fork.id, 2, 5)).await.unwrap();
    whole_turn(store, &granted.lease, "3b").await;
    whole_turn(store, &lease, "4").await;
    assert_eq!(story(store, &fork.id).await, ["1", "2", "3b"]);
    assert_eq!(story(store, &session.id).await, ["1", "2", "3", "4"]);

    for missing in [0, 9] {
        let refused = store.fork(new_session(3), point(missing)).await;
        assert!(matches!(refused, Err(StoreError::NoTurn(_))));
        assert_eq!(
            store.session(&id(3)).await.unwrap(),
            None,
            "a refused fork leaves nothing"
        );
    }
}

/// What a deleted session shared stays as long as somebody needs it, and goes then.
pub async fn deleting_a_session_keeps_what_its_forks_share(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 4).await;
    let point = ForkPoint {
        session: session.id.clone(),
        turn: 2,
    };
    let fork = store.fork(new_session(2), point).await.unwrap();
    let fork_lease = store.acquire(claim(&fork.id, 2, 5)).await.unwrap().lease;
    whole_turn(store, &fork_lease, "3b").await;

    store.delete(&lease).await.unwrap();
    assert_eq!(store.session(&session.id).await.unwrap(), None);
    assert_eq!(story(store, &fork.id).await, ["1", "2", "3b"]);
    assert!(
        store.messages(turns[3].id).await.unwrap().is_empty(),
        "unshared turns are gone"
    );
    whole_turn(store, &fork_lease, "4b").await;

    store.delete(&fork_lease).await.unwrap();
    assert!(
        store.messages(turns[0].id).await.unwrap().is_empty(),
        "nobody needs them any more"
    );
    assert!(matches!(
        store.delete(&fork_lease).await,
        Err(StoreError::LeaseLost(_))
    ));
}
