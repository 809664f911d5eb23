//! Reconciliation: matches the turns of a native session with the recorded turns, and completes an interrupted turn
//! from the native record.

use jiff::{SignedDuration, Timestamp};

use crate::reconcile::prompt_match::is_same_prompt;
use crate::session::{Message, Part, Role};

/// A recorded turn, reduced to what is compared with a native turn.
#[derive(Debug, Clone, Copy)]
pub struct RecordedPrompt<'a> {
    /// Time at which the prompt was recorded.
    pub started_at: Timestamp,
    /// Time at which the turn ended. `None` if it was interrupted and is not closed yet.
    pub ended_at: Option<Timestamp>,
    /// Whether the prompt was ever sent. If not, no agent can have answered it.
    pub sent: bool,
    /// Prompt as the user typed it.
    pub prompt: &'a str,
}

/// A turn of a native session.
#[derive(Debug, Clone, Copy)]
pub struct NativePrompt<'a> {
    /// Time at which the turn began. `None` if the agent does not record it.
    pub started_at: Option<Timestamp>,
    /// Prompt as the agent received it.
    pub prompt: &'a str,
}

/// Tolerance for comparing times, because agents record milliseconds and segue records microseconds.
const TIMESTAMP_TOLERANCE: SignedDuration = SignedDuration::from_millis(2);

/// Returns, for each native turn, the index in `recorded_prompts` of the recorded turn that it belongs to. `None` if
/// the turn was made outside segue.
///
/// While a recorded turn runs, no other process uses the native session, so a native turn that began in that time
/// belongs to it. An interrupted turn has no known end, so its prompt decides; the native turns after it were made
/// outside segue.
#[must_use]
pub fn match_native_turns(
    recorded_prompts: &[RecordedPrompt<'_>],
    native_prompts: &[NativePrompt<'_>],
) -> Vec<Option<usize>> {
    let mut next_index = 0;
    let mut is_open_matched = false;
    native_prompts
        .iter()
        .map(|native| {
            let matching_index = |(index, turn): (usize, &RecordedPrompt<'_>)| {
                let is_match = match (native.started_at, turn.ended_at) {
                    (Some(at), Some(end)) => {
                        turn.started_at - TIMESTAMP_TOLERANCE <= at && at <= end
                    }
                    (Some(at), None) => {
                        !is_open_matched
                            && turn.started_at - TIMESTAMP_TOLERANCE <= at
                            && is_same_prompt(native.prompt, turn.prompt)
                    }
                    (None, _) => index >= next_index && is_same_prompt(native.prompt, turn.prompt),
                };
                (turn.sent && is_match).then_some(index)
            };
            let mut candidates = recorded_prompts
                .iter()
                .enumerate()
                .filter_map(matching_index);
            // Several turns can match. By time, the last turn that had begun is right; without a time, the first turn
            // after the previous match.
            let matched = match native.started_at {
                Some(_) => candidates.next_back(),
                None => candidates.next(),
            }?;
            is_open_matched |= recorded_prompts
                .get(matched)
                .is_some_and(|turn| turn.ended_at.is_none());
            next_index = matched + 1;
            Some(matched)
        })
        .collect()
}

/// Change of a native session since the last known record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeChange {
    /// The native session continues after that record.
    Grown,
    /// The native session's own record states that it was rewound to a point before that record.
    Rewound,
    /// The record no longer exists.
    Lost,
}

/// Usability of a native session for the session that runs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeVerdict {
    /// The native session contains all recorded turns.
    Complete,
    /// The native session was rewound to this recorded turn and continues after it.
    RewoundTo(usize),
    /// Recorded turns are missing, and no rewind explains it.
    Truncated,
}

/// Decides whether a native session still contains the recorded turns.
///
/// `finished` has one entry for each recorded turn up to the last one sent to the native session, `true` if the turn
/// finished. `ended` has one entry for each native turn, `true` if it ended. `matches` is the result of
/// [`match_native_turns`] for the native turns. A recorded turn that failed may be missing from the native session.
#[must_use]
pub fn judge_native_session(
    change: NativeChange,
    finished: &[bool],
    ended: &[bool],
    matches: &[Option<usize>],
) -> NativeVerdict {
    if change == NativeChange::Grown {
        return NativeVerdict::Complete;
    }
    let last_match = matches.iter().flatten().next_back().copied();
    let later_turns = finished
        .iter()
        .skip(last_match.map_or(0, |index| index + 1));
    let has_missing = later_turns.copied().any(|finished| finished);
    let ends_with_recorded = matches.last().is_some_and(Option::is_some);
    let is_truncated = ends_with_recorded
        && ended.last() == Some(&false)
        && last_match.is_some_and(|index| finished.get(index) == Some(&true));
    match last_match {
        _ if !has_missing && !is_truncated => NativeVerdict::Complete,
        // A user who rewound the native session also sent another prompt afterwards; a truncated file just ends.
        Some(index)
            if !is_truncated && (change == NativeChange::Rewound || !ends_with_recorded) =>
        {
            NativeVerdict::RewoundTo(index)
        }
        Some(_) | None => NativeVerdict::Truncated,
    }
}

/// Returns the messages of an interrupted turn: the recorded messages, prompt first, completed from the native record.
///
/// A complete recorded message stays as it was recorded. A partial recorded message is replaced by the native message.
/// A message that was not recorded is inserted at its position in the native record.
#[must_use]
pub fn merge_interrupted_turn(recorded: Vec<Message>, native: Vec<Message>) -> Vec<Message> {
    let mut recorded = recorded.into_iter();
    let mut merged: Vec<Message> = recorded.next().into_iter().collect();
    let mut remaining: Vec<Message> = recorded.collect();
    let is_prompt = |(index, message): &(usize, Message)| *index == 0 && message.role == Role::User;
    let native_messages = native.into_iter().enumerate();
    for (_, message) in native_messages.filter(|numbered| !is_prompt(numbered)) {
        match remaining
            .iter()
            .position(|candidate| is_same_message(candidate, &message))
        {
            Some(position) => {
                let tail = remaining.split_off(position + 1);
                let recorded_message = remaining.pop();
                merged.append(&mut remaining);
                remaining = tail;
                merged.extend(
                    recorded_message
                        .filter(|recorded_message| recorded_message.complete)
                        .or(Some(message)),
                );
            }
            None => merged.push(message),
        }
    }
    merged.append(&mut remaining);
    merged
}

/// Returns `true` if a recorded message is the given message of the native record, or its beginning.
fn is_same_message(recorded: &Message, native: &Message) -> bool {
    if recorded.role != native.role {
        return false;
    }
    let (Some(recorded_part), Some(native_part)) = (recorded.parts.first(), native.parts.first())
    else {
        return false;
    };
    match (recorded_part, native_part) {
        (Part::Text(recorded_text), Part::Text(native_text))
        | (Part::Thought(recorded_text), Part::Thought(native_text)) => {
            let (recorded_text, native_text) = (recorded_text.trim(), native_text.trim());
            recorded_text == native_text
                || (!recorded.complete && native_text.starts_with(recorded_text))
        }
        (
            Part::FunctionCall {
                id: recorded_id, ..
            },
            Part::FunctionCall { id: native_id, .. },
        )
        | (
            Part::FunctionResponse {
                call_id: recorded_id,
                ..
            },
            Part::FunctionResponse {
                call_id: native_id, ..
            },
        ) => recorded_id == native_id,
        (recorded_part, native_part) => recorded_part == native_part,
    }
}

mod native_prefix;
mod prompt_match;
#[cfg(test)]
mod tests;

pub use native_prefix::native_prefix_len;
