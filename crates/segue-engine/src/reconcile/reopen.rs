//! Reopening of a leg that ended at the head of its session.

use segue_core::session::can_resume_leg;
use segue_core::session::can_reopen_leg;
use segue_store::StoreError;
use segue_core::session::Session;
use segue_core::id::ProviderId;
use segue_core::id::NativeId;
use segue_core::session::LegEnd;
use segue_core::session::Leg;
use segue_store::Lease;
use segue_core::session::DecisionKind;
use segue_core::session::Decision;
use crate::AccessError;
use crate::reconcile::Reconciler;
impl Reconciler {
    /// Reopens a leg that ended, if the head is back at its tip and the newest leg cannot run the next prompt. The
    /// caller must report the decision, and apply the turns that were made in the native session since then. `None` if
    /// no leg is reopened.
    pub(crate) async fn reopen_left_leg(
        &self,
        lease: &Lease,
        session: &Session,
        provider: &ProviderId,
    ) -> Result<Option<Decision>, AccessError> {
        let chain = self.context.store.turns(&session.id).await?;
        let legs = self.context.store.legs(&session.id).await?;
        let (chain, legs) = (chain.as_slice(), legs.as_slice());
        let last = legs.last();
        if last.is_some_and(|leg| leg.provider == *provider && can_resume_leg(leg, chain)) {
            return Ok(None);
        }
        // A native session that was reopened before has received turns since then, so only its newest leg counts.
        let is_newest = |leg: &Leg| {
            let is_same_native = |later: &Leg| {
                (&later.provider, &later.native_id) == (&leg.provider, &leg.native_id)
            };
            !legs
                .iter()
                .any(|later| later.number > leg.number && is_same_native(later))
        };
        let is_reopenable =
            |leg: &&Leg| leg.provider == *provider && can_reopen_leg(leg, chain) && is_newest(leg);
        let Some(leg) = legs.iter().rev().find(is_reopenable) else {
            return Ok(None);
        };
        let native_id = leg.native_id.as_ref();
        if !self.has_answered_tip(leg, legs).await?
            || !self.is_native_free(provider, native_id).await
        {
            return Ok(None);
        }
        let reason = match last {
            Some(last) if last.provider != *provider => LegEnd::Handoff,
            Some(_) | None => LegEnd::HeadMoved,
        };
        let at = self.context.now();
        match self.context.store.reopen_leg(lease, leg.id, reason, at).await {
            // A different session uses the native session.
            Err(StoreError::NativeAttached(_)) => return Ok(None),
            outcome => outcome?,
        };
        let id = native_id.map_or("", NativeId::as_str);
        let text = format!(
            "reopened native session {provider}:{id}, which contains all turns of {}",
            session.id
        );
        Ok(Some(Decision::new(DecisionKind::Opened, text)))
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

    async fn is_native_free(&self, provider: &ProviderId, native: Option<&NativeId>) -> bool {
        match native {
            Some(native) => self.context.natives
                .ensure_no_foreign_process(provider, native)
                .await
                .is_ok(),
            None => false,
        }
    }
}
