//! Contract cases for tags.

use segue_core::session::{Session, Tag};

use super::{at, id, new_session, open_session, whole_turn};
use crate::{Filter, ForkPoint, Page, Retag, Store, StoreError, TagCount};

fn tags(names: &[&str]) -> Vec<Tag> {
    names.iter().map(|name| Tag::parse(name).unwrap()).collect()
}

async fn retag(store: &dyn Store, n: u32, add: &[&str], remove: &[&str]) -> Session {
    let retag = Retag {
        add: tags(add),
        remove: tags(remove),
    };
    store.retag(&id(n), retag).await.unwrap()
}

/// Verifies that a session has each tag once, sorted, until it is removed, and that its activity time does not change.
pub async fn tags_are_put_on_and_taken_off(store: &dyn Store) {
    let made = store.create(new_session(1)).await.unwrap();
    assert_eq!(made.tags, []);
    let steps: [(&[&str], &[&str], &[&str]); 5] = [
        (&["wip", "auth"], &[], &["auth", "wip"]),
        (&["auth", "Auth"], &[], &["auth", "wip"]),
        (&["支払い"], &["wip", "never-there"], &["auth", "支払い"]),
        (&["auth"], &["auth"], &["auth", "支払い"]),
        (&[], &["auth", "支払い"], &[]),
    ];
    for (add, remove, expected) in steps {
        let session = retag(store, 1, add, remove).await;
        assert_eq!(session.tags, tags(expected), "+{add:?} -{remove:?}");
        assert_eq!(session.updated_at, at(1));
        assert_eq!(store.session(&id(1)).await.unwrap(), Some(session));
    }
}

/// Verifies that a filter by tags returns the sessions that have all of them.
pub async fn tags_select(store: &dyn Store) {
    for n in 1..=3 {
        store.create(new_session(n)).await.unwrap();
    }
    retag(store, 1, &["a", "b"], &[]).await;
    retag(store, 3, &["a"], &[]).await;
    let cases: [(&[&str], &[u32]); 4] = [
        (&["a"], &[3, 1]),
        (&["A", "b"], &[1]),
        (&["b", "c"], &[]),
        (&["aa"], &[]),
    ];
    for (names, expected) in cases {
        let filter = Filter {
            tags: tags(names),
            ..Filter::default()
        };
        let found = store.find(&filter, Page::first(10)).await.unwrap();
        let found: Vec<_> = found.sessions.into_iter().map(|found| found.id).collect();
        let expected: Vec<_> = expected.iter().copied().map(id).collect();
        assert_eq!(found, expected, "{names:?}");
    }
}

/// Verifies that each tag is counted once for every session that has it, and is omitted once no session has it.
pub async fn tags_are_counted(store: &dyn Store) {
    assert_eq!(store.tags().await.unwrap(), []);
    let (_, lease) = open_session(store, 1).await;
    store.create(new_session(2)).await.unwrap();
    retag(store, 1, &["b", "a"], &[]).await;
    retag(store, 2, &["b"], &[]).await;
    let count = |name: &str, sessions| TagCount {
        tag: Tag::parse(name).unwrap(),
        sessions,
    };
    assert_eq!(store.tags().await.unwrap(), [count("a", 1), count("b", 2)]);
    store.delete(&lease).await.unwrap();
    assert_eq!(store.tags().await.unwrap(), [count("b", 1)]);
}

/// Verifies that a fork starts with the tags of its origin, and that later changes are separate.
pub async fn a_fork_takes_the_tags_over(store: &dyn Store) {
    let (origin, lease) = open_session(store, 1).await;
    whole_turn(store, &lease, "one").await;
    retag(store, 1, &["a", "b"], &[]).await;
    let point = ForkPoint {
        session: origin.id,
        turn: 1,
        before_move: None,
    };
    let fork = store.fork(new_session(2), point).await.unwrap();
    assert_eq!(fork.tags, tags(&["a", "b"]));
    retag(store, 2, &[], &["a"]).await;
    let origin = store.session(&id(1)).await.unwrap().unwrap();
    assert_eq!(origin.tags, tags(&["a", "b"]));
}

/// Verifies that a session that does not exist cannot be tagged.
pub async fn a_missing_session_takes_no_tags(store: &dyn Store) {
    let retag = Retag {
        add: tags(&["a"]),
        remove: Vec::new(),
    };
    let tagged = store.retag(&id(9), retag).await;
    assert!(matches!(tagged, Err(StoreError::NoSession(_))));
    assert_eq!(store.tags().await.unwrap(), []);
}
