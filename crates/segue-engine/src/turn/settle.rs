//! The end of a turn: its record is closed, and a failure gets a hint.

use jiff::Timestamp;
use segue_agents::known;
use segue_core::hint::{Hint, SuggestedAction};
use segue_core::id::LegId;
use segue_core::number_format::{format_count, format_plural};
use segue_core::policy::{HealthUpdate, ProviderHealth, context_limit_excess, is_policy_stop};
use segue_core::session::{Decision, DecisionKind, Failure, FailureClass, Leg, LegEnd, TurnState};
use segue_store::{SettleEffects, TurnEnding};

use super::{TurnOutcome, TurnRun};
use crate::error::format_utc;
use crate::{TurnError, TurnEvent, TurnReport};

/// Maximum number of characters of an unsent prompt in the log.
const MAX_LOGGED_PROMPT_CHARS: usize = 500;

impl TurnRun<'_> {
    /// Closes the record and saves the results of the turn, in one transaction.
    pub(super) async fn settle(mut self, outcome: TurnOutcome) -> Result<TurnReport, TurnError> {
        let now = self.now();
        // A turn that ended during a wait ends when the wait started, because turns made outside segue since then
        // follow it.
        let at = self.retry.waiting_since.unwrap_or(now);
        let state = outcome.state;
        let HealthUpdate { health, ends_leg } =
            self.updated_health(state, outcome.failure.as_ref());
        let failure = match outcome.failure {
            Some(failure) if health.is_exhausted() => {
                Some(Box::pin(self.add_recovery_hint(failure)).await?)
            }
            failure => {
                failure.map(|failure| add_action_hint(failure, &self.report, health.retry_at))
            }
        };
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
        let mark = self.native_end_mark().await;
        self.settle_context_change(state).await?;
        self.add_earlier_leg_tokens().await?;
        let leg_end = self.plan_leg_end(failure.as_ref(), ends_leg);
        let leg_ending = match leg_end {
            Some((reason, _)) => self.find_leg_to_end().await?.map(|leg| (leg, reason)),
            None => None,
        };
        let due = match leg_end {
            None => self.check_compaction_due().await?,
            // The leg ends, so compaction is decided when the next brief is composed.
            Some(_) => Some(false),
        };
        let (store, lease) = (&self.runner.context.store, &self.guard.lease);
        let provider = &self.report.provider;
        let has_health_changed = health != self.retry.health;
        let effects = SettleEffects {
            mark,
            provider_health: has_health_changed.then(|| (provider.clone(), health)),
            ended_leg: leg_ending,
        };
        let settling = store.settle_turn(lease, self.turn, turn_ending, effects);
        if leg_end.is_none() && failure.is_none() && !self.retry.has_cooldown && due == Some(false)
        {
            // No other write follows, so the lease can usually be released in the same commit.
            tokio::join!(settling, self.save_token_estimates(), self.guard.release()).0?;
        } else {
            settling.await?;
            self.save_token_estimates().await;
            if self.retry.has_cooldown && state == TurnState::Finished {
                store.clear_cooldown(provider).await?;
            }
        }
        if let Some((_, text)) = leg_end {
            self.record_decision(Decision::new(DecisionKind::Rotated, text))
                .await?;
        }
        self.compact_if_due(due).await?;
        self.emit_saved(last_seq).await?;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.text = self.recorder.text.take();
        self.report.state = state;
        self.report.stopped_by_policy |= failure
            .as_ref()
            .is_some_and(|failure| is_policy_stop(failure, now));
        self.report.failure = failure;
        Ok(self.report)
    }

    /// Removes a prompt that was stopped before it was sent from the history, and returns the report.
    pub(super) async fn finish_unsent(mut self) -> Result<TurnReport, TurnError> {
        self.withdraw_turn("stopped before the prompt was sent")
            .await?;
        let state = TurnState::Cancelled;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.state = state;
        Ok(self.report)
    }

    /// Removes the turn from the history. The log contains the start of the prompt, and why it was not sent.
    pub(super) async fn withdraw_turn(&self, reason: &str) -> Result<(), TurnError> {
        let at = self.now();
        let (store, lease) = (&self.runner.context.store, &self.guard.lease);
        let excerpt: String = self
            .request
            .prompt
            .chars()
            .take(MAX_LOGGED_PROMPT_CHARS)
            .collect();
        let decision = Decision::new(DecisionKind::Stopped, format!("{reason}: {excerpt:?}"));
        // Usually one commit. The record of the turn contains the prompt as well.
        let (withdrawn, logged) = tokio::join!(
            store.withdraw_turn(lease, self.turn, at),
            store.log_decision(lease, &decision, at)
        );
        Ok(withdrawn.and(logged)?)
    }

    /// Returns the mark of the native record at which the turn ended. `None` if the turn ended during a wait, because
    /// then that record is no longer known.
    async fn native_end_mark(&self) -> Option<String> {
        self.leg.filter(|_| self.retry.waiting_since.is_none())?;
        let (provider, native_id) = (&self.report.provider, self.report.native_id.as_ref()?);
        self.runner.context.natives.read_end_mark(provider, native_id).await
    }

    /// Computes the health of the agent in the session after the turn.
    fn updated_health(&self, state: TurnState, failure: Option<&Failure>) -> HealthUpdate {
        let unchanged = |health| HealthUpdate {
            health,
            ends_leg: false,
        };
        match (state, failure) {
            (TurnState::Finished, _) => unchanged(ProviderHealth::default()),
            (TurnState::Failed, Some(failure)) => {
                let policy = &self.runner.context.settings.policy;
                self.retry.health.apply_failure(failure, policy, self.now())
            }
            _ => unchanged(self.retry.health),
        }
    }

    /// Returns why the leg ends with this turn, and the text that reports it. `None` if the leg does not end.
    fn plan_leg_end(&self, failure: Option<&Failure>, ends_leg: bool) -> Option<(LegEnd, String)> {
        let next_prompt_note = "the next prompt starts a new one with a brief of this session";
        if failure.is_some_and(|failure| failure.class == FailureClass::ContextTooLong) {
            let text =
                format!("ended the native session because its context is full; {next_prompt_note}");
            return Some((LegEnd::Full, text));
        }
        let policy = &self.runner.context.settings.policy;
        if ends_leg {
            let health = &self.retry.health;
            let no_retry_note = "segue does not start another one automatically";
            let text = if health.is_exhausted() {
                format!("ended the native session after another failure; {no_retry_note}")
            } else if health.failed_legs == 0 {
                let failures = format_plural(policy.error_limit, "failure");
                format!("ended the native session after {failures} in a row; {next_prompt_note}")
            } else {
                let failures = format_plural(policy.error_limit, "more failure");
                format!("ended the native session after {failures} in a row; {no_retry_note}")
            };
            return Some((LegEnd::Errors, text));
        }
        let provider = &self.report.provider;
        let configured = self.runner.context.agents.get(provider).ok();
        let configured = configured.and_then(|agent| agent.defaults().model);
        let model = self.model.as_deref().or(configured.as_deref());
        let limit = policy.context.limit_for(provider, model)?;
        let size = context_limit_excess(self.leg_before_turn.as_ref()?, self.report.usage, limit)?;
        let text = format!(
            "ended the native session at {} tokens, over the limit of {}; {next_prompt_note}",
            format_count(size),
            format_count(limit)
        );
        Some((LegEnd::Full, text))
    }

    /// Returns the leg of the turn, or the leg that was to be resumed if it could not be opened.
    async fn find_leg_to_end(&self) -> Result<Option<LegId>, TurnError> {
        let legs = self.runner.context.store.legs(&self.session.id).await?;
        let is_open_on_provider =
            |leg: &&Leg| leg.ended.is_none() && leg.provider == self.report.provider;
        Ok(legs.last().filter(is_open_on_provider).map(|leg| leg.id))
    }

    /// Adds the tokens that earlier legs spent on the same native session to the leg. Applies only if the agent reports
    /// no context size, because then the spent tokens are the only measure of the size.
    async fn add_earlier_leg_tokens(&mut self) -> Result<(), TurnError> {
        let Some(leg) = &mut self.leg_before_turn else {
            return Ok(());
        };
        let context_tokens = self.report.usage.context_tokens.or(leg.context_tokens);
        if context_tokens.is_some() || leg.number == 1 || leg.native_id.is_none() {
            return Ok(());
        }
        let legs = self.runner.context.store.legs(&self.session.id).await?;
        let is_same_native = |earlier: &&Leg| {
            earlier.number < leg.number
                && earlier.provider == leg.provider
                && earlier.native_id == leg.native_id
        };
        let earlier = legs.iter().filter(is_same_native);
        let spent = earlier.filter_map(|leg| leg.total_tokens);
        if let Some(spent) = spent.reduce(u64::saturating_add) {
            leg.total_tokens = Some(leg.total_tokens.unwrap_or(0).saturating_add(spent));
        }
        Ok(())
    }

    /// Adds a hint to a failure after which segue does not retry the agent automatically.
    async fn add_recovery_hint(&self, failure: Failure) -> Result<Failure, TurnError> {
        let id = &self.session.id;
        let provider = std::slice::from_ref(&self.report.provider);
        let fallbacks = self.runner
            .available_fallbacks(&self.request, Some(id), provider);
        let fallbacks = fallbacks.await?;
        let fallback = fallbacks.into_iter().next();
        let recovery_hint = Hint::from(SuggestedAction::HandOff(id.clone(), fallback))
            .with_text("; or ")
            .with_action(SuggestedAction::ForceRetry(id.clone()));
        let hint = match failure.hint.clone() {
            Some(hint) => hint.with_text("; ").append(recovery_hint),
            None => recovery_hint,
        };
        Ok(failure.with_hint(hint))
    }
}

/// Adds a hint with the next action to a failure. Before `retry_at`, segue does not retry the agent automatically.
fn add_action_hint(failure: Failure, report: &TurnReport, retry_at: Option<Timestamp>) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    let id = &report.session;
    let resume = SuggestedAction::Resume(id.clone());
    let provider = report.provider.as_str();
    let hint = match failure.class {
        FailureClass::NotStarted => "run `segue doctor` to see which agents can be started".into(),
        FailureClass::TimedOut => SuggestedAction::ExtendTimeouts(id.clone()).into(),
        FailureClass::Quota | FailureClass::RateLimited => {
            let limited = failure.class == FailureClass::RateLimited;
            let when = match failure.retry_at.or(retry_at.filter(|_| limited)) {
                Some(at) => format!("wait until {}, then ", format_utc(at)),
                None => "wait a while, then ".to_owned(),
            };
            Hint::from(when)
                .with_action(resume)
                .with_text("; or ")
                .with_action(SuggestedAction::HandOff(id.clone(), None))
        }
        FailureClass::ContextTooLong => {
            Hint::from("the next prompt starts a new native session with a brief; ")
                .with_action(resume)
        }
        FailureClass::NotLoggedIn => {
            Hint::from(format!("{}, then ", known::login_instruction(provider))).with_action(resume)
        }
        FailureClass::UntrustedFolder => {
            Hint::from(format!("{}, then ", known::trust_instruction(provider))).with_action(resume)
        }
        FailureClass::SessionUnknown => {
            Hint::from("without `--strict`, segue starts a new native session with a brief; ")
                .with_action(resume)
        }
        FailureClass::Crashed | FailureClass::Agent | FailureClass::UnparsableOutput => {
            Hint::from("all messages so far are saved; ").with_action(resume)
        }
    };
    failure.with_hint(hint)
}
