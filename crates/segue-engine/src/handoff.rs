//! Handing a session to another agent.

use segue_core::{Decision, DecisionKind, Leg, ProviderId, Session, can_be_taken_up};

use crate::outside::Ahead;
use crate::{ChatRequest, Engine, EngineError};

/// A session that another agent carries from now on.
#[derive(Debug, Clone)]
pub struct HandedOver {
    /// The session as it is now.
    pub session: Session,
    /// Who carried it before; the same one if nothing had to be done.
    pub from: ProviderId,
    /// Whether an earlier native session of the new agent knows all that was said, so that it need not be told.
    pub knows_all: bool,
    /// What does not carry over, a line each.
    pub left_behind: Vec<String>,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
}

impl Engine {
    /// Has another agent carry a session from now on. The next prompt opens a native session there, which is told what
    /// was said, unless an earlier one of that agent knows it all.
    pub async fn handoff(
        &self,
        session: &Session,
        to: &ProviderId,
    ) -> Result<HandedOver, EngineError> {
        self.check_handoff(to)?;
        // Nobody looks at the native session any more once it is left.
        let ahead = Ahead::Prompt { strict: false };
        let (hold, mut decisions) = self.hold_idle(&session.id, ahead).await?;
        let outcome = async {
            // Somebody else may have changed the session since it was looked up.
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
            // An agent that runs on for a session that it lost would keep its native session busy.
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

    /// Whether an agent could go on with anything at all.
    pub fn check_handoff(&self, to: &ProviderId) -> Result<(), EngineError> {
        if self.agent(to)?.is_there() {
            Ok(())
        } else {
            Err(EngineError::NotInstalled(to.clone()))
        }
    }

    /// What is configured for one agent and means nothing to another, or something else, but for what was asked for.
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
