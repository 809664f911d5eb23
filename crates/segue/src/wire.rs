//! The JSON that other programs build on. Fields may be added; none goes away or changes its meaning.

use jiff::Timestamp;
use segue_catalog::index::State;
use segue_catalog::{NativeTurn, Skipped};
use segue_core::stored::PartShape;
use segue_core::{
    Capabilities, Failure, Leg, Message, Role, Session, SessionStatus, Step, ToolCall, TurnState,
    Usage,
};
use segue_engine::{
    Conversation, FoundIn, FoundTurn, Native, SearchReport, SessionView, Survey, Transcript,
    TurnEvent, TurnReport,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::chat::play::Told;
use crate::error::{CliError, Kind};
use crate::terminal::print;

/// Prints a value as one line.
pub(crate) fn print_json(value: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(value) {
        print(&line);
    }
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
    stderr: Option<String>,
    retry_at: Option<String>,
}

impl From<&Failure> for ErrorJson {
    fn from(failure: &Failure) -> Self {
        Self {
            class: failure.class.as_str().to_owned(),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            stderr: failure.stderr.clone(),
            retry_at: failure.retry_at.map(|at| at.to_string()),
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
            hint: error.hints.first().cloned(),
            stderr: None,
            retry_at: error.retry_at.map(time),
        }
    }
}

/// What `chat --json` prints.
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
            // What was stopped before it was sent is none.
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
    /// The same shape for a turn that did not happen, or whose record could not be kept.
    pub(crate) fn failed(told: Told, error: &CliError) -> Self {
        let (session, turn) = told.began.unzip();
        Self {
            session_id: session.map(|session| session.to_string()),
            turn,
            provider: None,
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

/// What `chat --events` prints for one event.
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

/// How a session was found.
fn steps(steps: &[Step]) -> Vec<Value> {
    let steps = steps.iter();
    steps
        .map(|step| json!({ "step": step.kind.as_str(), "text": step.text }))
        .collect()
}

/// An object as an event.
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

/// What `session search --json` prints: one entry a turn in which something was found.
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

/// One entry of `session list --json`.
#[derive(Serialize)]
pub(crate) struct SessionJson {
    id: Option<String>,
    provider: String,
    native_session_id: Option<String>,
    project: Option<String>,
    cwd: Option<String>,
    title: Option<String>,
    title_from: Option<&'static str>,
    feature: Option<String>,
    task: Option<String>,
    task_state: Option<String>,
    role: Option<String>,
    tags: Vec<String>,
    turns: Option<u32>,
    total_tokens: Option<u64>,
    created_at: Option<String>,
    updated_at: String,
    status: &'static str,
    forked_from: Option<ForkJson>,
}

#[derive(Serialize)]
struct ForkJson {
    id: String,
    turn: Option<u32>,
}

impl SessionJson {
    pub(crate) fn new(session: &Session, status: SessionStatus) -> Self {
        let purpose = session.purpose.as_ref();
        let task = purpose.and_then(|purpose| purpose.scope.task());
        let role = purpose.and_then(|purpose| purpose.role.as_ref());
        Self {
            id: Some(session.id.to_string()),
            provider: session.provider.to_string(),
            native_session_id: session.native_id.as_ref().map(ToString::to_string),
            project: Some(session.project.key.clone()),
            cwd: Some(session.project.cwd.clone()),
            title: Some(session.title.as_str().to_owned()),
            title_from: Some(session.title.source().as_str()),
            feature: session.feature().map(ToString::to_string),
            task: task.map(|(task, _)| task.to_string()),
            task_state: task.map(|(_, state)| state.to_string()),
            role: role.map(ToString::to_string),
            tags: session.tags.iter().map(ToString::to_string).collect(),
            turns: Some(session.turns),
            total_tokens: session.total_tokens,
            created_at: Some(time(session.created_at)),
            updated_at: time(session.updated_at),
            status: status.as_str(),
            forked_from: session.forked_from.as_ref().map(|(id, turn)| ForkJson {
                id: id.to_string(),
                turn: Some(*turn),
            }),
        }
    }
}

impl From<&Native> for SessionJson {
    fn from(native: &Native) -> Self {
        let (found, head) = (&native.session.found, &native.session.head);
        let title = head.title.as_ref();
        Self {
            id: None,
            provider: native.session.provider.to_string(),
            native_session_id: Some(head.id.to_string()),
            project: native.project.clone(),
            cwd: head.cwd.clone(),
            title: title.map(|title| title.as_str().to_owned()),
            title_from: title.map(|title| title.source().as_str()),
            feature: None,
            task: None,
            task_state: None,
            role: None,
            tags: Vec::new(),
            turns: native.known.as_ref().map(|known| known.turns),
            total_tokens: native
                .known
                .as_ref()
                .and_then(|known| known.usage.total_tokens),
            created_at: head.created_at.map(time),
            updated_at: time(head.updated_at),
            status: match native.known.as_ref().map(|known| known.state) {
                Some(State::Gone) => "gone",
                _ if found.archived => "archived",
                _ => "idle",
            },
            forked_from: head.forked_from.as_ref().map(|id| ForkJson {
                id: format!("{}:{id}", native.session.provider),
                turn: None,
            }),
        }
    }
}

impl SessionJson {
    /// With what only reading a native session through tells.
    pub(crate) fn surveyed(native: &Native, survey: &Survey) -> Self {
        let mut session = Self::from(native);
        if let Some(title) = &survey.title {
            session.title = Some(title.as_str().to_owned());
            session.title_from = Some(title.source().as_str());
        }
        session.turns = u32::try_from(survey.turns.len()).ok();
        session.total_tokens = total_tokens(&survey.turns);
        session
    }
}

/// The tokens of all turns; unknown if no turn knows.
pub(crate) fn total_tokens(turns: &[NativeTurn]) -> Option<u64> {
    let known = turns.iter().filter_map(|turn| turn.usage.total_tokens);
    known.reduce(u64::saturating_add)
}

/// One entry of `session list --json`.
pub(crate) fn conversation(row: &Conversation) -> SessionJson {
    match row {
        Conversation::Session(session, status) => SessionJson::new(session, *status),
        Conversation::Native(native) => SessionJson::from(native.as_ref()),
    }
}

/// What `session info --json` prints of a native session.
pub(crate) fn native_info(native: &Native, survey: &Survey) -> Value {
    let (found, head) = (&native.session.found, &native.session.head);
    json!({
        "session": SessionJson::surveyed(native, survey),
        "legs": [],
        "decisions": [],
        "held_by": null,
        "native": {
            "path": found.path.to_string_lossy(),
            "bytes": found.size,
            "archived": found.archived,
            "branch": head.branch,
            "version": head.version,
            "first_prompt": head.first_prompt,
            "forked_from": head.forked_from,
            "compactions": survey.compactions,
            "skipped": skipped(survey.skipped),
        },
    })
}

/// What could not be read of a native session.
pub(crate) fn skipped(skipped: Skipped) -> Value {
    json!({
        "malformed": skipped.malformed,
        "oversized": skipped.oversized,
        "mended": skipped.mended,
        "torn": skipped.torn,
        "orphaned": skipped.orphaned,
    })
}

fn leg(leg: &Leg) -> Value {
    json!({
        "n": leg.n,
        "provider": leg.provider.as_str(),
        "native_session_id": leg.native_id.as_ref().map(ToString::to_string),
        "consecutive_failures": leg.consecutive_failures,
        "total_tokens": leg.total_tokens,
        "context_tokens": leg.context_tokens,
        "opened_at": time(leg.opened_at),
        "ended_at": leg.ended.map(|(at, _)| time(at)),
        "ended_why": leg.ended.map(|(_, why)| why.as_str()),
    })
}

/// What `session info --json` prints.
pub(crate) fn info(view: &SessionView) -> Value {
    let decisions: Vec<Value> = view
        .decisions
        .iter()
        .map(|(at, decision)| json!({ "at": time(*at), "kind": decision.kind.as_str(), "text": decision.text }))
        .collect();
    json!({
        "session": SessionJson::new(&view.session, view.status),
        "legs": view.legs.iter().zip(&view.carried).map(|(each, turns)| {
            let mut told = leg(each);
            told["turns"] = json!(turns.map(|(first, last)| json!({ "first": first, "last": last })));
            told
        }).collect::<Vec<_>>(),
        "forks": view.lineage.forks.iter().map(|fork| json!({
            "id": fork.id.as_str(), "title": fork.title.as_str(), "turn": fork.turn, "at": time(fork.at)
        })).collect::<Vec<_>>(),
        "moves": view.lineage.moves.iter().map(|moved| json!({
            "n": moved.n, "kind": moved.kind.as_str(), "from": moved.from, "to": moved.to,
            "undone": moved.undone, "at": time(moved.at)
        })).collect::<Vec<_>>(),
        "decisions": decisions,
        "held_by": view.holder.as_ref().map(|holder| json!({
            "host": holder.owner.host, "pid": holder.owner.pid, "since": time(holder.since)
        })),
    })
}

#[derive(Serialize)]
struct MessageJson<'a> {
    role: &'static str,
    parts: Vec<PartShape<'a>>,
    at: String,
    complete: bool,
}

impl<'a> From<&'a Message> for MessageJson<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            role: message.role.as_str(),
            parts: message.parts.iter().map(PartShape).collect(),
            at: time(message.at),
            complete: message.complete,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct TurnJson<'a> {
    n: Option<u32>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    outside: bool,
    messages: Vec<MessageJson<'a>>,
    usage: UsageJson,
    error: Option<ErrorJson>,
    started_at: Option<String>,
    ended_at: Option<String>,
}

impl<'a> TurnJson<'a> {
    /// A turn of a native session; its number is not known where only the end was read.
    pub(crate) fn native(n: Option<u32>, turn: &'a NativeTurn) -> Self {
        Self {
            n,
            provider: None,
            outside: true,
            state: turn.state.as_str(),
            messages: turn.messages.iter().map(MessageJson::from).collect(),
            usage: turn.usage.into(),
            error: None,
            started_at: turn.started_at.map(time),
            ended_at: turn.ended_at.map(time),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct TranscriptJson<'a> {
    session: SessionJson,
    legs: Vec<Value>,
    turns: Vec<TurnJson<'a>>,
}

impl<'a> From<&'a Transcript> for TranscriptJson<'a> {
    fn from(transcript: &'a Transcript) -> Self {
        let turns = transcript.turns.iter().map(|entry| TurnJson {
            n: Some(entry.turn.n),
            state: entry.turn.state.as_str(),
            provider: Some(entry.provider.as_str()),
            outside: entry.turn.outside,
            messages: entry.messages.iter().map(MessageJson::from).collect(),
            usage: entry.turn.usage.into(),
            error: entry.turn.failure.as_ref().map(ErrorJson::from),
            started_at: Some(time(entry.turn.started_at)),
            ended_at: entry.turn.ended_at.map(time),
        });
        Self {
            session: SessionJson::new(&transcript.session, transcript.status),
            legs: transcript.legs.iter().map(leg).collect(),
            turns: turns.collect(),
        }
    }
}

/// Each capability by name, with how it is offered or null.
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
