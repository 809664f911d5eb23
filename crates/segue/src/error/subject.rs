//! Subject of an error, for programs that do not parse messages.

use jiff::Timestamp;
use segue_core::id::{ProviderId, SessionId};
use segue_engine::{AccessError, EngineError, ResolveError, SessionError, TurnError};
use segue_store::StoreError;

/// Subject of an error. A field is `None` if the error does not concern it.
#[derive(Debug, Default)]
pub(crate) struct ErrorSubject {
    pub(crate) session: Option<SessionId>,
    pub(crate) provider: Option<ProviderId>,
    /// Process that uses the session.
    pub(crate) blocking_process: Option<BlockingProcess>,
}

/// A process that uses the session which the command needs.
#[derive(Debug)]
pub(crate) struct BlockingProcess {
    pub(crate) pid: u32,
    /// Host of the process and the time since which it has used the session. `None` if the process is not segue,
    /// because only segue's processes record them.
    pub(crate) host_and_since: Option<(String, Timestamp)>,
}

impl ErrorSubject {
    pub(super) fn from_error(error: &EngineError) -> Self {
        match error {
            EngineError::Access(AccessError::Store(StoreError::Leased { session, holder })) => {
                Self {
                    session: Some(session.clone()),
                    blocking_process: Some(BlockingProcess {
                        pid: holder.owner.pid,
                        host_and_since: Some((holder.owner.host.clone(), holder.acquired_at)),
                    }),
                    ..Self::default()
                }
            }
            EngineError::Turn(TurnError::PromptRefused {
                session, provider, ..
            }) => Self {
                session: session.clone(),
                provider: Some(provider.clone()),
                ..Self::default()
            },
            EngineError::Resolve(ResolveError::SessionDirectoryMissing(session, _))
            | EngineError::Session(SessionError::NoMessages(session)) => Self {
                session: Some(session.clone()),
                ..Self::default()
            },
            EngineError::Access(AccessError::InUse { pid, .. }) => Self {
                blocking_process: Some(BlockingProcess {
                    pid: *pid,
                    host_and_since: None,
                }),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}
