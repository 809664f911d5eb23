//! Attempts at one prompt until it is answered or fails: retries, waits and fallback agents, as the policy decides.

use std::fmt::Write as _;

use jiff::Timestamp;
use segue_core::hint::{Hint, SuggestedAction};
use segue_core::id::ProviderId;
use segue_core::policy::{
    Cooldown, FailedPrompt, ProviderHealth, RetryAction, WaitReason, plan_retry,
};
use segue_core::session::{
    Decision, DecisionKind, Failure, FailureClass, LegEnd, Message, Role, TurnState, Usage,
};
use segue_store::TurnEnding;

use super::{AttemptResult, TurnOutcome, TurnRun, wait_for_stop};
use crate::error::format_utc;
use crate::reconcile::ReconcileMode;
use crate::turn::message_chunks::BoundedText;
use crate::turn::recorder::Recorder;
use crate::{TurnError, StopLevel, TurnEvent};

/// State of the attempts at a prompt.
#[derive(Default)]
pub(super) struct RetryState {
    /// Health of the agent in the session before the turn.
    pub(super) health: ProviderHealth,
    /// Whether a cooldown of the agent is on record.
    pub(super) has_cooldown: bool,
    /// Time until which the prompt waits before the first attempt, with the reason.
    pub(super) wait: Option<(Timestamp, WaitReason)>,
    /// Time at which the current wait started. Later activity in the native session does not belong to this turn.
    pub(super) waiting_since: Option<Timestamp>,
    /// Whether the prompt has waited for the agent that rejected it.
    pub(super) has_waited: bool,
    /// Whether a lost native session was replaced.
    pub(super) has_replaced_native: bool,
    /// Agents that failed the prompt.
    pub(super) failed_providers: Vec<ProviderId>,
    /// Reason for opening another leg. `None` if there is none.
    pub(super) new_leg_reason: Option<String>,
    /// Text that the agent rejected and that the retry sends. `None` if there is no retry.
    pub(super) refused_text: Option<String>,
}

impl TurnRun<'_> {
    /// Runs attempts until the prompt is answered or fails.
    pub(super) async fn run_attempts(&mut self) -> Result<TurnOutcome, TurnError> {
        if let Some((until, reason)) = self.retry.wait.take()
            // Waits are rare, and a boxed future does not enlarge the future of every turn.
            && let Some(outcome) = Box::pin(self.wait_and_recheck(until, reason, None)).await?
        {
            return Ok(outcome);
        }
        loop {
            let outcome = match self.run_attempt().await? {
                AttemptResult::Ended(outcome) => outcome,
                AttemptResult::NativeMissing(failure) => {
                    self.replace_lost_leg(failure).await?;
                    continue;
                }
            };
            let Some(failure) = outcome.failure.clone() else {
                return Ok(outcome);
            };
            match self.next_action(&failure).await? {
                RetryAction::EndTurn => return Ok(outcome),
                RetryAction::HandOff(fallback) => self.hand_to_fallback(fallback, &failure).await?,
                RetryAction::Wait(until) => {
                    self.fail_attempt(&failure).await?;
                    self.retry.has_waited = true;
                    self.retry.refused_text = Some(std::mem::take(&mut self.sent_text));
                    let waiting =
                        self.wait_and_recheck(until, WaitReason::RateLimited, Some(failure));
                    if let Some(outcome) = Box::pin(waiting).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Ends the leg of a native session that the agent has lost, so that the next attempt opens another. Done once per
    /// turn.
    async fn replace_lost_leg(&mut self, failure: Failure) -> Result<(), TurnError> {
        self.fail_attempt(&failure).await?;
        let at = self.now();
        if let Some(leg) = self.leg.take() {
            let (store, lease) = (&self.runner.context.store, &self.guard.lease);
            store.end_leg(lease, leg, LegEnd::Lost, at).await?;
        }
        self.retry.has_replaced_native = true;
        self.retry.new_leg_reason = Some(format!(
            "the agent did not find its native session: {}",
            failure.message
        ));
        Ok(())
    }

    async fn fail_attempt(&self, failure: &Failure) -> Result<(), TurnError> {
        let (store, lease) = (&self.runner.context.store, &self.guard.lease);
        let at = self.now();
        Ok(store.fail_attempt(lease, self.turn, failure, at).await?)
    }

    /// Decides what happens to the prompt after a failure. A cooldown of the agent is recorded for all sessions.
    async fn next_action(&mut self, failure: &Failure) -> Result<RetryAction, TurnError> {
        let now = self.now();
        if let Some(cooldown) = Cooldown::from_failure(&self.report.provider, failure, now) {
            self.runner.context.store.set_cooldown(cooldown).await?;
            self.retry.has_cooldown = true;
        }
        if !self.retry.failed_providers.contains(&self.report.provider) {
            self.retry
                .failed_providers
                .push(self.report.provider.clone());
        }
        let session = Some(&self.session.id);
        let fallbacks =
            self.runner
                .available_fallbacks(&self.request, session, &self.retry.failed_providers);
        let failed_prompt = FailedPrompt {
            now,
            failure,
            has_output: self.has_output,
            has_waited: self.retry.has_waited,
            wait_preference: self.request.wait_preference,
            fallbacks: &fallbacks.await?,
        };
        Ok(plan_retry(&failed_prompt))
    }

    /// Moves the prompt to a fallback agent, which gets no more permissions than the first one.
    async fn hand_to_fallback(
        &mut self,
        fallback: ProviderId,
        failure: &Failure,
    ) -> Result<(), TurnError> {
        self.fail_attempt(failure).await?;
        let reason = match (failure.class, failure.retry_at) {
            (_, Some(until)) => format!("is in cooldown until {}", format_utc(until)),
            (FailureClass::Quota, None) => "has no quota left".to_owned(),
            (_, None) => "accepts no more prompts".to_owned(),
        };
        let from = std::mem::replace(&mut self.report.provider, fallback.clone());
        let mut text = format!("{fallback} took over the prompt from {from}, which {reason}");
        let options = self.runner
            .agent_options(&self.request, &fallback, Some(&from))?;
        let permissions = self.permissions.restrict_to(options.permissions);
        if permissions != self.permissions {
            let _ = write!(text, "; the permission policy is {}", permissions.as_str());
        }
        self.permissions = permissions;
        self.timeouts = options.timeouts;
        if let Some(model) = self.model.take() {
            let _ = write!(text, "; ignored the model {model}, which belongs to {from}");
        }
        // The decision below reports the reason.
        self.retry.new_leg_reason = None;
        self.retry.refused_text = None;
        (self.retry.has_waited, self.retry.has_cooldown) = (false, false);
        self.retry.health = self.runner
            .provider_health(Some(&self.session.id), &fallback)
            .await?;
        (self.leg, self.leg_before_turn) = (None, None);
        self.report.native_id = None;
        (self.report.leg, self.report.opened) = (None, None);
        let decision = Decision::new(DecisionKind::HandedOff, text);
        Ok(self.record_decision(decision).await?)
    }

    /// Waits until an agent may receive the prompt, then checks whether its native session changed during the wait.
    ///
    /// Returns the outcome if the turn ended. `rejection` is the failure for which the prompt waits, if it was sent
    /// before.
    async fn wait_and_recheck(
        &mut self,
        until: Timestamp,
        reason: WaitReason,
        rejection: Option<Failure>,
    ) -> Result<Option<TurnOutcome>, TurnError> {
        let since = self.now();
        self.retry.waiting_since = Some(since);
        if !self.wait_until(until, reason).await? {
            return Ok(Some(TurnOutcome::with_state(TurnState::Cancelled)));
        }
        let session = self.runner.context.require_session(&self.session.id).await?;
        if let Some(native) = &session.native_id
            && session.provider == self.report.provider
        {
            let exclusive_use = self.runner.context.natives
                .ensure_no_foreign_process(&session.provider, native);
            if let Err(in_use) = exclusive_use.await {
                let hint = Hint::from("wait until it has finished, then ")
                    .with_action(SuggestedAction::Resume(session.id));
                let failure = Failure::new(FailureClass::NotStarted, in_use.to_string());
                return Ok(Some(TurnOutcome::from_failure(failure.with_hint(hint))));
            }
        }
        if self.runner.reconciler
            .has_native_activity_since(&session, since)
            .await?
        {
            self.requeue_prompt(since, rejection).await?;
        }
        self.retry.waiting_since = None;
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
        let (engine, guard) = (self.runner, self.guard);
        let (store, lease) = (&engine.context.store, &guard.lease);
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
        let session = engine.context.require_session(&self.session.id).await?;
        let strict = self.request.strict;
        let mode = ReconcileMode::Prompt { strict };
        let (session, reconcile_decisions) = engine.reconciler.reconcile(session, guard, mode).await?;
        let prompt = Message::from_text(Role::User, self.request.prompt.as_str(), self.now());
        let turn = engine.context.store.begin_turn(&guard.lease, &prompt).await?;
        self.session = session;
        self.turn = turn.id;
        self.recorder = Recorder::new(
            engine.context.store.clone(),
            guard.lease.clone(),
            turn.id,
            BoundedText::with_limit(self.request.max_text_bytes),
        );
        (self.leg, self.leg_before_turn) = (None, None);
        self.report.turn = turn.number;
        let started_event = TurnEvent::Started {
            session: self.report.session.clone(),
            turn: turn.number,
        };
        self.emit(started_event).await?;
        let text = format!(
            "queued the prompt again as turn {}: the native session gained turns while it waited",
            turn.number
        );
        let requeue_decision = Decision::new(DecisionKind::OutsideTurns, text);
        for decision in reconcile_decisions.into_iter().chain([requeue_decision]) {
            self.record_decision(decision).await?;
        }
        Ok(())
    }

    /// Waits until an agent may receive the prompt. Returns `false` if a stop is requested during the wait.
    async fn wait_until(
        &mut self,
        until: Timestamp,
        reason: WaitReason,
    ) -> Result<bool, TurnError> {
        let wait = until.duration_since(self.now());
        let Ok(wait) = std::time::Duration::try_from(wait) else {
            return Ok(true);
        };
        let text = format!(
            "waiting {} s for {}, until {}: {}",
            wait.as_secs_f64().ceil(),
            self.report.provider,
            format_utc(until),
            reason.description()
        );
        self.record_decision(Decision::new(DecisionKind::BackedOff, text))
            .await?;
        tokio::select! {
            biased;
            () = wait_for_stop(self.stop.clone(), StopLevel::Graceful) => Ok(false),
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }
}
