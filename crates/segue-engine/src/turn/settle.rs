//! The end of a turn: its record is closed, and a failure gets a hint.

use jiff::Timestamp;
use segue_core::hint::Hint;
use segue_core::id::{LegId, ProviderId, SessionId};
use segue_core::policy::{HealthUpdate, ProviderHealth, context_limit_excess, is_policy_stop};
use segue_core::session::{
    Decision, Failure, FailureClass, Leg, LegEnd, RotationCause, TurnState, WithdrawalReason,
    tokens_of_earlier_legs,
};
use segue_store::{SettleEffects, TurnEnding};

use super::TurnRun;
use super::attempt::{AttemptState, EndedAttempt};
use crate::{TurnError, TurnEvent, TurnReport};

/// Maximum number of characters of an unsent prompt in the log.
const MAX_LOGGED_PROMPT_CHARS: usize = 500;

impl TurnRun<'_> {
    /// Closes the record and saves the results of the turn, in one transaction.
    pub(super) async fn settle(mut self, mut ended: EndedAttempt) -> Result<TurnReport, TurnError> {
        let now = self.now();
        // A turn that ended during a wait ends when the wait started, because turns made outside segue since then
        // follow it.
        let at = ended.waiting_since.unwrap_or(now);
        let state = ended.outcome.state;
        let recorded_health = self.snapshot.providers.health_of(ended.provider());
        let HealthUpdate { health, ends_leg } = self.updated_health(&ended, recorded_health);
        let failure = self.add_hint(&ended, health).await?;
        let final_messages = self
            .recorder
            .take_final_messages(state == TurnState::Finished, at);
        let last_seq = final_messages.last().map(|(number, _)| *number);
        let turn_ending = TurnEnding {
            state,
            messages: final_messages,
            usage: self.report.usage,
            failure: failure.clone(),
            at,
        };
        let mark = self.native_end_mark(&ended).await;
        self.settle_context_change(&mut ended).await?;
        let attempt = ended.state;
        let provider = &attempt.agent.provider;
        let rotation = self.plan_leg_end(&attempt, failure.as_ref(), ends_leg);
        let due = match rotation {
            None => self.check_compaction_due(&attempt).await?,
            // The leg ends, so compaction is decided when the next brief is composed.
            Some(_) => Some(false),
        };
        let has_health_changed = health != recorded_health;
        let leg_to_end = rotation.as_ref().and(self.find_leg_to_end(&attempt));
        let effects = SettleEffects {
            mark,
            provider_health: has_health_changed.then(|| (provider.clone(), health)),
            ended_leg: leg_to_end.zip(rotation.as_ref().map(|(end, _)| *end)),
            tokens: self.turn_tokens(&attempt),
        };
        let store = self.store();
        let settling = store.settle_turn(self.lease(), self.turn, turn_ending, effects);
        // Even an expired cooldown is on record.
        let has_cooldown = self.snapshot.providers.cooldown_of(provider).is_some();
        if rotation.is_none() && failure.is_none() && !has_cooldown && due == Some(false) {
            // No other write follows, so the lease can usually be released in the same commit.
            tokio::join!(settling, self.guard.release()).0?;
        } else {
            settling.await?;
            if has_cooldown && state == TurnState::Finished {
                store.clear_cooldown(provider).await?;
            }
        }
        if let Some((_, cause)) = rotation {
            self.record_decision(Decision::LegRotated { cause }).await?;
        }
        self.compact_if_due(&attempt, due).await?;
        tracing::info!(state = state.as_str(), "turn settled");
        self.emit_saved(last_seq).await?;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.text = self.recorder.text.take();
        self.report.stopped_by_policy |= failure
            .as_ref()
            .is_some_and(|failure| is_policy_stop(failure, now));
        self.report.failure = failure;
        Ok(self.into_report(attempt, state))
    }

    /// Returns the report of a turn that ended with this attempt.
    fn into_report(self, attempt: AttemptState, state: TurnState) -> TurnReport {
        let mut report = TurnReport {
            provider: attempt.agent.provider,
            state,
            ..self.report
        };
        if let Some(attempt_leg) = attempt.leg {
            report.native_id = attempt_leg.native_id;
            report.leg = Some(attempt_leg.leg.number);
            report.opened = Some((attempt_leg.open_mode, attempt_leg.reason));
        }
        report
    }

    /// Removes a prompt that was stopped before it was sent from the history, and returns the report.
    pub(super) async fn finish_unsent(
        mut self,
        ended: EndedAttempt,
    ) -> Result<TurnReport, TurnError> {
        self.withdraw_turn(WithdrawalReason::Stopped).await?;
        let state = TurnState::Cancelled;
        self.emit(TurnEvent::Ended { state }).await?;
        Ok(self.into_report(ended.state, state))
    }

    /// Removes the turn from the history. The log contains the start of the prompt, and why it was not sent.
    pub(super) async fn withdraw_turn(&self, reason: WithdrawalReason) -> Result<(), TurnError> {
        let (store, lease, at) = (self.store(), self.lease(), self.now());
        let prompt = self.request.prompt.chars();
        let decision = Decision::PromptWithdrawn {
            reason,
            excerpt: prompt.take(MAX_LOGGED_PROMPT_CHARS).collect(),
        };
        // Usually one commit. The record of the turn contains the prompt as well.
        let (withdrawn, logged) = tokio::join!(
            store.withdraw_turn(lease, self.turn, at),
            store.log_decision(lease, &decision, at)
        );
        Ok(withdrawn.and(logged)?)
    }

    /// Returns the mark of the native record at which the turn ended. `None` if the turn ended during a wait, because
    /// then that record is no longer known.
    async fn native_end_mark(&self, ended: &EndedAttempt) -> Option<String> {
        let attempt_leg = ended.state.leg.as_ref();
        let attempt_leg = attempt_leg.filter(|_| ended.waiting_since.is_none())?;
        let native_id = attempt_leg.native_id.as_ref()?;
        let natives = &self.runner.context.natives;
        natives.read_end_mark(ended.provider(), native_id).await
    }

    /// Computes the health of the agent in the session after the turn.
    fn updated_health(&self, ended: &EndedAttempt, recorded: ProviderHealth) -> HealthUpdate {
        let health = match (ended.outcome.state, &ended.outcome.failure) {
            (TurnState::Failed, Some(failure)) => {
                let policy = &self.runner.context.settings.policy;
                return recorded.apply_failure(failure, policy, self.now());
            }
            (TurnState::Finished, _) => ProviderHealth::default(),
            _ => recorded,
        };
        HealthUpdate {
            health,
            ends_leg: false,
        }
    }

    /// Returns why the leg ends with this turn. `None` if the leg does not end.
    fn plan_leg_end(
        &self,
        attempt: &AttemptState,
        failure: Option<&Failure>,
        ends_leg: bool,
    ) -> Option<(LegEnd, RotationCause)> {
        if failure.is_some_and(|failure| failure.class == FailureClass::ContextTooLong) {
            return Some((LegEnd::Full, RotationCause::ContextFull));
        }
        let policy = &self.runner.context.settings.policy;
        if ends_leg {
            let count = policy.error_limit;
            let health = self.snapshot.providers.health_of(&attempt.agent.provider);
            let cause = match health.failed_legs {
                _ if health.is_exhausted() => RotationCause::ForcedPromptFailed,
                0 => RotationCause::Failures { count },
                _ => RotationCause::MoreFailures { count },
            };
            return Some((LegEnd::Errors, cause));
        }
        let provider = &attempt.agent.provider;
        let configured = self.runner.context.agents.get(provider).ok();
        let configured = configured.and_then(|agent| agent.defaults().model);
        let model = attempt.agent.model.as_deref();
        let limit = policy
            .context
            .limit_for(provider, model.or(configured.as_deref()))?;
        let leg = self.leg_with_earlier_tokens(&attempt.leg.as_ref()?.leg);
        let tokens = context_limit_excess(&leg, self.report.usage, limit)?;
        Some((LegEnd::Full, RotationCause::OverLimit { tokens, limit }))
    }

    /// Returns the leg of the turn, or the leg that was to be resumed if it could not be opened.
    fn find_leg_to_end(&self, attempt: &AttemptState) -> Option<LegId> {
        let leg = match &attempt.leg {
            Some(attempt_leg) => Some(&attempt_leg.leg),
            None => self.snapshot.open_leg(),
        };
        let leg = leg.filter(|leg| leg.provider == attempt.agent.provider);
        leg.map(|leg| leg.id)
    }

    /// Adds the tokens that earlier legs spent on the same native session to the leg. Applies only if the agent reports
    /// no context size, because then the spent tokens are the only measure of the size.
    fn leg_with_earlier_tokens(&self, leg: &Leg) -> Leg {
        let mut leg = leg.clone();
        let context_tokens = self.report.usage.context_tokens.or(leg.context_tokens);
        let spent = tokens_of_earlier_legs(&leg, &self.snapshot.legs);
        if let Some(spent) = spent.filter(|_| context_tokens.is_none()) {
            leg.total_tokens = Some(leg.total_tokens.unwrap_or(0).saturating_add(spent));
        }
        leg
    }

    /// Adds a hint to the failure of the turn, if it failed. After repeated failures, the hint names another agent.
    async fn add_hint(
        &mut self,
        ended: &EndedAttempt,
        health: ProviderHealth,
    ) -> Result<Option<Failure>, TurnError> {
        let Some(failure) = ended.outcome.failure.clone() else {
            return Ok(None);
        };
        let session = self.report.session.clone();
        let provider = ended.provider().clone();
        if !health.is_exhausted() {
            let subject = (session, provider);
            return Ok(Some(add_action_hint(failure, subject, health.retry_at)));
        }
        let fallbacks = self.list_other_providers(&[provider]).await?;
        let hint = Hint::HandOffOrForce {
            first: failure.hint.clone().map(Box::new),
            session,
            fallback: fallbacks.into_iter().next(),
        };
        Ok(Some(failure.with_hint(hint)))
    }
}

/// Adds a hint with the next action to a failure. Before `retry_at`, segue does not retry the agent automatically.
fn add_action_hint(
    failure: Failure,
    (session, provider): (SessionId, ProviderId),
    retry_at: Option<Timestamp>,
) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    let hint = match failure.class {
        FailureClass::NotStarted => Hint::CheckAgents,
        FailureClass::TimedOut => Hint::ExtendTimeouts { session },
        FailureClass::Quota | FailureClass::RateLimited => {
            let limited = failure.class == FailureClass::RateLimited;
            let until = failure.retry_at.or(retry_at.filter(|_| limited));
            Hint::WaitOrHandOff { session, until }
        }
        FailureClass::ContextTooLong => Hint::ResumeWithBrief { session },
        FailureClass::NotLoggedIn => Hint::LogIn { provider, session },
        FailureClass::UntrustedFolder => Hint::TrustDirectory { provider, session },
        FailureClass::SessionUnknown => Hint::ResumeWithoutStrict { session },
        FailureClass::Crashed | FailureClass::Agent | FailureClass::UnparsableOutput => {
            Hint::Resume { session }
        }
    };
    failure.with_hint(hint)
}
