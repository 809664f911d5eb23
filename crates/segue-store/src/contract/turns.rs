//! Contract cases for turns and their messages.

use futures::future::join_all;
use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::policy::Standing;
use segue_core::session::{
    Failure, FailureClass, InlineData, LegEnd, Message, Part, Role, TurnState, Usage,
};

use super::{at, finished, native, open_session, prompt, story, whole_turn};
use crate::{Draft, DraftKind, Entry, Finish, Memory, NewLeg, Store, StoreError};

fn says(seq: u32, text: &str) -> Entry {
    Entry::Message {
        seq,
        message: Message::text(Role::Assistant, text, at(2)),
    }
}

fn drafts(seq: u32, kind: DraftKind, text: &str) -> Entry {
    Entry::Draft(Draft {
        seq,
        kind,
        text: text.into(),
        at: at(3),
    })
}

/// Verifies that all data of a turn is recorded, from the prompt to the usage.
pub async fn a_turn_is_recorded_whole(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    assert_eq!(
        (turn.n, turn.parent, turn.state),
        (1, None, TurnState::Running)
    );
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    assert_eq!((leg.n, leg.tip), (1, None));
    store
        .begin_attempt(&lease, turn.id, leg.id, at(3))
        .await
        .unwrap();
    store
        .append(&lease, turn.id, says(1, "gone"))
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
    let closing = Message::text(Role::System, "bye", at(4));
    let finish = Finish {
        usage,
        messages: vec![(2, closing.clone())],
        ..finished(4)
    };
    store.finish_turn(&lease, turn.id, finish).await.unwrap();

    let turns = store.turns(&session.id).await.unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].state, TurnState::Finished);
    assert_eq!((turns[0].usage, turns[0].sent), (usage, true));
    assert_eq!(
        (turns[0].started_at, turns[0].ended_at),
        (at(2), Some(at(4)))
    );
    let messages = store.messages(turn.id).await.unwrap();
    let expected = [
        prompt("go", 2),
        Message::text(Role::Assistant, "gone", at(2)),
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
    assert_eq!(session.updated_at, at(4));
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
    let message = Message::new(Role::Assistant, parts, at(3));
    let entry = Entry::Message {
        seq: 1,
        message: message.clone(),
    };
    store.append(&lease, turn.id, entry).await.unwrap();
    assert_eq!(store.messages(turn.id).await.unwrap()[1], message);
}

/// Verifies that streamed text is an incomplete message until the complete message replaces it.
pub async fn drafts_become_messages(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    for entry in [
        drafts(1, DraftKind::Thought, "let "),
        drafts(1, DraftKind::Thought, "me see"),
        says(2, "whole"),
        drafts(3, DraftKind::Text, "half a"),
    ] {
        store.append(&lease, turn.id, entry).await.unwrap();
    }
    let messages = store.messages(turn.id).await.unwrap();
    let told: Vec<_> = messages
        .iter()
        .map(|m| (m.parts.clone(), m.complete))
        .collect();
    let expected = [
        (vec![Part::Text("go".into())], true),
        (vec![Part::Thought("let me see".into())], false),
        (vec![Part::Text("whole".into())], true),
        (vec![Part::Text("half a".into())], false),
    ];
    assert_eq!(told, expected);

    store
        .append(&lease, turn.id, says(3, "half a loaf"))
        .await
        .unwrap();
    let last = store.messages(turn.id).await.unwrap().pop().unwrap();
    assert_eq!(
        (last.words().as_str(), last.complete),
        ("half a loaf", true)
    );
}

/// Verifies that a turn cannot start before the previous turn has ended.
pub async fn one_turn_at_a_time(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    let second = store.begin_turn(&lease, &prompt("two", 0)).await;
    assert!(matches!(second, Err(StoreError::TurnUnderWay(_))));
    assert!(matches!(
        store.undo(&lease, at(0)).await,
        Err(StoreError::TurnUnderWay(_))
    ));
    store
        .finish_turn(&lease, turn.id, finished(1))
        .await
        .unwrap();
    whole_turn(store, &lease, "two").await;
    assert_eq!(story(store, &session.id).await, ["one", "two"]);
}

/// Verifies that an ended turn and a turn of another session cannot be changed.
pub async fn a_finished_turn_is_immutable(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = whole_turn(store, &lease, "one").await;
    let before = store.messages(turn.id).await.unwrap();
    assert!(matches!(
        store.append(&lease, turn.id, says(1, "late")).await,
        Err(StoreError::NoTurn(_))
    ));
    let again = store.finish_turn(&lease, turn.id, finished(9)).await;
    assert!(matches!(again, Err(StoreError::NoTurn(_))));
    assert_eq!(store.messages(turn.id).await.unwrap(), before);

    let (_, other) = open_session(store, 2).await;
    let open = store.begin_turn(&lease, &prompt("two", 0)).await.unwrap();
    assert!(matches!(
        store.append(&other, open.id, says(1, "x")).await,
        Err(StoreError::NoTurn(_))
    ));
}

/// Verifies that a turn records whether its prompt was sent.
pub async fn an_unsent_turn_is_told_apart(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    assert!(!store.turns(&session.id).await.unwrap()[0].sent);
    store
        .begin_attempt(&lease, turn.id, leg.id, at(1))
        .await
        .unwrap();
    assert!(store.turns(&session.id).await.unwrap()[0].sent);
}

/// Verifies that an added message is an ended turn that was never sent, and that the tip of the leg does not move.
pub async fn a_message_is_added_whole(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    let turn = store.begin_turn(&lease, &prompt("one", 0)).await.unwrap();
    let added = Message::text(Role::Assistant, "by the way", at(5));
    let refused = store.add_message(&lease, &added).await;
    assert!(matches!(refused, Err(StoreError::TurnUnderWay(_))));
    store
        .begin_attempt(&lease, turn.id, leg.id, at(1))
        .await
        .unwrap();
    store
        .finish_turn(&lease, turn.id, finished(2))
        .await
        .unwrap();

    let made = store.add_message(&lease, &added).await.unwrap();
    assert_eq!((made.n, made.parent), (2, Some(turn.id)));
    assert!(made.is_added());
    let turns = store.turns(&session.id).await.unwrap();
    assert_eq!(turns[1], made);
    assert_eq!((made.started_at, made.ended_at), (at(5), Some(at(5))));
    assert_eq!(store.messages(made.id).await.unwrap(), [added]);
    assert_eq!(store.attempts(made.id).await.unwrap(), []);
    assert_eq!(store.legs(&session.id).await.unwrap()[0].tip, Some(turn.id));
    let session = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(
        (session.head, session.turns, session.updated_at),
        (Some(made.id), 2, at(5))
    );
    assert_eq!(session.head_state, Some(TurnState::Finished));
}

/// Verifies that a failure is recorded with its turn and its attempt. The number of failures in a row is part of the
/// provider's health and is reported for its open leg.
pub async fn a_failure_is_kept_and_counted_once(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    let mut failure = Failure::new(FailureClass::Crashed, "it died").with_hint("try again");
    failure.stderr = Some("last words".into());
    let turn = store.begin_turn(&lease, &prompt("go", 0)).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, leg.id, at(0))
        .await
        .unwrap();
    let finish = Finish {
        state: TurnState::Failed,
        failure: Some(failure.clone()),
        ..finished(1)
    };
    store.finish_turn(&lease, turn.id, finish).await.unwrap();
    let counted = async || {
        let legs = store.legs(&session.id).await.unwrap();
        let counts = legs.iter().map(|leg| leg.consecutive_failures);
        counts.collect::<Vec<_>>()
    };
    assert_eq!(counted().await, [0]);
    let standing = Standing {
        failures: 2,
        ..Standing::default()
    };
    let agent = &leg.provider;
    let noted = store.set_standing(&lease, agent, standing).await;
    noted.unwrap();
    assert_eq!(counted().await, [2]);
    store
        .end_leg(&lease, leg.id, LegEnd::Errors, at(2))
        .await
        .unwrap();
    store.open_leg(&lease, native("n2")).await.unwrap();
    assert_eq!(counted().await, [0, 2]);
    let last = store.turns(&session.id).await.unwrap().pop().unwrap();
    assert_eq!(last.failure.as_ref(), Some(&failure));
    assert_eq!(
        store.attempts(last.id).await.unwrap()[0].failure.as_ref(),
        Some(&failure)
    );
}

/// Verifies that concurrent appends are all recorded, each in its own turn.
pub async fn parallel_appends_are_all_there(store: &dyn Store) {
    let mut open = Vec::new();
    for n in 1..=4 {
        let (_, lease) = open_session(store, n).await;
        let turn = store.begin_turn(&lease, &prompt("go", 0)).await.unwrap();
        open.push((lease, turn.id));
    }
    let appends = open.iter().flat_map(|(lease, turn)| {
        (1..=50).map(move |seq| {
            store.append(lease, *turn, says(seq, &format!("{} {seq}", lease.session)))
        })
    });
    for outcome in join_all(appends).await {
        outcome.unwrap();
    }
    for (lease, turn) in &open {
        let messages = store.messages(*turn).await.unwrap();
        let said: Vec<_> = messages.iter().skip(1).map(Message::words).collect();
        let expected: Vec<_> = (1..=50)
            .map(|seq| format!("{} {seq}", lease.session))
            .collect();
        assert_eq!(said, expected);
    }
}

/// Verifies that a failed attempt stays on record, and that another attempt can be made on another leg.
pub async fn a_failed_attempt_leaves_room_for_another(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let turn = store.begin_turn(&lease, &prompt("go", 2)).await.unwrap();
    let first = store.open_leg(&lease, native("n1")).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, first.id, at(3))
        .await
        .unwrap();
    let mut failure = Failure::new(FailureClass::SessionUnknown, "who?");
    failure.retry_at = Some(at(99));
    store
        .fail_attempt(&lease, turn.id, &failure, at(4))
        .await
        .unwrap();
    let second = store.open_leg(&lease, native("n2")).await.unwrap();
    store
        .begin_attempt(&lease, turn.id, second.id, at(5))
        .await
        .unwrap();
    store
        .finish_turn(&lease, turn.id, finished(6))
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
pub async fn a_leg_is_named_later(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let nameless = NewLeg {
        native_id: None,
        ..native("unused")
    };
    let leg = store.open_leg(&lease, nameless).await.unwrap();
    assert_eq!(leg.native_id, None);
    let read = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(read.native_id, None);
    let name = NativeId::parse("n1").unwrap();
    store.name_leg(&lease, leg.id, &name).await.unwrap();
    let read = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(read.native_id, Some(name.clone()));
    let other = NativeId::parse("n2").unwrap();
    store.name_leg(&lease, leg.id, &other).await.unwrap();
    let read = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(read.native_id, Some(other));
    store
        .end_leg(&lease, leg.id, LegEnd::Lost, at(9))
        .await
        .unwrap();
    assert!(store.name_leg(&lease, leg.id, &name).await.is_err());
}

/// Verifies that the need for a reminder, after an agent compacted its own context, moves to the next leg on the same
/// native session, and that one reminder clears it.
pub async fn a_leg_that_forgot_is_known_until_it_is_told(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    assert!(!leg.forgot);
    let note = |leg, memory| store.note_memory(&lease, leg, memory);
    note(leg.id, Memory::Smaller).await.unwrap();
    assert!(store.leg(leg.id).await.unwrap().unwrap().forgot);
    store
        .end_leg(&lease, leg.id, LegEnd::Handoff, at(2))
        .await
        .unwrap();
    let again = store.take_up_leg(&lease, leg.id, LegEnd::Handoff, at(3));
    let again = again.await.unwrap();
    assert!(again.forgot);
    note(again.id, Memory::Reminded).await.unwrap();
    let legs = store.legs(&session.id).await.unwrap();
    let forgot: Vec<bool> = legs.iter().map(|leg| leg.forgot).collect();
    assert_eq!(forgot, [true, false]);
    let (_, other) = open_session(store, 2).await;
    let strange = store.note_memory(&other, again.id, Memory::Smaller).await;
    assert!(matches!(strange, Err(StoreError::NoLeg(_))), "{strange:?}");
}

/// Verifies that a prompt that was never sent leaves the history unchanged and stays on record.
pub async fn a_withdrawn_turn_is_no_part_of_the_history(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, native("n1")).await.unwrap();
    for parent in 0..2 {
        let turn = store.begin_turn(&lease, &prompt("no", 1)).await.unwrap();
        store.withdraw_turn(&lease, turn.id, at(2)).await.unwrap();
        let turns = store.turns(&session.id).await.unwrap();
        assert_eq!(turns.len(), parent);
        let now = store.session(&session.id).await.unwrap().unwrap();
        assert_eq!(
            (now.head, usize::try_from(now.turns).unwrap()),
            (turns.last().map(|turn| turn.id), parent)
        );
        assert_eq!(store.messages(turn.id).await.unwrap(), [prompt("no", 1)]);
        // The turn has ended.
        assert!(store.withdraw_turn(&lease, turn.id, at(3)).await.is_err());

        // The next turn has the same number.
        let turn = store.begin_turn(&lease, &prompt("yes", 4)).await.unwrap();
        assert_eq!(usize::try_from(turn.n).unwrap(), parent + 1);
        store
            .begin_attempt(&lease, turn.id, leg.id, at(4))
            .await
            .unwrap();
        // A prompt that was sent cannot be withdrawn.
        let refused = store.withdraw_turn(&lease, turn.id, at(5)).await;
        assert!(matches!(refused, Err(StoreError::NoTurn(_))), "{refused:?}");
        store
            .finish_turn(&lease, turn.id, finished(6))
            .await
            .unwrap();
    }
}
