//! Handoff of a session to another agent.

use segue_core::id::ProviderId;
use segue_core::session::{Decision, DecisionKind, Leg, Session, can_be_taken_up};

use crate::outside::Ahead;
use crate::{ChatRequest, Engine, EngineError};

/// Result of a handoff.
#[derive(Debug, Clone)]
pub struct HandedOver {
    /// Session after the handoff.
    pub session: Session,
    /// Provider before the handoff. Equals the new provider if the session had it already.
    pub from: ProviderId,
    /// Whether an earlier native session of the new agent contains all turns, so that it needs no brief.
    pub knows_all: bool,
    /// Settings that do not apply to the new agent, one line each.
    pub left_behind: Vec<String>,
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
    ) -> Result<HandedOver, EngineError> {
        self.check_handoff(to)?;
        // New turns in the native session are applied first, because segue does not read it after the handoff.
        let ahead = Ahead::Prompt { strict: false };
        let (hold, mut decisions) = self.hold_idle(&session.id, ahead).await?;
        let outcome = async {
            // The session may have changed since the caller looked it up.
            let session = self.existing(&session.id).await?;
            let from = session.provider.clone();
            if from == *to {
                return Ok((session, from));
            }
            if session.turns == 0 {
                return Err(EngineError::NothingSaid(session.id));
            }
            let at = (self.world.now)();
            let session = self.store.hand_over(&hold.lease, to, at).await?;
            let text = format!("handed over from {from} to {to}, as was asked for");
            let decision = Decision::new(DecisionKind::HandedOver, text);
            self.store.note(&hold.lease, &decision, at).await?;
            Ok((session, from))
        }
        .await;
        if outcome.is_ok() {
            // An agent that stays running would block its native session, although the session no longer uses it.
            let told = self.warm.end(&session.id).await.into_iter();
            decisions.extend(told.map(|line| Decision::new(DecisionKind::Protected, line)));
        }
        hold.release().await;
        let (session, from) = outcome?;
        let chain = self.store.turns(&session.id).await?;
        let legs = self.store.legs(&session.id).await?;
        let knows = |leg: &Leg| leg.provider == *to && can_be_taken_up(leg, &chain);
        Ok(HandedOver {
            left_behind: self.left_behind(&from, to, None),
            knows_all: legs.iter().any(knows),
            session,
            from,
            decisions,
        })
    }

    /// Checks that the engine has this agent and that its program is installed.
    pub fn check_handoff(&self, to: &ProviderId) -> Result<(), EngineError> {
        if self.agent(to)?.is_there() {
            Ok(())
        } else {
            Err(EngineError::NotInstalled(to.clone()))
        }
    }

    /// Describes the settings of `from` that do not exist or differ in `to`, except those that the request sets.
    pub(crate) fn left_behind(
        &self,
        from: &ProviderId,
        to: &ProviderId,
        asked: Option<&ChatRequest>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let (Ok(old), Ok(new)) = (self.agent(from), self.agent(to)) else {
            return lines;
        };
        if from == to {
            return lines;
        }
        let (old, new) = (old.defaults(), new.defaults());
        let permissions_asked = asked.is_some_and(|asked| asked.permissions.is_some());
        if old.permissions != new.permissions && !permissions_asked {
            let (old, new) = (old.permissions.as_str(), new.permissions.as_str());
            lines.push(format!(
                "permissions are {new}, as configured for {to}; for {from} they are {old}"
            ));
        }
        let model = asked.and_then(|asked| asked.model.clone());
        let own = [
            ("mode", old.mode, new.mode),
            ("model", old.model, model.or(new.model)),
        ];
        for (what, old, new) in own {
            if let Some(old) = old {
                let now = new.map_or_else(|| "its own".to_owned(), |new| format!("{new:?}"));
                lines.push(format!(
                    "the {what} {old:?} is one of {from}'s; {to} uses {now}"
                ));
            }
        }
        lines
    }
}
