//! Decisions on retries, new legs, handoffs to another provider, and stops.
//!
//! Pure functions over recorded state: the health of a provider in a session ([`Standing`]), and the cooldowns that
//! providers announced ([`Rest`]).

mod admission;
mod compaction;
mod context_limits;

use jiff::{SignedDuration, Timestamp};

use crate::id::ProviderId;
use crate::session::{Failure, FailureClass};

pub use admission::{
    Admission, Arrival, Haste, LONGEST_WAIT, Next, Pause, Refused, admit, after_refusal,
    is_policy_stop,
};
pub use compaction::{AutoCompaction, is_due, is_worth_it};
pub use context_limits::{ContextLimits, is_full};

/// Maximum number of legs that may end by errors without a success in between: after one, segue starts a new leg; after
/// two, it does not.
const ROTATIONS: u32 = 2;

/// Limits and preferences of the user, as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Number of consecutive failures that ends a leg; 0 if failures never end one.
    pub error_limit: u32,
    /// Wait after a failure. It is multiplied by the number of consecutive failures.
    pub backoff: SignedDuration,
    /// Maximum context sizes of a leg.
    pub context: ContextLimits,
    /// Providers that replace a provider during its cooldown, in order of preference.
    pub fallback: Vec<ProviderId>,
    /// Sessions that are compacted automatically.
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

/// Effect of a failure on further attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setback {
    /// The agent or its native session has a problem.
    Failure,
    /// The agent works, but accepts no more prompts for now.
    Limit,
    /// The user must fix a problem first; another native session would fail as well.
    Mistake,
}

/// Returns the effect of a failure class on further attempts.
#[must_use]
pub fn setback(class: FailureClass) -> Setback {
    match class {
        FailureClass::Crashed
        | FailureClass::TimedOut
        | FailureClass::Agent
        | FailureClass::NotUnderstood
        // A full leg ends anyway. But if each new leg is full at once, more of them do not help.
        | FailureClass::ContextTooLong => Setback::Failure,
        FailureClass::Quota | FailureClass::RateLimited => Setback::Limit,
        // The program or the directory does not exist; no prompt was sent.
        FailureClass::NotStarted
        // Reported only to a caller that requires this native session.
        | FailureClass::SessionUnknown
        | FailureClass::NotLoggedIn
        | FailureClass::UntrustedFolder => Setback::Mistake,
    }
}

/// Health of a provider in a session since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Consecutive failures on the leg.
    pub failures: u32,
    /// Consecutive rate limit failures for which the agent gave no retry time.
    pub limited: u32,
    /// Number of legs that ended by errors.
    pub rotations: u32,
    /// Earliest time of the next attempt; `None` if no wait is needed.
    pub retry_at: Option<Timestamp>,
}

/// Result of a failed turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aftermath {
    /// Health of the provider after the failure.
    pub standing: Standing,
    /// Whether the failure ends the leg.
    pub rotates: bool,
}

impl Standing {
    /// Returns `true` if no failures are recorded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if segue must not start another leg automatically.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.rotations >= ROTATIONS
    }

    /// Computes the result of a failed turn.
    #[must_use]
    pub fn after(self, failure: &Failure, policy: &Policy, now: Timestamp) -> Aftermath {
        let mut standing = self;
        let mut rotates = false;
        match setback(failure.class) {
            Setback::Failure => {
                standing.failures = self.failures.saturating_add(1);
                standing.retry_at = policy.rests_until(standing.failures, now);
                // A prompt that the caller forces after too many failed legs has its own leg, which one failure ends.
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
    /// Returns the time of the next attempt after `count` consecutive failures; `None` if no wait is needed.
    fn rests_until(&self, count: u32, now: Timestamp) -> Option<Timestamp> {
        let factor = i32::try_from(count).unwrap_or(i32::MAX);
        let rest = self.backoff.saturating_mul(factor);
        let until = now.checked_add(rest).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }

    /// Returns the longest possible wait after failures. A recorded time beyond it results from a clock that was set
    /// back.
    fn longest_rest(&self, standing: &Standing) -> SignedDuration {
        let count = standing
            .failures
            .max(standing.limited)
            .max(self.error_limit);
        let factor = i32::try_from(count).unwrap_or(i32::MAX);
        self.backoff.saturating_mul(factor)
    }
}

/// A cooldown that a provider announced: it accepts no prompts from any session until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// Provider that has the cooldown.
    pub provider: ProviderId,
    /// End of the cooldown.
    pub until: Timestamp,
    /// Reason of the cooldown: `Quota` or `RateLimited`.
    pub class: FailureClass,
}

impl Rest {
    /// Returns the cooldown that a failure announces; `None` if it is no limit or its retry time is missing or past.
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
