//! Contract cases for tags.

use segue_core::session::{Session, Tag};

use super::{new_session, open_session, record_turn, session_id, time_at};
use crate::{ForkPoint, PageRequest, SessionFilter, Store, StoreError, TagChange, TagCount};

fn parse_tags(names: &[&str]) -> Vec<Tag> {
    names.iter().map(|name| Tag::parse(name).unwrap()).collect()
}

async fn change_tags(store: &dyn Store, n: u32, add: &[&str], remove: &[&str]) -> Session {
    let change = TagChange {
        add: parse_tags(add),
        remove: parse_tags(remove),
    };
    store.change_tags(&session_id(n), change).await.unwrap()
}

/// Verifies that a session has each tag once, sorted, until it is removed, and that its activity time does not change.
pub async fn tags_are_added_and_removed(store: &dyn Store) {
    let created = store.create_session(new_session(1)).await.unwrap();
    assert_eq!(created.tags, []);
    let steps: [(&[&str], &[&str], &[&str]); 5] = [
        (&["wip", "auth"], &[], &["auth", "wip"]),
        (&["auth", "Auth"], &[], &["auth", "wip"]),
        (&["支払い"], &["wip", "never-there"], &["auth", "支払い"]),
        (&["auth"], &["auth"], &["auth", "支払い"]),
        (&[], &["auth", "支払い"], &[]),
    ];
    for (add, remove, expected) in steps {
        let session = change_tags(store, 1, add, remove).await;
        assert_eq!(session.tags, parse_tags(expected), "+{add:?} -{remove:?}");
        assert_eq!(session.updated_at, time_at(1));
        assert_eq!(store.session(&session_id(1)).await.unwrap(), Some(session));
    }
}

/// Verifies that a filter by tags returns the sessions that have all of them.
pub async fn a_tag_filter_selects_sessions_with_all_tags(store: &dyn Store) {
    for n in 1..=3 {
        store.create_session(new_session(n)).await.unwrap();
    }
    change_tags(store, 1, &["a", "b"], &[]).await;
    change_tags(store, 3, &["a"], &[]).await;
    let cases: [(&[&str], &[u32]); 4] = [
        (&["a"], &[3, 1]),
        (&["A", "b"], &[1]),
        (&["b", "c"], &[]),
        (&["aa"], &[]),
    ];
    for (names, expected) in cases {
        let filter = SessionFilter {
            tags: parse_tags(names),
            ..SessionFilter::default()
        };
        let page = store
            .list_sessions(&filter, PageRequest::first(10))
            .await
            .unwrap();
        let ids: Vec<_> = page.sessions.into_iter().map(|found| found.id).collect();
        let expected: Vec<_> = expected.iter().copied().map(session_id).collect();
        assert_eq!(ids, expected, "{names:?}");
    }
}

/// Verifies that each tag is counted once for every session that has it, and is omitted once no session has it.
pub async fn each_tag_is_counted_once_per_session(store: &dyn Store) {
    assert_eq!(store.tag_counts().await.unwrap(), []);
    let (_, lease) = open_session(store, 1).await;
    store.create_session(new_session(2)).await.unwrap();
    change_tags(store, 1, &["b", "a"], &[]).await;
    change_tags(store, 2, &["b"], &[]).await;
    let count = |name: &str, sessions| TagCount {
        tag: Tag::parse(name).unwrap(),
        sessions,
    };
    assert_eq!(
        store.tag_counts().await.unwrap(),
        [count("a", 1), count("b", 2)]
    );
    store.delete_session(&lease).await.unwrap();
    assert_eq!(store.tag_counts().await.unwrap(), [count("b", 1)]);
}

/// Verifies that a fork starts with the tags of its origin, and that later changes are separate.
pub async fn a_fork_copies_the_tags_of_its_origin(store: &dyn Store) {
    let (origin, lease) = open_session(store, 1).await;
    record_turn(store, &lease, "one").await;
    change_tags(store, 1, &["a", "b"], &[]).await;
    let point = ForkPoint {
        session: origin.id,
        turn: 1,
        before_head_move: None,
    };
    let fork = store.fork_session(new_session(2), point).await.unwrap();
    assert_eq!(fork.tags, parse_tags(&["a", "b"]));
    change_tags(store, 2, &[], &["a"]).await;
    let origin = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!(origin.tags, parse_tags(&["a", "b"]));
}

/// Verifies that a session that does not exist cannot be tagged.
pub async fn a_missing_session_cannot_be_tagged(store: &dyn Store) {
    let change = TagChange {
        add: parse_tags(&["a"]),
        remove: Vec::new(),
    };
    let tagged = store.change_tags(&session_id(9), change).await;
    assert!(matches!(tagged, Err(StoreError::NoSession(_))));
    assert_eq!(store.tag_counts().await.unwrap(), []);
}
