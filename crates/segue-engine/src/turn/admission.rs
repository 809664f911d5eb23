//! Admission of prompts, based on the failures and cooldowns on record.

use std::fmt::Write as _;

use jiff::Timestamp;
use segue_agents::Timeouts;
use segue_core::agent::PermissionPolicy;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{Admission, AdmissionInput, ProviderHealth, WaitReason, admit_prompt};
use segue_core::session::{Decision, DecisionKind};

use crate::turn::TurnRunner;
use crate::error::format_utc;
use crate::{ChatRequest, TurnError};

/// A prompt that may be sent.
pub(crate) struct AdmittedPrompt {
    /// Agent that receives the prompt.
    pub(crate) provider: ProviderId,
    /// Agent that `provider` replaces as a fallback. `None` if it replaces no agent.
    pub(crate) replaced_provider: Option<ProviderId>,
    /// Failures of the agent in the session.
    pub(crate) health: ProviderHealth,
    /// Whether a cooldown of the agent is on record, even an expired one.
    pub(crate) has_cooldown: bool,
    /// Time until which the prompt waits, with the reason. `None` if it does not wait.
    pub(crate) wait: Option<(Timestamp, WaitReason)>,
    /// Decisions made during admission.
    pub(crate) decisions: Vec<Decision>,
}

/// Options under which an agent receives a prompt.
pub(crate) struct AgentOptions {
    pub(crate) permissions: PermissionPolicy,
    pub(crate) timeouts: Timeouts,
    pub(crate) model: Option<String>,
}

impl AdmittedPrompt {
    /// Moves the prompt to a fallback agent. `Engine::agent_options` limits its permissions, because the user did not
    /// choose it.
    fn move_to_fallback(&mut self, fallback: ProviderId) {
        let from = std::mem::replace(&mut self.provider, fallback);
        self.replaced_provider = Some(from);
        self.has_cooldown = false;
    }
}

impl TurnRunner {
    /// Returns the options for an agent: those of the request, completed by the agent's configuration.
    ///
    /// Unless the request sets permissions, a fallback agent gets no more than the agent `replaced_provider` that it
    /// replaces, because the user did not choose it. Fails if the agent is unknown.
    pub(crate) fn agent_options(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        replaced_provider: Option<&ProviderId>,
    ) -> Result<AgentOptions, TurnError> {
        let defaults = self.context.agents.get(provider)?.defaults();
        let replaced_agent = replaced_provider.and_then(|replaced| self.context.agents.get(replaced).ok());
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
    /// Fails with [`TurnError::ProviderUnavailable`] or [`TurnError::RetriesExhausted`] if the prompt must not be
    /// sent.
    pub(crate) async fn admit_prompt(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        provider: ProviderId,
    ) -> Result<AdmittedPrompt, TurnError> {
        let now = self.context.now();
        let health = self.provider_health(session, &provider).await?;
        let cooldowns = self.context.store.cooldowns().await?;
        let cooldown = cooldowns
            .iter()
            .find(|cooldown| cooldown.provider == provider);
        let fallbacks = if cooldown.is_some() || health.is_exhausted() {
            self.available_fallbacks(request, session, std::slice::from_ref(&provider))
                .await?
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
        match admit_prompt(&input, &self.context.settings.policy) {
            Admission::Allow => {}
            Admission::Wait(until, reason) => admitted.wait = Some((until, reason)),
            Admission::HandOff(fallback, until, reason) => {
                let mut text = format!(
                    "{fallback} took over: {} is in cooldown until {} ({})",
                    admitted.provider,
                    format_utc(until),
                    reason.description()
                );
                let from = &admitted.provider;
                let original_permissions = self.agent_options(request, from, None)?.permissions;
                let permissions = self
                    .agent_options(request, &fallback, Some(from))?
                    .permissions;
                if permissions != original_permissions {
                    let _ = write!(text, "; the permission policy is {}", permissions.as_str());
                }
                if let Some(model) = &request.model {
                    let _ = write!(text, "; ignored the model {model}, which belongs to {from}");
                }
                admitted.health = self.provider_health(session, &fallback).await?;
                admitted.move_to_fallback(fallback);
                let decision = Decision::new(DecisionKind::HandedOff, text);
                admitted.decisions.push(decision);
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
                        limit: self.context.settings.policy.error_limit,
                        fallbacks,
                    });
                }
            }
        }
        Ok(admitted)
    }

    /// Returns the configured fallback agents that could answer, in order of preference: installed, not in cooldown,
    /// not failing in this session, and not in `excluded`. Empty if the request is strict.
    pub(crate) async fn available_fallbacks(
        &self,
        request: &ChatRequest,
        session: Option<&SessionId>,
        excluded: &[ProviderId],
    ) -> Result<Vec<ProviderId>, TurnError> {
        let mut fallbacks = Vec::new();
        // A fallback agent would need a brief of the session, which a strict request excludes.
        if request.strict || self.context.settings.policy.fallback.is_empty() {
            return Ok(fallbacks);
        }
        let now = self.context.now();
        let cooldowns = self.context.store.cooldowns().await?;
        for provider in &self.context.settings.policy.fallback {
            let is_out_of_cooldown = !cooldowns
                .iter()
                .any(|cooldown| cooldown.provider == *provider && cooldown.until > now);
            let is_installed = self.context.agents.get(provider).is_ok_and(|agent| agent.is_installed());
            if !is_installed || !is_out_of_cooldown || excluded.contains(provider) {
                continue;
            }
            let health = self.provider_health(session, provider).await?;
            let is_past_backoff = health.retry_at.is_none_or(|until| until <= now);
            if is_past_backoff && !health.is_exhausted() {
                fallbacks.push(provider.clone());
            }
        }
        Ok(fallbacks)
    }

    pub(crate) async fn provider_health(
        &self,
        session: Option<&SessionId>,
        provider: &ProviderId,
    ) -> Result<ProviderHealth, TurnError> {
        match session {
            Some(session) => Ok(self.context.store.provider_health(session, provider).await?),
            None => Ok(ProviderHealth::default()),
        }
    }
}
