//! Subject of an error, for programs that do not parse messages.

use jiff::Timestamp;
use segue_core::id::{ProviderId, SessionId};
use segue_engine::EngineError;
use segue_store::StoreError;

/// Subject of an error. A field is `None` if the error does not concern it.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) session: Option<SessionId>,
    pub(crate) provider: Option<ProviderId>,
    /// Process that uses the session.
    pub(crate) held_by: Option<HeldBy>,
}

/// A process that uses the session which the command needs.
#[derive(Debug)]
pub(crate) struct HeldBy {
    pub(crate) pid: u32,
    /// Host of the process and the time since which it has used the session. `None` if the process is not segue,
    /// because only segue's processes record them.
    pub(crate) host_and_since: Option<(String, Timestamp)>,
}

impl About {
    pub(super) fn of(error: &EngineError) -> Self {
        match error {
            EngineError::Store(StoreError::Held { session, by }) => Self {
                session: Some(session.clone()),
                provider: None,
                held_by: Some(HeldBy {
                    pid: by.owner.pid,
                    host_and_since: Some((by.owner.host.clone(), by.since)),
                }),
            },
            EngineError::NotYet {
                session, provider, ..
            } => Self {
                session: session.clone(),
                provider: Some(provider.clone()),
                held_by: None,
            },
            EngineError::Hopeless {
                session, provider, ..
            } => Self {
                session: Some(session.clone()),
                provider: Some(provider.clone()),
                held_by: None,
            },
            EngineError::NoDirectoryOf(session, _) | EngineError::NothingSaid(session) => Self {
                session: Some(session.clone()),
                ..Self::default()
            },
            EngineError::InUse { pid, .. } => Self {
                held_by: Some(HeldBy {
                    pid: *pid,
                    host_and_since: None,
                }),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}
