//! Location of a leg's native session, and its last record.

use segue_catalog::{Mark, NativeSession, ReadStart, read_tail};
use segue_core::id::{NativeId, ProviderId};

use crate::Engine;
use crate::library::conversations::storage_provider;

/// Location of a native session.
pub(super) enum NativeLocation {
    Found(Box<NativeSession>),
    Missing,
    /// A file that may contain the native session cannot be read.
    Unknown,
}

impl Engine {
    /// Locates a native session. If `use_cache` is `true`, a cached location is returned without a search, which
    /// suffices if an agent of this engine uses the native session.
    pub(super) async fn locate_native(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        use_cache: bool,
    ) -> NativeLocation {
        let key = (storage_provider(provider), id.clone());
        if use_cache && let Some(native) = self.native_locations.lock().await.get(&key) {
            return NativeLocation::Found(Box::new(native.clone()));
        }
        let text = format!("{}:{id}", key.0);
        let wanted = id.clone();
        let (found, unreadable) = self
            .with_catalog(move |catalog| {
                let mut natives = catalog.lookup_id(&text);
                natives
                    .sessions
                    .retain(|native| native.head.id == wanted && !catalog.is_only_archived(native));
                (natives.sessions.pop(), !natives.unreadable.is_empty())
            })
            .await;
        match found {
            Some(native) => {
                self.native_locations
                    .lock()
                    .await
                    .insert(key, native.clone());
                NativeLocation::Found(Box::new(native))
            }
            None if unreadable => NativeLocation::Unknown,
            None => NativeLocation::Missing,
        }
    }

    /// Returns the mark of the native record at which the last turn ended; `None` if it cannot be determined.
    pub(crate) async fn read_end_mark(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Option<String> {
        if !self.can_read_sessions(provider) {
            return None;
        }
        // The cached location is read first; a search follows only if the native session is no longer at that location.
        for use_cache in [true, false] {
            let NativeLocation::Found(native) = self.locate_native(provider, id, use_cache).await
            else {
                return None;
            };
            let end = self.with_catalog(move |catalog| catalog.find_last_mark(&native));
            if let Ok(Some(mark)) = end.await {
                return Some(mark.to_string());
            }
        }
        None
    }

    /// Returns `true` if the native session records that the agent compacted its own context after `mark`.
    pub(crate) async fn has_compacted_since(
        &self,
        provider: &ProviderId,
        id: &NativeId,
        mark: &str,
    ) -> bool {
        let Ok(mark) = mark.parse::<Mark>() else {
            return false;
        };
        let NativeLocation::Found(native) = self.locate_native(provider, id, true).await else {
            return false;
        };
        let tail = self.with_catalog(move |catalog| {
            let mut records = catalog
                .open_records(&native, &ReadStart::After(mark))
                .ok()?;
            read_tail(records.as_mut()).ok()
        });
        tail.await.is_some_and(|tail| tail.compacted)
    }
}
