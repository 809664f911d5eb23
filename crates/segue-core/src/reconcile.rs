//! Reconciliation: matches the turns of a native session with the recorded turns, and completes an interrupted turn
//! from the native record.

use jiff::{SignedDuration, Timestamp};

use crate::reconcile::prompt_match::is_same_prompt;
use crate::session::{Message, Part, Role};

/// A recorded turn, reduced to what is compared with a native turn.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
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
pub struct Theirs<'a> {
    /// Time at which the turn began. `None` if the agent does not record it.
    pub started_at: Option<Timestamp>,
    /// Prompt as the agent received it.
    pub prompt: &'a str,
}

/// Tolerance for comparing times, because agents record milliseconds and segue records microseconds.
const ROUNDED: SignedDuration = SignedDuration::from_millis(2);

/// Returns, for each native turn, the index in `ours` of the recorded turn that it belongs to. `None` if the turn was
/// made outside segue.
///
/// While a recorded turn runs, no other process uses the native session, so a native turn that began in that time
/// belongs to it. An interrupted turn has no known end, so its prompt decides; the native turns after it were made
/// outside segue.
#[must_use]
pub fn whose(ours: &[Ours<'_>], theirs: &[Theirs<'_>]) -> Vec<Option<usize>> {
    let mut next = 0;
    let mut open_is_found = false;
    theirs
        .iter()
        .map(|native| {
            let fits = |(index, turn): (usize, &Ours<'_>)| {
                let is_it = match (native.started_at, turn.ended_at) {
                    (Some(at), Some(end)) => turn.started_at - ROUNDED <= at && at <= end,
                    (Some(at), None) => {
                        !open_is_found
                            && turn.started_at - ROUNDED <= at
                            && is_same_prompt(native.prompt, turn.prompt)
                    }
                    (None, _) => index >= next && is_same_prompt(native.prompt, turn.prompt),
                };
                (turn.sent && is_it).then_some(index)
            };
            let mut fitting = ours.iter().enumerate().filter_map(fits);
            // Several turns can match. By time, the last turn that had begun is right; without a time, the first turn
            // after the previous match.
            let found = match native.started_at {
                Some(_) => fitting.next_back(),
                None => fitting.next(),
            }?;
            open_is_found |= ours.get(found).is_some_and(|turn| turn.ended_at.is_none());
            next = found + 1;
            Some(found)
        })
        .collect()
}

/// Change of a native session since the last known record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The native session continues after that record.
    Grown,
    /// The native session's own record states that it was rewound to a point before that record.
    Rewound,
    /// The record no longer exists.
    Lost,
}

/// Usability of a native session for the session that runs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The native session contains all recorded turns.
    Whole,
    /// The native session was rewound to this recorded turn and continues after it.
    BackTo(usize),
    /// Recorded turns are missing, and no rewind explains it.
    Cut,
}

/// Decides whether a native session still contains the recorded turns.
///
/// `finished` has one entry for each recorded turn up to the last one sent to the native session, `true` if the turn
/// finished. `ended` has one entry for each native turn, `true` if it ended. `whose` is the result of [`whose`] for the
/// native turns. A recorded turn that failed may be missing from the native session.
#[must_use]
pub fn verdict(
    changed: Changed,
    finished: &[bool],
    ended: &[bool],
    whose: &[Option<usize>],
) -> Verdict {
    if changed == Changed::Grown {
        return Verdict::Whole;
    }
    let kept = whose.iter().flatten().next_back().copied();
    let after = finished.iter().skip(kept.map_or(0, |kept| kept + 1));
    let missing = after.copied().any(|finished| finished);
    let is_ours = whose.last().is_some_and(Option::is_some);
    let torn = is_ours
        && ended.last() == Some(&false)
        && kept.is_some_and(|kept| finished.get(kept) == Some(&true));
    match kept {
        _ if !missing && !torn => Verdict::Whole,
        // A user who rewound the native session also sent another prompt afterwards; a truncated file just ends.
        Some(kept) if !torn && (changed == Changed::Rewound || !is_ours) => Verdict::BackTo(kept),
        Some(_) | None => Verdict::Cut,
    }
}

/// Returns the messages of an interrupted turn: the recorded messages, prompt first, completed from the native record.
///
/// A complete recorded message stays as it was recorded. A partial recorded message is replaced by the native message.
/// A message that was not recorded is inserted at its position in the native record.
#[must_use]
pub fn completed(recorded: Vec<Message>, native: Vec<Message>) -> Vec<Message> {
    let mut recorded = recorded.into_iter();
    let mut whole: Vec<Message> = recorded.next().into_iter().collect();
    let mut heard: Vec<Message> = recorded.collect();
    let is_prompt = |(index, message): &(usize, Message)| *index == 0 && message.role == Role::User;
    let added = native.into_iter().enumerate();
    for (_, message) in added.filter(|numbered| !is_prompt(numbered)) {
        match heard.iter().position(|known| is_same(known, &message)) {
            Some(at) => {
                let rest = heard.split_off(at + 1);
                let known = heard.pop();
                whole.append(&mut heard);
                heard = rest;
                whole.extend(known.filter(|known| known.complete).or(Some(message)));
            }
            None => whole.push(message),
        }
    }
    whole.append(&mut heard);
    whole
}

/// Returns `true` if a recorded message is the given message of the native record, or its beginning.
fn is_same(heard: &Message, native: &Message) -> bool {
    if heard.role != native.role {
        return false;
    }
    let (Some(one), Some(other)) = (heard.parts.first(), native.parts.first()) else {
        return false;
    };
    match (one, other) {
        (Part::Text(one), Part::Text(other)) | (Part::Thought(one), Part::Thought(other)) => {
            let (one, other) = (one.trim(), other.trim());
            one == other || (!heard.complete && other.starts_with(one))
        }
        (Part::FunctionCall { id: one, .. }, Part::FunctionCall { id: other, .. })
        | (
            Part::FunctionResponse { call_id: one, .. },
            Part::FunctionResponse { call_id: other, .. },
        ) => one == other,
        (one, other) => one == other,
    }
}

mod native_prefix;
mod prompt_match;
#[cfg(test)]
mod tests;

pub use native_prefix::native_turns;
