//! Contract cases for provider health, cooldowns and handoffs.

use segue_core::id::{LegId, ProviderId};
use segue_core::policy::{Rest, Standing};
use segue_core::session::{FailureClass, LegEnd, TurnState};

use super::{at, claim, finished, native, open_session, prompt, whole_turn};
use crate::{NewLeg, Settled, Store, StoreError};

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Verifies that provider health is stored for each provider and session, and is cleared by a write or with the
/// session.
pub async fn a_standing_is_kept_for_each_agent(store: &dyn Store) {
    let (one, lease) = open_session(store, 1).await;
    let (other, _) = open_session(store, 2).await;
    let (gemini, codex) = (provider("gemini"), provider("codex"));
    let clean = Standing::default();
    assert_eq!(store.standing(&one.id, &gemini).await.unwrap(), clean);
    let mut bad = Standing {
        failures: 2,
        limited: 1,
        rotations: 1,
        retry_at: Some(at(30)),
    };
    for failures in [2, 3] {
        bad.failures = failures;
        store.set_standing(&lease, &gemini, bad).await.unwrap();
        assert_eq!(store.standing(&one.id, &gemini).await.unwrap(), bad);
    }
    assert_eq!(store.standing(&one.id, &codex).await.unwrap(), clean);
    assert_eq!(store.standing(&other.id, &gemini).await.unwrap(), clean);
    store.release(&lease).await.unwrap();
    let granted = store.acquire(claim(&one.id, 2, 40)).await.unwrap();
    let stale = store.set_standing(&lease, &gemini, clean).await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))), "{stale:?}");
    let lease = granted.lease;
    store.set_standing(&lease, &gemini, clean).await.unwrap();
    assert_eq!(store.standing(&one.id, &gemini).await.unwrap(), clean);
    store.set_standing(&lease, &gemini, bad).await.unwrap();
    store.delete(&lease).await.unwrap();
    assert_eq!(store.standing(&one.id, &gemini).await.unwrap(), clean);
}

/// Verifies that the consequences of the end of a turn are recorded with it, or neither is.
pub async fn a_turn_ends_with_what_follows_from_it(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let gemini = provider("gemini");
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 1)).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, leg.id, at(2))
        .await
        .unwrap();
    let bad = Standing {
        rotations: 1,
        ..Standing::default()
    };
    let settled = Settled {
        mark: Some("m1".into()),
        standing: Some((gemini.clone(), bad)),
        ends: Some((leg.id, LegEnd::Errors)),
    };
    let of_nobody = Settled {
        ends: Some((LegId(leg.id.0 + 1), LegEnd::Errors)),
        ..settled.clone()
    };
    let refused = store.settle_turn(&lease, turn.id, finished(3), of_nobody);
    let refused = refused.await;
    assert!(matches!(refused, Err(StoreError::NoLeg(_))), "{refused:?}");
    let head = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(head.head_state, Some(TurnState::Running));
    let clean = store.standing(&session.id, &gemini).await.unwrap();
    assert_eq!(clean, Standing::default());
    let ended = store.settle_turn(&lease, turn.id, finished(3), settled);
    ended.await.unwrap();
    assert_eq!(store.standing(&session.id, &gemini).await.unwrap(), bad);
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].ended, Some((at(3), LegEnd::Errors)));
    assert_eq!(legs[0].mark.as_deref(), Some("m1"));
}

/// Verifies that a cooldown applies to a provider in all sessions until it is cleared.
pub async fn rests_are_of_the_agent_alone(store: &dyn Store) {
    assert_eq!(store.rests().await.unwrap(), []);
    let rest = |name: &str, second, class| Rest {
        provider: provider(name),
        until: at(second),
        class,
    };
    let first = rest("gemini", 10, FailureClass::Quota);
    let codex = rest("codex", 5, FailureClass::RateLimited);
    let later = rest("gemini", 20, FailureClass::RateLimited);
    for rest in [&first, &codex, &later] {
        store.rest(rest.clone()).await.unwrap();
    }
    assert_eq!(store.rests().await.unwrap(), [codex.clone(), later]);
    store.wake(&provider("gemini")).await.unwrap();
    store.wake(&provider("nobody")).await.unwrap();
    assert_eq!(store.rests().await.unwrap(), [codex]);
}

/// Verifies that a handoff ends the leg and changes the provider, and that it is refused while a turn is running.
pub async fn a_session_is_handed_over(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    whole_turn(store, &lease, "one").await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    let codex = provider("codex");
    let handed = store.hand_over(&lease, &codex, at(9)).await.unwrap();
    assert_eq!((&handed.provider, &handed.native_id), (&codex, &None));
    assert_eq!((handed.turns, handed.updated_at), (1, at(9)));
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].id, leg.id);
    assert_eq!(legs[0].ended, Some((at(9), LegEnd::Handoff)));
    let next = NewLeg {
        provider: codex.clone(),
        ..native("n2")
    };
    store.open_leg(&lease, next).await.unwrap();
    let session = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(session.native_id.unwrap().as_str(), "n2");
    store.begin_turn(&lease, &prompt("two", 10)).await.unwrap();
    let busy = store.hand_over(&lease, &provider("gemini"), at(11)).await;
    assert!(matches!(busy, Err(StoreError::TurnUnderWay(_))), "{busy:?}");
    let stale = crate::Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let stale = store.hand_over(&stale, &codex, at(12)).await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))), "{stale:?}");
}
