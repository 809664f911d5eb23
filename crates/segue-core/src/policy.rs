//! When to try again, when to begin anew, when another agent goes on, and when to stop.
//!
//! Pure functions over what is on record: how a session fares with an agent ([`Standing`]), and which agents rest by
//! their own word ([`Rest`]).

mod admission;
mod compaction;
mod limits;

use jiff::{SignedDuration, Timestamp};

use crate::{Failure, FailureClass, ProviderId};

pub use admission::{
    Admission, Arrival, Haste, LONGEST_WAIT, Next, Pause, Refused, admit, after_refusal,
    is_policy_stop,
};
pub use compaction::{AutoCompaction, is_due, is_worth_it};
pub use limits::{ContextLimits, is_full};

/// How many legs may end by errors without a success in between: after one, a new one is tried; after two, none.
const ROTATIONS: u32 = 2;

/// What the user allows, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// After how many failures in a row a leg is over; 0 for never.
    pub error_limit: u32,
    /// How long nothing is tried after a failure, for each failure in a row.
    pub backoff: SignedDuration,
    /// How much context a leg may hold.
    pub context: ContextLimits,
    /// Who goes on while an agent rests, the preferred ones first.
    pub fallback: Vec<ProviderId>,
    /// In which sessions what was said is summed up by itself.
    pub compaction: AutoCompaction,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            error_limit: 3,
            backoff: SignedDuration::from_secs(10),
            context: ContextLimits::default(),
            fallback: Vec::new(),
            compaction: AutoCompaction::default(),
        }
    }
}

/// What a failure counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// Something is wrong with the agent or its native session.
    Failure,
    /// The agent is well and takes no more for now.
    Limit,
    /// Something that the user has to mend first; no other native session would fare better.
    Mistake,
}

/// What a failure counts as.
#[must_use]
pub fn setback(class: FailureClass) -> Setback {
    match class {
        FailureClass::Crashed
        | FailureClass::TimedOut
        | FailureClass::Agent
        | FailureClass::NotUnderstood
        // A full leg is over by that alone; but one after the other that is full at once leads nowhere.
        | FailureClass::ContextTooLong => Setback::Failure,
        FailureClass::Quota | FailureClass::RateLimited => Setback::Limit,
        // There is no program or no directory; nothing was asked.
        FailureClass::NotStarted
        // Told only to those who want this native session and no other.
        | FailureClass::SessionUnknown
        | FailureClass::NotLoggedIn
        | FailureClass::UntrustedFolder => Setback::Mistake,
    }
}

/// How a session fares with an agent since its last success there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Failures in a row on the leg.
    pub failures: u32,
    /// Refusals in a row for too many requests, where the agent did not say until when.
    pub limited: u32,
    /// How many legs ended by errors.
    pub rotations: u32,
    /// When to try again.
    pub retry_at: Option<Timestamp>,
}

/// What a failed turn leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aftermath {
    /// How the session fares now.
    pub standing: Standing,
    /// Whether the leg is over by it.
    pub rotates: bool,
}

impl Standing {
    /// Whether nothing is held against the agent.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Whether no leg may follow by itself.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.rotations >= ROTATIONS
    }

    /// What a failed turn changes.
    #[must_use]
    pub fn after(self, failure: &Failure, policy: &Policy, now: Timestamp) -> Aftermath {
        let mut standing = self;
        let mut rotates = false;
        match setback(failure.class) {
            Setback::Failure => {
                standing.failures = self.failures.saturating_add(1);
                standing.retry_at = policy.rests_until(standing.failures, now);
                // Who is asked once more though nothing helped has a native session for that prompt alone.
                let is_last = self.is_hopeless() || standing.failures >= policy.error_limit;
                rotates = policy.error_limit > 0 && is_last;
                if rotates {
                    standing.failures = 0;
                    standing.rotations = self.rotations.saturating_add(1);
                }
            }
            Setback::Limit
                if failure.class == FailureClass::RateLimited && failure.retry_at.is_none() =>
            {
                standing.limited = self.limited.saturating_add(1);
                standing.retry_at = policy.rests_until(standing.limited, now);
            }
            Setback::Limit | Setback::Mistake => {}
        }
        Aftermath { standing, rotates }
    }
}

impl Policy {
    /// When to try again after so many setbacks in a row.
    fn rests_until(&self, count: u32, now: Timestamp) -> Option<Timestamp> {
        let factor = i32::try_from(count).unwrap_or(i32::MAX);
        let rest = self.backoff.saturating_mul(factor);
        let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }

    /// The longest that anything can be held back by failures; more is a clock that was put back.
    fn longest_rest(&self, standing: &Standing) -> SignedDuration {
        let count = standing
            .failures
            .max(standing.limited)
            .max(self.error_limit);
        let factor = i32::try_from(count).unwrap_or(i32::MAX);
        self.backoff.saturating_mul(factor)
    }
}

/// An agent takes no prompts for a time, by its own word; of whatever session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// Who.
    pub provider: ProviderId,
    /// Until when.
    pub until: Timestamp,
    /// Why: `Quota` or `RateLimited`.
    pub class: FailureClass,
}

impl Rest {
    /// The rest that a failure of an agent tells of.
    #[must_use]
    pub fn told_by(provider: &ProviderId, failure: &Failure, now: Timestamp) -> Option<Self> {
        let until = failure.retry_at.filter(|until| *until > now)?;
        (setback(failure.class) == Setback::Limit).then(|| Self {
            provider: provider.clone(),
            until,
            class: failure.class,
        })
    }
}

#[cfg(test)]
mod tests;
