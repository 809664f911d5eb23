//! Contract cases for the stored project context.

use segue_core::brief::{Context, Document, KeptContext, Source};

use super::{at, id, open_session};
use crate::{Store, StoreError};

fn kept(text: &str, tokens: u64) -> KeptContext {
    let document = Document {
        name: "CLAUDE.md".into(),
        text: text.to_owned(),
        size: 100,
    };
    KeptContext {
        context: Context {
            documents: vec![document],
            ..Context::default()
        },
        sources: vec![Source {
            name: "CLAUDE.md".into(),
            stamp: text.to_owned(),
        }],
        tokens,
        at: at(7),
    }
}

/// Verifies that each session stores only its newest project context, that an unknown session is refused, and that the
/// context is deleted with its session.
pub async fn a_context_is_kept_with_its_session(store: &dyn Store) {
    let (session, lease) = open_session(store, 1).await;
    let (other, _other) = open_session(store, 2).await;
    assert_eq!(store.context(&session.id).await.unwrap(), None);
    let first = kept("one", 10);
    store.keep_context(&session.id, first).await.unwrap();
    let second = kept("two", 20);
    store
        .keep_context(&session.id, second.clone())
        .await
        .unwrap();
    assert_eq!(store.context(&session.id).await.unwrap(), Some(second));
    assert_eq!(store.context(&other.id).await.unwrap(), None);
    let before = session.updated_at;
    let after = store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(after.updated_at, before);

    let unknown = store.keep_context(&id(9), kept("x", 1)).await;
    assert!(
        matches!(unknown, Err(StoreError::NoSession(_))),
        "{unknown:?}"
    );
    store.delete(&lease).await.unwrap();
    assert_eq!(store.context(&session.id).await.unwrap(), None);
}
