//! Decisions over the chain of turns that leads to a session's head.

use jiff::Timestamp;

use crate::{Json, Leg, LegEnd, Message, Part, Role, Turn, TurnState};

/// Whether `leg` can carry the next prompt of a session whose turns are `chain` (oldest first).
///
/// A native session knows the turns up to its tip. It can go on when that is the head; turns after the tip
/// that were written down but never sent make no difference to it.
#[must_use]
pub fn can_go_on(leg: &Leg, chain: &[Turn]) -> bool {
    if leg.ended.is_some() {
        return false;
    }
    let last_sent = chain.iter().rev().find(|turn| turn.sent);
    leg.tip == last_sent.map(|turn| turn.id)
}

/// The turns of a chain that were added to the record without an agent, and that the native session of a leg that goes
/// on may not know of: those since the last prompt of ours that was answered, which told all that came before it.
///
/// One that failed may never have been read, and one that was made elsewhere told nothing; what follows an answer is
/// told rather twice than never.
pub fn untold(chain: &[Turn]) -> impl Iterator<Item = &Turn> {
    let answered = |turn: &Turn| turn.sent && !turn.outside && turn.state == TurnState::Finished;
    let from = chain.iter().rposition(answered).map_or(0, |at| at + 1);
    chain.iter().skip(from).filter(|turn| turn.is_added())
}

/// Whether a leg that ended can carry the next prompt after all: the head is back at its tip, and nothing was wrong with
/// its native session.
#[must_use]
pub fn can_be_taken_up(leg: &Leg, chain: &[Turn]) -> bool {
    let left = leg.ended.is_some_and(|(_, why)| was_left(why));
    let last_sent = chain.iter().rev().find(|turn| turn.sent);
    left && leg.native_id.is_some() && leg.tip.is_some() && leg.tip == last_sent.map(|turn| turn.id)
}

/// Whether another native session may branch off from that of a leg: it is in use, or was left with nothing wrong about
/// it. One that was lost or is full is no place to begin at.
#[must_use]
pub fn can_be_branched(leg: &Leg) -> bool {
    leg.native_id.is_some() && leg.tip.is_some() && leg.ended.is_none_or(|(_, why)| was_left(why))
}

/// Whether a leg ended for a reason that has nothing to do with its native session.
fn was_left(why: LegEnd) -> bool {
    matches!(why, LegEnd::NotNow | LegEnd::HeadMoved | LegEnd::Handoff)
}

/// The messages that close the tool calls an interrupted turn left open, so that no call is without an answer.
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

/// Why a number does not name a turn to go back to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnNumberError {
    /// There is nothing to go back from.
    #[error("the session has no turn that has ended yet")]
    NoTurns,
    /// Turns are counted from 1.
    #[error("turn {asked} does not exist; turns are numbered from 1 to {turns}")]
    NoSuchTurn {
        /// What was asked for.
        asked: i64,
        /// How many there are.
        turns: u32,
    },
    /// Nothing would change.
    #[error("already at turn {turns}, no changes made")]
    AlreadyThere {
        /// The turn the session is at.
        turns: u32,
    },
}

/// Checks a revert of a session with `turns` turns to turn `asked`; the answer is how many turns it drops.
pub fn plan_revert(turns: u32, asked: i64) -> Result<u32, TurnNumberError> {
    if turns == 0 {
        return Err(TurnNumberError::NoTurns);
    }
    match u32::try_from(asked) {
        Ok(n) if n == turns => Err(TurnNumberError::AlreadyThere { turns }),
        Ok(n) if n >= 1 && n < turns => Ok(turns - n),
        Ok(_) | Err(_) => Err(TurnNumberError::NoSuchTurn { asked, turns }),
    }
}

/// The number of the turn that a fork of a session with `turns` ended turns leaves at: the last one unless another is
/// asked for.
pub fn plan_fork(turns: u32, asked: Option<i64>) -> Result<u32, TurnNumberError> {
    if turns == 0 {
        return Err(TurnNumberError::NoTurns);
    }
    let Some(asked) = asked else {
        return Ok(turns);
    };
    let n = u32::try_from(asked).ok();
    n.filter(|n| (1..=turns).contains(n))
        .ok_or(TurnNumberError::NoSuchTurn { asked, turns })
}

#[cfg(test)]
mod tests;
