//! Admission of prompts, based on the failures and cooldowns on record.

use jiff::Timestamp;
use segue_agents::Timeouts;
use segue_core::agent::PermissionPolicy;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{
    Admission, AdmissionInput, ProviderHealth, WaitReason, admit_prompt, available_fallbacks,
};
use segue_core::session::{Decision, HandoffCause, PromptRefusal, ProviderRecords};

use super::TurnRunner;
use crate::{AccessError, ChatRequest, TurnError};

/// A prompt that may be sent.
pub(super) struct AdmittedPrompt {
    /// Agent that receives the prompt.
    pub(super) provider: ProviderId,
    /// Agent that `provider` replaces as a fallback. `None` if it replaces no agent.
    pub(super) replaced_provider: Option<ProviderId>,
    /// Failures of the agent in the session.
    pub(super) health: ProviderHealth,
    /// Whether a cooldown of the agent is on record, even an expired one.
    pub(super) has_cooldown: bool,
    /// Time until which the prompt waits, with the reason. `None` if it does not wait.
    pub(super) wait: Option<(Timestamp, WaitReason)>,
    /// Decisions made during admission.
    pub(super) decisions: Vec<Decision>,
}

/// Options under which an agent receives a prompt.
#[derive(Debug, Clone)]
pub(crate) struct AgentOptions {
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<String>,
}

impl TurnRunner {
    /// Returns the options for an agent: those of the request, completed by the agent's configuration.
    ///
    /// Unless the request sets permissions, a fallback agent gets no more than the agent `replaced_provider` that it
    /// replaces, because the user did not choose it. Fails if the agent is unknown.
    pub(super) fn agent_options(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        replaced_provider: Option<&ProviderId>,
    ) -> Result<AgentOptions, AccessError> {
        let agents = &self.context.agents;
        let defaults = agents.get(provider)?.defaults();
        let replaced_agent = replaced_provider.and_then(|replaced| agents.get(replaced).ok());
        let configured = match replaced_agent {
            Some(replaced_agent) => defaults
                .permissions
                .restrict_to(replaced_agent.defaults().permissions),
            None => defaults.permissions,
        };
        Ok(AgentOptions {
            permissions: request.permissions.unwrap_or(configured),
            timeouts: Timeouts {
                start: request.open_timeout.unwrap_or(defaults.timeouts.start),
                turn: request.turn_timeout.or(defaults.timeouts.turn),
                ..defaults.timeouts
            },
            // Only the agent that is replaced understands the name of its model.
            model: request
                .model
                .clone()
                .filter(|_| replaced_provider.is_none()),
        })
    }

    /// Decides whether a prompt may be sent to `provider`, has to wait, or is sent to a fallback agent.
    ///
    /// Fails with [`TurnError::ProviderUnavailable`] or [`TurnError::RetriesExhausted`] if the prompt must not be sent.
    pub(super) fn admit_prompt(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        records: &ProviderRecords,
        provider: ProviderId,
    ) -> Result<AdmittedPrompt, TurnError> {
        let now = self.context.now();
        let policy = &self.context.settings.policy;
        let health = records.health_of(&provider);
        let cooldown = records.cooldown_of(&provider);
        let fallbacks = if cooldown.is_some() || health.is_exhausted() {
            self.list_fallbacks(request, records, std::slice::from_ref(&provider))
        } else {
            Vec::new()
        };
        let input = AdmissionInput {
            now,
            health,
            cooldown,
            wait_preference: request.wait_preference,
            force: request.force,
            fallbacks: &fallbacks,
        };
        let mut admitted = AdmittedPrompt {
            health,
            has_cooldown: cooldown.is_some(),
            replaced_provider: None,
            wait: None,
            decisions: Vec::new(),
            provider,
        };
        match admit_prompt(&input, policy) {
            Admission::Allow => {}
            Admission::Wait(until, reason) => admitted.wait = Some((until, reason)),
            Admission::HandOff(fallback, until, reason) => {
                let from = std::mem::replace(&mut admitted.provider, fallback);
                let original = self.agent_options(request, &from, None)?;
                let options = self.agent_options(request, &admitted.provider, Some(&from))?;
                let is_policy_changed = options.permissions != original.permissions;
                admitted.decisions.push(Decision::HandedOff {
                    from: from.clone(),
                    to: admitted.provider.clone(),
                    cause: HandoffCause::Cooldown { until, reason },
                    permissions: is_policy_changed.then_some(options.permissions),
                    ignored_model: request.model.clone(),
                });
                admitted.health = records.health_of(&admitted.provider);
                admitted.has_cooldown = false;
                // The options of a fallback agent are limited, because the user did not choose it.
                admitted.replaced_provider = Some(from);
            }
            Admission::RetryAt(until, reason) => {
                return Err(TurnError::ProviderUnavailable {
                    session: session.cloned(),
                    provider: admitted.provider,
                    until,
                    reason,
                    fallbacks,
                });
            }
            Admission::Exhausted => {
                // A prompt without a session has no failures on record.
                if let Some(session) = session {
                    return Err(TurnError::RetriesExhausted {
                        session: session.clone(),
                        provider: admitted.provider,
                        limit: policy.error_limit,
                        fallbacks,
                    });
                }
            }
        }
        Ok(admitted)
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

/// Returns the decision that reports a refused prompt. `None` if the error is not a refusal.
pub(super) fn refusal_decision(error: &TurnError) -> Option<Decision> {
    let (provider, refusal) = match error {
        TurnError::RetriesExhausted {
            session,
            provider,
            limit,
            ..
        } => {
            let (session, limit) = (session.clone(), *limit);
            (provider, PromptRefusal::RetriesExhausted { session, limit })
        }
        TurnError::ProviderUnavailable {
            provider,
            until,
            reason,
            ..
        } => {
            let (until, reason) = (*until, *reason);
            (provider, PromptRefusal::Unavailable { until, reason })
        }
        TurnError::Access(_) | TurnError::Resolve(_) | TurnError::Plan(_) => return None,
    };
    Some(Decision::PromptRefused {
        provider: provider.clone(),
        refusal,
    })
}
