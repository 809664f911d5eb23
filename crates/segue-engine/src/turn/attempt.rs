//! A single attempt at a turn: opens a leg as planned, reports it, and sends the prompt.
//!
//! A [`PlannedAttempt`] is consumed when it runs, and an [`EndedAttempt`] is consumed when the next step is planned, so
//! that no state of one attempt can reach another.

use jiff::Timestamp;
use segue_agents::AgentConnection;
use segue_core::id::{LegId, NativeId, ProviderId};
use segue_core::policy::{ProviderHealth, WaitReason};
use segue_core::session::{
    Decision, DecisionKind, Leg, NewNativeCause, OpenMode, OpenReason, OpeningPlan, ResolutionStep,
    TurnState,
};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::admission::{AdmittedPrompt, AgentOptions};
use super::begin::opening_step;
use super::context_loss::ContextChange;
use super::{TurnOutcome, TurnRun, TurnRunner, wait_for_stop};
use crate::leg::agent_pool::PooledAgent;
use crate::leg::open_leg::{OpenLeg, OpenLegError, OpenLegRequest};
use crate::{ChatRequest, StopLevel, TurnError, TurnEvent};

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
        match self {
            Self::Planned(plan) => opening_step(plan, provider, false),
            Self::Live { leg, .. } => {
                opening_step(&OpeningPlan::Resume(leg.clone()), provider, true)
            }
            Self::Compact(_) => ResolutionStep::NativeStarted {
                provider: provider.clone(),
                cause: NewNativeCause::Compacted { compaction: None },
            },
        }
    }
}

/// Agent of an attempt.
pub(super) struct AttemptAgent {
    pub(super) provider: ProviderId,
    pub(super) options: AgentOptions,
    /// Health of the agent in the session before the attempt.
    pub(super) health: ProviderHealth,
    /// Whether a cooldown of the agent is on record.
    pub(super) has_cooldown: bool,
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
pub(super) struct AttemptState {
    pub(super) agent: AttemptAgent,
    /// Leg on which the prompt runs. `None` until a leg is open.
    pub(super) leg: Option<AttemptLeg>,
    /// Text that was sent, including the brief. Empty if none was sent.
    pub(super) sent_text: String,
    /// Whether the agent refused the text before.
    pub(super) is_resent: bool,
    /// Whether the agent has produced output.
    pub(super) has_output: bool,
    /// Change of the agent's context.
    pub(super) context_change: ContextChange,
}

/// Leg of an attempt.
pub(super) struct AttemptLeg {
    /// The leg before the attempt.
    pub(super) leg: Leg,
    pub(super) native_id: Option<NativeId>,
    pub(super) open_mode: OpenMode,
    pub(super) reason: OpenReason,
}

/// An attempt that has ended.
pub(super) struct EndedAttempt {
    pub(super) state: AttemptState,
    pub(super) outcome: TurnOutcome,
    /// Time at which the wait after the attempt started. Later activity in the native session does not belong to this
    /// turn. `None` if the turn did not end during a wait.
    pub(super) waiting_since: Option<Timestamp>,
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

impl TurnRunner {
    /// Plans an attempt with an admitted prompt.
    pub(super) fn plan_attempt(
        &self,
        request: &ChatRequest,
        admitted: AdmittedPrompt,
        opening: Opening,
    ) -> Result<PlannedAttempt, TurnError> {
        let replaced_provider = admitted.replaced_provider.as_ref();
        Ok(PlannedAttempt {
            agent: AttemptAgent {
                options: self.agent_options(request, &admitted.provider, replaced_provider)?,
                provider: admitted.provider,
                health: admitted.health,
                has_cooldown: admitted.has_cooldown,
            },
            wait: admitted.wait,
            opening,
            resent_text: None,
        })
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
        let is_attempt_recorded = matches!(opening, Opening::Live { .. });
        let request = OpenLegRequest {
            chat: &self.request,
            snapshot: &self.snapshot,
            guard: self.guard,
            provider: &state.agent.provider,
            options: &state.agent.options,
            is_resent: state.is_resent,
        };
        let opened = tokio::select! {
            // A prompt for a running agent is recorded as sent, so it is sent even if the user stops at this moment.
            biased;
            opened = self.runner.open_leg(&request, opening) => Some(opened),
            () = wait_for_stop(self.stop.clone(), StopLevel::Graceful) => None,
        };
        let open_leg = match opened {
            Some(Ok(leg)) => leg,
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
            open_mode,
            reason,
            brief,
            decisions,
        } = open_leg;
        state.sent_text = match (resent_text, brief) {
            // The agent may or may not have stored the text that it refused, so all of it is sent again.
            (Some(text), None) => text,
            (_, Some(brief)) => format!("{brief}{}", self.request.prompt),
            (None, None) => self.prompt_for_resumed(&leg, &mut state).await?,
        };
        let leg_id = leg.id;
        let span = Span::current();
        span.record("leg", leg.number);
        if let Some(native_id) = &leg.native_id {
            span.record("native_id", native_id.as_str());
        }
        tracing::info!(mode = open_mode.as_str(), "leg opened");
        state.leg = Some(AttemptLeg {
            native_id: leg.native_id.clone(),
            leg,
            open_mode,
            reason,
        });
        let unrecorded_leg = (!is_attempt_recorded).then_some(leg_id);
        let outcome = match self.report_leg(&state, decisions).await {
            Ok(()) => {
                self.send_prompt(&mut state, connection.as_mut(), unrecorded_leg)
                    .await
            }
            Err(error) => Err(error),
        };
        self.release_agent(&state, connection, &outcome).await?;
        Ok(state.end(outcome?))
    }

    async fn report_leg(
        &mut self,
        state: &AttemptState,
        decisions: Vec<Decision>,
    ) -> Result<(), TurnError> {
        if let Some(attempt_leg) = &state.leg {
            self.emit(TurnEvent::Opened {
                provider: state.agent.provider.clone(),
                native_id: attempt_leg.native_id.clone(),
                leg: attempt_leg.leg.number,
                mode: attempt_leg.open_mode,
            })
            .await?;
        }
        for decision in decisions {
            let is_repeated = decision.kind() == DecisionKind::Protected
                && self.report.decisions.contains(&decision);
            if !is_repeated {
                self.record_decision(decision).await?;
            }
        }
        Ok(())
    }

    /// Sends the text and processes the agent's events. If `unrecorded_leg` is given, first records that the text is about
    /// to be sent on that leg.
    async fn send_prompt(
        &mut self,
        state: &mut AttemptState,
        connection: &mut dyn AgentConnection,
        unrecorded_leg: Option<LegId>,
    ) -> Result<TurnOutcome, TurnError> {
        if let Some(leg) = unrecorded_leg {
            let (store, lease, at) = (&self.runner.context.store, &self.guard.lease, self.now());
            store.begin_attempt(lease, self.turn, leg, at).await?;
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
                permissions: state.agent.options.permissions,
                model: state.agent.options.model.clone(),
                lease: self.guard.share_with_agent(process.as_ref()),
                connection,
            };
            let pool = &self.runner.context.agent_pool;
            pool.insert(&self.snapshot.session.id, pooled_agent).await;
            return Ok(());
        }
        for action in connection.close().await {
            self.report_guard_action(action).await?;
        }
        Ok(())
    }
}
