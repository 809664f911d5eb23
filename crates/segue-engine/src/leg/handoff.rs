//! Handoff of a session to another agent.

use segue_core::id::ProviderId;
use segue_core::session::{Decision, DecisionKind, Leg, Session, can_reopen_leg};

use crate::reconcile::ReconcileMode;
use crate::{ChatRequest, Engine, EngineError};

/// Result of a handoff.
#[derive(Debug, Clone)]
pub struct HandoffOutcome {
    /// Session after the handoff.
    pub session: Session,
    /// Provider before the handoff. Equals the new provider if the session had it already.
    pub from: ProviderId,
    /// Whether an earlier native session of the new agent contains all turns, so that it needs no brief.
    pub native_has_all_turns: bool,
    /// Settings that do not apply to the new agent, one line each.
    pub dropped_settings: Vec<String>,
    /// Automatic decisions that segue made during the call.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Changes the provider of a session. The next prompt starts a native session of that provider with a brief, unless
    /// an earlier one contains all turns. Fails if the program is not installed, or if the session has no turns.
    pub async fn handoff(
        &self,
        session: &Session,
        to: &ProviderId,
    ) -> Result<HandoffOutcome, EngineError> {
        self.check_handoff(to)?;
        // New turns in the native session are applied first, because segue does not read it after the handoff.
        let mode = ReconcileMode::Prompt { strict: false };
        let (guard, mut decisions) = self.acquire_lease_and_reconcile(&session.id, mode).await?;
        let outcome = async {
            // The session may have changed since the caller looked it up.
            let session = self.require_session(&session.id).await?;
            let from = session.provider.clone();
            if from == *to {
                return Ok((session, from));
            }
            if session.turns == 0 {
                return Err(EngineError::NoMessages(session.id));
            }
            let at = (self.environment.now)();
            let session = self.store.change_provider(&guard.lease, to, at).await?;
            let text = format!("handed off from {from} to {to}, as requested");
            let decision = Decision::new(DecisionKind::HandedOff, text);
            self.store.log_decision(&guard.lease, &decision, at).await?;
            Ok((session, from))
        }
        .await;
        if outcome.is_ok() {
            // An agent that stays running would block its native session, although the session no longer uses it.
            let guard_actions = self.agent_pool.end_agent(&session.id).await.into_iter();
            decisions
                .extend(guard_actions.map(|line| Decision::new(DecisionKind::Protected, line)));
        }
        guard.release().await;
        let (session, from) = outcome?;
        let chain = self.store.turns(&session.id).await?;
        let legs = self.store.legs(&session.id).await?;
        let has_all_turns = |leg: &Leg| leg.provider == *to && can_reopen_leg(leg, &chain);
        Ok(HandoffOutcome {
            dropped_settings: self.describe_dropped_settings(&from, to, None),
            native_has_all_turns: legs.iter().any(has_all_turns),
            session,
            from,
            decisions,
        })
    }

    /// Checks that the engine has this agent and that its program is installed.
    pub fn check_handoff(&self, to: &ProviderId) -> Result<(), EngineError> {
        if self.agent(to)?.is_installed() {
            Ok(())
        } else {
            Err(EngineError::NotInstalled(to.clone()))
        }
    }

    /// Describes the settings of `from` that do not exist or differ in `to`, except those that the request sets.
    pub(crate) fn describe_dropped_settings(
        &self,
        from: &ProviderId,
        to: &ProviderId,
        request: Option<&ChatRequest>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let (Ok(old), Ok(new)) = (self.agent(from), self.agent(to)) else {
            return lines;
        };
        if from == to {
            return lines;
        }
        let (old, new) = (old.defaults(), new.defaults());
        let permissions_requested = request.is_some_and(|request| request.permissions.is_some());
        if old.permissions != new.permissions && !permissions_requested {
            let (old, new) = (old.permissions.as_str(), new.permissions.as_str());
            lines.push(format!(
                "the permission policy is {new}, as configured for {to}; for {from} it is {old}"
            ));
        }
        let model = request.and_then(|request| request.model.clone());
        let settings = [
            ("mode", old.mode, new.mode),
            ("model", old.model, model.or(new.model)),
        ];
        for (setting, old, new) in settings {
            if let Some(old) = old {
                let new_value =
                    new.map_or_else(|| "its default".to_owned(), |new| format!("{new:?}"));
                lines.push(format!(
                    "the {setting} {old:?} belongs to {from}; {to} uses {new_value}"
                ));
            }
        }
        lines
    }
}
