//! Contract cases for turns that were made in the agent's own program, and for the marks at which attempts ended.

use segue_core::id::{LegId, SessionId};
use segue_core::session::{Leg, Message, Role, Turn, TurnState, Usage, can_go_on};

use super::{at, claim, finished, id, native, new_session, open_session, owner, prompt, story};
use crate::{AdoptedTurn, Finish, Lease, Store, StoreError, TakenIn};

fn elsewhere(text: &str, second: i64) -> AdoptedTurn {
    AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            prompt(text, second),
            Message::text(Role::Assistant, "yes", at(second + 1)),
        ],
        usage: Usage {
            total_tokens: Some(5),
            context_tokens: Some(7),
            ..Usage::default()
        },
        started_at: at(second),
        ended_at: at(second + 1),
        mark: Some(format!("id:{text}")),
    }
}

fn taken(leg: &Leg, turns: Vec<AdoptedTurn>) -> TakenIn {
    TakenIn {
        leg: leg.id,
        finish: None,
        back_to: None,
        turns,
        at: at(90),
    }
}

/// Records a turn that was sent on a leg and is running.
async fn sent(store: &dyn Store, lease: &Lease, leg: &Leg, text: &str, second: i64) -> Turn {
    let turn = store
        .begin_turn(lease, &prompt(text, second))
        .await
        .unwrap();
    let begun = store.begin_attempt(lease, turn.id, leg.id, at(second));
    begun.await.unwrap();
    turn
}

async fn only_leg(store: &dyn Store, id: &SessionId) -> Leg {
    store.legs(id).await.unwrap().remove(0)
}

/// Verifies that the mark of a leg is the mark of its last attempt that has one.
pub async fn a_leg_knows_the_record_it_ended_at(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n-1")).await.unwrap();
    assert_eq!(leg.mark, None);
    for (text, mark) in [
        ("one", Some("line:10:0a")),
        ("two", Some("line:20:0b")),
        ("three", None),
    ] {
        let turn = sent(store, &lease, &leg, text, 1).await;
        store
            .finish_turn(&lease, turn.id, finished(2))
            .await
            .unwrap();
        if let Some(mark) = mark {
            store.mark_end(&lease, turn.id, mark).await.unwrap();
        }
        let attempts = store.attempts(turn.id).await.unwrap();
        assert_eq!(attempts[0].mark.as_deref(), mark);
    }
    let leg = only_leg(store, &session.id).await;
    assert_eq!(leg.mark.as_deref(), Some("line:20:0b"));
    // A turn that was never sent has no attempt that could store the mark.
    let unsent = store.begin_turn(&lease, &prompt("four", 3)).await.unwrap();
    store
        .mark_end(&lease, unsent.id, "line:30:0c")
        .await
        .unwrap();
    assert_eq!(only_leg(store, &session.id).await, leg);
    store.acquire(claim(&session.id, 2, 900)).await.unwrap();
    let stale = store.mark_end(&lease, unsent.id, "line:30:0c").await;
    assert!(matches!(stale, Err(StoreError::LeaseLost(_))));
}

/// Verifies that the store closes an interrupted turn, moves the head after a rewind and appends the turns made outside
/// segue, in one operation or not at all.
pub async fn what_a_native_session_adds_is_taken_in_at_once(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n-1")).await.unwrap();
    let cut = sent(store, &lease, &leg, "one", 10).await;
    let answer = Message::text(Role::Assistant, "recovered", at(12));
    let finish = Finish {
        messages: vec![(1, answer)],
        ..finished(12)
    };
    let both = TakenIn {
        finish: Some((cut.id, finish)),
        ..taken(&leg, vec![elsewhere("x", 20), elsewhere("y", 30)])
    };
    let now = store.take_in(&lease, both).await.unwrap();
    assert_eq!((now.turns, now.total_tokens), (3, Some(10)));
    assert_eq!(now.updated_at, at(31));
    assert_eq!(story(store, &session.id).await, ["one", "x", "y"]);
    let turns = store.turns(&session.id).await.unwrap();
    let outside: Vec<bool> = turns.iter().map(|turn| turn.outside).collect();
    assert_eq!(outside, [false, true, true]);
    assert_eq!(
        (turns[1].started_at, turns[1].ended_at),
        (at(20), Some(at(21)))
    );
    assert_eq!(turns[0].state, TurnState::Finished);
    assert_eq!(
        store.messages(cut.id).await.unwrap()[1].words(),
        "recovered"
    );
    let leg = only_leg(store, &session.id).await;
    assert_eq!(
        (leg.mark.as_deref(), leg.context_tokens),
        (Some("id:y"), Some(7))
    );
    assert!(can_go_on(&leg, &turns));

    // The user rewound the native session to the first turn and sent another prompt.
    let back = TakenIn {
        back_to: Some(cut.id),
        ..taken(&leg, vec![elsewhere("z", 40)])
    };
    store.take_in(&lease, back).await.unwrap();
    assert_eq!(story(store, &session.id).await, ["one", "z"]);
    let turns = store.turns(&session.id).await.unwrap();
    assert!(can_go_on(&only_leg(store, &session.id).await, &turns));
    store.undo(&lease, at(95)).await.unwrap();
    assert_eq!(story(store, &session.id).await, ["one", "x", "y"]);

    let nowhere = TakenIn {
        back_to: Some(segue_core::id::TurnId(9999)),
        ..taken(&leg, vec![elsewhere("never", 50)])
    };
    assert!(store.take_in(&lease, nowhere).await.is_err());
    assert_eq!(story(store, &session.id).await, ["one", "x", "y"]);
}

/// Verifies that turns made on top of reverted turns become a separate session that continues on the native session.
pub async fn turns_made_elsewhere_become_a_session_of_their_own(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n-1")).await.unwrap();
    let mut turns = Vec::new();
    for text in ["one", "two"] {
        let turn = sent(store, &lease, &leg, text, 10).await;
        store
            .finish_turn(&lease, turn.id, finished(11))
            .await
            .unwrap();
        turns.push(turn);
    }
    store.revert(&lease, turns[0].id, at(12)).await.unwrap();
    let mut counted = elsewhere("x", 20);
    for message in &mut counted.messages {
        message.tokens = Some(3);
    }
    let aside = taken(&leg, vec![counted]);
    let made = store
        .take_aside(&lease, new_session(2), owner(3), aside.clone())
        .await
        .unwrap();
    assert_eq!(made.forked_from, Some((session.id.clone(), 2)));
    assert_eq!(story(store, &id(2)).await, ["one", "two", "x"]);
    assert_eq!(story(store, &session.id).await, ["one"]);
    assert_eq!(store.holder(&id(2)).await.unwrap(), None);
    assert_eq!(store.turns_to(turns[1].id).await.unwrap().len(), 2);
    let chain = store.turns(&id(2)).await.unwrap();
    let carried = only_leg(store, &id(2)).await;
    assert!(can_go_on(&carried, &chain));
    assert_eq!(carried.native_id, leg.native_id);
    assert_eq!(store.leg(carried.id).await.unwrap(), Some(carried));
    assert_eq!(store.leg(LegId(i64::MAX)).await.unwrap(), None);
    // The native session contains earlier messages that were not counted for this leg.
    let granted = store.acquire(claim(&id(2), 4, 50)).await.unwrap();
    let last = chain.last().unwrap().id;
    let noted = store.note_estimate(&granted.lease, last, Some(1));
    noted.await.unwrap();
    let measured = store.measured(&made.provider, 9).await.unwrap();
    assert_eq!(measured, []);
    store.release(&granted.lease).await.unwrap();
    assert!(only_leg(store, &session.id).await.ended.is_some());
    // The leg has ended, so nothing can be taken from it.
    let again = store
        .take_aside(&lease, new_session(3), owner(3), aside)
        .await;
    assert!(matches!(again, Err(StoreError::NoLeg(_))));
    assert_eq!(store.session(&id(3)).await.unwrap(), None);

    store.delete(&lease).await.unwrap();
    assert_eq!(story(store, &id(2)).await, ["one", "two", "x"]);
}
