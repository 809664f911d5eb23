//! What a failure is about: for programs, which do not read sentences.

use jiff::Timestamp;
use segue_core::{ProviderId, SessionId};
use segue_engine::EngineError;
use segue_store::StoreError;

/// What a failure is about, as far as it is about anything.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) session: Option<SessionId>,
    pub(crate) provider: Option<ProviderId>,
    /// Who is at work there.
    pub(crate) held_by: Option<HeldBy>,
}

/// A process that is at work where we wanted to be.
#[derive(Debug)]
pub(crate) struct HeldBy {
    pub(crate) pid: u32,
    /// Where it runs, and since when it has been at it; only known of one of segue's own.
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
