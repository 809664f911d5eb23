use jiff::Timestamp;
use segue_core::checkpoint::{Checkpoint, CheckpointItem, ItemAuthor, ItemKind};
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, Scope, TaskId, TaskState};
use segue_core::session::Role;
use serde_json::Map;

use super::{ExistingSession, ImportDifference};
use crate::{ExtraFields, PortableCheckpoint, PortableMessage, PortableSession};

fn time_at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn timed_message(text: &str, second: i64) -> PortableMessage {
    PortableMessage {
        id: String::new(),
        at: time_at(second),
        has_stated_time: true,
        role: Role::User,
        text: text.into(),
        tokens: None,
        extra_fields: Map::new(),
        is_imported: true,
    }
}

fn untimed_message(text: &str, second: i64) -> PortableMessage {
    PortableMessage {
        has_stated_time: false,
        ..timed_message(text, second)
    }
}

fn build_checkpoint(texts: &[&str]) -> Checkpoint {
    let item = |(id, text): (u32, &&str)| CheckpointItem {
        id,
        kind: ItemKind::Pending,
        text: (*text).to_owned(),
        subject: None,
        turn: id,
        message_index: 0,
        author: ItemAuthor::Summariser,
        weight: id,
        pinned: false,
    };
    Checkpoint {
        items: (1..).zip(texts).map(item).collect(),
        loop_state: None,
    }
}

fn incoming_session(messages: Vec<PortableMessage>, checkpoint_texts: &[&str]) -> PortableSession {
    let portable_checkpoint = (!checkpoint_texts.is_empty()).then(|| PortableCheckpoint {
        content: build_checkpoint(checkpoint_texts),
        version: 1,
        created_at: time_at(0),
        updated_at: time_at(0),
        tokens: 1,
        last_compaction_tokens: None,
        saved_tokens: 0,
        is_unchanged_since_import: true,
    });
    PortableSession {
        name: "x".into(),
        title: None,
        purpose: None,
        provider: None,
        tags: Vec::new(),
        created_at: time_at(0),
        updated_at: time_at(9),
        compacted_messages: Vec::new(),
        messages,
        checkpoint: portable_checkpoint,
        role: None,
        context: None,
        extra_fields: ExtraFields::default(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn messages_and_checkpoint_decide_whether_a_session_exists() {
    let existing = ExistingSession {
        messages: vec![
            timed_message("a", 1),
            timed_message("b", 2),
            timed_message("b", 2),
            timed_message("c", 3),
        ],
        checkpoints: vec![
            build_checkpoint(&["old"]),
            build_checkpoint(&["one", "two  words"]),
        ],
        ..ExistingSession::default()
    };
    let cases = [
        (
            "some of the messages",
            vec![timed_message("a", 1), timed_message("c", 3)],
            vec![],
            None,
        ),
        (
            "a message repeated as often",
            vec![timed_message("b", 2), timed_message("b", 2)],
            vec![],
            None,
        ),
        (
            "a message repeated more often",
            vec![timed_message("a", 1), timed_message("a", 1)],
            vec![],
            Some(ImportDifference::Messages(1)),
        ),
        (
            "a message at another time",
            vec![timed_message("a", 7)],
            vec![],
            Some(ImportDifference::Messages(0)),
        ),
        (
            "a message without a stated time",
            vec![untimed_message("a", 7)],
            vec![],
            None,
        ),
        (
            "messages with and without a stated time",
            vec![untimed_message("b", 7), timed_message("b", 2)],
            vec![],
            None,
        ),
        (
            "an additional message",
            vec![timed_message("a", 1), timed_message("d", 4)],
            vec![],
            Some(ImportDifference::Messages(1)),
        ),
        (
            "an existing checkpoint item",
            vec![timed_message("a", 1)],
            vec!["two words"],
            None,
        ),
        (
            "checkpoint items of two versions",
            vec![],
            vec!["one", "old"],
            Some(ImportDifference::Checkpoint),
        ),
        (
            "a new checkpoint item",
            vec![timed_message("a", 1)],
            vec!["three"],
            Some(ImportDifference::Checkpoint),
        ),
    ];
    for (name, messages, checkpoint_texts, expected) in cases {
        assert_eq!(
            incoming_session(messages, &checkpoint_texts).find_difference(&existing),
            expected,
            "{name}"
        );
    }
}

#[test]
fn imported_messages_count_even_after_a_revert() {
    let incoming = incoming_session(vec![timed_message("a", 1), timed_message("b", 2)], &[]);
    let existing = ExistingSession {
        messages: vec![timed_message("a", 1)],
        ..ExistingSession::default()
    };
    assert_eq!(
        incoming.find_difference(&existing),
        Some(ImportDifference::Messages(1))
    );
    let existing = ExistingSession {
        extra_fields: Some(incoming.encode_extra_fields()),
        ..existing
    };
    assert_eq!(incoming.find_difference(&existing), None);
    let changed = incoming_session(vec![timed_message("a", 1), timed_message("B", 2)], &[]);
    assert_eq!(
        changed.find_difference(&existing),
        Some(ImportDifference::Messages(1))
    );
}

#[test]
fn sessions_differ_by_feature_and_task_but_not_by_state() {
    let task = |feature: &str, task: &str, state: &str| {
        Some(Purpose::for_scope(Scope::Task {
            feature: Some(FeatureId::parse(feature).unwrap()),
            task: TaskId::parse(task).unwrap(),
            state: TaskState::parse(state).unwrap(),
        }))
    };
    let existing = ExistingSession {
        purpose: task("pay", "t", "in_dev"),
        ..ExistingSession::default()
    };
    for (purpose, expected) in [
        (task("pay", "t", "in_qa"), None),
        (task("pay", "u", "in_dev"), Some(ImportDifference::Purpose)),
        (task("auth", "t", "in_dev"), Some(ImportDifference::Purpose)),
        (None, Some(ImportDifference::Purpose)),
    ] {
        let context = format!("{purpose:?}");
        let session = PortableSession {
            purpose,
            ..incoming_session(Vec::new(), &[])
        };
        assert_eq!(session.find_difference(&existing), expected, "{context}");
    }
}

#[test]
fn a_session_dated_in_the_future_is_not_newer_than_now() {
    let mut session = incoming_session(vec![timed_message("a", 1), timed_message("b", 900)], &[]);
    session.updated_at = time_at(900);
    let remark = session.limit_times_to(time_at(50)).unwrap();
    assert!(remark.contains("2023-11-14T22:28:20.000Z"), "{remark}");
    assert_eq!(
        (session.created_at, session.updated_at),
        (time_at(0), time_at(50))
    );
    assert_eq!(session.messages[1].at, time_at(900));
    let mut past_session = incoming_session(vec![timed_message("a", 1)], &[]);
    assert_eq!(past_session.limit_times_to(time_at(50)), None);
    assert_eq!(past_session.updated_at, time_at(9));
}
