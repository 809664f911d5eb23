//! The JSON output for other programs. Fields may be added; no field is removed or changes its meaning.

mod session;
mod transcript;

use jiff::Timestamp;
use segue_api::text::{ShellActions, format_decision, format_hint, format_resolution_step};
use segue_core::agent::Capabilities;
use segue_core::session::{Failure, ResolutionStep, Role, ToolCall, TurnState, Usage};
use segue_engine::{SearchHit, SearchHitTurn, SearchReport, TurnEvent, TurnReport};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::chat::run_turn::PartialTurnReport;
use crate::error::{CliError, ExitKind};
use crate::terminal::print_line;

pub(crate) use self::session::{
    SessionJson, conversation_json, native_info_json, session_info_json, skipped_json, sum_tokens,
};
pub(crate) use self::transcript::{TranscriptJson, TurnJson};

/// Prints a value as one line.
pub(crate) fn print_json(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        print_line(&line);
    }
}

/// Prints the error of a command that has no JSON shape of its own for errors.
pub(crate) fn print_error(error: &CliError) {
    print_json(&json!({ "error": ErrorJson::from(error) }));
}

fn format_time(at: Timestamp) -> String {
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
        let hint = failure.hint.as_ref();
        let hint = hint.map(|hint| format_hint(hint, &ShellActions));
        Self {
            class: failure.class.as_str().to_owned(),
            message: failure.message.clone(),
            hint: hint.clone(),
            hints: hint.into_iter().collect(),
            stderr: failure.stderr.clone(),
            retry_at: failure.retry_at.map(|at| at.to_string()),
            held_by: None,
        }
    }
}

impl From<&CliError> for ErrorJson {
    fn from(error: &CliError) -> Self {
        let class = match error.kind {
            ExitKind::Usage => "usage",
            ExitKind::Policy => "policy",
            ExitKind::Failed | ExitKind::Agent | ExitKind::Interrupted => "failed",
        };
        let hints = error.hints.iter();
        let hints: Vec<String> = hints.map(|hint| hint.format(&ShellActions)).collect();
        Self {
            class: class.to_owned(),
            message: error.message.clone(),
            hint: hints.first().cloned(),
            hints,
            stderr: None,
            retry_at: error.retry_at.map(format_time),
            held_by: error.subject.blocking_process.as_ref().map(|process| {
                let (host, since) = process.host_and_since.clone().unzip();
                json!({ "host": host, "pid": process.pid, "since": since.map(format_time) })
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
            opened: report.opened.as_ref().map(|(mode, _)| mode.as_str()),
            opened_why: report.opened.as_ref().map(|(_, reason)| reason.clone()),
            text: report.text.clone(),
            stop: stop_name(report.state),
            usage: report.usage.into(),
            decisions: report
                .decisions
                .iter()
                .map(|decision| format_decision(decision, &ShellActions))
                .collect(),
            explain: report.steps.as_deref().map(steps_json),
            error: report.failure.as_ref().map(ErrorJson::from),
        }
    }
}

impl ChatJson {
    /// Builds the output for a turn that did not start or that could not be saved.
    pub(crate) fn from_error(partial_report: PartialTurnReport, error: &CliError) -> Self {
        let (session, turn) = partial_report.saved_turn.unzip();
        let subject = &error.subject;
        Self {
            session_id: session
                .as_ref()
                .or(subject.session.as_ref())
                .map(ToString::to_string),
            turn,
            provider: subject.provider.as_ref().map(ToString::to_string),
            native_session_id: None,
            leg: None,
            opened: None,
            opened_why: None,
            text: Some(String::new()),
            stop: "failed",
            usage: Usage::default().into(),
            decisions: partial_report.decisions,
            explain: partial_report.resolution_steps.as_deref().map(steps_json),
            error: Some(error.into()),
        }
    }
}

fn stop_name(state: TurnState) -> &'static str {
    match state {
        TurnState::Finished => "finished",
        TurnState::Cancelled => "cancelled",
        TurnState::Running | TurnState::Failed | TurnState::Interrupted => "failed",
    }
}

/// Returns the line that `chat --events` prints for one event.
pub(crate) fn event_json(event: &TurnEvent) -> Value {
    match event {
        TurnEvent::Started { session, turn } => {
            json!({ "event": "began", "session_id": session.as_str(), "turn": turn })
        }
        TurnEvent::Explained(resolution_steps) => {
            json!({ "event": "explained", "steps": steps_json(resolution_steps) })
        }
        TurnEvent::Opened {
            provider,
            native_id,
            leg,
            mode,
        } => json!({
            "event": "opened", "provider": provider.as_str(),
            "native_session_id": native_id.as_ref().map(ToString::to_string), "leg": leg, "opened": mode.as_str()
        }),
        TurnEvent::Decided(decision) => {
            let text = format_decision(decision, &ShellActions);
            json!({ "event": "decision", "kind": decision.kind().as_str(), "text": text })
        }
        TurnEvent::Text { message, text } => {
            json!({ "event": "text", "message": message, "text": text })
        }
        TurnEvent::Thought { message, text } => {
            json!({ "event": "thought", "message": message, "text": text })
        }
        TurnEvent::NativeIdReported { native_id } => {
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
        TurnEvent::Tool(call) => with_event("tool", tool_json(call)),
        TurnEvent::PermissionRequested(request, _) => {
            let options: Vec<&str> = request
                .options
                .iter()
                .map(|option| option.name.as_str())
                .collect();
            json!({ "event": "permission_request", "tool": tool_json(&request.call), "options": options })
        }
        TurnEvent::Saved { message } => json!({ "event": "saved", "message": message }),
        TurnEvent::Usage(usage) => with_event("usage", json!(UsageJson::from(*usage))),
        TurnEvent::Ended { state } => json!({ "event": "ended", "state": state.as_str() }),
    }
}

/// Returns the steps that resolved the session.
fn steps_json(steps: &[ResolutionStep]) -> Vec<Value> {
    let steps = steps.iter();
    steps
        .map(|step| json!({ "step": step.kind().as_str(), "text": format_resolution_step(step) }))
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

fn tool_json(call: &ToolCall) -> Value {
    json!({
        "id": call.id, "name": call.name, "kind": call.kind, "status": call.status.as_str(),
        "args": call.args, "output": call.output,
        "diffs": call.diffs.iter().map(|diff| json!({ "path": diff.path, "patch": diff.patch })).collect::<Vec<_>>()
    })
}

/// Returns the output of `session search --json`: one entry per matching turn.
pub(crate) fn search_hits_json(report: &SearchReport) -> Vec<Value> {
    let entry = |hit: &SearchHit, turn: Option<&SearchHitTurn>| {
        let session =
            serde_json::to_value(conversation_json(&hit.conversation)).unwrap_or_default();
        let session_field = |field: &str| session.get(field).cloned().unwrap_or_default();
        json!({
            "id": session_field("id"),
            "provider": session_field("provider"),
            "native_session_id": session_field("native_session_id"),
            "turn": turn.map(|turn| turn.n),
            "role": turn.and_then(|turn| turn.snippet.role).map(Role::as_str),
            "at": turn.and_then(|turn| turn.at).map(format_time),
            "snippet": turn.map(|turn| turn.snippet.text.as_str()),
            "score": hit.score,
            "found_in_turns": hit.count,
            "title": session_field("title"),
            "project": session_field("project"),
            "cwd": session_field("cwd"),
            "tags": session_field("tags"),
            "status": session_field("status"),
            "updated_at": session_field("updated_at"),
        })
    };
    let entries = report.hits.iter().flat_map(|hit| {
        let turns = hit.turns.iter().map(|turn| entry(hit, Some(turn)));
        let session_entry = hit.turns.is_empty().then(|| entry(hit, None));
        turns.chain(session_entry).collect::<Vec<_>>()
    });
    entries.collect()
}

/// Returns a map from each capability to its source, or to null if the agent does not have it.
pub(crate) fn capabilities_json(capabilities: Capabilities) -> Value {
    let entries = capabilities.entries().into_iter();
    entries
        .map(|(name, source)| {
            (
                name.to_owned(),
                source.map_or(Value::Null, |source| source.as_str().into()),
            )
        })
        .collect::<Map<_, _>>()
        .into()
}
