//! Handoff of a session to another agent.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;

use segue_agents::AgentDefaults;
use segue_core::agent::PermissionPolicy;
use segue_core::id::ProviderId;
use segue_core::policy::Policy;
use segue_core::session::{DecisionKind, LegEnd, OpenMode};
use segue_engine::{EngineError, Target};
use segue_store::{NewSession, Store, StoreError};

use crate::scripted::{Cue, Stage, done, same, say};

fn provider(name: &str) -> ProviderId {
    ProviderId::parse(name).unwrap()
}

#[tokio::test]
async fn the_next_prompt_tells_the_other_one_what_was_said() {
    let stage = Stage::with(&["codex"], Policy::default());
    let mut request = stage.request("the password is swordfish", Target::New);
    request.keep_agent = true;
    stage.script([say("noted"), done()]);
    let first = stage.chat(request, |_| {}).await.unwrap();
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let codex = provider("codex");
    let handed = stage.engine.handoff(&session, &codex).await.unwrap();
    assert_eq!(
        (&handed.session.provider, handed.from.as_str()),
        (&codex, "scripted")
    );
    assert_eq!(handed.session.native_id, None);
    // The agent that stayed running is ended immediately.
    assert_eq!(stage.agent.heard.lock().unwrap().closed, 1);
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.unwrap().1, LegEnd::Handoff);
    let log = stage.store.decisions(&first.session, 1).await.unwrap();
    assert_eq!(log[0].1.kind, DecisionKind::HandedOff);

    stage.others[0]
        .cues
        .lock()
        .unwrap()
        .extend([say("swordfish"), done()]);
    let next = stage.chat(stage.request("what was it?", same(&first)), |_| {});
    let next = next.await.unwrap();
    assert_eq!((next.provider.as_str(), next.leg), ("codex", Some(2)));
    let (opened, why) = next.opened.unwrap();
    assert_eq!(opened, OpenMode::Briefed);
    assert_eq!(why, "codex takes over from scripted");
    let heard = stage.others[0].heard.lock().unwrap();
    assert_eq!(heard.asked_for, [None]);
    assert!(heard.prompts[0].contains("> the password is swordfish"));
}

#[tokio::test]
async fn what_can_not_be_handed_over_stays_as_it_is() {
    let stage = Stage::with(&["codex", "absent"], Policy::default());
    let first = stage.turn("one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let to = |name: &str| {
        let (engine, session, name) = (&stage.engine, session.clone(), provider(name));
        async move { engine.handoff(&session, &name).await }
    };
    let already = to("scripted").await.unwrap();
    assert_eq!(already.from, already.session.provider);
    let unknown = to("nobody").await.unwrap_err();
    assert!(matches!(unknown, EngineError::UnknownProvider { .. }));
    stage.others[1].there.store(false, Ordering::Relaxed);
    let absent = to("absent").await.unwrap_err();
    assert!(matches!(absent, EngineError::NotInstalled(_)));

    // A handoff is rejected while a turn is running.
    let (busy, result) = tokio::sync::oneshot::channel();
    let (engine, at_work) = (stage.beside_it(), session.clone());
    stage.script([
        Cue::Aside(Box::new(move || {
            Box::pin(async move {
                let scripted = provider("scripted");
                let _ = busy.send(engine.handoff(&at_work, &scripted).await);
            })
        })),
        say("two"),
        done(),
    ]);
    let turn = stage.chat(stage.request("two", same(&first)), |_| {});
    turn.await.unwrap();
    let busy = result.await.unwrap().unwrap_err();
    assert!(
        matches!(busy, EngineError::Store(StoreError::Leased { .. })),
        "{busy:?}"
    );
    let after = stage.store.session(&first.session).await.unwrap().unwrap();
    assert_eq!(
        (after.provider, after.native_id),
        (session.provider, session.native_id)
    );

    let blank = NewSession {
        id: segue_core::id::SessionId::from_timestamp(jiff::Timestamp::now(), 77),
        project: after.project,
        title: after.title,
        purpose: None,
        provider: provider("scripted"),
        at: jiff::Timestamp::now(),
        conflict_filter: None,
    };
    let blank = stage.store.create_session(blank).await.unwrap();
    let nothing = stage.engine.handoff(&blank, &provider("codex")).await;
    assert!(matches!(nothing, Err(EngineError::NoMessages(_))));
}

#[tokio::test]
async fn what_does_not_carry_over_is_said() {
    let stage = Stage::with(&["codex"], Policy::default());
    let first = stage.turn("one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    *stage.agent.defaults.lock().unwrap() = AgentDefaults {
        permissions: PermissionPolicy::AllowAll,
        model: Some("opus".into()),
        mode: Some("plan".into()),
        ..AgentDefaults::default()
    };
    stage.others[0].defaults.lock().unwrap().model = Some("gpt-9".into());
    let codex = provider("codex");
    let handed = stage.engine.handoff(&session, &codex);
    assert_eq!(
        handed.await.unwrap().dropped_settings,
        [
            "permissions are ask, as configured for codex; for scripted they are allow-all",
            "the mode \"plan\" is one of scripted's; codex uses its own",
            "the model \"opus\" is one of scripted's; codex uses \"gpt-9\"",
        ]
    );
}

#[tokio::test]
async fn one_that_knows_it_all_is_taken_up_again_which_is_told() {
    let stage = Stage::with(&["codex"], Policy::default());
    let first = stage.turn("one", Target::New).await;
    let session = stage.store.session(&first.session).await.unwrap().unwrap();
    let to = async |name: &str| {
        let handed = stage.engine.handoff(&session, &provider(name)).await;
        handed.unwrap().native_has_all_turns
    };
    assert!(!to("codex").await);
    assert!(to("scripted").await);
    let next = stage.turn("two", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    let told = "asking scripted to go on with its own session native-1, which knows all turns of";
    let decisions = next.decisions.iter();
    let telling = decisions.filter(|decision| decision.text.starts_with(told));
    assert_eq!(telling.count(), 1, "{:?}", next.decisions);
    // The log contains the decision once.
    let log = stage.store.decisions(&first.session, 20).await.unwrap();
    let logged = log.iter().filter(|(_, noted)| noted.text.starts_with(told));
    assert_eq!(logged.count(), 1, "{log:?}");
}

#[tokio::test]
async fn a_prompt_to_another_one_says_what_does_not_carry_over() {
    let stage = Stage::with(&["codex"], Policy::default());
    let first = stage.turn("one", Target::New).await;
    *stage.agent.defaults.lock().unwrap() = AgentDefaults {
        permissions: PermissionPolicy::AllowAll,
        model: Some("opus".into()),
        ..AgentDefaults::default()
    };
    let cues = [say("two"), done()];
    stage.others[0].cues.lock().unwrap().extend(cues);
    let mut request = stage.request("two", same(&first));
    request.provider = Some(provider("codex"));
    // The request sets the permissions, so the decision does not mention them.
    let next = stage.chat(request, |_| {}).await.unwrap();
    let left: Vec<&str> = next
        .decisions
        .iter()
        .filter(|decision| decision.kind == DecisionKind::HandedOff)
        .map(|decision| decision.text.as_str())
        .collect();
    assert_eq!(
        left,
        ["the model \"opus\" is one of scripted's; codex uses its own"]
    );
}

/// Polls a future up to `times` times. `None` if it is not ready by then.
async fn polled<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut left = times;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        }
    })
    .await
}

#[tokio::test]
async fn whom_a_session_was_handed_to_meanwhile_goes_on_with_it() {
    let codex = provider("codex");
    let mut handed = 0;
    for step in 1..=6 {
        let stage = Stage::with(&["codex"], Policy::default());
        let first = stage.turn("one", Target::New).await;
        let session = stage.store.session(&first.session).await.unwrap().unwrap();
        let other = stage.beside_all();
        for agent in [&stage.agent, &stage.others[0]] {
            agent.cues.lock().unwrap().extend([say("two"), done()]);
        }
        let request = stage.request("two", same(&first));
        let chat = stage.engine.chat(request, tokio::sync::mpsc::channel(1).0);
        let mut chat = pin!(chat);
        let early = polled(chat.as_mut(), step).await;
        assert!(early.is_none());
        let moved = other.handoff(&session, &codex).await;
        let answered = chat.await;
        let after = stage.store.session(&first.session).await.unwrap().unwrap();
        match moved {
            Ok(_) => {
                handed += 1;
                assert_eq!(after.provider, codex, "{step}: {answered:?}");
            }
            Err(EngineError::Store(StoreError::Leased { .. })) => {
                assert_eq!(after.provider.as_str(), "scripted", "{step}");
            }
            Err(error) => panic!("{step}: {error}"),
        }
    }
    assert!(handed > 0);
}
