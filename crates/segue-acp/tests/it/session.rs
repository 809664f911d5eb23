//! Tests of opened sessions: modes, models, MCP servers, lists, usage, plans, file changes.

use std::path::Path;

use segue_acp::{AcpError, Client, ClientEvent, SessionOptions};
use segue_core::agent::{CapabilitySource, McpEndpoint, McpServer};
use segue_core::session::{AgentEvent, PlanStatus, Usage};
use serde_json::{Value, json};

use crate::peer::{
    Peer, collect_turn, connect_client, end_turn_response, root_dir_options, start_prompt,
    text_update,
};

/// Returns a client in a session that the peer opened with `result`.
async fn open_session(result: Value) -> (Client, Peer) {
    let (mut client, mut peer) = connect_client(json!({})).await;
    let answer = peer.answer_request("session/new", result);
    let (id, ()) = tokio::join!(client.new_session(root_dir_options()), answer);
    id.unwrap();
    (client, peer)
}

fn modes_json(current: &str) -> Value {
    let mode = |id: &str| json!({ "id": id, "name": id });
    json!({ "currentModeId": current, "availableModes": [mode("ask"), mode("plan")] })
}

fn select_option_json(id: &str, category: &str, current: &str, values: &[&str]) -> Value {
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
async fn a_mode_is_set_unless_it_is_already_current() {
    let (mut client, mut peer) =
        open_session(json!({ "sessionId": "s1", "modes": modes_json("plan") })).await;
    assert_eq!(
        client.capabilities().modes,
        Some(CapabilitySource::Protocol)
    );
    client.set_mode("plan").await.unwrap();
    let answer_request = async {
        let request = peer.receive().await;
        assert_eq!(request["method"], "session/set_mode");
        assert_eq!(request["params"]["modeId"], "ask");
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} });
        peer.send_line(&answer.to_string()).await;
    };
    let (outcome, ()) = tokio::join!(client.set_mode("ask"), answer_request);
    outcome.unwrap();
    // The mode is already set, so the client sends no request.
    client.set_mode("ask").await.unwrap();
    let error = client.set_mode("yolo").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "not supported by the agent: unknown mode `yolo`; available: ask, plan"
    );
}

#[tokio::test]
async fn modes_and_models_can_be_configuration_options_of_the_session() {
    let (mut client, mut peer) = open_session(json!({
        "sessionId": "s1",
        "configOptions": [
            select_option_json("mode", "mode", "auto", &["auto", "read-only"]),
            select_option_json("m", "model", "small", &["small", "large"]),
        ]
    }))
    .await;
    assert_eq!(
        client.capabilities().models,
        Some(CapabilitySource::Protocol)
    );
    for (setting, option, value) in [("mode", "mode", "read-only"), ("model", "m", "large")] {
        let answer_request = async {
            let request = peer.receive().await;
            assert_eq!(request["method"], "session/set_config_option", "{setting}");
            assert_eq!(request["params"]["configId"], option);
            assert_eq!(request["params"]["value"], value);
            let result = json!({ "configOptions": [] });
            let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
            peer.send_line(&answer.to_string()).await;
        };
        let set_setting = async {
            match setting {
                "mode" => client.set_mode(value).await,
                _ => client.set_model(value).await,
            }
        };
        let (outcome, ()) = tokio::join!(set_setting, answer_request);
        outcome.unwrap();
    }
}

#[tokio::test]
async fn the_older_method_sets_the_model_if_the_session_has_no_model_option() {
    let (mut client, mut peer) = open_session(json!({ "sessionId": "s1" })).await;
    let answer = peer.answer_request("session/set_model", json!({}));
    let (outcome, ()) = tokio::join!(client.set_model("large"), answer);
    outcome.unwrap();
    let error = client.set_mode("ask").await.unwrap_err();
    assert!(matches!(error, AcpError::NotOffered { .. }), "{error}");
}

#[tokio::test]
async fn only_mcp_servers_that_the_agent_can_reach_are_sent() {
    let servers = [
        McpServer {
            name: "local".into(),
            endpoint: McpEndpoint::Program {
                command: "/bin/tool".into(),
                args: vec!["-x".into()],
                env: vec![("A".into(), "b".into())],
            },
        },
        McpServer {
            name: "far".into(),
            endpoint: McpEndpoint::Http {
                url: "http://127.0.0.1:1/mcp".into(),
                headers: vec![("K".into(), "v".into())],
            },
        },
    ];
    for (http, expected) in [(false, 1), (true, 2)] {
        let (mut client, mut peer) =
            connect_client(json!({ "mcpCapabilities": { "http": http } })).await;
        let options = SessionOptions {
            cwd: Path::new("/"),
            mcp_servers: &servers,
        };
        let check_request = async {
            let request = peer.receive().await;
            let sent_servers = request["params"]["mcpServers"].as_array().unwrap().clone();
            assert_eq!(sent_servers.len(), expected);
            assert_eq!(sent_servers[0]["command"], "/bin/tool");
            assert_eq!(
                sent_servers[0]["env"],
                json!([{ "name": "A", "value": "b" }])
            );
            if http {
                assert_eq!(
                    sent_servers[1]["headers"],
                    json!([{ "name": "K", "value": "v" }])
                );
            }
            let result = json!({ "sessionId": "s1" });
            let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
            peer.send_line(&answer.to_string()).await;
        };
        let (id, ()) = tokio::join!(client.new_session(options), check_request);
        id.unwrap();
    }
}

fn session_info_json(id: &str, updated: &str) -> Value {
    json!({ "sessionId": id, "cwd": "/", "title": id, "updatedAt": updated })
}

#[tokio::test]
async fn all_pages_of_a_list_are_read_until_a_cursor_repeats() {
    let (mut client, mut peer) =
        connect_client(json!({ "sessionCapabilities": { "list": {} } })).await;
    let pages = async {
        let page = |id: &str, next: &str| json!({ "sessions": [session_info_json(id, "2026-01-02T03:04:05Z")], "nextCursor": next });
        peer.answer_request("session/list", page("a", "2")).await;
        peer.answer_request("session/list", page("b", "3")).await;
        // The cursor of this page repeats that of the first.
        peer.answer_request("session/list", page("c", "2")).await;
    };
    let (entries, ()) = tokio::join!(client.list_sessions(Path::new("/")), pages);
    let entries = entries.unwrap().unwrap();
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(
        entries[0].updated_at,
        Some("2026-01-02T03:04:05Z".parse().unwrap())
    );
}

#[tokio::test]
async fn an_empty_list_differs_from_a_missing_list_method() {
    let (mut client, mut peer) =
        connect_client(json!({ "sessionCapabilities": { "list": {} } })).await;
    let empty_answer = peer.answer_request("session/list", json!({ "sessions": [] }));
    let (entries, ()) = tokio::join!(client.list_sessions(Path::new("/")), empty_answer);
    assert_eq!(entries.unwrap(), Some(Vec::new()));
    // The agent advertised the method, but does not have it.
    let refusal = peer.reject_request(
        "session/list",
        json!({ "code": -32601, "message": "Method not found" }),
    );
    let (entries, ()) = tokio::join!(client.list_sessions(Path::new("/")), refusal);
    assert_eq!(entries.unwrap(), None);
    assert_eq!(client.capabilities().list, None);
    assert_eq!(client.capabilities().continue_last, None);
    // The client does not send the request again.
    assert_eq!(client.list_sessions(Path::new("/")).await.unwrap(), None);
}

#[tokio::test]
async fn usage_in_meta_is_used_if_the_usage_field_is_missing() {
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
        let (mut client, mut peer, id) = start_prompt().await;
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        peer.send_line(&answer.to_string()).await;
        let ClientEvent::TurnEnded(Ok(end)) = client.next_event().await else {
            panic!("the turn did not end")
        };
        assert_eq!(end.usage.total_tokens, total, "{result}");
        if total.is_none() {
            assert_eq!(end.usage, Usage::default());
        }
    }
}

#[tokio::test]
async fn plans_diffs_and_compactions_become_agent_events() {
    let (mut client, mut peer, id) = start_prompt().await;
    let entry =
        |text: &str, status: &str| json!({ "content": text, "priority": "low", "status": status });
    peer.send_update(json!({ "sessionUpdate": "plan", "entries": [entry("one", "completed"), entry("two", "in_progress")] }))
        .await;
    peer.send_update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Write a", "kind": "edit", "status": "completed",
        "content": [{ "type": "diff", "path": "/a", "oldText": "x\ny\n", "newText": "x\nz\n" }]
    }))
    .await;
    peer.send_update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "k", "title": "Compact conversation", "kind": "think",
        "status": "in_progress"
    }))
    .await;
    peer.send_update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "k", "status": "completed" }),
    )
    .await;
    // Only a completed compaction becomes an event.
    for status in ["in_progress", "failed", "completed"] {
        peer.send_update(
            json!({ "sessionUpdate": "compaction_update", "compactionId": "k", "status": status }),
        )
        .await;
    }
    peer.send_line(&end_turn_response(&id)).await;
    let (events, _) = collect_turn(&mut client).await;
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
async fn a_second_answer_to_the_same_prompt_is_ignored() {
    let (mut client, mut peer, id) = start_prompt().await;
    peer.send_update(text_update("one")).await;
    peer.send_line(&end_turn_response(&id)).await;
    peer.send_line(&end_turn_response(&id)).await;
    peer.send_line(
        &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "no" } }).to_string(),
    )
    .await;
    let (events, end) = collect_turn(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("one".into())]);
    assert!(end.is_ok(), "{end:?}");
    // Late answers to this turn do not end the next turn.
    client.send_prompt("again").unwrap();
    let request = peer.receive().await;
    peer.send_update(text_update("two")).await;
    peer.send_line(&end_turn_response(&request["id"])).await;
    let (events, end) = collect_turn(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("two".into())]);
    assert!(end.is_ok(), "{end:?}");
}

#[tokio::test]
async fn a_hundred_thousand_updates_all_arrive_in_order() {
    const UPDATE_COUNT: usize = 100_000;
    let (mut client, mut peer, id) = start_prompt().await;
    let flood = async {
        for n in 0..UPDATE_COUNT {
            peer.send_update(text_update(&n.to_string())).await;
        }
        peer.send_line(&end_turn_response(&id)).await;
    };
    let ((events, end), ()) = tokio::join!(collect_turn(&mut client), flood);
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(events.len(), UPDATE_COUNT);
    let in_order = events
        .iter()
        .enumerate()
        .all(|(n, event)| *event == AgentEvent::Text(n.to_string()));
    assert!(in_order);
}
