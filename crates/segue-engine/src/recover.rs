//! Closing a turn that was cut off.

use segue_core::{
    Decision, DecisionKind, Failure, FailureClass, Message, Session, Turn, TurnState, Usage,
    close_open_calls,
};
use segue_store::{Finish, Lease};

use crate::{Engine, EngineError};

impl Engine {
    /// Closes the last turn of a session if its process went away in the middle of it.
    ///
    /// Whoever holds the lease knows that nobody else is at work, so a turn that still runs was cut off. What
    /// was said up to then stays, marked as incomplete where it is; tool calls without an answer get one that
    /// says so. The prompt is not sent again: whether it arrived is not ours to guess.
    pub(crate) async fn recover(
        &self,
        session: &Session,
        lease: &Lease,
    ) -> Result<Option<Decision>, EngineError> {
        if session.head_state != Some(TurnState::Running) {
            return Ok(None);
        }
        let turns = self.store.turns(&session.id).await?;
        let Some(turn) = turns.last() else {
            return Ok(None);
        };
        let finish = self.closing(turn).await?;
        self.store.finish_turn(lease, turn.id, finish).await?;
        Ok(Some(interrupted(turn)))
    }

    /// The end of a turn that was cut off, by what we have of it.
    pub(crate) async fn closing(&self, turn: &Turn) -> Result<Finish, EngineError> {
        let at = (self.world.now)();
        let messages = self.store.messages(turn.id).await?;
        // Messages are numbered from 0 without a gap, so their places are their numbers.
        let on_record = messages.len();
        let closing = close_open_calls(&messages, at);
        let written: Vec<(u32, Message)> = (0..)
            .zip(messages.into_iter().chain(closing))
            .enumerate()
            .filter(|(place, (_, message))| *place >= on_record || !message.complete)
            .map(|(_, numbered)| numbered)
            .collect();
        Ok(Finish {
            state: TurnState::Interrupted,
            messages: written,
            usage: Usage::default(),
            failure: Some(went_away()),
            at,
        })
    }
}

/// Why a turn that was cut off did not end.
pub(crate) fn went_away() -> Failure {
    Failure::new(
        FailureClass::Crashed,
        "segue went away before the turn was over",
    )
}

/// What is said of a turn that was cut off, where only we can tell of it.
pub(crate) fn interrupted(turn: &Turn) -> Decision {
    let sent = if turn.sent {
        "may have reached"
    } else {
        "never reached"
    };
    let text = format!(
        "turn {} was interrupted: its prompt {sent} the agent and is not sent again",
        turn.n
    );
    Decision::new(DecisionKind::Recovered, text)
}
