//! Admission of prompts, and the next action after a prompt failed.

use jiff::{SignedDuration, Timestamp};

use super::{Cooldown, FailureImpact, Policy, ProviderHealth, failure_impact};
use crate::enum_names::named_enum;
use crate::id::ProviderId;
use crate::session::{Failure, FailureClass, ProviderRecords};

/// Maximum time that a prompt waits automatically. A longer wait is reported to the caller.
pub const MAX_INLINE_WAIT: SignedDuration = SignedDuration::from_secs(60);

/// Preference of the caller for the case that a provider must not be used yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitPreference {
    /// Wait, if the wait is short.
    #[default]
    Wait,
    /// Return without waiting.
    FailFast,
    /// Send the prompt anyway.
    SendNow,
}

named_enum! {
    /// Reason why a provider must not be used yet.
    pub enum WaitReason {
        /// The last turn failed.
        Failed => "failed",
        /// The user's quota is used up.
        Quota => "quota",
        /// The provider received too many requests.
        RateLimited => "rate_limited",
    }
}

impl WaitReason {
    /// Returns the reason as text for the user.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Failed => "the last turn failed",
            Self::Quota => "the quota is used up",
            Self::RateLimited => "too many requests",
        }
    }
}

/// Decision on whether a prompt may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// The prompt may be sent now.
    Allow,
    /// The prompt waits until this time.
    Wait(Timestamp, WaitReason),
    /// The prompt is sent to this provider, because the intended one has a cooldown until this time.
    HandOff(ProviderId, Timestamp, WaitReason),
    /// The prompt may not be sent before this time.
    RetryAt(Timestamp, WaitReason),
    /// The prompt may not be sent, because one leg after another ended by errors.
    Exhausted,
}

/// Input of [`admit_prompt`].
#[derive(Debug, Clone, Copy)]
pub struct AdmissionInput<'a> {
    /// Current time.
    pub now: Timestamp,
    /// Health of the provider in the session.
    pub health: ProviderHealth,
    /// Cooldown of the provider; `None` if it has none.
    pub cooldown: Option<&'a Cooldown>,
    /// Preference of the caller for waits.
    pub wait_preference: WaitPreference,
    /// Whether the caller forces the prompt even though one leg after another failed.
    pub force: bool,
    /// Providers that could replace this one, in order of preference.
    pub fallbacks: &'a [ProviderId],
}

/// Decides whether a prompt may be sent.
///
/// The prompt waits for the end of a cooldown of at most [`MAX_INLINE_WAIT`], because a handoff would lose the native
/// session. During a longer cooldown, another provider replaces this one. Errors do not cause a handoff, because the
/// prompt itself may be their cause.
#[must_use]
pub fn admit_prompt(input: &AdmissionInput<'_>, policy: &Policy) -> Admission {
    let AdmissionInput { now, health, .. } = *input;
    if health.is_exhausted() && !input.force {
        return Admission::Exhausted;
    }
    if input.wait_preference == WaitPreference::SendNow {
        return Admission::Allow;
    }
    let cooldown = input.cooldown.filter(|cooldown| cooldown.until > now);
    let long_cooldown = cooldown.filter(|cooldown| {
        !is_short_wait(cooldown.until, now) || input.wait_preference == WaitPreference::FailFast
    });
    if let (Some(cooldown), Some(fallback)) = (long_cooldown, input.fallbacks.first()) {
        return Admission::HandOff(fallback.clone(), cooldown.until, cooldown.reason());
    }
    let latest_retry = now
        .checked_add(policy.max_backoff(&health))
        .unwrap_or(Timestamp::MAX);
    // A caller that forces the prompt is aware of the failures and does not want to wait.
    let backoff = health.retry_at.filter(|_| !input.force);
    let backoff = backoff.map(|until| (until.min(latest_retry), WaitReason::Failed));
    let cooldown_wait = cooldown.map(|cooldown| (cooldown.until, cooldown.reason()));
    let latest_wait = backoff
        .into_iter()
        .chain(cooldown_wait)
        .max_by_key(|(until, _)| *until);
    match latest_wait.filter(|(until, _)| *until > now) {
        None => Admission::Allow,
        Some((until, reason))
            if input.wait_preference == WaitPreference::Wait && is_short_wait(until, now) =>
        {
            Admission::Wait(until, reason)
        }
        Some((until, reason)) => Admission::RetryAt(until, reason),
    }
}

fn is_short_wait(until: Timestamp, now: Timestamp) -> bool {
    until.duration_since(now) <= MAX_INLINE_WAIT
}

/// Returns the providers of `configured` that may replace another one now, in order of preference: not in `excluded`,
/// not in cooldown, and not failing in the session.
#[must_use]
pub fn available_fallbacks(
    configured: &[ProviderId],
    records: &ProviderRecords,
    excluded: &[ProviderId],
    now: Timestamp,
) -> Vec<ProviderId> {
    let is_available = |provider: &&ProviderId| {
        let cooldown = records.cooldown_of(provider);
        let health = records.health_of(provider);
        !excluded.contains(provider)
            && cooldown.is_none_or(|cooldown| cooldown.until <= now)
            && health.retry_at.is_none_or(|until| until <= now)
            && !health.is_exhausted()
    };
    configured.iter().filter(is_available).cloned().collect()
}

/// Input of [`plan_retry`].
#[derive(Debug, Clone, Copy)]
pub struct FailedPrompt<'a> {
    /// Current time.
    pub now: Timestamp,
    /// The failure of the prompt.
    pub failure: &'a Failure,
    /// Whether the agent produced output or performed an action before the failure.
    pub has_output: bool,
    /// Whether the prompt already waited for this agent.
    pub has_waited: bool,
    /// Preference of the caller for waits.
    pub wait_preference: WaitPreference,
    /// Providers that could replace this one, in order of preference.
    pub fallbacks: &'a [ProviderId],
}

/// Next action after a prompt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAction {
    /// End the turn.
    EndTurn,
    /// Send the prompt to the same agent at this time.
    Wait(Timestamp),
    /// Send the prompt to another provider.
    HandOff(ProviderId),
}

/// Decides on the next action after a prompt failed. Only a prompt that was refused because of a limit, before the
/// agent produced any output, is sent again, because a prompt that the agent started to process may have had effects.
#[must_use]
pub fn plan_retry(prompt: &FailedPrompt<'_>) -> RetryAction {
    let FailedPrompt { failure, now, .. } = *prompt;
    if failure_impact(failure.class) != FailureImpact::Limit || prompt.has_output {
        return RetryAction::EndTurn;
    }
    let may_wait = prompt.wait_preference == WaitPreference::Wait && !prompt.has_waited;
    let near_retry_at = failure.retry_at.filter(|until| is_short_wait(*until, now));
    if let Some(until) = near_retry_at.filter(|_| may_wait) {
        return RetryAction::Wait(until);
    }
    // A rate limit without a retry time usually ends within seconds.
    if failure.class == FailureClass::RateLimited && failure.retry_at.is_none() {
        return RetryAction::EndTurn;
    }
    let fallback = prompt.fallbacks.first().cloned();
    fallback.map_or(RetryAction::EndTurn, RetryAction::HandOff)
}

/// Returns `true` if the policy rather than the agent ended a failed turn, so that an immediate retry is useless.
#[must_use]
pub fn is_policy_stop(failure: &Failure, now: Timestamp) -> bool {
    match failure.class {
        FailureClass::Quota => true,
        FailureClass::RateLimited => failure
            .retry_at
            .is_some_and(|until| !is_short_wait(until, now)),
        _ => false,
    }
}
