//! JSON output for sessions: entries of lists, and the details of one session.

use segue_catalog::index::State;
use segue_catalog::{NativeTurn, Skipped};
use segue_core::session::{Leg, Session, SessionStatus};
use segue_engine::{Conversation, Native, SessionView, Survey};
use serde::Serialize;
use serde_json::{Value, json};

use super::time;

/// An entry of `session list --json`.
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
    /// Builds the entry with the details that require reading the complete native session.
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

/// Returns the sum of the turns' tokens. `None` if no turn has a count.
pub(crate) fn total_tokens(turns: &[NativeTurn]) -> Option<u64> {
    let known = turns.iter().filter_map(|turn| turn.usage.total_tokens);
    known.reduce(u64::saturating_add)
}

/// Returns an entry of `session list --json`.
pub(crate) fn conversation(row: &Conversation) -> SessionJson {
    match row {
        Conversation::Session(session, status) => SessionJson::new(session, *status),
        Conversation::Native(native) => SessionJson::from(native.as_ref()),
    }
}

/// Returns the output of `session info --json` for a native session.
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

/// Returns the counts of records in a native session that could not be read.
pub(crate) fn skipped(skipped: Skipped) -> Value {
    json!({
        "malformed": skipped.malformed,
        "oversized": skipped.oversized,
        "mended": skipped.mended,
        "torn": skipped.torn,
        "orphaned": skipped.orphaned,
    })
}

pub(super) fn leg(leg: &Leg) -> Value {
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

/// Returns the output of `session info --json`.
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
        "standings": view.standings.iter().map(|(agent, standing)| json!({
            "provider": agent.as_str(), "failures": standing.failures, "limited": standing.limited,
            "rotations": standing.rotations, "retry_at": standing.retry_at.map(time)
        })).collect::<Vec<_>>(),
        "origin": view.origin.as_ref().map(|origin| json!({
            "name": origin.name, "format": origin.format, "at": time(origin.at)
        })),
        "decisions": decisions,
        "held_by": view.holder.as_ref().map(|holder| json!({
            "host": holder.owner.host, "pid": holder.owner.pid, "since": time(holder.since)
        })),
    })
}
