//! Recovery of interrupted turns.

use segue_core::session::{
    Decision, DecisionKind, Failure, FailureClass, Message, Session, Turn, TurnState, Usage,
    close_open_calls,
};
use segue_store::{Finish, Lease};

use crate::{Engine, EngineError};

impl Engine {
    /// Closes the last turn of a session if its process ended during the turn.
    ///
    /// The caller has the lease, so no other process is writing, and a turn that is still marked as running was
    /// interrupted. The messages on record stay, and those that are incomplete stay marked so. Tool calls without a
    /// result get one that states this. The prompt is not sent again, because it is unknown whether the agent received
    /// it.
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

    /// Builds the end of an interrupted turn from the messages on record.
    pub(crate) async fn closing(&self, turn: &Turn) -> Result<Finish, EngineError> {
        let at = (self.world.now)();
        let messages = self.store.messages(turn.id).await?;
        // Messages are numbered from 0 without gaps, so their indexes are their numbers.
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

/// Returns the failure that is recorded for an interrupted turn.
pub(crate) fn went_away() -> Failure {
    Failure::new(
        FailureClass::Crashed,
        "segue went away before the turn was over",
    )
}

/// Returns the decision that reports an interrupted turn, based on segue's record alone.
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
