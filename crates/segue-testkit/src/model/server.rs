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

use super::frame::{self, Frame};
use super::record::Record;
use super::reply::{self, Answer};
use super::request::{Dialect, ModelRequest};
use super::route::{self, Route};
use super::script::{Failure, Reply};
use super::side_requests;
use super::transcript;
use super::{anthropic, gemini, responses};

/// Maximum duration of a stalled answer, so that a test that does not end the stall still finishes.
const STALL: Duration = Duration::from_mins(10);

/// Creates a router that sends all paths to one handler, because requests with unknown paths are recorded too.
pub(crate) fn router(record: Arc<Record>) -> Router {
    Router::new().fallback(handle).with_state(record)
}

async fn handle(
    State(record): State<Arc<Record>>,
    request: Request,
) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await;
    let body = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null);
    let path = parts.uri.to_string();
    let route = route::of(parts.method.as_str(), &path);
    let request = recorded(parts.method.as_str(), path, &parts.headers, body, route);
    Ok(match route {
        Route::Generate(_) => generate(&record, request).await,
        Route::Count(_) | Route::Models | Route::Compact | Route::Missing => {
            let (status, body) = route::plain(route, &request, record.script());
            record.add(request, status);
            whole(status, &body)
        }
    })
}

fn recorded(
    method: &str,
    path: String,
    headers: &HeaderMap,
    body: Value,
    route: Route,
) -> ModelRequest {
    let dialect = route.dialect();
    let seen = transcript::conversation(dialect, &body);
    let text = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value)
    };
    ModelRequest {
        dialect,
        method: method.to_owned(),
        model: body["model"]
            .as_str()
            .or_else(|| route::model_in_path(&path))
            .map(str::to_owned),
        streaming: body["stream"] == true || path.contains(":streamGenerateContent"),
        side: side_requests::of(dialect, &body, &seen),
        headers: headers.iter().map(text).collect::<BTreeMap<_, _>>(),
        path,
        body,
        status: 0,
    }
}

async fn generate(record: &Record, request: ModelRequest) -> Response {
    let chosen = reply::choose(record.script(), &request);
    let failure = record.failure(&chosen);
    let mut reply = chosen.reply;
    if matches!(failure, Some(Failure::Stall | Failure::Cut)) && reply.text.is_none() {
        reply.text = Some("This is never said to its end.".to_owned());
    }
    let answer = Answer::new(&reply, &request, || record.number());
    let (dialect, streaming) = (request.dialect, request.streaming);
    let refusal = failure.and_then(|failure| refusal(dialect, streaming, failure));
    record.add(
        request,
        refusal.as_ref().map_or(200, |(status, ..)| *status),
    );
    tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
    match (refusal, failure) {
        (Some((status, body, retry_after)), _) => {
            let mut response = whole(status, &body);
            if let Some(seconds) = retry_after {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, seconds.into());
            }
            response
        }
        (None, Some(failure)) => unfinished(dialect, streaming, &answer, failure, &reply),
        (None, None) if streaming => streamed(frames(dialect, &answer), &reply, End::Whole),
        (None, None) => whole(200, &body(dialect, &answer)),
    }
}

/// Returns the status, the body and the retry delay of a failure that is reported by an HTTP status. `None` if the
/// failure occurs within the answer.
fn refusal(
    dialect: Dialect,
    streaming: bool,
    failure: Failure,
) -> Option<(u16, Value, Option<u64>)> {
    let in_stream = failure == Failure::TooLong && dialect == Dialect::Responses && streaming;
    if in_stream || matches!(failure, Failure::Stall | Failure::Cut) {
        return None;
    }
    let (status, body) = match dialect {
        Dialect::Anthropic => anthropic::failure(failure),
        Dialect::Responses => responses::failure(failure),
        Dialect::Gemini | Dialect::Unknown => gemini::failure(failure),
    };
    let retry_after = match failure {
        Failure::RateLimit { retry_after } => Some(retry_after),
        _ => None,
    };
    Some((status, body, retry_after))
}

fn frames(dialect: Dialect, answer: &Answer) -> Vec<Frame> {
    match dialect {
        Dialect::Anthropic => anthropic::stream(answer),
        Dialect::Responses => responses::stream(answer),
        Dialect::Gemini | Dialect::Unknown => gemini::stream(answer),
    }
}

fn body(dialect: Dialect, answer: &Answer) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::whole(answer),
        Dialect::Responses => responses::whole(answer),
        Dialect::Gemini | Dialect::Unknown => gemini::whole(answer),
    }
}

/// End of a streamed answer.
#[derive(Clone, Copy)]
enum End {
    Whole,
    Cut,
    Stall,
}

/// Creates an answer that begins and does not finish.
fn unfinished(
    dialect: Dialect,
    streaming: bool,
    answer: &Answer,
    failure: Failure,
    reply: &Reply,
) -> Response {
    let end = match failure {
        Failure::Stall => End::Stall,
        Failure::Cut => End::Cut,
        _ => return streamed(responses::failed_stream(answer, failure), reply, End::Whole),
    };
    let begun = if streaming {
        frame::beginning(frames(dialect, answer))
    } else {
        Vec::new()
    };
    streamed(begun, reply, end)
}

fn streamed(frames: Vec<Frame>, reply: &Reply, end: End) -> Response {
    let pace = Duration::from_millis(reply.pace_ms);
    let wires: Vec<String> = frames.into_iter().map(|frame| frame.wire).collect();
    let state = (wires.into_iter(), end);
    let body = stream::unfold(state, move |(mut wires, end)| async move {
        if let Some(wire) = wires.next() {
            tokio::time::sleep(pace).await;
            return Some((Ok(Bytes::from(wire)), (wires, end)));
        }
        match end {
            End::Whole => return None,
            End::Stall => tokio::time::sleep(STALL).await,
            // The events so far must arrive before the connection closes.
            End::Cut => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        let cut = io::Error::other("the script cuts the answer here");
        Some((Err(cut), (wires, End::Whole)))
    });
    response(200, "text/event-stream", Body::from_stream(body))
}

fn whole(status: u16, body: &Value) -> Response {
    response(status, "application/json", Body::from(body.to_string()))
}

fn response(status: u16, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Creates the error body for an unknown path.
pub(crate) fn missing(path: &str) -> Value {
    json!({"error": {"code": 404, "message": format!("the stub has no {path}"), "status": "NOT_FOUND"}})
}
