//! Read access to conversations: lists, searches, transcripts and spending.

pub(crate) mod conversations;
pub(crate) mod history;
pub(crate) mod index_sync;
pub(crate) mod plain_text;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod spending;

use std::sync::Arc;

use crate::context::EngineContext;

/// Component that lists, shows and searches conversations.
#[derive(Clone)]
pub struct Library {
    pub(crate) context: Arc<EngineContext>,
}

impl Library {
    pub(crate) fn new(context: &Arc<EngineContext>) -> Self {
        Self {
            context: Arc::clone(context),
        }
    }
}
