//! Contract cases for checkpoints, which are attached to turns and follow the head.

use segue_core::checkpoint::{
    Checkpoint, CheckpointItem, CheckpointReason, CheckpointVersion, ItemAuthor, ItemKind,
};
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::{CompactionSummary, Decision, LegEnd};

use super::{lease_request, new_session, open_session, record_turn, session_id, time_at};
use crate::{CompactionCommit, ForkPoint, NewCheckpoint, NewSession, Store, StoreError};

fn item(id: u32, text: &str) -> CheckpointItem {
    CheckpointItem {
        id,
        kind: ItemKind::Directive,
        text: text.to_owned(),
        subject: None,
        turn: 1,
        message_index: 0,
        author: ItemAuthor::Extraction,
        weight: 1,
        pinned: false,
    }
}

fn new_checkpoint(turn: TurnId, covers: u32, items: Vec<CheckpointItem>) -> NewCheckpoint {
    NewCheckpoint {
        turn,
        covers,
        checkpoint: Checkpoint {
            items,
            loop_state: None,
        },
        tokens: 10,
        replaced: 100,
        author: ItemAuthor::Extraction,
        reason: CheckpointReason::Budget,
        last_read_turn: 0,
        at: time_at(5),
    }
}

/// Builds a session that is forked at the given time.
fn new_fork(n: u32, second: i64) -> NewSession {
    NewSession {
        at: time_at(second),
        ..new_session(n)
    }
}

async fn active_items(
    store: &dyn Store,
    session: &SessionId,
    turn: TurnId,
) -> Option<(u32, Vec<String>)> {
    let (version, checkpoint) = store.checkpoint_at(session, turn).await.unwrap()?;
    let items = checkpoint.items.into_iter().map(|item| item.text);
    Some((version.n, items.collect()))
}

/// Verifies that a version stores the last turn that a summariser read, and its highest item number.
pub async fn a_version_stores_the_last_read_turn_and_item_number(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = record_turn(store, &lease, "one").await;
    let build_version = |last_read_turn, items: &[u32]| NewCheckpoint {
        last_read_turn,
        ..new_checkpoint(turn.id, 1, items.iter().map(|id| item(*id, "x")).collect())
    };
    let mut created = Vec::new();
    for new_version in [
        build_version(0, &[1, 7]),
        build_version(1, &[1]),
        build_version(0, &[]),
    ] {
        created.push(store.add_checkpoint(&lease, new_version).await.unwrap());
    }
    let read_turn_and_last_item = |versions: &[CheckpointVersion]| -> Vec<(u32, u32)> {
        let pairs = versions
            .iter()
            .map(|version| (version.last_read_turn, version.last_item_id));
        pairs.collect()
    };
    assert_eq!(read_turn_and_last_item(&created), [(0, 7), (1, 1), (0, 0)]);
    assert_eq!(store.checkpoints(&session.id).await.unwrap(), created);
}

/// Verifies that the active version belongs to the nearest turn at or before the head, wherever the head moves, and
/// that all versions are retained.
pub async fn a_checkpoint_follows_the_head(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let first_turn = record_turn(store, &lease, "one").await;
    let second_turn = record_turn(store, &lease, "two").await;
    assert_eq!(active_items(store, &session.id, second_turn.id).await, None);
    let first_version = new_checkpoint(second_turn.id, 2, vec![item(1, "a"), item(2, "b")]);
    assert_eq!(
        store.add_checkpoint(&lease, first_version).await.unwrap().n,
        1
    );
    let third_turn = record_turn(store, &lease, "three").await;
    let second_version = new_checkpoint(third_turn.id, 3, vec![item(2, "b"), item(3, "c")]);
    let created = store.add_checkpoint(&lease, second_version).await.unwrap();
    assert_eq!(
        (created.n, created.covers, created.saved_tokens()),
        (2, 3, 90)
    );
    assert_eq!(active_items(store, &session.id, first_turn.id).await, None);
    let to_strings = |texts: &[&str]| {
        texts
            .iter()
            .map(|&text| text.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        active_items(store, &session.id, second_turn.id).await,
        Some((1, to_strings(&["a", "b"])))
    );
    assert_eq!(
        active_items(store, &session.id, third_turn.id).await,
        Some((2, to_strings(&["b", "c"])))
    );
    // A later version on the same turn replaces the earlier version; a version on another branch has no effect.
    let third_version = new_checkpoint(third_turn.id, 3, vec![item(4, "d")]);
    store.add_checkpoint(&lease, third_version).await.unwrap();
    assert_eq!(
        active_items(store, &session.id, third_turn.id).await,
        Some((3, to_strings(&["d"])))
    );
    store
        .revert_head(&lease, second_turn.id, time_at(9))
        .await
        .unwrap();
    let branch_turn = record_turn(store, &lease, "other").await;
    assert_eq!(
        active_items(store, &session.id, branch_turn.id).await,
        Some((1, to_strings(&["a", "b"])))
    );
    let fourth_version = new_checkpoint(branch_turn.id, 3, vec![item(5, "e")]);
    assert_eq!(
        store
            .add_checkpoint(&lease, fourth_version)
            .await
            .unwrap()
            .n,
        4
    );
    let versions = store.checkpoints(&session.id).await.unwrap();
    let numbers: Vec<u32> = versions.iter().map(|version| version.n).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let (_, old) = store.checkpoint(&session.id, 2).await.unwrap().unwrap();
    assert_eq!(old.items.len(), 2);
    assert_eq!(store.checkpoint(&session.id, 9).await.unwrap(), None);
    let stale = crate::Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let refused = store
        .add_checkpoint(&stale, new_checkpoint(branch_turn.id, 3, vec![]))
        .await;
    assert!(
        matches!(refused, Err(StoreError::LeaseLost(_))),
        "{refused:?}"
    );
}

/// Verifies that every version can be read, however many exist, because a store may save versions as differences.
pub async fn every_version_of_a_checkpoint_can_be_read(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = record_turn(store, &lease, "one").await;
    let items = |n: u32| {
        (n..n + 5)
            .map(|id| item(id, &format!("{id} of {}", id / 3)))
            .collect::<Vec<_>>()
    };
    for n in 1..=40 {
        store
            .add_checkpoint(&lease, new_checkpoint(turn.id, 1, items(n)))
            .await
            .unwrap();
    }
    for n in 1..=40 {
        let (_, checkpoint) = store.checkpoint(&session.id, n).await.unwrap().unwrap();
        assert_eq!(checkpoint.items, items(n), "version {n}");
    }
}

/// Verifies that a fork has the checkpoints of the shared turns, also after the other session was deleted.
pub async fn a_fork_shares_the_checkpoints_of_its_origin(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let first_turn = record_turn(store, &lease, "one").await;
    let second_turn = record_turn(store, &lease, "two").await;
    store
        .add_checkpoint(&lease, new_checkpoint(first_turn.id, 1, vec![item(1, "a")]))
        .await
        .unwrap();
    store
        .add_checkpoint(
            &lease,
            new_checkpoint(second_turn.id, 2, vec![item(1, "a"), item(2, "b")]),
        )
        .await
        .unwrap();
    let fork_point = ForkPoint {
        session: session.id.clone(),
        turn: first_turn.number,
        before_head_move: None,
    };
    let fork = store
        .fork_session(new_fork(2, 6), fork_point)
        .await
        .unwrap();
    let numbers = |versions: Vec<segue_core::checkpoint::CheckpointVersion>| {
        versions.iter().map(|version| version.n).collect::<Vec<_>>()
    };
    assert_eq!(numbers(store.checkpoints(&fork.id).await.unwrap()), [1]);
    store.delete_session(&lease).await.unwrap();
    assert_eq!(
        active_items(store, &fork.id, first_turn.id).await,
        Some((1, vec!["a".to_owned()]))
    );
    let granted = store
        .acquire_lease(lease_request(&session_id(2), 1))
        .await
        .unwrap();
    let next_version = new_checkpoint(first_turn.id, 1, vec![item(3, "c")]);
    assert_eq!(
        store
            .add_checkpoint(&granted.lease, next_version)
            .await
            .unwrap()
            .n,
        2
    );
    assert_eq!(numbers(store.checkpoints(&fork.id).await.unwrap()), [1, 2]);
    store.delete_session(&granted.lease).await.unwrap();
    assert_eq!(active_items(store, &fork.id, first_turn.id).await, None);
}

/// Verifies that a checkpoint on a shared turn belongs only to the session that made it, and that version numbers are
/// never reused.
#[expect(clippy::too_many_lines, reason = "one sequence of forks and versions")]
pub async fn a_checkpoint_on_a_shared_turn_belongs_to_one_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let first_turn = record_turn(store, &lease, "one").await;
    let second_turn = record_turn(store, &lease, "two").await;
    let new_version = |turn, second, text: &str| NewCheckpoint {
        at: time_at(second),
        ..new_checkpoint(turn, 1, vec![item(1, text)])
    };
    let add = async |lease, new| store.add_checkpoint(lease, new).await.unwrap().n;
    let active_text = async |id: &SessionId, turn| {
        let (version, checkpoint) = store.checkpoint_at(id, turn).await.unwrap()?;
        Some((version.n, checkpoint.items[0].text.clone()))
    };
    let expected = |n: u32, text: &str| Some((n, text.to_owned()));
    assert_eq!(
        add(&lease, new_version(first_turn.id, 5, "before")).await,
        1
    );
    let fork_point = ForkPoint {
        session: session.id.clone(),
        turn: second_turn.number,
        before_head_move: None,
    };
    let fork = store
        .fork_session(new_fork(2, 10), fork_point.clone())
        .await
        .unwrap();
    let fork_lease = store
        .acquire_lease(lease_request(&fork.id, 1))
        .await
        .unwrap()
        .lease;
    assert_eq!(
        add(&fork_lease, new_version(second_turn.id, 21, "of the fork")).await,
        2
    );
    assert_eq!(
        active_text(&session.id, second_turn.id).await,
        expected(1, "before")
    );
    assert_eq!(
        active_text(&fork.id, second_turn.id).await,
        expected(2, "of the fork")
    );
    assert_eq!(
        add(
            &lease,
            new_version(first_turn.id, 22, "of the first session")
        )
        .await,
        2
    );
    assert_eq!(
        active_text(&session.id, second_turn.id).await,
        expected(2, "of the first session")
    );
    assert_eq!(
        active_text(&fork.id, first_turn.id).await,
        expected(1, "before")
    );
    // A second fork has no version of the first fork, and a fork of a fork has the versions of its origin.
    let second_fork = store
        .fork_session(new_fork(3, 30), fork_point)
        .await
        .unwrap();
    assert_eq!(
        active_text(&second_fork.id, second_turn.id).await,
        expected(2, "of the first session")
    );
    let nested_point = ForkPoint {
        session: fork.id.clone(),
        turn: second_turn.number,
        before_head_move: None,
    };
    let nested_fork = store
        .fork_session(new_fork(4, 31), nested_point)
        .await
        .unwrap();
    assert_eq!(
        active_text(&nested_fork.id, second_turn.id).await,
        expected(2, "of the fork")
    );
    assert_eq!(
        active_text(&nested_fork.id, first_turn.id).await,
        expected(1, "before")
    );
    // A version number stays in use, wherever the head is.
    store
        .revert_head(&fork_lease, first_turn.id, time_at(32))
        .await
        .unwrap();
    assert_eq!(
        add(
            &fork_lease,
            new_version(first_turn.id, 33, "after the revert")
        )
        .await,
        3
    );
    let versions = store.checkpoints(&fork.id).await.unwrap();
    let numbers: Vec<u32> = versions.iter().map(|version| version.n).collect();
    assert_eq!(numbers, [1, 2, 3]);
    // The versions stay after the session from which it was forked was deleted.
    store.delete_session(&fork_lease).await.unwrap();
    assert_eq!(
        active_text(&nested_fork.id, second_turn.id).await,
        expected(2, "of the fork")
    );
    assert_eq!(
        active_text(&session.id, second_turn.id).await,
        expected(2, "of the first session")
    );
}

/// Verifies that a compaction stores its version, ends its leg and logs the decision together, or does nothing.
pub async fn a_compaction_is_committed_in_one_operation(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = record_turn(store, &lease, "one").await;
    let leg = store.open_leg(&lease, super::new_leg("n1")).await.unwrap();
    let summary = CompactionSummary {
        turns: 1,
        replaces_checkpoint: false,
        replaced_tokens: 90,
        checkpoint: 0,
        tokens: 10,
    };
    let commit = |leg| {
        let compaction = CompactionCommit {
            summary,
            ended_leg: Some(leg),
        };
        store.commit_compaction(&lease, new_checkpoint(turn.id, 1, vec![]), compaction)
    };
    let refused = commit(LegId::from_bits(leg.id.to_bits() + 1)).await;
    assert!(matches!(refused, Err(StoreError::NoLeg(_))));
    assert_eq!(store.checkpoints(&session.id).await.unwrap(), []);
    assert_eq!(store.decisions(&session.id, 9).await.unwrap(), []);
    let version = commit(leg.id).await.unwrap();
    assert_eq!(version.n, 1);
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].ended, Some((version.at, LegEnd::Compacted)));
    let logged = store.decisions(&session.id, 9).await.unwrap();
    let expected = Decision::SessionCompacted(CompactionSummary {
        checkpoint: 1,
        ..summary
    });
    assert_eq!(logged, [(version.at, expected)]);
}
