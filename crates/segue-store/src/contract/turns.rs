//! Contract cases for turns and their messages.

use futures::future::join_all;
use segue_core::hint::Hint;
use segue_core::id::{NativeId, ProviderId, TurnId};
use segue_core::json::Json;
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::samples::sample_hints;
use segue_core::session::{
    Decision, Failure, FailureClass, InlineData, LegEnd, Message, Part, Role, TurnState, Usage,
};

use super::{finished_ending, list_prompts, new_leg, open_session, prompt, record_turn, time_at};
use crate::{
    ContextLossState, Draft, DraftKind, NewLeg, NewTurn, Store, StoreError, TurnEnding, TurnEntry,
};

fn message_entry(seq: u32, text: &str) -> TurnEntry {
    TurnEntry::Message {
        seq,
        message: Message::from_text(Role::Assistant, text, time_at(2)),
    }
}

fn draft_entry(seq: u32, kind: DraftKind, text: &str) -> TurnEntry {
    TurnEntry::Draft(Draft {
        seq,
        kind,
        text: text.into(),
        at: time_at(3),
    })
}

/// Verifies that all data of a turn is recorded, from the prompt to the usage.
pub async fn a_turn_is_recorded_completely(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    assert_eq!(
        (turn.number, turn.parent, turn.state),
        (1, None, TurnState::Running)
    );
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    assert_eq!((leg.number, leg.tip), (1, None));
    store
        .begin_attempt(&lease, turn.id, leg.id, time_at(3))
        .await
        .unwrap();
    store
        .append_entry(&lease, turn.id, message_entry(1, "gone"))
        .await
        .unwrap();
    let usage = Usage {
        input_tokens: Some(10),
        output_tokens: Some(3),
        cached_tokens: None,
        total_tokens: Some(13),
        context_tokens: Some(11),
        context_window: Some(1000),
    };
    let closing = Message::from_text(Role::System, "bye", time_at(4));
    let ending = TurnEnding {
        usage,
        messages: vec![(2, closing.clone())],
        ..finished_ending(4)
    };
    store.finish_turn(&lease, turn.id, ending).await.unwrap();

    let turns = store.turns(&session.id).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].state, TurnState::Finished);
    assert_eq!((turns[0].usage, turns[0].sent), (usage, true));
    assert_eq!(
        (turns[0].started_at, turns[0].ended_at),
        (time_at(2), Some(time_at(4)))
    );
    let messages = store.messages(turn.id).await.unwrap();
    let expected = [
        prompt("go", 2),
        Message::from_text(Role::Assistant, "gone", time_at(2)),
        closing,
    ];
    assert_eq!(messages, expected);
    let attempts = store.attempts(turn.id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(
        (attempts[0].leg, attempts[0].state),
        (leg.id, TurnState::Finished)
    );
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].tip, Some(turn.id));
    assert_eq!(
        (legs[0].total_tokens, legs[0].context_tokens),
        (Some(13), Some(11))
    );
    let session = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!((session.turns, session.total_tokens), (1, Some(13)));
    assert_eq!(session.native_id, leg.native_id);
    assert_eq!(session.updated_at, time_at(4));
}

/// Verifies that every kind of part is returned byte for byte.
pub async fn every_kind_of_part_survives(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    let parts = vec![
        Part::Text("ünïcode \u{1f980} \0 and a NUL".into()),
        Part::Thought(String::new()),
        Part::FunctionCall {
            id: "c".into(),
            name: "write".into(),
            args: Json::parse(r#"{ "z": 1,"a":[1.50] }"#).unwrap(),
        },
        Part::FunctionResponse {
            call_id: "c".into(),
            name: "write".into(),
            response: Json::parse("null").unwrap(),
            is_error: true,
        },
        Part::InlineData(InlineData {
            mime_type: "image/png".into(),
            data: None,
        }),
        Part::Unknown(Json::parse(r#"{"type":"new"}"#).unwrap()),
    ];
    let message = Message::new(Role::Assistant, parts, time_at(3));
    let entry = TurnEntry::Message {
        seq: 1,
        message: message.clone(),
    };
    store.append_entry(&lease, turn.id, entry).await.unwrap();
    assert_eq!(store.messages(turn.id).await.unwrap()[1], message);
}

/// Verifies that streamed text is an incomplete message until the complete message replaces it.
pub async fn drafts_become_messages(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    for entry in [
        draft_entry(1, DraftKind::Thought, "let "),
        draft_entry(1, DraftKind::Thought, "me see"),
        message_entry(2, "whole"),
        draft_entry(3, DraftKind::Text, "half a"),
    ] {
        store.append_entry(&lease, turn.id, entry).await.unwrap();
    }
    let messages = store.messages(turn.id).await.unwrap();
    let contents: Vec<_> = messages
        .iter()
        .map(|m| (m.parts.clone(), m.complete))
        .collect();
    let expected = [
        (vec![Part::Text("go".into())], true),
        (vec![Part::Thought("let me see".into())], false),
        (vec![Part::Text("whole".into())], true),
        (vec![Part::Text("half a".into())], false),
    ];
    assert_eq!(contents, expected);

    store
        .append_entry(&lease, turn.id, message_entry(3, "half a loaf"))
        .await
        .unwrap();
    let last = store.messages(turn.id).await.unwrap().pop().unwrap();
    assert_eq!(
        (last.plain_text().as_str(), last.complete),
        ("half a loaf", true)
    );
}

/// Verifies that a turn cannot start before the previous turn has ended.
pub async fn a_session_runs_one_turn_at_a_time(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    let second = store.begin_turn(&lease, &prompt("two", 0)).await;
    assert!(matches!(second, Err(StoreError::TurnRunning(_))));
    assert!(matches!(
        store.undo_revert(&lease, time_at(0)).await,
        Err(StoreError::TurnRunning(_))
    ));
    store
        .finish_turn(&lease, turn.id, finished_ending(1))
        .await
        .unwrap();
    record_turn(store, &lease, "two").await;
    assert_eq!(list_prompts(store, &session.id).await, ["one", "two"]);
}

/// Verifies that an ended turn and a turn of another session cannot be changed.
pub async fn a_finished_turn_is_immutable(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = record_turn(store, &lease, "one").await;
    let before = store.messages(turn.id).await.unwrap();
    assert!(matches!(
        store
            .append_entry(&lease, turn.id, message_entry(1, "late"))
            .await,
        Err(StoreError::NoTurn(_))
    ));
    let repeated = store.finish_turn(&lease, turn.id, finished_ending(9)).await;
    assert!(matches!(repeated, Err(StoreError::NoTurn(_))));
    assert_eq!(store.messages(turn.id).await.unwrap(), before);

    let (_, other_lease) = open_session(store, 2).await;
    let open_turn = store.begin_turn(&lease, &prompt("two", 0)).await.unwrap();
    assert!(matches!(
        store
            .append_entry(&other_lease, open_turn.id, message_entry(1, "x"))
            .await,
        Err(StoreError::NoTurn(_))
    ));
}

/// Verifies that a turn records whether its prompt was sent.
pub async fn a_turn_records_whether_its_prompt_was_sent(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    assert!(!store.turns(&session.id).await.unwrap()[0].sent);
    store
        .begin_attempt(&lease, turn.id, leg.id, time_at(1))
        .await
        .unwrap();
    assert!(store.turns(&session.id).await.unwrap()[0].sent);
}

/// Verifies that an added message is an ended turn that was never sent, and that the tip of the leg does not move.
pub async fn an_added_message_is_a_finished_unsent_turn(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    let added = Message::from_text(Role::Assistant, "by the way", time_at(5));
    let refused = store.add_message(&lease, &added).await;
    assert!(matches!(refused, Err(StoreError::TurnRunning(_))));
    store
        .begin_attempt(&lease, turn.id, leg.id, time_at(1))
        .await
        .unwrap();
    store
        .finish_turn(&lease, turn.id, finished_ending(2))
        .await
        .unwrap();

    let added_turn = store.add_message(&lease, &added).await.unwrap();
    assert_eq!((added_turn.number, added_turn.parent), (2, Some(turn.id)));
    assert!(added_turn.is_added());
    let turns = store.turns(&session.id).await.unwrap();
    assert_eq!(turns[1], added_turn);
    assert_eq!(
        (added_turn.started_at, added_turn.ended_at),
        (time_at(5), Some(time_at(5)))
    );
    assert_eq!(store.messages(added_turn.id).await.unwrap(), [added]);
    assert_eq!(store.attempts(added_turn.id).await.unwrap(), []);
    assert_eq!(store.legs(&session.id).await.unwrap()[0].tip, Some(turn.id));
    let session = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(
        (session.head, session.turns, session.updated_at),
        (Some(added_turn.id), 2, time_at(5))
    );
    assert_eq!(session.head_state, Some(TurnState::Finished));
}

/// Verifies that a failure is recorded with its turn and its attempt. The number of failures in a row is part of the
/// provider's health and is reported for its open leg.
pub async fn a_failure_is_stored_with_its_turn_and_attempt(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let mut failure =
        Failure::new(FailureClass::Crashed, "the agent exited").with_hint(Hint::CheckAgents);
    failure.stderr = Some("last output".into());
    let turn = store.begin_turn(&lease, &prompt("go", 0)).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, leg.id, time_at(0))
        .await
        .unwrap();
    let ending = TurnEnding {
        state: TurnState::Failed,
        failure: Some(failure.clone()),
        ..finished_ending(1)
    };
    store.finish_turn(&lease, turn.id, ending).await.unwrap();
    let failure_counts = async || {
        let legs = store.legs(&session.id).await.unwrap();
        let counts = legs.iter().map(|leg| leg.consecutive_failures);
        counts.collect::<Vec<_>>()
    };
    assert_eq!(failure_counts().await, [0]);
    let health = ProviderHealth {
        failures: 2,
        ..ProviderHealth::default()
    };
    let provider = &leg.provider;
    let result = store.set_provider_health(&lease, provider, health).await;
    result.unwrap();
    assert_eq!(failure_counts().await, [2]);
    store
        .end_leg(&lease, leg.id, LegEnd::Errors, time_at(2))
        .await
        .unwrap();
    store.open_leg(&lease, new_leg("n2")).await.unwrap();
    assert_eq!(failure_counts().await, [0, 2]);
    let last = store.turns(&session.id).await.unwrap().pop().unwrap();
    assert_eq!(last.failure.as_ref(), Some(&failure));
    assert_eq!(
        store.attempts(last.id).await.unwrap()[0].failure.as_ref(),
        Some(&failure)
    );
}

/// Verifies that every hint can be read back with all its fields.
pub async fn every_hint_survives(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let hints = sample_hints();
    for hint in &hints {
        let turn = store.begin_turn(&lease, &prompt("go", 0)).await.unwrap();
        let failure = Failure::new(FailureClass::Crashed, "the agent exited");
        let ending = TurnEnding {
            state: TurnState::Failed,
            failure: Some(failure.with_hint(hint.clone())),
            ..finished_ending(1)
        };
        store.finish_turn(&lease, turn.id, ending).await.unwrap();
    }
    let turns = store.turns(&session.id).await.unwrap().into_iter();
    let failures = turns.filter_map(|turn| turn.failure);
    let stored: Vec<_> = failures.filter_map(|failure| failure.hint).collect();
    assert_eq!(stored, hints);
}

/// Verifies that concurrent appends are all recorded, each in its own turn.
pub async fn concurrent_appends_are_all_recorded(store: &dyn Store) {
    let mut open_turns = Vec::new();
    for n in 1..=4 {
        let (_, lease) = open_session(store, n).await;
        let turn = store.begin_turn(&lease, &prompt("go", 0)).await.unwrap();
        open_turns.push((lease, turn.id));
    }
    let appends = open_turns.iter().flat_map(|(lease, turn)| {
        (1..=50).map(move |seq| {
            store.append_entry(
                lease,
                *turn,
                message_entry(seq, &format!("{} {seq}", lease.session)),
            )
        })
    });
    for outcome in join_all(appends).await {
        outcome.unwrap();
    }
    for (lease, turn) in &open_turns {
        let messages = store.messages(*turn).await.unwrap();
        let texts: Vec<_> = messages.iter().skip(1).map(Message::plain_text).collect();
        let expected: Vec<_> = (1..=50)
            .map(|seq| format!("{} {seq}", lease.session))
            .collect();
        assert_eq!(texts, expected);
    }
}

/// Verifies that a failed attempt stays on record, and that another attempt can be made on another leg.
pub async fn a_failed_attempt_allows_another_attempt(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    let first = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, first.id, time_at(3))
        .await
        .unwrap();
    let mut failure = Failure::new(FailureClass::SessionUnknown, "who?");
    failure.retry_at = Some(time_at(99));
    store
        .fail_attempt(&lease, turn.id, &failure, time_at(4))
        .await
        .unwrap();
    let second = store.open_leg(&lease, new_leg("n2")).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, second.id, time_at(5))
        .await
        .unwrap();
    store
        .finish_turn(&lease, turn.id, finished_ending(6))
        .await
        .unwrap();
    let attempts = store.attempts(turn.id).await.unwrap();
    let states: Vec<_> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [TurnState::Failed, TurnState::Finished]);
    assert_eq!(attempts[0].failure, Some(failure));
    let turns = store.turns(&session.id).await.unwrap();
    assert_eq!(turns[0].state, TurnState::Finished);
}

/// Verifies that a leg can receive its native session id after it was opened, and that the id can change.
pub async fn a_leg_can_receive_its_native_id_later(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let unnamed_leg = NewLeg {
        native_id: None,
        ..new_leg("unused")
    };
    let leg = store.open_leg(&lease, unnamed_leg).await.unwrap();
    assert_eq!(leg.native_id, None);
    let reloaded = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(reloaded.native_id, None);
    let first_id = NativeId::parse("n1").unwrap();
    store
        .set_leg_native_id(&lease, leg.id, &first_id)
        .await
        .unwrap();
    let reloaded = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(reloaded.native_id, Some(first_id.clone()));
    let second_id = NativeId::parse("n2").unwrap();
    store
        .set_leg_native_id(&lease, leg.id, &second_id)
        .await
        .unwrap();
    let reloaded = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(reloaded.native_id, Some(second_id));
    store
        .end_leg(&lease, leg.id, LegEnd::Lost, time_at(9))
        .await
        .unwrap();
    assert!(
        store
            .set_leg_native_id(&lease, leg.id, &first_id)
            .await
            .is_err()
    );
}

/// Verifies that the need for a reminder, after an agent compacted its own context, moves to the next leg on the same
/// native session, and that one reminder clears it.
pub async fn a_context_loss_is_recorded_until_the_reminder(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    assert!(!leg.lost_context);
    let set_state = |leg, state| store.set_context_loss(&lease, leg, state);
    set_state(leg.id, ContextLossState::Lost).await.unwrap();
    assert!(store.leg(leg.id).await.unwrap().unwrap().lost_context);
    store
        .end_leg(&lease, leg.id, LegEnd::Handoff, time_at(2))
        .await
        .unwrap();
    let reopened = store.reopen_leg(&lease, leg.id, LegEnd::Handoff, time_at(3));
    let reopened = reopened.await.unwrap();
    assert!(reopened.lost_context);
    set_state(reopened.id, ContextLossState::Reminded)
        .await
        .unwrap();
    let legs = store.legs(&session.id).await.unwrap();
    let lost_context: Vec<bool> = legs.iter().map(|leg| leg.lost_context).collect();
    assert_eq!(lost_context, [true, false]);
    let (_, other_lease) = open_session(store, 2).await;
    let wrong_session = store
        .set_context_loss(&other_lease, reopened.id, ContextLossState::Lost)
        .await;
    assert!(
        matches!(wrong_session, Err(StoreError::NoLeg(_))),
        "{wrong_session:?}"
    );
}

/// Verifies that a prompt that was never sent leaves the history unchanged and stays on record.
pub async fn a_withdrawn_turn_is_not_in_the_history(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    for parent in 0..2 {
        let turn = store.begin_turn(&lease, &prompt("no", 1)).await.unwrap();
        store
            .withdraw_turn(&lease, turn.id, time_at(2))
            .await
            .unwrap();
        let turns = store.turns(&session.id).await.unwrap();
        assert_eq!(turns.len(), parent);
        let current = store.session(&session.id).await.unwrap().unwrap();
        assert_eq!(
            (current.head, usize::try_from(current.turns).unwrap()),
            (turns.last().map(|turn| turn.id), parent)
        );
        assert_eq!(store.messages(turn.id).await.unwrap(), [prompt("no", 1)]);
        // The turn has ended.
        assert!(
            store
                .withdraw_turn(&lease, turn.id, time_at(3))
                .await
                .is_err()
        );

        // The next turn has the same number.
        let turn = store.begin_turn(&lease, &prompt("yes", 4)).await.unwrap();
        assert_eq!(usize::try_from(turn.number).unwrap(), parent + 1);
        store
            .begin_attempt(&lease, turn.id, leg.id, time_at(4))
            .await
            .unwrap();
        // A prompt that was sent cannot be withdrawn.
        let refused = store.withdraw_turn(&lease, turn.id, time_at(5)).await;
        assert!(matches!(refused, Err(StoreError::NoTurn(_))), "{refused:?}");
        store
            .finish_turn(&lease, turn.id, finished_ending(6))
            .await
            .unwrap();
    }
}

/// Verifies that a prompt for an open agent is recorded together with its attempt and its decisions, or not at all.
pub async fn a_prompt_and_its_attempt_are_recorded_together(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let decision = Decision::NoSessionInDirectory;
    let on_leg = |text, second| NewTurn {
        leg: Some(leg.id),
        decisions: vec![decision.clone()],
        ..NewTurn::from(prompt(text, second))
    };
    let turn = store.start_turn(&lease, on_leg("go", 2)).await.unwrap();
    assert_eq!(
        (turn.number, turn.state, turn.sent),
        (1, TurnState::Running, true)
    );
    let attempts = store.attempts(turn.id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].leg), (1, leg.id));
    assert_eq!(attempts[0].started_at, time_at(2));
    let legs = store.legs(&session.id).await.unwrap();
    assert_eq!(legs[0].tip, Some(turn.id));
    store
        .finish_turn(&lease, turn.id, finished_ending(3))
        .await
        .unwrap();
    store
        .end_leg(&lease, leg.id, LegEnd::Full, time_at(4))
        .await
        .unwrap();
    let refused = store.start_turn(&lease, on_leg("more", 5)).await;
    assert!(matches!(refused, Err(StoreError::NoLeg(_))));
    assert_eq!(list_prompts(store, &session.id).await, ["go"]);
    let logged = store.decisions(&session.id, 9).await.unwrap();
    assert_eq!(logged, [(time_at(2), decision)]);
}

/// Verifies that a snapshot contains the session, its legs, the end of its chain, and the records of its providers.
pub async fn a_snapshot_contains_the_state_that_plans_depend_on(store: &dyn Store) {
    let unknown = super::session_id(9);
    assert_eq!(store.session_snapshot(&unknown).await.unwrap(), None);
    let (session, lease) = open_session(store, 1).await;
    let snapshot = async || {
        let snapshot = store.session_snapshot(&session.id).await.unwrap().unwrap();
        assert_eq!(
            Some(&snapshot.session),
            store.session(&session.id).await.unwrap().as_ref()
        );
        assert_eq!(snapshot.legs, store.legs(&session.id).await.unwrap());
        let chain = store.turns(&session.id).await.unwrap();
        assert!(chain.ends_with(&snapshot.recent_turns));
        let numbers: Vec<u32> = snapshot
            .recent_turns
            .iter()
            .map(|turn| turn.number)
            .collect();
        (numbers, snapshot)
    };
    assert!(snapshot().await.0.is_empty());
    // Turns that no agent finished for segue do not end the chain.
    record_turn(store, &lease, "one").await;
    record_turn(store, &lease, "two").await;
    assert_eq!(snapshot().await.0, [1, 2]);
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap();
    let on_leg = |second| NewTurn {
        leg: Some(leg.id),
        ..NewTurn::from(prompt("go", second))
    };
    for (second, state) in [(3, TurnState::Finished), (5, TurnState::Failed)] {
        let turn = store.start_turn(&lease, on_leg(second)).await.unwrap();
        let ending = TurnEnding {
            state,
            ..finished_ending(second + 1)
        };
        store.finish_turn(&lease, turn.id, ending).await.unwrap();
    }
    let added = Message::from_text(Role::User, "note", time_at(8));
    store.add_message(&lease, &added).await.unwrap();
    assert_eq!(snapshot().await.0, [3, 4, 5]);
    let health = ProviderHealth {
        failures: 2,
        ..ProviderHealth::default()
    };
    store
        .set_provider_health(&lease, &leg.provider, health)
        .await
        .unwrap();
    let cooldown = Cooldown {
        provider: leg.provider.clone(),
        until: time_at(60),
        class: FailureClass::Quota,
    };
    store.set_cooldown(cooldown.clone()).await.unwrap();
    let (_, snapshot) = snapshot().await;
    let providers = &snapshot.providers;
    assert_eq!(providers.health_of(&leg.provider), health);
    assert_eq!(providers.cooldown_of(&leg.provider), Some(&cooldown));
    let other = ProviderId::parse("other").unwrap();
    assert!(providers.health_of(&other).is_clean());
    assert_eq!(providers.cooldown_of(&other), None);
}

/// Verifies that the IDs of turns and legs show neither the number of rows nor the order in which they were written,
/// and that an ID which the store did not assign finds nothing.
pub async fn ids_reveal_no_row_numbers(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        let leg = store.open_leg(&lease, new_leg("n")).await.unwrap();
        ids.push(leg.id.to_bits());
        ids.push(record_turn(store, &lease, "go").await.id.to_bits());
    }
    assert!(!ids.is_sorted(), "the order is not that of the rows");
    assert!(ids.iter().all(|id| *id > 1000), "{ids:?}");
    let turns = store.turns(&session.id).await.unwrap();
    for turn in &turns {
        assert_eq!(turn.id.to_string().parse(), Ok(turn.id));
    }
    let unknown = TurnId::from_bits(turns[0].id.to_bits() ^ 1);
    assert_eq!(store.messages(unknown).await.unwrap(), []);
}
