//! Location of a leg's native session, and its last record.

use segue_catalog::{Mark, NativeSession, Start, since};
use segue_core::id::{NativeId, ProviderId};

use crate::Engine;
use crate::native::keeper;

/// Location of a native session.
pub(super) enum Place {
    At(Box<NativeSession>),
    Nowhere,
    /// A file that may contain the native session cannot be read.
    Unknown,
}

impl Engine {
    /// Locates a native session. If `known` is `true`, a cached location is returned without a search, which suffices
    /// if an agent of this engine uses the native session.
    pub(super) async fn place_of(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        known: bool,
    ) -> Place {
        let key = (keeper(provider), id.clone());
        if known && let Some(native) = self.places.lock().await.get(&key) {
            return Place::At(Box::new(native.clone()));
        }
        let text = format!("{}:{id}", key.0);
        let wanted = id.clone();
        let (found, unreadable) = self
            .with_catalog(move |catalog| {
                let mut natives = catalog.lookup(&text);
                natives
                    .sessions
                    .retain(|native| native.head.id == wanted && !catalog.only_archived(native));
                (natives.sessions.pop(), !natives.unreadable.is_empty())
            })
            .await;
        match found {
            Some(native) => {
                self.places.lock().await.insert(key, native.clone());
                Place::At(Box::new(native))
            }
            None if unreadable => Place::Unknown,
            None => Place::Nowhere,
        }
    }

    /// Returns the mark of the native record at which the last turn ended; `None` if it cannot be determined.
    pub(crate) async fn end_of(&self, provider: &ProviderId, id: &NativeId) -> Option<String> {
        if !self.reads(provider) {
            return None;
        }
        // The cached location is read first; a search follows only if the native session is no longer at that location.
        for known in [true, false] {
            let Place::At(native) = self.place_of(provider, id, known).await else {
                return None;
            };
            let end = self.with_catalog(move |catalog| catalog.end(&native));
            if let Ok(Some(mark)) = end.await {
                return Some(mark.to_string());
            }
        }
        None
    }

    /// Returns `true` if the native session records that the agent compacted its own context after `mark`.
    pub(crate) async fn compacted_since(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        mark: &str,
    ) -> bool {
        let Ok(mark) = mark.parse::<Mark>() else {
            return false;
        };
        let Place::At(native) = self.place_of(provider, id, true).await else {
            return false;
        };
        let read = self.with_catalog(move |catalog| {
            let mut records = catalog.records(&native, &Start::After(mark)).ok()?;
            since(records.as_mut()).ok()
        });
        read.await.is_some_and(|since| since.compacted)
    }
}
