//! Contract cases for the stored project context.

use segue_core::brief::{CachedContext, ContextSource, Document, ProjectContext};

use super::{open_session, session_id, time_at};
use crate::{Store, StoreError};

fn cached_context(text: &str, tokens: u64) -> CachedContext {
    let document = Document {
        name: "CLAUDE.md".into(),
        text: text.to_owned(),
        size: 100,
    };
    CachedContext {
        context: ProjectContext {
            documents: vec![document],
            ..ProjectContext::default()
        },
        sources: vec![ContextSource {
            name: "CLAUDE.md".into(),
            stamp: text.to_owned(),
        }],
        tokens,
        at: time_at(7),
    }
}

/// Verifies that each session stores only its newest project context, that an unknown session is refused, and that the
/// context is deleted with its session.
pub async fn a_project_context_is_stored_with_its_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let (other_session, _other_lease) = open_session(store, 2).await;
    assert_eq!(store.saved_context(&session.id).await.unwrap(), None);
    let first = cached_context("one", 10);
    store.save_context(&session.id, first).await.unwrap();
    let second = cached_context("two", 20);
    store
        .save_context(&session.id, second.clone())
        .await
        .unwrap();
    assert_eq!(
        store.saved_context(&session.id).await.unwrap(),
        Some(second)
    );
    assert_eq!(store.saved_context(&other_session.id).await.unwrap(), None);
    let before = session.updated_at;
    let after = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(after.updated_at, before);

    let unknown = store
        .save_context(&session_id(9), cached_context("x", 1))
        .await;
    assert!(
        matches!(unknown, Err(StoreError::NoSession(_))),
        "{unknown:?}"
    );
    store.delete_session(&lease).await.unwrap();
    assert_eq!(store.saved_context(&session.id).await.unwrap(), None);
}
