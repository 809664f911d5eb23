//! Whether a prompt is let through to an agent, and what becomes of one that was refused.

use jiff::{SignedDuration, Timestamp};

use super::{Policy, Rest, Setback, Standing, setback};
use crate::{Failure, FailureClass, ProviderId};

/// How long a prompt waits by itself; whoever would have to wait longer is told.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// What the caller wants where an agent is not to be asked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Haste {
    /// Wait, if it is not for long.
    #[default]
    Wait,
    /// Be told.
    Refuse,
    /// Ask all the same.
    Ignore,
}

/// Why an agent is not asked yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// It failed.
    Failed,
    /// What the user may spend is spent.
    Quota,
    /// Too much was asked.
    RateLimited,
}

impl Pause {
    fn of(class: FailureClass) -> Self {
        match class {
            FailureClass::RateLimited => Self::RateLimited,
            _ => Self::Quota,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "its last turn failed",
            Self::Quota => "the quota is spent",
            Self::RateLimited => "too much was asked",
        }
    }
}

/// Whether a prompt is let through to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// At once.
    Go,
    /// Then.
    Wait(Timestamp, Pause),
    /// To this one instead, since the agent rests until then.
    HandOver(ProviderId, Timestamp, Pause),
    /// Not before then.
    NotYet(Timestamp, Pause),
    /// Not at all: one leg after another ended by errors.
    Hopeless,
}

/// What is known when a prompt comes.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Now.
    pub now: Timestamp,
    /// How the session fares with the agent.
    pub standing: Standing,
    /// The agent's rest, if it rests.
    pub rest: Option<&'a Rest>,
    /// What the caller wants.
    pub haste: Haste,
    /// Whether the caller wants this prompt sent though one leg after another failed.
    pub anyway: bool,
    /// Who could go on instead, the preferred ones first.
    pub others: &'a [ProviderId],
}

/// Whether a prompt is let through.
///
/// A rest of at most [`LONGEST_WAIT`] is waited out, since a handover costs the native session; for a longer one
/// another agent goes on. Errors are no reason for a handover: they may be the prompt's.
#[must_use]
pub fn admit(arrival: &Arrival<'_>, policy: &Policy) -> Admission {
    let Arrival { now, standing, .. } = *arrival;
    if standing.is_hopeless() && !arrival.anyway {
        return Admission::Hopeless;
    }
    if arrival.haste == Haste::Ignore {
        return Admission::Go;
    }
    let rest = arrival.rest.filter(|rest| rest.until > now);
    let long = rest.filter(|rest| !is_short(rest.until, now) || arrival.haste == Haste::Refuse);
    if let (Some(rest), Some(other)) = (long, arrival.others.first()) {
        return Admission::HandOver(other.clone(), rest.until, Pause::of(rest.class));
    }
    let latest = now
        .checked_add(policy.longest_rest(&standing))
        .unwrap_or(Timestamp::MAX);
    // Whoever knows that it failed so often does not want to wait for it.
    let failed = standing.retry_at.filter(|_| !arrival.anyway);
    let failed = failed.map(|until| until.min(latest));
    let failed = failed.map(|until| (until, Pause::Failed));
    let rest = rest.map(|rest| (rest.until, Pause::of(rest.class)));
    let later = failed
        .into_iter()
        .chain(rest)
        .max_by_key(|(until, _)| *until);
    match later.filter(|(until, _)| *until > now) {
        None => Admission::Go,
        Some((until, why)) if arrival.haste == Haste::Wait && is_short(until, now) => {
            Admission::Wait(until, why)
        }
        Some((until, why)) => Admission::NotYet(until, why),
    }
}

fn is_short(until: Timestamp, now: Timestamp) -> bool {
    until.duration_since(now) <= LONGEST_WAIT
}

/// What is known when an agent has failed a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// Now.
    pub now: Timestamp,
    /// Why.
    pub failure: &'a Failure,
    /// Whether the agent said or did anything before.
    pub heard: bool,
    /// Whether the prompt has waited for this agent before.
    pub waited: bool,
    /// What the caller wants.
    pub haste: Haste,
    /// Who could go on instead, the preferred ones first.
    pub others: &'a [ProviderId],
}

/// What becomes of a prompt that an agent has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The turn is over.
    Settle,
    /// The same agent is asked again then.
    Wait(Timestamp),
    /// Another one is asked.
    HandOver(ProviderId),
}

/// What becomes of a prompt that an agent has failed. Only one that was refused for a limit, before anything came of
/// it, is sent again: what was begun may have had its effects.
#[must_use]
pub fn after_refusal(refused: &Refused<'_>) -> Next {
    let Refused { failure, now, .. } = *refused;
    if setback(failure.class) != Setback::Limit || refused.heard {
        return Next::Settle;
    }
    let soon = failure.retry_at.filter(|until| is_short(*until, now));
    match soon {
        Some(until) if refused.haste == Haste::Wait && !refused.waited => return Next::Wait(until),
        _ => {}
    }
    // Without a time, a rate is a matter of seconds.
    if failure.class == FailureClass::RateLimited && failure.retry_at.is_none() {
        return Next::Settle;
    }
    let other = refused.others.first().cloned();
    other.map_or(Next::Settle, Next::HandOver)
}

/// Whether a turn that failed so was ended by the policy rather than by the agent: asking again at once is no use.
#[must_use]
pub fn is_policy_stop(failure: &Failure, now: Timestamp) -> bool {
    match failure.class {
        FailureClass::Quota => true,
        FailureClass::RateLimited => failure.retry_at.is_some_and(|until| !is_short(until, now)),
        _ => false,
    }
}
