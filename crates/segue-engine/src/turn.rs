//! A turn, from the prompt to its final record.

pub(crate) mod admission;
mod agent_events;
pub(crate) mod attempt;
mod auto_compaction;
mod begin;
mod context_loss;
pub(crate) mod message_chunks;
pub(crate) mod recorder;
pub(crate) mod request;
mod retry;
mod settle;
mod token_estimate;
mod watchdog;

use std::collections::HashSet;
use std::sync::Arc;

use segue_core::id::{ProviderId, TurnId};
use segue_core::session::{
    Decision, DecisionKind, Failure, GuardAction, SessionSnapshot, TurnState, Usage,
    WithdrawalReason,
};
use segue_store::{Lease, Store, StoreError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument;

use self::attempt::{EndedAttempt, PlannedAttempt};
use self::begin::StartedTurn;
use self::message_chunks::BoundedText;
use self::recorder::Recorder;
use self::retry::NextStep;
use crate::brief::BriefPlanner;
use crate::checkpoint::Compactor;
use crate::context::EngineContext;
use crate::reconcile::Reconciler;
use crate::resolve::{ResolutionTrace, Resolver};
use crate::session::lease::LeaseGuard;
use crate::{ChatRequest, PlanError, StopLevel, TurnError, TurnEvent, TurnReport};

/// Component that runs turns.
#[derive(Clone)]
pub struct TurnRunner {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) resolver: Resolver,
    pub(crate) reconciler: Reconciler,
    pub(crate) compactor: Compactor,
}

/// End of the agent's work on a turn.
struct TurnOutcome {
    state: TurnState,
    failure: Option<Failure>,
    /// Whether the agent itself ended the turn, and waits for the next one.
    is_agent_idle: bool,
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

impl TurnRunner {
    pub(crate) fn briefs(&self) -> &BriefPlanner {
        &self.compactor.briefs
    }

    /// Runs one turn, as [`crate::Engine::chat`] does.
    pub async fn chat(
        &self,
        request: ChatRequest,
        events: mpsc::Sender<TurnEvent>,
    ) -> Result<TurnReport, TurnError> {
        let mut trace = ResolutionTrace::for_request(&request);
        // Each phase is boxed, because otherwise the future of a turn would contain the futures of all phases.
        let started = Box::pin(self.resolve_and_begin(&request, &mut trace)).await;
        let started = match started {
            Ok(started) => started,
            Err(error) => {
                report_unstarted_turn(&request, trace, &events).await;
                return Err(error);
            }
        };
        let StartedTurn {
            snapshot,
            guard,
            turn,
            attempt,
        } = started;
        let run = TurnRun {
            runner: self,
            recorder: self.new_recorder(&request, &guard, turn.id),
            report: TurnReport {
                session: snapshot.session.id.clone(),
                turn: turn.number,
                provider: attempt.agent.provider.clone(),
                native_id: None,
                leg: None,
                opened: None,
                text: None,
                state: TurnState::Running,
                sent: turn.sent,
                stopped_by_policy: false,
                usage: Usage::default(),
                decisions: Vec::new(),
                steps: request.explain.is_some().then(|| trace.steps.clone()),
                failure: None,
            },
            snapshot,
            guard: &guard,
            turn: turn.id,
            request,
            events,
            failed_providers: Vec::new(),
            has_replaced_native: false,
            oddity_count: 0,
            has_refused_permission: false,
            disallowed_calls: HashSet::new(),
        };
        let session_span = tracing::info_span!("session", session = %run.report.session);
        let turn_span = tracing::info_span!(parent: &session_span, "turn", turn = run.report.turn);
        let running = Box::pin(run.run(trace, attempt));
        let report = running.instrument(turn_span).instrument(session_span).await;
        guard.release().await;
        report
    }

    /// Ends every waiting agent and releases its session. Returns the actions that protected native sessions.
    pub async fn close(&self) -> Vec<GuardAction> {
        self.context.agent_pool.end_all().await
    }

    fn new_recorder(&self, request: &ChatRequest, guard: &LeaseGuard, turn: TurnId) -> Recorder {
        Recorder::new(
            self.context.store.clone(),
            guard.lease.clone(),
            turn,
            BoundedText::with_limit(request.max_text_bytes),
        )
    }
}

/// A running turn. The state of an attempt at it is separate ([`attempt::AttemptState`]).
pub(crate) struct TurnRun<'a> {
    pub(crate) runner: &'a TurnRunner,
    pub(crate) request: ChatRequest,
    /// The session as it was before the prompt, or before the last retry.
    pub(crate) snapshot: SessionSnapshot,
    pub(crate) guard: &'a LeaseGuard,
    turn: TurnId,
    recorder: Recorder,
    report: TurnReport,
    events: mpsc::Sender<TurnEvent>,
    /// Agents that failed the prompt.
    failed_providers: Vec<ProviderId>,
    /// Whether a lost native session was replaced.
    has_replaced_native: bool,
    oddity_count: usize,
    /// Whether a permission was rejected without the user.
    has_refused_permission: bool,
    /// Ids of the tool calls that the agent made although the role does not allow them.
    disallowed_calls: HashSet<String>,
}

impl<'a> TurnRun<'a> {
    fn now(&self) -> jiff::Timestamp {
        self.runner.context.now()
    }

    pub(crate) fn store(&self) -> &'a dyn Store {
        self.runner.context.store.as_ref()
    }

    pub(crate) fn lease(&self) -> &'a Lease {
        &self.guard.lease
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
                () = self.wait_for_stop(StopLevel::Immediate) => return Ok(()),
                () = sleep_until_deadline(self.recorder.draft_deadline()) => {
                    self.recorder.save_draft(self.now()).await?;
                }
            }
        }
    }

    async fn emit_started(&mut self) -> Result<(), StoreError> {
        self.emit(TurnEvent::Started {
            session: self.report.session.clone(),
            turn: self.report.turn,
        })
        .await
    }

    /// Logs and reports a decision. An action that protected a native session is reported once per turn.
    async fn record_decision(&mut self, decision: Decision) -> Result<(), StoreError> {
        let is_protection = decision.kind() == DecisionKind::Protected;
        if is_protection && self.report.decisions.contains(&decision) {
            return Ok(());
        }
        let logging = self
            .store()
            .log_decision(self.lease(), &decision, self.now());
        logging.await?;
        self.report_decision(decision).await
    }

    async fn record_decisions(
        &mut self,
        decisions: impl IntoIterator<Item = Decision>,
    ) -> Result<(), StoreError> {
        for decision in decisions {
            self.record_decision(decision).await?;
        }
        Ok(())
    }

    /// Reports a decision that is already in the log.
    async fn report_decision(&mut self, decision: Decision) -> Result<(), StoreError> {
        tracing::info!(kind = decision.kind().as_str(), "decision");
        self.report.decisions.push(decision.clone());
        self.emit(TurnEvent::Decided(decision)).await
    }

    /// Runs the complete turn, from the saved prompt to the final record.
    async fn run(
        mut self,
        trace: ResolutionTrace,
        first_attempt: PlannedAttempt,
    ) -> Result<TurnReport, TurnError> {
        self.emit_started().await?;
        if let Some(steps) = self.report.steps.clone() {
            self.emit(TurnEvent::Explained(steps)).await?;
        }
        for decision in trace.logged_decisions {
            self.report_decision(decision).await?;
        }
        self.record_decisions(trace.decisions).await?;
        let ended = match self.run_attempts(first_attempt).await {
            // The brief exceeds the budget. No agent received the prompt, and none can until the user fixes this.
            Err(error @ TurnError::Plan(PlanError::Brief(_))) if !self.report.sent => {
                self.withdraw_turn(WithdrawalReason::BriefTooLarge).await?;
                return Err(error);
            }
            ended => ended?,
        };
        if ended.outcome.state == TurnState::Cancelled && !self.report.sent {
            return self.finish_unsent(ended).await;
        }
        self.settle(ended).await
    }

    /// Runs attempts until the prompt is answered or fails.
    async fn run_attempts(&mut self, first: PlannedAttempt) -> Result<EndedAttempt, TurnError> {
        let mut next = self.wait_before_first(first).await?;
        loop {
            let ended = match next {
                NextStep::Continue(planned) => self.run_attempt(*planned).await?,
                NextStep::Break(ended) => return Ok(*ended),
            };
            next = self.plan_next_step(ended).await?;
        }
    }

    /// Waits until a stop of at least this urgency is requested. Waits forever if the sender is dropped.
    async fn wait_for_stop(&self, level: StopLevel) {
        let mut stop = self.request.stop.clone();
        if stop
            .wait_for(|requested| *requested >= level)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
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

/// Waits until an instant. Waits forever if it is `None`.
async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
