//! Tests of opened sessions: modes, models, MCP servers, lists, usage, plans, file changes.

use std::path::Path;

use segue_acp::{AcpError, Client, Step, Terms};
use segue_core::agent::{How, McpReach, McpServer};
use segue_core::session::{AgentEvent, PlanStatus, Usage};
use serde_json::{Value, json};

use crate::peer::{Peer, connected, ends_turn, here, prompted, text, to_the_end};

/// Returns a client in a session that the peer opened with `result`.
async fn opened(result: Value) -> (Client, Peer) {
    let (mut client, mut peer) = connected(json!({})).await;
    let made = peer.answer("session/new", result);
    let (id, ()) = tokio::join!(client.new_session(here()), made);
    id.unwrap();
    (client, peer)
}

fn modes(current: &str) -> Value {
    let mode = |id: &str| json!({ "id": id, "name": id });
    json!({ "currentModeId": current, "availableModes": [mode("ask"), mode("plan")] })
}

fn select(id: &str, category: &str, current: &str, values: &[&str]) -> Value {
    let options: Vec<Value> = values
        .iter()
        .map(|value| json!({ "value": value, "name": value }))
        .collect();
    json!({
        "id": id, "name": id, "category": category, "type": "select",
        "currentValue": current, "options": options
    })
}

#[tokio::test]
async fn a_mode_is_set_unless_the_session_is_in_it() {
    let (mut client, mut peer) = opened(json!({ "sessionId": "s1", "modes": modes("plan") })).await;
    assert_eq!(client.capabilities().modes, Some(How::Protocol));
    client.choose_mode("plan").await.unwrap();
    let set = async {
        let request = peer.hear().await;
        assert_eq!(request["method"], "session/set_mode");
        assert_eq!(request["params"]["modeId"], "ask");
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} });
        peer.print(&answer.to_string()).await;
    };
    let (chosen, ()) = tokio::join!(client.choose_mode("ask"), set);
    chosen.unwrap();
    // The mode is already set, so the client sends no request.
    client.choose_mode("ask").await.unwrap();
    let error = client.choose_mode("yolo").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the agent does not offer this: there is no mode \"yolo\", only ask, plan"
    );
}

#[tokio::test]
async fn modes_and_models_may_be_options_of_the_session() {
    let (mut client, mut peer) = opened(json!({
        "sessionId": "s1",
        "configOptions": [
            select("mode", "mode", "auto", &["auto", "read-only"]),
            select("m", "model", "small", &["small", "large"]),
        ]
    }))
    .await;
    assert_eq!(client.capabilities().models, Some(How::Protocol));
    for (what, option, value) in [("mode", "mode", "read-only"), ("model", "m", "large")] {
        let set = async {
            let request = peer.hear().await;
            assert_eq!(request["method"], "session/set_config_option", "{what}");
            assert_eq!(request["params"]["configId"], option);
            assert_eq!(request["params"]["value"], value);
            let result = json!({ "configOptions": [] });
            let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
            peer.print(&answer.to_string()).await;
        };
        let choose = async {
            match what {
                "mode" => client.choose_mode(value).await,
                _ => client.choose_model(value).await,
            }
        };
        let (chosen, ()) = tokio::join!(choose, set);
        chosen.unwrap();
    }
}

#[tokio::test]
async fn without_an_option_for_the_model_the_older_method_is_tried() {
    let (mut client, mut peer) = opened(json!({ "sessionId": "s1" })).await;
    let set = peer.answer("session/set_model", json!({}));
    let (chosen, ()) = tokio::join!(client.choose_model("large"), set);
    chosen.unwrap();
    let error = client.choose_mode("ask").await.unwrap_err();
    assert!(matches!(error, AcpError::NotOffered { .. }), "{error}");
}

#[tokio::test]
async fn tools_are_handed_over_as_far_as_the_agent_can_reach_them() {
    let servers = [
        McpServer {
            name: "local".into(),
            reach: McpReach::Program {
                command: "/bin/tool".into(),
                args: vec!["-x".into()],
                env: vec![("A".into(), "b".into())],
            },
        },
        McpServer {
            name: "far".into(),
            reach: McpReach::Http {
                url: "http://127.0.0.1:1/mcp".into(),
                headers: vec![("K".into(), "v".into())],
            },
        },
    ];
    for (http, expected) in [(false, 1), (true, 2)] {
        let (mut client, mut peer) =
            connected(json!({ "mcpCapabilities": { "http": http } })).await;
        let terms = Terms {
            cwd: Path::new("/"),
            mcp: &servers,
        };
        let made = async {
            let request = peer.hear().await;
            let handed = request["params"]["mcpServers"].as_array().unwrap().clone();
            assert_eq!(handed.len(), expected);
            assert_eq!(handed[0]["command"], "/bin/tool");
            assert_eq!(handed[0]["env"], json!([{ "name": "A", "value": "b" }]));
            if http {
                assert_eq!(handed[1]["headers"], json!([{ "name": "K", "value": "v" }]));
            }
            let result = json!({ "sessionId": "s1" });
            let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
            peer.print(&answer.to_string()).await;
        };
        let (id, ()) = tokio::join!(client.new_session(terms), made);
        id.unwrap();
    }
}

fn listed(id: &str, updated: &str) -> Value {
    json!({ "sessionId": id, "cwd": "/", "title": id, "updatedAt": updated })
}

#[tokio::test]
async fn all_pages_of_a_list_are_followed_and_circles_are_left() {
    let (mut client, mut peer) = connected(json!({ "sessionCapabilities": { "list": {} } })).await;
    let pages = async {
        let page = |id: &str, next: &str| json!({ "sessions": [listed(id, "2026-01-02T03:04:05Z")], "nextCursor": next });
        peer.answer("session/list", page("a", "2")).await;
        peer.answer("session/list", page("b", "3")).await;
        // The cursor of this page repeats that of the first.
        peer.answer("session/list", page("c", "2")).await;
    };
    let (found, ()) = tokio::join!(client.list_sessions(Path::new("/")), pages);
    let found = found.unwrap().unwrap();
    let ids: Vec<&str> = found.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(
        found[0].updated_at,
        Some("2026-01-02T03:04:05Z".parse().unwrap())
    );
}

#[tokio::test]
async fn having_no_sessions_is_not_being_unable_to_list() {
    let (mut client, mut peer) = connected(json!({ "sessionCapabilities": { "list": {} } })).await;
    let none = peer.answer("session/list", json!({ "sessions": [] }));
    let (found, ()) = tokio::join!(client.list_sessions(Path::new("/")), none);
    assert_eq!(found.unwrap(), Some(Vec::new()));
    // The agent advertised the method, but does not have it.
    let lie = peer.refuse(
        "session/list",
        json!({ "code": -32601, "message": "Method not found" }),
    );
    let (found, ()) = tokio::join!(client.list_sessions(Path::new("/")), lie);
    assert_eq!(found.unwrap(), None);
    assert_eq!(client.capabilities().list, None);
    assert_eq!(client.capabilities().continue_last, None);
    // The client does not send the request again.
    assert_eq!(client.list_sessions(Path::new("/")).await.unwrap(), None);
}

#[tokio::test]
async fn figures_beside_the_protocol_are_taken_where_there_are_no_others() {
    let quota = |input: u64| json!({ "quota": { "token_count": { "input_tokens": input, "output_tokens": 20 } } });
    let cases = [
        (
            json!({ "stopReason": "end_turn", "_meta": quota(101) }),
            Some(121),
        ),
        // An input count of 0 means that the agent sent no prompt to the model.
        (json!({ "stopReason": "end_turn", "_meta": quota(0) }), None),
        (
            json!({
                "stopReason": "end_turn", "_meta": quota(999),
                "usage": { "inputTokens": 1, "outputTokens": 2, "totalTokens": 3 }
            }),
            Some(3),
        ),
        (
            json!({ "stopReason": "end_turn", "_meta": { "quota": 7 } }),
            None,
        ),
    ];
    for (result, total) in cases {
        let (mut client, mut peer, id) = prompted().await;
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        peer.print(&answer.to_string()).await;
        let Step::Done(Ok(end)) = client.next().await else {
            panic!("the turn did not end")
        };
        assert_eq!(end.usage.total_tokens, total, "{result}");
        if total.is_none() {
            assert_eq!(end.usage, Usage::default());
        }
    }
}

#[tokio::test]
async fn plans_changes_and_compaction_are_told_in_our_own_words() {
    let (mut client, mut peer, id) = prompted().await;
    let entry =
        |text: &str, status: &str| json!({ "content": text, "priority": "low", "status": status });
    peer.update(json!({ "sessionUpdate": "plan", "entries": [entry("one", "completed"), entry("two", "in_progress")] }))
        .await;
    peer.update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write a", "kind": "edit", "status": "completed",
        "content": [{ "type": "diff", "path": "/a", "oldText": "x\ny\n", "newText": "x\nz\n" }]
    }))
    .await;
    peer.update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "k", "title": "Compact conversation", "kind": "think",
        "status": "in_progress"
    }))
    .await;
    peer.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed" }),
    )
    .await;
    // Only a completed compaction becomes an event.
    for status in ["in_progress", "failed", "completed"] {
        peer.update(
            json!({ "sessionUpdate": "compaction_update", "compactionId": "k", "status": status }),
        )
        .await;
    }
    peer.print(&ends_turn(&id)).await;
    let (events, _) = to_the_end(&mut client).await;
    let AgentEvent::Plan(plan) = &events[0] else {
        panic!("{events:?}")
    };
    let plan: Vec<_> = plan
        .iter()
        .map(|step| (step.text.as_str(), step.status))
        .collect();
    assert_eq!(
        plan,
        [
            ("one", PlanStatus::Completed),
            ("two", PlanStatus::InProgress)
        ]
    );
    let AgentEvent::Tool(call) = &events[1] else {
        panic!("{events:?}")
    };
    assert_eq!(call.diffs[0].path, "/a");
    assert_eq!(call.diffs[0].patch, "@@ -1,2 +1,2 @@\n x\n-y\n+z\n");
    assert!(matches!(&events[2], AgentEvent::Tool(call) if call.id == "k"));
    assert_eq!(events[3..], [AgentEvent::Compacted, AgentEvent::Compacted]);
}

#[tokio::test]
async fn a_second_answer_to_the_same_prompt_changes_nothing() {
    let (mut client, mut peer, id) = prompted().await;
    peer.update(text("one")).await;
    peer.print(&ends_turn(&id)).await;
    peer.print(&ends_turn(&id)).await;
    peer.print(
        &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "no" } }).to_string(),
    )
    .await;
    let (events, end) = to_the_end(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("one".into())]);
    assert!(end.is_ok(), "{end:?}");
    // Late answers to this turn do not end the next turn.
    client.prompt("again").unwrap();
    let request = peer.hear().await;
    peer.update(text("two")).await;
    peer.print(&ends_turn(&request["id"])).await;
    let (events, end) = to_the_end(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("two".into())]);
    assert!(end.is_ok(), "{end:?}");
}

#[tokio::test]
async fn a_hundred_thousand_updates_all_arrive_in_order() {
    const MANY: usize = 100_000;
    let (mut client, mut peer, id) = prompted().await;
    let flood = async {
        for n in 0..MANY {
            peer.update(text(&n.to_string())).await;
        }
        peer.print(&ends_turn(&id)).await;
    };
    let ((events, end), ()) = tokio::join!(to_the_end(&mut client), flood);
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(events.len(), MANY);
    let in_order = events
        .iter()
        .enumerate()
        .all(|(n, event)| *event == AgentEvent::Text(n.to_string()));
    assert!(in_order);
}
