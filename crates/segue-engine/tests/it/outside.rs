//! Reconciliation with the native session: turns that were made outside segue, interrupted, rewound or lost.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use segue_agents::{AgentError, AgentRefusal};
use segue_catalog::{
    RewindTarget, Catalog, RecordEvent, SessionLocation, SessionHead, IdHint, NativeSessionKind, Mark, ReadError, Reader, NativeRecord, Records,
    KeyedMessage, SkippedContent, ReadStart, SessionScan,
};
use segue_core::brief::END_OF_RECORD;
use segue_core::id::{NativeId, ProviderId};
use segue_core::policy::Policy;
use segue_core::session::{
    DecisionKind, FailureClass, Message, OpenMode, Role, Session, StopReason, Turn, TurnState, Usage,
};
use segue_engine::{MessageAuthor, StopLevel, Target, TurnEvent, TurnReport};
use segue_store::{SessionFilter, Lease, PageRequest, Store};

use crate::scripted::{Cue, Stage, dead, done, living, same, say};

/// Records of the native session `native-1`. `None` after it was deleted.
#[derive(Clone)]
struct Book(Arc<Mutex<Option<Vec<NativeRecord>>>>);

impl Reader for Book {
    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn scan_sessions(&self) -> SessionScan {
        let there = self.0.lock().unwrap().is_some();
        let found = there.then(|| SessionLocation {
            path: PathBuf::from("native-1"),
            id_hint: IdHint::Complete("native-1".to_owned()),
            size: 1,
            modified: Timestamp::now(),
            archived: false,
        });
        SessionScan {
            locations: found.into_iter().collect(),
            unreadable: Vec::new(),
        }
    }

    fn read_head(&self, found: &SessionLocation) -> Result<SessionHead, ReadError> {
        Ok(SessionHead {
            kind: NativeSessionKind::Conversation,
            ..SessionHead::new(NativeId::parse("native-1").unwrap(), found.modified)
        })
    }

    fn open_records(&self, found: &SessionLocation, start: &ReadStart) -> Result<Box<dyn Records>, ReadError> {
        let records = self.0.lock().unwrap().clone().unwrap_or_default();
        let from = match start {
            ReadStart::Beginning => 0,
            ReadStart::After(mark) => {
                let at = records.iter().position(|record| record.mark == *mark);
                at.ok_or_else(|| ReadError::MarkNotFound {
                    path: found.path.clone(),
                    mark: mark.clone(),
                })? + 1
            }
        };
        Ok(Box::new(Rest(records.into_iter().skip(from).collect())))
    }

    fn find_last_mark(&self, _: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        let records = self.0.lock().unwrap();
        let last = records.as_ref().and_then(|records| records.last());
        Ok(last.map(|record| record.mark.clone()))
    }
}

struct Rest(std::collections::VecDeque<NativeRecord>);

impl Records for Rest {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        Ok(self.0.pop_front())
    }

    fn skipped(&self) -> SkippedContent {
        SkippedContent::default()
    }
}

impl Book {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(Vec::new()))))
    }

    fn write(&self, event: RecordEvent) {
        let mut records = self.0.lock().unwrap();
        let records = records.as_mut().unwrap();
        records.push(NativeRecord {
            mark: Mark::Id(format!("{}-{}", records.len(), Timestamp::now())),
            at: Some(Timestamp::now()),
            events: vec![event],
        });
    }

    /// Writes a prompt whose key is its text.
    fn ask(&self, words: &str) {
        let message = Message::from_text(Role::User, words, Timestamp::now());
        let key = Some(words.to_owned());
        self.write(RecordEvent::Prompt(KeyedMessage { key, message }));
    }

    fn answer(&self, words: &str) {
        let message = Message::from_text(Role::Assistant, words, Timestamp::now());
        self.write(RecordEvent::Message(KeyedMessage { key: None, message }));
        self.write(RecordEvent::TurnEnded(TurnState::Finished));
    }

    /// Writes a turn that was made in the agent's own program.
    fn by_hand(&self, words: &str) {
        // Times are recorded in milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(5));
        self.ask(words);
        self.answer(&format!("{words}, by hand"));
    }

    fn goes_back_before(&self, words: &str) {
        self.write(RecordEvent::Rewind(RewindTarget::BeforeRecord(words.to_owned())));
    }

    fn keep(&self, records: usize) {
        self.0.lock().unwrap().as_mut().unwrap().truncate(records);
    }
}

fn stage() -> (Book, Stage) {
    let book = Book::new();
    let stage = Stage::beside(Catalog::new(vec![Arc::new(book.clone())]));
    (book, stage)
}

/// Runs a turn through segue, which the agent records with the text that it received.
async fn turn(stage: &Stage, book: &Book, prompt: &'static str, target: Target) -> TurnReport {
    let book = book.clone();
    let writes = move || -> crate::scripted::Pending {
        book.ask(&format!("\u{200b}{prompt}"));
        book.answer("noted");
        Box::pin(async {})
    };
    stage.script([Cue::Aside(Box::new(writes)), say("noted"), done()]);
    let request = stage.request(prompt, target);
    stage.chat(request, |_| {}).await.unwrap()
}

/// Returns the prompts of a session. Those made outside segue are in brackets.
async fn story(stage: &Stage, session: &segue_core::id::SessionId) -> Vec<String> {
    let mut story = Vec::new();
    for turn in stage.store.turns(session).await.unwrap() {
        let messages = stage.store.messages(turn.id).await.unwrap();
        let words = messages[0].plain_text().replace('\u{200b}', "");
        story.push(if turn.made_outside {
            format!("[{words}]")
        } else {
            words
        });
    }
    story
}

fn decided(report: &TurnReport) -> String {
    let texts: Vec<&str> = report.decisions.iter().map(|d| d.text.as_str()).collect();
    texts.join("\n")
}

#[tokio::test]
async fn turns_made_elsewhere_are_taken_in_once() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    book.by_hand("x");
    book.by_hand("one");
    let last = turn(&stage, &book, "two", same(&first)).await;
    assert_eq!(
        (last.turn, decided(&last)),
        (
            4,
            "took in 2 turns that were made in scripted itself".into()
        )
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(
        story(&stage, &first.session).await,
        ["one", "[x]", "[one]", "two"]
    );
    let again = turn(&stage, &book, "three", same(&first)).await;
    assert_eq!(decided(&again), "");
    // A record that the agent writes after the end of a turn does not start a turn.
    book.write(RecordEvent::Anchor("later".into()));
    let (same_as_before, told) = stage
        .engine
        .reconcile_if_idle(stage.session_of(&first).await)
        .await
        .unwrap();
    assert_eq!((same_as_before.turns, told.len()), (5, 0));
}

#[tokio::test]
async fn what_was_added_is_told_after_turns_made_elsewhere() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    let added = stage.engine.add_message(&first.session, MessageAuthor::User, "x");
    assert_eq!(added.await.unwrap().turn, 2);
    // The user types the added text in the agent's own program as well.
    book.by_hand("x");
    let last = turn(&stage, &book, "two", same(&first)).await;
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(
        story(&stage, &first.session).await,
        ["one", "x", "[x]", "two"]
    );
    let told = stage.agent.heard.lock().unwrap().prompts[1].clone();
    assert!(told.contains("[Turn 2]\nuser:\n> x\n"), "{told}");
    assert!(!told.contains("[Turn 3]"), "{told}");
    let again = turn(&stage, &book, "three", same(&first)).await;
    assert_eq!(decided(&again), "");
    assert_eq!(stage.agent.heard.lock().unwrap().prompts[2], "three");
}

#[tokio::test]
async fn whoever_looks_takes_them_in_unless_somebody_is_at_work() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    book.by_hand("x");
    let session = stage.session_of(&first).await;
    let lease = stage.claim(&session.id, living()).await;
    let (as_it_was, _) = stage.engine.reconcile_if_idle(session.clone()).await.unwrap();
    assert_eq!(as_it_was.turns, 1);
    stage.store.release_lease(&lease).await.unwrap();
    let (looked_at, told) = stage.engine.reconcile_if_idle(session).await.unwrap();
    assert_eq!((looked_at.turns, told.len()), (2, 1));
    assert_eq!(looked_at.total_tokens, None);
}

/// Leaves a turn like a killed process does that has sent the prompt.
async fn cut_off(stage: &Stage, session: &Session, prompt: &str) {
    let (lease, turn) = written_down(stage, session, prompt).await;
    let legs = stage.store.legs(&session.id).await.unwrap();
    let begun = stage
        .store
        .begin_attempt(&lease, turn.id, legs[0].id, Timestamp::now());
    begun.await.unwrap();
}

/// Leaves a turn like a killed process does that has not sent the prompt yet.
async fn written_down(stage: &Stage, session: &Session, prompt: &str) -> (Lease, Turn) {
    let lease = stage.claim(&session.id, dead()).await;
    let prompt = Message::from_text(Role::User, prompt, Timestamp::now());
    let turn = stage.store.begin_turn(&lease, &prompt).await.unwrap();
    (lease, turn)
}

#[tokio::test]
async fn an_answer_that_nobody_heard_is_taken_from_the_native_record() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    cut_off(&stage, &stage.session_of(&first).await, "two").await;
    book.ask(&format!("the story so far\n{END_OF_RECORD}\n\ntwo"));
    book.answer("here it is");
    book.by_hand("x");
    let last = turn(&stage, &book, "three", same(&first)).await;
    assert!(
        decided(&last)
            .contains("turn 2 was interrupted: its answer is taken from scripted's own record"),
        "{}",
        decided(&last)
    );
    assert_eq!(
        story(&stage, &first.session).await,
        ["one", "two", "[x]", "three"]
    );
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Finished);
    let messages = stage.store.messages(turns[1].id).await.unwrap();
    assert_eq!(messages[1].plain_text(), "here it is");
    assert_eq!(stage.agent.heard.lock().unwrap().prompts, ["one", "three"]);
}

#[tokio::test]
async fn a_prompt_that_never_arrived_is_not_mistaken_for_one_made_by_hand() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    cut_off(&stage, &stage.session_of(&first).await, "two").await;
    book.by_hand("something else");
    let last = turn(&stage, &book, "three", same(&first)).await;
    assert!(
        decided(&last).contains("scripted has no record of its prompt"),
        "{}",
        decided(&last)
    );
    let told = story(&stage, &first.session).await;
    assert_eq!(told, ["one", "two", "[something else]", "three"]);
    let turns = stage.store.turns(&first.session).await.unwrap();
    assert_eq!(turns[1].state, TurnState::Interrupted);
    let again = turn(&stage, &book, "four", same(&first)).await;
    assert_eq!(decided(&again), "");
}

#[tokio::test]
async fn a_prompt_that_was_not_sent_has_no_answer_in_the_native_record() {
    for by_hand in ["fix the login, not the logout", "fix"] {
        let (book, stage) = stage();
        let first = turn(&stage, &book, "one", Target::New).await;
        written_down(&stage, &stage.session_of(&first).await, "fix").await;
        book.by_hand(by_hand);
        turn(&stage, &book, "two", same(&first)).await;
        let told = story(&stage, &first.session).await;
        assert_eq!(told, ["one", "fix", &format!("[{by_hand}]"), "two"]);
        let turns = stage.store.turns(&first.session).await.unwrap();
        assert_eq!(turns[1].state, TurnState::Interrupted);
    }
}

#[tokio::test]
async fn what_is_taken_back_there_is_taken_back_here_and_undo_brings_it_back() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    turn(&stage, &book, "two", same(&first)).await;
    turn(&stage, &book, "three", same(&first)).await;
    book.goes_back_before("\u{200b}two");
    book.by_hand("x");
    let last = turn(&stage, &book, "four", same(&first)).await;
    assert!(
        decided(&last).contains("went back to turn 1"),
        "{}",
        decided(&last)
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
    assert_eq!(story(&stage, &first.session).await, ["one", "[x]", "four"]);
    let session = stage.session_of(&first).await;
    stage.engine.undo_revert(&session).await.unwrap();
    assert_eq!(story(&stage, &first.session).await, ["one", "two", "three"]);
}

#[tokio::test]
async fn turns_made_after_what_was_reverted_become_a_session_of_their_own() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    turn(&stage, &book, "two", same(&first)).await;
    let session = stage.session_of(&first).await;
    stage.engine.revert_session(&session, 1).await.unwrap();
    book.by_hand("x");
    // A read access changes nothing in this case.
    let (looked_at, _) = stage
        .engine
        .reconcile_if_idle(stage.session_of(&first).await)
        .await
        .unwrap();
    assert_eq!(looked_at.turns, 1);
    let last = turn(&stage, &book, "three", same(&first)).await;
    let told = decided(&last);
    let (_, made) = told.split_once("segue session resume ").unwrap();
    let made = segue_core::id::SessionId::parse(made.lines().next().unwrap()).unwrap();
    assert_eq!(story(&stage, &made).await, ["one", "two", "[x]"]);
    assert_eq!(story(&stage, &first.session).await, ["one", "three"]);
    let (opened, why) = last.opened.unwrap();
    assert_eq!(opened, OpenMode::Briefed);
    assert!(why.contains("where this session is not any more"), "{why}");
}

#[tokio::test]
async fn a_fork_tells_what_it_took_in() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    book.by_hand("x");
    let session = stage.session_of(&first).await;
    let forked = stage.engine.fork_session(&session, None, &session.project);
    let forked = forked.await.unwrap();
    assert_eq!(story(&stage, &forked.session.id).await, ["one", "[x]"]);
    assert!(
        forked.decisions[0].text.starts_with("took in a turn"),
        "{forked:?}"
    );
}

#[tokio::test]
async fn an_undo_goes_back_to_where_the_native_session_went_on() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    turn(&stage, &book, "two", same(&first)).await;
    let session = stage.session_of(&first).await;
    stage.engine.revert_session(&session, 1).await.unwrap();
    book.by_hand("x");
    stage.engine.undo_revert(&session).await.unwrap();
    let last = turn(&stage, &book, "three", same(&first)).await;
    assert_eq!(
        story(&stage, &first.session).await,
        ["one", "two", "[x]", "three"]
    );
    assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Resumed);
}

/// Creates a stage with a second agent for handoffs.
fn stage_of_two() -> (Book, Stage, ProviderId) {
    let book = Book::new();
    let catalog = Catalog::new(vec![Arc::new(book.clone())]);
    let stage = Stage::cast(&["codex"], Policy::default(), catalog);
    (book, stage, ProviderId::parse("codex").unwrap())
}

#[tokio::test]
async fn turns_made_after_a_handoff_are_taken_in_when_it_comes_back() {
    let (book, stage, codex) = stage_of_two();
    let first = turn(&stage, &book, "one", Target::New).await;
    let session = stage.session_of(&first).await;
    stage.engine.handoff(&session, &codex).await.unwrap();
    book.by_hand("x");
    let mut back = stage.request("two", same(&first));
    back.provider = Some(first.provider.clone());
    stage.script([say("noted"), done()]);
    let back = stage.chat(back, |_| {}).await.unwrap();
    assert_eq!(story(&stage, &first.session).await, ["one", "[x]", "two"]);
    assert_eq!(back.opened.as_ref().unwrap().0, OpenMode::Resumed);
    let told = decided(&back);
    assert!(
        told.contains("knows all turns") && told.contains("took in"),
        "{told}"
    );
}

#[tokio::test]
async fn turns_made_before_a_handoff_are_not_left_behind() {
    let (book, stage, codex) = stage_of_two();
    let first = turn(&stage, &book, "one", Target::New).await;
    turn(&stage, &book, "two", same(&first)).await;
    let session = stage.session_of(&first).await;
    stage.engine.revert_session(&session, 1).await.unwrap();
    book.by_hand("x");
    let session = stage.session_of(&first).await;
    let handed = stage.engine.handoff(&session, &codex).await.unwrap();
    assert!(
        handed.decisions[0].text.contains("go on there with"),
        "{:?}",
        handed.decisions
    );
    assert_eq!(story(&stage, &first.session).await, ["one"]);
    let all = stage.store.list_sessions(&SessionFilter::default(), PageRequest::first(9)).await;
    let all = all.unwrap().sessions;
    let aside = all.iter().find(|other| other.id != first.session).unwrap();
    assert_eq!(story(&stage, &aside.id).await, ["one", "two", "[x]"]);
}

#[tokio::test]
async fn a_native_session_that_was_cut_or_deleted_is_told_anew() {
    for (kept, said) in [
        (Some(3), "does not have all of its own session"),
        (None, "does not have its own session any more (native-1)"),
    ] {
        let (book, stage) = stage();
        let first = turn(&stage, &book, "one", Target::New).await;
        turn(&stage, &book, "two", same(&first)).await;
        match kept {
            Some(records) => book.keep(records),
            None => *book.0.lock().unwrap() = None,
        }
        stage.script([say("noted"), done()]);
        let last = stage
            .chat(stage.request("three", same(&first)), |_| {})
            .await
            .unwrap();
        assert!(decided(&last).contains(said), "{}", decided(&last));
        assert_eq!(last.opened.as_ref().unwrap().0, OpenMode::Briefed);
        let asked_for = stage.agent.heard.lock().unwrap().asked_for.clone();
        assert_eq!(
            asked_for.last(),
            Some(&None),
            "nobody was asked to go on with it"
        );
        assert_eq!(story(&stage, &first.session).await, ["one", "two", "three"]);
    }
}

#[tokio::test]
async fn a_smaller_context_is_told() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one. Never push to main.", Target::New).await;
    book.write(RecordEvent::Compacted(Some("all of it".into())));
    let last = turn(&stage, &book, "two", same(&first)).await;
    assert!(
        decided(&last).contains("made its own context smaller"),
        "{}",
        decided(&last)
    );
    let again = turn(&stage, &book, "three", same(&first)).await;
    assert_eq!(decided(&again), "");
    let prompts = stage.agent.heard.lock().unwrap().prompts.clone();
    assert!(
        prompts[1].contains("] Never push to main.\n"),
        "{}",
        prompts[1]
    );
    assert_eq!(prompts[2], "three");
}

#[tokio::test]
async fn an_agent_that_says_nothing_of_its_smaller_context_is_found_out() {
    let (book, stage) = stage();
    let holding = |tokens| {
        let usage = Usage {
            context_tokens: Some(tokens),
            ..Usage::default()
        };
        Cue::Done(StopReason::EndTurn, usage)
    };
    let asked = async |prompt: &str, target| {
        let request = stage.request(prompt, target);
        stage.chat(request, |_| {}).await.unwrap()
    };
    let writes = |event: Option<RecordEvent>, prompt: &'static str| {
        let book = book.clone();
        Cue::Aside(Box::new(move || -> crate::scripted::Pending {
            book.ask(prompt);
            if let Some(event) = event {
                book.write(event);
            }
            Box::pin(async {})
        }))
    };
    let rule = "Never push to main.";
    stage.script([writes(None, rule), say("ok"), holding(9_000)]);
    let first = asked(rule, Target::New).await;
    // The agent reports fewer tokens, and its records show no compaction. The cause may be a cache, or a model that
    // counts differently.
    stage.script([writes(None, "two"), say("ok"), holding(8_000)]);
    let quiet = asked("two", same(&first)).await;
    assert_eq!(decided(&quiet), "");
    let compacted = Some(RecordEvent::Compacted(None));
    stage.script([writes(compacted, "three"), say("ok"), holding(1_000)]);
    let smaller = asked("three", same(&first)).await;
    assert!(
        decided(&smaller).contains("made its own context smaller"),
        "{}",
        decided(&smaller)
    );
    stage.script([writes(None, "four"), say("ok"), holding(1_100)]);
    asked("four", same(&first)).await;
    let last = stage.agent.heard.lock().unwrap().prompts.pop().unwrap();
    assert!(last.contains(&format!("] {rule}\n")), "{last}");
}

/// Runs a prompt that waits after a failure, while the user makes a turn in the agent's own program. Returns the
/// prompts of the session, and those that the agent received.
async fn by_hand_meanwhile(waits: Cue, refused: bool, stops: bool) -> (Vec<String>, Vec<String>) {
    let (book, stage) = stage();
    let patient = Policy {
        backoff: SignedDuration::from_millis(200),
        ..Policy::default()
    };
    let stage = stage.going_by(patient);
    let first = turn(&stage, &book, "one", Target::New).await;
    if refused {
        let book = book.clone();
        let writes = move || -> crate::scripted::Pending {
            book.ask("two");
            Box::pin(async {})
        };
        stage.script([Cue::Aside(Box::new(writes)), waits]);
    } else {
        stage.script([waits]);
        let request = stage.request("fails", same(&first));
        stage.chat(request, |_| {}).await.unwrap();
    }
    stage.script([say("noted"), done()]);
    let (writes, stop) = (book.clone(), stage.stop.clone());
    let mut began = Vec::new();
    let request = stage.request("two", same(&first));
    let report = stage.chat(request, |event| match event {
        TurnEvent::Decided(decision) if decision.kind == DecisionKind::BackedOff => {
            writes.by_hand("x");
            if stops {
                stop.send_replace(StopLevel::Graceful);
            }
        }
        TurnEvent::Started { turn, .. } => began.push(turn),
        _ => {}
    });
    let report = report.await.unwrap();
    assert_eq!(began.last(), Some(&report.turn));
    if stops {
        stage.stop.send_replace(StopLevel::None);
        let session = stage.session_of(&first).await;
        stage.engine.reconcile_if_idle(session).await.unwrap();
    }
    let heard = stage.agent.heard.lock().unwrap().prompts.clone();
    (story(&stage, &first.session).await, heard)
}

#[tokio::test]
async fn what_is_made_by_hand_while_a_prompt_waits_comes_before_it() {
    let fails = |class, words: &str| {
        Cue::Fails(AgentError::from_refusal(
            "the prompt",
            AgentRefusal::new(class, words),
        ))
    };
    let crash = || fails(FailureClass::Crashed, "boom");
    let limited = || fails(FailureClass::RateLimited, "rate limit: try again in 0.2s");
    let (told, heard) = Box::pin(by_hand_meanwhile(crash(), false, false)).await;
    assert_eq!(told, ["one", "fails", "[x]", "two"]);
    assert_eq!(heard, ["one", "fails", "two"]);
    let (told, heard) = Box::pin(by_hand_meanwhile(limited(), true, false)).await;
    assert_eq!(told, ["one", "two", "[x]", "two"]);
    assert_eq!(heard, ["one", "two", "two"]);
    // A wait that is stopped does not hide the turn either.
    let (told, _) = Box::pin(by_hand_meanwhile(crash(), false, true)).await;
    assert_eq!(told, ["one", "fails", "[x]"]);
    let (told, _) = Box::pin(by_hand_meanwhile(limited(), true, true)).await;
    assert_eq!(told, ["one", "two", "[x]"]);
}

#[tokio::test]
async fn of_a_turn_made_elsewhere_what_the_person_said_is_the_prompt() {
    let (book, stage) = stage();
    let first = turn(&stage, &book, "one", Target::New).await;
    let brief =
        "[The context, for you to know]\n> a shop\n\n[End of the record. The user now says:]\n\n";
    book.by_hand(&format!("[Feature: x]\n\n{brief}two"));
    book.by_hand("[Feature: x] is next");
    turn(&stage, &book, "three", same(&first)).await;
    assert_eq!(
        story(&stage, &first.session).await,
        ["one", "[two]", "[[Feature: x] is next]", "three"]
    );
    let turns = stage.store.turns(&first.session).await.unwrap();
    let messages = stage.store.messages(turns[1].id).await.unwrap();
    assert_eq!(messages[1].role, Role::System);
    assert_eq!(messages[1].plain_text(), brief);
}
