//! A turn, from the prompt to its final record.

pub(crate) mod admission;
mod agent_events;
mod attempt;
mod auto_compaction;
mod context_loss;
pub(crate) mod message_chunks;
pub(crate) mod recorder;
pub(crate) mod request;
mod retry;
mod settle;
mod token_estimate;
mod watchdog;

use std::sync::Arc;
use std::collections::HashSet;

use segue_agents::{AgentConnection, Timeouts};
use segue_core::agent::{PermissionPolicy, RoleDescription};
use segue_core::id::{LegId, ProviderId, TurnId};
use segue_core::session::{
    Decision, DecisionKind, Failure, Leg, Message, ResolutionStepKind, Role, Session, Turn,
    TurnState, Usage,
};
use segue_store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use context_loss::ContextChange;
use retry::RetryState;

use crate::context::EngineContext;
use crate::checkpoint::Compactor;
use crate::reconcile::Reconciler;
use crate::resolve::Resolver;
use crate::leg::agent_pool::PooledAgent;
use crate::reconcile::ReconcileMode;
use crate::resolve::{ResolutionTrace, Resolved, purpose_filter};
use crate::session::lease::LeaseGuard;
use crate::turn::admission::AdmittedPrompt;
use crate::turn::message_chunks::BoundedText;
use crate::turn::recorder::Recorder;
use crate::{ChatRequest, TurnError, StopLevel, Target, TurnEvent, TurnReport};

/// End of the agent's work on a turn.
struct TurnOutcome {
    state: TurnState,
    failure: Option<Failure>,
    /// Whether the agent itself ended the turn, and waits for the next one.
    is_agent_idle: bool,
}

/// Result of one attempt at a turn.
enum AttemptResult {
    /// The attempt ended.
    Ended(TurnOutcome),
    /// The agent does not have the native session, and reported this before any output.
    NativeMissing(Failure),
}

impl TurnOutcome {
    fn with_state(state: TurnState) -> Self {
        Self {
            state,
            failure: None,
            is_agent_idle: false,
        }
    }

    fn from_failure(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::with_state(TurnState::Failed)
        }
    }
}

/// A turn whose prompt is on disk, in a session whose lease is acquired.
struct StartedTurn {
    session: Session,
    guard: LeaseGuard,
    turn: Turn,
    admitted: AdmittedPrompt,
}

/// Component that runs turns.
#[derive(Clone)]
pub struct TurnRunner {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) resolver: Resolver,
    pub(crate) reconciler: Reconciler,
    pub(crate) compactor: Compactor,
}

impl TurnRunner {
    pub(crate) fn new(context: &Arc<EngineContext>, resolver: &Resolver, reconciler: &Reconciler, compactor: &Compactor) -> Self {
        Self {
            context: Arc::clone(context),
            resolver: resolver.clone(),
            reconciler: reconciler.clone(),
            compactor: compactor.clone(),
        }
    }
}

impl TurnRunner {
    /// Runs one turn. The prompt is on disk before it is sent, and the output is recorded as it arrives.
    ///
    /// Returns `Err` if no turn was started, or if its record could not be saved. A turn in which the agent failed is a
    /// normal report. The turn waits for a caller that does not receive its events. A caller that needs no events drops
    /// the receiver before the call.
    pub async fn chat(
        &self,
        request: ChatRequest,
        events: mpsc::Sender<TurnEvent>,
    ) -> Result<TurnReport, TurnError> {
        let mut trace = ResolutionTrace::for_request(&request);
        // Each phase is boxed, because otherwise the future of a turn would contain the futures of all phases.
        let started_turn = Box::pin(self.resolve_and_begin(&request, &mut trace)).await;
        let StartedTurn {
            session,
            guard,
            turn,
            admitted,
        } = match started_turn {
            Ok(started_turn) => started_turn,
            Err(error) => {
                report_unstarted_turn(&request, trace, &events).await;
                return Err(error);
            }
        };
        let AdmittedPrompt {
            provider,
            health,
            has_cooldown,
            wait,
            replaced_provider,
            ..
        } = admitted;
        let options = self.agent_options(&request, &provider, replaced_provider.as_ref())?;
        let role = self.context.session_role(&session)?.cloned();
        let run = TurnRun {
            runner: self,
            recorder: Recorder::new(
                self.context.store.clone(),
                guard.lease.clone(),
                turn.id,
                BoundedText::with_limit(request.max_text_bytes),
            ),
            report: TurnReport {
                session: session.id.clone(),
                turn: turn.number,
                provider,
                native_id: None,
                leg: None,
                opened: None,
                text: None,
                state: TurnState::Running,
                sent: false,
                stopped_by_policy: false,
                usage: Usage::default(),
                decisions: Vec::new(),
                steps: request.explain.is_some().then(|| trace.steps.clone()),
                failure: None,
            },
            stop: request.stop.clone(),
            session,
            guard: &guard,
            turn: turn.id,
            permissions: options.permissions,
            role,
            timeouts: options.timeouts,
            model: options.model,
            retry: RetryState {
                health,
                has_cooldown,
                wait,
                ..RetryState::default()
            },
            request,
            events,
            leg: None,
            leg_before_turn: None,
            sent_text: String::new(),
            has_output: false,
            oddity_count: 0,
            has_refused_permission: false,
            disallowed_calls: HashSet::new(),
            context_change: ContextChange::Unchanged,
        };
        let report = Box::pin(run.run(trace)).await;
        guard.release().await;
        report
    }

    /// Resolves the session, and writes the prompt to it.
    async fn resolve_and_begin(
        &self,
        request: &ChatRequest,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        loop {
            if let Target::Scope(purpose) | Target::NewWithPurpose(purpose) = &request.target {
                self.context.role_description(purpose.role.as_ref())?;
            }
            let resolved = self.resolver.resolve(request, trace).await?;
            if let Resolved::Existing(session, _) = &resolved {
                self.context.session_role(session)?;
            }
            match self.begin_turn(request, resolved, trace).await {
                // A concurrent process created the session since the lookup, so the next lookup finds it.
                Err(TurnError::Store(StoreError::PurposeTaken(_))) => trace.restart(request),
                started_turn => return started_turn,
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
                return self
                    .begin_in_session(request, &session, chosen_provider, trace)
                    .await;
            }
            Resolved::New(provider, target) => (provider, target),
        };
        let mut admitted = self.admit_prompt(request, None, provider).await?;
        if admitted.replaced_provider.is_some() {
            let fallback = &admitted.provider;
            let lookup = self.resolver.find_with_fallback_provider(request, &target, fallback, trace);
            if let Some(session) = lookup.await? {
                trace.decisions.append(&mut admitted.decisions);
                let fallback = Some(admitted.provider);
                let mut started_turn = self
                    .begin_in_session(request, &session, fallback, trace)
                    .await?;
                // In this session, too, the agent is a fallback that the user did not choose.
                let replaced_provider = &mut started_turn.admitted.replaced_provider;
                *replaced_provider = admitted
                    .replaced_provider
                    .or_else(|| replaced_provider.take());
                return Ok(started_turn);
            }
        }
        trace.decisions.append(&mut admitted.decisions);
        let prompt = self.prompt_message(request);
        let provider = &admitted.provider;
        let conflict_filter = match &target {
            Target::Scope(purpose) => {
                // The filter is that of the lookup: with an agent if one was requested or if it is a fallback.
                let is_provider_fixed =
                    request.provider.is_some() || admitted.replaced_provider.is_some();
                Some(purpose_filter(
                    purpose,
                    &request.project,
                    is_provider_fixed.then_some(provider),
                ))
            }
            _ => None,
        };
        let started = self.start_session(request, provider, &prompt, conflict_filter.as_ref());
        let started = started.await?;
        Ok(StartedTurn {
            session: started.session,
            guard: self.context.leases.guard_lease(started.lease),
            turn: started.turn,
            admitted,
        })
    }

    fn prompt_message(&self, request: &ChatRequest) -> Message {
        Message::from_text(
            Role::User,
            request.prompt.as_str(),
            self.context.now(),
        )
    }

    /// Starts the next turn of an existing session, with the chosen agent or else the session's provider.
    async fn begin_in_session(
        &self,
        request: &ChatRequest,
        session: &Session,
        chosen_provider: Option<ProviderId>,
        trace: &mut ResolutionTrace,
    ) -> Result<StartedTurn, TurnError> {
        let resolved_provider = &session.provider;
        let prompt = self.prompt_message(request);
        let (guard, takeover) = self.context.leases.acquire_lease(&session.id).await?;
        let starting = async {
            // The session may have been changed by another process since the lookup.
            let session = self.context.require_session(&session.id).await?;
            let from = session.provider.clone();
            if chosen_provider.is_none() && from != *resolved_provider {
                let text = format!("{from}, now the agent of the session");
                trace.add_step(ResolutionStepKind::Provider, text);
                self.context.agents.get(&from)?;
            }
            let provider = chosen_provider.unwrap_or_else(|| from.clone());
            let mut admitted = self
                .admit_in_session(request, &session, provider, &guard)
                .await?;
            if let Some(native) = &session.native_id
                && session.provider == admitted.provider
            {
                self.context.natives.ensure_no_foreign_process(&session.provider, native)
                    .await?;
            }
            let strict = request.strict;
            let mode = ReconcileMode::Prompt { strict };
            let (mut session, mut decisions) = self.reconciler.reconcile(session, &guard, mode).await?;
            let reopening = self.reconciler.reopen_left_leg(&guard.lease, &session, &admitted.provider);
            if let Some(decision) = reopening.await? {
                decisions.push(decision);
                // The user may have continued this native session outside segue since its leg was detached.
                session = self.context.require_session(&session.id).await?;
                let (reconciled, reconcile_decisions) =
                    self.reconciler.reconcile(session, &guard, mode).await?;
                session = reconciled;
                decisions.extend(reconcile_decisions);
            }
            let turn = self.context.store.begin_turn(&guard.lease, &prompt).await?;
            if admitted.replaced_provider.is_none() {
                let dropped_settings =
                    self.context.agents.describe_dropped_settings(&from, &admitted.provider, Some(request));
                let dropped_settings = dropped_settings.into_iter();
                let dropped_settings =
                    dropped_settings.map(|line| Decision::new(DecisionKind::HandedOff, line));
                admitted.decisions.extend(dropped_settings);
            }
            Ok((session, decisions, turn, admitted))
        };
        match starting.await {
            Ok((session, decisions, turn, mut admitted)) => {
                trace
                    .decisions
                    .extend(takeover.into_iter().chain(decisions));
                trace.decisions.append(&mut admitted.decisions);
                Ok(StartedTurn {
                    session,
                    guard,
                    turn,
                    admitted,
                })
            }
            Err(error) => {
                guard.release().await;
                Err(error)
            }
        }
    }

    /// Decides whether a prompt may be sent in a session whose lease is acquired. A rejection is noted in the session's
    /// log.
    async fn admit_in_session(
        &self,
        request: &ChatRequest,
        session: &Session,
        provider: ProviderId,
        guard: &LeaseGuard,
    ) -> Result<AdmittedPrompt, TurnError> {
        let admitted = self
            .admit_prompt(request, Some(&session.id), provider)
            .await;
        if let Err(
            error
            @ (TurnError::RetriesExhausted { .. } | TurnError::ProviderUnavailable { .. }),
        ) = &admitted
        {
            let decision = Decision::new(DecisionKind::Stopped, error.to_string());
            let at = self.context.now();
            self.context.store.log_decision(&guard.lease, &decision, at).await?;
        }
        admitted
    }
}

/// A running turn.
struct TurnRun<'a> {
    runner: &'a TurnRunner,
    request: ChatRequest,
    session: Session,
    guard: &'a LeaseGuard,
    turn: TurnId,
    permissions: PermissionPolicy,
    /// Role of the session, which may limit the agent's tools. `None` if it has no role.
    role: Option<RoleDescription>,
    timeouts: Timeouts,
    model: Option<String>,
    retry: RetryState,
    /// Leg on which the prompt runs. `None` until a leg is open.
    leg: Option<LegId>,
    /// State of that leg before the turn.
    leg_before_turn: Option<Leg>,
    /// Text that was sent, including the brief.
    sent_text: String,
    /// Whether the agent has produced output in the current attempt.
    has_output: bool,
    recorder: Recorder,
    report: TurnReport,
    stop: watch::Receiver<StopLevel>,
    events: mpsc::Sender<TurnEvent>,
    oddity_count: usize,
    /// Whether a permission was rejected without the user.
    has_refused_permission: bool,
    /// Ids of the tool calls that the agent made although the role does not allow them.
    disallowed_calls: HashSet<String>,
    /// Change of the agent's context in this turn.
    context_change: ContextChange,
}

impl TurnRun<'_> {
    fn now(&self) -> jiff::Timestamp {
        self.runner.context.now()
    }

    /// Emits an event. Waits for a slow receiver, and saves drafts of streamed text during that time. If the caller
    /// dropped the receiver, the event is discarded, and the caller still gets the report.
    async fn emit(&mut self, event: TurnEvent) -> Result<(), StoreError> {
        let events = self.events.clone();
        loop {
            tokio::select! {
                biased;
                permit = events.reserve() => {
                    if let Ok(permit) = permit {
                        permit.send(event);
                    }
                    return Ok(());
                }
                // An immediate stop does not wait for the receiver either.
                () = wait_for_stop(self.stop.clone(), StopLevel::Immediate) => return Ok(()),
                () = sleep_until_deadline(self.recorder.draft_deadline()) => {
                    self.recorder.save_draft(self.now()).await?;
                }
            }
        }
    }

    async fn record_decision(&mut self, decision: Decision) -> Result<(), StoreError> {
        let at = self.now();
        self.runner
            .context.store
            .log_decision(&self.guard.lease, &decision, at)
            .await?;
        self.report_decision(decision).await
    }

    /// Reports a decision that is already in the log.
    async fn report_decision(&mut self, decision: Decision) -> Result<(), StoreError> {
        self.report.decisions.push(decision.clone());
        self.emit(TurnEvent::Decided(decision)).await
    }

    /// Reports an action that protected a native session. The same action is reported once per turn.
    async fn report_guard_action(&mut self, line: &str) -> Result<(), StoreError> {
        let decision = Decision::new(DecisionKind::Protected, line);
        if self.report.decisions.contains(&decision) {
            return Ok(());
        }
        self.record_decision(decision).await
    }

    /// Runs the complete turn, from the saved prompt to the final record.
    async fn run(mut self, trace: ResolutionTrace) -> Result<TurnReport, TurnError> {
        let started_event = TurnEvent::Started {
            session: self.report.session.clone(),
            turn: self.report.turn,
        };
        self.emit(started_event).await?;
        if let Some(steps) = self.report.steps.clone() {
            self.emit(TurnEvent::Explained(steps)).await?;
        }
        for decision in trace.logged_decisions {
            self.report.decisions.push(decision.clone());
            self.emit(TurnEvent::Decided(decision)).await?;
        }
        for decision in trace.decisions {
            self.record_decision(decision).await?;
        }
        let outcome = match self.run_attempts().await {
            // The brief exceeds the budget. No agent received the prompt, and none can until the user fixes this.
            Err(error @ TurnError::Brief(_)) if !self.report.sent => {
                self.withdraw_turn("the prompt could not be sent").await?;
                return Err(error);
            }
            outcome => outcome?,
        };
        if outcome.state == TurnState::Cancelled && !self.report.sent {
            return self.finish_unsent().await;
        }
        self.settle(outcome).await
    }

    /// Keeps the agent running for the next turn, or ends it.
    async fn release_agent(
        &mut self,
        mut connection: Box<dyn AgentConnection>,
        outcome: &Result<TurnOutcome, TurnError>,
    ) -> Result<(), TurnError> {
        let is_reusable = outcome.as_ref().is_ok_and(|outcome| {
            outcome.is_agent_idle
                && matches!(outcome.state, TurnState::Finished | TurnState::Cancelled)
        });
        let has_native_id = connection.native_id().is_some();
        if let (true, true, true, Some(leg)) = (
            self.request.keep_agent,
            is_reusable,
            has_native_id,
            self.leg,
        ) && connection.is_alive()
        {
            let pooled_agent = PooledAgent {
                leg,
                tip: self.turn,
                permissions: self.permissions,
                model: self.model.clone(),
                lease: self
                    .guard
                    .share_with_agent(connection.process_identity().as_ref()),
                connection,
            };
            self.runner
                .context.agent_pool
                .insert(&self.session.id, pooled_agent)
                .await;
            return Ok(());
        }
        for line in connection.close().await {
            self.report_guard_action(&line).await?;
        }
        Ok(())
    }

    /// Sends the prompt, after recording that it is about to be sent, and processes the agent's events.
    async fn send_prompt(
        &mut self,
        connection: &mut dyn AgentConnection,
        leg: LegId,
        prompt: &str,
    ) -> Result<TurnOutcome, TurnError> {
        let at = self.now();
        self.runner
            .context.store
            .begin_attempt(&self.guard.lease, self.turn, leg, at)
            .await?;
        self.report.sent = true;
        prompt.clone_into(&mut self.sent_text);
        match connection.send_prompt(prompt).await {
            Ok(()) => {
                // Loading the tokenizer takes less time than the agent needs for its first output.
                segue_tokens::warm_up();
                // An agent that starts a process for each turn has started it by now.
                if let Some(process) = connection.process_identity() {
                    self.guard.set_agent(process);
                }
                self.process_events(connection).await
            }
            Err(error) => Ok(TurnOutcome::from_failure(error.to_failure(self.now()))),
        }
    }
}

/// Reports the resolution steps of a request that started no turn, and the decisions that took effect nevertheless.
async fn report_unstarted_turn(
    request: &ChatRequest,
    trace: ResolutionTrace,
    events: &mpsc::Sender<TurnEvent>,
) {
    let steps = request.explain.is_some().then_some(trace.steps);
    let logged = trace.logged_decisions.into_iter().map(TurnEvent::Decided);
    for event in steps.map(TurnEvent::Explained).into_iter().chain(logged) {
        // A caller that dropped the receiver still gets the error.
        if events.send(event).await.is_err() {
            return;
        }
    }
}

/// Waits until a stop of at least this urgency is requested. Waits forever if the sender is dropped.
async fn wait_for_stop(mut stop: watch::Receiver<StopLevel>, level: StopLevel) {
    if stop
        .wait_for(|requested| *requested >= level)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Waits until an instant. Waits forever if it is `None`.
async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
