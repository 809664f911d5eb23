//! Tests with agents that follow the protocol, and with agents that do not.

use std::time::Duration;

use segue_acp::{AcpError, ClientEvent};
use segue_core::agent::{CapabilitySource, PermissionAnswer};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, StopReason, ToolStatus};
use serde_json::json;

use crate::peer::{
    collect_turn, connect_client, end_turn_response, root_dir_options, start_prompt, text_update,
};

#[tokio::test]
async fn the_client_reports_the_capabilities_that_the_agent_advertises() {
    let advertised = json!({
        "loadSession": true, "sessionCapabilities": { "list": {}, "resume": null, "delete": {} }
    });
    let (client, _peer) = connect_client(advertised).await;
    let capabilities = client.capabilities();
    assert_eq!(
        (capabilities.load, capabilities.list, capabilities.delete),
        (
            Some(CapabilitySource::Protocol),
            Some(CapabilitySource::Protocol),
            Some(CapabilitySource::Protocol)
        )
    );
    assert_eq!(
        (capabilities.resume, capabilities.fork),
        (None, None),
        "null and absent mean no"
    );
    assert_eq!(client.version(), Some("7.7"));
}

#[tokio::test]
async fn an_advertised_but_missing_method_is_reported_as_not_offered() {
    let (mut client, mut peer) =
        connect_client(json!({ "sessionCapabilities": { "resume": {} } })).await;
    let id = NativeId::parse("s1").unwrap();
    let refusal = peer.reject_request(
        "session/resume",
        json!({ "code": -32601, "message": "Method not found" }),
    );
    let (resumed, ()) = tokio::join!(client.resume_session(&id, root_dir_options()), refusal);
    assert!(
        matches!(resumed, Err(AcpError::NotOffered { .. })),
        "{resumed:?}"
    );
}

#[tokio::test]
async fn every_error_for_an_unknown_session_is_recognised() {
    let errors = [
        json!({ "code": -32002, "message": "Resource not found" }),
        json!({ "code": -32603, "message": "Internal error", "data": { "details": "Session not found" } }),
        json!({ "code": -32602, "message": "Session not found: nope" }),
        json!({ "code": -32603, "message": "no rollout found for thread id 0" }),
    ];
    for error in errors {
        let (mut client, mut peer) = connect_client(json!({ "loadSession": true })).await;
        let id = NativeId::parse("nope").unwrap();
        let refusal = peer.reject_request("session/load", error.clone());
        let (loaded, ()) = tokio::join!(client.load_session(&id, root_dir_options()), refusal);
        assert!(
            matches!(loaded, Err(AcpError::UnknownSession { .. })),
            "{error}: {loaded:?}"
        );
    }
}

#[tokio::test]
async fn an_unsafe_session_id_is_rejected() {
    for id in ["../../etc/passwd", "", "-rf", "a\nb"] {
        let (mut client, mut peer) = connect_client(json!({})).await;
        let answer = peer.answer_request("session/new", json!({ "sessionId": id }));
        let (outcome, ()) = tokio::join!(client.new_session(root_dir_options()), answer);
        assert!(
            matches!(outcome, Err(AcpError::BadSessionId(_))),
            "{id:?}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_long_replay_is_discarded() {
    let (mut client, mut peer) = connect_client(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.receive().await;
        for _ in 0..5000 {
            peer.send_update(text_update("long ago")).await;
        }
        peer.send_line(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, root_dir_options()), replay);
    loaded.unwrap();
    client.send_prompt("go").unwrap();
    let request = peer.receive().await;
    peer.send_line(&end_turn_response(&request["id"])).await;
    let (events, _) = collect_turn(&mut client).await;
    assert_eq!(events, [], "no replayed message is part of the answer");
}

#[tokio::test]
async fn a_short_replay_is_discarded() {
    let (mut client, mut peer) = connect_client(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.receive().await;
        peer.send_update(text_update("long ago")).await;
        peer.send_line(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, root_dir_options()), replay);
    loaded.unwrap();
    client.send_prompt("go").unwrap();
    let request = peer.receive().await;
    peer.send_update(text_update("now")).await;
    peer.send_line(&end_turn_response(&request["id"])).await;
    let (events, _) = collect_turn(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("now".into())]);
}

#[tokio::test]
async fn a_replay_after_the_answer_is_discarded() {
    let (mut client, mut peer) = connect_client(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.receive().await;
        peer.send_line(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
        for _ in 0..5 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            peer.send_update(text_update("long ago")).await;
        }
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, root_dir_options()), replay);
    loaded.unwrap();
    client.send_prompt("go").unwrap();
    let request = peer.receive().await;
    peer.send_update(text_update("now")).await;
    peer.send_line(&end_turn_response(&request["id"])).await;
    let (events, _) = collect_turn(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("now".into())]);
}

#[tokio::test]
async fn images_and_diffs_are_part_of_the_events() {
    let (mut client, mut peer, id) = start_prompt().await;
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" });
    peer.send_update(json!({ "sessionUpdate": "agent_message_chunk", "content": image }))
        .await;
    peer.send_update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "ok",
        "content": [{ "type": "diff", "path": "/x", "oldText": "a", "newText": "b" }]
    }))
    .await;
    peer.send_line(&end_turn_response(&id)).await;
    let (events, _) = collect_turn(&mut client).await;
    assert!(
        matches!(&events[0], AgentEvent::Data(data) if data.mime_type == "image/png"),
        "{events:?}"
    );
    let AgentEvent::Tool(call) = &events[1] else {
        panic!("{events:?}");
    };
    let output = call.output.as_ref().unwrap().as_str();
    assert!(
        output.contains("\"ok\"") && output.contains("newText"),
        "{output}"
    );
}

#[tokio::test]
async fn all_updates_before_the_answer_are_returned_before_the_turn_ends() {
    let (mut client, mut peer, id) = start_prompt().await;
    for n in 0..100 {
        peer.send_update(text_update(&format!("{n} "))).await;
    }
    peer.send_line(&end_turn_response(&id)).await;
    let (events, end) = collect_turn(&mut client).await;
    assert_eq!(events.len(), 100);
    assert_eq!(end.unwrap(), StopReason::EndTurn);
}

#[tokio::test]
async fn garbage_unknown_updates_and_double_answers_do_not_break_a_turn() {
    let (mut client, mut peer, id) = start_prompt().await;
    peer.send_line("DEBUG starting").await;
    peer.send_update(json!({ "sessionUpdate": "hologram" }))
        .await;
    peer.send_line("[1, 2, 3]").await;
    peer.send_line(r#"{"jsonrpc":"2.0","id":999,"result":{}}"#)
        .await;
    peer.send_line(r#"{"jsonrpc":"2.0","method":"_auth/status_update","params":{}}"#)
        .await;
    peer.send_update(text_update("still here")).await;
    peer.send_line(&end_turn_response(&id)).await;
    peer.send_line(&end_turn_response(&id)).await;
    let (events, end) = collect_turn(&mut client).await;
    assert_eq!(end.unwrap(), StopReason::EndTurn);
    assert!(
        events.contains(&AgentEvent::Text("still here".into())),
        "{events:?}"
    );
    assert!(
        events.contains(&AgentEvent::Garbage("DEBUG starting".into())),
        "{events:?}"
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(event, AgentEvent::Unknown(_))),
        "{events:?}"
    );
    // The next turn works.
    client.send_prompt("again").unwrap();
    let request = peer.receive().await;
    peer.send_line(&end_turn_response(&request["id"])).await;
    assert!(collect_turn(&mut client).await.1.is_ok());
}

#[tokio::test]
async fn implausible_token_counts_are_unknown() {
    let (mut client, mut peer, id) = start_prompt().await;
    let usage = json!({ "inputTokens": u64::MAX, "outputTokens": 7, "totalTokens": u64::MAX, "cachedReadTokens": 1 });
    let result = json!({ "stopReason": "end_turn", "usage": usage });
    peer.send_line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        .await;
    let ClientEvent::TurnEnded(Ok(end)) = client.next_event().await else {
        panic!("expected the end of the turn");
    };
    assert_eq!(
        (end.usage.input_tokens, end.usage.total_tokens),
        (None, None)
    );
    assert_eq!(
        (end.usage.output_tokens, end.usage.cached_tokens),
        (Some(7), Some(1))
    );
}

#[tokio::test]
async fn a_tool_call_is_merged_from_its_updates() {
    let (mut client, mut peer, id) = start_prompt().await;
    peer.send_update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Write x", "kind": "edit" })).await;
    peer.send_update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": { "path": "x" } })).await;
    peer.send_update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "ok"
    }))
    .await;
    peer.send_line(&end_turn_response(&id)).await;
    let (events, _) = collect_turn(&mut client).await;
    let Some(AgentEvent::Tool(call)) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (call.name.as_str(), call.kind.as_str()),
        ("Write x", "edit")
    );
    assert_eq!(
        (call.args.as_str(), call.status),
        (r#"{"path":"x"}"#, ToolStatus::Completed)
    );
    assert_eq!(call.output.as_ref().unwrap().as_str(), "\"ok\"");
}

#[tokio::test]
async fn a_permission_request_is_returned_and_answered() {
    let (mut client, mut peer, id) = start_prompt().await;
    let params = json!({
        "sessionId": "s1", "toolCall": { "toolCallId": "c9", "title": "Delete all" },
        "options": [{ "optionId": "ok", "name": "Allow", "kind": "allow_once" }]
    });
    let request = json!({ "jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params });
    peer.send_line(&request.to_string()).await;
    let ClientEvent::PermissionRequested(request, replier) = client.next_event().await else {
        panic!("expected a permission request");
    };
    assert_eq!(
        (request.call.name.as_str(), request.options.len()),
        ("Delete all", 1)
    );
    replier.reply(PermissionAnswer::Selected("ok".into()));
    let answer = peer.receive().await;
    assert_eq!(
        answer["result"]["outcome"],
        json!({ "outcome": "selected", "optionId": "ok" })
    );
    peer.send_line(&end_turn_response(&id)).await;
    assert!(collect_turn(&mut client).await.1.is_ok());
}

#[tokio::test]
async fn an_agent_that_closes_the_connection_ends_the_turn() {
    let (mut client, mut peer, _) = start_prompt().await;
    peer.send_update(text_update("half a")).await;
    drop(peer);
    let outcome = tokio::time::timeout(Duration::from_secs(5), collect_turn(&mut client)).await;
    let (events, end) = outcome.unwrap();
    assert_eq!(events, [AgentEvent::Text("half a".into())]);
    assert!(matches!(end, Err(AcpError::Closed)), "{end:?}");
}

#[tokio::test]
async fn an_agent_that_sends_too_many_updates_must_wait_for_the_client() {
    let (mut client, mut peer, id) = start_prompt().await;
    let flood = tokio::spawn(async move {
        for n in 0..100_000 {
            peer.send_update(text_update(&format!("{n}"))).await;
        }
        peer.send_line(&end_turn_response(&id)).await;
        peer
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(
        !flood.is_finished(),
        "the client does not read yet, so the agent has to wait"
    );
    let (events, end) = collect_turn(&mut client).await;
    assert_eq!((events.len(), end.unwrap()), (100_000, StopReason::EndTurn));
    flood.await.unwrap();
}
