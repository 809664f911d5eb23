//! Legs of a session, and the health of the providers that run them.

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::{LegId, NativeId, ProviderId, SessionId};
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::session::{Leg, LegEnd, Session};

use crate::{ContextLossState, Lease, NewLeg, Result};

/// Legs, the parts of a session that run on one native session each.
#[async_trait]
pub trait LegStore: Send + Sync {
    /// Opens the next leg. It has no tip yet.
    async fn open_leg(&self, lease: &Lease, leg: NewLeg) -> Result<Leg>;
    /// Sets the native session id of a leg that has not ended.
    async fn set_leg_native_id(
        &self,
        lease: &Lease,
        leg: LegId,
        native_id: &NativeId,
    ) -> Result<()>;
    /// Records that the agent of a leg compacted its own context, so that it needs a reminder of the rules, or that it
    /// received the reminder.
    async fn set_context_loss(
        &self,
        lease: &Lease,
        leg: LegId,
        state: ContextLossState,
    ) -> Result<()>;
    /// Ends a leg.
    async fn end_leg(&self, lease: &Lease, leg: LegId, reason: LegEnd, at: Timestamp)
    -> Result<()>;
    /// Opens the next leg on the native session of an earlier leg, with the tip of that leg. An open leg of the session
    /// ends with the reason `reason`. Fails with [`NativeAttached`](crate::StoreError::NativeAttached) if another
    /// session uses the native session.
    async fn reopen_leg(
        &self,
        lease: &Lease,
        leg: LegId,
        reason: LegEnd,
        at: Timestamp,
    ) -> Result<Leg>;
    /// Changes the provider of a session. Its leg ends, and the next leg belongs to the new provider.
    async fn change_provider(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        at: Timestamp,
    ) -> Result<Session>;
    /// Returns a leg of any session. `None` if it does not exist.
    async fn leg(&self, id: LegId) -> Result<Option<Leg>>;
    /// Returns the legs of a session, oldest first.
    async fn legs(&self, id: &SessionId) -> Result<Vec<Leg>>;
}

/// Health of providers in a session, which a [`SessionSnapshot`](segue_core::session::SessionSnapshot) contains, and
/// cooldowns of providers in all sessions.
#[async_trait]
pub trait ProviderHealthStore: Send + Sync {
    /// Records the health of a provider in a session.
    async fn set_provider_health(
        &self,
        lease: &Lease,
        provider: &ProviderId,
        health: ProviderHealth,
    ) -> Result<()>;
    /// Records the cooldown of a provider, which applies to all sessions. Replaces an earlier cooldown of the provider.
    async fn set_cooldown(&self, cooldown: Cooldown) -> Result<()>;
    /// Clears the cooldown of a provider.
    async fn clear_cooldown(&self, provider: &ProviderId) -> Result<()>;
    /// Returns all recorded cooldowns, including those that are over.
    async fn cooldowns(&self) -> Result<Vec<Cooldown>>;
}
