use std::collections::BTreeMap;

use super::*;
use crate::id::LegId;
use crate::session::{Leg, Usage};

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
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
fn failures_are_the_agents_its_limits_or_the_users() {
    use FailureClass::{
        Agent, ContextTooLong, Crashed, NotLoggedIn, NotStarted, NotUnderstood, Quota, RateLimited,
        SessionUnknown, TimedOut, UntrustedFolder,
    };
    let cases = [
        (NotStarted, Setback::Mistake),
        (Crashed, Setback::Failure),
        (TimedOut, Setback::Failure),
        (Agent, Setback::Failure),
        (NotUnderstood, Setback::Failure),
        (SessionUnknown, Setback::Mistake),
        (Quota, Setback::Limit),
        (RateLimited, Setback::Limit),
        (ContextTooLong, Setback::Failure),
        (NotLoggedIn, Setback::Mistake),
        (UntrustedFolder, Setback::Mistake),
    ];
    for (class, expected) in cases {
        assert_eq!(setback(class), expected, "{class:?}");
    }
}

/// Applies failures one after the other. Returns the recorded health after each, and whether the leg ended.
fn story(policy: &Policy, failures: &[Failure]) -> Vec<(u32, u32, u32, Option<i64>, bool)> {
    let mut standing = Standing::default();
    let told = failures.iter().map(|failure| {
        let aftermath = standing.after(failure, policy, now());
        standing = aftermath.standing;
        let rest = standing
            .retry_at
            .map(|until| until.duration_since(now()).as_secs());
        let Standing {
            failures,
            limited,
            rotations,
            ..
        } = standing;
        (failures, limited, rotations, rest, aftermath.rotates)
    });
    told.collect()
}

#[test]
fn every_third_failure_ends_a_leg_and_the_second_such_end_is_the_last() {
    let policy = Policy::default();
    let crash = failure(FailureClass::Crashed, None);
    let told = story(&policy, &vec![crash.clone(); 6]);
    let expected = [
        (1, 0, 0, Some(10), false),
        (2, 0, 0, Some(20), false),
        (0, 0, 1, Some(30), true),
        (1, 0, 1, Some(10), false),
        (2, 0, 1, Some(20), false),
        (0, 0, 2, Some(30), true),
    ];
    assert_eq!(told, expected);
    let hopeless = |rotations| {
        Standing {
            rotations,
            ..Standing::default()
        }
        .is_hopeless()
    };
    assert_eq!([0, 1, 2, 3].map(hopeless), [false, false, true, true]);
}

#[test]
fn limits_and_mistakes_are_no_failures() {
    let policy = Policy::default();
    let crash = || failure(FailureClass::Crashed, None);
    let told = story(
        &policy,
        &[
            crash(),
            crash(),
            failure(FailureClass::Quota, Some(after(3600))),
            failure(FailureClass::Quota, None),
            failure(FailureClass::NotLoggedIn, None),
            failure(FailureClass::RateLimited, Some(after(40))),
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
    assert_eq!(told, expected);
}

#[test]
fn the_limits_are_the_users() {
    let crash = || failure(FailureClass::Agent, None);
    let patient = Policy {
        error_limit: 0,
        backoff: SignedDuration::ZERO,
        ..Policy::default()
    };
    let told = story(&patient, &[crash(), crash(), crash(), crash()]);
    assert_eq!(told[3], (4, 0, 0, None, false));
    let strict = Policy {
        error_limit: 1,
        backoff: SignedDuration::MAX,
        ..Policy::default()
    };
    let told = story(&strict, &[crash()]);
    assert!(told[0].4 && told[0].3.is_some(), "{told:?}");
    // More failures than can be counted or multiplied without overflow.
    let worn = Standing {
        failures: u32::MAX,
        limited: u32::MAX,
        rotations: u32::MAX,
        retry_at: None,
    };
    let aftermath = worn.after(&crash(), &Policy::default(), Timestamp::MAX);
    assert_eq!(aftermath.standing.rotations, u32::MAX);
}

#[test]
fn only_a_limit_with_a_time_is_a_rest() {
    let gemini = provider("gemini");
    let cases = [
        (FailureClass::Quota, Some(after(60)), true),
        (FailureClass::RateLimited, Some(after(1)), true),
        (FailureClass::RateLimited, Some(now()), false),
        (FailureClass::Quota, None, false),
        (FailureClass::Crashed, Some(after(60)), false),
    ];
    for (class, retry_at, rests) in cases {
        let rest = Rest::told_by(&gemini, &failure(class, retry_at), now());
        assert_eq!(rest.is_some(), rests, "{class:?} {retry_at:?}");
    }
}

/// Creates the input for a prompt to a healthy provider.
fn arrival<'a>() -> Arrival<'a> {
    Arrival {
        now: now(),
        standing: Standing::default(),
        rest: None,
        haste: Haste::Wait,
        anyway: false,
        others: &[],
    }
}

fn failed_until(seconds: i64) -> Standing {
    Standing {
        failures: 1,
        retry_at: Some(after(seconds)),
        ..Standing::default()
    }
}

fn rest(seconds: i64) -> Rest {
    Rest {
        provider: provider("gemini"),
        until: after(seconds),
        class: FailureClass::Quota,
    }
}

/// Checks the admission of a prompt in named situations.
fn check_arrivals(cases: &[(&str, Arrival<'_>, Admission)]) {
    for (name, arrival, expected) in cases {
        assert_eq!(admit(arrival, &Policy::default()), *expected, "{name}");
    }
}

#[test]
fn after_a_failure_a_prompt_waits_and_after_too_many_it_is_stopped() {
    let others = [provider("codex"), provider("claude")];
    let failed = |seconds| Arrival {
        standing: failed_until(seconds),
        ..arrival()
    };
    let hopeless = Arrival {
        standing: Standing {
            rotations: 2,
            ..Standing::default()
        },
        haste: Haste::Ignore,
        others: &others,
        ..arrival()
    };
    let (in_vain, in_haste, well_attended, anyway) = (
        Arrival {
            haste: Haste::Refuse,
            ..failed(10)
        },
        Arrival {
            haste: Haste::Ignore,
            ..failed(10)
        },
        Arrival {
            others: &others,
            ..failed(10)
        },
        Arrival {
            anyway: true,
            standing: Standing {
                retry_at: Some(after(30)),
                ..hopeless.standing
            },
            haste: Haste::Wait,
            ..hopeless
        },
    );
    let wait = |seconds| Admission::Wait(after(seconds), Pause::Failed);
    let not_yet = Admission::NotYet(after(10), Pause::Failed);
    check_arrivals(&[
        ("all is well", arrival(), Admission::Go),
        ("it failed a moment ago", failed(10), wait(10)),
        ("it failed, and that is over", failed(0), Admission::Go),
        ("others could go on", well_attended, wait(10)),
        ("the clock was put back", failed(86_400), wait(30)),
        ("the caller wants to be told", in_vain, not_yet),
        ("the caller wants it now", in_haste, Admission::Go),
        ("leg after leg failed", hopeless, Admission::Hopeless),
        ("it goes on anyway", anyway, Admission::Go),
    ]);
}

#[test]
fn a_short_rest_is_waited_out_and_a_long_one_hands_over_or_stops() {
    let (short, long, over) = (rest(60), rest(61), rest(0));
    let codex = [provider("codex"), provider("claude")];
    let resting = |rest, others| Arrival {
        rest: Some(rest),
        others,
        ..arrival()
    };
    let told = Arrival {
        haste: Haste::Refuse,
        ..resting(&short, &codex)
    };
    let now = Arrival {
        haste: Haste::Ignore,
        ..resting(&long, &codex)
    };
    let both = Arrival {
        standing: failed_until(10),
        ..resting(&short, &[])
    };
    let wait = || Admission::Wait(after(60), Pause::Quota);
    let not_yet = Admission::NotYet(after(61), Pause::Quota);
    let hand_over = |seconds| Admission::HandOver(provider("codex"), after(seconds), Pause::Quota);
    check_arrivals(&[
        ("a minute", resting(&short, &codex), wait()),
        ("longer", resting(&long, &[]), not_yet),
        ("longer, and others", resting(&long, &codex), hand_over(61)),
        ("a minute, and nobody waits", told, hand_over(60)),
        ("longer, and the caller wants it now", now, Admission::Go),
        ("it is over", resting(&over, &codex), Admission::Go),
        ("a failure before it", both, wait()),
    ]);
}

#[test]
fn only_what_was_refused_unheard_is_sent_again() {
    use FailureClass::{Crashed, Quota, RateLimited};
    let others = [provider("codex")];
    let codex = || Next::HandOver(provider("codex"));
    let wait = || Next::Wait(after(60));
    // The failure class, the seconds until the retry time, other conditions, and the expected action.
    let cases = [
        (Crashed, Some(5), "", Next::Settle),
        (Quota, Some(3600), "", codex()),
        (Quota, Some(3600), "alone", Next::Settle),
        (Quota, Some(3600), "heard", Next::Settle),
        (Quota, None, "", codex()),
        (Quota, None, "alone", Next::Settle),
        (RateLimited, Some(60), "", wait()),
        (RateLimited, Some(60), "alone", wait()),
        (RateLimited, Some(61), "", codex()),
        (RateLimited, Some(60), "waited", codex()),
        (RateLimited, Some(60), "waited alone", Next::Settle),
        (RateLimited, Some(60), "heard", Next::Settle),
        (RateLimited, Some(60), "ignore alone", Next::Settle),
        (RateLimited, Some(60), "refuse", codex()),
        (RateLimited, None, "", Next::Settle),
    ];
    for (class, seconds, so, expected) in cases {
        let failure = failure(class, seconds.map(after));
        let refused = Refused {
            now: now(),
            failure: &failure,
            heard: so.contains("heard"),
            waited: so.contains("waited"),
            haste: match so {
                so if so.contains("ignore") => Haste::Ignore,
                so if so.contains("refuse") => Haste::Refuse,
                _ => Haste::Wait,
            },
            others: if so.contains("alone") { &[] } else { &others },
        };
        assert_eq!(after_refusal(&refused), expected, "{refused:?}");
    }
}

#[test]
fn what_no_new_try_would_help_is_a_stop() {
    use FailureClass::{Agent, Quota, RateLimited};
    let cases = [
        (Quota, None, true),
        (Quota, Some(after(5)), true),
        (RateLimited, None, false),
        (RateLimited, Some(after(60)), false),
        (RateLimited, Some(after(61)), true),
        (Agent, Some(after(3600)), false),
    ];
    for (class, retry_at, stops) in cases {
        let failure = failure(class, retry_at);
        assert_eq!(is_policy_stop(&failure, now()), stops, "{failure:?}");
    }
}

#[test]
fn a_leg_is_full_above_its_limit() {
    let leg = |context_tokens, total_tokens| Leg {
        id: LegId(1),
        n: 1,
        provider: provider("gemini"),
        mark: None,
        native_id: None,
        tip: None,
        consecutive_failures: 0,
        total_tokens,
        context_tokens,
        forgot: false,
        held_tokens: None,
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
        assert_eq!(is_full(&leg, turn, limit), expected, "{leg:?} {turn:?}");
    }
}

#[test]
fn a_model_counts_before_its_agent_and_that_before_all() {
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
            limits.of(&provider(name), model),
            expected,
            "{name} {model:?}"
        );
    }
}
