//! Prompts whose agent fails, is in cooldown or has no context left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use segue_agents::{AgentError, AgentDefaults, AgentRefusal};
use segue_core::agent::PermissionPolicy;
use segue_core::id::ProviderId;
use segue_core::policy::{WaitPreference, WaitReason, Policy, Cooldown, ProviderHealth};
use segue_core::session::{
    DecisionKind, FailureClass, LegEnd, OpenMode, StopReason, TurnState, Usage,
};
use segue_engine::{EngineError, StopLevel, Target, TurnEvent, TurnReport};
use segue_store::Store;

use crate::scripted::{Cue, Stage, done, same, say};

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Creates a policy without backoff and with these fallback agents.
fn policy(fallback: &[&str]) -> Policy {
    Policy {
        backoff: SignedDuration::ZERO,
        fallback: fallback.iter().map(|name| provider(name)).collect(),
        ..Policy::default()
    }
}

fn fails(class: FailureClass, words: &str) -> Cue {
    Cue::Fails(AgentError::from_refusal(
        "the prompt",
        AgentRefusal::new(class, words),
    ))
}

/// Runs a turn that the agent fails.
async fn failing(stage: &Stage, class: FailureClass, words: &str, target: Target) -> TurnReport {
    stage.script([fails(class, words)]);
    let request = stage.request("try", target);
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.state, TurnState::Failed, "{report:?}");
    report
}

fn decided(report: &TurnReport, kind: DecisionKind) -> Vec<&str> {
    let decisions = report.decisions.iter();
    let of_kind = decisions.filter(|decision| decision.kind == kind);
    of_kind.map(|decision| decision.text.as_str()).collect()
}

#[tokio::test]
async fn three_failures_begin_a_new_leg_and_three_more_stop() {
    let stage = Stage::with(&[], policy(&[]));
    let first = stage.turn("the password is swordfish", Target::New).await;
    let crash = || failing(&stage, FailureClass::Crashed, "boom", same(&first));
    for n in 1..=3 {
        let report = crash().await;
        let rotated = decided(&report, DecisionKind::Rotated);
        assert_eq!(rotated.len(), usize::from(n == 3), "{n}: {report:?}");
        assert_eq!(report.leg, Some(1));
    }
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Errors);

    // The fourth prompt starts a new native session with a brief, in which failures count from one.
    let fourth = crash().await;
    let (opened, why) = fourth.opened.clone().unwrap();
    assert_eq!((opened, fourth.leg), (OpenMode::Briefed, Some(2)));
    assert!(why.contains("failed too often"), "{why}");
    let told = stage.agent.heard.lock().unwrap().prompts[4].clone();
    assert!(told.contains("> the password is swordfish"), "{told}");
    // The brief marks failed turns, so that their prompts do not appear to be unanswered.
    assert_eq!(
        told.matches("system:\n> This turn failed.").count(),
        3,
        "{told}"
    );
    crash().await;
    let sixth = crash().await;
    let rotated = decided(&sixth, DecisionKind::Rotated);
    assert!(rotated[0].contains("once more"), "{rotated:?}");
    // The commands that the hint suggests are accepted.
    let hint = sixth.failure.unwrap().hint.unwrap().to_string();
    let id = &first.session;
    let ways = [
        format!("segue session handoff {id} -p NAME"),
        format!("segue chat --resume {id} --anyway"),
    ];
    assert!(ways.iter().all(|way| hint.contains(way)), "{hint}");

    // The seventh prompt is rejected, and only the rejection is recorded.
    let request = stage.request("try", same(&first));
    let stopped = stage.chat(request, |_| {}).await.unwrap_err();
    assert!(
        matches!(stopped, EngineError::RetriesExhausted { limit: 3, .. }),
        "{stopped:?}"
    );
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    assert_eq!(session.turns, 7);
    assert_eq!(stage.agent.heard.lock().unwrap().prompts.len(), 7);
    let log = stage.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(log[0].1.kind, DecisionKind::Stopped);

    // A forced retry is accepted, for one prompt.
    let refusal = AgentRefusal::new(FailureClass::Crashed, "boom");
    stage.script([Cue::Fails(AgentError::from_refusal("the prompt", refusal))]);
    let mut request = stage.request("try", same(&first));
    request.force = true;
    let report = stage.chat(request, |_| {}).await.unwrap();
    let hint = report.failure.unwrap().hint.unwrap().to_string();
    assert!(ways.iter().all(|way| hint.contains(way)), "{hint}");
    let stopped = stage.chat(stage.request("try", same(&first)), |_| {}).await;
    let stopped = stopped.unwrap_err();
    assert!(
        matches!(stopped, EngineError::RetriesExhausted { .. }),
        "{stopped:?}"
    );

    // A success clears all failures.
    stage.script([say("better now"), done()]);
    let mut request = stage.request("try", same(&first));
    request.force = true;
    let report = stage.chat(request, |_| {}).await.unwrap();
    // The native session of the forced retry was used for that prompt only.
    assert_eq!((report.state, report.leg), (TurnState::Finished, Some(4)));
    let scripted = provider("scripted");
    let standing = stage.store.provider_health(&first.session, &scripted);
    assert_eq!(standing.await.unwrap(), ProviderHealth::default());
}

#[tokio::test]
async fn a_success_a_cancel_and_a_limit_are_no_failures() {
    let stage = Stage::with(&[], policy(&[]));
    let first = stage.turn("one", Target::New).await;
    let fail = |class| failing(&stage, class, "no", same(&first));
    for _ in 0..2 {
        fail(FailureClass::Crashed).await;
        fail(FailureClass::TimedOut).await;
        fail(FailureClass::Quota).await;
        fail(FailureClass::NotLoggedIn).await;
        stage.script([Cue::Hang]);
        let request = stage.request("hm", same(&first));
        let stop = stage.stop.clone();
        let cancelled = stage.chat(request, |event| {
            if matches!(event, TurnEvent::Opened { .. }) {
                stop.send_replace(StopLevel::Graceful);
            }
        });
        assert_eq!(cancelled.await.unwrap().state, TurnState::Cancelled);
        stage.agent.cues.lock().unwrap().clear();
        stage.stop.send_replace(StopLevel::None);
        stage.turn("two", same(&first)).await;
    }
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!((legs.len(), legs[0].ended), (1, None));
}

#[tokio::test]
async fn after_a_failure_the_next_prompt_waits_is_refused_or_hurries() {
    let patient = Policy {
        backoff: SignedDuration::from_millis(300),
        ..Policy::default()
    };
    let stage = Stage::with(&[], patient);
    let first = stage.turn("one", Target::New).await;
    failing(&stage, FailureClass::Crashed, "boom", same(&first)).await;

    let mut request = stage.request("two", same(&first));
    request.wait_preference = WaitPreference::FailFast;
    let refused = stage.chat(request, |_| {}).await.unwrap_err();
    let EngineError::ProviderUnavailable { until, reason: why, .. } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(why, WaitReason::Failed);

    // The time is on disk, so another process waits as well.
    stage.script([say("here"), done()]);
    let (sender, _events) = tokio::sync::mpsc::channel(64);
    let request = stage.request("two", same(&first));
    let engine = stage.beside_it();
    let engine = engine.with_policy(Policy {
        backoff: SignedDuration::from_secs(10),
        ..Policy::default()
    });
    let report = engine.chat(request, sender).await.unwrap();
    assert!(Timestamp::now() >= until);
    let waited = decided(&report, DecisionKind::BackedOff);
    assert!(waited[0].contains("its last turn failed"), "{waited:?}");

    failing(&stage, FailureClass::Crashed, "boom", same(&first)).await;
    stage.script([say("at once"), done()]);
    let mut request = stage.request("three", same(&first));
    request.wait_preference = WaitPreference::SendNow;
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(decided(&report, DecisionKind::BackedOff), [""; 0]);
}

#[tokio::test]
async fn a_wait_can_be_stopped() {
    let patient = Policy {
        backoff: SignedDuration::from_secs(50),
        ..Policy::default()
    };
    let stage = Stage::with(&[], patient);
    let first = stage.turn("one", Target::New).await;
    failing(&stage, FailureClass::Crashed, "boom", same(&first)).await;
    let request = stage.request("two", same(&first));
    let stop = stage.stop.clone();
    let report = stage.chat(request, |event| {
        if matches!(&event, TurnEvent::Decided(decision) if decision.kind == DecisionKind::BackedOff)
        {
            stop.send_replace(StopLevel::Graceful);
        }
    });
    let report = report.await.unwrap();
    assert_eq!((report.state, report.sent), (TurnState::Cancelled, false));
    // The turn is not part of the history, but stays on record.
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    assert_eq!(
        (session.turns, session.head_state),
        (2, Some(TurnState::Failed))
    );
    let log = stage.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(log[0].1.text, "stopped before the prompt was sent: \"two\"");
    // No brief contains it.
    stage.stop.send_replace(StopLevel::None);
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    stage.script([say("yes"), done()]);
    let mut request = stage.request("three", same(&first));
    request.wait_preference = WaitPreference::SendNow;
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.turn, 3);
    let heard = stage.agent.heard.lock().unwrap().prompts.pop().unwrap();
    assert!(heard.contains("> one") && !heard.contains("two"), "{heard}");
}

/// Runs a turn that reports this usage.
async fn using(stage: &Stage, target: Target, usage: Usage) -> TurnReport {
    stage.script([say("hm"), Cue::Done(StopReason::EndTurn, usage)]);
    let request = stage.request("go", target);
    stage.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn a_leg_above_its_limit_is_over() {
    let stage = Stage::with(&[], Policy::default());
    let context = |tokens| Usage {
        context_tokens: Some(tokens),
        ..Usage::default()
    };
    let first = using(&stage, Target::New, context(350_000)).await;
    let second = using(&stage, same(&first), context(350_001)).await;
    assert_eq!(second.leg, Some(1), "350,000 goes on");
    let told = decided(&second, DecisionKind::Rotated);
    assert!(told[0].contains("holds 350,001 tokens"), "{told:?}");
    let third = using(&stage, same(&first), Usage::default()).await;
    assert_eq!(third.leg, Some(2));
    assert_eq!(third.opened.unwrap().0, OpenMode::Briefed);
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Full);
    // An unknown size does not exceed the limit. The spent tokens count if no context size is reported.
    let fourth = using(&stage, same(&first), Usage::default()).await;
    assert_eq!(fourth.leg, Some(2));
    let spent = Usage {
        total_tokens: Some(200_000),
        ..Usage::default()
    };
    for _ in 0..2 {
        let report = using(&stage, same(&first), spent).await;
        assert_eq!(report.leg, Some(2));
    }
    let last = using(&stage, same(&first), spent).await;
    assert_eq!(last.leg, Some(3));
}

#[tokio::test]
async fn an_agent_that_rests_hands_over_and_no_id_goes_with_it() {
    let stage = Stage::with(&["gemini", "codex"], policy(&["gemini", "codex"]));
    let [gemini, codex] = [&stage.others[0], &stage.others[1]];
    let play = |agent: &crate::scripted::Scripted, cues: Vec<Cue>| {
        agent.cues.lock().unwrap().extend(cues);
    };
    play(gemini, vec![say("noted"), done()]);
    let mut request = stage.request("the password is swordfish", Target::New);
    request.provider = Some(provider("gemini"));
    let first = stage.chat(request, |_| {}).await.unwrap();

    // The agent rejects the prompt before any output, so the turn continues with the next agent.
    play(
        gemini,
        vec![fails(
            FailureClass::Quota,
            "Your quota will reset after 2h52m39s",
        )],
    );
    play(codex, vec![say("swordfish"), done()]);
    let mut request = stage.request("what was it?", same(&first));
    request.model = Some("gemini-9".into());
    let second = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(second.state, TurnState::Finished);
    assert_eq!((second.provider.as_str(), second.leg), ("codex", Some(2)));
    let told = decided(&second, DecisionKind::HandedOff);
    assert!(
        told[0].starts_with("codex takes the prompt over from gemini, which rests until")
            && told[0].ends_with("; the model gemini-9 is one of gemini's"),
        "{told:?}"
    );
    let heard = codex.heard.lock().unwrap().prompts.clone();
    assert!(
        heard[0].contains("> the password is swordfish"),
        "{heard:?}"
    );
    assert_eq!(heard[0].matches("what was it?").count(), 1, "{heard:?}");
    let turns = stage.store.turns(&first.session).await.unwrap();
    let attempts = stage.store.attempts(turns[1].id).await.unwrap();
    let states: Vec<TurnState> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [TurnState::Failed, TurnState::Finished]);
    assert_eq!(
        attempts[0].failure.as_ref().unwrap().class,
        FailureClass::Quota
    );
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Handoff);

    // The session stays with codex, and requests for gemini in any session are sent to codex during the cooldown.
    play(codex, vec![say("still me"), done()]);
    let report = stage.chat(stage.request("and now?", same(&first)), |_| {});
    assert_eq!(report.await.unwrap().leg, Some(2));
    play(codex, vec![say("me again"), done()]);
    let mut request = stage.request("hello", Target::New);
    request.provider = Some(provider("gemini"));
    request.model = Some("gemini-9".into());
    gemini.defaults.lock().unwrap().permissions = PermissionPolicy::AllowAll;
    request.permissions = None;
    let other = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(other.provider.as_str(), "codex");
    let told = decided(&other, DecisionKind::HandedOff);
    assert!(
        told[0].starts_with("codex goes on, since gemini rests")
            && told[0].ends_with("; permissions are ask; the model gemini-9 is one of gemini's"),
        "{told:?}"
    );

    // Each agent was opened only with its own native ids.
    let named = |agent: &crate::scripted::Scripted| {
        let heard = agent.heard.lock().unwrap();
        let asked = heard.asked_for.iter().flatten();
        asked.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(named(gemini), ["gemini-1"]);
    assert_eq!(named(codex), ["codex-1"]);
}

#[tokio::test]
async fn what_was_begun_is_not_sent_again() {
    let stage = Stage::with(&["codex"], policy(&["codex"]));
    let first = stage.turn("one", Target::New).await;
    stage.script([
        say("I have edited"),
        fails(FailureClass::Quota, "quota: resets in 3 hours"),
    ]);
    let cut = stage.chat(stage.request("edit it", same(&first)), |_| {});
    let cut = cut.await.unwrap();
    assert_eq!(cut.state, TurnState::Failed);
    assert!(cut.stopped_by_policy);
    let codex = &stage.others[0];
    assert_eq!(codex.heard.lock().unwrap().prompts.len(), 0);
    // The next prompt is sent to the other agent, with a brief that contains the interrupted answer.
    codex.cues.lock().unwrap().extend([say("I see"), done()]);
    let next = stage.chat(stage.request("go on", same(&first)), |_| {});
    assert_eq!(next.await.unwrap().provider.as_str(), "codex");
    let told = codex.heard.lock().unwrap().prompts[0].clone();
    assert!(told.contains("> I have edited"), "{told}");
}

#[tokio::test]
async fn a_short_rest_is_waited_out_once_and_a_long_one_stops() {
    let stage = Stage::with(&["codex"], policy(&["codex"]));
    let first = stage.turn("one", Target::New).await;
    let limited = || fails(FailureClass::RateLimited, "rate limit: try again in 0.2s");
    stage.script([limited(), say("now"), done()]);
    let report = stage.chat(stage.request("two", same(&first)), |_| {});
    let report = report.await.unwrap();
    assert_eq!(report.state, TurnState::Finished);
    assert_eq!(
        (report.leg, report.provider.as_str()),
        (Some(1), "scripted")
    );
    assert_eq!(stage.store.cooldowns().await.unwrap(), [], "it is awake");
    let heard = stage.agent.heard.lock().unwrap().prompts.clone();
    assert_eq!(heard, ["one", "two", "two"]);

    // The prompt does not wait for the same agent twice.
    stage.script([limited(), limited()]);
    stage.others[0]
        .cues
        .lock()
        .unwrap()
        .extend([say("mine"), done()]);
    let report = stage.chat(stage.request("three", same(&first)), |_| {});
    assert_eq!(report.await.unwrap().provider.as_str(), "codex");

    // Without a fallback agent, a long cooldown is reported, and the next prompt is not sent.
    let stage = Stage::with(&["codex"], policy(&[]));
    let report = failing(
        &stage,
        FailureClass::Quota,
        "quota: resets in 3 hours",
        Target::New,
    )
    .await;
    assert!(report.stopped_by_policy);
    let next = stage.chat(stage.request("again", same(&report)), |_| {});
    let next = next.await.unwrap_err();
    assert!(
        matches!(
            next,
            EngineError::ProviderUnavailable {
                reason: WaitReason::Quota,
                ..
            }
        ),
        "{next:?}"
    );
    assert_eq!(stage.agent.heard.lock().unwrap().prompts.len(), 1);
    let new = stage.chat(stage.request("again", Target::New), |_| {});
    assert!(matches!(
        new.await.unwrap_err(),
        EngineError::ProviderUnavailable { session: None, .. }
    ));
    // A success clears the cooldown.
    stage.script([say("yes?"), done()]);
    let mut request = stage.request("now", same(&report));
    request.wait_preference = WaitPreference::SendNow;
    stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(stage.store.cooldowns().await.unwrap(), []);
}

#[tokio::test]
async fn a_refused_first_prompt_is_told_whole_again() {
    let stage = Stage::with(&[], policy(&[]));
    let first = stage.turn("the password is swordfish", Target::New).await;
    // The native session is lost, so a new one receives a brief, which it rejects at first.
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let look = stage.agent.clone();
    stage.script([
        Cue::Aside(Box::new(move || {
            Box::pin(async move { *look.goes_on.lock().unwrap() = OpenMode::Resumed })
        })),
        fails(
            FailureClass::RateLimited,
            "too many requests: retry in 0.1s",
        ),
        say("swordfish"),
        done(),
    ]);
    let report = stage.chat(stage.request("what was it?", same(&first)), |_| {});
    let report = report.await.unwrap();
    assert_eq!((report.state, report.leg), (TurnState::Finished, Some(2)));
    let heard = stage.agent.heard.lock().unwrap();
    assert_eq!(heard.prompts.len(), 3);
    assert_eq!(heard.prompts[1], heard.prompts[2]);
    assert!(heard.prompts[2].contains("> the password is swordfish"));
}

#[tokio::test]
async fn only_who_is_there_awake_and_well_goes_on() {
    let names = ["absent", "asleep", "failing", "well"];
    let stage = Stage::with(
        &names,
        policy(&["scripted", "absent", "asleep", "failing", "well"]),
    );
    let first = stage.turn("one", Target::New).await;
    stage.others[0].there.store(false, Ordering::Relaxed);
    let rest = Cooldown {
        provider: provider("asleep"),
        until: Timestamp::now() + SignedDuration::from_hours(1),
        class: FailureClass::Quota,
    };
    stage.store.set_cooldown(rest).await.unwrap();
    // The agent has failed in this session before.
    let mut request = stage.request("two", same(&first));
    request.provider = Some(provider("failing"));
    stage.others[2]
        .cues
        .lock()
        .unwrap()
        .extend([fails(FailureClass::Crashed, "boom")]);
    let impatient = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(impatient.state, TurnState::Failed);
    let lease = segue_store::LeaseRequest {
        session: first.session.clone(),
        owner: segue_agents::identify_process(std::process::id()).unwrap(),
        at: Timestamp::now(),
        expires_after: SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = stage.store.acquire_lease(lease).await.unwrap().lease;
    let hopeless = ProviderHealth {
        failed_legs: 2,
        ..ProviderHealth::default()
    };
    let failing = provider("failing");
    let noted = stage.store.set_provider_health(&lease, &failing, hopeless);
    noted.await.unwrap();
    stage.store.release_lease(&lease).await.unwrap();

    stage.script([fails(FailureClass::Quota, "quota: resets in 3 hours")]);
    stage.others[3]
        .cues
        .lock()
        .unwrap()
        .extend([say("well"), done()]);
    let mut request = stage.request("three", same(&first));
    request.provider = Some(provider("scripted"));
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.provider.as_str(), "well");
}

#[tokio::test]
async fn whoever_takes_over_by_itself_may_do_no_more() {
    use PermissionPolicy::{AllowAll, AllowReads, Ask, Deny};
    // The columns are the requested policy, the configured policies of the first and of the fallback agent, and the
    // policy that the fallback agent gets.
    let cases = [
        (None, Deny, AllowAll, Deny),
        (None, AllowAll, Ask, Ask),
        (Some(AllowReads), Deny, Ask, AllowReads),
    ];
    for (asked, first, other, expected) in cases {
        let stage = Stage::with(&["codex"], policy(&["codex"]));
        let with = |permissions| AgentDefaults {
            permissions,
            ..AgentDefaults::default()
        };
        *stage.agent.defaults.lock().unwrap() = with(first);
        *stage.others[0].defaults.lock().unwrap() = with(other);
        for handed_over_at_once in [false, true] {
            if !handed_over_at_once {
                stage.script([fails(FailureClass::Quota, "quota: resets in 3 hours")]);
            }
            stage.others[0]
                .cues
                .lock()
                .unwrap()
                .extend([say("hm"), done()]);
            let mut request = stage.request("go", Target::New);
            request.provider = Some(provider("scripted"));
            request.permissions = asked;
            let report = stage.chat(request, |_| {}).await.unwrap();
            assert_eq!(report.provider.as_str(), "codex");
            let heard = stage.others[0].heard.lock().unwrap();
            assert_eq!(heard.permissions.last(), Some(&expected));
        }
    }
}

#[tokio::test]
async fn a_rate_without_a_time_is_slowed_down_and_strictness_hands_nothing_over() {
    let slow = Policy {
        backoff: SignedDuration::from_hours(1),
        ..policy(&["codex"])
    };
    let stage = Stage::with(&["codex"], slow);
    let report = failing(
        &stage,
        FailureClass::RateLimited,
        "too many requests",
        Target::New,
    )
    .await;
    assert!(!report.stopped_by_policy);
    // The hint contains the time of the next attempt.
    let hint = report.failure.as_ref().unwrap().hint.as_ref();
    let hint = hint.unwrap().to_string();
    assert!(hint.starts_with("it can be tried again at 2"), "{hint}");
    let next = stage.chat(stage.request("again", same(&report)), |_| {});
    let next = next.await.unwrap_err();
    let EngineError::ProviderUnavailable { until, .. } = next else {
        panic!("{next:?}");
    };
    let hour = until.duration_since(Timestamp::now());
    assert!(hour > SignedDuration::from_mins(59), "{hour}");

    let stage = Stage::with(&["codex"], policy(&["codex"]));
    let first = stage.turn("one", Target::New).await;
    stage.script([fails(FailureClass::Quota, "quota: resets in 3 hours")]);
    let mut request = stage.request("two", same(&first));
    request.strict = true;
    request.turn_timeout = Some(Duration::from_mins(1));
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.provider.as_str(), "scripted");
    assert_eq!(report.state, TurnState::Failed);
}

#[tokio::test]
async fn a_fork_knows_who_answered_before_it() {
    let stage = Stage::with(&["codex"], policy(&[]));
    let first = stage.turn("one", Target::New).await;
    let codex = &stage.others[0];
    codex.cues.lock().unwrap().extend([say("mine"), done()]);
    let mut request = stage.request("two", same(&first));
    request.provider = Some(provider("codex"));
    stage.chat(request, |_| {}).await.unwrap();
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let forked = stage.engine.fork_session(&session, None, &session.project);
    let forked = forked.await.unwrap().session;
    let said = stage.engine.transcript(forked).await.unwrap().turns;
    let who: Vec<&str> = said.iter().map(|turn| turn.provider.as_str()).collect();
    assert_eq!(who, ["scripted", "codex"]);
}

#[tokio::test]
async fn what_was_spent_before_a_leg_was_taken_up_again_counts() {
    let stage = Stage::with(&[], Policy::default());
    let spent = |tokens| Usage {
        total_tokens: Some(tokens),
        ..Usage::default()
    };
    let first = using(&stage, Target::New, spent(200_000)).await;
    using(&stage, same(&first), spent(100_000)).await;
    let session = || async { stage.store.session(&first.session).await.unwrap().unwrap() };
    stage.engine.revert_session(&session().await, 1).await.unwrap();
    using(&stage, same(&first), spent(1)).await;
    stage.engine.undo_revert(&session().await).await.unwrap();
    let last = using(&stage, same(&first), spent(50_001)).await;
    assert_eq!((last.leg, &last.native_id), (Some(3), &first.native_id));
    let told = decided(&last, DecisionKind::Rotated);
    assert!(told[0].contains("holds 350,001 tokens"), "{told:?}");
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[2].total_tokens, Some(50_001), "what it spent itself");
}
