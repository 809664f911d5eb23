//! The end of a turn: its record is closed, and a failure gets its next step.

use segue_agents::known;
use segue_core::{Decision, DecisionKind, Failure, FailureClass, LegEnd, TurnState};
use segue_store::Finish;

use super::{Outcome, Run};
use crate::{EngineError, TurnEvent, TurnReport};

impl Run<'_> {
    /// Closes the record and settles the figures, in one transaction.
    pub(super) async fn settle(mut self, outcome: Outcome) -> Result<TurnReport, EngineError> {
        let at = self.now();
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
        let mark = self.native_end().await;
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
        if failure.is_some() {
            finishing.await?;
            self.note_tokens().await;
            self.end_full_leg(failure.as_ref()).await?;
        } else {
            // Nothing else is to be written, so that the session can be given back by the same commit.
            tokio::join!(finishing, self.note_tokens(), self.hold.release()).0?;
        }
        self.saved(last_number).await?;
        self.emit(TurnEvent::Ended { state }).await?;
        self.report.text = self.recorder.text.take();
        self.report.state = state;
        self.report.failure = failure;
        Ok(self.report)
    }

    /// The native record that the turn ended at.
    async fn native_end(&self) -> Option<String> {
        self.leg?;
        let (provider, native_id) = (&self.report.provider, self.report.native_id.as_ref()?);
        self.engine.end_of(provider, native_id).await
    }

    /// A native session that has no room left can't go on; the next prompt opens another one.
    async fn end_full_leg(&mut self, failure: Option<&Failure>) -> Result<(), EngineError> {
        let full = failure.is_some_and(|failure| failure.class == FailureClass::ContextTooLong);
        let Some(leg) = self.leg.filter(|_| full) else {
            return Ok(());
        };
        let at = self.now();
        let (store, lease) = (&self.engine.store, &self.hold.lease);
        store.end_leg(lease, leg, LegEnd::Full, at).await?;
        let text = "the native session has no room left and is over; the next prompt opens a new one, which is told the newest messages";
        Ok(self
            .decide(Decision::new(DecisionKind::Opened, text))
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
                Some(at) => format!(
                    "it can be tried again at {}",
                    at.strftime("%Y-%m-%d %H:%M:%S UTC")
                ),
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
