//! Decisions on retries, new legs, handoffs to another provider, and stops.
//!
//! Pure functions over recorded state: the health of a provider in a session ([`ProviderHealth`]), and the cooldowns
//! that providers announced ([`Cooldown`]).

mod admission;
mod compaction;
mod context_limits;

use jiff::{SignedDuration, Timestamp};

use crate::id::ProviderId;
use crate::session::{Failure, FailureClass};

pub use admission::{
    Admission, AdmissionInput, FailedPrompt, MAX_INLINE_WAIT, RetryAction, WaitPreference,
    WaitReason, admit_prompt, available_fallbacks, is_policy_stop, plan_retry,
};
pub use compaction::{AutoCompaction, is_compaction_due, is_compaction_worthwhile};
pub use context_limits::{ContextLimits, context_limit_excess};

/// Maximum number of legs that may end by errors without a success in between: after one, segue starts a new leg; after
/// two, it does not.
const MAX_FAILED_LEGS: u32 = 2;

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
pub enum FailureImpact {
    /// The agent or its native session has a problem.
    AgentFailure,
    /// The agent works, but accepts no more prompts for now.
    Limit,
    /// The user must fix a problem first; another native session would fail as well.
    UserActionNeeded,
}

/// Returns the effect of a failure class on further attempts.
#[must_use]
pub fn failure_impact(class: FailureClass) -> FailureImpact {
    match class {
        FailureClass::Crashed
        | FailureClass::TimedOut
        | FailureClass::Agent
        | FailureClass::UnparsableOutput
        // A full leg ends anyway. But if each new leg is full at once, more of them do not help.
        | FailureClass::ContextTooLong => FailureImpact::AgentFailure,
        FailureClass::Quota | FailureClass::RateLimited => FailureImpact::Limit,
        // The program or the directory does not exist; no prompt was sent.
        FailureClass::NotStarted
        // Reported only to a caller that requires this native session.
        | FailureClass::SessionUnknown
        | FailureClass::NotLoggedIn
        | FailureClass::UntrustedFolder => FailureImpact::UserActionNeeded,
    }
}

/// Health of a provider in a session since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderHealth {
    /// Consecutive failures on the leg.
    pub failures: u32,
    /// Consecutive rate limit failures for which the agent gave no retry time.
    pub rate_limit_failures: u32,
    /// Number of legs that ended by errors.
    pub failed_legs: u32,
    /// Earliest time of the next attempt; `None` if no wait is needed.
    pub retry_at: Option<Timestamp>,
}

/// Result of a failed turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthUpdate {
    /// Health of the provider after the failure.
    pub health: ProviderHealth,
    /// Whether the failure ends the leg.
    pub ends_leg: bool,
}

impl ProviderHealth {
    /// Returns `true` if no failures are recorded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if segue must not start another leg automatically.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.failed_legs >= MAX_FAILED_LEGS
    }

    /// Computes the result of a failed turn.
    #[must_use]
    pub fn apply_failure(self, failure: &Failure, policy: &Policy, now: Timestamp) -> HealthUpdate {
        let mut health = self;
        let mut ends_leg = false;
        match failure_impact(failure.class) {
            FailureImpact::AgentFailure => {
                health.failures = self.failures.saturating_add(1);
                health.retry_at = policy.backoff_end(health.failures, now);
                // A prompt that the caller forces after too many failed legs has its own leg, which one failure ends.
                let is_last = self.is_exhausted() || health.failures >= policy.error_limit;
                ends_leg = policy.error_limit > 0 && is_last;
                if ends_leg {
                    health.failures = 0;
                    health.failed_legs = self.failed_legs.saturating_add(1);
                }
            }
            FailureImpact::Limit
                if failure.class == FailureClass::RateLimited && failure.retry_at.is_none() =>
            {
                health.rate_limit_failures = self.rate_limit_failures.saturating_add(1);
                health.retry_at = policy.backoff_end(health.rate_limit_failures, now);
            }
            FailureImpact::Limit | FailureImpact::UserActionNeeded => {}
        }
        HealthUpdate { health, ends_leg }
    }
}

impl Policy {
    /// Returns the time of the next attempt after `count` consecutive failures; `None` if no wait is needed.
    fn backoff_end(&self, count: u32, now: Timestamp) -> Option<Timestamp> {
        let wait = self.backoff_after(count);
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        (until > now).then_some(until)
    }

    /// Returns the longest possible wait after failures. A recorded time beyond it results from a clock that was set
    /// back.
    fn max_backoff(&self, health: &ProviderHealth) -> SignedDuration {
        let count = health
            .failures
            .max(health.rate_limit_failures)
            .max(self.error_limit);
        self.backoff_after(count)
    }

    fn backoff_after(&self, count: u32) -> SignedDuration {
        let factor = i32::try_from(count).unwrap_or(i32::MAX);
        self.backoff.saturating_mul(factor)
    }
}

/// A cooldown that a provider announced: it accepts no prompts from any session until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cooldown {
    /// Provider that has the cooldown.
    pub provider: ProviderId,
    /// End of the cooldown.
    pub until: Timestamp,
    /// Reason of the cooldown: `Quota` or `RateLimited`.
    pub class: FailureClass,
}

impl Cooldown {
    /// Returns the cooldown that a failure announces; `None` if it is no limit or its retry time is missing or past.
    #[must_use]
    pub fn from_failure(provider: &ProviderId, failure: &Failure, now: Timestamp) -> Option<Self> {
        let until = failure.retry_at.filter(|until| *until > now)?;
        (failure_impact(failure.class) == FailureImpact::Limit).then(|| Self {
            provider: provider.clone(),
            until,
            class: failure.class,
        })
    }

    fn reason(&self) -> WaitReason {
        match self.class {
            FailureClass::RateLimited => WaitReason::RateLimited,
            _ => WaitReason::Quota,
        }
    }
}

#[cfg(test)]
mod tests;
