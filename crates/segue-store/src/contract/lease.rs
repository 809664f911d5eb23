//! Contract cases for leases, which allow one writer at a time.

use futures::future::join_all;
use jiff::SignedDuration;
use segue_core::id::NativeId;
use segue_core::session::{Decision, Failure, FailureClass, Title};

use super::{
    ManualClock, finished_ending, lease_request, new_session, open_session, owner, prompt,
    take_over, time_at,
};
use crate::{Store, StoreError, TurnEntry};

/// Verifies that a second request is refused and names the owner, until the first lease is released.
pub async fn a_lease_excludes_other_processes_until_released(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    store
        .record_heartbeat(&lease, Some(owner(77)))
        .await
        .unwrap();
    match store.acquire_lease(lease_request(&session.id, 2)).await {
        Err(StoreError::Leased { holder, .. }) => {
            assert!(holder.is_idle(), "the agent runs, but no turn does");
            assert_eq!((holder.owner.pid, holder.agent), (1, Some(owner(77))));
        }
        result => panic!("expected the holder to be named, got {result:?}"),
    }
    store.release_lease(&lease).await.unwrap();
    assert_eq!(store.lease_holder(&session.id).await.unwrap(), None);
    let granted = store
        .acquire_lease(lease_request(&session.id, 2))
        .await
        .unwrap();
    assert!(granted.previous_holder.is_none());
    assert!(granted.lease.epoch > lease.epoch);
    // An operation that needs no lease does not wait for a lease.
    store
        .rename_session(&session.id, &Title::from_prompt("x"))
        .await
        .unwrap();
}

/// Verifies that an owner without a heartbeat loses its lease, and that a heartbeat extends it.
pub async fn a_silent_holder_loses_its_lease(store: &dyn Store, clock: &ManualClock) {
    let (session, lease) = open_session(store, 1).await;
    clock.set(100);
    store.record_heartbeat(&lease, None).await.unwrap();
    clock.set(399);
    let refused = store.acquire_lease(lease_request(&session.id, 2)).await;
    assert!(matches!(refused, Err(StoreError::Leased { .. })));
    let holder = store.lease_holder(&session.id).await.unwrap().unwrap();
    assert_eq!(holder.silent_for, SignedDuration::from_secs(299));
    clock.set(400);
    assert_eq!(store.store_time().await.unwrap(), time_at(400));
    let granted = store.acquire_lease(lease_request(&session.id, 2)).await;
    let granted = granted.unwrap();
    assert_eq!(granted.previous_holder.unwrap().owner, owner(1));
    let holder = store.lease_holder(&session.id).await.unwrap().unwrap();
    assert_eq!(holder.acquired_at, time_at(400));
}

/// Verifies that the times which clients pass for the record have no effect on leases: a client whose clock is a day
/// ahead does not take over the lease of a living owner, and one whose clock is a day behind does not lose its own.
pub async fn a_client_with_a_wrong_clock_steals_and_loses_nothing(
    store: &dyn Store,
    clock: &ManualClock,
) {
    const DAY_SECONDS: i64 = 86_400;
    for (n, offset) in [(1, -DAY_SECONDS), (2, DAY_SECONDS)] {
        clock.set(1000);
        let mut new = new_session(n);
        new.at = time_at(1000 + offset);
        let started = store
            .start_session(new, owner(1), &prompt("go", 1000 + offset))
            .await
            .unwrap();
        let (lease, turn) = (started.lease, started.turn.id);
        let request = lease_request(&lease.session, 2);
        clock.set(1299);
        let refused = store.acquire_lease(request.clone()).await;
        assert!(
            matches!(refused, Err(StoreError::Leased { .. })),
            "{offset}"
        );
        store.record_heartbeat(&lease, None).await.unwrap();
        clock.set(1598);
        let entry = TurnEntry::Message {
            seq: 1,
            message: prompt("on", 1598 + offset),
        };
        store.append_entry(&lease, turn, entry).await.unwrap();
        let refused = store.acquire_lease(request.clone()).await;
        assert!(
            matches!(refused, Err(StoreError::Leased { .. })),
            "{offset}"
        );
        store
            .finish_turn(&lease, turn, finished_ending(1598 + offset))
            .await
            .unwrap();
        clock.set(1599);
        store.acquire_lease(request).await.unwrap();
    }
}

/// Verifies that the lease of a dead owner is taken over at once, but only the lease whose owner was checked.
pub async fn the_lease_of_a_dead_holder_is_taken_over(store: &dyn Store) {
    let (session, first) = open_session(store, 1).await;
    store
        .record_heartbeat(&first, Some(owner(77)))
        .await
        .unwrap();
    let mut request = lease_request(&session.id, 2);
    request.dead_epoch = Some(first.epoch);
    let granted = store.acquire_lease(request.clone()).await.unwrap();
    assert_eq!(granted.previous_holder.unwrap().agent, Some(owner(77)));
    // A second process that found the same dead owner is too late.
    request.owner = owner(3);
    assert!(matches!(
        store.acquire_lease(request).await,
        Err(StoreError::Leased { .. })
    ));
}

/// Verifies that a previous owner cannot change anything after its lease was taken over.
#[expect(clippy::too_many_lines, reason = "a list of writes")]
pub async fn a_stale_lease_cannot_write(store: &dyn Store) {
    let (session, stale_lease) = open_session(store, 1).await;
    let turn = store
        .begin_turn(&stale_lease, &prompt("one", 0))
        .await
        .unwrap();
    let leg = store
        .open_leg(&stale_lease, super::new_leg("n1"))
        .await
        .unwrap();
    let holder = store.lease_holder(&session.id).await.unwrap().unwrap();
    assert_eq!((holder.running_turn, holder.is_idle()), (Some(1), false));
    take_over(store, &stale_lease).await;

    let entry = TurnEntry::Message {
        seq: 1,
        message: prompt("late", 0),
    };
    let refusals = [
        store.append_entry(&stale_lease, turn.id, entry).await.err(),
        store
            .begin_attempt(&stale_lease, turn.id, leg.id, time_at(0))
            .await
            .err(),
        store
            .finish_turn(&stale_lease, turn.id, finished_ending(9))
            .await
            .err(),
        store
            .begin_turn(&stale_lease, &prompt("two", 0))
            .await
            .err(),
        store
            .add_message(&stale_lease, &prompt("two", 0))
            .await
            .err(),
        store
            .open_leg(&stale_lease, super::new_leg("n2"))
            .await
            .err(),
        store
            .end_leg(
                &stale_lease,
                leg.id,
                segue_core::session::LegEnd::Lost,
                time_at(0),
            )
            .await
            .err(),
        store
            .revert_head(&stale_lease, turn.id, time_at(0))
            .await
            .err(),
        store.undo_revert(&stale_lease, time_at(0)).await.err(),
        store
            .log_decision(&stale_lease, &Decision::AgentRefused, time_at(0))
            .await
            .err(),
        store
            .set_leg_native_id(&stale_lease, leg.id, &NativeId::parse("late").unwrap())
            .await
            .err(),
        store
            .fail_attempt(
                &stale_lease,
                turn.id,
                &Failure::new(FailureClass::Agent, "late"),
                time_at(0),
            )
            .await
            .err(),
        store.record_heartbeat(&stale_lease, None).await.err(),
        store.release_lease(&stale_lease).await.err(),
        store.delete_session(&stale_lease).await.err(),
    ];
    for (n, refusal) in refusals.into_iter().enumerate() {
        assert!(
            matches!(refusal, Some(StoreError::LeaseLost(_))),
            "write {n}: {refusal:?}"
        );
    }
    assert_eq!(store.messages(turn.id).await.unwrap().len(), 1);
    assert_eq!(store.legs(&session.id).await.unwrap().len(), 1);
    assert!(store.lease_holder(&session.id).await.unwrap().is_some());
}

/// Verifies that exactly one of many concurrent requests is granted.
pub async fn exactly_one_concurrent_lease_request_is_granted(store: &dyn Store) {
    let session = store.create_session(new_session(1)).await.unwrap();
    let requests = (1..=20).map(|pid| store.acquire_lease(lease_request(&session.id, pid)));
    let outcomes = join_all(requests).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}
