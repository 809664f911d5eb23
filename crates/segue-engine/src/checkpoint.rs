//! Checkpoints: compaction, changes by the user, and summarisers.

pub(crate) mod compaction;
pub(crate) mod edit;
pub(crate) mod summariser;

use std::sync::Arc;

use segue_core::checkpoint::{Checkpoint, CheckpointVersion};
use segue_core::id::TurnId;
use segue_core::session::Session;
use segue_store::StoreError;

use crate::brief::BriefPlanner;
use crate::context::EngineContext;
use crate::reconcile::Reconciler;

/// Component that compacts sessions, and shows and changes their checkpoints.
#[derive(Clone)]
pub struct Compactor {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) briefs: BriefPlanner,
    pub(crate) reconciler: Reconciler,
}

impl Compactor {
    pub(crate) fn new(
        context: &Arc<EngineContext>,
        briefs: &BriefPlanner,
        reconciler: &Reconciler,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            briefs: briefs.clone(),
            reconciler: reconciler.clone(),
        }
    }

    /// Returns the head of a session with the active version and its content. `None` if no version is active.
    async fn active_checkpoint(
        &self,
        session: &Session,
    ) -> Result<Option<(TurnId, CheckpointVersion, Checkpoint)>, StoreError> {
        let Some(head) = session.head else {
            return Ok(None);
        };
        let active = self.context.store.checkpoint_at(&session.id, head).await?;
        Ok(active.map(|(version, checkpoint)| (head, version, checkpoint)))
    }
}
