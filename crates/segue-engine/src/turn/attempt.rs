//! A single attempt at a turn: opens a leg, reports it, and sends the prompt.

use segue_core::session::{Decision, DecisionKind, FailureClass, OpenMode, TurnState};

use super::{AttemptResult, TurnOutcome, TurnRun, wait_for_stop};
use crate::leg::open_leg::{OpenLeg, OpenLegError, OpenLegRequest};
use crate::{TurnError, StopLevel, TurnEvent};

impl TurnRun<'_> {
    /// Opens a leg, sends the prompt, and processes the agent's events until the turn ends.
    pub(super) async fn run_attempt(&mut self) -> Result<AttemptResult, TurnError> {
        self.has_output = false;
        let turns = self.runner.context.store.turns(&self.session.id).await?;
        let earlier_turns = turns
            .split_last()
            .map_or(turns.as_slice(), |(_, earlier_turns)| earlier_turns);
        let prompt_with_added = self.runner.compactor.briefs
            .prompt_with_added(earlier_turns, &self.request.prompt)
            .await?;
        let leg_request = OpenLegRequest {
            chat: &self.request,
            resume_prompt: prompt_with_added.as_deref().unwrap_or(&self.request.prompt),
            turn: self.turn,
            provider: &self.report.provider,
            permissions: self.permissions,
            timeouts: self.timeouts,
            model: self.model.as_deref(),
            new_leg_reason: self.retry.new_leg_reason.as_deref(),
            refused_text: self.retry.refused_text.as_deref(),
        };
        let opening = self.runner
            .open_leg(&leg_request, &self.session, self.guard, earlier_turns);
        let opened = tokio::select! {
            opened = opening => Some(opened),
            () = wait_for_stop(self.stop.clone(), StopLevel::Graceful) => None,
        };
        let mut open_leg = match opened {
            Some(Ok(leg)) => leg,
            Some(Err(OpenLegError::Agent(error))) => {
                let failure = error.to_failure(self.now());
                return Ok(AttemptResult::Ended(TurnOutcome::from_failure(failure)));
            }
            Some(Err(OpenLegError::Engine(error))) => {
                self.guard.wait_for_agent_exit().await;
                return Err(error);
            }
            None => {
                self.guard.wait_for_agent_exit().await;
                return Ok(AttemptResult::Ended(TurnOutcome::with_state(
                    TurnState::Cancelled,
                )));
            }
        };
        // The rejected text, which is sent again, contains the added messages already.
        if open_leg.open_mode.is_resumed() && leg_request.refused_text.is_none() {
            self.add_reminder(&mut open_leg, earlier_turns, prompt_with_added)
                .await?;
        }
        self.leg = Some(open_leg.leg.id);
        self.leg_before_turn = Some(open_leg.leg.clone());
        // If no earlier turn was sent, a replacement would have no history.
        let is_replaceable =
            open_leg.open_mode.is_resumed() && earlier_turns.iter().any(|turn| turn.sent);
        let reported = self.report_leg(&mut open_leg).await;
        let mut connection = open_leg.connection;
        let outcome = match reported {
            Ok(()) => {
                self.send_prompt(connection.as_mut(), open_leg.leg.id, &open_leg.prompt)
                    .await
            }
            Err(error) => Err(error),
        };
        self.release_agent(connection, &outcome).await?;
        let outcome = outcome?;
        match outcome.failure {
            Some(failure)
                if failure.class == FailureClass::SessionUnknown
                    && is_replaceable
                    && !self.retry.has_replaced_native
                    && !self.has_output
                    && !self.request.strict =>
            {
                Ok(AttemptResult::NativeMissing(failure))
            }
            failure => Ok(AttemptResult::Ended(TurnOutcome { failure, ..outcome })),
        }
    }

    // Takes `&mut OpenLeg` because an `AgentConnection` is not `Sync`: a shared reference would prevent the turn's
    // future from being `Send`.
    async fn report_leg(&mut self, open_leg: &mut OpenLeg) -> Result<(), TurnError> {
        self.report.native_id.clone_from(&open_leg.leg.native_id);
        self.report.leg = Some(open_leg.leg.number);
        self.report.opened = Some((open_leg.open_mode, open_leg.reason.clone()));
        self.emit(TurnEvent::Opened {
            provider: open_leg.leg.provider.clone(),
            native_id: open_leg.leg.native_id.clone(),
            leg: open_leg.leg.number,
            mode: open_leg.open_mode,
        })
        .await?;
        if let Some(reason) = &open_leg.transport_fallback {
            self.record_decision(Decision::new(DecisionKind::Provider, reason.as_str()))
                .await?;
        }
        for decision in std::mem::take(&mut open_leg.brief_decisions) {
            self.record_decision(decision).await?;
        }
        for line in &open_leg.guard_actions {
            self.report_guard_action(line).await?;
        }
        if open_leg.branched {
            self.record_decision(Decision::new(
                DecisionKind::Opened,
                open_leg.reason.as_str(),
            ))
            .await?;
        }
        // Only a new native session with a brief is reported. Other modes are expected.
        if open_leg.open_mode == OpenMode::Briefed {
            let text = format!(
                "started a new native session with a brief of this session: {}",
                open_leg.reason
            );
            self.record_decision(Decision::new(DecisionKind::Opened, text))
                .await?;
        }
        Ok(())
    }
}
