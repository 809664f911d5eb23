//! Detection of other programs that use a native session which is to be resumed.

use std::path::PathBuf;

use segue_agents::busy::{self, ProcessFilter, ProcessUsingSession};
use segue_core::id::{NativeId, ProviderId};

use crate::library::conversations::storage_provider;
use crate::{ConversationId, Engine, EngineError};

impl Engine {
    /// Returns a process that uses a native session without segue. `None` if there is no certain evidence of one.
    pub(crate) async fn find_foreign_process(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Option<ProcessUsingSession> {
        let agent = storage_provider(provider);
        let home = self.catalog.provider_home(&agent)?.to_owned();
        let id = id.clone();
        let lookup = self.with_catalog(move |catalog| {
            let mut files: Vec<PathBuf> = Vec::new();
            if busy::has_file_open_while_in_use(agent.as_str()) {
                let mut sessions = catalog.lookup_id(&format!("{agent}:{id}")).sessions;
                sessions.retain(|session| session.head.id == id && !session.location.archived);
                files.extend(sessions.into_iter().map(|session| session.location.path));
            }
            busy::find_process_using_session(&id, &files, &home, ProcessFilter::Foreign)
        });
        lookup.await
    }

    /// Fails if another program uses a native session, because two programs that continue it would each write a
    /// different end.
    pub(crate) async fn ensure_no_foreign_process(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<(), EngineError> {
        match self.find_foreign_process(provider, id).await {
            Some(ProcessUsingSession { pid, program }) => Err(EngineError::InUse {
                id: ConversationId::Native(storage_provider(provider), id.clone()),
                pid,
                program,
            }),
            None => Ok(()),
        }
    }
}
