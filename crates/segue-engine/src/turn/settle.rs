//! The end of a turn: its record is closed, and a failure gets a hint.

use jiff::Timestamp;
use segue_agents::known;
use segue_core::hint::{Hint, NextStep};
use segue_core::id::LegId;
use segue_core::number_format::figure;
use segue_core::policy::{Aftermath, Standing, is_full, is_policy_stop};
use segue_core::session::{Decision, DecisionKind, Failure, FailureClass, Leg, LegEnd, TurnState};
use segue_store::{Finish, Settled};

use super::{Outcome, Run};
use crate::error::moment;
use crate::{EngineError, TurnEvent, TurnReport};

/// Maximum number of characters of an unsent prompt in the log.
const WORDS: usize = 500;

impl Run<'_> {
    /// Closes the record and saves the results of the turn, in one transaction.
    pub(super) async fn settle(mut self, outcome: Outcome) -> Result<TurnReport, EngineError> {
        let now = self.now();
        // A turn that ended during a wait ends when the wait started, because turns made outside segue since then
        // follow it.
        let at = self.course.waits_since.unwrap_or(now);
        let state = outcome.state;
        let Aftermath { standing, rotates } = self.aftermath(state, outcome.failure.as_ref());
        let failure = match outcome.failure {
            Some(failure) if standing.is_hopeless() => {
                Some(Box::pin(self.with_way_out(failure)).await?)
            }
            failure => {
                failure.map(|failure| with_next_step(failure, &self.report, standing.retry_at))
            }
        };
        let last = self.recorder.close(state == TurnState::Finished, at);
        let last_number = last.last().map(|(number, _)| *number);
        let finish = Finish {
            state,
            messages: last,
            usage: self.report.usage,
            failure: failure.clone(),
            at,
        };
        let mark = self.native_end().await;
        self.settle_memory(state).await?;
        self.sum_up_leg().await?;
        let end = self.end_of_leg(failure.as_ref(), rotates);
        let ending = match end {
            Some((why, _)) => self.leg_to_end().await?.map(|leg| (leg, why)),
            None => None,
        };
        let due = match end {
            None => self.known_to_be_due().await?,
            // The leg ends, so compaction is decided when the next brief is composed.
            Some(_) => Some(false),
        };
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let provider = &self.report.provider;
        let changed = standing != self.course.standing;
        let settled = Settled {
            mark,
            standing: changed.then(|| (provider.clone(), standing)),
            ends: ending,
        };
        let settling = store.settle_turn(lease, self.turn, finish, settled);
        if end.is_none() && failure.is_none() && !self.course.rested && due == Some(false) {
            // No other write follows, so the lease can usually be released in the same commit.
            tokio::join!(settling, self.note_tokens(), self.hold.release()).0?;
        } else {
            settling.await?;
            self.note_tokens().await;
            if self.course.rested && state == TurnState::Finished {
                store.wake(provider).await?;
            }
        }
        if let Some((_, text)) = end {
            self.decide(Decision::new(DecisionKind::Rotated, text))
                .await?;
        }
        self.compact_if_due(due).await?;
        self.saved(last_number).await?;
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
    pub(super) async fn withdraw(mut self) -> Result<TurnReport, EngineError> {
        self.take_back("stopped before the prompt was sent").await?;
        let state = TurnState::Cancelled;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.state = state;
        Ok(self.report)
    }

    /// Removes the turn from the history. The log contains the start of the prompt, and why it was not sent.
    pub(super) async fn take_back(&self, why: &str) -> Result<(), EngineError> {
        let at = self.now();
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let words: String = self.request.prompt.chars().take(WORDS).collect();
        let decision = Decision::new(DecisionKind::Stopped, format!("{why}: {words:?}"));
        // Usually one commit. The record of the turn contains the prompt as well.
        let (withdrawn, noted) = tokio::join!(
            store.withdraw_turn(lease, self.turn, at),
            store.note(lease, &decision, at)
        );
        Ok(withdrawn.and(noted)?)
    }

    /// Returns the mark of the native record at which the turn ended. `None` if the turn ended during a wait, because
    /// then that record is no longer known.
    async fn native_end(&self) -> Option<String> {
        self.leg.filter(|_| self.course.waits_since.is_none())?;
        let (provider, native_id) = (&self.report.provider, self.report.native_id.as_ref()?);
        self.engine.end_of(provider, native_id).await
    }

    /// Computes the health of the agent in the session after the turn.
    fn aftermath(&self, state: TurnState, failure: Option<&Failure>) -> Aftermath {
        let unchanged = |standing| Aftermath {
            standing,
            rotates: false,
        };
        match (state, failure) {
            (TurnState::Finished, _) => unchanged(Standing::default()),
            (TurnState::Failed, Some(failure)) => {
                let policy = &self.engine.policy;
                self.course.standing.after(failure, policy, self.now())
            }
            _ => unchanged(self.course.standing),
        }
    }

    /// Returns why the leg ends with this turn, and the text that reports it. `None` if the leg does not end.
    fn end_of_leg(&self, failure: Option<&Failure>, rotates: bool) -> Option<(LegEnd, String)> {
        let next = "the next prompt opens a new one, which is told the story so far";
        if failure.is_some_and(|failure| failure.class == FailureClass::ContextTooLong) {
            let text = format!("the native session has no room left and is over; {next}");
            return Some((LegEnd::Full, text));
        }
        let policy = &self.engine.policy;
        if rotates {
            let limit = policy.error_limit;
            let times = if limit == 1 { "" } else { "s" };
            let standing = &self.course.standing;
            let no_other = "the native session is over, and no other is opened by itself";
            let text = if standing.is_hopeless() {
                format!("it failed once more: {no_other}")
            } else if standing.rotations == 0 {
                format!("{limit} failure{times} in a row: the native session is over; {next}")
            } else {
                format!("{limit} failure{times} in a row once more: {no_other}")
            };
            return Some((LegEnd::Errors, text));
        }
        let provider = &self.report.provider;
        let configured = self.engine.agent(provider).ok();
        let configured = configured.and_then(|agent| agent.defaults().model);
        let model = self.model.as_deref().or(configured.as_deref());
        let limit = policy.context.of(provider, model)?;
        let size = is_full(self.opened_leg.as_ref()?, self.report.usage, limit)?;
        let text = format!(
            "the native session holds {} tokens, more than {}, and is over; {next}",
            figure(size),
            figure(limit)
        );
        Some((LegEnd::Full, text))
    }

    /// Returns the leg of the turn, or the leg that was to be resumed if it could not be opened.
    async fn leg_to_end(&self) -> Result<Option<LegId>, EngineError> {
        let legs = self.engine.store.legs(&self.session.id).await?;
        let of_the_agent = |leg: &&Leg| leg.ended.is_none() && leg.provider == self.report.provider;
        Ok(legs.last().filter(of_the_agent).map(|leg| leg.id))
    }

    /// Adds the tokens that earlier legs spent on the same native session to the leg. Applies only if the agent reports
    /// no context size, because then the spent tokens are the only measure of the size.
    async fn sum_up_leg(&mut self) -> Result<(), EngineError> {
        let Some(leg) = &mut self.opened_leg else {
            return Ok(());
        };
        let known = self.report.usage.context_tokens.or(leg.context_tokens);
        if known.is_some() || leg.n == 1 || leg.native_id.is_none() {
            return Ok(());
        }
        let legs = self.engine.store.legs(&self.session.id).await?;
        let same = |earlier: &&Leg| {
            earlier.n < leg.n
                && earlier.provider == leg.provider
                && earlier.native_id == leg.native_id
        };
        let earlier = legs.iter().filter(same);
        let spent = earlier.filter_map(|leg| leg.total_tokens);
        if let Some(spent) = spent.reduce(u64::saturating_add) {
            leg.total_tokens = Some(leg.total_tokens.unwrap_or(0).saturating_add(spent));
        }
        Ok(())
    }

    /// Adds a hint to a failure after which segue does not retry the agent automatically.
    async fn with_way_out(&self, failure: Failure) -> Result<Failure, EngineError> {
        let id = &self.session.id;
        let provider = std::slice::from_ref(&self.report.provider);
        let others = self.engine.others(&self.request, Some(id), provider);
        let others = others.await?;
        let other = others.into_iter().next();
        let way_out = Hint::from(NextStep::HandOver(id.clone(), other))
            .say("; or ")
            .step(NextStep::TryAnyway(id.clone()));
        let hint = match failure.hint.clone() {
            Some(hint) => hint.say("; ").then(way_out),
            None => way_out,
        };
        Ok(failure.with_hint(hint))
    }
}

/// Adds a hint with the next action to a failure. Before `rested`, segue does not retry the agent automatically.
fn with_next_step(failure: Failure, report: &TurnReport, rested: Option<Timestamp>) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    let id = &report.session;
    let go_on = NextStep::GoOn(id.clone());
    let provider = report.provider.as_str();
    let hint = match failure.class {
        FailureClass::NotStarted => "`segue doctor` shows which agents can be started".into(),
        FailureClass::TimedOut => NextStep::GiveLonger(id.clone()).into(),
        FailureClass::Quota | FailureClass::RateLimited => {
            let limited = failure.class == FailureClass::RateLimited;
            let when = match failure.retry_at.or(rested.filter(|_| limited)) {
                Some(at) => format!("it can be tried again at {}, then ", moment(at)),
                None => "wait a while, then ".to_owned(),
            };
            Hint::from(when)
                .step(go_on)
                .say("; or ")
                .step(NextStep::HandOver(id.clone(), None))
        }
        FailureClass::ContextTooLong => {
            Hint::from("the next prompt opens a new native session with the newest messages; ")
                .step(go_on)
        }
        FailureClass::NotLoggedIn => {
            Hint::from(format!("{}, then ", known::how_to_log_in(provider))).step(go_on)
        }
        FailureClass::UntrustedFolder => {
            Hint::from(format!("{}, then ", known::how_to_trust(provider))).step(go_on)
        }
        FailureClass::SessionUnknown => {
            Hint::from("without --strict a new native session is told what was said; ").step(go_on)
        }
        FailureClass::Crashed | FailureClass::Agent | FailureClass::NotUnderstood => {
            Hint::from("what was said is kept; ").step(go_on)
        }
    };
    failure.with_hint(hint)
}
