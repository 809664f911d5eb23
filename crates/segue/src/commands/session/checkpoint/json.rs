//! JSON output of checkpoints.

use segue_api::checkpoint::{CheckpointDetails, ListedVersion, VersionPlace};
use segue_core::checkpoint::CheckpointVersion;
use segue_core::session::Session;
use segue_engine::{CheckpointView, VersionStatus};

/// Returns a version with its items.
pub(super) fn checkpoint_json(session: &Session, view: &CheckpointView) -> CheckpointDetails {
    CheckpointDetails {
        version: version_json(&view.version, view.status),
        session_id: session.id.clone(),
        turns: session.turns,
        held_tokens: view.budget_usage.used_tokens,
        budget: view.budget_usage.budget,
        total_saved: view.total_saved,
        items: view.checkpoint.items.iter().map(Into::into).collect(),
        check_loop: view.checkpoint.loop_state.as_ref().map(Into::into),
    }
}

/// Returns a version without its items.
pub(super) fn version_json(version: &CheckpointVersion, status: VersionStatus) -> ListedVersion {
    let place = match status {
        VersionStatus::Active => VersionPlace::InForce,
        VersionStatus::Superseded => VersionPlace::Earlier,
        VersionStatus::OffPath => VersionPlace::Elsewhere,
    };
    ListedVersion::new(version, place)
}
