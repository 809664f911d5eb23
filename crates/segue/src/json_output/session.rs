//! JSON output for sessions: entries of lists, and the details of one session.

use segue_api::text::{ShellActions, format_decision};
use segue_catalog::index::NativeStatus;
use segue_catalog::{NativeTurn, SkippedContent};
use segue_core::session::{Leg, Session, SessionStatus};
use segue_engine::{Conversation, NativeEntry, NativeOutline, SessionView};
use serde::Serialize;
use serde_json::{Value, json};

use super::format_time;

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
            created_at: Some(format_time(session.created_at)),
            updated_at: format_time(session.updated_at),
            status: status.as_str(),
            forked_from: session.forked_from.as_ref().map(|(id, turn)| ForkJson {
                id: id.to_string(),
                turn: Some(*turn),
            }),
        }
    }
}

impl From<&NativeEntry> for SessionJson {
    fn from(native: &NativeEntry) -> Self {
        let (location, head) = (&native.session.location, &native.session.head);
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
            turns: native.details.as_ref().map(|details| details.turns),
            total_tokens: native
                .details
                .as_ref()
                .and_then(|details| details.usage.total_tokens),
            created_at: head.created_at.map(format_time),
            updated_at: format_time(head.updated_at),
            status: match native.details.as_ref().map(|details| details.status) {
                Some(NativeStatus::Missing) => "gone",
                _ if location.archived => "archived",
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
    pub(crate) fn from_outline(native: &NativeEntry, outline: &NativeOutline) -> Self {
        let mut session = Self::from(native);
        if let Some(title) = &outline.title {
            session.title = Some(title.as_str().to_owned());
            session.title_from = Some(title.source().as_str());
        }
        session.turns = u32::try_from(outline.turns.len()).ok();
        session.total_tokens = sum_tokens(&outline.turns);
        session
    }
}

/// Returns the sum of the turns' tokens. `None` if no turn has a count.
pub(crate) fn sum_tokens(turns: &[NativeTurn]) -> Option<u64> {
    let counts = turns.iter().filter_map(|turn| turn.usage.total_tokens);
    counts.reduce(u64::saturating_add)
}

/// Returns an entry of `session list --json`.
pub(crate) fn conversation_json(conversation: &Conversation) -> SessionJson {
    match conversation {
        Conversation::Session(session, status) => SessionJson::new(session, *status),
        Conversation::Native(native) => SessionJson::from(native.as_ref()),
    }
}

/// Returns the output of `session info --json` for a native session.
pub(crate) fn native_info_json(native: &NativeEntry, outline: &NativeOutline) -> Value {
    let (location, head) = (&native.session.location, &native.session.head);
    json!({
        "session": SessionJson::from_outline(native, outline),
        "legs": [],
        "decisions": [],
        "held_by": null,
        "native": {
            "path": location.path.to_string_lossy(),
            "bytes": location.size,
            "archived": location.archived,
            "branch": head.branch,
            "version": head.agent_version,
            "first_prompt": head.first_prompt,
            "forked_from": head.forked_from,
            "compactions": outline.compactions,
            "skipped": skipped_json(outline.skipped),
        },
    })
}

/// Returns the counts of records in a native session that could not be read.
pub(crate) fn skipped_json(skipped: SkippedContent) -> Value {
    json!({
        "malformed": skipped.malformed,
        "oversized": skipped.oversized,
        "mended": skipped.repaired,
        "torn": skipped.truncated,
        "orphaned": skipped.orphaned,
    })
}

pub(super) fn leg_json(leg: &Leg) -> Value {
    json!({
        "n": leg.number,
        "provider": leg.provider.as_str(),
        "native_session_id": leg.native_id.as_ref().map(ToString::to_string),
        "consecutive_failures": leg.consecutive_failures,
        "total_tokens": leg.total_tokens,
        "context_tokens": leg.context_tokens,
        "opened_at": format_time(leg.opened_at),
        "ended_at": leg.ended.map(|(at, _)| format_time(at)),
        "ended_why": leg.ended.map(|(_, reason)| reason.as_str()),
    })
}

/// Returns the output of `session info --json`.
pub(crate) fn session_info_json(view: &SessionView) -> Value {
    let decisions: Vec<Value> = view
        .decisions
        .iter()
        .map(|(at, decision)| {
            let text = format_decision(decision, &ShellActions);
            json!({ "at": format_time(*at), "kind": decision.kind().as_str(), "text": text })
        })
        .collect();
    json!({
        "session": SessionJson::new(&view.session, view.status),
        "legs": view.legs.iter().zip(&view.leg_turn_ranges).map(|(leg, turns)| {
            let mut value = leg_json(leg);
            value["turns"] = json!(turns.map(|(first, last)| json!({ "first": first, "last": last })));
            value
        }).collect::<Vec<_>>(),
        "forks": view.lineage.forks.iter().map(|fork| json!({
            "id": fork.id.as_str(), "title": fork.title.as_str(), "turn": fork.turn, "at": format_time(fork.at)
        })).collect::<Vec<_>>(),
        "moves": view.lineage.moves.iter().map(|head_move| json!({
            "n": head_move.number, "kind": head_move.kind.as_str(), "from": head_move.from, "to": head_move.to,
            "undone": head_move.undone, "at": format_time(head_move.at)
        })).collect::<Vec<_>>(),
        "standings": view.provider_health.iter().map(|(provider, health)| json!({
            "provider": provider.as_str(), "failures": health.failures, "limited": health.rate_limit_failures,
            "rotations": health.failed_legs, "retry_at": health.retry_at.map(format_time)
        })).collect::<Vec<_>>(),
        "origin": view.origin.as_ref().map(|origin| json!({
            "name": origin.name, "format": origin.format, "at": format_time(origin.at)
        })),
        "decisions": decisions,
        "held_by": view.lease_holder.as_ref().map(|holder| json!({
            "host": holder.owner.host, "pid": holder.owner.pid, "since": format_time(holder.acquired_at)
        })),
    })
}
