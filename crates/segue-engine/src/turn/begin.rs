//! The beginning of a turn: the session is found, leased and reconciled, the first attempt is planned, and the prompt is
//! written.

use segue_core::id::ProviderId;
use segue_core::session::{
    Decision, EarlierAttempt, Message, OpeningPlan, ProviderRecords, ResolutionStep, Role, Session,
    SessionSnapshot, Title, Turn,
};
use segue_store::{NewSession, NewTurn, StoreError};
use tracing::Instrument;

use super::TurnRunner;
use super::admission::AdmittedPrompt;
use super::attempt::{Opening, PlannedAttempt};
use crate::context::EngineContext;
use crate::reconcile::ReconcileMode;
use crate::resolve::{ResolutionTrace, Resolved, purpose_filter};
use crate::session::lease::LeaseGuard;
use crate::{AccessError, ChatRequest, Target, TurnError};

/// A turn whose prompt is on disk, in a session whose lease is acquired.
pub(super) struct StartedTurn {
    /// The session before the prompt.
    pub(super) snapshot: SessionSnapshot,
    pub(super) guard: LeaseGuard,
    pub(super) turn: Turn,
    pub(super) attempt: PlannedAttempt,
}

impl TurnRunner {
    /// Resolves the session, and writes the prompt to it: as the first turn of a new session, or as the next turn of an
    /// existing session, after its lease is acquired and it is reconciled.
    pub(super) async fn resolve_and_begin(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        let purpose = request.target.purpose();
        self.context
            .role_description(purpose.and_then(|purpose| purpose.role.as_ref()))?;
        loop {
            let started = match self.resolver.resolve(request, trace).await? {
                Resolved::Existing(session, chosen_provider) => {
                    self.begin_in_session(request, &session, (chosen_provider, None), trace)
                        .await
                }
                Resolved::New(provider, target) => {
                    self.begin_new_session(request, provider, &target, trace)
                        .await
                }
            };
            match started {
                // A concurrent process created the session since the lookup, so the next lookup finds it.
                Err(TurnError::Access(AccessError::Store(StoreError::PurposeTaken(_)))) => {
                    trace.restart(request);
                }
                started => return started,
            }
        }
    }

    /// Creates a session with its first prompt and acquires its lease, or continues the session of a fallback agent.
    /// Fails with [`StoreError::PurposeTaken`] if a session with the purpose exists by then.
    async fn begin_new_session(
        &self,
        request: &ChatRequest,
        provider: ProviderId,
        target: &Target,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        let store = &self.context.store;
        let providers = ProviderRecords {
            health: Vec::new(),
            cooldowns: store.cooldowns().await?,
        };
        let mut admitted = self.admit_prompt(request, None, &providers, (provider, None))?;
        let provider = admitted.agent.provider.clone();
        let mut fallback_session = None;
        if admitted.replaced_provider.is_some() {
            let lookup = self
                .resolver
                .find_with_fallback_provider(request, target, &provider, trace);
            fallback_session = lookup.await?;
        }
        trace.decisions.append(&mut admitted.decisions);
        if let Some(session) = fallback_session {
            // In this session, too, the agent is a fallback that the user did not choose.
            let chosen = (Some(provider), admitted.replaced_provider);
            return self
                .begin_in_session(request, &session, chosen, trace)
                .await;
        }
        let conflict_filter = match target {
            Target::Scope(purpose) => {
                // The filter is that of the lookup: with an agent if one was requested or if it is a fallback.
                let is_provider_fixed =
                    request.provider.is_some() || admitted.replaced_provider.is_some();
                let provider = is_provider_fixed.then_some(&provider);
                Some(purpose_filter(purpose, &request.project, provider))
            }
            _ => None,
        };
        let opening = Opening::Planned(OpeningPlan::for_new_session());
        trace.steps.push(opening.to_step(&provider));
        let prompt = self.prompt_message(request);
        let title = Title::from_prompt(&request.prompt);
        let new = NewSession {
            conflict_filter,
            ..self.context.new_session(
                &request.project,
                &title,
                request.target.purpose(),
                &provider,
            )
        };
        let owner = &self.context.environment.process;
        let starting = self
            .context
            .create_session(new, |new| store.start_session(new, owner.clone(), &prompt));
        let started = starting.await?;
        Ok(StartedTurn {
            snapshot: SessionSnapshot {
                session: started.session,
                recent_turns: Vec::new(),
                legs: Vec::new(),
                providers,
            },
            guard: self.context.leases.guard_lease(started.lease),
            turn: started.turn,
            attempt: admitted.into_attempt(opening),
        })
    }

    pub(super) fn prompt_message(&self, request: &ChatRequest) -> Message {
        Message::from_text(Role::User, request.prompt.as_str(), self.context.now())
    }

    /// Starts the next turn of an existing session, with the chosen agent or else the session's provider. The chosen
    /// agent may be a fallback that replaces another one.
    async fn begin_in_session(
        &self,
        request: &ChatRequest,
        session: &Session,
        chosen: (Option<ProviderId>, Option<ProviderId>),
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        self.context.session_role(session)?;
        let (guard, takeover) = self.context.leases.acquire_lease(&session.id).await?;
        trace.decisions.extend(takeover);
        let span = tracing::info_span!("session", session = %session.id);
        let starting = self.begin_under_lease(request, session, chosen, &guard, trace);
        match starting.instrument(span).await {
            Ok((snapshot, turn, attempt)) => Ok(StartedTurn {
                snapshot,
                guard,
                turn,
                attempt,
            }),
            Err(error) => {
                guard.release().await;
                Err(error)
            }
        }
    }

    /// Reconciles the session, plans the first attempt and writes the prompt, under the lease. All plans use one
    /// snapshot of the session. The decisions are logged with the prompt.
    async fn begin_under_lease(
        &self,
        request: &ChatRequest,
        resolved: &Session,
        (chosen_provider, replaced_provider): (Option<ProviderId>, Option<ProviderId>),
        guard: &LeaseGuard,
        trace: &mut ResolutionTrace,
    ) -> Result<(SessionSnapshot, Turn, PlannedAttempt), TurnError> {
        let EngineContext {
            store,
            agents,
            natives,
            ..
        } = &*self.context;
        // The session may have been changed by another process since the lookup.
        let snapshot = self.context.require_snapshot(&resolved.id).await?;
        let from = snapshot.session.provider.clone();
        if chosen_provider.is_none() && from != resolved.provider {
            trace.steps.push(ResolutionStep::SessionProviderUsed {
                provider: from.clone(),
                is_changed: true,
            });
            agents.get(&from)?;
        }
        let provider = chosen_provider.unwrap_or_else(|| from.clone());
        let chosen = (provider, replaced_provider);
        let mut admitted = self
            .admit_in_session(request, &snapshot, chosen, guard)
            .await?;
        let provider = admitted.agent.provider.clone();
        if let Some(native) = &snapshot.session.native_id
            && from == provider
        {
            natives.ensure_no_foreign_process(&from, native).await?;
        }
        let snapshot = self
            .reconcile_for_prompt(snapshot, guard, request, &provider, trace)
            .await?;
        trace.decisions.append(&mut admitted.decisions);
        if admitted.replaced_provider.is_none() {
            let dropped = agents.dropped_settings(&from, &provider, Some(request));
            let dropped = dropped.into_iter().map(|setting| Decision::SettingDropped {
                from: from.clone(),
                to: provider.clone(),
                setting,
            });
            trace.decisions.extend(dropped);
        }
        let attempt = self
            .plan_first_attempt(request, &snapshot, admitted, trace)
            .await?;
        let decisions = std::mem::take(&mut trace.decisions);
        let new_turn = NewTurn {
            prompt: self.prompt_message(request),
            // If the agent is open, the prompt is sent at once, so one commit is enough.
            leg: match &attempt.opening {
                Opening::Live { leg, .. } => Some(leg.id),
                Opening::Planned(_) | Opening::Compact(_) => None,
            },
            decisions: decisions.clone(),
        };
        let turn = store.start_turn(&guard.lease, new_turn).await?;
        trace.logged_decisions.extend(decisions);
        Ok((snapshot, turn, attempt))
    }

    /// Reconciles a session before a prompt, and reopens a leg that ended at its head.
    async fn reconcile_for_prompt(
        &self,
        snapshot: SessionSnapshot,
        guard: &LeaseGuard,
        request: &ChatRequest,
        provider: &ProviderId,
        trace: &mut ResolutionTrace,
    ) -> Result<SessionSnapshot, TurnError> {
        let mode = ReconcileMode::Prompt {
            strict: request.strict,
        };
        let (snapshot, reconciled) = self.reconciler.reconcile(snapshot, guard, mode).await?;
        trace.decisions.extend(reconciled);
        let reopening = self
            .reconciler
            .reopen_leg_at_head(&guard.lease, &snapshot, provider);
        let Some(decision) = reopening.await? else {
            return Ok(snapshot);
        };
        trace.decisions.push(decision);
        // The user may have continued this native session outside segue since its leg was detached.
        let snapshot = self.context.require_snapshot(&snapshot.session.id).await?;
        let (snapshot, reconciled) = self.reconciler.reconcile(snapshot, guard, mode).await?;
        trace.decisions.extend(reconciled);
        Ok(snapshot)
    }

    /// Plans the first attempt at a prompt. The plan is a resolution step.
    async fn plan_first_attempt(
        &self,
        request: &ChatRequest,
        snapshot: &SessionSnapshot,
        admitted: AdmittedPrompt,
        trace: &mut ResolutionTrace,
    ) -> Result<PlannedAttempt, TurnError> {
        let provider = &admitted.agent.provider;
        let opening = self
            .plan_opening(request, snapshot, provider, EarlierAttempt::None)
            .await?;
        let mut attempt = admitted.into_attempt(opening);
        // A prompt that waits is written before the wait, and its native session may change during the wait.
        if attempt.wait.is_none()
            && let Opening::Planned(OpeningPlan::Resume(leg)) = &attempt.opening
        {
            let pool = &self.context.agent_pool;
            let live = pool.take_usable(&snapshot.session.id, leg, &attempt.agent);
            if let Some(connection) = live.await {
                attempt.opening = Opening::Live {
                    leg: leg.clone(),
                    connection,
                };
            }
        }
        trace
            .steps
            .push(attempt.opening.to_step(&attempt.agent.provider));
        Ok(attempt)
    }

    /// Decides whether a prompt may be sent in a session whose lease is acquired. A rejection is noted in the session's
    /// log.
    async fn admit_in_session(
        &self,
        request: &ChatRequest,
        snapshot: &SessionSnapshot,
        chosen: (ProviderId, Option<ProviderId>),
        guard: &LeaseGuard,
    ) -> Result<AdmittedPrompt, TurnError> {
        let id = Some(&snapshot.session.id);
        let admitted = self.admit_prompt(request, id, &snapshot.providers, chosen);
        if let Err(TurnError::PromptRefused {
            provider, refusal, ..
        }) = &admitted
        {
            let decision = Decision::PromptRefused {
                provider: provider.clone(),
                refusal: refusal.clone(),
            };
            let (store, at) = (&self.context.store, self.context.now());
            store.log_decision(&guard.lease, &decision, at).await?;
        }
        admitted
    }
}
