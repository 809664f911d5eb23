//! Briefs: the text that a new native session receives before its first prompt.

pub(crate) mod added_messages;
mod compaction;
pub(crate) mod plan;
pub(crate) mod project_context;
mod reminder;

use std::sync::Arc;

use crate::context::EngineContext;

pub(crate) use reminder::has_context_shrunk;

/// Component that plans briefs, compactions and project contexts. It starts no agent, and changes nothing except that it
/// saves missing token counts and rebuilt project contexts.
#[derive(Clone)]
pub struct BriefPlanner {
    context: Arc<EngineContext>,
}

impl BriefPlanner {
    pub(crate) fn new(context: &Arc<EngineContext>) -> Self {
        Self {
            context: Arc::clone(context),
        }
    }
}
