//! Contract cases for revert, undo, fork and delete: they move the head of a session, but keep its turns in the store.

use segue_core::session::{HeadMove, HeadMoveKind, LegEnd, Lineage, Session, Turn};

use super::{
    finished_ending, lease_request, list_prompts, new_leg, new_session, open_session, prompt,
    record_turn, session_id, time_at,
};
use crate::{AdoptedSession, ForkPoint, Lease, Store, StoreError};

/// Creates a session with `count` turns. Their prompts are "1", "2" and so on.
async fn open_session_with_turns(store: &dyn Store, count: u32) -> (Session, Lease, Vec<Turn>) {
    let (session, lease) = open_session(store, 1).await;
    let mut turns = Vec::new();
    for number in 1..=count {
        turns.push(record_turn(store, &lease, &number.to_string()).await);
    }
    (session, lease, turns)
}

/// Verifies that a revert and an undo move the head, and that all turns stay in the store.
pub async fn a_revert_moves_the_head_and_an_undo_restores_it(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 5).await;
    let reverted = store
        .revert_head(&lease, turns[1].id, time_at(9))
        .await
        .unwrap();
    assert_eq!((reverted.turns, reverted.head), (2, Some(turns[1].id)));
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2"]);
    // A revert can only move the head back: turn 4 comes after the head.
    let forward = store.revert_head(&lease, turns[3].id, time_at(9)).await;
    assert!(matches!(forward, Err(StoreError::NoTurn(_))));

    let undone = store.undo_revert(&lease, time_at(10)).await.unwrap();
    assert_eq!((undone.turns, undone.head), (5, Some(turns[4].id)));
    assert_eq!(
        list_prompts(store, &session.id).await,
        ["1", "2", "3", "4", "5"]
    );
    assert!(matches!(
        store.undo_revert(&lease, time_at(11)).await,
        Err(StoreError::NoRevertToUndo(_))
    ));
}

/// Verifies that a revert can be undone after later turns, and that those turns stay in the store.
pub async fn a_revert_can_be_undone_after_later_turns(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 3).await;
    store
        .revert_head(&lease, turns[0].id, time_at(9))
        .await
        .unwrap();
    let branch_turn = record_turn(store, &lease, "2b").await;
    assert_eq!(
        (branch_turn.number, branch_turn.parent),
        (2, Some(turns[0].id))
    );
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2b"]);
    store.undo_revert(&lease, time_at(10)).await.unwrap();
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2", "3"]);
    assert_eq!(
        store.messages(branch_turn.id).await.unwrap()[0].plain_text(),
        "2b"
    );
}

/// Verifies that each undo reverses one revert, newest first.
pub async fn two_undos_reverse_two_reverts_newest_first(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 4).await;
    store
        .revert_head(&lease, turns[2].id, time_at(9))
        .await
        .unwrap();
    store
        .revert_head(&lease, turns[0].id, time_at(9))
        .await
        .unwrap();
    store.undo_revert(&lease, time_at(10)).await.unwrap();
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2", "3"]);
    store.undo_revert(&lease, time_at(11)).await.unwrap();
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2", "3", "4"]);
    assert!(store.undo_revert(&lease, time_at(12)).await.is_err());
}

/// Verifies that a fork shares the turns before it and that later turns are separate.
pub async fn a_fork_shares_earlier_turns_but_not_later_ones(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 3).await;
    let fork_point = |turn| ForkPoint {
        session: session.id.clone(),
        turn,
        before_head_move: None,
    };
    let fork = store
        .fork_session(new_session(2), fork_point(2))
        .await
        .unwrap();
    assert_eq!(
        (fork.turns, fork.head),
        (2, Some(turns[1].id)),
        "turns are shared, not copied"
    );
    assert_eq!(fork.forked_from, Some((session.id.clone(), 2)));

    let granted = store
        .acquire_lease(lease_request(&fork.id, 2))
        .await
        .unwrap();
    record_turn(store, &granted.lease, "3b").await;
    record_turn(store, &lease, "4").await;
    assert_eq!(list_prompts(store, &fork.id).await, ["1", "2", "3b"]);
    assert_eq!(list_prompts(store, &session.id).await, ["1", "2", "3", "4"]);

    for missing_turn in [0, 9] {
        let refused = store
            .fork_session(new_session(3), fork_point(missing_turn))
            .await;
        assert!(matches!(refused, Err(StoreError::NoTurn(_))));
        assert_eq!(
            store.session(&session_id(3)).await.unwrap(),
            None,
            "a refused fork leaves no session"
        );
    }
}

/// Verifies that the turns of a deleted session stay in the store as long as a fork shares them, and are deleted with
/// the last fork.
pub async fn deleting_a_session_retains_turns_that_its_forks_share(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 4).await;
    let point = ForkPoint {
        session: session.id.clone(),
        turn: 2,
        before_head_move: None,
    };
    let fork = store.fork_session(new_session(2), point).await.unwrap();
    let fork_lease = store
        .acquire_lease(lease_request(&fork.id, 2))
        .await
        .unwrap()
        .lease;
    record_turn(store, &fork_lease, "3b").await;

    store.delete_session(&lease).await.unwrap();
    assert_eq!(store.session(&session.id).await.unwrap(), None);
    assert_eq!(list_prompts(store, &fork.id).await, ["1", "2", "3b"]);
    assert!(
        store.messages(turns[3].id).await.unwrap().is_empty(),
        "unshared turns are deleted"
    );
    record_turn(store, &fork_lease, "4b").await;

    store.delete_session(&fork_lease).await.unwrap();
    assert!(
        store.messages(turns[0].id).await.unwrap().is_empty(),
        "no session needs the turns"
    );
    assert!(matches!(
        store.delete_session(&fork_lease).await,
        Err(StoreError::LeaseLost(_))
    ));
}

/// Verifies that every earlier position of a head can be forked, so that no turn is lost after a revert or an undo.
pub async fn every_earlier_head_can_be_forked(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 4).await;
    store
        .revert_head(&lease, turns[0].id, time_at(9))
        .await
        .unwrap();
    record_turn(store, &lease, "2b").await;
    record_turn(store, &lease, "3b").await;
    store.undo_revert(&lease, time_at(11)).await.unwrap();
    let head_move = |number, kind, from, to, undone, seconds| HeadMove {
        number,
        kind,
        from,
        to,
        undone,
        at: time_at(seconds),
    };
    let moves = [
        head_move(1, HeadMoveKind::Revert, 4, 1, true, 9),
        head_move(2, HeadMoveKind::Undo, 3, 4, false, 11),
    ];
    let lineage = store.lineage(&session.id).await.unwrap();
    assert_eq!((lineage.moves, lineage.forks), (moves.into(), vec![]));

    let fork_point = |turn, move_number| ForkPoint {
        session: session.id.clone(),
        turn,
        before_head_move: Some(move_number),
    };
    let fork = store
        .fork_session(new_session(2), fork_point(3, 2))
        .await
        .unwrap();
    assert_eq!(list_prompts(store, &fork.id).await, ["1", "2b", "3b"]);
    let full_fork = store
        .fork_session(new_session(3), fork_point(4, 1))
        .await
        .unwrap();
    assert_eq!(
        list_prompts(store, &full_fork.id).await,
        ["1", "2", "3", "4"]
    );
    for (turn, move_number) in [(4, 2), (0, 2), (1, 3), (1, 0)] {
        let refused = store
            .fork_session(new_session(4), fork_point(turn, move_number))
            .await;
        assert!(
            matches!(refused, Err(StoreError::NoTurn(_))),
            "turn {turn} before move {move_number}"
        );
    }
    let forks = store.lineage(&session.id).await.unwrap().forks;
    let forks: Vec<_> = forks.into_iter().map(|fork| (fork.id, fork.turn)).collect();
    assert_eq!(forks, [(fork.id.clone(), 3), (full_fork.id, 4)]);
    assert_eq!(store.lineage(&fork.id).await.unwrap(), Lineage::default());

    store.delete_session(&lease).await.unwrap();
    assert_eq!(list_prompts(store, &fork.id).await, ["1", "2b", "3b"]);
}

/// Verifies that an ended leg is reopened as a new leg on the same native session, with the same tip.
pub async fn an_ended_leg_is_reopened_as_a_new_leg(store: &dyn Store) {
    let (session, lease, turns) = open_session_with_turns(store, 2).await;
    let first = store.open_leg(&lease, new_leg("first")).await.unwrap();
    let last = store.begin_turn(&lease, &prompt("3", 8)).await.unwrap();
    let attempt = store.begin_attempt(&lease, last.id, first.id, time_at(8));
    attempt.await.unwrap();
    let finish = store.finish_turn(&lease, last.id, finished_ending(8));
    finish.await.unwrap();
    let reason = LegEnd::HeadMoved;
    let refused = store.reopen_leg(&lease, first.id, reason, time_at(9)).await;
    assert!(
        matches!(refused, Err(StoreError::NoLeg(_))),
        "the leg has not ended"
    );
    store
        .revert_head(&lease, turns[0].id, time_at(9))
        .await
        .unwrap();
    store
        .end_leg(&lease, first.id, reason, time_at(9))
        .await
        .unwrap();
    let other_leg = store.open_leg(&lease, new_leg("other")).await.unwrap();
    store.undo_revert(&lease, time_at(10)).await.unwrap();

    let reopened = store
        .reopen_leg(&lease, first.id, reason, time_at(11))
        .await
        .unwrap();
    assert_eq!((reopened.number, reopened.ended), (3, None));
    assert_eq!(reopened.native_id, first.native_id);
    assert_eq!(reopened.tip, Some(last.id));
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(
        legs[0].ended,
        Some((time_at(9), reason)),
        "the ended leg stays unchanged"
    );
    assert_eq!(legs[1].ended, Some((time_at(11), reason)));
    assert_eq!(legs[2], reopened);
    let current = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(current.native_id, first.native_id);

    // A leg cannot be reopened after another session has adopted its native session.
    let adopted = AdoptedSession {
        native_id: "other".parse().unwrap(),
        turns: Vec::new(),
    };
    let owner = lease_request(&session_id(2), 2).owner;
    store
        .adopt_native_session(new_session(2), owner, adopted)
        .await
        .unwrap();
    let refused = store
        .reopen_leg(&lease, other_leg.id, reason, time_at(12))
        .await;
    assert!(
        matches!(refused, Err(StoreError::NativeAttached(_))),
        "{refused:?}"
    );
    assert_eq!(
        store.legs(&session.id).await.unwrap(),
        legs,
        "a refused operation changes nothing"
    );
}
