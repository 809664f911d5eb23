//! Contract cases for sessions.

use segue_core::id::{FeatureId, NativeId, ProviderId, SessionId};
use segue_core::scope::{Purpose, Scope};
use segue_core::session::{
    Candidate, Decision, DecisionKind, MatchedBy, Message, Role, Title, TitleSource, TurnState,
    Usage,
};

use super::{
    at, finished, id, native, new_session, open_session, owner, prompt, story, whole_turn,
};
use crate::{Adopted, AdoptedTurn, Filter, Mark, Page, Store, StoreError};

/// Verifies that a created session can be read with all its data, and that a rename does not change its activity time.
pub async fn what_is_created_is_found_again(store: &dyn Store) {
    let mut new = new_session(1);
    let feature = FeatureId::parse("支払い 2").unwrap();
    new.purpose = Some(Purpose::of(Scope::Feature(feature)));
    let made = store.create(new.clone()).await.unwrap();
    assert_eq!(made.id, new.id);
    assert_eq!(made.project, new.project);
    assert_eq!(made.title, new.title);
    assert_eq!(made.purpose, new.purpose);
    assert_eq!((made.head, made.turns, made.total_tokens), (None, 0, None));
    assert_eq!((made.created_at, made.updated_at), (at(1), at(1)));
    assert_eq!(store.session(&made.id).await.unwrap(), Some(made.clone()));

    let title = Title::given("a better name", TitleSource::User).unwrap();
    store.rename(&made.id, &title).await.unwrap();
    let renamed = store.session(&made.id).await.unwrap().unwrap();
    assert_eq!((renamed.title, renamed.updated_at), (title, at(1)));
}

/// Verifies that session ids are unique, and that operations on an unknown id report that it does not exist.
pub async fn ids_are_unique_and_unknown_ones_are_said(store: &dyn Store) {
    store.create(new_session(1)).await.unwrap();
    let mut again = new_session(1);
    again.title = Title::from_prompt("another");
    assert!(matches!(store.create(again).await, Err(StoreError::Exists(taken)) if taken == id(1)));
    let kept = store.session(&id(1)).await.unwrap().unwrap();
    assert_eq!(kept.title.as_str(), "session 1");

    assert_eq!(store.session(&id(9)).await.unwrap(), None);
    let title = Title::from_prompt("x");
    let renamed = store.rename(&id(9), &title).await;
    assert!(matches!(renamed, Err(StoreError::NoSession(_))));
    let claimed = store.acquire(super::claim(&id(9), 1, 0)).await;
    assert!(matches!(claimed, Err(StoreError::NoSession(_))));
    assert!(store.turns(&id(9)).await.unwrap().is_empty());
    assert!(store.legs(&id(9)).await.unwrap().is_empty());
}

/// Verifies that each field of a filter selects sessions, newest first.
pub async fn filters_select(store: &dyn Store) {
    for n in 1..=6 {
        let mut new = new_session(n);
        if n % 2 == 0 {
            new.project.key = "/else/.git".into();
            new.project.cwd = format!("/else/{n}");
            let feature = FeatureId::parse("pay").unwrap();
            new.purpose = Some(Purpose::of(Scope::Feature(feature)));
            new.provider = "codex".parse().unwrap();
        }
        store.create(new).await.unwrap();
    }
    let cases = [
        (Filter::default(), vec![6, 5, 4, 3, 2, 1]),
        (
            Filter {
                project: Some("/else/.git".into()),
                ..Filter::default()
            },
            vec![6, 4, 2],
        ),
        (
            Filter {
                project: Some("/nowhere".into()),
                ..Filter::default()
            },
            vec![],
        ),
        (
            Filter {
                cwd: Some("/else/4".into()),
                ..Filter::default()
            },
            vec![4],
        ),
        (
            Filter {
                provider: Some("codex".parse().unwrap()),
                ..Filter::default()
            },
            vec![6, 4, 2],
        ),
        (
            Filter {
                feature: Some(FeatureId::parse("pay").unwrap()),
                ..Filter::default()
            },
            vec![6, 4, 2],
        ),
        (
            Filter {
                since: Some(at(5)),
                ..Filter::default()
            },
            vec![6, 5],
        ),
        (
            Filter {
                since: Some(at(3)),
                provider: Some("codex".parse().unwrap()),
                ..Filter::default()
            },
            vec![6, 4],
        ),
    ];
    for (filter, expected) in cases {
        let found = store.find(&filter, Page::first(10)).await.unwrap();
        let ids: Vec<_> = found
            .sessions
            .into_iter()
            .map(|session| session.id)
            .collect();
        let expected: Vec<_> = expected.into_iter().map(id).collect();
        assert_eq!(ids, expected, "{filter:?}");
        assert_eq!(found.next, None);
    }
}

/// Verifies that paging returns each session once, also if several sessions have the same activity time.
pub async fn paging_sees_each_session_once(store: &dyn Store) {
    for n in 1..=7 {
        let mut new = new_session(n);
        new.at = at(i64::from(n) / 3);
        store.create(new).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut page = Page::first(2);
    loop {
        let found = store.find(&Filter::default(), page.clone()).await.unwrap();
        assert!(found.sessions.len() <= 2);
        seen.extend(found.sessions.into_iter().map(|session| session.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 7);
}

/// Verifies that a typed reference finds sessions by id, by native id, by the end of an id, and by the beginnings of
/// both.
pub async fn candidates_are_found_by_every_name(store: &dyn Store) {
    let (first, lease) = open_session(store, 1).await;
    store.open_leg(&lease, native("abc-123")).await.unwrap();
    let second = store.create(new_session(2)).await.unwrap();

    let candidate = |session: &segue_core::session::Session, by| Candidate {
        id: session.id.clone(),
        by,
    };
    let found = store.candidates(first.id.as_str()).await.unwrap();
    assert!(found.contains(&candidate(&first, MatchedBy::Id)));
    assert!(!found.iter().any(|found| found.id == second.id));

    let prefix = &first.id.as_str()[..8];
    let found = store.candidates(prefix).await.unwrap();
    assert!(found.contains(&candidate(&first, MatchedBy::Prefix)));
    assert!(found.contains(&candidate(&second, MatchedBy::Prefix)));

    let tail = &first.id.as_str()[first.id.as_str().len() - 4..];
    let found = store.candidates(tail).await.unwrap();
    assert_eq!(found, [candidate(&first, MatchedBy::Suffix)]);
    let longer = &first.id.as_str()[9..];
    let found = store.candidates(longer).await.unwrap();
    assert_eq!(found, [candidate(&first, MatchedBy::Suffix)]);
    let other = format!("000000_{tail}");
    for text in [&tail[1..], &other, &format!("x{}", first.id)] {
        assert_eq!(store.candidates(text).await.unwrap(), [], "{text}");
    }

    let found = store.candidates("abc-123").await.unwrap();
    assert!(found.contains(&candidate(&first, MatchedBy::NativeId)));
    let found = store.candidates("abc").await.unwrap();
    assert_eq!(found, [candidate(&first, MatchedBy::NativePrefix)]);
    // Characters that are special in a pattern language match only themselves.
    for text in ["nothing", "a%", "_", "abc_123"] {
        assert_eq!(store.candidates(text).await.unwrap(), [], "{text}");
    }
}

/// Verifies that the newest decisions are returned in the order in which they were made.
pub async fn decisions_are_kept_in_order(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    for n in 0..5 {
        let decision = Decision::new(DecisionKind::Opened, format!("decision {n}"));
        store.note(&lease, &decision, at(n)).await.unwrap();
    }
    let newest = store.decisions(&id(1), 2).await.unwrap();
    let told: Vec<_> = newest
        .iter()
        .map(|(at, decision)| (*at, decision.text.as_str()))
        .collect();
    assert_eq!(told, [(at(3), "decision 3"), (at(4), "decision 4")]);
}

/// Verifies that a first prompt is recorded together with its session and its lease, or not at all.
pub async fn a_session_starts_whole(store: &dyn Store) {
    let started = store
        .start(new_session(1), owner(1), &prompt("go", 1))
        .await
        .unwrap();
    assert_eq!((started.session.turns, started.turn.n), (1, 1));
    assert_eq!(started.session.head, Some(started.turn.id));
    assert_eq!(store.holder(&id(1)).await.unwrap().unwrap().owner, owner(1));
    assert_eq!(
        store.messages(started.turn.id).await.unwrap(),
        [prompt("go", 1)]
    );
    store
        .finish_turn(&started.lease, started.turn.id, finished(2))
        .await
        .unwrap();
    let again = store
        .start(new_session(1), owner(2), &prompt("me", 2))
        .await;
    assert!(matches!(again, Err(StoreError::Exists(_))));
    assert_eq!(story(store, &id(1)).await, ["go"]);
}

/// Verifies that the model may set the title only until the user has set it.
pub async fn a_persons_title_stays(store: &dyn Store) {
    open_session(store, 1).await;
    let suggest = |text: &str| Title::given(text, TitleSource::Model).unwrap();
    store
        .suggest_title(&id(1), &suggest("by the model"))
        .await
        .unwrap();
    let session = store.session(&id(1)).await.unwrap().unwrap();
    assert_eq!(session.title, suggest("by the model"));
    assert_eq!(session.updated_at, at(1));
    let mine = Title::given("by me", TitleSource::User).unwrap();
    store.rename(&id(1), &mine).await.unwrap();
    store
        .suggest_title(&id(1), &suggest("again"))
        .await
        .unwrap();
    let session = store.session(&id(1)).await.unwrap().unwrap();
    assert_eq!(session.title, mine);
}

/// Verifies that marks show whether a session has changed, without reading the session.
pub async fn marks_tell_what_has_changed(store: &dyn Store) {
    assert_eq!(store.marks().await.unwrap(), []);
    let (session, lease) = open_session(store, 1).await;
    let (other, _) = open_session(store, 2).await;
    let first = store.marks().await.unwrap();
    assert_eq!(first.len(), 2);
    let turn = whole_turn(store, &lease, "hello").await;
    let second = store.marks().await.unwrap();
    let of = |marks: &[Mark], id: &SessionId| marks.iter().find(|mark| mark.id == *id).cloned();
    assert_eq!(of(&second, &other.id), of(&first, &other.id));
    assert_ne!(of(&second, &session.id), of(&first, &session.id));
    let mark = of(&second, &session.id).unwrap();
    let now = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(
        (mark.head, mark.updated_at),
        (Some(turn.id), now.updated_at)
    );
    let title = Title::given("hello again", TitleSource::User).unwrap();
    store.rename(&session.id, &title).await.unwrap();
    let third = store.marks().await.unwrap();
    assert_eq!(of(&third, &session.id).unwrap().title, "hello again");
}

/// Verifies that the store finds the native sessions that its sessions use or have used.
pub async fn carried_native_sessions_are_known(store: &dyn Store) {
    let (_, lease) = open_session(store, 1).await;
    let first = store.open_leg(&lease, native("n-old")).await.unwrap();
    store.open_leg(&lease, native("n-new")).await.unwrap();
    let of = |provider: &ProviderId, ids: &[&str]| {
        let named = ids
            .iter()
            .map(|id| (provider.clone(), NativeId::parse(id).unwrap()));
        named.collect::<Vec<_>>()
    };
    let stranger = ProviderId::parse("stranger").unwrap();
    let mut asked = of(&first.provider, &["n-other", "n-old", "n-new", "n-ol"]);
    asked.extend(of(&stranger, &["n-old"]));
    let carried = store.carried(&asked).await.unwrap();
    assert_eq!(carried, of(&first.provider, &["n-old", "n-new"]));
    assert_eq!(store.carried(&[]).await.unwrap(), []);
}

/// Verifies that an adopted native session has all its turns, and that its leg can be resumed.
pub async fn a_native_session_is_adopted_whole(store: &dyn Store) {
    let said = |text: &str, second| AdoptedTurn {
        state: TurnState::Finished,
        messages: vec![
            prompt(text, second),
            Message::text(Role::Assistant, "yes", at(second + 1)),
        ],
        usage: Usage {
            total_tokens: Some(5),
            ..Usage::default()
        },
        started_at: at(second),
        ended_at: at(second + 1),
        mark: None,
    };
    let native = Adopted {
        native_id: NativeId::parse("n-1").unwrap(),
        turns: vec![said("one", 10), said("two", 20)],
    };
    let lease = store
        .adopt(new_session(1), owner(1), native.clone())
        .await
        .unwrap();
    let session = store.session(&id(1)).await.unwrap().unwrap();
    assert_eq!((session.turns, session.total_tokens), (2, Some(10)));
    assert_eq!(session.native_id, Some(native.native_id.clone()));
    assert_eq!(session.updated_at, at(21));
    assert_eq!(story(store, &id(1)).await, ["one", "two"]);
    let turns = store.turns(&id(1)).await.unwrap();
    let legs = store.legs(&id(1)).await.unwrap();
    assert!(segue_core::session::can_go_on(&legs[0], &turns));
    assert_eq!(store.messages(turns[1].id).await.unwrap().len(), 2);
    assert_eq!(
        store.holder(&id(1)).await.unwrap().unwrap().epoch,
        lease.epoch
    );
    let again = store.adopt(new_session(3), owner(1), native.clone()).await;
    assert!(
        matches!(&again, Err(StoreError::Carried(carrier)) if *carrier == id(1)),
        "{again:?}"
    );
    assert!(store.session(&id(3)).await.unwrap().is_none());
    let other = Adopted {
        native_id: NativeId::parse("n-3").unwrap(),
        ..native
    };
    let taken = store.adopt(new_session(1), owner(1), other).await;
    assert!(matches!(taken, Err(StoreError::Exists(_))));
    // A native session without turns can be adopted too.
    let empty = Adopted {
        native_id: NativeId::parse("n-2").unwrap(),
        turns: Vec::new(),
    };
    store.adopt(new_session(2), owner(1), empty).await.unwrap();
    assert_eq!(store.session(&id(2)).await.unwrap().unwrap().head, None);
}
