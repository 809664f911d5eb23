//! Detection of other programs that use a native session which is to be resumed.

use std::path::PathBuf;

use segue_agents::busy::{self, Busy, Whose};
use segue_core::id::{NativeId, ProviderId};

use crate::native::keeper;
use crate::{ConversationId, Engine, EngineError};

impl Engine {
    /// Returns a process that uses a native session without segue. `None` if there is no certain evidence of one.
    pub(crate) async fn stranger_in(&self, provider: &ProviderId, id: &NativeId) -> Option<Busy> {
        let agent = keeper(provider);
        let home = self.catalog.home_of(&agent)?.to_owned();
        let id = id.clone();
        let look = self.with_catalog(move |catalog| {
            let mut files: Vec<PathBuf> = Vec::new();
            if busy::keeps_open(agent.as_str()) {
                let mut found = catalog.lookup(&format!("{agent}:{id}")).sessions;
                found.retain(|session| session.head.id == id && !session.found.archived);
                files.extend(found.into_iter().map(|session| session.found.path));
            }
            busy::at_work(&id, &files, &home, Whose::Strangers)
        });
        look.await
    }

    /// Fails if another program uses a native session, because two programs that continue it would each write a
    /// different end.
    pub(crate) async fn refuse_strangers_in(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<(), EngineError> {
        match self.stranger_in(provider, id).await {
            Some(Busy { pid, program }) => Err(EngineError::InUse {
                id: ConversationId::Native(keeper(provider), id.clone()),
                pid,
                program,
            }),
            None => Ok(()),
        }
    }
}
