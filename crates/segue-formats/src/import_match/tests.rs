use jiff::Timestamp;
use segue_core::checkpoint::{Author, Checkpoint, Item, ItemKind};
use segue_core::id::FeatureId;
use segue_core::scope::{Purpose, Scope, TaskId, TaskState};
use segue_core::session::Role;
use serde_json::Map;

use super::{Lack, There};
use crate::{Kept, Line, Portable, Recap};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn line(words: &str, second: i64) -> Line {
    Line {
        id: String::new(),
        at: at(second),
        timed: true,
        role: Role::User,
        words: words.into(),
        tokens: None,
        rest: Map::new(),
        as_it_came: true,
    }
}

fn untimed(words: &str, second: i64) -> Line {
    Line {
        timed: false,
        ..line(words, second)
    }
}

fn checkpoint(texts: &[&str]) -> Checkpoint {
    let item = |(id, text): (u32, &&str)| Item {
        id,
        kind: ItemKind::Pending,
        text: (*text).to_owned(),
        subject: None,
        turn: id,
        message: 0,
        by: Author::Summary,
        weight: id,
        pinned: false,
    };
    Checkpoint {
        items: (1..).zip(texts).map(item).collect(),
        loop_state: None,
    }
}

fn coming(lines: Vec<Line>, summed: &[&str]) -> Portable {
    let recap = (!summed.is_empty()).then(|| Recap {
        checkpoint: checkpoint(summed),
        version: 1,
        created_at: at(0),
        updated_at: at(0),
        tokens: 1,
        replaced: None,
        saved: 0,
        as_it_came: true,
    });
    Portable {
        name: "x".into(),
        title: None,
        purpose: None,
        provider: None,
        tags: Vec::new(),
        created_at: at(0),
        updated_at: at(9),
        past: Vec::new(),
        lines,
        recap,
        role: None,
        context: None,
        kept: Kept::default(),
    }
}

#[test]
fn what_is_said_tells_whether_it_is_here() {
    let here = There {
        lines: vec![line("a", 1), line("b", 2), line("b", 2), line("c", 3)],
        checkpoints: vec![checkpoint(&["old"]), checkpoint(&["one", "two  words"])],
        ..There::default()
    };
    let cases = [
        ("some of it", vec![line("a", 1), line("c", 3)], vec![], None),
        ("as often", vec![line("b", 2), line("b", 2)], vec![], None),
        (
            "more often",
            vec![line("a", 1), line("a", 1)],
            vec![],
            Some(Lack::Messages(1)),
        ),
        (
            "at another time",
            vec![line("a", 7)],
            vec![],
            Some(Lack::Messages(0)),
        ),
        ("at any time", vec![untimed("a", 7)], vec![], None),
        (
            "each its own",
            vec![untimed("b", 7), line("b", 2)],
            vec![],
            None,
        ),
        (
            "it grew",
            vec![line("a", 1), line("d", 4)],
            vec![],
            Some(Lack::Messages(1)),
        ),
        ("summed up", vec![line("a", 1)], vec!["two words"], None),
        (
            "summed up in two",
            vec![],
            vec!["one", "old"],
            Some(Lack::Checkpoint),
        ),
        (
            "summed up anew",
            vec![line("a", 1)],
            vec!["three"],
            Some(Lack::Checkpoint),
        ),
    ];
    for (name, lines, summed, expected) in cases {
        assert_eq!(coming(lines, &summed).lacking(&here), expected, "{name}");
    }
}

#[test]
fn what_came_counts_though_the_session_went_back_since() {
    let came = coming(vec![line("a", 1), line("b", 2)], &[]);
    let here = There {
        lines: vec![line("a", 1)],
        ..There::default()
    };
    assert_eq!(came.lacking(&here), Some(Lack::Messages(1)));
    let here = There {
        kept: Some(came.aside()),
        ..here
    };
    assert_eq!(came.lacking(&here), None);
    let other = coming(vec![line("a", 1), line("B", 2)], &[]);
    assert_eq!(other.lacking(&here), Some(Lack::Messages(1)));
}

#[test]
fn features_and_tasks_tell_sessions_apart_and_states_do_not() {
    let task = |feature: &str, task: &str, state: &str| {
        Some(Purpose::of(Scope::Task {
            feature: Some(FeatureId::parse(feature).unwrap()),
            task: TaskId::parse(task).unwrap(),
            state: TaskState::parse(state).unwrap(),
        }))
    };
    let here = There {
        purpose: task("pay", "t", "in_dev"),
        ..There::default()
    };
    for (purpose, expected) in [
        (task("pay", "t", "in_qa"), None),
        (task("pay", "u", "in_dev"), Some(Lack::Purpose)),
        (task("auth", "t", "in_dev"), Some(Lack::Purpose)),
        (None, Some(Lack::Purpose)),
    ] {
        let told = format!("{purpose:?}");
        let session = Portable {
            purpose,
            ..coming(Vec::new(), &[])
        };
        assert_eq!(session.lacking(&here), expected, "{told}");
    }
}

#[test]
fn what_is_dated_ahead_does_not_make_a_session_newer_than_now() {
    let mut session = coming(vec![line("a", 1), line("b", 900)], &[]);
    session.updated_at = at(900);
    let told = session.bring_to(at(50)).unwrap();
    assert!(told.contains("2023-11-14T22:28:20.000Z"), "{told}");
    assert_eq!((session.created_at, session.updated_at), (at(0), at(50)));
    assert_eq!(session.lines[1].at, at(900));
    let mut present = coming(vec![line("a", 1)], &[]);
    assert_eq!(present.bring_to(at(50)), None);
    assert_eq!(present.updated_at, at(9));
}
