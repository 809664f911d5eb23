//! Sessions that come from elsewhere: from native sessions of agents, or from files of other programs.

use async_trait::async_trait;
use segue_core::agent::ProcessIdentity;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::session::Session;

use crate::{
    AdoptedSession, ImportedSession, Lease, NativeUpdate, NewSession, Result, SessionOrigin,
};

/// Native sessions, and turns that were made in them outside segue.
#[async_trait]
pub trait NativeStore: Send + Sync {
    /// Creates a session from a native session, with all its turns, and acquires its lease. The tip of its leg is the
    /// last turn. Fails with [`NativeAttached`](crate::StoreError::NativeAttached) if another session uses the native
    /// session.
    async fn adopt_native_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        native: AdoptedSession,
    ) -> Result<Lease>;
    /// Returns those of `natives` on which any session has ever run.
    async fn attached_natives(
        &self,
        natives: &[(ProviderId, NativeId)],
    ) -> Result<Vec<(ProviderId, NativeId)>>;
    /// Applies what a native session contains and the record does not, in one operation.
    async fn apply_native_update(&self, lease: &Lease, update: NativeUpdate) -> Result<Session>;
    /// Creates a session from turns that a native session contains after the tip of a leg (or after the turn to which
    /// it was rewound), because the head of the leg's session has moved off that path. The new session continues on the
    /// native session, and the leg ends.
    async fn fork_native_update(
        &self,
        lease: &Lease,
        new: NewSession,
        owner: ProcessIdentity,
        update: NativeUpdate,
    ) -> Result<Session>;
}

/// Sessions that are imported from other programs.
#[async_trait]
pub trait ImportStore: Send + Sync {
    /// Creates a session from the data of another program, with all its turns. Fails with
    /// [`PurposeTaken`](crate::StoreError::PurposeTaken) if a session of the same project was already imported under
    /// the same name, unless `imported.distinct_from` lists it.
    async fn import_session(
        &self,
        new: NewSession,
        owner: ProcessIdentity,
        imported: ImportedSession,
    ) -> Result<Session>;
    /// Returns the origin of an imported session. `None` if the session was not imported.
    async fn session_origin(&self, id: &SessionId) -> Result<Option<SessionOrigin>>;
}
