//! Contract cases for sessions.

use segue_core::id::{FeatureId, NativeId, ProviderId, SessionId};
use segue_core::samples::sample_decisions;
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{
    Decision, MatchedBy, Message, RefCandidate, Role, Title, TitleSource, TurnState, Usage,
};

use super::{
    finished_ending, list_prompts, new_leg, new_session, open_session, owner, prompt, record_turn,
    session_id, time_at,
};
use crate::{
    AdoptedSession, AdoptedTurn, PageRequest, SessionFilter, SessionStamp, Store, StoreError,
};

/// Verifies that a created session can be read with all its data, and that a rename does not change its activity time.
pub async fn a_created_session_can_be_read_back(store: &dyn Store) {
    let mut new = new_session(1);
    let feature = FeatureId::parse("支払い 2").unwrap();
    new.purpose = Some(Purpose::for_scope(Scope::Feature(feature)));
    let created = store.create_session(new.clone()).await.unwrap();
    assert_eq!(created.id, new.id);
    assert_eq!(created.project, new.project);
    assert_eq!(created.title, new.title);
    assert_eq!(created.purpose, new.purpose);
    assert_eq!(
        (created.head, created.turns, created.total_tokens),
        (None, 0, None)
    );
    assert_eq!(
        (created.created_at, created.updated_at),
        (time_at(1), time_at(1))
    );
    assert_eq!(
        store.session(&created.id).await.unwrap(),
        Some(created.clone())
    );

    let title = Title::new("a better name", TitleSource::User).unwrap();
    store.rename_session(&created.id, &title).await.unwrap();
    let renamed = store.session(&created.id).await.unwrap().unwrap();
    assert_eq!((renamed.title, renamed.updated_at), (title, time_at(1)));
}

/// Verifies that session ids are unique, and that operations on an unknown id report that it does not exist.
pub async fn session_ids_are_unique_and_unknown_ids_are_errors(store: &dyn Store) {
    store.create_session(new_session(1)).await.unwrap();
    let mut duplicate = new_session(1);
    duplicate.title = Title::from_prompt("another");
    let created = store.create_session(duplicate).await;
    assert!(matches!(created, Err(StoreError::SessionExists(id)) if id == session_id(1)));
    let stored = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!(stored.title.as_str(), "session 1");

    assert_eq!(store.session(&session_id(9)).await.unwrap(), None);
    let title = Title::from_prompt("x");
    let renamed = store.rename_session(&session_id(9), &title).await;
    assert!(matches!(renamed, Err(StoreError::NoSession(_))));
    let leased = store
        .acquire_lease(super::lease_request(&session_id(9), 1))
        .await;
    assert!(matches!(leased, Err(StoreError::NoSession(_))));
    assert!(store.turns(&session_id(9)).await.unwrap().is_empty());
    assert!(store.legs(&session_id(9)).await.unwrap().is_empty());
}

/// Verifies that each field of a filter selects sessions, newest first.
pub async fn each_filter_field_selects_sessions(store: &dyn Store) {
    for n in 1..=6 {
        let mut new = new_session(n);
        if n % 2 == 0 {
            new.project.key = "/else/.git".into();
            new.project.cwd = format!("/else/{n}");
            let feature = FeatureId::parse("pay").unwrap();
            new.purpose = Some(Purpose::for_scope(Scope::Feature(feature)));
            new.provider = "codex".parse().unwrap();
        }
        store.create_session(new).await.unwrap();
    }
    let cases = [
        (SessionFilter::default(), vec![6, 5, 4, 3, 2, 1]),
        (
            SessionFilter {
                project: Some("/else/.git".into()),
                ..SessionFilter::default()
            },
            vec![6, 4, 2],
        ),
        (
            SessionFilter {
                project: Some("/nowhere".into()),
                ..SessionFilter::default()
            },
            vec![],
        ),
        (
            SessionFilter {
                cwd: Some("/else/4".into()),
                ..SessionFilter::default()
            },
            vec![4],
        ),
        (
            SessionFilter {
                provider: Some("codex".parse().unwrap()),
                ..SessionFilter::default()
            },
            vec![6, 4, 2],
        ),
        (
            SessionFilter {
                feature: Some(FeatureId::parse("pay").unwrap()),
                ..SessionFilter::default()
            },
            vec![6, 4, 2],
        ),
        (
            SessionFilter {
                since: Some(time_at(5)),
                ..SessionFilter::default()
            },
            vec![6, 5],
        ),
        (
            SessionFilter {
                since: Some(time_at(3)),
                provider: Some("codex".parse().unwrap()),
                ..SessionFilter::default()
            },
            vec![6, 4],
        ),
    ];
    for (filter, expected) in cases {
        let page = store
            .list_sessions(&filter, PageRequest::first(10))
            .await
            .unwrap();
        let ids: Vec<_> = page
            .sessions
            .into_iter()
            .map(|session| session.id)
            .collect();
        let expected: Vec<_> = expected.into_iter().map(session_id).collect();
        assert_eq!(ids, expected, "{filter:?}");
        assert_eq!(page.next, None);
    }
}

/// Verifies that paging returns each session once, also if several sessions have the same activity time.
pub async fn paging_returns_each_session_once(store: &dyn Store) {
    for n in 1..=7 {
        let mut new = new_session(n);
        new.at = time_at(i64::from(n) / 3);
        store.create_session(new).await.unwrap();
    }
    let mut ids = Vec::new();
    let mut page = PageRequest::first(2);
    loop {
        let session_page = store
            .list_sessions(&SessionFilter::default(), page.clone())
            .await
            .unwrap();
        assert!(session_page.sessions.len() <= 2);
        ids.extend(session_page.sessions.into_iter().map(|session| session.id));
        match session_page.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(ids.len(), 7);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 7);
}

/// Verifies that a typed reference finds sessions by id, by native id, by the end of an id, and by the beginnings of
/// both.
pub async fn a_reference_matches_sessions_by_id_native_id_prefix_and_suffix(store: &dyn Store) {
    let (first, lease) = open_session(store, 1).await;
    store.open_leg(&lease, new_leg("abc-123")).await.unwrap();
    let second = store.create_session(new_session(2)).await.unwrap();

    let candidate = |session: &segue_core::session::Session, matched_by| RefCandidate {
        id: session.id.clone(),
        matched_by,
    };
    let candidates = store.ref_candidates(first.id.as_str()).await.unwrap();
    assert!(candidates.contains(&candidate(&first, MatchedBy::Id)));
    assert!(!candidates.iter().any(|hit| hit.id == second.id));

    let prefix = &first.id.as_str()[..8];
    let candidates = store.ref_candidates(prefix).await.unwrap();
    assert!(candidates.contains(&candidate(&first, MatchedBy::Prefix)));
    assert!(candidates.contains(&candidate(&second, MatchedBy::Prefix)));

    let tail = &first.id.as_str()[first.id.as_str().len() - 4..];
    let candidates = store.ref_candidates(tail).await.unwrap();
    assert_eq!(candidates, [candidate(&first, MatchedBy::Suffix)]);
    let longer = &first.id.as_str()[9..];
    let candidates = store.ref_candidates(longer).await.unwrap();
    assert_eq!(candidates, [candidate(&first, MatchedBy::Suffix)]);
    let wrong_prefix = format!("000000_{tail}");
    for text in [&tail[1..], &wrong_prefix, &format!("x{}", first.id)] {
        assert_eq!(store.ref_candidates(text).await.unwrap(), [], "{text}");
    }

    let candidates = store.ref_candidates("abc-123").await.unwrap();
    assert!(candidates.contains(&candidate(&first, MatchedBy::NativeId)));
    let candidates = store.ref_candidates("abc").await.unwrap();
    assert_eq!(candidates, [candidate(&first, MatchedBy::NativePrefix)]);
    // Characters that are special in a pattern language match only themselves.
    for text in ["nothing", "a%", "_", "abc_123"] {
        assert_eq!(store.ref_candidates(text).await.unwrap(), [], "{text}");
    }
}

/// Verifies that the newest decisions are returned in the order in which they were made.
pub async fn decisions_are_returned_in_order(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let entry = |n: u32| (time_at(n.into()), Decision::PromptRequeued { turn: n });
    for (at, decision) in (0..5).map(entry) {
        store.log_decision(&lease, &decision, at).await.unwrap();
    }
    let newest = store.decisions(&session_id(1), 2).await.unwrap();
    assert_eq!(newest, [entry(3), entry(4)]);
}

/// Verifies that every decision can be read back with all its fields.
pub async fn every_decision_survives(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let decisions = sample_decisions();
    for decision in &decisions {
        let logged = store.log_decision(&lease, decision, time_at(1)).await;
        logged.unwrap();
    }
    let stored = store.decisions(&session_id(1), u32::MAX).await.unwrap();
    let stored: Vec<Decision> = stored.into_iter().map(|(_, decision)| decision).collect();
    assert_eq!(stored, decisions);
}

/// Verifies that a first prompt is recorded together with its session and its lease, or not at all.
pub async fn a_session_starts_with_its_lease_and_first_turn(store: &dyn Store) {
    let started = store
        .start_session(new_session(1), owner(1), &prompt("go", 1))
        .await
        .unwrap();
    assert_eq!((started.session.turns, started.turn.number), (1, 1));
    assert_eq!(started.session.head, Some(started.turn.id));
    assert_eq!(
        store
            .lease_holder(&session_id(1))
            .await
            .unwrap()
            .unwrap()
            .owner,
        owner(1)
    );
    assert_eq!(
        store.messages(started.turn.id).await.unwrap(),
        [prompt("go", 1)]
    );
    store
        .finish_turn(&started.lease, started.turn.id, finished_ending(2))
        .await
        .unwrap();
    let duplicate = store
        .start_session(new_session(1), owner(2), &prompt("me", 2))
        .await;
    assert!(matches!(duplicate, Err(StoreError::SessionExists(_))));
    assert_eq!(list_prompts(store, &session_id(1)).await, ["go"]);
}

/// Verifies that the model may set the title only until the user has set it.
pub async fn a_user_title_is_not_replaced_by_a_suggestion(store: &dyn Store) {
    open_session(store, 1).await;
    let model_title = |text: &str| Title::new(text, TitleSource::Model).unwrap();
    store
        .suggest_title(&session_id(1), &model_title("by the model"))
        .await
        .unwrap();
    let session = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!(session.title, model_title("by the model"));
    assert_eq!(session.updated_at, time_at(1));
    let user_title = Title::new("by me", TitleSource::User).unwrap();
    store
        .rename_session(&session_id(1), &user_title)
        .await
        .unwrap();
    store
        .suggest_title(&session_id(1), &model_title("again"))
        .await
        .unwrap();
    let session = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!(session.title, user_title);
}

/// Verifies that marks show whether a session has changed, without reading the session.
pub async fn session_stamps_show_which_sessions_changed(store: &dyn Store) {
    assert_eq!(store.session_stamps().await.unwrap(), []);
    let (session, lease) = open_session(store, 1).await;
    let (other_session, _) = open_session(store, 2).await;
    let first = store.session_stamps().await.unwrap();
    assert_eq!(first.len(), 2);
    let turn = record_turn(store, &lease, "hello").await;
    let second = store.session_stamps().await.unwrap();
    let find_stamp = |stamps: &[SessionStamp], id: &SessionId| {
        stamps.iter().find(|stamp| stamp.id == *id).cloned()
    };
    assert_eq!(
        find_stamp(&second, &other_session.id),
        find_stamp(&first, &other_session.id)
    );
    assert_ne!(
        find_stamp(&second, &session.id),
        find_stamp(&first, &session.id)
    );
    let stamp = find_stamp(&second, &session.id).unwrap();
    let current = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(
        (stamp.head, stamp.updated_at),
        (Some(turn.id), current.updated_at)
    );
    let title = Title::new("hello again", TitleSource::User).unwrap();
    store.rename_session(&session.id, &title).await.unwrap();
    let third = store.session_stamps().await.unwrap();
    assert_eq!(
        find_stamp(&third, &session.id).unwrap().title,
        "hello again"
    );
}

/// Verifies that the store finds the native sessions that its sessions use or have used.
pub async fn attached_native_sessions_are_listed(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let first = store.open_leg(&lease, new_leg("n-old")).await.unwrap();
    store.open_leg(&lease, new_leg("n-new")).await.unwrap();
    let native_keys = |provider: &ProviderId, ids: &[&str]| {
        let keys = ids
            .iter()
            .map(|id| (provider.clone(), NativeId::parse(id).unwrap()));
        keys.collect::<Vec<_>>()
    };
    let other_provider = ProviderId::parse("other_provider").unwrap();
    let mut requested = native_keys(&first.provider, &["n-other", "n-old", "n-new", "n-ol"]);
    requested.extend(native_keys(&other_provider, &["n-old"]));
    let attached = store.attached_natives(&requested).await.unwrap();
    assert_eq!(attached, native_keys(&first.provider, &["n-old", "n-new"]));
    assert_eq!(store.attached_natives(&[]).await.unwrap(), []);
}

/// Verifies that an adopted native session has all its turns, and that its leg can be resumed.
pub async fn an_adopted_native_session_has_all_its_turns(store: &dyn Store) {
    let adopted_turn = |text: &str, second| AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            prompt(text, second),
            Message::from_text(Role::Assistant, "yes", time_at(second + 1)),
        ],
        usage: Usage {
            total_tokens: Some(5),
            ..Usage::default()
        },
        started_at: time_at(second),
        ended_at: time_at(second + 1),
        mark: None,
    };
    let native = AdoptedSession {
        native_id: NativeId::parse("n-1").unwrap(),
        turns: vec![adopted_turn("one", 10), adopted_turn("two", 20)],
    };
    let lease = store
        .adopt_native_session(new_session(1), owner(1), native.clone())
        .await
        .unwrap();
    let session = store.session(&session_id(1)).await.unwrap().unwrap();
    assert_eq!((session.turns, session.total_tokens), (2, Some(10)));
    assert_eq!(session.native_id, Some(native.native_id.clone()));
    assert_eq!(session.updated_at, time_at(21));
    assert_eq!(list_prompts(store, &session_id(1)).await, ["one", "two"]);
    let turns = store.turns(&session_id(1)).await.unwrap();
    let legs = store.legs(&session_id(1)).await.unwrap();
    assert!(segue_core::session::can_resume_leg(&legs[0], &turns));
    assert_eq!(store.messages(turns[1].id).await.unwrap().len(), 2);
    assert_eq!(
        store
            .lease_holder(&session_id(1))
            .await
            .unwrap()
            .unwrap()
            .epoch,
        lease.epoch
    );
    let duplicate = store
        .adopt_native_session(new_session(3), owner(1), native.clone())
        .await;
    assert!(
        matches!(&duplicate, Err(StoreError::NativeAttached(attached_to)) if *attached_to == session_id(1)),
        "{duplicate:?}"
    );
    assert!(store.session(&session_id(3)).await.unwrap().is_none());
    let other_native = AdoptedSession {
        native_id: NativeId::parse("n-3").unwrap(),
        ..native
    };
    let refused = store
        .adopt_native_session(new_session(1), owner(1), other_native)
        .await;
    assert!(matches!(refused, Err(StoreError::SessionExists(_))));
    // A native session without turns can be adopted too.
    let empty = AdoptedSession {
        native_id: NativeId::parse("n-2").unwrap(),
        turns: Vec::new(),
    };
    store
        .adopt_native_session(new_session(2), owner(1), empty)
        .await
        .unwrap();
    assert_eq!(
        store.session(&session_id(2)).await.unwrap().unwrap().head,
        None
    );
}
