//! Contract cases for purposes, and for finding sessions by them.

use futures::future::join_all;
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

use super::{at, claim, id, native, new_session, open_session, whole_turn};
use crate::{Filter, ForkPoint, NewLeg, NewSession, Page, Store, StoreError};

fn feature(name: &str) -> FeatureId {
    FeatureId::parse(name).unwrap()
}

fn task(of: Option<&str>, task: &str, state: &str) -> Purpose {
    Purpose::of(Scope::Task {
        feature: of.map(feature),
        task: TaskId::parse(task).unwrap(),
        state: TaskState::parse(state).unwrap(),
    })
}

fn as_role(purpose: &Purpose, role: &str) -> Purpose {
    Purpose {
        role: Some(RoleName::parse(role).unwrap()),
        ..purpose.clone()
    }
}

async fn found(store: &dyn Store, filter: &Filter) -> Vec<SessionId> {
    let found = store.find(filter, Page::first(20)).await.unwrap();
    let ids = found.sessions.into_iter().map(|session| session.id);
    ids.collect()
}

fn exactly(purpose: &Purpose) -> Filter {
    Filter {
        project: Some("/src/app/.git".into()),
        purpose: Some(purpose.clone()),
        ..Filter::default()
    }
}

/// Verifies that each purpose is stored exactly and finds its own session and no other.
pub async fn purposes_are_told_apart(store: &dyn Store) {
    let auth = Purpose::of(Scope::Feature(feature("auth")));
    let purposes = [
        Purpose::of(Scope::Project),
        as_role(&Purpose::of(Scope::Project), "dev"),
        auth.clone(),
        as_role(&auth, "dev"),
        as_role(&auth, "qa"),
        Purpose::of(Scope::Feature(feature("auth-2"))),
        Purpose::of(Scope::Feature(feature("支払い 2"))),
        task(Some("auth"), "t", "dev"),
        task(Some("auth"), "t", "qa"),
        task(None, "t", "dev"),
        as_role(&task(Some("auth"), "t", "dev"), "dev"),
    ];
    // A session without a specific purpose matches no purpose.
    store.create(new_session(99)).await.unwrap();
    for (n, purpose) in (1..).zip(&purposes) {
        let mut new = new_session(n);
        new.purpose = Some(purpose.clone());
        let made = store.create(new).await.unwrap();
        assert_eq!(made.purpose.as_ref(), Some(purpose));
    }
    let mut elsewhere = new_session(50);
    elsewhere.project.key = "/else/.git".into();
    elsewhere.purpose = Some(auth.clone());
    store.create(elsewhere).await.unwrap();

    for (n, purpose) in (1..).zip(&purposes) {
        assert_eq!(found(store, &exactly(purpose)).await, [id(n)], "{purpose}");
    }
    let cases = [
        (
            Filter {
                feature: Some(feature("auth")),
                ..Filter::default()
            },
            vec![50, 11, 9, 8, 5, 4, 3],
        ),
        (
            Filter {
                task: Some(TaskId::parse("t").unwrap()),
                ..Filter::default()
            },
            vec![11, 10, 9, 8],
        ),
        (
            Filter {
                role: Some(RoleName::parse("dev").unwrap()),
                ..Filter::default()
            },
            vec![11, 4, 2],
        ),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(id).collect();
        assert_eq!(found(store, &filter).await, expected, "{filter:?}");
    }
}

/// Verifies that the session with the latest activity is first among sessions with the same purpose, and that a handoff
/// changes the provider by which a session is found.
pub async fn a_purpose_finds_the_newest_by_who_carries_it(store: &dyn Store) {
    let auth = Purpose::of(Scope::Feature(feature("auth")));
    for n in [1, 2] {
        let mut new = new_session(n);
        new.purpose = Some(auth.clone());
        store.create(new).await.unwrap();
    }
    assert_eq!(found(store, &exactly(&auth)).await, [id(2), id(1)]);
    let lease = store.acquire(claim(&id(1), 1, 3)).await.unwrap().lease;
    let turn = store.begin_turn(&lease, &super::prompt("go", 9)).await;
    let finish = super::finished(10);
    store
        .finish_turn(&lease, turn.unwrap().id, finish)
        .await
        .unwrap();
    assert_eq!(found(store, &exactly(&auth)).await, [id(1), id(2)]);

    let by = |provider: &ProviderId| Filter {
        provider: Some(provider.clone()),
        ..exactly(&auth)
    };
    let handed = NewLeg {
        provider: ProviderId::codex(),
        ..native("thread-1")
    };
    store.open_leg(&lease, handed).await.unwrap();
    assert_eq!(found(store, &by(&ProviderId::codex())).await, [id(1)]);
    assert_eq!(found(store, &by(&ProviderId::rehearsal())).await, [id(2)]);
}

/// Verifies that a fork has its own purpose.
pub async fn a_fork_has_its_own_purpose(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    whole_turn(store, &lease, "one").await;
    let mut new = new_session(2);
    new.purpose = Some(Purpose::of(Scope::Feature(feature("auth"))));
    new.at = at(20);
    let point = ForkPoint {
        session: session.id,
        turn: 1,
        before_move: None,
    };
    let fork = store.fork(new.clone(), point).await.unwrap();
    assert_eq!(fork.purpose, new.purpose);
}

/// Verifies that exactly one of many concurrent requests creates a session for a purpose, and that the others receive
/// its id.
pub async fn one_session_is_begun_for_a_purpose(store: &dyn Store) {
    let auth = Purpose::of(Scope::Feature(feature("auth")));
    let new = |n: u32| NewSession {
        purpose: Some(auth.clone()),
        unless: Some(exactly(&auth)),
        ..new_session(n)
    };
    let prompts: Vec<_> = (1..5).map(|n| super::prompt("go", n)).collect();
    let starts = prompts.iter().zip(1..);
    let starts = starts.map(|(prompt, n)| store.start(new(n), super::owner(n), prompt));
    let outcomes = join_all(starts).await;
    let begun: Vec<_> = outcomes.iter().flatten().collect();
    assert_eq!(begun.len(), 1, "{outcomes:?}");
    let first = begun[0].session.id.clone();
    for outcome in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(matches!(outcome, StoreError::Fits(id) if *id == first));
    }
    let made = store.create(new(9)).await;
    assert!(matches!(made, Err(StoreError::Fits(id)) if id == first));
    assert_eq!(found(store, &exactly(&auth)).await, [first]);
    // A request without a filter, or with a filter for another provider, creates another session.
    let by_codex = Filter {
        provider: Some(ProviderId::codex()),
        ..exactly(&auth)
    };
    for (n, unless) in [(10, None), (11, Some(by_codex))] {
        store.create(NewSession { unless, ..new(n) }).await.unwrap();
    }
}
