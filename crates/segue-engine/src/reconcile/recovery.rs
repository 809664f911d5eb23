//! Recovery of interrupted turns.

use segue_catalog::NativeTurn;
use segue_core::reconcile::merge_interrupted_turn;
use segue_core::session::{
    Decision, Failure, FailureClass, InterruptedPrompt, SessionSnapshot, Turn, TurnState,
    close_open_calls,
};
use segue_store::{Lease, SettleEffects, TurnEnding};

use crate::AccessError;
use crate::reconcile::Reconciler;
use crate::turn::message_chunks::merge_chunks;

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
        let ending = self.build_ending(turn, None).await?;
        let store = &self.context.store;
        store
            .settle_turn(lease, turn.id, ending, SettleEffects::default())
            .await?;
        Ok(Some(interruption_decision(turn)))
    }

    /// Builds the end of an interrupted turn from the messages on record, completed from the native record if there is
    /// one.
    pub(super) async fn build_ending(
        &self,
        turn: &Turn,
        native: Option<&NativeTurn>,
    ) -> Result<TurnEnding, AccessError> {
        let now = self.context.now();
        let recorded = self.context.store.messages(turn.id).await?;
        let mut messages = recorded.clone();
        if let Some(native) = native {
            let merged = merge_chunks(recorded.clone());
            // If the answer is stored in several chunks because of its length, the recorded messages stay as they are.
            if merged.len() == recorded.len() {
                messages = merge_interrupted_turn(merged, native.messages.clone());
            }
        }
        messages.extend(close_open_calls(&messages, now));
        // Messages are numbered from 0 without gaps, so their indexes are their numbers.
        let mut recorded = recorded.into_iter();
        let changed = (0..)
            .zip(messages)
            .filter(|(_, message)| recorded.next().as_ref() != Some(message) || !message.complete);
        let is_finished = native.is_some_and(|native| native.state == TurnState::Finished);
        let failure = Failure::new(FailureClass::Crashed, "segue exited before the turn ended");
        Ok(TurnEnding {
            state: if is_finished {
                TurnState::Finished
            } else {
                TurnState::Interrupted
            },
            messages: changed.collect(),
            usage: native.map(|native| native.usage).unwrap_or_default(),
            failure: (!is_finished).then_some(failure),
            at: native.map_or(now, |native| {
                native.ended_at.unwrap_or(now).max(turn.started_at)
            }),
        })
    }
}

/// Returns the decision that reports an interrupted turn, based on segue's record alone.
pub(super) fn interruption_decision(turn: &Turn) -> Decision {
    Decision::TurnInterrupted {
        turn: turn.number,
        prompt: if turn.sent {
            InterruptedPrompt::PossiblySent
        } else {
            InterruptedPrompt::Unsent
        },
    }
}
