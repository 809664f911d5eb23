//! Conversion of notifications that Codex 0.166 sent.

use segue_core::json::Json;
use segue_core::session::{FailureClass, ToolStatus, Usage};
use serde_json::json;

use super::*;

fn turn() -> Turn {
    let mut turn = Turn::new("t".to_owned(), Meter::fresh());
    turn.begin();
    turn.named("u");
    turn
}

/// Passes a notification to the turn under the turn's own ids.
fn tell(turn: &mut Turn, method: &str, mut params: Value) -> Vec<Told> {
    params["threadId"] = "t".into();
    if params.get("turnId").is_none() {
        params["turnId"] = "u".into();
    }
    turn.told(method, &params)
}

fn events(turn: &mut Turn, notifications: &[(&str, Value)]) -> Vec<AgentEvent> {
    let told = notifications
        .iter()
        .flat_map(|(method, params)| tell(turn, method, params.clone()));
    told.map(|told| match told {
        Told::Event(event) => event,
        Told::Over(end) => panic!("{end:?}"),
    })
    .collect()
}

fn message(id: &str, text: &str) -> Value {
    json!({"item": {"type": "agentMessage", "id": id, "text": text}})
}

#[test]
fn words_are_told_once() {
    let delta = |id: &str, words: &str| json!({"itemId": id, "delta": words});
    let text = |words: &str| AgentEvent::Text(words.to_owned());
    let cases = [
        (
            vec![
                ("item/started", message("a", "")),
                ("item/agentMessage/delta", delta("a", "one ")),
                ("item/agentMessage/delta", delta("a", "two")),
                ("item/completed", message("a", "one two")),
            ],
            vec![text("one "), text("two")],
        ),
        // A message that was not streamed, and one that was streamed in part.
        (
            vec![("item/completed", message("a", "all"))],
            vec![text("all")],
        ),
        (
            vec![
                ("item/agentMessage/delta", delta("a", "one ")),
                ("item/completed", message("a", "one two")),
            ],
            vec![text("one "), text("two")],
        ),
        // Two messages in a row.
        (
            vec![
                ("item/completed", message("a", "first")),
                ("item/agentMessage/delta", delta("b", "sec")),
                ("item/agentMessage/delta", delta("b", "ond")),
                ("item/completed", message("b", "second")),
            ],
            vec![text("first"), text("\n\nsec"), text("ond")],
        ),
        // A message that differs from its stream: streamed text cannot be retracted.
        (
            vec![
                ("item/agentMessage/delta", delta("a", "one")),
                ("item/completed", message("a", "other")),
            ],
            vec![text("one")],
        ),
    ];
    for (notifications, expected) in cases {
        assert_eq!(events(&mut turn(), &notifications), expected);
    }
}

#[test]
fn thoughts_are_told_once() {
    let delta = json!({"itemId": "r", "delta": "hm", "summaryIndex": 0});
    let whole =
        json!({"item": {"type": "reasoning", "id": "r", "summary": ["hm", "so"], "content": []}});
    let part = |index: u64| json!({"itemId": "r", "summaryIndex": index});
    let thought = |words: &str| AgentEvent::Thought(words.to_owned());
    let streamed = [
        ("item/reasoning/summaryPartAdded", part(0)),
        ("item/reasoning/summaryTextDelta", delta.clone()),
        ("item/reasoning/summaryPartAdded", part(1)),
        ("item/reasoning/summaryTextDelta", delta),
        ("item/completed", whole.clone()),
    ];
    let expected = [thought("hm"), thought("\n\n"), thought("hm")];
    assert_eq!(events(&mut turn(), &streamed), expected);
    let alone = [("item/completed", whole)];
    assert_eq!(events(&mut turn(), &alone), [thought("hm\n\nso")]);
}

#[test]
fn a_tool_call_is_open_until_it_is_over() {
    let mut turn = turn();
    let item = |status: &str| {
        json!({"item": {"type": "commandExecution", "id": "c", "command": "ls",
            "status": status, "aggregatedOutput": "a\n", "exitCode": 0}})
    };
    let told = events(&mut turn, &[("item/started", item("inProgress"))]);
    assert!(matches!(&told[..], [AgentEvent::Tool(call)] if call.status == ToolStatus::InProgress));
    assert!(turn.open(&|call| call.id == "c").is_some());
    let told = events(&mut turn, &[("item/completed", item("completed"))]);
    let [AgentEvent::Tool(call)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(call.output, Some(Json::string("a\n")));
    assert!(turn.open(&|call| call.id == "c").is_none());
}

#[test]
fn usage_is_of_this_turn() {
    let figures = |input: u64| {
        let count = |input: u64| json!({"totalTokens": input + 20, "inputTokens": input, "cachedInputTokens": 11, "outputTokens": 20});
        json!({"tokenUsage": {"total": count(input), "last": count(101), "modelContextWindow": 1000}})
    };
    let mut turn = Turn::new("t".to_owned(), Meter::after(None));
    // Sent after `thread/resume`, under the id of an earlier turn.
    let mut earlier = figures(303);
    earlier["turnId"] = "earlier".into();
    turn.begin();
    assert_eq!(tell(&mut turn, "thread/tokenUsage/updated", earlier), []);
    turn.named("u");
    let told = events(&mut turn, &[("thread/tokenUsage/updated", figures(404))]);
    let [AgentEvent::Usage(usage)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(usage.input_tokens, Some(101));
    assert_eq!(usage.context_tokens, Some(121));
    assert_eq!(usage.context_window, Some(1000));
}

#[test]
fn only_our_own_turn_ends_the_turn() {
    let end = |id: &str, status: &str, error: Value| json!({"turnId": null, "turn": {"id": id, "status": status, "error": error}});
    let done = |reason| {
        Told::Over(Ok(TurnEnd {
            reason,
            usage: Usage::default(),
        }))
    };
    let ended = |params: Value| tell(&mut turn(), "turn/completed", params);
    assert_eq!(
        ended(end("u", "completed", Value::Null)),
        [done(StopReason::EndTurn)]
    );
    assert_eq!(
        ended(end("u", "interrupted", Value::Null)),
        [done(StopReason::Cancelled)]
    );
    assert_eq!(ended(end("earlier", "completed", Value::Null)), []);
    let error = json!({"message": "no room", "codexErrorInfo": "contextWindowExceeded"});
    let told = ended(end("u", "failed", error));
    assert!(
        matches!(&told[..], [Told::Over(Err(refusal))] if refusal.class == FailureClass::ContextTooLong),
        "{told:?}"
    );
}

#[test]
fn other_threads_and_complaints_are_not_of_the_turn() {
    let mut turn = turn();
    let other = json!({"threadId": "other", "turnId": "u", "itemId": "a", "delta": "x"});
    assert_eq!(turn.told("item/agentMessage/delta", &other), []);
    let retry = json!({"willRetry": true, "error": {"message": "Reconnecting... 1/5"}});
    let boring = [
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
    assert_eq!(events(&mut turn, &boring), []);
}

#[test]
fn plans_names_and_compactions_are_told() {
    let steps = json!({"plan": [{"step": "one", "status": "completed"}, {"step": "two", "status": "inProgress"}]});
    let compaction = json!({"item": {"type": "contextCompaction", "id": "k"}});
    let told = events(
        &mut turn(),
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
        told,
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
fn what_is_unknown_is_kept() {
    let told = events(
        &mut turn(),
        &[
            ("turn/novelty", json!({"x": 1})),
            (
                "item/completed",
                json!({"item": {"type": "novelty", "id": "n"}}),
            ),
        ],
    );
    assert!(
        matches!(&told[..], [AgentEvent::Unknown(_), AgentEvent::Unknown(_)]),
        "{told:?}"
    );
}

#[test]
fn limits_are_remembered() {
    let mut turn = turn();
    let limits = json!({"primary": {"usedPercent": 100, "resetsAt": 5}});
    let params = json!({"rateLimits": limits});
    assert_eq!(turn.told("account/rateLimits/updated", &params), []);
    assert_eq!(turn.limits(), &limits);
}
