//! Prompts whose agent fails, is in cooldown or has no context left.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use segue_core::agent::PermissionPolicy;
use segue_core::id::ProviderId;
use segue_core::policy::{Cooldown, Policy, ProviderHealth, WaitPreference, WaitReason};
use segue_core::session::{
    DecisionKind, FailureClass, LegEnd, OpenMode, PromptRefusal, StopReason, TurnState, Usage,
};
use segue_engine::{EngineSettings, StopLevel, Target, TurnError, TurnEvent, TurnReport};
use segue_providers::{AgentDefaults, AgentError, AgentRefusal};

use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};
use crate::{decision_text, hint_text, open_mode_and_reason};

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

/// Creates a policy without backoff and with these fallback agents.
fn policy_with_fallback(fallback: &[&str]) -> Policy {
    Policy {
        backoff: SignedDuration::ZERO,
        fallback: fallback.iter().map(|name| provider(name)).collect(),
        ..Policy::default()
    }
}

fn fail_turn(class: FailureClass, message: &str) -> ScriptedAction {
    ScriptedAction::TurnFailed(AgentError::from_refusal(
        "the prompt",
        AgentRefusal::new(class, message),
    ))
}

/// Runs a turn that the agent fails.
async fn run_failing_turn(
    harness: &EngineHarness,
    class: FailureClass,
    message: &str,
    target: Target,
) -> TurnReport {
    harness.script([fail_turn(class, message)]);
    let request = harness.request("try", target);
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.state, TurnState::Failed, "{report:?}");
    report
}

fn decision_texts(report: &TurnReport, kind: DecisionKind) -> Vec<String> {
    let decisions = report.decisions.iter();
    let matching = decisions.filter(|decision| decision.kind() == kind);
    matching.map(decision_text).collect()
}

fn refusal_of(error: &TurnError) -> &PromptRefusal {
    match error {
        TurnError::PromptRefused { refusal, .. } => refusal,
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one sequence of prompts")]
async fn three_failures_start_a_new_leg_and_three_more_stop_retries() {
    let harness = EngineHarness::with_agents(&[], policy_with_fallback(&[]));
    let first = harness
        .run_turn("the password is swordfish", Target::New)
        .await;
    let crash = || {
        run_failing_turn(
            &harness,
            FailureClass::Crashed,
            "boom",
            session_target(&first),
        )
    };
    for n in 1..=3 {
        let report = crash().await;
        let rotated = decision_texts(&report, DecisionKind::Rotated);
        assert_eq!(rotated.len(), usize::from(n == 3), "{n}: {report:?}");
        assert_eq!(report.leg, Some(1));
    }
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Errors);

    // The fourth prompt starts a new native session with a brief, in which failures count from one.
    let fourth = crash().await;
    let (mode, reason) = open_mode_and_reason(&fourth);
    assert_eq!((mode, fourth.leg), (OpenMode::Briefed, Some(2)));
    assert!(reason.contains("failed too often"), "{reason}");
    let brief = harness.agent.received.lock().unwrap().prompts[4].clone();
    assert!(brief.contains("> the password is swordfish"), "{brief}");
    // The brief marks failed turns, so that their prompts do not appear to be unanswered.
    assert_eq!(
        brief.matches("system:\n> This turn failed.").count(),
        3,
        "{brief}"
    );
    crash().await;
    let sixth = crash().await;
    let rotated = decision_texts(&sixth, DecisionKind::Rotated);
    assert!(
        rotated[0].contains("after 3 more failures in a row"),
        "{rotated:?}"
    );
    // The commands that the hint suggests are accepted.
    let hint = hint_text(&sixth.failure.unwrap().hint.unwrap());
    let id = &first.session;
    let commands = [
        format!("segue session handoff {id} -p NAME"),
        format!("segue chat --resume {id} --anyway"),
    ];
    assert!(
        commands.iter().all(|command| hint.contains(command)),
        "{hint}"
    );

    // The seventh prompt is rejected, and only the rejection is recorded.
    let request = harness.request("try", session_target(&first));
    let error = harness.chat(request, |_| {}).await.unwrap_err();
    assert!(
        matches!(
            refusal_of(&error),
            PromptRefusal::RetriesExhausted { limit: 3, .. }
        ),
        "{error:?}"
    );
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(session.turns, 7);
    assert_eq!(harness.agent.received.lock().unwrap().prompts.len(), 7);
    let log = harness.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(log[0].1.kind(), DecisionKind::Stopped);

    // A forced retry is accepted, for one prompt.
    let refusal = AgentRefusal::new(FailureClass::Crashed, "boom");
    harness.script([ScriptedAction::TurnFailed(AgentError::from_refusal(
        "the prompt",
        refusal,
    ))]);
    let mut request = harness.request("try", session_target(&first));
    request.force = true;
    let report = harness.chat(request, |_| {}).await.unwrap();
    let hint = hint_text(&report.failure.unwrap().hint.unwrap());
    assert!(
        commands.iter().all(|command| hint.contains(command)),
        "{hint}"
    );
    let result = harness
        .chat(harness.request("try", session_target(&first)), |_| {})
        .await;
    let error = result.unwrap_err();
    assert!(
        matches!(refusal_of(&error), PromptRefusal::RetriesExhausted { .. }),
        "{error:?}"
    );

    // A success clears all failures.
    harness.script([send_text("better now"), end_turn()]);
    let mut request = harness.request("try", session_target(&first));
    request.force = true;
    let report = harness.chat(request, |_| {}).await.unwrap();
    // The native session of the forced retry was used for that prompt only.
    assert_eq!((report.state, report.leg), (TurnState::Finished, Some(4)));
    let scripted = provider("scripted");
    let snapshot = harness.store.session_snapshot(&first.session).await;
    let providers = snapshot.unwrap().unwrap().providers;
    assert_eq!(providers.health_of(&scripted), ProviderHealth::default());
}

#[tokio::test]
async fn successes_cancels_and_limits_do_not_count_as_failures() {
    let harness = EngineHarness::with_agents(&[], policy_with_fallback(&[]));
    let first = harness.run_turn("one", Target::New).await;
    let fail = |class| run_failing_turn(&harness, class, "no", session_target(&first));
    for _ in 0..2 {
        fail(FailureClass::Crashed).await;
        fail(FailureClass::TimedOut).await;
        fail(FailureClass::Quota).await;
        fail(FailureClass::NotLoggedIn).await;
        harness.script([ScriptedAction::Hang]);
        let request = harness.request("hm", session_target(&first));
        let stop = harness.stop.clone();
        let cancelled = harness.chat(request, |event| {
            if matches!(event, TurnEvent::Opened { .. }) {
                stop.send_replace(StopLevel::Graceful);
            }
        });
        assert_eq!(cancelled.await.unwrap().state, TurnState::Cancelled);
        harness.agent.actions.lock().unwrap().clear();
        harness.stop.send_replace(StopLevel::None);
        harness.run_turn("two", session_target(&first)).await;
    }
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!((legs.len(), legs[0].ended), (1, None));
}

#[tokio::test]
async fn the_prompt_after_a_failure_waits_is_refused_or_skips_the_backoff() {
    let backoff_policy = Policy {
        backoff: SignedDuration::from_millis(300),
        ..Policy::default()
    };
    let harness = EngineHarness::with_agents(&[], backoff_policy);
    let first = harness.run_turn("one", Target::New).await;
    run_failing_turn(
        &harness,
        FailureClass::Crashed,
        "boom",
        session_target(&first),
    )
    .await;

    let mut request = harness.request("two", session_target(&first));
    request.wait_preference = WaitPreference::FailFast;
    let error = harness.chat(request, |_| {}).await.unwrap_err();
    let PromptRefusal::Unavailable { until, reason } = *refusal_of(&error) else {
        panic!("{error:?}");
    };
    assert_eq!(reason, WaitReason::Failed);

    // The time is on disk, so another process waits as well.
    harness.script([send_text("here"), end_turn()]);
    let (sender, _events) = tokio::sync::mpsc::channel(64);
    let request = harness.request("two", session_target(&first));
    let engine = harness.second_engine_with(EngineSettings {
        policy: Policy {
            backoff: SignedDuration::from_secs(10),
            ..Policy::default()
        },
        ..EngineSettings::default()
    });
    let report = engine.chat(request, sender).await.unwrap();
    assert!(Timestamp::now() >= until);
    let backoffs = decision_texts(&report, DecisionKind::BackedOff);
    assert!(backoffs[0].contains("the last turn failed"), "{backoffs:?}");

    run_failing_turn(
        &harness,
        FailureClass::Crashed,
        "boom",
        session_target(&first),
    )
    .await;
    harness.script([send_text("at once"), end_turn()]);
    let mut request = harness.request("three", session_target(&first));
    request.wait_preference = WaitPreference::SendNow;
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(decision_texts(&report, DecisionKind::BackedOff), [""; 0]);
}

#[tokio::test]
async fn a_wait_can_be_stopped() {
    let backoff_policy = Policy {
        backoff: SignedDuration::from_secs(50),
        ..Policy::default()
    };
    let harness = EngineHarness::with_agents(&[], backoff_policy);
    let first = harness.run_turn("one", Target::New).await;
    run_failing_turn(
        &harness,
        FailureClass::Crashed,
        "boom",
        session_target(&first),
    )
    .await;
    let request = harness.request("two", session_target(&first));
    let stop = harness.stop.clone();
    let report = harness.chat(request, |event| {
        if matches!(&event, TurnEvent::Decided(decision) if decision.kind() == DecisionKind::BackedOff)
        {
            stop.send_replace(StopLevel::Graceful);
        }
    });
    let report = report.await.unwrap();
    assert_eq!((report.state, report.sent), (TurnState::Cancelled, false));
    // The turn is not part of the history, but stays on record.
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (session.turns, session.head_state),
        (2, Some(TurnState::Failed))
    );
    let log = harness.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(
        decision_text(&log[0].1),
        "stopped before the prompt was sent: \"two\""
    );
    // No brief contains it.
    harness.stop.send_replace(StopLevel::None);
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    harness.script([send_text("yes"), end_turn()]);
    let mut request = harness.request("three", session_target(&first));
    request.wait_preference = WaitPreference::SendNow;
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.turn, 3);
    let brief = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .pop()
        .unwrap();
    assert!(brief.contains("> one") && !brief.contains("two"), "{brief}");
}

/// Runs a turn that reports this usage.
async fn run_turn_with_usage(harness: &EngineHarness, target: Target, usage: Usage) -> TurnReport {
    harness.script([
        send_text("hm"),
        ScriptedAction::TurnEnded(StopReason::EndTurn, usage),
    ]);
    let request = harness.request("go", target);
    harness.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn a_leg_above_its_context_limit_is_ended() {
    let harness = EngineHarness::with_agents(&[], Policy::default());
    let context_usage = |tokens| Usage {
        context_tokens: Some(tokens),
        ..Usage::default()
    };
    let first = run_turn_with_usage(&harness, Target::New, context_usage(350_000)).await;
    let second =
        run_turn_with_usage(&harness, session_target(&first), context_usage(350_001)).await;
    assert_eq!(
        second.leg,
        Some(1),
        "a native session at the limit is resumed"
    );
    let rotations = decision_texts(&second, DecisionKind::Rotated);
    assert!(rotations[0].contains("at 350,001 tokens"), "{rotations:?}");
    let third = run_turn_with_usage(&harness, session_target(&first), Usage::default()).await;
    assert_eq!(third.leg, Some(2));
    assert_eq!(third.opened.unwrap().0, OpenMode::Briefed);
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Full);
    // An unknown size does not exceed the limit. The spent tokens count if no context size is reported.
    let fourth = run_turn_with_usage(&harness, session_target(&first), Usage::default()).await;
    assert_eq!(fourth.leg, Some(2));
    let spent = Usage {
        total_tokens: Some(200_000),
        ..Usage::default()
    };
    for _ in 0..2 {
        let report = run_turn_with_usage(&harness, session_target(&first), spent).await;
        assert_eq!(report.leg, Some(2));
    }
    let last = run_turn_with_usage(&harness, session_target(&first), spent).await;
    assert_eq!(last.leg, Some(3));
}

#[tokio::test]
async fn an_agent_in_cooldown_hands_off_without_its_native_ids() {
    let harness = EngineHarness::with_agents(
        &["gemini", "codex"],
        policy_with_fallback(&["gemini", "codex"]),
    );
    let [gemini, codex] = [&harness.other_agents[0], &harness.other_agents[1]];
    let script_agent = |agent: &crate::scripted::ScriptedAgent, actions: Vec<ScriptedAction>| {
        agent.actions.lock().unwrap().extend(actions);
    };
    script_agent(gemini, vec![send_text("noted"), end_turn()]);
    let mut request = harness.request("the password is swordfish", Target::New);
    request.provider = Some(provider("gemini"));
    let first = harness.chat(request, |_| {}).await.unwrap();

    // The agent rejects the prompt before any output, so the turn continues with the next agent.
    script_agent(
        gemini,
        vec![fail_turn(
            FailureClass::Quota,
            "Your quota will reset after 2h52m39s",
        )],
    );
    script_agent(codex, vec![send_text("swordfish"), end_turn()]);
    let mut request = harness.request("what was it?", session_target(&first));
    request.model = Some("gemini-9".into());
    let second = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(second.state, TurnState::Finished);
    assert_eq!((second.provider.as_str(), second.leg), ("codex", Some(2)));
    let handoffs = decision_texts(&second, DecisionKind::HandedOff);
    assert!(
        handoffs[0]
            .starts_with("codex took over the prompt from gemini, which is in cooldown until")
            && handoffs[0].ends_with("; ignored the model gemini-9, which belongs to gemini"),
        "{handoffs:?}"
    );
    let prompts = codex.received.lock().unwrap().prompts.clone();
    assert!(
        prompts[0].contains("> the password is swordfish"),
        "{prompts:?}"
    );
    assert_eq!(prompts[0].matches("what was it?").count(), 1, "{prompts:?}");
    let turns = harness.store.turns(&first.session).await.unwrap();
    let attempts = harness.store.attempts(turns[1].id).await.unwrap();
    let states: Vec<TurnState> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [TurnState::Failed, TurnState::Finished]);
    assert_eq!(
        attempts[0].failure.as_ref().unwrap().class,
        FailureClass::Quota
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Handoff);

    // The session stays with codex, and requests for gemini in any session are sent to codex during the cooldown.
    script_agent(codex, vec![send_text("still me"), end_turn()]);
    let report = harness.chat(harness.request("and now?", session_target(&first)), |_| {});
    assert_eq!(report.await.unwrap().leg, Some(2));
    script_agent(codex, vec![send_text("me again"), end_turn()]);
    let mut request = harness.request("hello", Target::New);
    request.provider = Some(provider("gemini"));
    request.model = Some("gemini-9".into());
    gemini.defaults.lock().unwrap().permissions = PermissionPolicy::AllowAll;
    request.permissions = None;
    let other_report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(other_report.provider.as_str(), "codex");
    let handoffs = decision_texts(&other_report, DecisionKind::HandedOff);
    assert!(
        handoffs[0].starts_with("codex took over: gemini is in cooldown until")
            && handoffs[0]
                .ends_with("; the permission policy is ask; ignored the model gemini-9, which belongs to gemini"),
        "{handoffs:?}"
    );

    // Each agent was opened only with its own native ids.
    let requested_ids = |agent: &crate::scripted::ScriptedAgent| {
        let received = agent.received.lock().unwrap();
        let ids = received.requested_ids.iter().flatten();
        ids.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(requested_ids(gemini), ["gemini-1"]);
    assert_eq!(requested_ids(codex), ["codex-1"]);
}

#[tokio::test]
async fn a_partially_answered_prompt_is_not_resent() {
    let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&["codex"]));
    let first = harness.run_turn("one", Target::New).await;
    harness.script([
        send_text("I have edited"),
        fail_turn(FailureClass::Quota, "quota: resets in 3 hours"),
    ]);
    let failed = harness.chat(harness.request("edit it", session_target(&first)), |_| {});
    let failed = failed.await.unwrap();
    assert_eq!(failed.state, TurnState::Failed);
    assert!(failed.stopped_by_policy);
    let codex = &harness.other_agents[0];
    assert_eq!(codex.received.lock().unwrap().prompts.len(), 0);
    // The next prompt is sent to the other agent, with a brief that contains the interrupted answer.
    codex
        .actions
        .lock()
        .unwrap()
        .extend([send_text("I see"), end_turn()]);
    let next = harness.chat(harness.request("go on", session_target(&first)), |_| {});
    assert_eq!(next.await.unwrap().provider.as_str(), "codex");
    let brief = codex.received.lock().unwrap().prompts[0].clone();
    assert!(brief.contains("> I have edited"), "{brief}");
}

#[tokio::test]
async fn a_prompt_waits_once_for_a_short_cooldown_and_stops_at_a_long_one() {
    let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&["codex"]));
    let first = harness.run_turn("one", Target::New).await;
    let rate_limit = || fail_turn(FailureClass::RateLimited, "rate limit: try again in 0.2s");
    harness.script([rate_limit(), send_text("now"), end_turn()]);
    let report = harness.chat(harness.request("two", session_target(&first)), |_| {});
    let report = report.await.unwrap();
    assert_eq!(report.state, TurnState::Finished);
    assert_eq!(
        (report.leg, report.provider.as_str()),
        (Some(1), "scripted")
    );
    assert_eq!(
        harness.store.cooldowns().await.unwrap(),
        [],
        "the cooldown was cleared"
    );
    let prompts = harness.agent.received.lock().unwrap().prompts.clone();
    assert_eq!(prompts, ["one", "two", "two"]);

    // The prompt does not wait for the same agent twice.
    harness.script([rate_limit(), rate_limit()]);
    harness.other_agents[0]
        .actions
        .lock()
        .unwrap()
        .extend([send_text("mine"), end_turn()]);
    let report = harness.chat(harness.request("three", session_target(&first)), |_| {});
    assert_eq!(report.await.unwrap().provider.as_str(), "codex");

    // Without a fallback agent, a long cooldown is reported, and the next prompt is not sent.
    let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&[]));
    let report = run_failing_turn(
        &harness,
        FailureClass::Quota,
        "quota: resets in 3 hours",
        Target::New,
    )
    .await;
    assert!(report.stopped_by_policy);
    let next = harness.chat(harness.request("again", session_target(&report)), |_| {});
    let error = next.await.unwrap_err();
    assert!(
        matches!(
            refusal_of(&error),
            PromptRefusal::Unavailable {
                reason: WaitReason::Quota,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(harness.agent.received.lock().unwrap().prompts.len(), 1);
    let new_session = harness.chat(harness.request("again", Target::New), |_| {});
    assert!(matches!(
        new_session.await.unwrap_err(),
        TurnError::PromptRefused { session: None, .. }
    ));
    // A success clears the cooldown.
    harness.script([send_text("yes?"), end_turn()]);
    let mut request = harness.request("now", session_target(&report));
    request.wait_preference = WaitPreference::SendNow;
    harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(harness.store.cooldowns().await.unwrap(), []);
}

#[tokio::test]
async fn a_rejected_first_prompt_is_resent_with_its_complete_brief() {
    let harness = EngineHarness::with_agents(&[], policy_with_fallback(&[]));
    let first = harness
        .run_turn("the password is swordfish", Target::New)
        .await;
    // The native session is lost, so a new one receives a brief, which it rejects at first.
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let agent = harness.agent.clone();
    harness.script([
        ScriptedAction::SideEffect(Box::new(move || {
            Box::pin(async move { *agent.resume_mode.lock().unwrap() = OpenMode::Resumed })
        })),
        fail_turn(
            FailureClass::RateLimited,
            "too many requests: retry in 0.1s",
        ),
        send_text("swordfish"),
        end_turn(),
    ]);
    let report = harness.chat(
        harness.request("what was it?", session_target(&first)),
        |_| {},
    );
    let report = report.await.unwrap();
    assert_eq!((report.state, report.leg), (TurnState::Finished, Some(2)));
    let received = harness.agent.received.lock().unwrap();
    assert_eq!(received.prompts.len(), 3);
    assert_eq!(received.prompts[1], received.prompts[2]);
    assert!(received.prompts[2].contains("> the password is swordfish"));
}

#[tokio::test]
async fn only_an_installed_available_and_healthy_agent_is_a_fallback() {
    let names = ["absent", "paused", "failing", "healthy"];
    let harness = EngineHarness::with_agents(
        &names,
        policy_with_fallback(&["scripted", "absent", "paused", "failing", "healthy"]),
    );
    let first = harness.run_turn("one", Target::New).await;
    harness.other_agents[0]
        .is_installed
        .store(false, Ordering::Relaxed);
    let cooldown = Cooldown {
        provider: provider("paused"),
        until: Timestamp::now() + SignedDuration::from_hours(1),
        class: FailureClass::Quota,
    };
    harness.store.set_cooldown(cooldown).await.unwrap();
    // The agent has failed in this session before.
    let mut request = harness.request("two", session_target(&first));
    request.provider = Some(provider("failing"));
    harness.other_agents[2]
        .actions
        .lock()
        .unwrap()
        .extend([fail_turn(FailureClass::Crashed, "boom")]);
    let failed = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(failed.state, TurnState::Failed);
    let lease_request = segue_store::LeaseRequest {
        session: first.session.clone(),
        owner: segue_providers::identify_process(std::process::id()).unwrap(),
        expires_after: SignedDuration::from_secs(30),
        dead_epoch: None,
    };
    let lease = harness
        .store
        .acquire_lease(lease_request)
        .await
        .unwrap()
        .lease;
    let exhausted = ProviderHealth {
        failed_legs: 2,
        ..ProviderHealth::default()
    };
    let failing_provider = provider("failing");
    let setting_health = harness
        .store
        .set_provider_health(&lease, &failing_provider, exhausted);
    setting_health.await.unwrap();
    harness.store.release_lease(&lease).await.unwrap();

    harness.script([fail_turn(FailureClass::Quota, "quota: resets in 3 hours")]);
    harness.other_agents[3]
        .actions
        .lock()
        .unwrap()
        .extend([send_text("done"), end_turn()]);
    let mut request = harness.request("three", session_target(&first));
    request.provider = Some(provider("scripted"));
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.provider.as_str(), "healthy");
}

#[tokio::test]
async fn an_automatic_fallback_gets_no_wider_permissions() {
    use PermissionPolicy::{AllowAll, AllowReads, Ask, Deny};
    // The columns are the requested policy, the configured policies of the first and of the fallback agent, and the
    // policy that the fallback agent gets.
    let cases = [
        (None, Deny, AllowAll, Deny),
        (None, AllowAll, Ask, Ask),
        (Some(AllowReads), Deny, Ask, AllowReads),
    ];
    for (requested, first, fallback, expected) in cases {
        let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&["codex"]));
        let defaults_with = |permissions| AgentDefaults {
            permissions,
            ..AgentDefaults::default()
        };
        *harness.agent.defaults.lock().unwrap() = defaults_with(first);
        *harness.other_agents[0].defaults.lock().unwrap() = defaults_with(fallback);
        for is_in_cooldown in [false, true] {
            if !is_in_cooldown {
                harness.script([fail_turn(FailureClass::Quota, "quota: resets in 3 hours")]);
            }
            harness.other_agents[0]
                .actions
                .lock()
                .unwrap()
                .extend([send_text("hm"), end_turn()]);
            let mut request = harness.request("go", Target::New);
            request.provider = Some(provider("scripted"));
            request.permissions = requested;
            let report = harness.chat(request, |_| {}).await.unwrap();
            assert_eq!(report.provider.as_str(), "codex");
            let received = harness.other_agents[0].received.lock().unwrap();
            assert_eq!(received.permissions.last(), Some(&expected));
        }
    }
}

#[tokio::test]
async fn a_rate_limit_without_a_time_backs_off_and_a_strict_request_stays() {
    let slow_policy = Policy {
        backoff: SignedDuration::from_hours(1),
        ..policy_with_fallback(&["codex"])
    };
    let harness = EngineHarness::with_agents(&["codex"], slow_policy);
    let report = run_failing_turn(
        &harness,
        FailureClass::RateLimited,
        "too many requests",
        Target::New,
    )
    .await;
    assert!(!report.stopped_by_policy);
    // The hint contains the time of the next attempt.
    let hint = report.failure.as_ref().unwrap().hint.as_ref();
    let hint = hint_text(hint.unwrap());
    assert!(hint.starts_with("wait until 2"), "{hint}");
    let next = harness.chat(harness.request("again", session_target(&report)), |_| {});
    let error = next.await.unwrap_err();
    let PromptRefusal::Unavailable { until, .. } = *refusal_of(&error) else {
        panic!("{error:?}");
    };
    let wait = until.duration_since(Timestamp::now());
    assert!(wait > SignedDuration::from_mins(59), "{wait}");

    let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&["codex"]));
    let first = harness.run_turn("one", Target::New).await;
    harness.script([fail_turn(FailureClass::Quota, "quota: resets in 3 hours")]);
    let mut request = harness.request("two", session_target(&first));
    request.strict = true;
    request.turn_timeout = Some(Duration::from_mins(1));
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.provider.as_str(), "scripted");
    assert_eq!(report.state, TurnState::Failed);
}

#[tokio::test]
async fn a_fork_retains_the_provider_of_each_turn() {
    let harness = EngineHarness::with_agents(&["codex"], policy_with_fallback(&[]));
    let first = harness.run_turn("one", Target::New).await;
    let codex = &harness.other_agents[0];
    codex
        .actions
        .lock()
        .unwrap()
        .extend([send_text("mine"), end_turn()]);
    let mut request = harness.request("two", session_target(&first));
    request.provider = Some(provider("codex"));
    harness.chat(request, |_| {}).await.unwrap();
    let session = harness
        .store
        .session(&first.session)
        .await
        .unwrap()
        .unwrap();
    let forked = harness
        .engine
        .sessions()
        .fork_session(&session, None, None, &session.project);
    let forked = forked.await.unwrap().session;
    let turns = harness
        .engine
        .library()
        .transcript(forked)
        .await
        .unwrap()
        .turns;
    let providers: Vec<&str> = turns.iter().map(|turn| turn.provider.as_str()).collect();
    assert_eq!(providers, ["scripted", "codex"]);
}

#[tokio::test]
async fn tokens_spent_before_a_leg_was_reopened_count() {
    let harness = EngineHarness::with_agents(&[], Policy::default());
    let spent_usage = |tokens| Usage {
        total_tokens: Some(tokens),
        ..Usage::default()
    };
    let first = run_turn_with_usage(&harness, Target::New, spent_usage(200_000)).await;
    run_turn_with_usage(&harness, session_target(&first), spent_usage(100_000)).await;
    let load_session = || async {
        harness
            .store
            .session(&first.session)
            .await
            .unwrap()
            .unwrap()
    };
    harness
        .engine
        .sessions()
        .revert_session(&load_session().await, 1)
        .await
        .unwrap();
    run_turn_with_usage(&harness, session_target(&first), spent_usage(1)).await;
    harness
        .engine
        .sessions()
        .undo_revert(&load_session().await)
        .await
        .unwrap();
    let last = run_turn_with_usage(&harness, session_target(&first), spent_usage(50_001)).await;
    assert_eq!((last.leg, &last.native_id), (Some(3), &first.native_id));
    let rotations = decision_texts(&last, DecisionKind::Rotated);
    assert!(rotations[0].contains("at 350,001 tokens"), "{rotations:?}");
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(
        legs[2].total_tokens,
        Some(50_001),
        "only the tokens of this leg"
    );
}
