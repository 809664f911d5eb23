//! The brief of a new native session, and the token counts that it needs.

use segue_core::session::{AgentEvent, OpenMode, StopReason, ToolCall, ToolStatus, Usage};
use segue_engine::{Conversation, Target, TurnReport};
use segue_store::Store;

use crate::scripted::{Cue, Stage, done, same, say};

/// Returns the token count of each message of a session, turn by turn.
async fn tokens(stage: &Stage, report: &TurnReport) -> Vec<Vec<Option<u64>>> {
    let mut all = Vec::new();
    for turn in stage.store.turns(&report.session).await.unwrap() {
        let messages = stage.store.messages(turn.id).await.unwrap();
        all.push(messages.iter().map(|message| message.tokens).collect());
    }
    all
}

/// Runs a turn with the cues that the test has scripted.
async fn run(stage: &Stage, prompt: &str, target: Target) -> TurnReport {
    let request = stage.request(prompt, target);
    stage.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn messages_are_counted_as_they_are_written() {
    // Loads the vocabulary, so that counts are available without delay.
    assert_eq!(segue_tokens::count("hello world"), 2);
    let stage = Stage::new();
    let call = ToolCall {
        id: "1".into(),
        name: "shell".into(),
        kind: "execute".into(),
        args: segue_core::json::Json::empty_object(),
        status: ToolStatus::Completed,
        output: Some(segue_core::json::Json::string("done")),
        diffs: Vec::new(),
    };
    stage.script([
        Cue::Event(AgentEvent::Thought("hm".into())),
        Cue::Event(AgentEvent::Tool(call)),
        say("hello world"),
        done(),
    ]);
    let report = run(&stage, "hello world", Target::New).await;
    let told = |name| segue_tokens::count(name);
    assert_eq!(
        tokens(&stage, &report).await,
        [vec![
            Some(2),
            Some(0),
            Some(told("(calls shell)")),
            Some(told("(shell answered)\ndone")),
            Some(2)
        ]]
    );
}

#[tokio::test]
async fn what_a_native_session_holds_is_compared_with_what_its_agent_reports() {
    let _ = segue_tokens::count("");
    let stage = Stage::new();
    let usage = |context| Usage {
        context_tokens: Some(context),
        context_window: Some(200_000),
        ..Usage::default()
    };
    let mut last = None;
    // Each turn adds 2 tokens of prompt and 2 of answer, on top of 1000 tokens of overhead that segue does not see.
    for turn in 1..=6 {
        stage.script([
            say("hello world"),
            Cue::Done(StopReason::EndTurn, usage(1_000 + 4 * turn)),
        ]);
        let target = last.as_ref().map_or(Target::New, same);
        last = Some(run(&stage, "hello world", target).await);
    }
    let report = last.unwrap();
    let measured = stage.store.context_measurements(&report.provider, 10).await.unwrap();
    let pairs: Vec<_> = measured
        .iter()
        .map(|turn| (turn.estimated_tokens, turn.context_tokens))
        .collect();
    assert_eq!(
        pairs,
        [
            (24, 1_024),
            (20, 1_020),
            (16, 1_016),
            (12, 1_012),
            (8, 1_008),
            (4, 1_004)
        ]
    );
    let session = stage.store.session(&report.session).await.unwrap().unwrap();
    let conversation =
        Conversation::Session(Box::new(session), segue_core::session::SessionStatus::Idle);
    let preview = stage
        .engine
        .preview_brief(&conversation, None, "go on")
        .await
        .unwrap();
    let total = preview.brief.total_tokens();
    assert_eq!(preview.reported_tokens, Some(total + 1_000));
    let other = segue_core::id::ProviderId::parse("other").unwrap();
    let preview = stage
        .engine
        .preview_brief(&conversation, Some(&other), "go on")
        .await
        .unwrap();
    assert_eq!(preview.reported_tokens, None, "unknown is unknown");

    // From the turn on in which an agent compacts its own context, the estimate is unknown.
    stage.script([
        Cue::Event(AgentEvent::Compacted),
        Cue::Done(StopReason::EndTurn, usage(500)),
    ]);
    run(&stage, "hello world", same(&report)).await;
    stage.script([Cue::Done(StopReason::EndTurn, usage(504))]);
    run(&stage, "hello world", same(&report)).await;
    let again = stage.store.context_measurements(&report.provider, 10).await.unwrap();
    assert_eq!(again, measured);
}

#[tokio::test]
async fn a_new_leg_is_told_what_fits_and_the_rest_is_said() {
    let mut stage = Stage::new();
    stage.engine = stage.beside_it().with_budget(4_000);
    let mut last: Option<TurnReport> = None;
    for n in 1..=20 {
        let prompt = format!("question {n} {}", "and so on ".repeat(100));
        let target = last.as_ref().map_or(Target::New, same);
        last = Some(stage.turn(&prompt, target).await);
    }
    let report = last.unwrap();
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    let briefed = stage.turn("and now?", same(&report)).await;
    let (opened, why) = briefed.opened.clone().unwrap();
    assert_eq!(opened, OpenMode::Briefed);
    assert!(why.contains("; turns 1 to 1"), "{why}");
    assert!(why.ends_with("were too much to tell"), "{why}");
    let told = stage.agent.heard.lock().unwrap().prompts.pop().unwrap();
    assert!(segue_tokens::count(&told) <= 4_000, "{}", told.len());
    assert!(told.contains("[Turn 20]\nuser:\n> question 20 "), "{told}");
    assert!(!told.contains("> question 1 "), "{told}");
    assert!(told.contains("(turns 1 to 1"), "{told}");
    assert_eq!(told.matches("and now?").count(), 1);
    assert!(told.ends_with("\n\nand now?"));
    // The messages that the brief needed are counted now.
    let counted = tokens(&stage, &report).await;
    assert!(counted[19].iter().all(Option::is_some), "{counted:?}");
}

#[tokio::test]
async fn a_message_of_any_length_leaves_room_for_what_was_said_before_it() {
    let mut stage = Stage::new();
    stage.engine = stage.beside_it().with_budget(8_000);
    let mut last: Option<TurnReport> = None;
    for n in 1..=8 {
        let target = last.as_ref().map_or(Target::New, same);
        let log = if n == 6 { 20_000 } else { 1 };
        let prompt = format!("question {n} {}", "log ".repeat(log));
        last = Some(run_once(&stage, &prompt, target).await);
    }
    *stage.agent.goes_on.lock().unwrap() = OpenMode::Fresh;
    stage.turn("and now?", same(&last.unwrap())).await;
    let told = stage.agent.heard.lock().unwrap().prompts.pop().unwrap();
    assert!(segue_tokens::count(&told) <= 8_000, "{}", told.len());
    assert!(told.contains("bytes are left out here"));
    for n in 1..=8 {
        assert!(told.contains(&format!("> question {n} ")), "{n}");
    }
}

/// Runs a turn with a short answer, whatever the length of its prompt.
async fn run_once(stage: &Stage, prompt: &str, target: Target) -> TurnReport {
    stage.script([say("noted"), done()]);
    run(stage, prompt, target).await
}
