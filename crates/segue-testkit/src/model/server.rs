//! HTTP server of the stub: reads a request, records it and answers it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures::stream;
use serde_json::{Value, json};

use super::frame::{self, SseFrame};
use super::record::StubState;
use super::reply::{self, StubAnswer};
use super::request::{ApiFormat, ModelRequest};
use super::route::{self, Route};
use super::script::{Reply, StubFailure};
use super::side_requests;
use super::transcript;
use super::{anthropic, gemini, responses};

/// Maximum duration of a stalled answer, so that a test that does not end the stall still finishes.
const MAX_STALL_DURATION: Duration = Duration::from_mins(10);

/// Creates a router that sends all paths to one handler, because requests with unknown paths are recorded too.
pub(crate) fn build_router(state: Arc<StubState>) -> Router {
    Router::new().fallback(handle_request).with_state(state)
}

async fn handle_request(
    State(state): State<Arc<StubState>>,
    request: Request,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let body = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null);
    let path = parts.uri.to_string();
    let route = route::parse_route(parts.method.as_str(), &path);
    let request = parse_request(parts.method.as_str(), path, &parts.headers, body, route);
    Ok(match route {
        Route::Generation(_) => generate_response(&state, request).await,
        Route::TokenCount(_) | Route::ModelList | Route::Compaction | Route::Unknown => {
            let (status, body) = route::unscripted_response(route, &request, state.script());
            state.record_request(request, status);
            json_response(status, &body)
        }
    })
}

fn parse_request(
    method: &str,
    path: String,
    headers: &HeaderMap,
    body: Value,
    route: Route,
) -> ModelRequest {
    let api_format = route.api_format();
    let entries = transcript::parse_transcript(api_format, &body);
    let to_pair = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value)
    };
    ModelRequest {
        api_format,
        method: method.to_owned(),
        model: body["model"]
            .as_str()
            .or_else(|| route::find_model_in_path(&path))
            .map(str::to_owned),
        streaming: body["stream"] == true || path.contains(":streamGenerateContent"),
        side_request: side_requests::classify_side_request(api_format, &body, &entries),
        headers: headers.iter().map(to_pair).collect::<BTreeMap<_, _>>(),
        path,
        body,
        status: 0,
    }
}

async fn generate_response(state: &StubState, request: ModelRequest) -> Response {
    let selected = reply::select_reply(state.script(), &request);
    let failure = state.take_failure(&selected);
    let mut reply = selected.reply;
    if matches!(failure, Some(StubFailure::Stall | StubFailure::Cut)) && reply.text.is_none() {
        reply.text = Some("This answer never ends.".to_owned());
    }
    let answer = StubAnswer::new(&reply, &request, || state.take_number());
    let (api_format, streaming) = (request.api_format, request.streaming);
    let http_failure =
        failure.and_then(|failure| encode_http_failure(api_format, streaming, failure));
    state.record_request(
        request,
        http_failure.as_ref().map_or(200, |(status, ..)| *status),
    );
    tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    match (http_failure, failure) {
        (Some((status, body, retry_after)), _) => {
            let mut response = json_response(status, &body);
            if let Some(seconds) = retry_after {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        (None, Some(failure)) => {
            unfinished_response(api_format, streaming, &answer, failure, &reply)
        }
        (None, None) if streaming => stream_response(
            encode_frames(api_format, &answer),
            &reply,
            StreamEnd::Complete,
        ),
        (None, None) => json_response(200, &encode_body(api_format, &answer)),
    }
}

/// Returns the status, the body and the retry delay of a failure that is reported by an HTTP status. `None` if the
/// failure occurs within the answer.
fn encode_http_failure(
    api_format: ApiFormat,
    streaming: bool,
    failure: StubFailure,
) -> Option<(u16, Value, Option<u64>)> {
    let is_in_stream =
        failure == StubFailure::PromptTooLong && api_format == ApiFormat::Responses && streaming;
    if is_in_stream || matches!(failure, StubFailure::Stall | StubFailure::Cut) {
        return None;
    }
    let (status, body) = match api_format {
        ApiFormat::Anthropic => anthropic::encode_failure(failure),
        ApiFormat::Responses => responses::encode_failure(failure),
        ApiFormat::Gemini | ApiFormat::Unknown => gemini::encode_failure(failure),
    };
    let retry_after = match failure {
        StubFailure::RateLimit { retry_after } => Some(retry_after),
        _ => None,
    };
    Some((status, body, retry_after))
}

fn encode_frames(api_format: ApiFormat, answer: &StubAnswer) -> Vec<SseFrame> {
    match api_format {
        ApiFormat::Anthropic => anthropic::encode_stream(answer),
        ApiFormat::Responses => responses::encode_stream(answer),
        ApiFormat::Gemini | ApiFormat::Unknown => gemini::encode_stream(answer),
    }
}

fn encode_body(api_format: ApiFormat, answer: &StubAnswer) -> Value {
    match api_format {
        ApiFormat::Anthropic => anthropic::encode_response(answer),
        ApiFormat::Responses => responses::encode_response(answer),
        ApiFormat::Gemini | ApiFormat::Unknown => gemini::encode_response(answer),
    }
}

/// End of a streamed answer.
#[derive(Clone, Copy)]
enum StreamEnd {
    Complete,
    Cut,
    Stall,
}

/// Creates an answer that begins and does not finish.
fn unfinished_response(
    api_format: ApiFormat,
    streaming: bool,
    answer: &StubAnswer,
    failure: StubFailure,
    reply: &Reply,
) -> Response {
    let end = match failure {
        StubFailure::Stall => StreamEnd::Stall,
        StubFailure::Cut => StreamEnd::Cut,
        _ => {
            return stream_response(
                responses::encode_failed_stream(answer, failure),
                reply,
                StreamEnd::Complete,
            );
        }
    };
    let sent_frames = if streaming {
        frame::truncate_in_text(encode_frames(api_format, answer))
    } else {
        Vec::new()
    };
    stream_response(sent_frames, reply, end)
}

fn stream_response(frames: Vec<SseFrame>, reply: &Reply, end: StreamEnd) -> Response {
    let pace = Duration::from_millis(reply.pace_ms);
    let encoded_frames: Vec<String> = frames.into_iter().map(|frame| frame.encoded).collect();
    let state = (encoded_frames.into_iter(), end);
    let body = stream::unfold(state, move |(mut encoded_frames, end)| async move {
        if let Some(encoded) = encoded_frames.next() {
            tokio::time::sleep(pace).await;
            return Some((Ok(Bytes::from(encoded)), (encoded_frames, end)));
        }
        match end {
            StreamEnd::Complete => return None,
            StreamEnd::Stall => tokio::time::sleep(MAX_STALL_DURATION).await,
            // The events so far must arrive before the connection closes.
            StreamEnd::Cut => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        let error = io::Error::other("the script cut the connection");
        Some((Err(error), (encoded_frames, StreamEnd::Complete)))
    });
    build_response(200, "text/event-stream", Body::from_stream(body))
}

fn json_response(status: u16, body: &Value) -> Response {
    build_response(status, "application/json", Body::from(body.to_string()))
}

fn build_response(status: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let content_type = header::HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// Creates the error body for an unknown path.
pub(crate) fn not_found_body(path: &str) -> Value {
    json!({"error": {"code": 404, "message": format!("unknown path `{path}`"), "status": "NOT_FOUND"}})
}
