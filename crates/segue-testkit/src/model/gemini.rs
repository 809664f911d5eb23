//! Encoding of answers and failures for Gemini `generateContent`.

use serde_json::{Value, json};

use super::frame::Frame;
use super::reply::Answer;
use super::script::{Failure, Usage};

/// Encodes the answer as a single response.
pub(crate) fn whole(answer: &Answer) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({"text": answer.text}));
    let parts = thoughts(answer)
        .into_iter()
        .chain(text)
        .chain(calls(answer));
    last(answer, &parts.collect::<Vec<_>>())
}

/// Encodes the answer as a stream.
pub(crate) fn stream(answer: &Answer) -> Vec<Frame> {
    let texts = answer
        .pieces()
        .into_iter()
        .map(|text| json!({"text": text}));
    let parts = thoughts(answer).into_iter().chain(texts);
    let mut chunks: Vec<Value> = parts.map(|part| chunk(answer, &[part])).collect();
    if !answer.calls.is_empty() {
        chunks.push(chunk(answer, &calls(answer)));
    }
    chunks.push(last(answer, &[json!({"text": ""})]));
    let mut frames: Vec<Frame> = chunks.iter().map(Frame::plain).collect();
    if let Some(end) = frames.last_mut() {
        end.text = false;
    }
    frames
}

fn thoughts(answer: &Answer) -> Option<Value> {
    let text = answer.think.as_ref()?;
    Some(json!({"text": text, "thought": true}))
}

fn calls(answer: &Answer) -> Vec<Value> {
    let part = |(number, call): &(u64, super::tools::Placed)| {
        let id = format!("call_stub_{number:06}");
        json!({
            "functionCall": {"id": id, "name": call.name, "args": call.input},
            "thoughtSignature": "c3R1Yg==",
        })
    };
    answer.calls.iter().map(part).collect()
}

fn chunk(answer: &Answer, parts: &[Value]) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": answer.model,
        "responseId": format!("stub-{:06}", answer.number),
    })
}

fn last(answer: &Answer, parts: &[Value]) -> Value {
    let mut chunk = chunk(answer, parts);
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    chunk["usageMetadata"] = usage(&answer.usage);
    chunk
}

fn usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.thoughts,
        "totalTokenCount": usage.input + usage.output + usage.thoughts,
    })
}

/// Returns the status and the body of a failure.
pub(crate) fn failure(failure: Failure) -> (u16, Value) {
    match failure {
        Failure::RateLimit { retry_after } => {
            let mut body = error(
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
        Failure::Unauthorized => (
            401,
            error(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials.",
            ),
        ),
        Failure::BadRequest => (
            400,
            error(400, "INVALID_ARGUMENT", "stub: the request is bad"),
        ),
        Failure::TooLong => (
            400,
            error(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
            ),
        ),
        Failure::Server | Failure::Stall | Failure::Cut => (
            500,
            error(500, "INTERNAL", "An internal error has occurred."),
        ),
    }
}

/// Creates an error body.
pub(crate) fn error(code: u16, status: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": status}})
}
