//! Steps after an attempt: retries, waits and fallback agents, as the policy decides.

use std::ops::ControlFlow;

use jiff::Timestamp;
use segue_core::hint::Hint;
use segue_core::id::ProviderId;
use segue_core::policy::{Cooldown, FailedPrompt, RetryAction, WaitReason, plan_retry};
use segue_core::session::{
    Decision, EarlierAttempt, Failure, FailureClass, HandoffCause, LegEnd, TurnState, Usage,
};
use segue_store::{SettleEffects, TurnEnding};

use super::admission::AttemptAgent;
use super::attempt::{AttemptState, EndedAttempt, PlannedAttempt};
use super::{TurnOutcome, TurnRun};
use crate::reconcile::ReconcileMode;
use crate::{StopLevel, TurnError};

/// Step after an attempt, or before the first one: another attempt, or the end of the turn.
pub(super) type NextStep = ControlFlow<Box<EndedAttempt>, Box<PlannedAttempt>>;

impl TurnRun<'_> {
    /// Waits before the first attempt, if admission demands it.
    pub(super) async fn wait_before_first(
        &mut self,
        planned: PlannedAttempt,
    ) -> Result<NextStep, TurnError> {
        match planned.wait {
            None => Ok(NextStep::Continue(Box::new(planned))),
            Some(wait) => {
                let state = AttemptState::new(planned.agent, false);
                // Waits are rare, and a boxed future does not enlarge the future of every turn.
                Box::pin(self.wait_for_agent(state, wait, None)).await
            }
        }
    }

    /// Plans the step after an attempt. A cooldown of the agent is recorded for all sessions.
    pub(super) async fn plan_next_step(
        &mut self,
        ended: EndedAttempt,
    ) -> Result<NextStep, TurnError> {
        let Some(failure) = ended.outcome.failure.clone() else {
            return Ok(NextStep::Break(Box::new(ended)));
        };
        if self.can_replace_native(&ended, &failure) {
            return self.replace_lost_leg(ended.state, &failure).await;
        }
        let now = self.now();
        let provider = &ended.state.agent.provider;
        if let Some(cooldown) = Cooldown::from_failure(provider, &failure, now) {
            self.store().set_cooldown(cooldown).await?;
        }
        if !self.failed_providers.contains(provider) {
            self.failed_providers.push(provider.clone());
        }
        let failed_providers = self.failed_providers.clone();
        let fallbacks = self.list_other_providers(&failed_providers).await?;
        let failed_prompt = FailedPrompt {
            now,
            failure: &failure,
            has_output: ended.state.has_output,
            has_waited: ended.state.is_resent,
            wait_preference: self.request.wait_preference,
            fallbacks: &fallbacks,
        };
        let action = plan_retry(&failed_prompt);
        if action != RetryAction::EndTurn {
            self.fail_attempt(&failure).await?;
        }
        match action {
            RetryAction::EndTurn => Ok(NextStep::Break(Box::new(ended))),
            RetryAction::HandOff(fallback) => {
                let agent = ended.state.agent;
                self.hand_to_fallback(agent, fallback, &failure).await
            }
            RetryAction::Wait(until) => {
                let wait = (until, WaitReason::RateLimited);
                Box::pin(self.wait_for_agent(ended.state, wait, Some(failure))).await
            }
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
        state: AttemptState,
        failure: &Failure,
    ) -> Result<NextStep, TurnError> {
        self.fail_attempt(failure).await?;
        let lost_leg = state.leg.map(|leg| (leg.leg.id, LegEnd::Lost));
        self.end_leg(lost_leg).await?;
        self.has_replaced_native = true;
        let not_found = EarlierAttempt::NativeNotFound(&failure.message);
        let resent_text = state.is_resent.then_some(state.sent_text);
        self.plan_again(state.agent, resent_text, not_found).await
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
        Ok(NextStep::Continue(Box::new(PlannedAttempt {
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
        let turns = &mut self.snapshot.recent_turns;
        turns.retain(|recent| recent.id != self.turn);
        Ok(())
    }

    /// Returns the available fallback agents, except those in `excluded`.
    pub(super) async fn list_other_providers(
        &mut self,
        excluded: &[ProviderId],
    ) -> Result<Vec<ProviderId>, TurnError> {
        let runner = self.runner;
        if self.request.strict || runner.context.settings.policy.fallback.is_empty() {
            return Ok(Vec::new());
        }
        self.refresh_snapshot().await?;
        Ok(runner.list_fallbacks(&self.request, &self.snapshot.providers, excluded))
    }

    async fn fail_attempt(&self, failure: &Failure) -> Result<(), TurnError> {
        let failing = self
            .store()
            .fail_attempt(self.lease(), self.turn, failure, self.now());
        Ok(failing.await?)
    }

    /// Moves the prompt to a fallback agent, which gets no more permissions than the first one.
    async fn hand_to_fallback(
        &mut self,
        from: AttemptAgent,
        fallback: ProviderId,
        failure: &Failure,
    ) -> Result<NextStep, TurnError> {
        let cause = HandoffCause::Rejected {
            class: failure.class,
            until: failure.retry_at,
        };
        let (agent, decision) = self
            .runner
            .replace_agent(&self.request, from, fallback, cause)?;
        self.record_decision(decision).await?;
        self.plan_again(agent, None, EarlierAttempt::None).await
    }

    /// Waits until an agent accepts the prompt, and plans to send it. `rejection` is the failure for which the prompt
    /// waits, if it was sent before; then the same text is sent again.
    async fn wait_for_agent(
        &mut self,
        state: AttemptState,
        wait: (Timestamp, WaitReason),
        rejection: Option<Failure>,
    ) -> Result<NextStep, TurnError> {
        let since = self.now();
        let is_resent = rejection.is_some();
        let provider = &state.agent.provider;
        let waiting = self.wait_and_recheck(provider, wait, since, rejection);
        if let Some(outcome) = waiting.await? {
            return Ok(NextStep::Break(Box::new(EndedAttempt {
                waiting_since: Some(since),
                ..state.end(outcome)
            })));
        }
        let earlier_attempt = if is_resent {
            EarlierAttempt::Refused(self.turn)
        } else {
            EarlierAttempt::None
        };
        let resent_text = is_resent.then_some(state.sent_text);
        self.plan_again(state.agent, resent_text, earlier_attempt)
            .await
    }

    /// Waits until an agent may receive the prompt, then checks whether its native session changed during the wait.
    /// Returns the outcome of the turn if it ends with the wait.
    async fn wait_and_recheck(
        &mut self,
        provider: &ProviderId,
        (until, reason): (Timestamp, WaitReason),
        since: Timestamp,
        rejection: Option<Failure>,
    ) -> Result<Option<TurnOutcome>, TurnError> {
        if !self.wait_until(provider, until, reason).await? {
            return Ok(Some(TurnOutcome::with_state(TurnState::Cancelled)));
        }
        self.refresh_snapshot().await?;
        let (runner, session) = (self.runner, &self.snapshot.session);
        let natives = &runner.context.natives;
        if let Some(native) = &session.native_id
            && session.provider == *provider
            && let Err(in_use) = natives.ensure_no_foreign_process(provider, native).await
        {
            let hint = Hint::WaitForProcess {
                session: session.id.clone(),
            };
            let failure = Failure::new(FailureClass::NotStarted, in_use.to_string());
            return Ok(Some(TurnOutcome::from_failure(failure.with_hint(hint))));
        }
        let activity = runner
            .reconciler
            .has_native_activity_since(&self.snapshot, since);
        if activity.await? {
            self.requeue_prompt(since, rejection).await?;
        }
        Ok(None)
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
            store
                .settle_turn(lease, self.turn, ending, SettleEffects::default())
                .await?;
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
        let turn = store.start_turn(lease, prompt.into()).await?;
        self.turn = turn.id;
        self.recorder = runner.new_recorder(&self.request, guard, turn.id);
        self.report.turn = turn.number;
        self.emit_started().await?;
        decisions.push(Decision::PromptRequeued { turn: turn.number });
        Ok(self.record_decisions(decisions).await?)
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
            () = self.wait_for_stop(StopLevel::Graceful) => Ok(false),
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }
}
