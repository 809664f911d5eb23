//! Admission of prompts, based on the failures and cooldowns on record.

use jiff::Timestamp;
use segue_core::agent::PermissionPolicy;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{
    Admission, AdmissionInput, WaitReason, admit_prompt, available_fallbacks,
};
use segue_core::session::{Decision, HandoffCause, PromptRefusal, ProviderRecords};
use segue_providers::Timeouts;

use super::TurnRunner;
use super::attempt::{Opening, PlannedAttempt};
use crate::{AccessError, ChatRequest, TurnError};

/// A prompt that may be sent.
pub(super) struct AdmittedPrompt {
    /// Agent that receives the prompt.
    pub(super) agent: AttemptAgent,
    /// Agent that `agent` replaces as a fallback. `None` if it replaces no agent.
    pub(super) replaced_provider: Option<ProviderId>,
    /// Time until which the prompt waits, with the reason. `None` if it does not wait.
    pub(super) wait: Option<(Timestamp, WaitReason)>,
    /// Decisions made during admission.
    pub(super) decisions: Vec<Decision>,
}

impl AdmittedPrompt {
    /// Converts the prompt to its first attempt.
    pub(super) fn into_attempt(self, opening: Opening) -> PlannedAttempt {
        PlannedAttempt {
            agent: self.agent,
            wait: self.wait,
            opening,
            resent_text: None,
        }
    }
}

/// Agent of an attempt, with the options under which it receives the prompt.
#[derive(Debug, Clone)]
pub(crate) struct AttemptAgent {
    pub(crate) provider: ProviderId,
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<String>,
}

impl TurnRunner {
    /// Returns an agent with the options of the request, completed by the agent's configuration.
    ///
    /// Unless the request sets permissions, a fallback agent gets no more than the agent `replaced_provider` that it
    /// replaces, because the user did not choose it. Fails if the agent is unknown.
    fn attempt_agent(
        &self,
        request: &ChatRequest,
        provider: ProviderId,
        replaced_provider: Option<&ProviderId>,
    ) -> Result<AttemptAgent, AccessError> {
        let agents = &self.context.agents;
        let defaults = agents.get(&provider)?.defaults();
        let replaced_agent = replaced_provider.and_then(|replaced| agents.get(replaced).ok());
        let configured = match replaced_agent {
            Some(replaced) => {
                let limit = replaced.defaults().permissions;
                defaults.permissions.restrict_to(limit)
            }
            None => defaults.permissions,
        };
        // Only the agent that is replaced understands the name of its model.
        let model = request.model.as_ref();
        let model = model.filter(|_| replaced_provider.is_none()).cloned();
        Ok(AttemptAgent {
            provider,
            permissions: request.permissions.unwrap_or(configured),
            timeouts: Timeouts {
                start: request.open_timeout.unwrap_or(defaults.timeouts.start),
                turn: request.turn_timeout.or(defaults.timeouts.turn),
                ..defaults.timeouts
            },
            model,
        })
    }

    /// Replaces an agent by a fallback agent, which gets no more permissions. Returns it with the decision.
    pub(super) fn replace_agent(
        &self,
        request: &ChatRequest,
        from: AttemptAgent,
        to: ProviderId,
        cause: HandoffCause,
    ) -> Result<(AttemptAgent, Decision), AccessError> {
        let mut agent = self.attempt_agent(request, to, Some(&from.provider))?;
        agent.permissions = agent.permissions.restrict_to(from.permissions);
        let is_policy_changed = agent.permissions != from.permissions;
        let decision = Decision::HandedOff {
            from: from.provider,
            to: agent.provider.clone(),
            cause,
            permissions: is_policy_changed.then_some(agent.permissions),
            ignored_model: from.model,
        };
        Ok((agent, decision))
    }

    /// Decides whether a prompt may be sent to `provider`, has to wait, or is sent to a fallback agent. `provider` may
    /// be a fallback agent itself, which replaces `replaced_provider`.
    ///
    /// Fails with [`TurnError::PromptRefused`] if the prompt must not be sent.
    pub(super) fn admit_prompt(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        records: &ProviderRecords,
        (provider, replaced_provider): (ProviderId, Option<ProviderId>),
    ) -> Result<AdmittedPrompt, TurnError> {
        let policy = &self.context.settings.policy;
        let health = records.health_of(&provider);
        let cooldown = records.cooldown_of(&provider);
        let fallbacks = if cooldown.is_some() || health.is_exhausted() {
            self.list_fallbacks(request, records, std::slice::from_ref(&provider))
        } else {
            Vec::new()
        };
        let input = AdmissionInput {
            now: self.context.now(),
            health,
            cooldown,
            wait_preference: request.wait_preference,
            force: request.force,
            fallbacks: &fallbacks,
        };
        let admission = admit_prompt(&input, policy);
        let mut admitted = AdmittedPrompt {
            agent: self.attempt_agent(request, provider, replaced_provider.as_ref())?,
            replaced_provider,
            wait: None,
            decisions: Vec::new(),
        };
        let refusal = match (admission, session) {
            (Admission::Wait(until, reason), _) => {
                admitted.wait = Some((until, reason));
                return Ok(admitted);
            }
            (Admission::HandOff(fallback, until, reason), _) => {
                let cause = HandoffCause::Cooldown { until, reason };
                let replaced = admitted.agent.provider.clone();
                let (agent, decision) =
                    self.replace_agent(request, admitted.agent, fallback, cause)?;
                return Ok(AdmittedPrompt {
                    agent,
                    replaced_provider: admitted.replaced_provider.or(Some(replaced)),
                    wait: None,
                    decisions: vec![decision],
                });
            }
            // A prompt without a session has no failures on record.
            (Admission::Allow, _) | (Admission::Exhausted, None) => return Ok(admitted),
            (Admission::RetryAt(until, reason), _) => PromptRefusal::Unavailable { until, reason },
            (Admission::Exhausted, Some(session)) => PromptRefusal::RetriesExhausted {
                session: session.clone(),
                limit: policy.error_limit,
            },
        };
        Err(TurnError::PromptRefused {
            session: session.cloned(),
            provider: admitted.agent.provider,
            refusal,
            fallbacks,
        })
    }

    /// Returns the configured fallback agents that could answer, in order of preference: installed, not in cooldown,
    /// not failing in this session, and not in `excluded`. Empty if the request is strict.
    pub(super) fn list_fallbacks(
        &self,
        request: &ChatRequest,
        records: &ProviderRecords,
        excluded: &[ProviderId],
    ) -> Vec<ProviderId> {
        // A fallback agent would need a brief of the session, which a strict request excludes.
        if request.strict {
            return Vec::new();
        }
        let configured = &self.context.settings.policy.fallback;
        let agents = &self.context.agents;
        available_fallbacks(configured, records, excluded, self.context.now())
            .into_iter()
            .filter(|provider| agents.get(provider).is_ok_and(|agent| agent.is_installed()))
            .collect()
    }
}
