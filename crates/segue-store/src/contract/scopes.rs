//! Contract cases for purposes, and for finding sessions by them.

use futures::future::join_all;
use segue_core::id::{FeatureId, ProviderId, SessionId};
use segue_core::scope::{Purpose, RoleName, Scope, TaskId, TaskState};

use super::{lease_request, new_leg, new_session, open_session, record_turn, session_id, time_at};
use crate::{ForkPoint, NewLeg, NewSession, PageRequest, SessionFilter, Store, StoreError};

fn feature_id(name: &str) -> FeatureId {
    FeatureId::parse(name).unwrap()
}

fn task_purpose(feature_name: Option<&str>, task: &str, state: &str) -> Purpose {
    Purpose::for_scope(Scope::Task {
        feature: feature_name.map(feature_id),
        task: TaskId::parse(task).unwrap(),
        state: TaskState::parse(state).unwrap(),
    })
}

fn purpose_with_role(purpose: &Purpose, role: &str) -> Purpose {
    Purpose {
        role: Some(RoleName::parse(role).unwrap()),
        ..purpose.clone()
    }
}

async fn list_ids(store: &dyn Store, filter: &SessionFilter) -> Vec<SessionId> {
    let page = store
        .list_sessions(filter, PageRequest::first(20))
        .await
        .unwrap();
    let ids = page.sessions.into_iter().map(|session| session.id);
    ids.collect()
}

fn purpose_filter(purpose: &Purpose) -> SessionFilter {
    SessionFilter {
        project: Some("/src/app/.git".into()),
        purpose: Some(purpose.clone()),
        ..SessionFilter::default()
    }
}

/// Verifies that each purpose is stored exactly and finds its own session and no other.
pub async fn each_purpose_finds_only_its_own_sessions(store: &dyn Store) {
    let auth = Purpose::for_scope(Scope::Feature(feature_id("auth")));
    let purposes = [
        Purpose::for_scope(Scope::Project),
        purpose_with_role(&Purpose::for_scope(Scope::Project), "dev"),
        auth.clone(),
        purpose_with_role(&auth, "dev"),
        purpose_with_role(&auth, "qa"),
        Purpose::for_scope(Scope::Feature(feature_id("auth-2"))),
        Purpose::for_scope(Scope::Feature(feature_id("支払い 2"))),
        task_purpose(Some("auth"), "t", "dev"),
        task_purpose(Some("auth"), "t", "qa"),
        task_purpose(None, "t", "dev"),
        purpose_with_role(&task_purpose(Some("auth"), "t", "dev"), "dev"),
    ];
    // A session without a specific purpose matches no purpose.
    store.create_session(new_session(99)).await.unwrap();
    for (n, purpose) in (1..).zip(&purposes) {
        let mut new = new_session(n);
        new.purpose = Some(purpose.clone());
        let created = store.create_session(new).await.unwrap();
        assert_eq!(created.purpose.as_ref(), Some(purpose));
    }
    let mut other_project = new_session(50);
    other_project.project.key = "/else/.git".into();
    other_project.purpose = Some(auth.clone());
    store.create_session(other_project).await.unwrap();

    for (n, purpose) in (1..).zip(&purposes) {
        assert_eq!(
            list_ids(store, &purpose_filter(purpose)).await,
            [session_id(n)],
            "{purpose}"
        );
    }
    let cases = [
        (
            SessionFilter {
                feature: Some(feature_id("auth")),
                ..SessionFilter::default()
            },
            vec![50, 11, 9, 8, 5, 4, 3],
        ),
        (
            SessionFilter {
                task: Some(TaskId::parse("t").unwrap()),
                ..SessionFilter::default()
            },
            vec![11, 10, 9, 8],
        ),
        (
            SessionFilter {
                role: Some(RoleName::parse("dev").unwrap()),
                ..SessionFilter::default()
            },
            vec![11, 4, 2],
        ),
    ];
    for (filter, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(session_id).collect();
        assert_eq!(list_ids(store, &filter).await, expected, "{filter:?}");
    }
}

/// Verifies that the session with the latest activity is first among sessions with the same purpose, and that a handoff
/// changes the provider by which a session is found.
pub async fn a_purpose_query_returns_the_newest_session_of_a_provider(store: &dyn Store) {
    let auth = Purpose::for_scope(Scope::Feature(feature_id("auth")));
    for n in [1, 2] {
        let mut new = new_session(n);
        new.purpose = Some(auth.clone());
        store.create_session(new).await.unwrap();
    }
    assert_eq!(
        list_ids(store, &purpose_filter(&auth)).await,
        [session_id(2), session_id(1)]
    );
    let lease = store
        .acquire_lease(lease_request(&session_id(1), 1))
        .await
        .unwrap()
        .lease;
    let turn = store.begin_turn(&lease, &super::prompt("go", 9)).await;
    let ending = super::finished_ending(10);
    store
        .finish_turn(&lease, turn.unwrap().id, ending)
        .await
        .unwrap();
    assert_eq!(
        list_ids(store, &purpose_filter(&auth)).await,
        [session_id(1), session_id(2)]
    );

    let provider_filter = |provider: &ProviderId| SessionFilter {
        provider: Some(provider.clone()),
        ..purpose_filter(&auth)
    };
    let codex_leg = NewLeg {
        provider: ProviderId::codex(),
        ..new_leg("thread-1")
    };
    store.open_leg(&lease, codex_leg).await.unwrap();
    assert_eq!(
        list_ids(store, &provider_filter(&ProviderId::codex())).await,
        [session_id(1)]
    );
    assert_eq!(
        list_ids(store, &provider_filter(&ProviderId::rehearsal())).await,
        [session_id(2)]
    );
}

/// Verifies that a fork has its own purpose.
pub async fn a_fork_has_its_own_purpose(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    record_turn(store, &lease, "one").await;
    let mut new = new_session(2);
    new.purpose = Some(Purpose::for_scope(Scope::Feature(feature_id("auth"))));
    new.at = time_at(20);
    let point = ForkPoint {
        session: session.id,
        turn: 1,
        before_head_move: None,
    };
    let fork = store.fork_session(new.clone(), point).await.unwrap();
    assert_eq!(fork.purpose, new.purpose);
}

/// Verifies that exactly one of many concurrent requests creates a session for a purpose, and that the others receive
/// its id.
pub async fn concurrent_starts_create_one_session_per_purpose(store: &dyn Store) {
    let auth = Purpose::for_scope(Scope::Feature(feature_id("auth")));
    let new = |n: u32| NewSession {
        purpose: Some(auth.clone()),
        conflict_filter: Some(purpose_filter(&auth)),
        ..new_session(n)
    };
    let prompts: Vec<_> = (1..5).map(|n| super::prompt("go", n)).collect();
    let starts = prompts.iter().zip(1..);
    let starts = starts.map(|(prompt, n)| store.start_session(new(n), super::owner(n), prompt));
    let outcomes = join_all(starts).await;
    let started: Vec<_> = outcomes.iter().flatten().collect();
    assert_eq!(started.len(), 1, "{outcomes:?}");
    let first = started[0].session.id.clone();
    for outcome in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(matches!(outcome, StoreError::PurposeTaken(id) if *id == first));
    }
    let created = store.create_session(new(9)).await;
    assert!(matches!(created, Err(StoreError::PurposeTaken(id)) if id == first));
    assert_eq!(list_ids(store, &purpose_filter(&auth)).await, [first]);
    // A request without a filter, or with a filter for another provider, creates another session.
    let codex_filter = SessionFilter {
        provider: Some(ProviderId::codex()),
        ..purpose_filter(&auth)
    };
    for (n, conflict_filter) in [(10, None), (11, Some(codex_filter))] {
        store
            .create_session(NewSession {
                conflict_filter,
                ..new(n)
            })
            .await
            .unwrap();
    }
}
