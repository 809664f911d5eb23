//! Moves of the head: the native session that is resumed after them, and the turns that they detach.

use std::sync::atomic::Ordering;

use segue_core::json::Json;
use segue_core::session::{
    AgentEvent, FileChangeKind, Failure, FailureClass, LegEnd, Message, OpenMode, Role, ToolCall, ToolStatus,
    TurnState, Usage,
};
use segue_engine::{EngineError, DetachedTurns, Target, TurnReport};
use segue_store::{TurnEnding, NewLeg, Store};

use crate::scripted::{Cue, Stage, done, living, same};

/// Creates a session with three turns, a revert to the first one, and another turn.
async fn reverted(stage: &Stage) -> TurnReport {
    let first = stage.turn("one", Target::New).await;
    stage.turn("two", same(&first)).await;
    stage.turn("three", same(&first)).await;
    let session = stage.session_of(&first).await;
    stage.engine.revert_session(&session, 1).await.unwrap();
    stage.turn("another two", same(&first)).await;
    first
}

#[tokio::test]
async fn after_an_undo_the_native_session_that_knows_everything_goes_on() {
    let stage = Stage::new();
    let first = reverted(&stage).await;
    let session = stage.session_of(&first).await;
    let undone = stage.engine.undo_revert(&session).await.unwrap();
    assert_eq!(undone.session.native_id, first.native_id);
    let aside = DetachedTurns {
        turns: 1,
        head_move: 2,
    };
    assert_eq!((undone.turns_before, undone.detached_turns), (2, Some(aside)));
    assert!(
        undone.decisions[0].text.contains("knows all turns"),
        "{undone:?}"
    );

    let next = stage.turn("four", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!((next.turn, next.leg), (4, Some(3)));
    let heard = stage.agent.heard.lock().unwrap();
    assert_eq!(heard.asked_for.last(), Some(&first.native_id));
    assert_eq!(
        heard.prompts.last().unwrap(),
        "four",
        "nothing had to be told"
    );
}

#[tokio::test]
async fn a_native_session_that_has_gone_on_since_is_not_taken_up_where_it_was() {
    let stage = Stage::new();
    let first = reverted(&stage).await;
    stage
        .engine
        .undo_revert(&stage.session_of(&first).await)
        .await
        .unwrap();
    stage.turn("four", same(&first)).await;
    let now = stage.session_of(&first).await;
    let back = stage.engine.revert_session(&now, 3).await.unwrap();
    assert_eq!(back.decisions, []);
    let next = stage.turn("another four", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    let heard = stage.agent.heard.lock().unwrap();
    assert_eq!(heard.asked_for.last(), Some(&None));
    let told = heard.prompts.last().unwrap();
    assert!(
        told.contains("> three") && !told.contains("> four"),
        "{told}"
    );
}

/// A native session that was only temporarily unavailable stays usable.
#[tokio::test]
async fn a_native_session_that_could_not_go_on_yet_is_not_lost() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    stage.agent.not_now.store(true, Ordering::Relaxed);
    let second = stage.turn("two", same(&first)).await;
    let (opened, why) = second.opened.unwrap();
    assert_eq!(opened, OpenMode::Briefed);
    assert!(
        why.contains("could not go on with its own session yet"),
        "{why}"
    );
    let legs = stage.store.legs(&first.session).await.unwrap();
    assert_eq!(legs[0].ended.map(|(_, why)| why), Some(LegEnd::Unavailable));

    *stage.agent.goes_on.lock().unwrap() = OpenMode::Resumed;
    let session = stage.session_of(&first).await;
    let back = stage.engine.revert_session(&session, 1).await.unwrap();
    assert!(
        back.decisions[0].text.contains("knows all turns"),
        "{back:?}"
    );
    let next = stage.turn("another two", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Resumed);
    assert_eq!(next.native_id, first.native_id);
}

#[tokio::test]
async fn if_that_native_session_is_gone_its_turns_are_told() {
    let stage = Stage::new();
    let first = reverted(&stage).await;
    let session = stage.session_of(&first).await;
    stage.engine.undo_revert(&session).await.unwrap();
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let next = stage.turn("four", same(&first)).await;
    assert_eq!(next.opened.unwrap().0, OpenMode::Briefed);
    let told = stage
        .agent
        .heard
        .lock()
        .unwrap()
        .prompts
        .last()
        .unwrap()
        .clone();
    assert!(
        told.contains("> three") && !told.contains("another two"),
        "{told}"
    );
    let legs = stage.store.legs(&first.session).await.unwrap();
    let ends: Vec<_> = legs
        .iter()
        .map(|leg| leg.ended.map(|(_, why)| why))
        .collect();
    let left = Some(LegEnd::HeadMoved);
    assert_eq!(ends, [left, left, Some(LegEnd::Lost), None]);
}

#[tokio::test]
async fn what_an_undo_left_behind_is_forked() {
    let stage = Stage::new();
    let first = reverted(&stage).await;
    let session = stage.session_of(&first).await;
    let undone = stage.engine.undo_revert(&session).await.unwrap().session;
    let project = undone.project.clone();
    let forked = stage.engine.fork_before_move(&undone, None, Some(2), &project);
    let forked = forked.await.unwrap().session;
    let said = stage.engine.transcript(forked).await.unwrap().turns;
    let said: Vec<String> = said.iter().map(|turn| turn.messages[0].plain_text()).collect();
    assert_eq!(said, ["one", "another two"]);
    for asked in [-1, 0, 3] {
        let refused = stage
            .engine
            .fork_before_move(&undone, None, Some(asked), &project)
            .await;
        assert!(
            matches!(refused, Err(EngineError::NoHeadMove { moves: 2, .. })),
            "{refused:?}"
        );
    }
}

/// After an agent failed a turn that another agent answered, the first agent does not have the answer, although it
/// received the prompt.
#[tokio::test]
async fn a_native_session_that_failed_the_last_turn_is_not_taken_up() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
    let at = jiff::Timestamp::now();
    let (store, leg) = (
        &stage.store,
        stage.store.legs(&first.session).await.unwrap()[0].id,
    );
    let lease = stage.claim(&first.session, living()).await;
    let prompt = Message::from_text(Role::User, "two", at);
    let turn = store.begin_turn(&lease, &prompt).await.unwrap().id;
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
    let other = NewLeg {
        provider: "elsewhere".parse().unwrap(),
        native_id: Some("n".parse().unwrap()),
        at,
    };
    let other = store.open_leg(&lease, other).await.unwrap().id;
    store.begin_attempt(&lease, turn, other, at).await.unwrap();
    let finish = TurnEnding {
        state: TurnState::Finished,
        messages: vec![(1, Message::from_text(Role::Assistant, "elsewhere's answer", at))],
        usage: Usage::default(),
        failure: None,
        at,
    };
    store.finish_turn(&lease, turn, finish).await.unwrap();
    store.release_lease(&lease).await.unwrap();

    stage.script([done()]);
    let mut request = stage.request("three", same(&first));
    request.provider = Some("scripted".parse().unwrap());
    let report = stage.chat(request, |_| {}).await.unwrap();
    assert_eq!(report.opened.unwrap().0, OpenMode::Briefed);
    let told = stage
        .agent
        .heard
        .lock()
        .unwrap()
        .prompts
        .last()
        .unwrap()
        .clone();
    assert!(told.contains("> elsewhere's answer"), "{told}");
}

#[tokio::test]
async fn a_revert_tells_what_the_dropped_turns_did_and_a_preview_changes_nothing() {
    let stage = Stage::new();
    let first = stage.turn("one", Target::New).await;
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
    stage.script([Cue::Event(AgentEvent::Tool(edit)), done()]);
    let request = stage.request("two", same(&first));
    stage.chat(request, |_| {}).await.unwrap();
    let before = stage.session_of(&first).await;
    let plan = stage.engine.preview_revert(&before, 1).await.unwrap();
    let dropped: Vec<_> = plan
        .dropped
        .iter()
        .map(|turn| (turn.n, turn.title.as_str()))
        .collect();
    assert_eq!(dropped, [(2, "two")]);
    assert_eq!(stage.session_of(&first).await, before);
    let reverted = stage.engine.revert_session(&before, 1).await.unwrap();
    assert_eq!(reverted.effects, plan.effects);
    let [file] = reverted.effects.files.as_slice() else {
        panic!("{reverted:?}");
    };
    assert_eq!(
        (file.path.as_str(), file.kind),
        ("x/new.rs", FileChangeKind::Created)
    );
}
