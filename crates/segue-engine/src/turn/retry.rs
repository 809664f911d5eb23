//! Steps after an attempt: retries, waits and fallback agents, as the policy decides.

use jiff::Timestamp;
use segue_core::hint::Hint;
use segue_core::id::ProviderId;
use segue_core::policy::{Cooldown, FailedPrompt, RetryAction, WaitReason, plan_retry};
use segue_core::session::{
    Decision, EarlierAttempt, Failure, FailureClass, HandoffCause, LegEnd, TurnState, Usage,
};
use segue_store::TurnEnding;

use super::attempt::{AttemptAgent, AttemptState, EndedAttempt, PlannedAttempt};
use super::{TurnOutcome, TurnRun, wait_for_stop};
use crate::reconcile::ReconcileMode;
use crate::{StopLevel, TurnError, TurnEvent};

/// Step after an attempt, or before the first one.
pub(super) enum NextStep {
    Attempt(Box<PlannedAttempt>),
    End(Box<EndedAttempt>),
}

/// Result of a wait.
enum WaitResult {
    /// The agent may receive the prompt.
    Over,
    /// The turn ends, with this outcome.
    TurnEnded(TurnOutcome),
}

impl TurnRun<'_> {
    /// Waits before the first attempt, if admission demands it.
    pub(super) async fn wait_before_first(
        &mut self,
        mut planned: PlannedAttempt,
    ) -> Result<NextStep, TurnError> {
        let Some((until, reason)) = planned.wait.take() else {
            return Ok(NextStep::Attempt(Box::new(planned)));
        };
        let since = self.now();
        let provider = planned.agent.provider.clone();
        // Waits are rare, and a boxed future does not enlarge the future of every turn.
        let waiting = Box::pin(self.wait_and_recheck(&provider, (since, until, reason), None));
        match waiting.await? {
            WaitResult::Over => {
                let none = EarlierAttempt::None;
                self.plan_again(planned.agent, None, none).await
            }
            WaitResult::TurnEnded(outcome) => {
                let ended = AttemptState::new(planned.agent, false).end(outcome);
                Ok(NextStep::End(Box::new(EndedAttempt {
                    waiting_since: Some(since),
                    ..ended
                })))
            }
        }
    }

    /// Plans the step after an attempt. A cooldown of the agent is recorded for all sessions.
    pub(super) async fn plan_next_step(
        &mut self,
        ended: EndedAttempt,
    ) -> Result<NextStep, TurnError> {
        let Some(failure) = ended.outcome.failure.clone() else {
            return Ok(NextStep::End(Box::new(ended)));
        };
        if self.can_replace_native(&ended, &failure) {
            return self.replace_lost_leg(ended, &failure).await;
        }
        let EndedAttempt {
            mut state,
            outcome,
            waiting_since,
        } = ended;
        let now = self.now();
        if let Some(cooldown) = Cooldown::from_failure(&state.agent.provider, &failure, now) {
            self.runner.context.store.set_cooldown(cooldown).await?;
            state.agent.has_cooldown = true;
        }
        if !self.failed_providers.contains(&state.agent.provider) {
            self.failed_providers.push(state.agent.provider.clone());
        }
        let fallbacks = self.list_other_providers().await?;
        let failed_prompt = FailedPrompt {
            now,
            failure: &failure,
            has_output: state.has_output,
            has_waited: state.is_resent,
            wait_preference: self.request.wait_preference,
            fallbacks: &fallbacks,
        };
        let action = plan_retry(&failed_prompt);
        let ended = EndedAttempt {
            state,
            outcome,
            waiting_since,
        };
        match action {
            RetryAction::EndTurn => Ok(NextStep::End(Box::new(ended))),
            RetryAction::HandOff(fallback) => {
                self.hand_to_fallback(ended, fallback, &failure).await
            }
            RetryAction::Wait(until) => Box::pin(self.wait_and_resend(ended, until, failure)).await,
        }
    }

    /// Returns `true` if the attempt failed because the agent does not have its native session, before any output, and
    /// another native session may replace it. Done once per turn.
    fn can_replace_native(&self, ended: &EndedAttempt, failure: &Failure) -> bool {
        let leg = ended.state.leg.as_ref();
        let is_resumed = leg.is_some_and(|leg| leg.open_mode.is_resumed());
        // If no earlier turn was sent, a replacement would have no history.
        let has_history = self.snapshot.recent_turns.iter().any(|turn| turn.sent);
        failure.class == FailureClass::SessionUnknown
            && is_resumed
            && has_history
            && !self.has_replaced_native
            && !ended.state.has_output
            && !self.request.strict
    }

    /// Ends the leg of a native session that the agent has lost, and plans an attempt on another one.
    async fn replace_lost_leg(
        &mut self,
        ended: EndedAttempt,
        failure: &Failure,
    ) -> Result<NextStep, TurnError> {
        self.fail_attempt(failure).await?;
        let lost_leg = ended
            .state
            .leg
            .as_ref()
            .map(|leg| (leg.leg.id, LegEnd::Lost));
        self.runner.end_leg(self.guard, lost_leg).await?;
        self.has_replaced_native = true;
        let AttemptState {
            agent,
            sent_text,
            is_resent,
            ..
        } = ended.state;
        let not_found = EarlierAttempt::NativeNotFound(&failure.message);
        let resent_text = is_resent.then_some(sent_text);
        self.plan_again(agent, resent_text, not_found).await
    }

    /// Plans another attempt, from the current state of the session.
    async fn plan_again(
        &mut self,
        agent: AttemptAgent,
        resent_text: Option<String>,
        earlier_attempt: EarlierAttempt<'_>,
    ) -> Result<NextStep, TurnError> {
        self.refresh_snapshot().await?;
        let (runner, provider) = (self.runner, &agent.provider);
        let opening = runner
            .plan_opening(&self.request, &self.snapshot, provider, earlier_attempt)
            .await?;
        Ok(NextStep::Attempt(Box::new(PlannedAttempt {
            agent,
            wait: None,
            opening,
            resent_text,
        })))
    }

    /// Reads the session again. The turn of the prompt is not part of the snapshot.
    async fn refresh_snapshot(&mut self) -> Result<(), TurnError> {
        let context = &self.runner.context;
        self.snapshot = context.require_snapshot(&self.snapshot.session.id).await?;
        let turn = self.turn;
        self.snapshot
            .recent_turns
            .retain(|recent| recent.id != turn);
        Ok(())
    }

    /// Returns the fallback agents that have not failed the prompt.
    pub(super) async fn list_other_providers(&mut self) -> Result<Vec<ProviderId>, TurnError> {
        let runner = self.runner;
        if self.request.strict || runner.context.settings.policy.fallback.is_empty() {
            return Ok(Vec::new());
        }
        self.refresh_snapshot().await?;
        let records = &self.snapshot.providers;
        Ok(runner.list_fallbacks(&self.request, records, &self.failed_providers))
    }

    async fn fail_attempt(&self, failure: &Failure) -> Result<(), TurnError> {
        let (store, lease) = (&self.runner.context.store, &self.guard.lease);
        let at = self.now();
        Ok(store.fail_attempt(lease, self.turn, failure, at).await?)
    }

    /// Moves the prompt to a fallback agent, which gets no more permissions than the first one.
    async fn hand_to_fallback(
        &mut self,
        ended: EndedAttempt,
        fallback: ProviderId,
        failure: &Failure,
    ) -> Result<NextStep, TurnError> {
        self.fail_attempt(failure).await?;
        let AttemptAgent {
            provider: from,
            options: previous,
            ..
        } = ended.state.agent;
        let mut options = self
            .runner
            .agent_options(&self.request, &fallback, Some(&from))?;
        options.permissions = previous.permissions.restrict_to(options.permissions);
        let permissions = options.permissions;
        self.record_decision(Decision::HandedOff {
            from,
            to: fallback.clone(),
            cause: HandoffCause::Rejected {
                class: failure.class,
                until: failure.retry_at,
            },
            permissions: (permissions != previous.permissions).then_some(permissions),
            ignored_model: previous.model,
        })
        .await?;
        let agent = AttemptAgent {
            health: self.snapshot.providers.health_of(&fallback),
            provider: fallback,
            options,
            has_cooldown: false,
        };
        self.plan_again(agent, None, EarlierAttempt::None).await
    }

    /// Waits until the agent that refused the prompt accepts it, and plans to send the same text again.
    async fn wait_and_resend(
        &mut self,
        ended: EndedAttempt,
        until: Timestamp,
        failure: Failure,
    ) -> Result<NextStep, TurnError> {
        self.fail_attempt(&failure).await?;
        let since = self.now();
        let provider = ended.state.agent.provider.clone();
        let wait = (since, until, WaitReason::RateLimited);
        match self
            .wait_and_recheck(&provider, wait, Some(failure))
            .await?
        {
            WaitResult::Over => {
                let AttemptState {
                    agent, sent_text, ..
                } = ended.state;
                let refused = EarlierAttempt::Refused(self.turn);
                self.plan_again(agent, Some(sent_text), refused).await
            }
            WaitResult::TurnEnded(outcome) => Ok(NextStep::End(Box::new(EndedAttempt {
                outcome,
                waiting_since: Some(since),
                ..ended
            }))),
        }
    }

    /// Waits until an agent may receive the prompt, then checks whether its native session changed during the wait.
    /// `rejection` is the failure for which the prompt waits, if it was sent before.
    async fn wait_and_recheck(
        &mut self,
        provider: &ProviderId,
        (since, until, reason): (Timestamp, Timestamp, WaitReason),
        rejection: Option<Failure>,
    ) -> Result<WaitResult, TurnError> {
        if !self.wait_until(provider, until, reason).await? {
            let cancelled = TurnOutcome::with_state(TurnState::Cancelled);
            return Ok(WaitResult::TurnEnded(cancelled));
        }
        self.refresh_snapshot().await?;
        let (context, session) = (&self.runner.context, &self.snapshot.session);
        if let Some(native) = &session.native_id
            && session.provider == *provider
            && let Err(in_use) = context
                .natives
                .ensure_no_foreign_process(provider, native)
                .await
        {
            let hint = Hint::WaitForProcess {
                session: session.id.clone(),
            };
            let failure = Failure::new(FailureClass::NotStarted, in_use.to_string());
            let failed = TurnOutcome::from_failure(failure.with_hint(hint));
            return Ok(WaitResult::TurnEnded(failed));
        }
        let reconciler = &self.runner.reconciler;
        if reconciler
            .has_native_activity_since(&self.snapshot, since)
            .await?
        {
            self.requeue_prompt(since, rejection).await?;
        }
        Ok(WaitResult::Over)
    }

    /// Moves the prompt to a new turn, after the turns that were made outside segue while it waited.
    ///
    /// The turn that waited stays on record, so that the prompt cannot be lost. It stays in the history only if it was
    /// sent.
    async fn requeue_prompt(
        &mut self,
        since: Timestamp,
        rejection: Option<Failure>,
    ) -> Result<(), TurnError> {
        let (runner, guard) = (self.runner, self.guard);
        let (store, lease) = (&runner.context.store, &guard.lease);
        if rejection.is_some() {
            let ending = TurnEnding {
                state: TurnState::Failed,
                messages: Vec::new(),
                usage: Usage::default(),
                failure: rejection,
                at: since,
            };
            store.finish_turn(lease, self.turn, ending).await?;
        } else {
            store.withdraw_turn(lease, self.turn, since).await?;
        }
        let id = &self.snapshot.session.id;
        let snapshot = runner.context.require_snapshot(id).await?;
        let mode = ReconcileMode::Prompt {
            strict: self.request.strict,
        };
        let (_, mut decisions) = runner.reconciler.reconcile(snapshot, guard, mode).await?;
        let prompt = runner.prompt_message(&self.request);
        let turn = store.begin_turn(lease, &prompt).await?;
        self.turn = turn.id;
        self.recorder = runner.new_recorder(&self.request, guard, turn.id);
        self.report.turn = turn.number;
        let started_event = TurnEvent::Started {
            session: self.report.session.clone(),
            turn: turn.number,
        };
        self.emit(started_event).await?;
        decisions.push(Decision::PromptRequeued { turn: turn.number });
        for decision in decisions {
            self.record_decision(decision).await?;
        }
        Ok(())
    }

    /// Waits until an agent may receive the prompt. Returns `false` if a stop is requested during the wait.
    async fn wait_until(
        &mut self,
        provider: &ProviderId,
        until: Timestamp,
        reason: WaitReason,
    ) -> Result<bool, TurnError> {
        let wait = until.duration_since(self.now());
        let Ok(wait) = std::time::Duration::try_from(wait) else {
            return Ok(true);
        };
        let has_fraction = wait.subsec_nanos() > 0;
        self.record_decision(Decision::WaitStarted {
            provider: provider.clone(),
            until,
            seconds: wait.as_secs() + u64::from(has_fraction),
            reason,
        })
        .await?;
        tokio::select! {
            biased;
            () = wait_for_stop(self.stop.clone(), StopLevel::Graceful) => Ok(false),
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }
}
