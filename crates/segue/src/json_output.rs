//! The JSON output for other programs. Fields may be added; no field is removed or changes its meaning.

mod session;
mod transcript;

use jiff::Timestamp;
use segue_core::agent::Capabilities;
use segue_core::hint::Hint;
use segue_core::session::{Failure, Role, Step, ToolCall, TurnState, Usage};
use segue_engine::{FoundIn, FoundTurn, SearchReport, TurnEvent, TurnReport};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::chat::run_turn::Told;
use crate::error::{CliError, Kind};
use crate::terminal::print;

pub(crate) use self::session::{
    SessionJson, conversation, info, native_info, skipped, total_tokens,
};
pub(crate) use self::transcript::{TranscriptJson, TurnJson};

/// Prints a value as one line.
pub(crate) fn print_json(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        print(&line);
    }
}

/// Prints the error of a command that has no JSON shape of its own for errors.
pub(crate) fn print_error(error: &CliError) {
    print_json(&json!({ "error": ErrorJson::from(error) }));
}

fn time(at: Timestamp) -> String {
    at.to_string()
}

#[derive(Serialize)]
pub(crate) struct UsageJson {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    total_tokens: Option<u64>,
    context_tokens: Option<u64>,
    context_window: Option<u64>,
}

impl From<Usage> for UsageJson {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            total_tokens: usage.total_tokens,
            context_tokens: usage.context_tokens,
            context_window: usage.context_window,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct ErrorJson {
    class: String,
    message: String,
    hint: Option<String>,
    hints: Vec<String>,
    stderr: Option<String>,
    retry_at: Option<String>,
    held_by: Option<Value>,
}

impl From<&Failure> for ErrorJson {
    fn from(failure: &Failure) -> Self {
        Self {
            class: failure.class.as_str().to_owned(),
            message: failure.message.clone(),
            hint: failure.hint.as_ref().map(Hint::to_string),
            hints: failure.hint.iter().map(Hint::to_string).collect(),
            stderr: failure.stderr.clone(),
            retry_at: failure.retry_at.map(|at| at.to_string()),
            held_by: None,
        }
    }
}

impl From<&CliError> for ErrorJson {
    fn from(error: &CliError) -> Self {
        let class = match error.kind {
            Kind::Usage => "usage",
            Kind::Policy => "policy",
            Kind::Failed | Kind::Agent | Kind::Interrupted => "failed",
        };
        Self {
            class: class.to_owned(),
            message: error.message.clone(),
            hint: error.hints.first().map(Hint::to_string),
            hints: error.hints.iter().map(Hint::to_string).collect(),
            stderr: None,
            retry_at: error.retry_at.map(time),
            held_by: error.about.held_by.as_ref().map(|holder| {
                let (host, since) = holder.host_and_since.clone().unzip();
                json!({ "host": host, "pid": holder.pid, "since": since.map(time) })
            }),
        }
    }
}

/// Output of `chat --json`.
#[derive(Serialize)]
pub(crate) struct ChatJson {
    session_id: Option<String>,
    turn: Option<u32>,
    provider: Option<String>,
    native_session_id: Option<String>,
    leg: Option<u32>,
    opened: Option<&'static str>,
    opened_why: Option<String>,
    text: Option<String>,
    stop: &'static str,
    usage: UsageJson,
    decisions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Vec<Value>>,
    error: Option<ErrorJson>,
}

impl From<&TurnReport> for ChatJson {
    fn from(report: &TurnReport) -> Self {
        Self {
            session_id: Some(report.session.to_string()),
            // A prompt that was cancelled before it was sent has no turn number.
            turn: (report.sent || report.state != TurnState::Cancelled).then_some(report.turn),
            provider: Some(report.provider.to_string()),
            native_session_id: report.native_id.as_ref().map(ToString::to_string),
            leg: report.leg,
            opened: report.opened.as_ref().map(|(opened, _)| opened.as_str()),
            opened_why: report.opened.as_ref().map(|(_, why)| why.clone()),
            text: report.text.clone(),
            stop: stop(report.state),
            usage: report.usage.into(),
            decisions: report
                .decisions
                .iter()
                .map(|decision| decision.text.clone())
                .collect(),
            explain: report.steps.as_deref().map(steps),
            error: report.failure.as_ref().map(ErrorJson::from),
        }
    }
}

impl ChatJson {
    /// Builds the output for a turn that did not start or that could not be saved.
    pub(crate) fn failed(told: Told, error: &CliError) -> Self {
        let (session, turn) = told.began.unzip();
        let about = &error.about;
        Self {
            session_id: session
                .as_ref()
                .or(about.session.as_ref())
                .map(ToString::to_string),
            turn,
            provider: about.provider.as_ref().map(ToString::to_string),
            native_session_id: None,
            leg: None,
            opened: None,
            opened_why: None,
            text: Some(String::new()),
            stop: "failed",
            usage: Usage::default().into(),
            decisions: told.decisions,
            explain: told.steps.as_deref().map(steps),
            error: Some(error.into()),
        }
    }
}

fn stop(state: TurnState) -> &'static str {
    match state {
        TurnState::Finished => "finished",
        TurnState::Cancelled => "cancelled",
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => "failed",
    }
}

/// Returns the line that `chat --events` prints for one event.
pub(crate) fn event(event: &TurnEvent) -> Value {
    match event {
        TurnEvent::Began { session, turn } => {
            json!({ "event": "began", "session_id": session.as_str(), "turn": turn })
        }
        TurnEvent::Explained(all) => json!({ "event": "explained", "steps": steps(all) }),
        TurnEvent::Opened {
            provider,
            native_id,
            leg,
            opened,
        } => json!({
            "event": "opened", "provider": provider.as_str(), "native_session_id": native_id.as_ref().map(ToString::to_string),
            "leg": leg, "opened": opened.as_str()
        }),
        TurnEvent::Decided(decision) => {
            json!({ "event": "decision", "kind": decision.kind.as_str(), "text": decision.text })
        }
        TurnEvent::Text { message, words } => {
            json!({ "event": "text", "message": message, "text": words })
        }
        TurnEvent::Thought { message, words } => {
            json!({ "event": "thought", "message": message, "text": words })
        }
        TurnEvent::Named { native_id } => {
            json!({ "event": "named", "native_session_id": native_id.as_str() })
        }
        TurnEvent::Plan(steps) => {
            let steps: Vec<Value> = steps
                .iter()
                .map(|step| json!({ "text": step.text, "status": step.status.as_str() }))
                .collect();
            json!({ "event": "plan", "steps": steps })
        }
        TurnEvent::Stopping => json!({ "event": "stopping" }),
        TurnEvent::Tool(call) => with_event("tool", tool(call)),
        TurnEvent::Ask(request, _) => {
            let options: Vec<&str> = request
                .options
                .iter()
                .map(|option| option.name.as_str())
                .collect();
            json!({ "event": "permission_request", "tool": tool(&request.call), "options": options })
        }
        TurnEvent::Saved { message } => json!({ "event": "saved", "message": message }),
        TurnEvent::Usage(usage) => with_event("usage", json!(UsageJson::from(*usage))),
        TurnEvent::Ended { state } => json!({ "event": "ended", "state": state.as_str() }),
    }
}

/// Returns the steps that resolved the session.
fn steps(steps: &[Step]) -> Vec<Value> {
    let steps = steps.iter();
    steps
        .map(|step| json!({ "step": step.kind.as_str(), "text": step.text }))
        .collect()
}

/// Adds the name of the event to an object.
pub(crate) fn with_event(name: &str, object: Value) -> Value {
    let mut event = Map::from_iter([("event".to_owned(), Value::from(name))]);
    if let Value::Object(fields) = object {
        event.extend(fields);
    }
    Value::Object(event)
}

fn tool(call: &ToolCall) -> Value {
    json!({
        "id": call.id, "name": call.name, "kind": call.kind, "status": call.status.as_str(),
        "args": call.args, "output": call.output,
        "diffs": call.diffs.iter().map(|diff| json!({ "path": diff.path, "patch": diff.patch })).collect::<Vec<_>>()
    })
}

/// Returns the output of `session search --json`: one entry per matching turn.
pub(crate) fn hits(report: &SearchReport) -> Vec<Value> {
    let entry = |found: &FoundIn, turn: Option<&FoundTurn>| {
        let session = serde_json::to_value(conversation(&found.conversation)).unwrap_or_default();
        let of = |field: &str| session.get(field).cloned().unwrap_or_default();
        json!({
            "id": of("id"),
            "provider": of("provider"),
            "native_session_id": of("native_session_id"),
            "turn": turn.map(|turn| turn.n),
            "role": turn.and_then(|turn| turn.snippet.role).map(Role::as_str),
            "at": turn.and_then(|turn| turn.at).map(time),
            "snippet": turn.map(|turn| turn.snippet.text.as_str()),
            "score": found.score,
            "found_in_turns": found.count,
            "title": of("title"),
            "project": of("project"),
            "cwd": of("cwd"),
            "tags": of("tags"),
            "status": of("status"),
            "updated_at": of("updated_at"),
        })
    };
    let entries = report.found.iter().flat_map(|found| {
        let turns = found.turns.iter().map(|turn| entry(found, Some(turn)));
        let whole = found.turns.is_empty().then(|| entry(found, None));
        turns.chain(whole).collect::<Vec<_>>()
    });
    entries.collect()
}

/// Returns a map from each capability to its source, or to null if the agent does not have it.
pub(crate) fn capabilities(capabilities: Capabilities) -> Value {
    let each = capabilities.each().into_iter();
    each.map(|(name, how)| {
        (
            name.to_owned(),
            how.map_or(Value::Null, |how| how.as_str().into()),
        )
    })
    .collect::<Map<_, _>>()
    .into()
}
