//! Tests with agents that follow the protocol, and with agents that do not.

use std::time::Duration;

use segue_acp::{AcpError, Step};
use segue_core::agent::{How, PermissionAnswer};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, StopReason, ToolStatus};
use serde_json::json;

use crate::peer::{connected, ends_turn, here, prompted, text, to_the_end};

#[tokio::test]
async fn capabilities_are_what_the_agent_advertises() {
    let advertised = json!({
        "loadSession": true, "sessionCapabilities": { "list": {}, "resume": null, "delete": {} }
    });
    let (client, _peer) = connected(advertised).await;
    let can = client.capabilities();
    assert_eq!(
        (can.load, can.list, can.delete),
        (
            Some(How::Protocol),
            Some(How::Protocol),
            Some(How::Protocol)
        )
    );
    assert_eq!(
        (can.resume, can.fork),
        (None, None),
        "null and absent mean no"
    );
    assert_eq!(client.version(), Some("7.7"));
}

#[tokio::test]
async fn a_method_that_was_advertised_and_is_not_there_is_told_apart() {
    let (mut client, mut peer) =
        connected(json!({ "sessionCapabilities": { "resume": {} } })).await;
    let id = NativeId::parse("s1").unwrap();
    let lie = peer.refuse(
        "session/resume",
        json!({ "code": -32601, "message": "Method not found" }),
    );
    let (resumed, ()) = tokio::join!(client.resume_session(&id, here()), lie);
    assert!(
        matches!(resumed, Err(AcpError::NotOffered { .. })),
        "{resumed:?}"
    );
}

#[tokio::test]
async fn an_unknown_session_is_recognised_in_all_its_wordings() {
    let wordings = [
        json!({ "code": -32002, "message": "Resource not found" }),
        json!({ "code": -32603, "message": "Internal error", "data": { "details": "Session not found" } }),
        json!({ "code": -32602, "message": "Session not found: nope" }),
        json!({ "code": -32603, "message": "no rollout found for thread id 0" }),
    ];
    for wording in wordings {
        let (mut client, mut peer) = connected(json!({ "loadSession": true })).await;
        let id = NativeId::parse("nope").unwrap();
        let refused = peer.refuse("session/load", wording.clone());
        let (loaded, ()) = tokio::join!(client.load_session(&id, here()), refused);
        assert!(
            matches!(loaded, Err(AcpError::UnknownSession { .. })),
            "{wording}: {loaded:?}"
        );
    }
}

#[tokio::test]
async fn a_session_id_that_is_not_safe_is_refused() {
    for id in ["../../etc/passwd", "", "-rf", "a\nb"] {
        let (mut client, mut peer) = connected(json!({})).await;
        let made = peer.answer("session/new", json!({ "sessionId": id }));
        let (outcome, ()) = tokio::join!(client.new_session(here()), made);
        assert!(
            matches!(outcome, Err(AcpError::BadSessionId(_))),
            "{id:?}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_replay_of_any_length_is_passed_over() {
    let (mut client, mut peer) = connected(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.hear().await;
        for _ in 0..5000 {
            peer.update(text("long ago")).await;
        }
        peer.print(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, here()), replay);
    loaded.unwrap();
    client.prompt("go").unwrap();
    let request = peer.hear().await;
    peer.print(&ends_turn(&request["id"])).await;
    let (events, _) = to_the_end(&mut client).await;
    assert_eq!(events, [], "nothing of the replay is taken for an answer");
}

#[tokio::test]
async fn a_short_replay_is_passed_over_as_well() {
    let (mut client, mut peer) = connected(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.hear().await;
        peer.update(text("long ago")).await;
        peer.print(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, here()), replay);
    loaded.unwrap();
    client.prompt("go").unwrap();
    let request = peer.hear().await;
    peer.update(text("now")).await;
    peer.print(&ends_turn(&request["id"])).await;
    let (events, _) = to_the_end(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("now".into())]);
}

#[tokio::test]
async fn a_replay_that_comes_after_the_answer_is_passed_over_too() {
    let (mut client, mut peer) = connected(json!({ "loadSession": true })).await;
    let id = NativeId::parse("s1").unwrap();
    let replay = async {
        let request = peer.hear().await;
        peer.print(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} }).to_string())
            .await;
        for _ in 0..5 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            peer.update(text("long ago")).await;
        }
    };
    let (loaded, ()) = tokio::join!(client.load_session(&id, here()), replay);
    loaded.unwrap();
    client.prompt("go").unwrap();
    let request = peer.hear().await;
    peer.update(text("now")).await;
    peer.print(&ends_turn(&request["id"])).await;
    let (events, _) = to_the_end(&mut client).await;
    assert_eq!(events, [AgentEvent::Text("now".into())]);
}

#[tokio::test]
async fn pictures_and_changes_are_kept() {
    let (mut client, mut peer, id) = prompted().await;
    let picture = json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" });
    peer.update(json!({ "sessionUpdate": "agent_message_chunk", "content": picture }))
        .await;
    peer.update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "ok",
        "content": [{ "type": "diff", "path": "/x", "oldText": "a", "newText": "b" }]
    }))
    .await;
    peer.print(&ends_turn(&id)).await;
    let (events, _) = to_the_end(&mut client).await;
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
async fn everything_said_before_the_answer_is_told_before_the_end() {
    let (mut client, mut peer, id) = prompted().await;
    for n in 0..100 {
        peer.update(text(&format!("{n} "))).await;
    }
    peer.print(&ends_turn(&id)).await;
    let (events, end) = to_the_end(&mut client).await;
    assert_eq!(events.len(), 100);
    assert_eq!(end.unwrap(), StopReason::EndTurn);
}

#[tokio::test]
async fn noise_unknown_updates_and_double_answers_do_not_break_a_turn() {
    let (mut client, mut peer, id) = prompted().await;
    peer.print("DEBUG starting").await;
    peer.update(json!({ "sessionUpdate": "hologram" })).await;
    peer.print("[1, 2, 3]").await;
    peer.print(r#"{"jsonrpc":"2.0","id":999,"result":{}}"#)
        .await;
    peer.print(r#"{"jsonrpc":"2.0","method":"_auth/status_update","params":{}}"#)
        .await;
    peer.update(text("still here")).await;
    peer.print(&ends_turn(&id)).await;
    peer.print(&ends_turn(&id)).await;
    let (events, end) = to_the_end(&mut client).await;
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
    client.prompt("again").unwrap();
    let request = peer.hear().await;
    peer.print(&ends_turn(&request["id"])).await;
    assert!(to_the_end(&mut client).await.1.is_ok());
}

#[tokio::test]
async fn figures_that_can_not_be_true_are_unknown() {
    let (mut client, mut peer, id) = prompted().await;
    let usage = json!({ "inputTokens": u64::MAX, "outputTokens": 7, "totalTokens": u64::MAX, "cachedReadTokens": 1 });
    let result = json!({ "stopReason": "end_turn", "usage": usage });
    peer.print(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
        .await;
    let Step::Done(Ok(end)) = client.next().await else {
        panic!("expected the end");
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
async fn a_tool_call_is_put_together_from_its_changes() {
    let (mut client, mut peer, id) = prompted().await;
    peer.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Write x", "kind": "edit" })).await;
    peer.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": { "path": "x" } })).await;
    peer.update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": "ok"
    }))
    .await;
    peer.print(&ends_turn(&id)).await;
    let (events, _) = to_the_end(&mut client).await;
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
async fn a_permission_is_asked_for_and_answered() {
    let (mut client, mut peer, id) = prompted().await;
    let params = json!({
        "sessionId": "s1", "toolCall": { "toolCallId": "c9", "title": "Delete all" },
        "options": [{ "optionId": "ok", "name": "Allow", "kind": "allow_once" }]
    });
    let request = json!({ "jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params });
    peer.print(&request.to_string()).await;
    let Step::Ask(request, replier) = client.next().await else {
        panic!("expected a question");
    };
    assert_eq!(
        (request.call.name.as_str(), request.options.len()),
        ("Delete all", 1)
    );
    replier.reply(PermissionAnswer::Choose("ok".into()));
    let answer = peer.hear().await;
    assert_eq!(
        answer["result"]["outcome"],
        json!({ "outcome": "selected", "optionId": "ok" })
    );
    peer.print(&ends_turn(&id)).await;
    assert!(to_the_end(&mut client).await.1.is_ok());
}

#[tokio::test]
async fn an_agent_that_goes_away_ends_the_turn() {
    let (mut client, mut peer, _) = prompted().await;
    peer.update(text("half a")).await;
    drop(peer);
    let ended = tokio::time::timeout(Duration::from_secs(5), to_the_end(&mut client)).await;
    let (events, end) = ended.unwrap();
    assert_eq!(events, [AgentEvent::Text("half a".into())]);
    assert!(matches!(end, Err(AcpError::Closed)), "{end:?}");
}

#[tokio::test]
async fn a_flood_waits_for_the_listener_instead_of_filling_memory() {
    let (mut client, mut peer, id) = prompted().await;
    let flood = tokio::spawn(async move {
        for n in 0..100_000 {
            peer.update(text(&format!("{n}"))).await;
        }
        peer.print(&ends_turn(&id)).await;
        peer
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(
        !flood.is_finished(),
        "nobody listens yet, so the agent has to wait"
    );
    let (events, end) = to_the_end(&mut client).await;
    assert_eq!((events.len(), end.unwrap()), (100_000, StopReason::EndTurn));
    flood.await.unwrap();
}
