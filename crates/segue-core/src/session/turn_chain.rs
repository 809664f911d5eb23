//! Decisions over the chain of turns that leads to a session's head.

use jiff::Timestamp;

use crate::json::Json;
use crate::session::{Leg, LegEnd, Message, Part, Role, Turn, TurnState};

/// Returns `true` if `leg` can receive the next prompt of a session whose turns are `chain` (oldest first).
///
/// A native session contains the turns up to its tip. It can be resumed if its tip is the last turn of `chain` that was
/// sent, because later turns that were recorded but never sent change nothing for the agent.
#[must_use]
pub fn can_resume_leg(leg: &Leg, chain: &[Turn]) -> bool {
    leg.ended.is_none() && is_tip_last_sent(leg, chain)
}

fn is_tip_last_sent(leg: &Leg, chain: &[Turn]) -> bool {
    let last_sent = chain.iter().rev().find(|turn| turn.sent);
    leg.tip == last_sent.map(|turn| turn.id)
}

/// Returns the turns of a chain that were added to the record without an agent, and that the native session of a
/// resumed leg may not contain.
///
/// These are the added turns since the last prompt from segue that was answered, because that prompt included all added
/// turns before it. A failed prompt does not count, because the agent may never have read it. A turn made outside segue
/// does not count either, because its prompt included no added turns. In doubt a turn is sent twice rather than never.
pub fn unsent_added_turns(chain: &[Turn]) -> impl Iterator<Item = &Turn> {
    let is_answered =
        |turn: &Turn| turn.sent && !turn.made_outside && turn.state == TurnState::Finished;
    let start = chain.iter().rposition(is_answered).map_or(0, |at| at + 1);
    chain.iter().skip(start).filter(|turn| turn.is_added())
}

/// Returns `true` if an ended leg can be reopened for the next prompt: the head is back at its tip, and its native
/// session was intact when the leg ended.
#[must_use]
pub fn can_reopen_leg(leg: &Leg, chain: &[Turn]) -> bool {
    leg.ended.is_some() && can_branch_leg(leg) && is_tip_last_sent(leg, chain)
}

/// Returns `true` if another native session may be forked from the native session of `leg`: the leg is open, or it
/// ended although its native session was intact. A lost or full native session is not a starting point.
#[must_use]
pub fn can_branch_leg(leg: &Leg) -> bool {
    leg.native_id.is_some()
        && leg.tip.is_some()
        && leg.ended.is_none_or(|(_, reason)| is_native_intact(reason))
}

/// Returns `true` if the reason for the end of a leg is unrelated to its native session.
fn is_native_intact(reason: LegEnd) -> bool {
    matches!(
        reason,
        LegEnd::Unavailable | LegEnd::HeadMoved | LegEnd::Handoff
    )
}

/// Returns the messages that close the open tool calls of an interrupted turn, so that every call has a response.
#[must_use]
pub fn close_open_calls(messages: &[Message], at: Timestamp) -> Vec<Message> {
    let mut open: Vec<(&str, &str)> = Vec::new();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match part {
            Part::FunctionCall { id, name, .. } => open.push((id, name)),
            Part::FunctionResponse { call_id, .. } => open.retain(|(id, _)| id != call_id),
            Part::Text(_) | Part::Thought(_) | Part::InlineData(_) | Part::Unknown(_) => {}
        }
    }
    open.into_iter()
        .map(|(id, name)| {
            let response = Part::FunctionResponse {
                call_id: id.to_owned(),
                name: name.to_owned(),
                response: Json::from(serde_json::json!({
                    "interrupted": true,
                    "output": "The turn was interrupted before this call ended; whether it took effect is unknown."
                })),
                is_error: true,
            };
            Message::new(Role::Tool, vec![response], at)
        })
        .collect()
}

/// Error of a turn number that is not a valid target of a revert or a fork.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnNumberError {
    /// The session has no ended turn to start from.
    #[error("the session has no turn that has ended yet")]
    NoTurns,
    /// The number is not between 1 and the number of turns.
    #[error("turn {requested} does not exist; turns are numbered from 1 to {turns}")]
    NoSuchTurn {
        /// Requested turn number.
        requested: i64,
        /// Number of turns in the session.
        turns: u32,
    },
    /// The session is already at the requested turn.
    #[error("already at turn {turns}, no changes made")]
    AlreadyAtTurn {
        /// Number of the session's last turn.
        turns: u32,
    },
}

/// Checks a revert of a session with `turns` turns to turn `requested`, and returns the number of turns that it drops.
pub fn plan_revert(turns: u32, requested: i64) -> Result<u32, TurnNumberError> {
    if turns == 0 {
        return Err(TurnNumberError::NoTurns);
    }
    match u32::try_from(requested) {
        Ok(n) if n == turns => Err(TurnNumberError::AlreadyAtTurn { turns }),
        Ok(n) if n >= 1 && n < turns => Ok(turns - n),
        Ok(_) | Err(_) => Err(TurnNumberError::NoSuchTurn { requested, turns }),
    }
}

/// Checks a fork of a session with `turns` ended turns, and returns the number of the last shared turn: `requested`, or
/// the last turn if `requested` is `None`.
pub fn plan_fork(turns: u32, requested: Option<i64>) -> Result<u32, TurnNumberError> {
    if turns == 0 {
        return Err(TurnNumberError::NoTurns);
    }
    let Some(requested) = requested else {
        return Ok(turns);
    };
    let n = u32::try_from(requested).ok();
    n.filter(|n| (1..=turns).contains(n))
        .ok_or(TurnNumberError::NoSuchTurn { requested, turns })
}

#[cfg(test)]
mod tests;
