//! Contract cases for the change feed.

use segue_core::session::{Decision, Failure, FailureClass, LegEnd, Tag, Title, TitleSource};

use super::{
    ManualClock, finished_ending, new_leg, new_session, open_session, owner, prompt, record_turn,
    session_id, take_over, time_at,
};
use crate::{
    Change, ChangeKind, FeedCursor, ForkPoint, NewTurn, Store, StoreError, TagChange, TurnEntry,
};

/// Returns all changes after a cursor, read in pages of `limit`.
async fn read_changes(store: &dyn Store, mut after: FeedCursor, limit: u32) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let page = store.changes(after, limit).await.unwrap();
        let Some(last) = page.last() else {
            return changes;
        };
        assert!(page.len() <= usize::try_from(limit).unwrap());
        after = last.cursor;
        changes.extend(page);
    }
}

/// Returns the kinds of the changes after a cursor.
async fn read_kinds(store: &dyn Store, after: FeedCursor) -> Vec<ChangeKind> {
    let changes = read_changes(store, after, 100).await.into_iter();
    changes.map(|change| change.kind).collect()
}

/// Verifies that every step of a turn is in the feed, in order, with the object that it changed.
pub async fn the_feed_contains_every_step_of_a_turn(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap().id;
    let new = NewTurn {
        leg: Some(leg),
        decisions: vec![Decision::AgentRefused],
        ..NewTurn::from(prompt("one", 1))
    };
    let turn = store.start_turn(&lease, new).await.unwrap().id;
    let failure = Failure::new(FailureClass::Agent, "no");
    let failed = store.fail_attempt(&lease, turn, &failure, time_at(2));
    failed.await.unwrap();
    store
        .begin_attempt(&lease, turn, leg, time_at(3))
        .await
        .unwrap();
    let entry = TurnEntry::Message {
        seq: 1,
        message: prompt("on", 4),
    };
    store.append_entry(&lease, turn, entry).await.unwrap();
    let mut ending = finished_ending(5);
    ending.messages = vec![(2, prompt("done", 5))];
    store.finish_turn(&lease, turn, ending).await.unwrap();
    let expected = [
        ChangeKind::SessionCreated,
        ChangeKind::LegOpened { leg, number: 1 },
        ChangeKind::TurnStarted { turn, number: 1 },
        ChangeKind::AttemptBegun { turn },
        ChangeKind::DecisionLogged,
        ChangeKind::AttemptFailed { turn },
        ChangeKind::AttemptBegun { turn },
        ChangeKind::MessageSaved { turn, message: 1 },
        ChangeKind::MessageSaved { turn, message: 2 },
        ChangeKind::TurnEnded { turn },
    ];
    assert_eq!(read_kinds(store, FeedCursor::START).await, expected);
}

/// Verifies that every other change of a session is in the feed, in order, with the object that it changed.
pub async fn the_feed_contains_every_change_of_a_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let leg = store.open_leg(&lease, new_leg("n1")).await.unwrap().id;
    let turn = record_turn(store, &lease, "one").await.id;
    let middle = store.feed_end().await.unwrap();
    let second = record_turn(store, &lease, "two").await.id;
    let unsent = store.begin_turn(&lease, &prompt("three", 6)).await.unwrap();
    let withdrawn = store.withdraw_turn(&lease, unsent.id, time_at(7));
    withdrawn.await.unwrap();
    store.revert_head(&lease, turn, time_at(8)).await.unwrap();
    store.undo_revert(&lease, time_at(9)).await.unwrap();
    store
        .set_leg_native_id(&lease, leg, &"n2".parse().unwrap())
        .await
        .unwrap();
    let title = Title::new("hello", TitleSource::User).unwrap();
    store.rename_session(&session.id, &title).await.unwrap();
    // The user chose a title, so a suggestion changes nothing.
    store.suggest_title(&session.id, &title).await.unwrap();
    let change = TagChange {
        add: vec![Tag::parse("red").unwrap()],
        remove: Vec::new(),
    };
    // The second call changes nothing.
    for change in [change.clone(), change] {
        store.change_tags(&session.id, change).await.unwrap();
    }
    store
        .change_provider(&lease, &"codex".parse().unwrap(), time_at(10))
        .await
        .unwrap();
    let reopened = store.reopen_leg(&lease, leg, LegEnd::HeadMoved, time_at(11));
    let reopened = reopened.await.unwrap().id;
    let expected = [
        ChangeKind::TurnStarted {
            turn: second,
            number: 2,
        },
        ChangeKind::TurnEnded { turn: second },
        ChangeKind::TurnStarted {
            turn: unsent.id,
            number: 3,
        },
        ChangeKind::TurnWithdrawn { turn: unsent.id },
        ChangeKind::HeadMoved { turn },
        ChangeKind::HeadMoved { turn: second },
        ChangeKind::LegChanged { leg },
        ChangeKind::SessionChanged,
        ChangeKind::SessionChanged,
        ChangeKind::LegEnded { leg },
        ChangeKind::SessionChanged,
        ChangeKind::LegOpened {
            leg: reopened,
            number: 2,
        },
    ];
    assert_eq!(read_kinds(store, middle).await, expected);
}

/// Verifies that a reader can continue at any cursor, also at one that it has stored as a text, without a gap or a
/// repetition.
pub async fn the_feed_is_read_from_any_cursor(store: &dyn Store, clock: &ManualClock) {
    assert_eq!(store.feed_end().await.unwrap(), FeedCursor::START);
    assert_eq!(store.changes(FeedCursor::START, 9).await.unwrap(), []);
    for n in 1..=5 {
        clock.set(i64::from(n) * 100);
        let (_, lease) = open_session(store, n).await;
        record_turn(store, &lease, "go").await;
    }
    let all = read_changes(store, FeedCursor::START, 100).await;
    assert_eq!(all.len(), 15);
    for (change, sequence) in all.iter().zip(1..) {
        assert_eq!(change.sequence, sequence);
        let n = u32::try_from((sequence - 1) / 3 + 1).unwrap();
        let expected = (session_id(n), time_at(i64::from(n) * 100));
        assert_eq!((change.session.clone(), change.at), expected);
    }
    for limit in [1, 2, 7, 15, 16] {
        assert_eq!(read_changes(store, FeedCursor::START, limit).await, all);
    }
    for (n, change) in all.iter().enumerate() {
        let cursor: FeedCursor = change.cursor.to_string().parse().unwrap();
        assert_eq!(read_changes(store, cursor, 4).await, all[n + 1..]);
    }
    assert_eq!(store.feed_end().await.unwrap(), all[14].cursor);
}

/// Verifies that an operation that fails, and one that only reads or extends a lease, leaves no change.
pub async fn an_operation_that_fails_is_not_in_the_feed(store: &dyn Store) {
    let (session, stale) = open_session(store, 1).await;
    let lease = take_over(store, &stale).await;
    let turn = store.begin_turn(&lease, &prompt("go", 1)).await.unwrap().id;
    let end = store.feed_end().await.unwrap();
    assert!(store.begin_turn(&stale, &prompt("no", 2)).await.is_err());
    assert!(store.begin_turn(&lease, &prompt("no", 2)).await.is_err());
    assert!(store.create_session(new_session(1)).await.is_err());
    let first_prompt = prompt("no", 2);
    let started = store.start_session(new_session(1), owner(3), &first_prompt);
    assert!(started.await.is_err());
    let fork_point = ForkPoint {
        session: session.id.clone(),
        turn: 7,
        before_head_move: None,
    };
    let forked = store.fork_session(new_session(2), fork_point);
    assert!(forked.await.is_err());
    store.record_heartbeat(&lease, None).await.unwrap();
    store.messages(turn).await.unwrap();
    assert_eq!(store.feed_end().await.unwrap(), end);
    let finished = store.finish_turn(&lease, turn, finished_ending(3));
    finished.await.unwrap();
    let kinds = read_kinds(store, end).await;
    assert_eq!(kinds, [ChangeKind::TurnEnded { turn }]);
}

/// Verifies that the feed reports a deletion, and that its cursors stay valid.
pub async fn a_deleted_session_stays_in_the_feed_without_content(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let turn = record_turn(store, &lease, "go").await;
    let before = store.feed_end().await.unwrap();
    store.delete_session(&lease).await.unwrap();
    let changes = read_changes(store, before, 9).await;
    let [deleted] = changes.as_slice() else {
        panic!("expected one change, got {changes:?}");
    };
    let expected = (session_id(1), ChangeKind::SessionDeleted);
    assert_eq!((deleted.session.clone(), deleted.kind), expected);
    assert_eq!(store.messages(turn.id).await.unwrap(), []);
    let all = read_changes(store, FeedCursor::START, 9).await;
    assert_eq!(all.len(), 4);
    // The ID of a deleted session can be used again, and its earlier changes precede its deletion.
    open_session(store, 1).await;
    let kinds = read_kinds(store, deleted.cursor).await;
    assert_eq!(kinds, [ChangeKind::SessionCreated]);
}

/// Verifies that a cursor of another store is refused.
pub async fn a_cursor_of_another_store_is_refused(store: &dyn Store) {
    open_session(store, 1).await;
    let cursor: FeedCursor = "c1-0k3f9v7m2q8xt".parse().unwrap();
    let refused = store.changes(cursor, 9).await;
    assert!(matches!(refused, Err(StoreError::UnknownCursor(unknown)) if unknown == cursor));
}
