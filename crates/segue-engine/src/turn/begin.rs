//! The beginning of a turn: the session is found, leased and reconciled, the first attempt is planned, and the prompt is
//! written.

use segue_core::agent::RoleDescription;
use segue_core::id::{ProviderId, SessionId};
use segue_core::session::{
    Decision, EarlierAttempt, Message, OpeningPlan, ProviderRecords, ResolutionStep, Role, Session,
    SessionSnapshot, Title, Turn,
};
use segue_store::{NewSession, NewTurn, SessionFilter, StartedSession, StoreError};
use tracing::Instrument;

use super::TurnRunner;
use super::admission::AdmittedPrompt;
use super::attempt::{Opening, PlannedAttempt};
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
    /// Role of the session. `None` if it has no role.
    pub(super) role: Option<RoleDescription>,
    pub(super) attempt: PlannedAttempt,
}

impl TurnRunner {
    /// Resolves the session, and writes the prompt to it.
    pub(super) async fn resolve_and_begin(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        loop {
            if let Some(purpose) = request.target.purpose() {
                self.context.role_description(purpose.role.as_ref())?;
            }
            let resolved = self.resolver.resolve(request, trace).await?;
            match self.begin_turn(request, resolved, trace).await {
                // A concurrent process created the session since the lookup, so the next lookup finds it.
                Err(TurnError::Access(AccessError::Store(StoreError::PurposeTaken(_)))) => {
                    trace.restart(request);
                }
                started => return started,
            }
        }
    }

    /// Writes the prompt: as the first turn of a new session, or as the next turn of an existing session, after its
    /// lease is acquired and it is reconciled.
    async fn begin_turn(
        &self,
        request: &ChatRequest,
        resolved: Resolved,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        let (provider, target) = match resolved {
            Resolved::Existing(session, chosen_provider) => {
                let replaced = None;
                return self
                    .begin_in_session(request, &session, (chosen_provider, replaced), trace)
                    .await;
            }
            Resolved::New(provider, target) => (provider, target),
        };
        let providers = ProviderRecords {
            health: Vec::new(),
            cooldowns: self.context.store.cooldowns().await?,
        };
        let mut admitted = self.admit_prompt(request, None, &providers, provider)?;
        if admitted.replaced_provider.is_some() {
            let fallback = &admitted.provider;
            let lookup = self
                .resolver
                .find_with_fallback_provider(request, &target, fallback, trace);
            if let Some(session) = lookup.await? {
                trace.decisions.append(&mut admitted.decisions);
                // In this session, too, the agent is a fallback that the user did not choose.
                let chosen = (Some(admitted.provider), admitted.replaced_provider);
                return self
                    .begin_in_session(request, &session, chosen, trace)
                    .await;
            }
        }
        trace.decisions.append(&mut admitted.decisions);
        let conflict_filter = match &target {
            Target::Scope(purpose) => {
                // The filter is that of the lookup: with an agent if one was requested or if it is a fallback.
                let is_provider_fixed =
                    request.provider.is_some() || admitted.replaced_provider.is_some();
                let provider = is_provider_fixed.then_some(&admitted.provider);
                Some(purpose_filter(purpose, &request.project, provider))
            }
            _ => None,
        };
        let purpose = request.target.purpose();
        let role = purpose.and_then(|purpose| purpose.role.as_ref());
        let role = self.context.role_description(role)?;
        let opening = OpeningPlan::for_new_session();
        trace.add_step(opening_step(&opening, &admitted.provider, false));
        let attempt = self.plan_attempt(request, admitted, Opening::Planned(opening))?;
        let started =
            self.start_session(request, &attempt.agent.provider, conflict_filter.as_ref());
        let started = started.await?;
        Ok(StartedTurn {
            snapshot: SessionSnapshot {
                session: started.session,
                recent_turns: Vec::new(),
                legs: Vec::new(),
                providers,
            },
            guard: self.context.leases.guard_lease(started.lease),
            turn: started.turn,
            role: role.cloned(),
            attempt,
        })
    }

    pub(super) fn prompt_message(&self, request: &ChatRequest) -> Message {
        Message::from_text(Role::User, request.prompt.as_str(), self.context.now())
    }

    /// Creates a session with its first prompt and acquires its lease. Fails with [`StoreError::PurposeTaken`] if a
    /// session that matches `conflict_filter` exists by then.
    async fn start_session(
        &self,
        request: &ChatRequest,
        provider: &ProviderId,
        conflict_filter: Option<&SessionFilter>,
    ) -> Result<StartedSession, StoreError> {
        let prompt = self.prompt_message(request);
        let title = Title::from_prompt(&request.prompt);
        loop {
            let purpose = request.target.purpose();
            let new = NewSession {
                conflict_filter: conflict_filter.cloned(),
                ..self
                    .context
                    .new_session(&request.project, &title, purpose, provider)
            };
            let owner = self.context.environment.process.clone();
            match self.context.store.start_session(new, owner, &prompt).await {
                // The id is taken by a session of the same second with the same four random characters: draw new ones.
                Err(StoreError::SessionExists(_)) => {}
                outcome => return outcome,
            }
        }
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
        let role = self.context.session_role(session)?.cloned();
        let (guard, takeover) = self.context.leases.acquire_lease(&session.id).await?;
        trace.decisions.extend(takeover);
        let span = tracing::info_span!("session", session = %session.id);
        let starting = self.begin_under_lease(request, session, chosen, &guard, trace);
        match starting.instrument(span).await {
            Ok((snapshot, turn, attempt)) => Ok(StartedTurn {
                snapshot,
                guard,
                turn,
                role,
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
        // The session may have been changed by another process since the lookup.
        let snapshot = self.context.require_snapshot(&resolved.id).await?;
        let from = snapshot.session.provider.clone();
        if chosen_provider.is_none() && from != resolved.provider {
            trace.add_step(ResolutionStep::SessionProviderUsed {
                provider: from.clone(),
                is_changed: true,
            });
            self.context.agents.get(&from)?;
        }
        let provider = chosen_provider.unwrap_or_else(|| from.clone());
        let mut admitted = self
            .admit_in_session(request, &snapshot, provider, guard)
            .await?;
        admitted.replaced_provider = replaced_provider.or(admitted.replaced_provider);
        if let Some(native) = &snapshot.session.native_id
            && from == admitted.provider
        {
            let natives = &self.context.natives;
            natives.ensure_no_foreign_process(&from, native).await?;
        }
        let snapshot = self
            .reconcile_for_prompt(snapshot, guard, request, &admitted.provider, trace)
            .await?;
        if admitted.replaced_provider.is_none() {
            let dropped =
                self.context
                    .agents
                    .dropped_settings(&from, &admitted.provider, Some(request));
            let dropped = dropped.into_iter().map(|setting| Decision::SettingDropped {
                from: from.clone(),
                to: admitted.provider.clone(),
                setting,
            });
            admitted.decisions.extend(dropped);
        }
        trace.decisions.append(&mut admitted.decisions);
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
        let store = &self.context.store;
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
        trace.add_decision(decision);
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
        let provider = admitted.provider.clone();
        let opening = self
            .plan_opening(request, snapshot, &provider, EarlierAttempt::None)
            .await?;
        let mut attempt = self.plan_attempt(request, admitted, opening)?;
        // A prompt that waits is written before the wait, and its native session may change during the wait.
        if attempt.wait.is_none()
            && let Opening::Planned(OpeningPlan::Resume(leg)) = &attempt.opening
        {
            let options = &attempt.agent.options;
            let pool = &self.context.agent_pool;
            let live = pool.take_usable(&snapshot.session.id, leg, options).await;
            if let Some(connection) = live {
                attempt.opening = Opening::Live {
                    leg: leg.clone(),
                    connection,
                };
            }
        }
        trace.add_step(attempt.opening.to_step(&provider));
        Ok(attempt)
    }

    /// Decides whether a prompt may be sent in a session whose lease is acquired. A rejection is noted in the session's
    /// log.
    async fn admit_in_session(
        &self,
        request: &ChatRequest,
        snapshot: &SessionSnapshot,
        provider: ProviderId,
        guard: &LeaseGuard,
    ) -> Result<AdmittedPrompt, TurnError> {
        let id: &SessionId = &snapshot.session.id;
        let admitted = self.admit_prompt(request, Some(id), &snapshot.providers, provider);
        if let Err(error) = &admitted
            && let Some(decision) = super::admission::refusal_decision(error)
        {
            let (store, at) = (&self.context.store, self.context.now());
            store.log_decision(&guard.lease, &decision, at).await?;
        }
        admitted
    }
}

/// Returns the resolution step that describes an opening.
pub(super) fn opening_step(
    plan: &OpeningPlan,
    provider: &ProviderId,
    is_running: bool,
) -> ResolutionStep {
    match plan {
        OpeningPlan::Resume(leg) => ResolutionStep::NativeResumed {
            provider: provider.clone(),
            native_id: leg.native_id.clone(),
            leg: leg.number,
            is_running,
        },
        OpeningPlan::Start(plan) => ResolutionStep::NativeStarted {
            provider: provider.clone(),
            cause: plan.cause.clone(),
        },
    }
}
