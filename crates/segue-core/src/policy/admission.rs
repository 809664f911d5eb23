//! Admission of prompts, and the next action after a prompt failed.

use jiff::{SignedDuration, Timestamp};

use super::{Policy, Rest, Setback, Standing, setback};
use crate::id::ProviderId;
use crate::session::{Failure, FailureClass};

/// Maximum time that a prompt waits automatically. A longer wait is reported to the caller.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// Preference of the caller for the case that a provider must not be used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Haste {
    /// Wait, if the wait is short.
    #[default]
    Wait,
    /// Return without waiting.
    Refuse,
    /// Send the prompt anyway.
    Ignore,
}

/// Reason for which a provider must not be used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// The last turn failed.
    Failed,
    /// The user's quota is used up.
    Quota,
    /// The provider received too many requests.
    RateLimited,
}

impl Pause {
    fn of(class: FailureClass) -> Self {
        match class {
            FailureClass::RateLimited => Self::RateLimited,
            _ => Self::Quota,
        }
    }

    /// Returns the reason as text for the user.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Failed => "its last turn failed",
            Self::Quota => "the quota is spent",
            Self::RateLimited => "too much was asked",
        }
    }
}

/// Decision on whether a prompt may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The prompt may be sent now.
    Go,
    /// The prompt waits until this time.
    Wait(Timestamp, Pause),
    /// The prompt is sent to this provider, because the intended one has a cooldown until this time.
    HandOver(ProviderId, Timestamp, Pause),
    /// The prompt may not be sent before this time.
    NotYet(Timestamp, Pause),
    /// The prompt may not be sent, because one leg after another ended by errors.
    Hopeless,
}

/// Input of [`admit`].
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Current time.
    pub now: Timestamp,
    /// Health of the provider in the session.
    pub standing: Standing,
    /// Cooldown of the provider; `None` if it has none.
    pub rest: Option<&'a Rest>,
    /// Preference of the caller for waits.
    pub haste: Haste,
    /// Whether the caller forces the prompt even though one leg after another failed.
    pub anyway: bool,
    /// Providers that could replace this one, in order of preference.
    pub others: &'a [ProviderId],
}

/// Decides whether a prompt may be sent.
///
/// The prompt waits for the end of a cooldown of at most [`LONGEST_WAIT`], because a handover would lose the native
/// session. During a longer cooldown, another provider replaces this one. Errors do not cause a handover, because the
/// prompt itself may be their cause.
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
    // A caller that forces the prompt is aware of the failures and does not want to wait.
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

/// Input of [`after_refusal`].
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// Current time.
    pub now: Timestamp,
    /// The failure of the prompt.
    pub failure: &'a Failure,
    /// Whether the agent produced output or performed an action before the failure.
    pub heard: bool,
    /// Whether the prompt already waited for this agent.
    pub waited: bool,
    /// Preference of the caller for waits.
    pub haste: Haste,
    /// Providers that could replace this one, in order of preference.
    pub others: &'a [ProviderId],
}

/// Next action after a prompt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// End the turn.
    Settle,
    /// Send the prompt to the same agent at this time.
    Wait(Timestamp),
    /// Send the prompt to another provider.
    HandOver(ProviderId),
}

/// Decides on the next action after a prompt failed. Only a prompt that was refused because of a limit, before the
/// agent produced any output, is sent again, because a prompt that the agent started to process may have had effects.
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
    // A rate limit without a retry time usually ends within seconds.
    if failure.class == FailureClass::RateLimited && failure.retry_at.is_none() {
        return Next::Settle;
    }
    let other = refused.others.first().cloned();
    other.map_or(Next::Settle, Next::HandOver)
}

/// Returns `true` if the policy rather than the agent ended a failed turn, so that an immediate retry is useless.
#[must_use]
pub fn is_policy_stop(failure: &Failure, now: Timestamp) -> bool {
    match failure.class {
        FailureClass::Quota => true,
        FailureClass::RateLimited => failure.retry_at.is_some_and(|until| !is_short(until, now)),
        _ => false,
    }
}
