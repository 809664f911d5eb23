//! Encoding of answers and failures for `OpenAI` Responses.

use serde_json::{Value, json};

use super::frame::SseFrame;
use super::reply::StubAnswer;
use super::script::{StubFailure, StubUsage};
use super::tools::{StubToolCall, ToolInputFormat};

/// Encodes the answer as a single response.
pub(crate) fn encode_response(answer: &StubAnswer) -> Value {
    build_response(answer, "completed", &output_items(answer))
}

/// Encodes the answer as a stream.
pub(crate) fn encode_stream(answer: &StubAnswer) -> Vec<SseFrame> {
    let items = output_items(answer);
    let in_progress = build_response(answer, "in_progress", &[]);
    let mut events = vec![
        json!({"type": "response.created", "response": in_progress}),
        json!({"type": "response.in_progress", "response": in_progress}),
    ];
    for (index, item) in items.iter().enumerate() {
        events.extend(item_events(index, item, answer));
    }
    let completed = build_response(answer, "completed", &items);
    events.push(json!({"type": "response.completed", "response": completed}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events.iter().map(SseFrame::from_named_data).collect()
}

/// Encodes a failure that this API reports in the stream instead of by an HTTP status.
pub(crate) fn encode_failed_stream(answer: &StubAnswer, failure: StubFailure) -> Vec<SseFrame> {
    let (_, body) = self::encode_failure(failure);
    let mut response = build_response(answer, "failed", &[]);
    let error = &body["error"];
    response["error"] = json!({"code": error["code"], "message": error["message"]});
    [
        json!({"type": "response.created", "response": self::build_response(answer, "in_progress", &[])}),
        json!({"type": "response.failed", "response": response}),
    ]
    .iter()
    .map(SseFrame::from_named_data)
    .collect()
}

fn build_response(answer: &StubAnswer, status: &str, items: &[Value]) -> Value {
    let is_completed = status == "completed";
    json!({
        "id": format!("resp_stub_{:06}", answer.number),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": answer.model,
        "output": items,
        "error": null,
        "usage": if is_completed { encode_usage(&answer.usage) } else { Value::Null },
    })
}

fn output_items(answer: &StubAnswer) -> Vec<Value> {
    let number = answer.number;
    let mut items = Vec::new();
    if let Some(thoughts) = &answer.thoughts {
        items.push(json!({
            "type": "reasoning",
            "id": format!("rs_stub_{number:06}"),
            "summary": [{"type": "summary_text", "text": thoughts}],
            "encrypted_content": "c3R1Yg==",
        }));
    }
    if !answer.text.is_empty() {
        items.push(json!({
            "type": "message",
            "id": format!("msg_stub_{number:06}"),
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": answer.text, "annotations": []}],
        }));
    }
    items.extend(
        answer
            .calls
            .iter()
            .map(|(number, call)| call_item(*number, call)),
    );
    items
}

fn call_item(number: u64, call: &StubToolCall) -> Value {
    let mut item = json!({
        "status": "completed",
        "call_id": format!("call_stub_{number:06}"),
        "name": call.name,
    });
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    match call.input_format {
        ToolInputFormat::Arguments => {
            item["type"] = json!("function_call");
            item["id"] = json!(format!("fc_stub_{number:06}"));
            item["arguments"] = json!(call.input.to_string());
        }
        ToolInputFormat::Text => {
            item["type"] = json!("custom_tool_call");
            item["id"] = json!(format!("ctc_stub_{number:06}"));
            let text = call.input.as_str().map(str::to_owned);
            item["input"] = json!(text.unwrap_or_else(|| call.input.to_string()));
        }
    }
    item
}

fn item_events(index: usize, item: &Value, answer: &StubAnswer) -> Vec<Value> {
    let mut initial_item = item.clone();
    initial_item["status"] = json!("in_progress");
    let mut events = match item["type"].as_str().unwrap_or_default() {
        "reasoning" => {
            initial_item["summary"] = json!([]);
            thought_events(&item["summary"][0])
        }
        "message" => {
            initial_item["content"] = json!([]);
            text_events(&item["content"][0], answer)
        }
        "function_call" => {
            initial_item["arguments"] = json!("");
            input_events("function_call_arguments", "arguments", &item["arguments"])
        }
        _ => {
            initial_item["input"] = json!("");
            input_events("custom_tool_call_input", "input", &item["input"])
        }
    };
    for event in &mut events {
        event["output_index"] = index.into();
        event["item_id"] = item["id"].clone();
    }
    let added =
        json!({"type": "response.output_item.added", "output_index": index, "item": initial_item});
    let done = json!({"type": "response.output_item.done", "output_index": index, "item": item});
    [added].into_iter().chain(events).chain([done]).collect()
}

fn thought_events(part: &Value) -> Vec<Value> {
    let empty = json!({"type": "summary_text", "text": ""});
    let text = &part["text"];
    vec![
        json!({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": empty}),
        json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": text}),
        json!({"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": text}),
        json!({"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": part}),
    ]
}

fn text_events(part: &Value, answer: &StubAnswer) -> Vec<Value> {
    let empty = json!({"type": "output_text", "text": "", "annotations": []});
    let start = json!({"type": "response.content_part.added", "content_index": 0, "part": empty});
    let chunks = answer.text_chunks();
    let deltas = chunks.iter().map(
        |chunk| json!({"type": "response.output_text.delta", "content_index": 0, "delta": chunk}),
    );
    let text =
        json!({"type": "response.output_text.done", "content_index": 0, "text": part["text"]});
    let done = json!({"type": "response.content_part.done", "content_index": 0, "part": part});
    [start]
        .into_iter()
        .chain(deltas)
        .chain([text, done])
        .collect()
}

fn input_events(kind: &str, field: &str, input: &Value) -> Vec<Value> {
    let mut done = json!({"type": format!("response.{kind}.done")});
    done[field] = input.clone();
    vec![
        json!({"type": format!("response.{kind}.delta"), "delta": input}),
        done,
    ]
}

fn encode_usage(usage: &StubUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thoughts},
        "total_tokens": usage.input + usage.output,
    })
}

/// Returns the status and the body of a failure.
pub(crate) fn encode_failure(failure: StubFailure) -> (u16, Value) {
    let (status, kind, code, message) = match failure {
        StubFailure::RateLimit { .. } => (
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            "Rate limit reached for requests. Please try again later.",
        ),
        StubFailure::Unauthorized => (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided.",
        ),
        StubFailure::BadRequest => (
            400,
            "invalid_request_error",
            "invalid_value",
            "stub: the request is bad",
        ),
        StubFailure::PromptTooLong => (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        StubFailure::ServerError | StubFailure::Stall | StubFailure::Cut => (
            500,
            "server_error",
            "server_error",
            "The server had an error while processing your request.",
        ),
    };
    (status, error_body(kind, code, message))
}

/// Creates an error body.
pub(crate) fn error_body(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}
