//! Reopening of a leg that ended at the head of its session.

use segue_core::id::ProviderId;
use segue_core::session::{Decision, Leg, LegEnd, SessionSnapshot, leg_to_reopen};
use segue_store::{Lease, StoreError};

use crate::AccessError;
use crate::reconcile::Reconciler;

impl Reconciler {
    /// Reopens a leg that ended, if the head is back at its tip and the newest leg cannot run the next prompt. The
    /// caller must report the decision, and apply the turns that were made in the native session since then. `None` if
    /// no leg is reopened.
    pub(crate) async fn reopen_leg_at_head(
        &self,
        lease: &Lease,
        snapshot: &SessionSnapshot,
        provider: &ProviderId,
    ) -> Result<Option<Decision>, AccessError> {
        let legs = snapshot.legs.as_slice();
        let Some(leg) = leg_to_reopen(snapshot, provider) else {
            return Ok(None);
        };
        let Some(native_id) = &leg.native_id else {
            return Ok(None);
        };
        let natives = &self.context.natives;
        if !self.has_answered_tip(leg, legs).await?
            || natives
                .find_foreign_process(provider, native_id)
                .await
                .is_some()
        {
            return Ok(None);
        }
        let reason = match legs.last() {
            Some(last) if last.provider != *provider => LegEnd::Handoff,
            Some(_) | None => LegEnd::HeadMoved,
        };
        let (store, at) = (&self.context.store, self.context.now());
        match store.reopen_leg(lease, leg.id, reason, at).await {
            // A different session uses the native session.
            Err(StoreError::NativeAttached(_)) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(Some(Decision::LegReopened {
                provider: provider.clone(),
                native_id: Some(native_id.clone()),
                session: snapshot.session.id.clone(),
            })),
        }
    }

    /// Returns `true` if the last attempt at the tip of a leg ran on its native session, or if the tip has no attempts.
    /// After a failure, another agent may have answered instead.
    async fn has_answered_tip(&self, leg: &Leg, legs: &[Leg]) -> Result<bool, AccessError> {
        let Some(tip) = leg.tip else {
            return Ok(false);
        };
        let attempts = self.context.store.attempts(tip).await?;
        let last_leg_id = attempts.last().map(|attempt| attempt.leg);
        let last_leg = legs.iter().find(|leg| Some(leg.id) == last_leg_id);
        Ok(last_leg_id.is_none()
            || last_leg.is_some_and(|last_leg| last_leg.native_id == leg.native_id))
    }
}
