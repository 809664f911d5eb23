//! Contract cases for turns that were made in the agent's own program, and for the marks at which attempts ended.

use segue_core::id::{LegId, SessionId};
use segue_core::session::{Leg, Message, Role, Turn, TurnState, Usage, can_resume_leg};

use super::{
    finished_ending, lease_request, list_prompts, new_leg, new_session, open_session, owner,
    prompt, session_id, take_over, time_at,
};
use crate::{AdoptedTurn, Lease, NativeUpdate, Store, StoreError, TurnEnding};

fn outside_turn(text: &str, second: i64) -> AdoptedTurn {
    AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            prompt(text, second),
            Message::from_text(Role::Assistant, "yes", time_at(second + 1)),
        ],
        usage: Usage {
            total_tokens: Some(5),
            context_tokens: Some(7),
            ..Usage::default()
        },
        started_at: time_at(second),
        ended_at: time_at(second + 1),
        mark: Some(format!("id:{text}")),
    }
}

fn native_update(leg: &Leg, turns: Vec<AdoptedTurn>) -> NativeUpdate {
    NativeUpdate {
        leg: leg.id,
        interrupted_turn: None,
        rewound_to: None,
        turns,
        at: time_at(90),
    }
}

/// Records a turn that was sent on a leg and is running.
async fn send_turn(store: &dyn Store, lease: &Lease, leg: &Leg, text: &str, second: i64) -> Turn {
    let turn = store
        .begin_turn(lease, &prompt(text, second))
        .await
        .unwrap();
    let attempt = store.begin_attempt(lease, turn.id, leg.id, time_at(second));
    attempt.await.unwrap();
    turn
}

async fn only_leg(store: &dyn Store, id: &SessionId) -> Leg {
    store.legs(id).await.unwrap().remove(0)
}

/// Verifies that the mark of a leg is the mark of its last attempt that has one.
pub async fn a_leg_has_the_mark_of_its_last_marked_attempt(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n-1")).await.unwrap();
    assert_eq!(leg.mark, None);
    for (text, mark) in [
        ("one", Some("line:10:0a")),
        ("two", Some("line:20:0b")),
        ("three", None),
    ] {
        let turn = send_turn(store, &lease, &leg, text, 1).await;
        store
            .finish_turn(&lease, turn.id, finished_ending(2))
            .await
            .unwrap();
        if let Some(mark) = mark {
            store.set_attempt_mark(&lease, turn.id, mark).await.unwrap();
        }
        let attempts = store.attempts(turn.id).await.unwrap();
        assert_eq!(attempts[0].mark.as_deref(), mark);
    }
    let leg = only_leg(store, &session.id).await;
    assert_eq!(leg.mark.as_deref(), Some("line:20:0b"));
    // A turn that was never sent has no attempt that could store the mark.
    let unsent = store.begin_turn(&lease, &prompt("four", 3)).await.unwrap();
    store
        .set_attempt_mark(&lease, unsent.id, "line:30:0c")
        .await
        .unwrap();
    assert_eq!(only_leg(store, &session.id).await, leg);
    take_over(store, &lease).await;
    let stale = store
        .set_attempt_mark(&lease, unsent.id, "line:30:0c")
        .await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))));
}

/// Verifies that the store closes an interrupted turn, moves the head after a rewind and appends the turns made outside
/// segue, in one operation or not at all.
pub async fn a_native_update_is_applied_in_one_operation(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n-1")).await.unwrap();
    let interrupted = send_turn(store, &lease, &leg, "one", 10).await;
    let answer = Message::from_text(Role::Assistant, "recovered", time_at(12));
    let ending = TurnEnding {
        messages: vec![(1, answer)],
        ..finished_ending(12)
    };
    let update = NativeUpdate {
        interrupted_turn: Some((interrupted.id, ending)),
        ..native_update(&leg, vec![outside_turn("x", 20), outside_turn("y", 30)])
    };
    let updated = store.apply_native_update(&lease, update).await.unwrap();
    assert_eq!((updated.turns, updated.total_tokens), (3, Some(10)));
    assert_eq!(updated.updated_at, time_at(31));
    assert_eq!(list_prompts(store, &session.id).await, ["one", "x", "y"]);
    let turns = store.turns(&session.id).await.unwrap();
    let outside: Vec<bool> = turns.iter().map(|turn| turn.made_outside).collect();
    assert_eq!(outside, [false, true, true]);
    assert_eq!(
        (turns[1].started_at, turns[1].ended_at),
        (time_at(20), Some(time_at(21)))
    );
    assert_eq!(turns[0].state, TurnState::Finished);
    assert_eq!(
        store.messages(interrupted.id).await.unwrap()[1].plain_text(),
        "recovered"
    );
    let leg = only_leg(store, &session.id).await;
    assert_eq!(
        (leg.mark.as_deref(), leg.context_tokens),
        (Some("id:y"), Some(7))
    );
    assert!(can_resume_leg(&leg, &turns));

    // The user rewound the native session to the first turn and sent another prompt.
    let rewind = NativeUpdate {
        rewound_to: Some(interrupted.id),
        ..native_update(&leg, vec![outside_turn("z", 40)])
    };
    store.apply_native_update(&lease, rewind).await.unwrap();
    assert_eq!(list_prompts(store, &session.id).await, ["one", "z"]);
    let turns = store.turns(&session.id).await.unwrap();
    assert!(can_resume_leg(&only_leg(store, &session.id).await, &turns));
    store.undo_revert(&lease, time_at(95)).await.unwrap();
    assert_eq!(list_prompts(store, &session.id).await, ["one", "x", "y"]);

    let invalid_rewind = NativeUpdate {
        rewound_to: Some(segue_core::id::TurnId::from_bits(9999)),
        ..native_update(&leg, vec![outside_turn("never", 50)])
    };
    assert!(
        store
            .apply_native_update(&lease, invalid_rewind)
            .await
            .is_err()
    );
    assert_eq!(list_prompts(store, &session.id).await, ["one", "x", "y"]);
}

/// Verifies that turns made on top of reverted turns become a separate session that continues on the native session.
pub async fn native_turns_on_a_reverted_path_become_a_separate_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n-1")).await.unwrap();
    let mut turns = Vec::new();
    for text in ["one", "two"] {
        let turn = send_turn(store, &lease, &leg, text, 10).await;
        store
            .finish_turn(&lease, turn.id, finished_ending(11))
            .await
            .unwrap();
        turns.push(turn);
    }
    store
        .revert_head(&lease, turns[0].id, time_at(12))
        .await
        .unwrap();
    let mut counted_turn = outside_turn("x", 20);
    for message in &mut counted_turn.messages {
        message.tokens = Some(3);
    }
    let update = native_update(&leg, vec![counted_turn]);
    let fork = store
        .fork_native_update(&lease, new_session(2), owner(3), update.clone())
        .await
        .unwrap();
    assert_eq!(fork.forked_from, Some((session.id.clone(), 2)));
    assert_eq!(
        list_prompts(store, &session_id(2)).await,
        ["one", "two", "x"]
    );
    assert_eq!(list_prompts(store, &session.id).await, ["one"]);
    assert_eq!(store.lease_holder(&session_id(2)).await.unwrap(), None);
    assert_eq!(store.turns_up_to(turns[1].id).await.unwrap().len(), 2);
    let chain = store.turns(&session_id(2)).await.unwrap();
    let fork_leg = only_leg(store, &session_id(2)).await;
    assert!(can_resume_leg(&fork_leg, &chain));
    assert_eq!(fork_leg.native_id, leg.native_id);
    assert_eq!(
        store.leg(fork_leg.id).await.unwrap().as_ref(),
        Some(&fork_leg)
    );
    assert_eq!(store.leg(LegId::from_bits(u64::MAX)).await.unwrap(), None);
    // The native session contains earlier messages that were not counted for this leg.
    assert_eq!(fork_leg.estimated_tokens, None);
    let granted = store
        .acquire_lease(lease_request(&session_id(2), 4))
        .await
        .unwrap();
    let measurements = store.context_measurements(&fork.provider, 9).await.unwrap();
    assert_eq!(measurements, []);
    store.release_lease(&granted.lease).await.unwrap();
    assert!(only_leg(store, &session.id).await.ended.is_some());
    // The leg has ended, so nothing can be taken from it.
    let repeated = store
        .fork_native_update(&lease, new_session(3), owner(3), update)
        .await;
    assert!(matches!(repeated, Err(StoreError::NoLeg(_))));
    assert_eq!(store.session(&session_id(3)).await.unwrap(), None);

    store.delete_session(&lease).await.unwrap();
    assert_eq!(
        list_prompts(store, &session_id(2)).await,
        ["one", "two", "x"]
    );
}
