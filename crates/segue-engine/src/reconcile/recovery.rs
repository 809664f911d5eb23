//! Recovery of interrupted turns.

use segue_core::session::{
    Decision, Failure, FailureClass, InterruptedPrompt, Message, SessionSnapshot, Turn, TurnState,
    Usage, close_open_calls,
};
use segue_store::{Lease, TurnEnding};

use crate::AccessError;
use crate::reconcile::Reconciler;

impl Reconciler {
    /// Closes the last turn of a session if its process ended during the turn.
    ///
    /// The caller has the lease, so no other process is writing, and a turn that is still marked as running was
    /// interrupted. The messages on record stay, and those that are incomplete stay marked so. Tool calls without a
    /// result get one that states this. The prompt is not sent again, because it is unknown whether the agent received
    /// it.
    pub(super) async fn recover_interrupted_turn(
        &self,
        snapshot: &SessionSnapshot,
        lease: &Lease,
    ) -> Result<Option<Decision>, AccessError> {
        let Some(turn) = snapshot.recent_turns.last() else {
            return Ok(None);
        };
        let ending = self.build_ending_from_record(turn).await?;
        let store = &self.context.store;
        store.finish_turn(lease, turn.id, ending).await?;
        Ok(Some(interruption_decision(turn)))
    }

    /// Builds the end of an interrupted turn from the messages on record.
    pub(crate) async fn build_ending_from_record(
        &self,
        turn: &Turn,
    ) -> Result<TurnEnding, AccessError> {
        let at = self.context.now();
        let messages = self.context.store.messages(turn.id).await?;
        // Messages are numbered from 0 without gaps, so their indexes are their numbers.
        let recorded_count = messages.len();
        let missing_results = close_open_calls(&messages, at);
        let changed_messages: Vec<(u32, Message)> = (0..)
            .zip(messages.into_iter().chain(missing_results))
            .enumerate()
            .filter(|(index, (_, message))| *index >= recorded_count || !message.complete)
            .map(|(_, numbered)| numbered)
            .collect();
        Ok(TurnEnding {
            state: TurnState::Interrupted,
            messages: changed_messages,
            usage: Usage::default(),
            failure: Some(interruption_failure()),
            at,
        })
    }
}

/// Returns the failure that is recorded for an interrupted turn.
pub(crate) fn interruption_failure() -> Failure {
    Failure::new(FailureClass::Crashed, "segue exited before the turn ended")
}

/// Returns the decision that reports an interrupted turn, based on segue's record alone.
pub(crate) fn interruption_decision(turn: &Turn) -> Decision {
    Decision::TurnInterrupted {
        turn: turn.number,
        prompt: if turn.sent {
            InterruptedPrompt::PossiblySent
        } else {
            InterruptedPrompt::Unsent
        },
    }
}
