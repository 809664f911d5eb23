//! Contract cases for revert, undo, fork and delete: the head moves, the turns stay.

use segue_core::session::{HeadMove, HeadMoveKind, LegEnd, Lineage};

use super::{
    at, claim, finished, id, native, new_session, open_session, prompt, story, whole_turn,
};
use crate::{Adopted, ForkPoint, Lease, Store, StoreError};

/// Creates a session with turns "1" to "n".
async fn with_turns(
    store: &dyn Store,
    n: u32,
) -> (
    segue_core::session::Session,
    Lease,
    Vec<segue_core::session::Turn>,
) {
    let (session, lease) = open_session(store, 1).await;
    let mut turns = Vec::new();
    for text in 1..=n {
        turns.push(whole_turn(store, &lease, &text.to_string()).await);
    }
    (session, lease, turns)
}

/// Verifies that a revert and an undo move the head, and that all turns stay on record.
pub async fn a_revert_moves_the_head_and_undo_moves_it_back(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 5).await;
    let reverted = store.revert(&lease, turns[1].id, at(9)).await.unwrap();
    assert_eq!((reverted.turns, reverted.head), (2, Some(turns[1].id)));
    assert_eq!(story(store, &session.id).await, ["1", "2"]);
    // A turn that no longer leads to the head cannot be the target of a revert.
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

/// Verifies that a revert can be undone after later turns, and that those turns stay on record.
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

/// Verifies that each undo takes back one revert, newest first.
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

/// Verifies that a fork shares the turns before it and that later turns are separate.
pub async fn a_fork_shares_and_then_goes_its_own_way(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 3).await;
    let point = |turn| ForkPoint {
        session: session.id.clone(),
        turn,
        before_move: None,
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

/// Verifies that shared turns of a deleted session stay as long as a fork needs them, and are deleted with the last
/// fork.
pub async fn deleting_a_session_keeps_what_its_forks_share(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 4).await;
    let point = ForkPoint {
        session: session.id.clone(),
        turn: 2,
        before_move: None,
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

/// Verifies that every earlier position of a head can be forked, so that no turn is lost after a revert or an undo.
pub async fn what_a_head_left_can_be_forked(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 4).await;
    store.revert(&lease, turns[0].id, at(9)).await.unwrap();
    whole_turn(store, &lease, "2b").await;
    whole_turn(store, &lease, "3b").await;
    store.undo(&lease, at(11)).await.unwrap();
    let head_move = |n, kind, from, to, undone, seconds| HeadMove {
        n,
        kind,
        from,
        to,
        undone,
        at: at(seconds),
    };
    let moves = [
        head_move(1, HeadMoveKind::Revert, 4, 1, true, 9),
        head_move(2, HeadMoveKind::Undo, 3, 4, false, 11),
    ];
    let found = store.lineage(&session.id).await.unwrap();
    assert_eq!((found.moves, found.forks), (moves.into(), vec![]));

    let point = |turn, n| ForkPoint {
        session: session.id.clone(),
        turn,
        before_move: Some(n),
    };
    let fork = store.fork(new_session(2), point(3, 2)).await.unwrap();
    assert_eq!(story(store, &fork.id).await, ["1", "2b", "3b"]);
    let whole = store.fork(new_session(3), point(4, 1)).await.unwrap();
    assert_eq!(story(store, &whole.id).await, ["1", "2", "3", "4"]);
    for (turn, n) in [(4, 2), (0, 2), (1, 3), (1, 0)] {
        let refused = store.fork(new_session(4), point(turn, n)).await;
        assert!(matches!(refused, Err(StoreError::NoTurn(_))), "{turn} {n}");
    }
    let forks = store.lineage(&session.id).await.unwrap().forks;
    let forks: Vec<_> = forks.into_iter().map(|fork| (fork.id, fork.turn)).collect();
    assert_eq!(forks, [(fork.id.clone(), 3), (whole.id, 4)]);
    assert_eq!(store.lineage(&fork.id).await.unwrap(), Lineage::default());

    store.delete(&lease).await.unwrap();
    assert_eq!(story(store, &fork.id).await, ["1", "2b", "3b"]);
}

/// Verifies that an ended leg is reopened as a new leg on the same native session, with the same tip.
pub async fn a_leg_is_taken_up_again(store: &dyn Store) {
    let (session, lease, turns) = with_turns(store, 2).await;
    let first = store.open_leg(&lease, native("first")).await.unwrap();
    let last = store.begin_turn(&lease, &prompt("3", 8)).await.unwrap();
    let sent = store.begin_attempt(&lease, last.id, first.id, at(8));
    sent.await.unwrap();
    let finish = store.finish_turn(&lease, last.id, finished(8));
    finish.await.unwrap();
    let why = LegEnd::HeadMoved;
    let running = store.take_up_leg(&lease, first.id, why, at(9)).await;
    assert!(
        matches!(running, Err(StoreError::NoLeg(_))),
        "it has not ended"
    );
    store.revert(&lease, turns[0].id, at(9)).await.unwrap();
    store.end_leg(&lease, first.id, why, at(9)).await.unwrap();
    let other = store.open_leg(&lease, native("other")).await.unwrap();
    store.undo(&lease, at(10)).await.unwrap();

    let again = store
        .take_up_leg(&lease, first.id, why, at(11))
        .await
        .unwrap();
    assert_eq!((again.n, again.ended), (3, None));
    assert_eq!(again.native_id, first.native_id);
    assert_eq!(again.tip, Some(last.id));
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(
        legs[0].ended,
        Some((at(9), why)),
        "it stays on record as it was"
    );
    assert_eq!(legs[1].ended, Some((at(11), why)));
    assert_eq!(legs[2], again);
    let now = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(now.native_id, first.native_id);

    // The native session is in use by another session by now.
    let adopted = Adopted {
        native_id: "other".parse().unwrap(),
        turns: Vec::new(),
    };
    let owner = claim(&id(2), 2, 12).owner;
    store.adopt(new_session(2), owner, adopted).await.unwrap();
    let taken = store.take_up_leg(&lease, other.id, why, at(12)).await;
    assert!(matches!(taken, Err(StoreError::Carried(_))), "{taken:?}");
    assert_eq!(
        store.legs(&session.id).await.unwrap(),
        legs,
        "nothing changed"
    );
}
