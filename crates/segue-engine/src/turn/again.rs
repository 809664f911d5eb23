//! Attempts at one prompt until it is answered or fails: retries, waits and fallback agents, as the policy decides.

use std::fmt::Write as _;

use jiff::Timestamp;
use segue_core::hint::{Hint, NextStep};
use segue_core::id::ProviderId;
use segue_core::policy::{Next, Pause, Refused, Rest, Standing, after_refusal};
use segue_core::session::{
    Decision, DecisionKind, Failure, FailureClass, LegEnd, Message, Role, TurnState, Usage,
};
use segue_store::Finish;

use super::{Outcome, Run, Tried, stopped};
use crate::error::moment;
use crate::outside::Ahead;
use crate::pieces::Text;
use crate::record::Recorder;
use crate::{EngineError, Stop, TurnEvent};

/// State of the attempts at a prompt.
#[derive(Default)]
pub(super) struct Course {
    /// Health of the agent in the session before the turn.
    pub(super) standing: Standing,
    /// Whether a cooldown of the agent is on record.
    pub(super) rested: bool,
    /// Time until which the prompt waits before the first attempt, with the reason.
    pub(super) wait: Option<(Timestamp, Pause)>,
    /// Time at which the current wait started. Later activity in the native session does not belong to this turn.
    pub(super) waits_since: Option<Timestamp>,
    /// Whether the prompt has waited for the agent that rejected it.
    pub(super) waited: bool,
    /// Whether a lost native session was replaced.
    pub(super) replaced: bool,
    /// Agents that failed the prompt.
    pub(super) tried: Vec<ProviderId>,
    /// Reason for opening another leg. `None` if there is none.
    pub(super) why_again: Option<String>,
    /// Text that the agent rejected and that the retry sends. `None` if there is no retry.
    pub(super) refused: Option<String>,
}

impl Run<'_> {
    /// Runs attempts until the prompt is answered or fails.
    pub(super) async fn perform(&mut self) -> Result<Outcome, EngineError> {
        if let Some((until, why)) = self.course.wait.take()
            // Waits are rare, and a boxed future does not enlarge the future of every turn.
            && let Some(outcome) = Box::pin(self.wait_out(until, why, None)).await?
        {
            return Ok(outcome);
        }
        loop {
            let outcome = match self.attempt().await? {
                Tried::Over(outcome) => outcome,
                Tried::Unknown(failure) => {
                    self.replace(failure).await?;
                    continue;
                }
            };
            let Some(failure) = outcome.failure.clone() else {
                return Ok(outcome);
            };
            match self.next(&failure).await? {
                Next::Settle => return Ok(outcome),
                Next::HandOver(other) => self.hand_to(other, &failure).await?,
                Next::Wait(until) => {
                    self.fail_attempt(&failure).await?;
                    self.course.waited = true;
                    self.course.refused = Some(std::mem::take(&mut self.sent));
                    let waiting = self.wait_out(until, Pause::RateLimited, Some(failure));
                    if let Some(outcome) = Box::pin(waiting).await? {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    /// Ends the leg of a native session that the agent has lost, so that the next attempt opens another. Done once per
    /// turn.
    async fn replace(&mut self, unknown: Failure) -> Result<(), EngineError> {
        self.fail_attempt(&unknown).await?;
        let at = self.now();
        if let Some(leg) = self.leg.take() {
            let (store, lease) = (&self.engine.store, &self.hold.lease);
            store.end_leg(lease, leg, LegEnd::Lost, at).await?;
        }
        self.course.replaced = true;
        self.course.why_again = Some(format!(
            "the agent does not know its own session: {}",
            unknown.message
        ));
        Ok(())
    }

    async fn fail_attempt(&self, failure: &Failure) -> Result<(), EngineError> {
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let at = self.now();
        Ok(store.fail_attempt(lease, self.turn, failure, at).await?)
    }

    /// Decides what happens to the prompt after a failure. A cooldown of the agent is recorded for all sessions.
    async fn next(&mut self, failure: &Failure) -> Result<Next, EngineError> {
        let now = self.now();
        if let Some(rest) = Rest::told_by(&self.report.provider, failure, now) {
            self.engine.store.rest(rest).await?;
            self.course.rested = true;
        }
        if !self.course.tried.contains(&self.report.provider) {
            self.course.tried.push(self.report.provider.clone());
        }
        let session = Some(&self.session.id);
        let others = self
            .engine
            .others(&self.request, session, &self.course.tried);
        let refused = Refused {
            now,
            failure,
            heard: self.heard,
            waited: self.course.waited,
            haste: self.request.haste,
            others: &others.await?,
        };
        Ok(after_refusal(&refused))
    }

    /// Moves the prompt to a fallback agent, which gets no more permissions than the first one.
    async fn hand_to(&mut self, other: ProviderId, failure: &Failure) -> Result<(), EngineError> {
        self.fail_attempt(failure).await?;
        let rests = match (failure.class, failure.retry_at) {
            (_, Some(until)) => format!("which rests until {}", moment(until)),
            (FailureClass::Quota, None) => "whose quota is spent".to_owned(),
            (_, None) => "which takes no more".to_owned(),
        };
        let from = std::mem::replace(&mut self.report.provider, other.clone());
        let mut text = format!("{other} takes the prompt over from {from}, {rests}");
        let terms = self.engine.terms(&self.request, &other, Some(&from))?;
        let permissions = self.permissions.narrower(terms.permissions);
        if permissions != self.permissions {
            let _ = write!(text, "; permissions are {}", permissions.as_str());
        }
        self.permissions = permissions;
        self.timeouts = terms.timeouts;
        if let Some(model) = self.model.take() {
            let _ = write!(text, "; the model {model} is one of {from}'s");
        }
        // The decision below reports the reason.
        self.course.why_again = None;
        self.course.refused = None;
        (self.course.waited, self.course.rested) = (false, false);
        self.course.standing = self.engine.standing(Some(&self.session.id), &other).await?;
        (self.leg, self.opened_leg) = (None, None);
        self.report.native_id = None;
        (self.report.leg, self.report.opened) = (None, None);
        let decision = Decision::new(DecisionKind::HandedOver, text);
        Ok(self.decide(decision).await?)
    }

    /// Waits until an agent may receive the prompt, then checks whether its native session changed during the wait.
    ///
    /// Returns the outcome if the turn ended. `refused` is the failure for which the prompt waits, if it was sent
    /// before.
    async fn wait_out(
        &mut self,
        until: Timestamp,
        why: Pause,
        refused: Option<Failure>,
    ) -> Result<Option<Outcome>, EngineError> {
        let since = self.now();
        self.course.waits_since = Some(since);
        if !self.wait_until(until, why).await? {
            return Ok(Some(Outcome::ended(TurnState::Cancelled)));
        }
        let session = self.engine.existing(&self.session.id).await?;
        if let Some(native) = &session.native_id
            && session.provider == self.report.provider
        {
            let alone = self.engine.refuse_strangers_in(&session.provider, native);
            if let Err(in_use) = alone.await {
                let hint = Hint::from("once it is done, ").step(NextStep::GoOn(session.id));
                let failure = Failure::new(FailureClass::NotStarted, in_use.to_string());
                return Ok(Some(Outcome::failed(failure.with_hint(hint))));
            }
        }
        if self.engine.went_on_since(&session, since).await? {
            self.come_after(since, refused).await?;
        }
        self.course.waits_since = None;
        Ok(None)
    }

    /// Moves the prompt to a new turn, after the turns that were made outside segue while it waited.
    ///
    /// The turn that waited stays on record, so that the prompt cannot be lost. It stays in the history only if it was
    /// sent.
    async fn come_after(
        &mut self,
        since: Timestamp,
        refused: Option<Failure>,
    ) -> Result<(), EngineError> {
        let (engine, hold) = (self.engine, self.hold);
        let (store, lease) = (&engine.store, &hold.lease);
        if refused.is_some() {
            let finish = Finish {
                state: TurnState::Failed,
                messages: Vec::new(),
                usage: Usage::default(),
                failure: refused,
                at: since,
            };
            store.finish_turn(lease, self.turn, finish).await?;
        } else {
            store.withdraw_turn(lease, self.turn, since).await?;
        }
        let session = engine.existing(&self.session.id).await?;
        let strict = self.request.strict;
        let ahead = Ahead::Prompt { strict };
        let (session, told) = engine.bring_up_to_date(session, hold, ahead).await?;
        let prompt = Message::text(Role::User, self.request.prompt.as_str(), self.now());
        let turn = engine.store.begin_turn(&hold.lease, &prompt).await?;
        self.session = session;
        self.turn = turn.id;
        self.recorder = Recorder::new(
            engine.store.clone(),
            hold.lease.clone(),
            turn.id,
            Text::up_to(self.request.text_up_to),
        );
        (self.leg, self.opened_leg) = (None, None);
        self.report.turn = turn.n;
        let began = TurnEvent::Began {
            session: self.report.session.clone(),
            turn: turn.n,
        };
        self.emit(began).await?;
        let text = format!(
            "the prompt waited, and is asked as turn {}, after what was done meanwhile",
            turn.n
        );
        let again = Decision::new(DecisionKind::Outside, text);
        for decision in told.into_iter().chain([again]) {
            self.decide(decision).await?;
        }
        Ok(())
    }

    /// Waits until an agent may receive the prompt. Returns `false` if a stop is requested during the wait.
    async fn wait_until(&mut self, until: Timestamp, why: Pause) -> Result<bool, EngineError> {
        let wait = until.duration_since(self.now());
        let Ok(wait) = std::time::Duration::try_from(wait) else {
            return Ok(true);
        };
        let text = format!(
            "waiting {} s for {}, until {}: {}",
            wait.as_secs_f64().ceil(),
            self.report.provider,
            moment(until),
            why.words()
        );
        self.decide(Decision::new(DecisionKind::BackedOff, text))
            .await?;
        tokio::select! {
            biased;
            () = stopped(self.stop.clone(), Stop::Ask) => Ok(false),
            () = tokio::time::sleep(wait) => Ok(true),
        }
    }
}
