//! Encoding of answers and failures for the Anthropic Messages API.

use serde_json::{Value, json};

use super::frame::SseFrame;
use super::reply::StubAnswer;
use super::script::{StubFailure, StubUsage};

/// Encodes the answer as the body of a response that is not streamed.
pub(crate) fn encode_response(answer: &StubAnswer) -> Value {
    let mut message = message_header(answer);
    message["content"] = content_blocks(answer).into();
    message["stop_reason"] = stop_reason(answer).into();
    message["usage"] = encode_usage(&answer.usage);
    message
}

/// Encodes the answer as the events of a streamed response.
pub(crate) fn encode_stream(answer: &StubAnswer) -> Vec<SseFrame> {
    let mut start = message_header(answer);
    start["usage"] = encode_usage(&answer.usage);
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "ping"}),
    ];
    for (index, block) in content_blocks(answer).iter().enumerate() {
        events.extend(block_events(index, block, answer));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
        "usage": encode_usage(&answer.usage),
    }));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(SseFrame::from_named_data).collect()
}

fn message_header(answer: &StubAnswer) -> Value {
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

fn content_blocks(answer: &StubAnswer) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thoughts) = &answer.thoughts {
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

fn block_events(index: usize, block: &Value, answer: &StubAnswer) -> Vec<Value> {
    let (empty_block, deltas) = match block["type"].as_str().unwrap_or_default() {
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
                .text_chunks()
                .iter()
                .map(|chunk| json!({"type": "text_delta", "text": chunk}))
                .collect(),
        ),
        _ => (
            json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
            vec![json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})],
        ),
    };
    let start =
        json!({"type": "content_block_start", "index": index, "content_block": empty_block});
    let deltas = deltas
        .into_iter()
        .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let stop = json!({"type": "content_block_stop", "index": index});
    [start].into_iter().chain(deltas).chain([stop]).collect()
}

fn stop_reason(answer: &StubAnswer) -> &'static str {
    if answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    }
}

fn encode_usage(usage: &StubUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "service_tier": "standard",
    })
}

/// Returns the HTTP status and the body of a failure. The server adds the `retry-after` header.
pub(crate) fn encode_failure(failure: StubFailure) -> (u16, Value) {
    let (status, kind, message) = match failure {
        StubFailure::RateLimit { .. } => (
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
        ),
        StubFailure::Unauthorized => (401, "authentication_error", "invalid x-api-key"),
        StubFailure::BadRequest => (400, "invalid_request_error", "stub: the request is bad"),
        StubFailure::PromptTooLong => (
            400,
            "invalid_request_error",
            "prompt is too long: 1250000 tokens > 1000000 maximum",
        ),
        // The server handles `Stall` and `Cut` itself and does not pass them to this function.
        StubFailure::ServerError | StubFailure::Stall | StubFailure::Cut => {
            (500, "api_error", "Internal server error")
        }
    };
    (status, error_body(kind, message))
}

/// Creates the body of an error response.
pub(crate) fn error_body(kind: &str, message: &str) -> Value {
    json!({
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_stub",
    })
}
