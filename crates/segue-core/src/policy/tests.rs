use std::collections::BTreeMap;

use super::*;
use crate::id::LegId;
use crate::session::{Leg, Usage};

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn seconds_from_now(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn failure(class: FailureClass, retry_at: Option<Timestamp>) -> Failure {
    Failure {
        retry_at,
        ..Failure::new(class, "no")
    }
}

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

#[test]
fn every_failure_class_has_an_impact() {
    use FailureClass::{
        Agent, ContextTooLong, Crashed, NotLoggedIn, NotStarted, Quota, RateLimited,
        SessionUnknown, TimedOut, UnparsableOutput, UntrustedFolder,
    };
    let cases = [
        (NotStarted, FailureImpact::UserActionNeeded),
        (Crashed, FailureImpact::AgentFailure),
        (TimedOut, FailureImpact::AgentFailure),
        (Agent, FailureImpact::AgentFailure),
        (UnparsableOutput, FailureImpact::AgentFailure),
        (SessionUnknown, FailureImpact::UserActionNeeded),
        (Quota, FailureImpact::Limit),
        (RateLimited, FailureImpact::Limit),
        (ContextTooLong, FailureImpact::AgentFailure),
        (NotLoggedIn, FailureImpact::UserActionNeeded),
        (UntrustedFolder, FailureImpact::UserActionNeeded),
    ];
    for (class, expected) in cases {
        assert_eq!(failure_impact(class), expected, "{class:?}");
    }
}

/// Applies failures one after the other. Returns the recorded health after each, and whether the leg ended.
fn apply_failures(
    policy: &Policy,
    failures: &[Failure],
) -> Vec<(u32, u32, u32, Option<i64>, bool)> {
    let mut health = ProviderHealth::default();
    let updates = failures.iter().map(|failure| {
        let update = health.apply_failure(failure, policy, now());
        health = update.health;
        let wait_seconds = health
            .retry_at
            .map(|until| until.duration_since(now()).as_secs());
        let ProviderHealth {
            failures,
            rate_limit_failures,
            failed_legs,
            ..
        } = health;
        (
            failures,
            rate_limit_failures,
            failed_legs,
            wait_seconds,
            update.ends_leg,
        )
    });
    updates.collect()
}

#[test]
fn every_third_failure_ends_a_leg_and_two_failed_legs_exhaust_the_provider() {
    let policy = Policy::default();
    let crash = failure(FailureClass::Crashed, None);
    let updates = apply_failures(&policy, &vec![crash.clone(); 6]);
    let expected = [
        (1, 0, 0, Some(10), false),
        (2, 0, 0, Some(20), false),
        (0, 0, 1, Some(30), true),
        (1, 0, 1, Some(10), false),
        (2, 0, 1, Some(20), false),
        (0, 0, 2, Some(30), true),
    ];
    assert_eq!(updates, expected);
    let is_exhausted_after = |failed_legs| {
        ProviderHealth {
            failed_legs,
            ..ProviderHealth::default()
        }
        .is_exhausted()
    };
    assert_eq!(
        [0, 1, 2, 3].map(is_exhausted_after),
        [false, false, true, true]
    );
}

#[test]
fn limits_and_user_errors_do_not_count_as_failures() {
    let policy = Policy::default();
    let crash = || failure(FailureClass::Crashed, None);
    let updates = apply_failures(
        &policy,
        &[
            crash(),
            crash(),
            failure(FailureClass::Quota, Some(seconds_from_now(3600))),
            failure(FailureClass::Quota, None),
            failure(FailureClass::NotLoggedIn, None),
            failure(FailureClass::RateLimited, Some(seconds_from_now(40))),
            failure(FailureClass::RateLimited, None),
            failure(FailureClass::RateLimited, None),
            crash(),
        ],
    );
    let expected = [
        (1, 0, 0, Some(10), false),
        (2, 0, 0, Some(20), false),
        (2, 0, 0, Some(20), false),
        (2, 0, 0, Some(20), false),
        (2, 0, 0, Some(20), false),
        (2, 0, 0, Some(20), false),
        (2, 1, 0, Some(10), false),
        (2, 2, 0, Some(20), false),
        (0, 2, 1, Some(30), true),
    ];
    assert_eq!(updates, expected);
}

#[test]
fn the_error_limit_and_the_backoff_are_configurable() {
    let crash = || failure(FailureClass::Agent, None);
    let lenient = Policy {
        error_limit: 0,
        backoff: SignedDuration::ZERO,
        ..Policy::default()
    };
    let updates = apply_failures(&lenient, &[crash(), crash(), crash(), crash()]);
    assert_eq!(updates[3], (4, 0, 0, None, false));
    let strict = Policy {
        error_limit: 1,
        backoff: SignedDuration::MAX,
        ..Policy::default()
    };
    let updates = apply_failures(&strict, &[crash()]);
    assert!(updates[0].4 && updates[0].3.is_some(), "{updates:?}");
    // More failures than can be counted or multiplied without overflow.
    let saturated = ProviderHealth {
        failures: u32::MAX,
        rate_limit_failures: u32::MAX,
        failed_legs: u32::MAX,
        retry_at: None,
    };
    let update = saturated.apply_failure(&crash(), &Policy::default(), Timestamp::MAX);
    assert_eq!(update.health.failed_legs, u32::MAX);
}

#[test]
fn only_a_limit_with_a_retry_time_is_a_cooldown() {
    let gemini = provider("gemini");
    let cases = [
        (FailureClass::Quota, Some(seconds_from_now(60)), true),
        (FailureClass::RateLimited, Some(seconds_from_now(1)), true),
        (FailureClass::RateLimited, Some(now()), false),
        (FailureClass::Quota, None, false),
        (FailureClass::Crashed, Some(seconds_from_now(60)), false),
    ];
    for (class, retry_at, expected) in cases {
        let cooldown = Cooldown::from_failure(&gemini, &failure(class, retry_at), now());
        assert_eq!(cooldown.is_some(), expected, "{class:?} {retry_at:?}");
    }
}

/// Creates the input for a prompt to a healthy provider.
fn admission_input<'a>() -> AdmissionInput<'a> {
    AdmissionInput {
        now: now(),
        health: ProviderHealth::default(),
        cooldown: None,
        wait_preference: WaitPreference::Wait,
        force: false,
        fallbacks: &[],
    }
}

fn failed_until(seconds: i64) -> ProviderHealth {
    ProviderHealth {
        failures: 1,
        retry_at: Some(seconds_from_now(seconds)),
        ..ProviderHealth::default()
    }
}

fn quota_cooldown(seconds: i64) -> Cooldown {
    Cooldown {
        provider: provider("gemini"),
        until: seconds_from_now(seconds),
        class: FailureClass::Quota,
    }
}

/// Checks the admission of a prompt in named situations.
fn check_admissions(cases: &[(&str, AdmissionInput<'_>, Admission)]) {
    for (name, input, expected) in cases {
        assert_eq!(admit_prompt(input, &Policy::default()), *expected, "{name}");
    }
}

#[test]
fn a_prompt_waits_after_a_failure_and_is_stopped_after_too_many() {
    let fallbacks = [provider("codex"), provider("claude")];
    let failed_input = |seconds| AdmissionInput {
        health: failed_until(seconds),
        ..admission_input()
    };
    let exhausted = AdmissionInput {
        health: ProviderHealth {
            failed_legs: 2,
            ..ProviderHealth::default()
        },
        wait_preference: WaitPreference::SendNow,
        fallbacks: &fallbacks,
        ..admission_input()
    };
    let (fail_fast, send_now, with_fallbacks, forced) = (
        AdmissionInput {
            wait_preference: WaitPreference::FailFast,
            ..failed_input(10)
        },
        AdmissionInput {
            wait_preference: WaitPreference::SendNow,
            ..failed_input(10)
        },
        AdmissionInput {
            fallbacks: &fallbacks,
            ..failed_input(10)
        },
        AdmissionInput {
            force: true,
            health: ProviderHealth {
                retry_at: Some(seconds_from_now(30)),
                ..exhausted.health
            },
            wait_preference: WaitPreference::Wait,
            ..exhausted
        },
    );
    let wait = |seconds| Admission::Wait(seconds_from_now(seconds), WaitReason::Failed);
    let retry_later = Admission::RetryAt(seconds_from_now(10), WaitReason::Failed);
    check_admissions(&[
        ("a healthy provider", admission_input(), Admission::Allow),
        ("a recent failure", failed_input(10), wait(10)),
        (
            "the wait after a failure is over",
            failed_input(0),
            Admission::Allow,
        ),
        ("a failure with fallbacks", with_fallbacks, wait(10)),
        ("the clock was set back", failed_input(86_400), wait(30)),
        ("the caller fails fast", fail_fast, retry_later),
        ("the caller sends now", send_now, Admission::Allow),
        ("two failed legs", exhausted, Admission::Exhausted),
        ("the caller forces the prompt", forced, Admission::Allow),
    ]);
}

#[test]
fn a_prompt_waits_for_a_short_cooldown_and_is_handed_off_or_stopped_during_a_long_one() {
    let (short, long, past) = (quota_cooldown(60), quota_cooldown(61), quota_cooldown(0));
    let providers = [provider("codex"), provider("claude")];
    let in_cooldown = |cooldown, fallbacks| AdmissionInput {
        cooldown: Some(cooldown),
        fallbacks,
        ..admission_input()
    };
    let fail_fast = AdmissionInput {
        wait_preference: WaitPreference::FailFast,
        ..in_cooldown(&short, &providers)
    };
    let send_now = AdmissionInput {
        wait_preference: WaitPreference::SendNow,
        ..in_cooldown(&long, &providers)
    };
    let both = AdmissionInput {
        health: failed_until(10),
        ..in_cooldown(&short, &[])
    };
    let wait = || Admission::Wait(seconds_from_now(60), WaitReason::Quota);
    let retry_later = Admission::RetryAt(seconds_from_now(61), WaitReason::Quota);
    let hand_off = |seconds| {
        Admission::HandOff(
            provider("codex"),
            seconds_from_now(seconds),
            WaitReason::Quota,
        )
    };
    check_admissions(&[
        ("a short cooldown", in_cooldown(&short, &providers), wait()),
        ("a long cooldown", in_cooldown(&long, &[]), retry_later),
        (
            "a long cooldown with fallbacks",
            in_cooldown(&long, &providers),
            hand_off(61),
        ),
        (
            "a short cooldown and the caller fails fast",
            fail_fast,
            hand_off(60),
        ),
        (
            "a long cooldown and the caller sends now",
            send_now,
            Admission::Allow,
        ),
        (
            "the cooldown is over",
            in_cooldown(&past, &providers),
            Admission::Allow,
        ),
        ("a failure and a cooldown", both, wait()),
    ]);
}

#[test]
fn only_a_limited_prompt_without_output_is_sent_again() {
    use FailureClass::{Crashed, Quota, RateLimited};
    let fallbacks = [provider("codex")];
    let hand_off = || RetryAction::HandOff(provider("codex"));
    let wait = || RetryAction::Wait(seconds_from_now(60));
    // The failure class, the seconds until the retry time, other conditions, and the expected action.
    let cases = [
        (Crashed, Some(5), "", RetryAction::EndTurn),
        (Quota, Some(3600), "", hand_off()),
        (Quota, Some(3600), "no-fallback", RetryAction::EndTurn),
        (Quota, Some(3600), "output", RetryAction::EndTurn),
        (Quota, None, "", hand_off()),
        (Quota, None, "no-fallback", RetryAction::EndTurn),
        (RateLimited, Some(60), "", wait()),
        (RateLimited, Some(60), "no-fallback", wait()),
        (RateLimited, Some(61), "", hand_off()),
        (RateLimited, Some(60), "waited", hand_off()),
        (
            RateLimited,
            Some(60),
            "waited no-fallback",
            RetryAction::EndTurn,
        ),
        (RateLimited, Some(60), "output", RetryAction::EndTurn),
        (
            RateLimited,
            Some(60),
            "send-now no-fallback",
            RetryAction::EndTurn,
        ),
        (RateLimited, Some(60), "fail-fast", hand_off()),
        (RateLimited, None, "", RetryAction::EndTurn),
    ];
    for (class, seconds, conditions, expected) in cases {
        let failure = failure(class, seconds.map(seconds_from_now));
        let prompt = FailedPrompt {
            now: now(),
            failure: &failure,
            has_output: conditions.contains("output"),
            has_waited: conditions.contains("waited"),
            wait_preference: match conditions {
                conditions if conditions.contains("send-now") => WaitPreference::SendNow,
                conditions if conditions.contains("fail-fast") => WaitPreference::FailFast,
                _ => WaitPreference::Wait,
            },
            fallbacks: if conditions.contains("no-fallback") {
                &[]
            } else {
                &fallbacks
            },
        };
        assert_eq!(plan_retry(&prompt), expected, "{prompt:?}");
    }
}

#[test]
fn a_limit_that_a_retry_cannot_pass_is_a_policy_stop() {
    use FailureClass::{Agent, Quota, RateLimited};
    let cases = [
        (Quota, None, true),
        (Quota, Some(seconds_from_now(5)), true),
        (RateLimited, None, false),
        (RateLimited, Some(seconds_from_now(60)), false),
        (RateLimited, Some(seconds_from_now(61)), true),
        (Agent, Some(seconds_from_now(3600)), false),
    ];
    for (class, retry_at, expected) in cases {
        let failure = failure(class, retry_at);
        assert_eq!(is_policy_stop(&failure, now()), expected, "{failure:?}");
    }
}

#[test]
fn a_leg_above_its_limit_returns_its_context_size() {
    let leg = |context_tokens, total_tokens| Leg {
        id: LegId::from_bits(1),
        number: 1,
        provider: provider("gemini"),
        mark: None,
        native_id: None,
        tip: None,
        consecutive_failures: 0,
        total_tokens,
        context_tokens,
        lost_context: false,
        estimated_tokens: None,
        opened_at: now(),
        ended: None,
    };
    let turn = |context_tokens, total_tokens| Usage {
        total_tokens,
        context_tokens,
        ..Usage::default()
    };
    let limit = 350_000;
    // Sizes recorded on the leg, sizes that the turn reported, and the expected excess.
    let cases = [
        (leg(None, None), turn(None, None), None),
        (leg(None, None), turn(Some(350_000), None), None),
        (leg(None, None), turn(Some(350_001), None), Some(350_001)),
        // The spent tokens do not count if the context size is known.
        (leg(None, Some(900_000)), turn(Some(5), Some(900_000)), None),
        (leg(Some(9), Some(900_000)), turn(None, Some(1)), None),
        (leg(None, Some(349_999)), turn(None, Some(1)), None),
        (leg(None, Some(349_999)), turn(None, Some(2)), Some(350_001)),
        (leg(None, None), turn(None, Some(400_000)), Some(400_000)),
        // A native session that the agent compacted is below the limit again.
        (leg(Some(400_000), None), turn(Some(20_000), None), None),
        (leg(Some(400_000), None), turn(None, None), Some(400_000)),
        (
            leg(None, Some(u64::MAX)),
            turn(None, Some(u64::MAX)),
            Some(u64::MAX),
        ),
    ];
    for (leg, turn, expected) in cases {
        assert_eq!(
            context_limit_excess(&leg, turn, limit),
            expected,
            "{leg:?} {turn:?}"
        );
    }
}

#[test]
fn the_limit_of_a_model_precedes_that_of_its_provider_and_the_default() {
    let limits = ContextLimits {
        providers: BTreeMap::from([(provider("codex"), 8_000), (provider("claude"), 0)]),
        models: BTreeMap::from([("gpt-5".into(), 100), ("gpt-5-mini".into(), 50)]),
        ..ContextLimits::default()
    };
    let cases = [
        ("gemini", None, Some(350_000)),
        ("gemini", Some("gemini-3-pro"), Some(350_000)),
        ("codex", None, Some(8_000)),
        ("codex", Some("o9"), Some(8_000)),
        ("codex", Some("gpt-5.5"), Some(100)),
        ("codex", Some("openai/gpt-5-mini-high"), Some(50)),
        ("claude", None, None),
        ("claude", Some("gpt-5"), Some(100)),
    ];
    for (name, model, expected) in cases {
        assert_eq!(
            limits.limit_for(&provider(name), model),
            expected,
            "{name} {model:?}"
        );
    }
}
