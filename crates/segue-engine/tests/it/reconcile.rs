//! Reconciliation with the native session: turns that were made outside segue, interrupted, rewound or lost.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use segue_catalog::{
    Catalog, IdHint, KeyedMessage, Mark, NativeRecord, NativeSessionKind, ReadError, ReadStart,
    Reader, RecordEvent, Records, RewindTarget, SessionHead, SessionLocation, SessionScan,
    SkippedContent,
};
use segue_core::brief::END_OF_RECORD;
use segue_core::id::{NativeId, ProviderId};
use segue_core::policy::Policy;
use segue_core::session::{
    DecisionKind, FailureClass, Message, OpenMode, Role, Session, StopReason, Turn, TurnState,
    Usage,
};
use segue_engine::{MessageAuthor, StopLevel, Target, TurnEvent, TurnReport};
use segue_providers::{AgentError, AgentRefusal};
use segue_store::{Lease, PageRequest, SessionFilter};

use crate::scripted::{
    EngineHarness, ScriptedAction, current_process, dead_process, end_turn, send_text,
    session_target,
};
use crate::{decision_text, open_mode_and_reason};

/// Records of the native session `native-1`. `None` after it was deleted.
#[derive(Clone)]
struct NativeSessionStub(Arc<Mutex<Option<Vec<NativeRecord>>>>);

impl Reader for NativeSessionStub {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let exists = self.0.lock().unwrap().is_some();
        let location = exists.then(|| SessionLocation {
            path: PathBuf::from("native-1"),
            id_hint: IdHint::Complete("native-1".to_owned()),
            size: 1,
            modified: Timestamp::now(),
            archived: false,
        });
        SessionScan {
            locations: location.into_iter().collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            ..SessionHead::new(NativeId::parse("native-1").unwrap(), location.modified)
        })
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        let records = self.0.lock().unwrap().clone().unwrap_or_default();
        let start_index = match start {
            ReadStart::Beginning => 0,
            ReadStart::After(mark) => {
                let index = records.iter().position(|record| record.mark == *mark);
                index.ok_or_else(|| ReadError::MarkNotFound {
                    path: location.path.clone(),
                    mark: mark.clone(),
                })? + 1
            }
        };
        Ok(Box::new(StubRecords(
            records.into_iter().skip(start_index).collect(),
        )))
    }

    fn find_last_mark(&self, _: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        let records = self.0.lock().unwrap();
        let last = records.as_ref().and_then(|records| records.last());
        Ok(last.map(|record| record.mark.clone()))
    }
}

struct StubRecords(std::collections::VecDeque<NativeRecord>);

impl Records for StubRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        Ok(self.0.pop_front())
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent::default()
    }
}

impl NativeSessionStub {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(Vec::new()))))
    }

    fn write_event(&self, event: RecordEvent) {
        let mut records = self.0.lock().unwrap();
        let records = records.as_mut().unwrap();
        records.push(NativeRecord {
            mark: Mark::Id(format!("{}-{}", records.len(), Timestamp::now())),
            at: Some(Timestamp::now()),
            events: vec![event],
        });
    }

    /// Writes a prompt whose key is its text.
    fn write_prompt(&self, prompt: &str) {
        let message = Message::from_text(Role::User, prompt, Timestamp::now());
        let key = Some(prompt.to_owned());
        self.write_event(RecordEvent::Prompt(KeyedMessage { key, message }));
    }

    fn write_answer(&self, content: &str) {
        let message = Message::from_text(Role::Assistant, content, Timestamp::now());
        self.write_event(RecordEvent::Message(KeyedMessage { key: None, message }));
        self.write_event(RecordEvent::TurnEnded(TurnState::Finished));
    }

    /// Writes a turn that was made in the agent's own program.
    fn write_turn(&self, prompt: &str) {
        // Times are recorded in milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(5));
        self.write_prompt(prompt);
        self.write_answer(&format!("{prompt}, by hand"));
    }

    fn write_rewind_before(&self, prompt: &str) {
        self.write_event(RecordEvent::Rewind(RewindTarget::BeforeRecord(
            prompt.to_owned(),
        )));
    }

    fn truncate_to(&self, records: usize) {
        self.0.lock().unwrap().as_mut().unwrap().truncate(records);
    }
}

fn harness_with_native() -> (NativeSessionStub, EngineHarness) {
    let native = NativeSessionStub::new();
    let harness = EngineHarness::with_catalog(Catalog::new(vec![Arc::new(native.clone())]));
    (native, harness)
}

/// Runs a turn through segue, which the agent records with the text that it received.
async fn run_recorded_turn(
    harness: &EngineHarness,
    native: &NativeSessionStub,
    prompt: &'static str,
    target: Target,
) -> TurnReport {
    // The times of two turns must differ by more than the tolerance with which native turns are matched.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let native = native.clone();
    let write_records = move || -> crate::scripted::SideEffectFuture {
        native.write_prompt(&format!("\u{200b}{prompt}"));
        native.write_answer("noted");
        Box::pin(async {})
    };
    harness.script([
        ScriptedAction::SideEffect(Box::new(write_records)),
        send_text("noted"),
        end_turn(),
    ]);
    let request = harness.request(prompt, target);
    harness.chat(request, |_| {}).await.unwrap()
}

/// Returns the prompts of a session. Those made outside segue are in brackets.
async fn list_prompts(harness: &EngineHarness, session: &segue_core::id::SessionId) -> Vec<String> {
    let mut prompts = Vec::new();
    for turn in harness.store.turns(session).await.unwrap() {
        let messages = harness.store.messages(turn.id).await.unwrap();
        let prompt = messages[0].plain_text().replace('\u{200b}', "");
        prompts.push(if turn.made_outside {
            format!("[{prompt}]")
        } else {
            prompt
        });
    }
    prompts
}

fn join_decisions(report: &TurnReport) -> String {
    let texts: Vec<String> = report.decisions.iter().map(decision_text).collect();
    texts.join("\n")
}

#[tokio::test]
async fn turns_made_outside_segue_are_imported_once() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    native.write_turn("x");
    native.write_turn("one");
    let last = run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    assert_eq!(
        (last.turn, join_decisions(&last)),
        (4, "added 2 turns made in scripted outside segue".into())
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "[x]", "[one]", "two"]
    );
    let next = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert_eq!(join_decisions(&next), "");
    // A record that the agent writes after the end of a turn does not start a turn.
    native.write_event(RecordEvent::Anchor("later".into()));
    let (session, decisions) = harness
        .engine
        .reconciler()
        .reconcile_if_idle(harness.load_session(&first).await)
        .await
        .unwrap();
    assert_eq!((session.turns, decisions.len()), (5, 0));
}

#[tokio::test]
async fn added_messages_are_sent_after_turns_made_outside_segue() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    let added = harness
        .engine
        .sessions()
        .add_message(&first.session, MessageAuthor::User, "x");
    assert_eq!(added.await.unwrap().turn, 2);
    // The user types the added text in the agent's own program as well.
    native.write_turn("x");
    let last = run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "x", "[x]", "two"]
    );
    let prompt = harness.agent.received.lock().unwrap().prompts[1].clone();
    assert!(prompt.contains("[Turn 2]\nuser:\n> x\n"), "{prompt}");
    assert!(!prompt.contains("[Turn 3]"), "{prompt}");
    let next = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert_eq!(join_decisions(&next), "");
    assert_eq!(harness.agent.received.lock().unwrap().prompts[2], "three");
}

#[tokio::test]
async fn a_read_imports_native_turns_unless_the_session_is_leased() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    native.write_turn("x");
    let session = harness.load_session(&first).await;
    let lease = harness.acquire_lease(&session.id, current_process()).await;
    let (unchanged, _) = harness
        .engine
        .reconciler()
        .reconcile_if_idle(session.clone())
        .await
        .unwrap();
    assert_eq!(unchanged.turns, 1);
    harness.store.release_lease(&lease).await.unwrap();
    let (reconciled, decisions) = harness
        .engine
        .reconciler()
        .reconcile_if_idle(session)
        .await
        .unwrap();
    assert_eq!((reconciled.turns, decisions.len()), (2, 1));
    assert_eq!(reconciled.total_tokens, None);
}

/// Leaves a turn like a killed process does that has sent the prompt.
async fn leave_interrupted_turn(harness: &EngineHarness, session: &Session, prompt: &str) {
    let (lease, turn) = leave_unsent_turn(harness, session, prompt).await;
    let legs = harness.store.legs(&session.id).await.unwrap();
    let attempt = harness
        .store
        .begin_attempt(&lease, turn.id, legs[0].id, Timestamp::now());
    attempt.await.unwrap();
}

/// Leaves a turn like a killed process does that has not sent the prompt yet.
async fn leave_unsent_turn(
    harness: &EngineHarness,
    session: &Session,
    prompt: &str,
) -> (Lease, Turn) {
    let lease = harness.acquire_lease(&session.id, dead_process()).await;
    let prompt = Message::from_text(Role::User, prompt, Timestamp::now());
    let turn = harness
        .store
        .start_turn(&lease, prompt.into())
        .await
        .unwrap();
    (lease, turn)
}

#[tokio::test]
async fn a_missed_answer_is_read_from_the_native_session() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    leave_interrupted_turn(&harness, &harness.load_session(&first).await, "two").await;
    native.write_prompt(&format!("the conversation so far\n{END_OF_RECORD}\n\ntwo"));
    native.write_answer("here it is");
    native.write_turn("x");
    let last = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert!(
        join_decisions(&last).contains(
            "turn 2 was interrupted: its answer was taken from the native session of scripted"
        ),
        "{}",
        join_decisions(&last)
    );
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "two", "[x]", "three"]
    );
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Finished);
    let messages = harness.store.messages(turns[1].id).await.unwrap();
    assert_eq!(messages[1].plain_text(), "here it is");
    assert_eq!(
        harness.agent.received.lock().unwrap().prompts,
        ["one", "three"]
    );
}

#[tokio::test]
async fn a_prompt_that_never_arrived_is_not_matched_with_a_native_turn() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    leave_interrupted_turn(&harness, &harness.load_session(&first).await, "two").await;
    native.write_turn("something else");
    let last = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert!(
        join_decisions(&last).contains("scripted has no record of its prompt"),
        "{}",
        join_decisions(&last)
    );
    let prompts = list_prompts(&harness, &first.session).await;
    assert_eq!(prompts, ["one", "two", "[something else]", "three"]);
    let turns = harness.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let next = run_recorded_turn(&harness, &native, "four", session_target(&first)).await;
    assert_eq!(join_decisions(&next), "");
}

#[tokio::test]
async fn an_unsent_prompt_has_no_answer_in_the_native_session() {
    for native_prompt in ["fix the login, not the logout", "fix"] {
        let (native, harness) = harness_with_native();
        let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
        leave_unsent_turn(&harness, &harness.load_session(&first).await, "fix").await;
        native.write_turn(native_prompt);
        run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
        let prompts = list_prompts(&harness, &first.session).await;
        assert_eq!(
            prompts,
            ["one", "fix", &format!("[{native_prompt}]"), "two"]
        );
        let turns = harness.store.turns(&first.session).await.unwrap();
        assert_eq!(turns[1].state, TurnState::Interrupted);
    }
}

#[tokio::test]
async fn a_native_rewind_moves_the_head_and_undo_restores_the_turns() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    native.write_rewind_before("\u{200b}two");
    native.write_turn("x");
    let last = run_recorded_turn(&harness, &native, "four", session_target(&first)).await;
    assert!(
        join_decisions(&last).contains("rewound to turn 1"),
        "{}",
        join_decisions(&last)
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "[x]", "four"]
    );
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "two", "three"]
    );
}

#[tokio::test]
async fn native_turns_after_reverted_ones_become_a_separate_session() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    native.write_turn("x");
    // A read access changes nothing in this case.
    let (unchanged, _) = harness
        .engine
        .reconciler()
        .reconcile_if_idle(harness.load_session(&first).await)
        .await
        .unwrap();
    assert_eq!(unchanged.turns, 1);
    let last = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    let decisions = join_decisions(&last);
    let (_, new_id_text) = decisions.split_once("segue session resume ").unwrap();
    let new_id = segue_core::id::SessionId::parse(new_id_text.split('`').next().unwrap()).unwrap();
    assert_eq!(list_prompts(&harness, &new_id).await, ["one", "two", "[x]"]);
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "three"]
    );
    let (mode, reason) = open_mode_and_reason(&last);
    assert_eq!(mode, OpenMode::Briefed);
    assert!(
        reason.contains("no longer matches the head of the session"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_fork_reports_the_imported_turns() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    native.write_turn("x");
    let session = harness.load_session(&first).await;
    let forked = harness
        .engine
        .sessions()
        .fork_session(&session, None, None, &session.project);
    let forked = forked.await.unwrap();
    assert_eq!(
        list_prompts(&harness, &forked.session.id).await,
        ["one", "[x]"]
    );
    assert!(
        decision_text(&forked.decisions[0]).starts_with("added 1 turn made in scripted"),
        "{forked:?}"
    );
}

#[tokio::test]
async fn an_undo_returns_to_the_continued_native_session() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    native.write_turn("x");
    harness
        .engine
        .sessions()
        .undo_revert(&session)
        .await
        .unwrap();
    let last = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "two", "[x]", "three"]
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
}

/// Creates a harness with a second agent for handoffs.
fn harness_with_native_and_codex() -> (NativeSessionStub, EngineHarness, ProviderId) {
    let native = NativeSessionStub::new();
    let catalog = Catalog::new(vec![Arc::new(native.clone())]);
    let harness = EngineHarness::with_agents_and_catalog(&["codex"], Policy::default(), catalog);
    (native, harness, ProviderId::parse("codex").unwrap())
}

#[tokio::test]
async fn native_turns_made_after_a_handoff_are_imported_on_return() {
    let (native, harness, codex) = harness_with_native_and_codex();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .handoff(&session, &codex)
        .await
        .unwrap();
    native.write_turn("x");
    let mut request = harness.request("two", session_target(&first));
    request.provider = Some(first.provider.clone());
    harness.script([send_text("noted"), end_turn()]);
    let report = harness.chat(request, |_| {}).await.unwrap();
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "[x]", "two"]
    );
    assert_eq!(report.opened.as_ref().unwrap().0, OpenMode::Resumed);
    let decisions = join_decisions(&report);
    assert!(
        decisions.contains("contains all turns") && decisions.contains("added 1 turn"),
        "{decisions}"
    );
}

#[tokio::test]
async fn native_turns_made_before_a_handoff_are_retained() {
    let (native, harness, codex) = harness_with_native_and_codex();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    let session = harness.load_session(&first).await;
    harness
        .engine
        .sessions()
        .revert_session(&session, 1)
        .await
        .unwrap();
    native.write_turn("x");
    let session = harness.load_session(&first).await;
    let outcome = harness
        .engine
        .sessions()
        .handoff(&session, &codex)
        .await
        .unwrap();
    assert!(
        decision_text(&outcome.decisions[0]).contains("to continue there"),
        "{:?}",
        outcome.decisions
    );
    assert_eq!(list_prompts(&harness, &first.session).await, ["one"]);
    let page = harness
        .store
        .list_sessions(&SessionFilter::default(), PageRequest::first(9))
        .await;
    let sessions = page.unwrap().sessions;
    let forked = sessions
        .iter()
        .find(|candidate| candidate.id != first.session)
        .unwrap();
    assert_eq!(
        list_prompts(&harness, &forked.id).await,
        ["one", "two", "[x]"]
    );
}

#[tokio::test]
async fn a_truncated_or_deleted_native_session_is_replaced_with_a_brief() {
    for (remaining_records, expected) in [
        (Some(3), "no longer has all turns of its native session"),
        (None, "no longer has its native session (native-1)"),
    ] {
        let (native, harness) = harness_with_native();
        let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
        run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
        match remaining_records {
            Some(records) => native.truncate_to(records),
            None => *native.0.lock().unwrap() = None,
        }
        harness.script([send_text("noted"), end_turn()]);
        let last = harness
            .chat(harness.request("three", session_target(&first)), |_| {})
            .await
            .unwrap();
        assert!(
            join_decisions(&last).contains(expected),
            "{}",
            join_decisions(&last)
        );
        assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Briefed);
        let requested_ids = harness.agent.received.lock().unwrap().requested_ids.clone();
        assert_eq!(
            requested_ids.last(),
            Some(&None),
            "the agent was not asked to resume the native session"
        );
        assert_eq!(
            list_prompts(&harness, &first.session).await,
            ["one", "two", "three"]
        );
    }
}

#[tokio::test]
async fn a_compacted_native_context_is_reported() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one. Never push to main.", Target::New).await;
    native.write_event(RecordEvent::Compacted(Some("all of it".into())));
    let last = run_recorded_turn(&harness, &native, "two", session_target(&first)).await;
    assert!(
        join_decisions(&last).contains("compacted its own context"),
        "{}",
        join_decisions(&last)
    );
    let next = run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert_eq!(join_decisions(&next), "");
    let prompts = harness.agent.received.lock().unwrap().prompts.clone();
    assert!(
        prompts[1].contains("] Never push to main.\n"),
        "{}",
        prompts[1]
    );
    assert_eq!(prompts[2], "three");
}

#[tokio::test]
async fn an_unreported_context_loss_is_detected() {
    let (native, harness) = harness_with_native();
    let end_turn_with_context = |tokens| {
        let usage = Usage {
            context_tokens: Some(tokens),
            ..Usage::default()
        };
        ScriptedAction::TurnEnded(StopReason::EndTurn, usage)
    };
    let run_prompt = async |prompt: &str, target| {
        let request = harness.request(prompt, target);
        harness.chat(request, |_| {}).await.unwrap()
    };
    let write_records = |event: Option<RecordEvent>, prompt: &'static str| {
        let native = native.clone();
        ScriptedAction::SideEffect(Box::new(move || -> crate::scripted::SideEffectFuture {
            native.write_prompt(prompt);
            if let Some(event) = event {
                native.write_event(event);
            }
            Box::pin(async {})
        }))
    };
    let rule = "Never push to main.";
    harness.script([
        write_records(None, rule),
        send_text("ok"),
        end_turn_with_context(9_000),
    ]);
    let first = run_prompt(rule, Target::New).await;
    // The agent reports fewer tokens, and its records show no compaction. The cause may be a cache, or a model that
    // counts differently.
    harness.script([
        write_records(None, "two"),
        send_text("ok"),
        end_turn_with_context(8_000),
    ]);
    let uncompacted_report = run_prompt("two", session_target(&first)).await;
    assert_eq!(join_decisions(&uncompacted_report), "");
    let compacted = Some(RecordEvent::Compacted(None));
    harness.script([
        write_records(compacted, "three"),
        send_text("ok"),
        end_turn_with_context(1_000),
    ]);
    let compacted_report = run_prompt("three", session_target(&first)).await;
    assert!(
        join_decisions(&compacted_report).contains("compacted its own context"),
        "{}",
        join_decisions(&compacted_report)
    );
    harness.script([
        write_records(None, "four"),
        send_text("ok"),
        end_turn_with_context(1_100),
    ]);
    run_prompt("four", session_target(&first)).await;
    let last_prompt = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .pop()
        .unwrap();
    assert!(
        last_prompt.contains(&format!("] {rule}\n")),
        "{last_prompt}"
    );
}

/// Runs a prompt that waits after a failure, while the user makes a turn in the agent's own program. Returns the
/// prompts of the session, and those that the agent received.
async fn run_prompt_with_native_turn_during_wait(
    failure: ScriptedAction,
    is_retried: bool,
    is_stopped: bool,
) -> (Vec<String>, Vec<String>) {
    let (native, harness) = harness_with_native();
    let policy = Policy {
        backoff: SignedDuration::from_millis(200),
        ..Policy::default()
    };
    let harness = harness.with_policy(policy);
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    if is_retried {
        let native = native.clone();
        let write_prompt = move || -> crate::scripted::SideEffectFuture {
            native.write_prompt("two");
            Box::pin(async {})
        };
        harness.script([ScriptedAction::SideEffect(Box::new(write_prompt)), failure]);
    } else {
        harness.script([failure]);
        let request = harness.request("fails", session_target(&first));
        harness.chat(request, |_| {}).await.unwrap();
    }
    harness.script([send_text("noted"), end_turn()]);
    let (native_writer, stop) = (native.clone(), harness.stop.clone());
    let mut started_turns = Vec::new();
    let request = harness.request("two", session_target(&first));
    let report = harness.chat(request, |event| match event {
        TurnEvent::Decided(decision) if decision.kind() == DecisionKind::BackedOff => {
            native_writer.write_turn("x");
            if is_stopped {
                stop.send_replace(StopLevel::Graceful);
            }
        }
        TurnEvent::Started { turn, .. } => started_turns.push(turn),
        _ => {}
    });
    let report = report.await.unwrap();
    assert_eq!(started_turns.last(), Some(&report.turn));
    if is_stopped {
        harness.stop.send_replace(StopLevel::None);
        let session = harness.load_session(&first).await;
        harness
            .engine
            .reconciler()
            .reconcile_if_idle(session)
            .await
            .unwrap();
    }
    let received_prompts = harness.agent.received.lock().unwrap().prompts.clone();
    (
        list_prompts(&harness, &first.session).await,
        received_prompts,
    )
}

#[tokio::test]
async fn native_turns_made_during_a_wait_precede_the_prompt() {
    let fail_turn = |class, message: &str| {
        ScriptedAction::TurnFailed(AgentError::from_refusal(
            "the prompt",
            AgentRefusal::new(class, message),
        ))
    };
    let crash = || fail_turn(FailureClass::Crashed, "boom");
    let rate_limit = || fail_turn(FailureClass::RateLimited, "rate limit: try again in 0.2s");
    let (recorded, received) = Box::pin(run_prompt_with_native_turn_during_wait(
        crash(),
        false,
        false,
    ))
    .await;
    assert_eq!(recorded, ["one", "fails", "[x]", "two"]);
    assert_eq!(received, ["one", "fails", "two"]);
    let (recorded, received) = Box::pin(run_prompt_with_native_turn_during_wait(
        rate_limit(),
        true,
        false,
    ))
    .await;
    assert_eq!(recorded, ["one", "two", "[x]", "two"]);
    assert_eq!(received, ["one", "two", "two"]);
    // A wait that is stopped does not hide the turn either.
    let (recorded, _) = Box::pin(run_prompt_with_native_turn_during_wait(
        crash(),
        false,
        true,
    ))
    .await;
    assert_eq!(recorded, ["one", "fails", "[x]"]);
    let (recorded, _) = Box::pin(run_prompt_with_native_turn_during_wait(
        rate_limit(),
        true,
        true,
    ))
    .await;
    assert_eq!(recorded, ["one", "two", "[x]"]);
}

#[tokio::test]
async fn the_prompt_of_a_native_turn_is_the_users_text() {
    let (native, harness) = harness_with_native();
    let first = run_recorded_turn(&harness, &native, "one", Target::New).await;
    let brief = "[Project context]\n> a shop\n\n[End of the conversation so far. The user's prompt follows:]\n\n";
    native.write_turn(&format!("[Feature: x]\n\n{brief}two"));
    native.write_turn("[Feature: x] is next");
    run_recorded_turn(&harness, &native, "three", session_target(&first)).await;
    assert_eq!(
        list_prompts(&harness, &first.session).await,
        ["one", "[two]", "[[Feature: x] is next]", "three"]
    );
    let turns = harness.store.turns(&first.session).await.unwrap();
    let messages = harness.store.messages(turns[1].id).await.unwrap();
    assert_eq!(messages[1].role, Role::System);
    assert_eq!(messages[1].plain_text(), brief);
}
