//! Handoff of a session to another agent.

use segue_core::id::ProviderId;
use segue_core::session::{
    Decision, DroppedSetting, HandoffCause, Leg, Session, SessionSnapshot, can_reopen_leg,
};

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
        let ReconciledSession {
            guard,
            mut decisions,
            snapshot,
        } = self
            .reconciler
            .acquire_lease_and_reconcile(&session.id, mode)
            .await?;
        let outcome = async {
            let session = snapshot.session;
            let from = session.provider.clone();
            if from == *to {
                return Ok((session, from));
            }
            if session.turns == 0 {
                return Err(SessionError::NoMessages(session.id));
            }
            let at = self.context.now();
            let session = self
                .context
                .store
                .change_provider(&guard.lease, to, at)
                .await?;
            let decision = Decision::HandedOff {
                from: from.clone(),
                to: to.clone(),
                cause: HandoffCause::Requested,
                permissions: None,
                ignored_model: None,
            };
            self.context
                .store
                .log_decision(&guard.lease, &decision, at)
                .await?;
            Ok((session, from))
        }
        .await;
        if outcome.is_ok() {
            // An agent that stays running would block its native session, although the session no longer uses it.
            let guard_actions = self.context.agent_pool.end_agent(&session.id).await;
            decisions.extend(guard_decisions(guard_actions));
        }
        guard.release().await;
        let (session, from) = outcome?;
        let SessionSnapshot {
            legs, recent_turns, ..
        } = self.context.require_snapshot(&session.id).await?;
        let has_all_turns = |leg: &Leg| leg.provider == *to && can_reopen_leg(leg, &recent_turns);
        Ok(HandoffOutcome {
            dropped_settings: self.context.agents.dropped_settings(&from, to, None),
            native_has_all_turns: legs.iter().any(has_all_turns),
            session,
            from,
            decisions,
        })
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
