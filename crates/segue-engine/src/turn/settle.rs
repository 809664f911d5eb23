//! The end of a turn: its record is closed, and a failure gets its next step.

use segue_agents::known;
use segue_core::{
    Aftermath, Decision, DecisionKind, Failure, FailureClass, Leg, LegEnd, Standing, TurnState,
    is_full, is_policy_stop,
};
use segue_store::Finish;

use super::{Outcome, Run};
use crate::error::told;
use crate::{EngineError, TurnEvent, TurnReport};

impl Run<'_> {
    /// Closes the record and settles the figures, in one transaction.
    pub(super) async fn settle(mut self, outcome: Outcome) -> Result<TurnReport, EngineError> {
        let now = self.now();
        // One that ended while it waited ended there: what was made elsewhere meanwhile comes after it.
        let at = self.course.waits_since.unwrap_or(now);
        let state = outcome.state;
        let failure = outcome
            .failure
            .map(|failure| with_next_step(failure, &self.report));
        let last = self.recorder.close(state == TurnState::Finished, at);
        let last_number = last.last().map(|(number, _)| *number);
        let finish = Finish {
            state,
            messages: last,
            usage: self.report.usage,
            failure: failure.clone(),
            at,
        };
        let mark = match self.course.waits_since {
            Some(_) => None,
            None => self.native_end().await,
        };
        let Aftermath { standing, rotates } = self.aftermath(state, failure.as_ref());
        let end = self.end_of_leg(failure.as_ref(), rotates);
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let finishing = async {
            let marking = async {
                match &mark {
                    Some(mark) => store.mark_end(lease, self.turn, mark).await,
                    None => Ok(()),
                }
            };
            // One commit for both.
            let (finished, marked) =
                tokio::join!(store.finish_turn(lease, self.turn, finish), marking);
            finished.and(marked)
        };
        let changed = standing != self.course.standing;
        if !changed && end.is_none() && failure.is_none() && !self.course.rested {
            // Nothing else is to be written, so that the session can be given back by the same commit.
            tokio::join!(finishing, self.note_tokens(), self.hold.release()).0?;
        } else {
            let provider = &self.report.provider;
            let noting = async {
                if changed {
                    store.set_standing(lease, provider, standing).await
                } else {
                    Ok(())
                }
            };
            let (finished, noted) = tokio::join!(finishing, noting);
            finished.and(noted)?;
            self.note_tokens().await;
            if self.course.rested && state == TurnState::Finished {
                store.wake(&self.report.provider).await?;
            }
        }
        if let Some((why, text)) = end {
            self.end_leg(why, text).await?;
        }
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

    /// The native record that the turn ended at.
    async fn native_end(&self) -> Option<String> {
        self.leg?;
        let (provider, native_id) = (&self.report.provider, self.report.native_id.as_ref()?);
        self.engine.end_of(provider, native_id).await
    }

    /// How the session fares with the agent from now on.
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

    /// Whether the leg is over with this turn, why, and how that is told.
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
            let text = if self.course.standing.rotations == 0 {
                format!("{limit} failure{times} in a row: the native session is over; {next}")
            } else {
                format!(
                    "{limit} failure{times} in a row once more: the native session is over, and no other is opened by itself"
                )
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
            "the native session holds {size} tokens, more than {limit}, and is over; {next}"
        );
        Some((LegEnd::Full, text))
    }

    /// Ends the leg of the turn; of one that could not even be opened, the one that was to go on.
    async fn end_leg(&mut self, why: LegEnd, text: String) -> Result<(), EngineError> {
        let at = self.now();
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        let legs = store.legs(&self.session.id).await?;
        let of_the_agent = |leg: &&Leg| leg.ended.is_none() && leg.provider == self.report.provider;
        if let Some(leg) = legs.last().filter(of_the_agent) {
            store.end_leg(lease, leg.id, why, at).await?;
        }
        Ok(self
            .decide(Decision::new(DecisionKind::Rotated, text))
            .await?)
    }
}

fn with_next_step(failure: Failure, report: &TurnReport) -> Failure {
    if failure.hint.is_some() {
        return failure;
    }
    let id = &report.session;
    let go_on = format!("segue chat --resume {id} \"…\"");
    let provider = report.provider.as_str();
    let hint = match failure.class {
        FailureClass::NotStarted => "`segue doctor` shows which agents can be started".to_owned(),
        FailureClass::TimedOut => {
            format!(
                "give it longer: segue chat --resume {id} --open-timeout 120 --timeout 3600 \"…\""
            )
        }
        FailureClass::Quota | FailureClass::RateLimited => {
            let when = match failure.retry_at {
                Some(at) => format!("it can be tried again at {}", told(at)),
                None => "wait a while".to_owned(),
            };
            format!("{when}: {go_on}; or go on with another agent by -p NAME")
        }
        FailureClass::ContextTooLong => {
            format!("the next prompt opens a new native session with the newest messages: {go_on}")
        }
        FailureClass::NotLoggedIn => {
            format!(
                "{}, then go on with: {go_on}",
                known::how_to_log_in(provider)
            )
        }
        FailureClass::UntrustedFolder => {
            format!(
                "{}, then go on with: {go_on}",
                known::how_to_trust(provider)
            )
        }
        FailureClass::SessionUnknown => {
            format!("without --strict a new native session is told what was said: {go_on}")
        }
        FailureClass::Crashed | FailureClass::Agent | FailureClass::NotUnderstood => {
            format!("what was said is kept; go on with: {go_on}")
        }
    };
    failure.with_hint(hint)
}
