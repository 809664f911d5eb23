//! Contract cases for provider health, cooldowns and handoffs.

use segue_core::id::{LegId, ProviderId};
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::session::{FailureClass, LegEnd, TurnState};

use super::{finished_ending, lease_request, new_leg, open_session, prompt, record_turn, time_at};
use crate::{NewLeg, SettleEffects, Store, StoreError};

fn provider_id(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Verifies that provider health is stored for each provider and session, and is cleared by a write or with the
/// session.
pub async fn provider_health_is_stored_per_provider_and_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let (other_session, _) = open_session(store, 2).await;
    let (gemini, codex) = (provider_id("gemini"), provider_id("codex"));
    let clean = ProviderHealth::default();
    assert_eq!(
        store.provider_health(&session.id, &gemini).await.unwrap(),
        clean
    );
    let mut bad = ProviderHealth {
        failures: 2,
        rate_limit_failures: 1,
        failed_legs: 1,
        retry_at: Some(time_at(30)),
    };
    for failures in [2, 3] {
        bad.failures = failures;
        store
            .set_provider_health(&lease, &gemini, bad)
            .await
            .unwrap();
        assert_eq!(
            store.provider_health(&session.id, &gemini).await.unwrap(),
            bad
        );
    }
    assert_eq!(
        store.provider_health(&session.id, &codex).await.unwrap(),
        clean
    );
    assert_eq!(
        store
            .provider_health(&other_session.id, &gemini)
            .await
            .unwrap(),
        clean
    );
    store.release_lease(&lease).await.unwrap();
    let granted = store
        .acquire_lease(lease_request(&session.id, 2))
        .await
        .unwrap();
    let stale = store.set_provider_health(&lease, &gemini, clean).await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))), "{stale:?}");
    let lease = granted.lease;
    store
        .set_provider_health(&lease, &gemini, clean)
        .await
        .unwrap();
    assert_eq!(
        store.provider_health(&session.id, &gemini).await.unwrap(),
        clean
    );
    store
        .set_provider_health(&lease, &gemini, bad)
        .await
        .unwrap();
    store.delete_session(&lease).await.unwrap();
    assert_eq!(
        store.provider_health(&session.id, &gemini).await.unwrap(),
        clean
    );
}

/// Verifies that the consequences of the end of a turn are recorded with it, or neither is.
pub async fn a_turn_ends_together_with_its_effects(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let gemini = provider_id("gemini");
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 1)).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, leg.id, time_at(2))
        .await
        .unwrap();
    let bad = ProviderHealth {
        failed_legs: 1,
        ..ProviderHealth::default()
    };
    let effects = SettleEffects {
        mark: Some("m1".into()),
        provider_health: Some((gemini.clone(), bad)),
        ended_leg: Some((leg.id, LegEnd::Errors)),
        tokens: None,
    };
    let unknown_leg_effects = SettleEffects {
        ended_leg: Some((LegId::from_bits(leg.id.to_bits() + 1), LegEnd::Errors)),
        ..effects.clone()
    };
    let refused = store.settle_turn(&lease, turn.id, finished_ending(3), unknown_leg_effects);
    let refused = refused.await;
    assert!(matches!(refused, Err(StoreError::NoLeg(_))), "{refused:?}");
    let current = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(current.head_state, Some(TurnState::Running));
    let clean = store.provider_health(&session.id, &gemini).await.unwrap();
    assert_eq!(clean, ProviderHealth::default());
    let ended = store.settle_turn(&lease, turn.id, finished_ending(3), effects);
    ended.await.unwrap();
    assert_eq!(
        store.provider_health(&session.id, &gemini).await.unwrap(),
        bad
    );
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].ended, Some((time_at(3), LegEnd::Errors)));
    assert_eq!(legs[0].mark.as_deref(), Some("m1"));
}

/// Verifies that a cooldown applies to a provider in all sessions until it is cleared.
pub async fn a_cooldown_applies_to_a_provider_in_all_sessions(store: &dyn Store) {
    assert_eq!(store.cooldowns().await.unwrap(), []);
    let new_cooldown = |name: &str, second, class| Cooldown {
        provider: provider_id(name),
        until: time_at(second),
        class,
    };
    let first = new_cooldown("gemini", 10, FailureClass::Quota);
    let codex = new_cooldown("codex", 5, FailureClass::RateLimited);
    let later = new_cooldown("gemini", 20, FailureClass::RateLimited);
    for cooldown in [&first, &codex, &later] {
        store.set_cooldown(cooldown.clone()).await.unwrap();
    }
    assert_eq!(store.cooldowns().await.unwrap(), [codex.clone(), later]);
    store.clear_cooldown(&provider_id("gemini")).await.unwrap();
    store.clear_cooldown(&provider_id("nobody")).await.unwrap();
    assert_eq!(store.cooldowns().await.unwrap(), [codex]);
}

/// Verifies that a handoff ends the leg and changes the provider, and that it is refused while a turn is running.
pub async fn a_handoff_changes_the_provider_and_ends_the_leg(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    record_turn(store, &lease, "one").await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let codex = provider_id("codex");
    let updated = store
        .change_provider(&lease, &codex, time_at(9))
        .await
        .unwrap();
    assert_eq!((&updated.provider, &updated.native_id), (&codex, &None));
    assert_eq!((updated.turns, updated.updated_at), (1, time_at(9)));
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].id, leg.id);
    assert_eq!(legs[0].ended, Some((time_at(9), LegEnd::Handoff)));
    let next = NewLeg {
        provider: codex.clone(),
        ..new_leg("n2")
    };
    store.open_leg(&lease, next).await.unwrap();
    let session = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(session.native_id.unwrap().as_str(), "n2");
    store.begin_turn(&lease, &prompt("two", 10)).await.unwrap();
    let busy = store
        .change_provider(&lease, &provider_id("gemini"), time_at(11))
        .await;
    assert!(matches!(busy, Err(StoreError::TurnRunning(_))), "{busy:?}");
    let stale = crate::Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let stale = store.change_provider(&stale, &codex, time_at(12)).await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))), "{stale:?}");
}
