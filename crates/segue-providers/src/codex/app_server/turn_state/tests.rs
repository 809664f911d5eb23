//! Conversion of notifications that Codex 0.166 sent.

use segue_core::json::Json;
use segue_core::session::{FailureClass, PlanStatus, PlanStep, ToolStatus, Usage};
use serde_json::json;

use super::*;

fn started_turn() -> CodexTurn {
    let mut turn = CodexTurn::new("t".to_owned(), CodexUsageMeter::for_new_thread());
    turn.begin();
    turn.set_turn_id("u");
    turn
}

/// Passes a notification to the turn under the turn's own ids.
fn notify(turn: &mut CodexTurn, method: &str, mut params: Value) -> Vec<AppServerUpdate> {
    params["threadId"] = "t".into();
    if params.get("turnId").is_none() {
        params["turnId"] = "u".into();
    }
    turn.convert_notification(method, &params)
}

fn collect_events(turn: &mut CodexTurn, notifications: &[(&str, Value)]) -> Vec<AgentEvent> {
    let updates = notifications
        .iter()
        .flat_map(|(method, params)| notify(turn, method, params.clone()));
    updates
        .map(|update| match update {
            AppServerUpdate::Event(event) => event,
            AppServerUpdate::TurnEnded(end) => panic!("{end:?}"),
        })
        .collect()
}

fn message_item(id: &str, text: &str) -> Value {
    json!({"item": {"type": "agentMessage", "id": id, "text": text}})
}

#[test]
fn message_text_is_emitted_once() {
    let delta = |id: &str, chunk: &str| json!({"itemId": id, "delta": chunk});
    let text = |content: &str| AgentEvent::Text(content.to_owned());
    let cases = [
        (
            vec![
                ("item/started", message_item("a", "")),
                ("item/agentMessage/delta", delta("a", "one ")),
                ("item/agentMessage/delta", delta("a", "two")),
                ("item/completed", message_item("a", "one two")),
            ],
            vec![text("one "), text("two")],
        ),
        // A message that was not streamed, and one that was streamed in part.
        (
            vec![("item/completed", message_item("a", "all"))],
            vec![text("all")],
        ),
        (
            vec![
                ("item/agentMessage/delta", delta("a", "one ")),
                ("item/completed", message_item("a", "one two")),
            ],
            vec![text("one "), text("two")],
        ),
        // Two messages in a row.
        (
            vec![
                ("item/completed", message_item("a", "first")),
                ("item/agentMessage/delta", delta("b", "sec")),
                ("item/agentMessage/delta", delta("b", "ond")),
                ("item/completed", message_item("b", "second")),
            ],
            vec![text("first"), text("\n\nsec"), text("ond")],
        ),
        // A message that differs from its stream: streamed text cannot be retracted.
        (
            vec![
                ("item/agentMessage/delta", delta("a", "one")),
                ("item/completed", message_item("a", "other")),
            ],
            vec![text("one")],
        ),
    ];
    for (notifications, expected) in cases {
        assert_eq!(
            collect_events(&mut started_turn(), &notifications),
            expected
        );
    }
}

#[test]
fn thoughts_are_emitted_once() {
    let delta = json!({"itemId": "r", "delta": "hm", "summaryIndex": 0});
    let complete_item =
        json!({"item": {"type": "reasoning", "id": "r", "summary": ["hm", "so"], "content": []}});
    let part = |index: u64| json!({"itemId": "r", "summaryIndex": index});
    let thought = |content: &str| AgentEvent::Thought(content.to_owned());
    let streamed = [
        ("item/reasoning/summaryPartAdded", part(0)),
        ("item/reasoning/summaryTextDelta", delta.clone()),
        ("item/reasoning/summaryPartAdded", part(1)),
        ("item/reasoning/summaryTextDelta", delta),
        ("item/completed", complete_item.clone()),
    ];
    let expected = [thought("hm"), thought("\n\n"), thought("hm")];
    assert_eq!(collect_events(&mut started_turn(), &streamed), expected);
    let not_streamed = [("item/completed", complete_item)];
    assert_eq!(
        collect_events(&mut started_turn(), &not_streamed),
        [thought("hm\n\nso")]
    );
}

#[test]
fn a_tool_call_is_open_until_it_completes() {
    let mut turn = started_turn();
    let item = |status: &str| {
        json!({"item": {"type": "commandExecution", "id": "c", "command": "ls",
            "status": status, "aggregatedOutput": "a\n", "exitCode": 0}})
    };
    let events = collect_events(&mut turn, &[("item/started", item("inProgress"))]);
    assert!(
        matches!(&events[..], [AgentEvent::Tool(call)] if call.status == ToolStatus::InProgress)
    );
    assert!(turn.find_open_call(&|call| call.id == "c").is_some());
    let events = collect_events(&mut turn, &[("item/completed", item("completed"))]);
    let [AgentEvent::Tool(call)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(call.output, Some(Json::string("a\n")));
    assert!(turn.find_open_call(&|call| call.id == "c").is_none());
}

#[test]
fn usage_covers_only_the_current_turn() {
    let usage_update = |input: u64| {
        let count = |input: u64| json!({"totalTokens": input + 20, "inputTokens": input, "cachedInputTokens": 11, "outputTokens": 20});
        json!({"tokenUsage": {"total": count(input), "last": count(101), "modelContextWindow": 1000}})
    };
    let mut turn = CodexTurn::new("t".to_owned(), CodexUsageMeter::with_thread_total(None));
    // Sent after `thread/resume`, under the id of an earlier turn.
    let mut earlier = usage_update(303);
    earlier["turnId"] = "earlier".into();
    turn.begin();
    assert_eq!(notify(&mut turn, "thread/tokenUsage/updated", earlier), []);
    turn.set_turn_id("u");
    let events = collect_events(
        &mut turn,
        &[("thread/tokenUsage/updated", usage_update(404))],
    );
    let [AgentEvent::Usage(usage)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(usage.input_tokens, Some(101));
    assert_eq!(usage.context_tokens, Some(121));
    assert_eq!(usage.context_window, Some(1000));
}

#[test]
fn only_the_completion_of_the_current_turn_ends_it() {
    let completion = |id: &str, status: &str, error: Value| json!({"turnId": null, "turn": {"id": id, "status": status, "error": error}});
    let turn_ended = |reason| {
        AppServerUpdate::TurnEnded(Ok(TurnEnd {
            reason,
            usage: Usage::default(),
        }))
    };
    let notify_completion = |params: Value| notify(&mut started_turn(), "turn/completed", params);
    assert_eq!(
        notify_completion(completion("u", "completed", Value::Null)),
        [turn_ended(StopReason::EndTurn)]
    );
    assert_eq!(
        notify_completion(completion("u", "interrupted", Value::Null)),
        [turn_ended(StopReason::Cancelled)]
    );
    assert_eq!(
        notify_completion(completion("earlier", "completed", Value::Null)),
        []
    );
    let error = json!({"message": "no room", "codexErrorInfo": "contextWindowExceeded"});
    let updates = notify_completion(completion("u", "failed", error));
    assert!(
        matches!(&updates[..], [AppServerUpdate::TurnEnded(Err(refusal))] if refusal.class == FailureClass::ContextTooLong),
        "{updates:?}"
    );
}

#[test]
fn other_threads_and_warnings_are_ignored() {
    let mut turn = started_turn();
    let other_thread = json!({"threadId": "other", "turnId": "u", "itemId": "a", "delta": "x"});
    assert_eq!(
        turn.convert_notification("item/agentMessage/delta", &other_thread),
        []
    );
    let retry = json!({"willRetry": true, "error": {"message": "Reconnecting... 1/5"}});
    let ignored = [
        ("error", retry),
        ("warning", json!({"message": "Model metadata not found"})),
        ("thread/status/changed", json!({"status": {"type": "idle"}})),
        ("item/commandExecution/outputDelta", json!({"delta": "x"})),
        (
            "item/started",
            json!({"item": {"type": "userMessage", "id": "m"}}),
        ),
        (
            "item/completed",
            json!({"item": {"type": "userMessage", "id": "m"}}),
        ),
    ];
    assert_eq!(collect_events(&mut turn, &ignored), []);
}

#[test]
fn plans_titles_and_compactions_are_emitted() {
    let steps = json!({"plan": [{"step": "one", "status": "completed"}, {"step": "two", "status": "inProgress"}]});
    let compaction = json!({"item": {"type": "contextCompaction", "id": "k"}});
    let events = collect_events(
        &mut started_turn(),
        &[
            ("turn/plan/updated", steps),
            ("thread/name/updated", json!({"threadName": "A name"})),
            ("item/completed", compaction),
            ("thread/compacted", json!({})),
        ],
    );
    let step = |text: &str, status| PlanStep {
        text: text.to_owned(),
        status,
    };
    assert_eq!(
        events,
        [
            AgentEvent::Plan(vec![
                step("one", PlanStatus::Completed),
                step("two", PlanStatus::InProgress)
            ]),
            AgentEvent::Title("A name".to_owned()),
            AgentEvent::Compacted,
        ]
    );
}

#[test]
fn unknown_notifications_and_items_are_preserved() {
    let events = collect_events(
        &mut started_turn(),
        &[
            ("turn/novelty", json!({"x": 1})),
            (
                "item/completed",
                json!({"item": {"type": "novelty", "id": "n"}}),
            ),
        ],
    );
    assert!(
        matches!(
            &events[..],
            [AgentEvent::Unknown(_), AgentEvent::Unknown(_)]
        ),
        "{events:?}"
    );
}

#[test]
fn rate_limits_are_stored() {
    let mut turn = started_turn();
    let limits = json!({"primary": {"usedPercent": 100, "resetsAt": 5}});
    let params = json!({"rateLimits": limits});
    assert_eq!(
        turn.convert_notification("account/rateLimits/updated", &params),
        []
    );
    assert_eq!(turn.rate_limits(), &limits);
}
