//! A single attempt at a turn: opens a leg as planned, reports it, and sends the prompt.
//!
//! A [`PlannedAttempt`] is consumed when it runs, and an [`EndedAttempt`] is consumed when the next step is planned, so
//! that no state of one attempt can reach another.

use jiff::Timestamp;
use segue_core::id::{NativeId, ProviderId};
use segue_core::policy::WaitReason;
use segue_core::session::{
    Decision, Leg, NewNativeCause, OpenMode, OpenReason, OpeningPlan, ResolutionStep, TurnState,
};
use segue_providers::AgentConnection;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::admission::AttemptAgent;
use super::context_loss::ContextChange;
use super::{TurnOutcome, TurnRun};
use crate::leg::agent_pool::PooledAgent;
use crate::leg::open_leg::{OpenLeg, OpenLegError, guard_decisions};
use crate::{StopLevel, TurnError, TurnEvent};

/// Opening of a native session for an attempt.
pub(crate) enum Opening {
    /// The agent is started.
    Planned(OpeningPlan),
    /// The native session of this leg has no room for the prompt: the session is compacted, and another one is started.
    Compact(Leg),
    /// The agent is running, and the attempt was recorded together with the prompt.
    Live {
        leg: Leg,
        connection: Box<dyn AgentConnection>,
    },
}

impl Opening {
    /// Returns the resolution step that describes the opening.
    pub(super) fn to_step(&self, provider: &ProviderId) -> ResolutionStep {
        let provider = provider.clone();
        let (leg, is_running) = match self {
            Self::Planned(OpeningPlan::Resume(leg)) => (leg, false),
            Self::Live { leg, .. } => (leg, true),
            Self::Planned(OpeningPlan::Start(plan)) => {
                let cause = plan.cause.clone();
                return ResolutionStep::NativeStarted { provider, cause };
            }
            Self::Compact(_) => {
                let cause = NewNativeCause::Compacted { compaction: None };
                return ResolutionStep::NativeStarted { provider, cause };
            }
        };
        ResolutionStep::NativeResumed {
            provider,
            native_id: leg.native_id.clone(),
            leg: leg.number,
            is_running,
        }
    }
}

/// An attempt that has not started.
pub(super) struct PlannedAttempt {
    pub(super) agent: AttemptAgent,
    /// Time until which the prompt waits, with the reason. `None` if it does not wait.
    pub(super) wait: Option<(Timestamp, WaitReason)>,
    pub(super) opening: Opening,
    /// Text that the agent refused and that is sent again. `None` if the agent refused none.
    pub(super) resent_text: Option<String>,
}

/// State of an attempt that has started.
pub(crate) struct AttemptState {
    pub(crate) agent: AttemptAgent,
    /// Leg on which the prompt runs. `None` until a leg is open.
    pub(super) leg: Option<AttemptLeg>,
    /// Text that was sent, including the brief. Empty if none was sent.
    pub(super) sent_text: String,
    /// Whether the agent refused the text before.
    pub(crate) is_resent: bool,
    /// Whether the agent has produced output.
    pub(super) has_output: bool,
    /// Change of the agent's context.
    pub(super) context_change: ContextChange,
}

/// Leg of an attempt.
pub(crate) struct AttemptLeg {
    /// The leg before the attempt.
    pub(crate) leg: Leg,
    pub(crate) native_id: Option<NativeId>,
    pub(crate) open_mode: OpenMode,
    /// Reason for the choice of `open_mode`.
    pub(crate) reason: OpenReason,
}

/// An attempt that has ended.
pub(super) struct EndedAttempt {
    pub(super) state: AttemptState,
    pub(super) outcome: TurnOutcome,
    /// Time at which the wait after the attempt started. Later activity in the native session does not belong to this
    /// turn. `None` if the turn did not end during a wait.
    pub(super) waiting_since: Option<Timestamp>,
}

impl EndedAttempt {
    pub(super) fn provider(&self) -> &ProviderId {
        &self.state.agent.provider
    }
}

impl AttemptState {
    /// Creates the state of an attempt that has not opened a leg.
    pub(super) fn new(agent: AttemptAgent, is_resent: bool) -> Self {
        Self {
            agent,
            leg: None,
            sent_text: String::new(),
            is_resent,
            has_output: false,
            context_change: ContextChange::Unchanged,
        }
    }

    pub(super) fn end(self, outcome: TurnOutcome) -> EndedAttempt {
        EndedAttempt {
            state: self,
            outcome,
            waiting_since: None,
        }
    }
}

impl TurnRun<'_> {
    /// Opens a leg, sends the prompt, and processes the agent's events until the attempt ends.
    pub(super) async fn run_attempt(
        &mut self,
        planned: PlannedAttempt,
    ) -> Result<EndedAttempt, TurnError> {
        let provider = &planned.agent.provider;
        let span = tracing::info_span!("leg", %provider, leg = Empty, native_id = Empty);
        self.run_on_leg(planned).instrument(span).await
    }

    async fn run_on_leg(&mut self, planned: PlannedAttempt) -> Result<EndedAttempt, TurnError> {
        let PlannedAttempt {
            agent,
            opening,
            resent_text,
            ..
        } = planned;
        let mut state = AttemptState::new(agent, resent_text.is_some());
        let is_recorded = matches!(opening, Opening::Live { .. });
        let opened = tokio::select! {
            // A prompt for a running agent is recorded as sent, so it is sent even if the user stops at this moment.
            biased;
            opened = self.open_leg(&state, opening) => Some(opened),
            () = self.wait_for_stop(StopLevel::Graceful) => None,
        };
        let open_leg = match opened {
            Some(Ok(open_leg)) => open_leg,
            Some(Err(OpenLegError::Agent(error))) => {
                let failure = error.to_failure(self.now());
                return Ok(state.end(TurnOutcome::from_failure(failure)));
            }
            Some(Err(OpenLegError::Turn(error))) => {
                self.guard.wait_for_agent_exit().await;
                return Err(error);
            }
            None => {
                self.guard.wait_for_agent_exit().await;
                return Ok(state.end(TurnOutcome::with_state(TurnState::Cancelled)));
            }
        };
        let OpenLeg {
            leg,
            mut connection,
            brief,
            decisions,
        } = open_leg;
        state.sent_text = match (resent_text, brief) {
            // The agent may or may not have stored the text that it refused, so all of it is sent again.
            (Some(text), None) => text,
            (_, Some(brief)) => format!("{brief}{}", self.request.prompt),
            (None, None) => self.prompt_for_resumed(&leg.leg, &mut state).await?,
        };
        let span = Span::current();
        span.record("leg", leg.leg.number);
        if let Some(native_id) = &leg.native_id {
            span.record("native_id", native_id.as_str());
        }
        tracing::info!(mode = leg.open_mode.as_str(), "leg opened");
        state.leg = Some(leg);
        let sending = self.send_prompt(&mut state, connection.as_mut(), decisions, is_recorded);
        let outcome = sending.await;
        self.release_agent(&state, connection, &outcome).await?;
        Ok(state.end(outcome?))
    }

    /// Reports the leg, sends the text and processes the agent's events. Unless `is_recorded` is `true`, first records
    /// that the text is about to be sent.
    async fn send_prompt(
        &mut self,
        state: &mut AttemptState,
        connection: &mut dyn AgentConnection,
        decisions: Vec<Decision>,
        is_recorded: bool,
    ) -> Result<TurnOutcome, TurnError> {
        if let Some(attempt_leg) = &state.leg {
            self.emit(TurnEvent::Opened {
                provider: state.agent.provider.clone(),
                native_id: attempt_leg.native_id.clone(),
                leg: attempt_leg.leg.number,
                mode: attempt_leg.open_mode,
            })
            .await?;
            self.record_decisions(decisions).await?;
            if !is_recorded {
                let (store, leg) = (self.store(), attempt_leg.leg.id);
                store
                    .begin_attempt(self.lease(), self.turn, leg, self.now())
                    .await?;
            }
        }
        self.report.sent = true;
        match connection.send_prompt(&state.sent_text).await {
            Ok(()) => {
                // Loading the tokenizer takes less time than the agent needs for its first output.
                segue_tokens::warm_up();
                // An agent that starts a process for each turn has started it by now.
                if let Some(process) = connection.process_identity() {
                    self.guard.set_agent(process);
                }
                self.process_events(state, connection).await
            }
            Err(error) => Ok(TurnOutcome::from_failure(error.to_failure(self.now()))),
        }
    }

    /// Keeps the agent running for the next turn, or ends it.
    async fn release_agent(
        &mut self,
        state: &AttemptState,
        mut connection: Box<dyn AgentConnection>,
        outcome: &Result<TurnOutcome, TurnError>,
    ) -> Result<(), TurnError> {
        let is_reusable = outcome.as_ref().is_ok_and(|outcome| {
            outcome.is_agent_idle
                && matches!(outcome.state, TurnState::Finished | TurnState::Cancelled)
        });
        if self.request.keep_agent
            && is_reusable
            && connection.native_id().is_some()
            && let Some(attempt_leg) = &state.leg
            && connection.is_alive()
        {
            let process = connection.process_identity();
            let pooled_agent = PooledAgent {
                leg: attempt_leg.leg.id,
                tip: self.turn,
                permissions: state.agent.permissions,
                model: state.agent.model.clone(),
                lease: self.guard.share_with_agent(process.as_ref()),
                connection,
            };
            let pool = &self.runner.context.agent_pool;
            pool.insert(&self.snapshot.session.id, pooled_agent).await;
            return Ok(());
        }
        let actions = connection.close().await;
        Ok(self.record_decisions(guard_decisions(actions)).await?)
    }
}
