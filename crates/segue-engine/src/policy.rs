//! Admission of prompts, based on the failures and cooldowns on record.

use std::fmt::Write as _;

use jiff::Timestamp;
use segue_agents::Timeouts;
use segue_core::agent::PermissionPolicy;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{Admission, Arrival, Pause, Standing, admit};
use segue_core::session::{Decision, DecisionKind};

use crate::error::moment;
use crate::{ChatRequest, Engine, EngineError};

/// A prompt that may be sent.
pub(crate) struct Admitted {
    /// Agent that receives the prompt.
    pub(crate) provider: ProviderId,
    /// Agent that `provider` replaces as a fallback. `None` if it replaces no agent.
    pub(crate) instead_of: Option<ProviderId>,
    /// Failures of the agent in the session.
    pub(crate) standing: Standing,
    /// Whether a cooldown of the agent is on record, even an expired one.
    pub(crate) rested: bool,
    /// Time until which the prompt waits, with the reason. `None` if it does not wait.
    pub(crate) wait: Option<(Timestamp, Pause)>,
    /// Decisions made during admission.
    pub(crate) decisions: Vec<Decision>,
}

/// Options under which an agent receives a prompt.
pub(crate) struct Terms {
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<String>,
}

impl Admitted {
    /// Moves the prompt to a fallback agent. `Engine::terms` limits its permissions, because the user did not choose
    /// it.
    fn give_to(&mut self, other: ProviderId) {
        let from = std::mem::replace(&mut self.provider, other);
        self.instead_of = Some(from);
        self.rested = false;
    }
}

impl Engine {
    /// Returns the options for an agent: those of the request, completed by the agent's configuration.
    ///
    /// Unless the request sets permissions, a fallback agent gets no more than the agent `instead_of` that it replaces,
    /// because the user did not choose it. Fails if the agent is unknown.
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
            // Only the agent that is replaced understands the name of its model.
            model: request.model.clone().filter(|_| instead_of.is_none()),
        })
    }

    /// Decides whether a prompt may be sent to `provider`, has to wait, or is sent to a fallback agent.
    ///
    /// Fails with [`EngineError::NotYet`] or [`EngineError::Hopeless`] if the prompt must not be sent.
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
                // A prompt without a session has no failures on record.
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

    /// Returns the configured fallback agents that could answer, in order of preference: installed, not in cooldown,
    /// not failing in this session, and not in `tried`. Empty if the request is strict.
    pub(crate) async fn others(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        tried: &[ProviderId],
    ) -> Result<Vec<ProviderId>, EngineError> {
        let mut others = Vec::new();
        // A fallback agent would need a brief of the session, which a strict request excludes.
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
