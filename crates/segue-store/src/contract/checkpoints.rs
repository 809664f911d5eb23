//! Contract cases for checkpoints, which are attached to turns and follow the head.

use segue_core::checkpoint::{Author, Checkpoint, Item, ItemKind, Occasion, Version};
use segue_core::id::{SessionId, TurnId};

use super::{at, claim, id, new_session, open_session, whole_turn};
use crate::{ForkPoint, NewSession, NewVersion, Store, StoreError};

fn item(id: u32, text: &str) -> Item {
    Item {
        id,
        kind: ItemKind::Directive,
        text: text.to_owned(),
        subject: None,
        turn: 1,
        message: 0,
        by: Author::Record,
        weight: 1,
        pinned: false,
    }
}

fn version(turn: TurnId, covers: u32, items: Vec<Item>) -> NewVersion {
    NewVersion {
        turn,
        covers,
        checkpoint: Checkpoint {
            items,
            loop_state: None,
        },
        tokens: 10,
        replaced: 100,
        by: Author::Record,
        why: Occasion::Budget,
        read: 0,
        at: at(5),
    }
}

/// Builds a session that is forked at the given time.
fn forked(n: u32, second: i64) -> NewSession {
    NewSession {
        at: at(second),
        ..new_session(n)
    }
}

async fn in_force(
    store: &dyn Store,
    session: &SessionId,
    turn: TurnId,
) -> Option<(u32, Vec<String>)> {
    let (version, checkpoint) = store.checkpoint_at(session, turn).await.unwrap()?;
    let items = checkpoint.items.into_iter().map(|item| item.text);
    Some((version.n, items.collect()))
}

/// Verifies that a version stores the last turn that a summariser read, and its highest item number.
pub async fn a_version_tells_what_was_read_and_numbered(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let one = whole_turn(store, &lease, "one").await;
    let new = |read, items: &[u32]| NewVersion {
        read,
        ..version(one.id, 1, items.iter().map(|id| item(*id, "x")).collect())
    };
    let mut made = Vec::new();
    for new in [new(0, &[1, 7]), new(1, &[1]), new(0, &[])] {
        made.push(store.add_checkpoint(&lease, new, None).await.unwrap());
    }
    let told = |versions: &[Version]| -> Vec<(u32, u32)> {
        let told = versions
            .iter()
            .map(|version| (version.read, version.last_item));
        told.collect()
    };
    assert_eq!(told(&made), [(0, 7), (1, 1), (0, 0)]);
    assert_eq!(store.checkpoints(&session.id).await.unwrap(), made);
}

/// Verifies that the version in effect belongs to the nearest turn at or before the head, wherever the head moves, and
/// that all versions are retained.
pub async fn a_checkpoint_follows_the_head(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let one = whole_turn(store, &lease, "one").await;
    let two = whole_turn(store, &lease, "two").await;
    assert_eq!(in_force(store, &session.id, two.id).await, None);
    let first = version(two.id, 2, vec![item(1, "a"), item(2, "b")]);
    assert_eq!(
        store.add_checkpoint(&lease, first, None).await.unwrap().n,
        1
    );
    let three = whole_turn(store, &lease, "three").await;
    let second = version(three.id, 3, vec![item(2, "b"), item(3, "c")]);
    let made = store.add_checkpoint(&lease, second, None).await.unwrap();
    assert_eq!((made.n, made.covers, made.saved()), (2, 3, 90));
    assert_eq!(in_force(store, &session.id, one.id).await, None);
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        in_force(store, &session.id, two.id).await,
        Some((1, words(&["a", "b"])))
    );
    assert_eq!(
        in_force(store, &session.id, three.id).await,
        Some((2, words(&["b", "c"])))
    );
    // A later version on the same turn replaces the earlier version; a version on another branch has no effect.
    let third = version(three.id, 3, vec![item(4, "d")]);
    store.add_checkpoint(&lease, third, None).await.unwrap();
    assert_eq!(
        in_force(store, &session.id, three.id).await,
        Some((3, words(&["d"])))
    );
    store.revert(&lease, two.id, at(9)).await.unwrap();
    let other = whole_turn(store, &lease, "other").await;
    assert_eq!(
        in_force(store, &session.id, other.id).await,
        Some((1, words(&["a", "b"])))
    );
    let fourth = version(other.id, 3, vec![item(5, "e")]);
    assert_eq!(
        store.add_checkpoint(&lease, fourth, None).await.unwrap().n,
        4
    );
    let all = store.checkpoints(&session.id).await.unwrap();
    let numbers: Vec<u32> = all.iter().map(|version| version.n).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let (_, old) = store.checkpoint(&session.id, 2).await.unwrap().unwrap();
    assert_eq!(old.items.len(), 2);
    assert_eq!(store.checkpoint(&session.id, 9).await.unwrap(), None);
    let stale = crate::Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let refused = store
        .add_checkpoint(&stale, version(other.id, 3, vec![]), None)
        .await;
    assert!(
        matches!(refused, Err(StoreError::LeaseLost(_))),
        "{refused:?}"
    );
}

/// Verifies that every version can be read, however many exist, because a store may save versions as differences.
pub async fn every_version_of_a_checkpoint_can_be_read(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = whole_turn(store, &lease, "one").await;
    let items = |n: u32| {
        (n..n + 5)
            .map(|id| item(id, &format!("{id} of {}", id / 3)))
            .collect::<Vec<_>>()
    };
    for n in 1..=40 {
        store
            .add_checkpoint(&lease, version(turn.id, 1, items(n)), None)
            .await
            .unwrap();
    }
    for n in 1..=40 {
        let (_, read) = store.checkpoint(&session.id, n).await.unwrap().unwrap();
        assert_eq!(read.items, items(n), "version {n}");
    }
}

/// Verifies that a fork has the checkpoints of the shared turns, also after the other session was deleted.
pub async fn a_fork_shares_checkpoints(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let one = whole_turn(store, &lease, "one").await;
    let two = whole_turn(store, &lease, "two").await;
    store
        .add_checkpoint(&lease, version(one.id, 1, vec![item(1, "a")]), None)
        .await
        .unwrap();
    store
        .add_checkpoint(
            &lease,
            version(two.id, 2, vec![item(1, "a"), item(2, "b")]),
            None,
        )
        .await
        .unwrap();
    let from = ForkPoint {
        session: session.id.clone(),
        turn: one.n,
        before_move: None,
    };
    let fork = store.fork(forked(2, 6), from).await.unwrap();
    let numbers = |versions: Vec<segue_core::checkpoint::Version>| {
        versions.iter().map(|version| version.n).collect::<Vec<_>>()
    };
    assert_eq!(numbers(store.checkpoints(&fork.id).await.unwrap()), [1]);
    store.delete(&lease).await.unwrap();
    assert_eq!(
        in_force(store, &fork.id, one.id).await,
        Some((1, vec!["a".to_owned()]))
    );
    let granted = store.acquire(claim(&id(2), 1, 20)).await.unwrap();
    let next = version(one.id, 1, vec![item(3, "c")]);
    assert_eq!(
        store
            .add_checkpoint(&granted.lease, next, None)
            .await
            .unwrap()
            .n,
        2
    );
    assert_eq!(numbers(store.checkpoints(&fork.id).await.unwrap()), [1, 2]);
    store.delete(&granted.lease).await.unwrap();
    assert_eq!(in_force(store, &fork.id, one.id).await, None);
}

/// Verifies that a checkpoint on a shared turn belongs only to the session that made it, and that version numbers are
/// never reused.
pub async fn a_fork_keeps_its_checkpoints_to_itself(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let one = whole_turn(store, &lease, "one").await;
    let two = whole_turn(store, &lease, "two").await;
    let made = |turn, second, text: &str| NewVersion {
        at: at(second),
        ..version(turn, 1, vec![item(1, text)])
    };
    let add = async |lease, new| store.add_checkpoint(lease, new, None).await.unwrap().n;
    let says = async |id: &SessionId, turn| {
        let (version, checkpoint) = store.checkpoint_at(id, turn).await.unwrap()?;
        Some((version.n, checkpoint.items[0].text.clone()))
    };
    let said = |n: u32, text: &str| Some((n, text.to_owned()));
    assert_eq!(add(&lease, made(one.id, 5, "before")).await, 1);
    let from = ForkPoint {
        session: session.id.clone(),
        turn: two.n,
        before_move: None,
    };
    let fork = store.fork(forked(2, 10), from.clone()).await.unwrap();
    let other = store.acquire(claim(&fork.id, 1, 20)).await.unwrap().lease;
    assert_eq!(add(&other, made(two.id, 21, "the fork's")).await, 2);
    assert_eq!(says(&session.id, two.id).await, said(1, "before"));
    assert_eq!(says(&fork.id, two.id).await, said(2, "the fork's"));
    assert_eq!(add(&lease, made(one.id, 22, "the first one's")).await, 2);
    assert_eq!(says(&session.id, two.id).await, said(2, "the first one's"));
    assert_eq!(says(&fork.id, one.id).await, said(1, "before"));
    // A second fork has no version of the first fork, and a fork of a fork has the versions of its origin.
    let second = store.fork(forked(3, 30), from).await.unwrap();
    assert_eq!(says(&second.id, two.id).await, said(2, "the first one's"));
    let of_fork = ForkPoint {
        session: fork.id.clone(),
        turn: two.n,
        before_move: None,
    };
    let third = store.fork(forked(4, 31), of_fork).await.unwrap();
    assert_eq!(says(&third.id, two.id).await, said(2, "the fork's"));
    assert_eq!(says(&third.id, one.id).await, said(1, "before"));
    // A version number stays in use, wherever the head is.
    store.revert(&other, one.id, at(32)).await.unwrap();
    assert_eq!(add(&other, made(one.id, 33, "gone back")).await, 3);
    let numbers = store.checkpoints(&fork.id).await.unwrap();
    let numbers: Vec<u32> = numbers.iter().map(|version| version.n).collect();
    assert_eq!(numbers, [1, 2, 3]);
    // The versions stay after the session from which it was forked was deleted.
    store.delete(&other).await.unwrap();
    assert_eq!(says(&third.id, two.id).await, said(2, "the fork's"));
    assert_eq!(says(&session.id, two.id).await, said(2, "the first one's"));
}
