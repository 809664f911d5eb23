//! The brief of a new native session, and the token counts that it needs.

use segue_core::session::{AgentEvent, OpenMode, StopReason, ToolCall, ToolStatus, Usage};
use segue_engine::{Conversation, EngineSettings, Target, TurnReport};

use crate::open_mode_and_reason;
use crate::scripted::{EngineHarness, ScriptedAction, end_turn, send_text, session_target};

/// Returns the token count of each message of a session, turn by turn.
async fn message_tokens(harness: &EngineHarness, report: &TurnReport) -> Vec<Vec<Option<u64>>> {
    let mut counts = Vec::new();
    for turn in harness.store.turns(&report.session).await.unwrap() {
        let messages = harness.store.messages(turn.id).await.unwrap();
        counts.push(messages.iter().map(|message| message.tokens).collect());
    }
    counts
}

/// Runs a turn with the actions that the test has scripted.
async fn run_scripted_turn(harness: &EngineHarness, prompt: &str, target: Target) -> TurnReport {
    let request = harness.request(prompt, target);
    harness.chat(request, |_| {}).await.unwrap()
}

#[tokio::test]
async fn messages_are_counted_as_they_are_written() {
    // Loads the vocabulary, so that counts are available without delay.
    assert_eq!(segue_tokens::count("hello world"), 2);
    let harness = EngineHarness::new();
    let call = ToolCall {
        id: "1".into(),
        name: "shell".into(),
        kind: "execute".into(),
        args: segue_core::json::Json::empty_object(),
        status: ToolStatus::Completed,
        output: Some(segue_core::json::Json::string("done")),
        diffs: Vec::new(),
    };
    harness.script([
        ScriptedAction::Event(AgentEvent::Thought("hm".into())),
        ScriptedAction::Event(AgentEvent::Tool(call)),
        send_text("hello world"),
        end_turn(),
    ]);
    let report = run_scripted_turn(&harness, "hello world", Target::New).await;
    let tokens_of = |name| segue_tokens::count(name);
    assert_eq!(
        message_tokens(&harness, &report).await,
        [vec![
            Some(2),
            Some(0),
            Some(tokens_of("(calls shell)")),
            Some(tokens_of("(shell returned)\ndone")),
            Some(2)
        ]]
    );
}

#[tokio::test]
async fn token_estimates_are_compared_with_reported_context_sizes() {
    let _ = segue_tokens::count("");
    let harness = EngineHarness::new();
    let usage = |context| Usage {
        context_tokens: Some(context),
        context_window: Some(200_000),
        ..Usage::default()
    };
    let mut last = None;
    // Each turn adds 2 tokens of prompt and 2 of answer, on top of 1000 tokens of overhead that segue does not see.
    for turn in 1..=6 {
        harness.script([
            send_text("hello world"),
            ScriptedAction::TurnEnded(StopReason::EndTurn, usage(1_000 + 4 * turn)),
        ]);
        let target = last.as_ref().map_or(Target::New, session_target);
        last = Some(run_scripted_turn(&harness, "hello world", target).await);
    }
    let report = last.unwrap();
    let measurements = harness
        .store
        .context_measurements(&report.provider, 10)
        .await
        .unwrap();
    let pairs: Vec<_> = measurements
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
    let session = harness
        .store
        .session(&report.session)
        .await
        .unwrap()
        .unwrap();
    let conversation =
        Conversation::Session(Box::new(session), segue_core::session::SessionStatus::Idle);
    let preview = harness
        .engine
        .briefs()
        .preview_brief(&conversation, None, "go on")
        .await
        .unwrap();
    let total = preview.plan.brief.total_tokens();
    assert_eq!(preview.reported_tokens, Some(total + 1_000));
    let other_provider = segue_core::id::ProviderId::parse("other").unwrap();
    let preview = harness
        .engine
        .briefs()
        .preview_brief(&conversation, Some(&other_provider), "go on")
        .await
        .unwrap();
    assert_eq!(
        preview.reported_tokens, None,
        "the agent has reported no context sizes"
    );

    // From the turn on in which an agent compacts its own context, the estimate is unknown.
    harness.script([
        ScriptedAction::Event(AgentEvent::Compacted),
        ScriptedAction::TurnEnded(StopReason::EndTurn, usage(500)),
    ]);
    run_scripted_turn(&harness, "hello world", session_target(&report)).await;
    harness.script([ScriptedAction::TurnEnded(StopReason::EndTurn, usage(504))]);
    run_scripted_turn(&harness, "hello world", session_target(&report)).await;
    let measurements_after = harness
        .store
        .context_measurements(&report.provider, 10)
        .await
        .unwrap();
    assert_eq!(measurements_after, measurements);
}

#[tokio::test]
async fn a_brief_contains_what_fits_and_names_the_omitted_turns() {
    let mut harness = EngineHarness::new();
    harness.engine = harness.second_engine_with(EngineSettings {
        budget: 4_000,
        ..EngineSettings::default()
    });
    let mut last: Option<TurnReport> = None;
    for n in 1..=20 {
        let prompt = format!("question {n} {}", "and so on ".repeat(100));
        let target = last.as_ref().map_or(Target::New, session_target);
        last = Some(harness.run_turn(&prompt, target).await);
    }
    let report = last.unwrap();
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    let briefed = harness.run_turn("and now?", session_target(&report)).await;
    let (mode, reason) = open_mode_and_reason(&briefed);
    assert_eq!(mode, OpenMode::Briefed);
    assert!(reason.contains("; turns 1 to 1"), "{reason}");
    assert!(reason.ends_with("did not fit into the brief"), "{reason}");
    let brief = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .pop()
        .unwrap();
    assert!(segue_tokens::count(&brief) <= 4_000, "{}", brief.len());
    assert!(
        brief.contains("[Turn 20]\nuser:\n> question 20 "),
        "{brief}"
    );
    assert!(!brief.contains("> question 1 "), "{brief}");
    assert!(brief.contains("(turns 1 to 1"), "{brief}");
    assert_eq!(brief.matches("and now?").count(), 1);
    assert!(brief.ends_with("\n\nand now?"));
    // The messages that the brief needed are counted now.
    let counts = message_tokens(&harness, &report).await;
    assert!(counts[19].iter().all(Option::is_some), "{counts:?}");
}

#[tokio::test]
async fn a_very_long_message_leaves_room_for_earlier_messages() {
    let mut harness = EngineHarness::new();
    harness.engine = harness.second_engine_with(EngineSettings {
        budget: 8_000,
        ..EngineSettings::default()
    });
    let mut last: Option<TurnReport> = None;
    for n in 1..=8 {
        let target = last.as_ref().map_or(Target::New, session_target);
        let repeats = if n == 6 { 20_000 } else { 1 };
        let prompt = format!("question {n} {}", "log ".repeat(repeats));
        last = Some(run_short_turn(&harness, &prompt, target).await);
    }
    *harness.agent.resume_mode.lock().unwrap() = OpenMode::Fresh;
    harness
        .run_turn("and now?", session_target(&last.unwrap()))
        .await;
    let brief = harness
        .agent
        .received
        .lock()
        .unwrap()
        .prompts
        .pop()
        .unwrap();
    assert!(segue_tokens::count(&brief) <= 8_000, "{}", brief.len());
    assert!(brief.contains("bytes omitted"));
    for n in 1..=8 {
        assert!(brief.contains(&format!("> question {n} ")), "{n}");
    }
}

/// Runs a turn with a short answer, whatever the length of its prompt.
async fn run_short_turn(harness: &EngineHarness, prompt: &str, target: Target) -> TurnReport {
    harness.script([send_text("noted"), end_turn()]);
    run_scripted_turn(harness, prompt, target).await
}
