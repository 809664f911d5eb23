//! Encoding of answers and failures for Anthropic Messages.

use serde_json::{Value, json};

use super::frame::Frame;
use super::reply::Answer;
use super::script::{Failure, Usage};

/// Encodes the answer as a single response.
pub(crate) fn whole(answer: &Answer) -> Value {
    let mut message = head(answer);
    message["content"] = blocks(answer).into();
    message["stop_reason"] = stop_reason(answer).into();
    message["usage"] = usage(&answer.usage);
    message
}

/// Encodes the answer as a stream.
pub(crate) fn stream(answer: &Answer) -> Vec<Frame> {
    let mut start = head(answer);
    start["usage"] = usage(&answer.usage);
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "ping"}),
    ];
    for (index, block) in blocks(answer).iter().enumerate() {
        events.extend(block_events(index, block, answer));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
        "usage": usage(&answer.usage),
    }));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(Frame::named).collect()
}

fn head(answer: &Answer) -> Value {
    json!({
        "id": format!("msg_stub_{:06}", answer.number),
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn blocks(answer: &Answer) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thoughts) = &answer.think {
        blocks.push(json!({"type": "thinking", "thinking": thoughts, "signature": "c3R1Yg=="}));
    }
    if !answer.text.is_empty() {
        blocks.push(json!({"type": "text", "text": answer.text}));
    }
    for (number, call) in &answer.calls {
        let id = format!("toolu_stub_{number:06}");
        blocks.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.input}));
    }
    blocks
}

fn block_events(index: usize, block: &Value, answer: &Answer) -> Vec<Value> {
    let (empty, deltas) = match block["type"].as_str().unwrap_or_default() {
        "thinking" => (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            vec![
                json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                json!({"type": "signature_delta", "signature": block["signature"]}),
            ],
        ),
        "text" => (
            json!({"type": "text", "text": ""}),
            answer
                .pieces()
                .iter()
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
        ),
        _ => (
            json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})],
        ),
    };
    let start = json!({"type": "content_block_start", "index": index, "content_block": empty});
    let deltas = deltas
        .into_iter()
        .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let stop = json!({"type": "content_block_stop", "index": index});
    [start].into_iter().chain(deltas).chain([stop]).collect()
}

fn stop_reason(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    })
}

/// Returns the status and the body of a failure.
pub(crate) fn failure(failure: Failure) -> (u16, Value) {
    let (status, kind, message) = match failure {
        Failure::RateLimit { .. } => (
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
        ),
        Failure::Unauthorized => (401, "authentication_error", "invalid x-api-key"),
        Failure::BadRequest => (400, "invalid_request_error", "stub: the request is bad"),
        Failure::TooLong => (
            400,
            "invalid_request_error",
            "prompt is too long: 1250000 tokens > 1000000 maximum",
        ),
        Failure::Server | Failure::Stall | Failure::Cut => {
            (500, "api_error", "Internal server error")
        }
    };
    (status, error(kind, message))
}

/// Creates an error body.
pub(crate) fn error(kind: &str, message: &str) -> Value {
    json!({
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_stub",
    })
}
