//! Moves of the head: the native session that is resumed after them, and the turns that they detach.

use std::sync::atomic::Ordering;

use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, Failure, FailureClass, FileChangeKind, LegEnd, Message, OpenMode, Role, ToolCall,
    ToolStatus, TurnState, Usage,
};
use segue_engine::{DetachedTurns, SessionError, Target, TurnReport};
use segue_store::{NewLeg, SettleEffects, TurnEnding};

use crate::scripted::{EngineHarness, ScriptedAction, current_process, end_turn, session_target};
use crate::{decision_text, open_mode_and_reason};

/// Creates a session with three turns, a revert to the first one, and another turn.
async fn create_reverted_session(harness: &EngineHarness) -> TurnReport {
    let first = harness.run_turn("one", Target::New).await;
    harness.run_turn("two", session_target(&first)).await;
    harness.run_turn("three", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    harness
        .run_turn("another two", session_target(&first))
        .await;
    first
}

#[tokio::test]
async fn an_undo_resumes_the_native_session_with_all_turns() {
    let harness = EngineHarness::new();
    let first = create_reverted_session(&harness).await;
    let session = harness.load_session(&first).await;
    let undo_outcome = harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    assert_eq!(undo_outcome.session.native_id, first.native_id);
    let detached = DetachedTurns {
        turns: 1,
        head_move: 2,
    };
    assert_eq!(
        (undo_outcome.turns_before, undo_outcome.detached_turns),
        (2, Some(detached))
    );
    assert!(
        decision_text(&undo_outcome.decisions[0]).contains("contains all turns"),
        "{undo_outcome:?}"
    );

    let next = harness.run_turn("four", session_target(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!((next.turn, next.leg), (4, Some(3)));
    let received = harness.agent.received.lock().unwrap();
    assert_eq!(received.requested_ids.last(), Some(&first.native_id));
    assert_eq!(
        received.prompts.last().unwrap(),
        "four",
        "the prompt needs no brief"
    );
}

#[tokio::test]
async fn a_native_session_with_later_turns_is_not_reopened() {
    let harness = EngineHarness::new();
    let first = create_reverted_session(&harness).await;
    harness
        .engine
        .sessions()
        .undo_revert(&harness.load_session(&first).await)
        .await
        .unwrap();
    harness.run_turn("four", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    let revert_outcome = harness
        .engine
        .sessions()
        .revert_session(&session, 3)
        .await
        .unwrap();
    assert_eq!(revert_outcome.decisions, []);
    let next = harness
        .run_turn("another four", session_target(&first))
        .await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    let received = harness.agent.received.lock().unwrap();
    assert_eq!(received.requested_ids.last(), Some(&None));
    let brief = received.prompts.last().unwrap();
    assert!(
        brief.contains("> three") && !brief.contains("> four"),
        "{brief}"
    );
}

/// A native session that was only temporarily unavailable stays usable.
#[tokio::test]
async fn a_temporarily_unavailable_native_session_is_not_lost() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    harness.agent.is_unavailable.store(true, Ordering::Relaxed);
    let second = harness.run_turn("two", session_target(&first)).await;
    let (mode, reason) = open_mode_and_reason(&second);
    assert_eq!(mode, OpenMode::Briefed);
    assert!(
        reason.contains("could not resume its native session at this time"),
        "{reason}"
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    assert_eq!(
        legs[0].ended.map(|(_, reason)| reason),
        Some(LegEnd::Unavailable)
    );

    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Resumed;
    let session = harness.load_session(&first).await;
    let revert_outcome = harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    assert!(
        decision_text(&revert_outcome.decisions[0]).contains("contains all turns"),
        "{revert_outcome:?}"
    );
    let next = harness
        .run_turn("another two", session_target(&first))
        .await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!(next.native_id, first.native_id);
}

#[tokio::test]
async fn turns_of_a_missing_native_session_are_briefed_after_an_undo() {
    let harness = EngineHarness::new();
    let first = create_reverted_session(&harness).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let next = harness.run_turn("four", session_target(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    let brief = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .last()
        .unwrap()
        .clone();
    assert!(
        brief.contains("> three") && !brief.contains("another two"),
        "{brief}"
    );
    let legs = harness.store.legs(&first.session).await.unwrap();
    let ends: Vec<_> = legs
        .iter()
        .map(|leg| leg.ended.map(|(_, reason)| reason))
        .collect();
    let head_moved = Some(LegEnd::HeadMoved);
    assert_eq!(ends, [head_moved, head_moved, Some(LegEnd::Lost), None]);
}

#[tokio::test]
async fn turns_detached_by_an_undo_can_be_forked() {
    let harness = EngineHarness::new();
    let first = create_reverted_session(&harness).await;
    let session = harness.load_session(&first).await;
    let session_after_undo = harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap()
        .session;
    let project = session_after_undo.project.clone();
    let forked =
        harness
            .engine
            .sessions()
            .fork_session(&session_after_undo, None, Some(2), &project);
    let forked = forked.await.unwrap().session;
    let turns = harness
        .engine
        .library()
        .transcript(forked)
        .await
        .unwrap()
        .turns;
    let prompts: Vec<String> = turns
        .iter()
        .map(|turn| turn.messages[0].plain_text())
        .collect();
    assert_eq!(prompts, ["one", "another two"]);
    for head_move in [-1, 0, 3] {
        let result = harness
            .engine
            .sessions()
            .fork_session(&session_after_undo, None, Some(head_move), &project)
            .await;
        assert!(
            matches!(result, Err(SessionError::NoHeadMove { moves: 2, .. })),
            "{result:?}"
        );
    }
}

/// After an agent failed a turn that another agent answered, the first agent does not have the answer, although it
/// received the prompt.
#[tokio::test]
async fn a_native_session_that_failed_the_last_turn_is_not_reopened() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    let at = jiff::Timestamp::now();
    let (store, leg) = (
        &harness.store,
        harness.store.legs(&first.session).await.unwrap()[0].id,
    );
    let lease = harness
        .acquire_lease(&first.session, current_process())
        .await;
    let prompt = Message::from_text(Role::User, "two", at);
    let turn = store.start_turn(&lease, prompt.into()).await.unwrap().id;
    store.begin_attempt(&lease, turn, leg, at).await.unwrap();
    let failure = Failure::new(FailureClass::Agent, "no");
    store
        .fail_attempt(&lease, turn, &failure, at)
        .await
        .unwrap();
    store
        .end_leg(&lease, leg, LegEnd::Handoff, at)
        .await
        .unwrap();
    let new_leg = NewLeg {
        provider: "other".parse().unwrap(),
        native_id: Some("n".parse().unwrap()),
        at,
    };
    let other_leg = store.open_leg(&lease, new_leg).await.unwrap().id;
    store
        .begin_attempt(&lease, turn, other_leg, at)
        .await
        .unwrap();
    let ending = TurnEnding {
        state: TurnState::Finished,
        messages: vec![(
            1,
            Message::from_text(Role::Assistant, "the other agent's answer", at),
        )],
        usage: Usage::default(),
        failure: None,
        at,
    };
    let effects = SettleEffects::default();
    store
        .settle_turn(&lease, turn, ending, effects)
        .await
        .unwrap();
    store.release_lease(&lease).await.unwrap();

    harness.script([end_turn()]);
    let mut request = harness.request("three", session_target(&first));
    request.provider = Some("scripted".parse().unwrap());
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let brief = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .last()
        .unwrap()
        .clone();
    assert!(brief.contains("> the other agent's answer"), "{brief}");
}

#[tokio::test]
async fn a_revert_reports_the_effects_of_dropped_turns_and_a_preview_changes_nothing() {
    let harness = EngineHarness::new();
    let first = harness.run_turn("one", Target::New).await;
    let edit = ToolCall {
        id: "c".into(),
        name: "Write".into(),
        kind: "edit".into(),
        args: Json::from(serde_json::json!({"file_path": "/x/new.rs"})),
        status: ToolStatus::Completed,
        output: Some(Json::string("ok")),
        diffs: vec![segue_core::session::Diff {
            path: "/x/new.rs".into(),
            patch: "@@ -0,0 +1,1 @@\n+x\n".into(),
        }],
    };
    harness.script([ScriptedAction::Event(AgentEvent::Tool(edit)), end_turn()]);
    let request = harness.request("two", session_target(&first));
    harness.chat(request, |_| {}).await.unwrap();
    let before = harness.load_session(&first).await;
    let plan = harness
        .engine
        .sessions()
        .preview_revert(&before, 1)
        .await
        .unwrap();
    let dropped: Vec<_> = plan
        .dropped
        .iter()
        .map(|turn| (turn.n, turn.title.as_str()))
        .collect();
    assert_eq!(dropped, [(2, "two")]);
    assert_eq!(harness.load_session(&first).await, before);
    let outcome = harness
        .engine
        .sessions()
        .revert_session(&before, 1)
        .await
        .unwrap();
    assert_eq!(outcome.effects, plan.effects);
    let [file] = outcome.effects.files.as_slice() else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (file.path.as_str(), file.kind),
        ("x/new.rs", FileChangeKind::Created)
    );
}
