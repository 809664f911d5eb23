//! JSON output of checkpoints.

use segue_core::checkpoint::{Item, LoopState, Version};
use segue_core::session::Session;
use segue_engine::{CheckpointView, Place};
use serde_json::{Value, json};

/// Returns a version with its items.
pub(super) fn checkpoint(session: &Session, view: &CheckpointView) -> Value {
    let mut shape = version(&view.version, view.place);
    let more = json!({
        "session_id": session.id.as_str(),
        "turns": session.turns,
        "held_tokens": view.fullness.held,
        "budget": view.fullness.budget,
        "total_saved": view.total_saved,
        "items": view.checkpoint.items.iter().map(item).collect::<Vec<_>>(),
        "loop": view.checkpoint.loop_state.as_ref().map(loop_state),
    });
    if let (Value::Object(shape), Value::Object(more)) = (&mut shape, more) {
        shape.extend(more);
    }
    shape
}

/// Returns a version without its items.
pub(super) fn version(version: &Version, place: Place) -> Value {
    json!({
        "version": version.n,
        "place": match place {
            Place::InForce => "in_force",
            Place::Earlier => "earlier",
            Place::Elsewhere => "elsewhere",
        },
        "covers": version.covers,
        "tokens": version.tokens,
        "replaced_tokens": version.replaced,
        "by": version.by.as_str(),
        "why": version.why.as_str(),
        "at": version.at.to_string(),
    })
}

pub(super) fn item(item: &Item) -> Value {
    json!({
        "id": item.id,
        "kind": item.kind.as_str(),
        "text": item.text,
        "subject": item.subject,
        "turn": item.turn,
        "message": item.message,
        "by": item.by.as_str(),
        "pinned": item.pinned,
    })
}

fn loop_state(state: &LoopState) -> Value {
    json!({
        "iteration": state.iteration,
        "passed": state.passed,
        "failed": state.failed,
        "last_error": state.last_error,
    })
}
