//! Contract cases for leases, which allow one writer at a time.

use futures::future::join_all;
use segue_core::id::NativeId;
use segue_core::session::{Decision, DecisionKind, Failure, FailureClass, Title};

use super::{at, claim, finished, new_session, open_session, owner, prompt};
use crate::{Entry, Store, StoreError};

/// Verifies that a second request is refused and names the owner, until the first lease is released.
pub async fn a_lease_excludes_others_until_released(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    store
        .heartbeat(&lease, Some(owner(77)), at(2))
        .await
        .unwrap();
    match store.acquire(claim(&session.id, 2, 3)).await {
        Err(StoreError::Held { by, .. }) => {
            assert!(by.waits(), "its agent runs, and no turn does");
            assert_eq!((by.owner.pid, by.agent), (1, Some(owner(77))));
        }
        other => panic!("expected the holder to be named, got {other:?}"),
    }
    store.release(&lease).await.unwrap();
    assert_eq!(store.holder(&session.id).await.unwrap(), None);
    let granted = store.acquire(claim(&session.id, 2, 4)).await.unwrap();
    assert!(granted.taken_from.is_none());
    assert!(granted.lease.epoch > lease.epoch);
    // An operation that needs no lease does not wait for a lease.
    store
        .rename(&session.id, &Title::from_prompt("x"))
        .await
        .unwrap();
}

/// Verifies that an owner without a heartbeat loses its lease, and that a heartbeat extends it.
pub async fn a_silent_holder_loses_its_lease(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    store.heartbeat(&lease, None, at(100)).await.unwrap();
    assert!(store.acquire(claim(&session.id, 2, 399)).await.is_err());
    let granted = store.acquire(claim(&session.id, 2, 400)).await.unwrap();
    assert_eq!(granted.taken_from.unwrap().owner, owner(1));
}

/// Verifies that the lease of a dead owner is taken over at once, but only the lease whose owner was checked.
pub async fn a_dead_holder_is_taken_over(store: &dyn Store) {
    let (session, first) = open_session(store, 1).await;
    store
        .heartbeat(&first, Some(owner(77)), at(2))
        .await
        .unwrap();
    let mut request = claim(&session.id, 2, 3);
    request.dead_epoch = Some(first.epoch);
    let granted = store.acquire(request.clone()).await.unwrap();
    assert_eq!(granted.taken_from.unwrap().agent, Some(owner(77)));
    // A second process that found the same dead owner is too late.
    request.owner = owner(3);
    assert!(matches!(
        store.acquire(request).await,
        Err(StoreError::Held { .. })
    ));
}

/// Verifies that a previous owner cannot change anything after its lease was taken over.
pub async fn a_stale_lease_writes_nothing(store: &dyn Store) {
    let (session, old) = open_session(store, 1).await;
    let turn = store.begin_turn(&old, &prompt("one", 0)).await.unwrap();
    let leg = store.open_leg(&old, super::native("n1")).await.unwrap();
    let holder = store.holder(&session.id).await.unwrap().unwrap();
    assert_eq!((holder.turn, holder.waits()), (Some(1), false));
    store.acquire(claim(&session.id, 2, 1000)).await.unwrap();

    let entry = Entry::Message {
        seq: 1,
        message: prompt("late", 0),
    };
    let refusals = [
        store.append(&old, turn.id, entry).await.err(),
        store
            .begin_attempt(&old, turn.id, leg.id, at(0))
            .await
            .err(),
        store.finish_turn(&old, turn.id, finished(9)).await.err(),
        store.begin_turn(&old, &prompt("two", 0)).await.err(),
        store.add_message(&old, &prompt("two", 0)).await.err(),
        store.open_leg(&old, super::native("n2")).await.err(),
        store
            .end_leg(&old, leg.id, segue_core::session::LegEnd::Lost, at(0))
            .await
            .err(),
        store.revert(&old, turn.id, at(0)).await.err(),
        store.undo(&old, at(0)).await.err(),
        store
            .note(&old, &Decision::new(DecisionKind::Oddity, "late"), at(0))
            .await
            .err(),
        store
            .name_leg(&old, leg.id, &NativeId::parse("late").unwrap())
            .await
            .err(),
        store
            .fail_attempt(
                &old,
                turn.id,
                &Failure::new(FailureClass::Agent, "late"),
                at(0),
            )
            .await
            .err(),
        store.heartbeat(&old, None, at(0)).await.err(),
        store.release(&old).await.err(),
        store.delete(&old).await.err(),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        assert!(
            matches!(refusal, Some(StoreError::LeaseLost(_))),
            "write {n}: {refusal:?}"
        );
    }
    assert_eq!(store.messages(turn.id).await.unwrap().len(), 1);
    assert_eq!(store.legs(&session.id).await.unwrap().len(), 1);
    assert!(store.holder(&session.id).await.unwrap().is_some());
}

/// Verifies that exactly one of many concurrent requests is granted.
pub async fn one_claim_wins_when_many_race(store: &dyn Store) {
    let session = store.create(new_session(1)).await.unwrap();
    let claims = (1..=20).map(|pid| store.acquire(claim(&session.id, pid, 1)));
    let outcomes = join_all(claims).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}
