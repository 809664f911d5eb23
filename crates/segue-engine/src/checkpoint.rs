//! Checkpoints: compaction, changes by the user, and summarisers.

pub(crate) mod compaction;
pub(crate) mod edit;
pub(crate) mod summariser;

use std::sync::Arc;

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
}
