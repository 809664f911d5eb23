//! Where the native session of a leg is, and where it ends.

use segue_catalog::{Mark, NativeSession, Start, since};
use segue_core::{NativeId, ProviderId};

use crate::Engine;
use crate::native::keeper;

/// Where a native session is.
pub(super) enum Place {
    At(Box<NativeSession>),
    Nowhere,
    /// Something on the way there can't be read.
    Unknown,
}

impl Engine {
    /// Looks for a native session; where it was last will do if `known` says that our own agent is in it.
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

    /// The native record that a turn which is over ended at, as far as that can be told.
    pub(crate) async fn end_of(&self, provider: &ProviderId, id: &NativeId) -> Option<String> {
        if !self.reads(provider) {
            return None;
        }
        // Where it was last is looked at first, and all else only if it is not there any more.
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

    /// Whether an agent made its own context smaller since its native session was last looked at, by its own record.
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
