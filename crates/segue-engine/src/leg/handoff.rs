//! Handoff of a session to another agent.

use segue_core::id::ProviderId;
use segue_core::session::{Decision, DroppedSetting, HandoffCause, Leg, Session, can_reopen_leg};
use segue_store::Lease;

use crate::SessionError;
use crate::leg::open_leg::guard_decisions;
use crate::reconcile::{ReconcileMode, ReconciledSession};
use crate::session::SessionEditor;

/// Result of a handoff.
#[derive(Debug, Clone)]
pub struct HandoffOutcome {
    /// Session after the handoff.
    pub session: Session,
    /// Provider before the handoff. Equals the new provider if the session had it already.
    pub from: ProviderId,
    /// Whether an earlier native session of the new agent contains all turns, so that it needs no brief.
    pub native_has_all_turns: bool,
    /// Settings that do not apply to the new agent.
    pub dropped_settings: Vec<DroppedSetting>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl SessionEditor {
    /// Changes the provider of a session. The next prompt starts a native session of that provider with a brief, unless
    /// an earlier one contains all turns. Fails if the program is not installed, or if the session has no turns.
    pub async fn handoff(
        &self,
        session: &Session,
        to: &ProviderId,
    ) -> Result<HandoffOutcome, SessionError> {
        self.check_handoff(to)?;
        // New turns in the native session are applied first, because segue does not read it after the handoff.
        let mode = ReconcileMode::Prompt { strict: false };
        let acquiring = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, mode);
        let ReconciledSession {
            guard,
            mut decisions,
            snapshot,
        } = acquiring.await?;
        let changed = self
            .change_provider(&snapshot.session, to, &guard.lease)
            .await;
        if changed.is_ok() {
            // An agent that stays running would block its native session, although the session no longer uses it.
            let guard_actions = self.context.agent_pool.end_agent(&session.id).await;
            decisions.extend(guard_decisions(guard_actions));
        }
        guard.release().await;
        let from = snapshot.session.provider;
        let has_all_turns =
            |leg: &Leg| leg.provider == *to && can_reopen_leg(leg, &snapshot.recent_turns);
        Ok(HandoffOutcome {
            session: changed?,
            dropped_settings: self.context.agents.dropped_settings(&from, to, None),
            native_has_all_turns: snapshot.legs.iter().any(has_all_turns),
            from,
            decisions,
        })
    }

    /// Changes the provider of a session and logs the handoff. Does nothing if the session has this provider already.
    async fn change_provider(
        &self,
        session: &Session,
        to: &ProviderId,
        lease: &Lease,
    ) -> Result<Session, SessionError> {
        let (store, at) = (&self.context.store, self.context.now());
        if session.provider == *to {
            return Ok(session.clone());
        }
        if session.turns == 0 {
            return Err(SessionError::NoMessages(session.id.clone()));
        }
        let changed = store.change_provider(lease, to, at).await?;
        let decision = Decision::HandedOff {
            from: session.provider.clone(),
            to: to.clone(),
            cause: HandoffCause::Requested,
            permissions: None,
            ignored_model: None,
        };
        store.log_decision(lease, &decision, at).await?;
        Ok(changed)
    }

    /// Checks that the engine has this agent and that its program is installed.
    pub fn check_handoff(&self, to: &ProviderId) -> Result<(), SessionError> {
        if self.context.agents.get(to)?.is_installed() {
            Ok(())
        } else {
            Err(SessionError::NotInstalled(to.clone()))
        }
    }
}
