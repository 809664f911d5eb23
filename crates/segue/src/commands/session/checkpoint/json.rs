//! JSON output of checkpoints.

use segue_core::checkpoint::{CheckpointItem, CheckpointVersion, LoopState};
use segue_core::session::Session;
use segue_engine::{CheckpointView, VersionStatus};
use serde_json::{Value, json};

/// Returns a version with its items.
pub(super) fn checkpoint_json(session: &Session, view: &CheckpointView) -> Value {
    let mut object = version_json(&view.version, view.status);
    let details = json!({
        "session_id": session.id.as_str(),
        "turns": session.turns,
        "held_tokens": view.budget_usage.used_tokens,
        "budget": view.budget_usage.budget,
        "total_saved": view.total_saved,
        "items": view.checkpoint.items.iter().map(item_json).collect::<Vec<_>>(),
        "loop": view.checkpoint.loop_state.as_ref().map(loop_state_json),
    });
    if let (Value::Object(fields), Value::Object(detail_fields)) = (&mut object, details) {
        fields.extend(detail_fields);
    }
    object
}

/// Returns a version without its items.
pub(super) fn version_json(version: &CheckpointVersion, status: VersionStatus) -> Value {
    json!({
        "version": version.n,
        "place": match status {
            VersionStatus::Active => "in_force",
            VersionStatus::Superseded => "earlier",
            VersionStatus::OffPath => "elsewhere",
        },
        "covers": version.covers,
        "tokens": version.tokens,
        "replaced_tokens": version.replaced,
        "by": version.author.as_str(),
        "why": version.reason.as_str(),
        "at": version.at.to_string(),
    })
}

pub(super) fn item_json(item: &CheckpointItem) -> Value {
    json!({
        "id": item.id,
        "kind": item.kind.as_str(),
        "text": item.text,
        "subject": item.subject,
        "turn": item.turn,
        "message": item.message_index,
        "by": item.author.as_str(),
        "pinned": item.pinned,
    })
}

fn loop_state_json(state: &LoopState) -> Value {
    json!({
        "iteration": state.iteration,
        "passed": state.passed,
        "failed": state.failed,
        "last_error": state.last_error,
    })
}
