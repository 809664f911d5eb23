//! Encoding of answers and failures for Gemini `generateContent`.

use serde_json::{Value, json};

use super::frame::SseFrame;
use super::reply::StubAnswer;
use super::script::{StubFailure, StubUsage};

/// Encodes the answer as a single response.
pub(crate) fn encode_response(answer: &StubAnswer) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({"text": answer.text}));
    let parts = thought_part(answer)
        .into_iter()
        .chain(text)
        .chain(call_parts(answer));
    final_chunk(answer, &parts.collect::<Vec<_>>())
}

/// Encodes the answer as a stream.
pub(crate) fn encode_stream(answer: &StubAnswer) -> Vec<SseFrame> {
    let texts = answer
        .text_chunks()
        .into_iter()
        .map(|text| json!({"text": text}));
    let parts = thought_part(answer).into_iter().chain(texts);
    let mut chunks: Vec<Value> = parts.map(|part| response_chunk(answer, &[part])).collect();
    if !answer.calls.is_empty() {
        chunks.push(response_chunk(answer, &call_parts(answer)));
    }
    chunks.push(final_chunk(answer, &[json!({"text": ""})]));
    let mut frames: Vec<SseFrame> = chunks.iter().map(SseFrame::from_unnamed_data).collect();
    if let Some(last_frame) = frames.last_mut() {
        last_frame.has_text = false;
    }
    frames
}

fn thought_part(answer: &StubAnswer) -> Option<Value> {
    let text = answer.thoughts.as_ref()?;
    Some(json!({"text": text, "thought": true}))
}

fn call_parts(answer: &StubAnswer) -> Vec<Value> {
    let to_part = |(number, call): &(u64, super::tools::StubToolCall)| {
        let id = format!("call_stub_{number:06}");
        json!({
            "functionCall": {"id": id, "name": call.name, "args": call.input},
            "thoughtSignature": "c3R1Yg==",
        })
    };
    answer.calls.iter().map(to_part).collect()
}

fn response_chunk(answer: &StubAnswer, parts: &[Value]) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": answer.model,
        "responseId": format!("stub-{:06}", answer.number),
    })
}

fn final_chunk(answer: &StubAnswer, parts: &[Value]) -> Value {
    let mut chunk = response_chunk(answer, parts);
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    chunk["usageMetadata"] = encode_usage(&answer.usage);
    chunk
}

fn encode_usage(usage: &StubUsage) -> Value {
    json!({
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.thoughts,
        "totalTokenCount": usage.input + usage.output + usage.thoughts,
    })
}

/// Returns the status and the body of a failure.
pub(crate) fn encode_failure(failure: StubFailure) -> (u16, Value) {
    match failure {
        StubFailure::RateLimit { retry_after } => {
            let mut body = error_body(
                429,
                "RESOURCE_EXHAUSTED",
                "Resource has been exhausted (e.g. check quota).",
            );
            body["error"]["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{retry_after}s"),
            }]);
            (429, body)
        }
        StubFailure::Unauthorized => (
            401,
            error_body(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials.",
            ),
        ),
        StubFailure::BadRequest => (
            400,
            error_body(400, "INVALID_ARGUMENT", "stub: the request is bad"),
        ),
        StubFailure::PromptTooLong => (
            400,
            error_body(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        ),
        StubFailure::ServerError | StubFailure::Stall | StubFailure::Cut => (
            500,
            error_body(500, "INTERNAL", "An internal error has occurred."),
        ),
    }
}

/// Creates an error body.
pub(crate) fn error_body(code: u16, status: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": status}})
}
