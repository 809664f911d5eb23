//! Whether an agent may be asked, by what is on record of it.

use std::fmt::Write as _;

use jiff::Timestamp;
use segue_agents::Timeouts;
use segue_core::{
    Admission, Arrival, Decision, DecisionKind, Pause, PermissionPolicy, ProviderId, SessionId,
    Standing, admit,
};

use crate::error::moment;
use crate::{ChatRequest, Engine, EngineError};

/// A prompt that was let through.
pub(crate) struct Admitted {
    /// To whom.
    pub(crate) provider: ProviderId,
    /// In whose place, if they were not asked for.
    pub(crate) instead_of: Option<ProviderId>,
    /// How the session fares with them.
    pub(crate) standing: Standing,
    /// Whether it was ever noted that they rest.
    pub(crate) rested: bool,
    /// Until when it has to wait.
    pub(crate) wait: Option<(Timestamp, Pause)>,
    /// What was decided on the way.
    pub(crate) decisions: Vec<Decision>,
}

/// On what terms an agent is asked.
pub(crate) struct Terms {
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<String>,
}

impl Admitted {
    /// The prompt goes to another agent, which nobody asked for: it may do no more than the first one.
    fn give_to(&mut self, other: ProviderId) {
        let from = std::mem::replace(&mut self.provider, other);
        self.instead_of = Some(from);
        self.rested = false;
    }
}

impl Engine {
    /// What a request asks for, and for the rest what is configured for the agent. One that nobody asked for may do no
    /// more than the one in whose place it goes on.
    pub(crate) fn terms(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        instead_of: Option<&ProviderId>,
    ) -> Result<Terms, EngineError> {
        let defaults = self.agent(provider)?.defaults();
        let other = instead_of.and_then(|other| self.agent(other).ok());
        let configured = match other {
            Some(other) => defaults.permissions.narrower(other.defaults().permissions),
            None => defaults.permissions,
        };
        Ok(Terms {
            permissions: request.permissions.unwrap_or(configured),
            timeouts: Timeouts {
                start: request.open_timeout.unwrap_or(defaults.timeouts.start),
                turn: request.turn_timeout.or(defaults.timeouts.turn),
                ..defaults.timeouts
            },
            // A model is called by a name that only its agent knows.
            model: request.model.clone().filter(|_| instead_of.is_none()),
        })
    }

    /// Lets a prompt through to the agent that is to answer, or to one that goes on in its place.
    pub(crate) async fn admit(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        provider: ProviderId,
    ) -> Result<Admitted, EngineError> {
        let now = (self.world.now)();
        let standing = self.standing(session, &provider).await?;
        let rests = self.store.rests().await?;
        let rest = rests.iter().find(|rest| rest.provider == provider);
        let others = if rest.is_some() || standing.is_hopeless() {
            self.others(request, session, std::slice::from_ref(&provider))
                .await?
        } else {
            Vec::new()
        };
        let arrival = Arrival {
            now,
            standing,
            rest,
            haste: request.haste,
            anyway: request.anyway,
            others: &others,
        };
        let mut admitted = Admitted {
            standing,
            rested: rest.is_some(),
            instead_of: None,
            wait: None,
            decisions: Vec::new(),
            provider,
        };
        match admit(&arrival, &self.policy) {
            Admission::Go => {}
            Admission::Wait(until, why) => admitted.wait = Some((until, why)),
            Admission::HandOver(other, until, why) => {
                let mut text = format!(
                    "{other} goes on, since {} rests until {}: {}",
                    admitted.provider,
                    moment(until),
                    why.words()
                );
                let from = &admitted.provider;
                let usual = self.terms(request, from, None)?.permissions;
                let permissions = self.terms(request, &other, Some(from))?.permissions;
                if permissions != usual {
                    let _ = write!(text, "; permissions are {}", permissions.as_str());
                }
                if let Some(model) = &request.model {
                    let _ = write!(text, "; the model {model} is one of {from}'s");
                }
                admitted.standing = self.standing(session, &other).await?;
                admitted.give_to(other);
                let decision = Decision::new(DecisionKind::HandedOver, text);
                admitted.decisions.push(decision);
            }
            Admission::NotYet(until, why) => {
                return Err(EngineError::NotYet {
                    session: session.cloned(),
                    provider: admitted.provider,
                    until,
                    why,
                    others,
                });
            }
            Admission::Hopeless => {
                // Only a session that there is can have fared badly.
                if let Some(session) = session {
                    return Err(EngineError::Hopeless {
                        session: session.clone(),
                        provider: admitted.provider,
                        limit: self.policy.error_limit,
                        others,
                    });
                }
            }
        }
        Ok(admitted)
    }

    /// Those who could go on, of whom the user wants it, the preferred ones first: on this machine, awake, and not
    /// known to fail in this session.
    pub(crate) async fn others(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        tried: &[ProviderId],
    ) -> Result<Vec<ProviderId>, EngineError> {
        let mut others = Vec::new();
        // Another agent would have to be told what was said, which was not wanted.
        if request.strict || self.policy.fallback.is_empty() {
            return Ok(others);
        }
        let now = (self.world.now)();
        let rests = self.store.rests().await?;
        for provider in &self.policy.fallback {
            let awake = !rests
                .iter()
                .any(|rest| rest.provider == *provider && rest.until > now);
            let there = self.agent(provider).is_ok_and(|agent| agent.is_there());
            if !there || !awake || tried.contains(provider) {
                continue;
            }
            let standing = self.standing(session, provider).await?;
            let well = standing.retry_at.is_none_or(|until| until <= now);
            if well && !standing.is_hopeless() {
                others.push(provider.clone());
            }
        }
        Ok(others)
    }

    pub(crate) async fn standing(
        &self,
        session: Option<&SessionId>,
        provider: &ProviderId,
    ) -> Result<Standing, EngineError> {
        match session {
            Some(session) => Ok(self.store.standing(session, provider).await?),
            None => Ok(Standing::default()),
        }
    }
}
