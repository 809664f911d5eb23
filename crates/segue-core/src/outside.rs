//! Which turns of a native session are ours, and what its record adds to one that was cut off.

use jiff::{SignedDuration, Timestamp};

use crate::same_prompt::is_same_prompt;
use crate::{Message, Part, Role};

/// A turn on our record, as far as it tells whether a native one is the same.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
    /// When its prompt was written down.
    pub started_at: Timestamp,
    /// When it ended; none if it was cut off and is not closed yet.
    pub ended_at: Option<Timestamp>,
    /// Whether its prompt was ever sent; if not, no agent can have answered it.
    pub sent: bool,
    /// Its prompt, as it was typed.
    pub prompt: &'a str,
}

/// A turn of a native session.
#[derive(Debug, Clone, Copy)]
pub struct Theirs<'a> {
    /// When it began, where the agent says so.
    pub started_at: Option<Timestamp>,
    /// Its prompt, as the agent was sent it.
    pub prompt: &'a str,
}

/// Agents note the millisecond, we the microsecond.
const ROUNDED: SignedDuration = SignedDuration::from_millis(2);

/// Tells of each native turn which of ours it is, by its place in that list; none if it was made elsewhere.
///
/// While a turn of ours runs nobody else is at work in the native session, so one that began meanwhile is part of it.
/// One that was cut off has no end that is known; there the prompt decides, and what follows was made elsewhere.
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
            // The last that had begun by then; without a time, the first that comes next.
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

/// What has become of a native session since the record that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It goes on from there.
    Grown,
    /// It says itself that it went back to before that.
    Rewound,
    /// The record is not there any more.
    Lost,
}

/// What a native session is worth to the session that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has all that was ours.
    Whole,
    /// It went back to this turn of ours, and goes on from there.
    BackTo(usize),
    /// It lacks what was ours, and nobody said that it should.
    Cut,
}

/// Judges a native session: `finished` tells which of our turns, up to the last one it was sent, came to an end;
/// `ended` tells the same of its own turns, and `whose` whose they are. A turn that failed may well be missing.
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
        // Whoever went back there also asked something else; a file that was cut just ends.
        Some(kept) if !torn && (changed == Changed::Rewound || !is_ours) => Verdict::BackTo(kept),
        Some(_) | None => Verdict::Cut,
    }
}

/// What was said in a turn that was cut off: what we have of it, the prompt first, and all that the native record adds.
///
/// What we heard stays as it was told; what we heard by half is there whole; what we did not hear comes where the
/// native record has it.
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

/// Whether what we heard is this message of the native record, or its beginning.
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

#[cfg(test)]
mod tests;
