//! Resolution steps: the steps by which the session for a prompt is found.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::decision::{NewNativeCause, ProviderChoice};
use crate::enum_names::named_enum;
use crate::id::{NativeId, ProviderId, SessionId};
use crate::scope::{Purpose, PurposeEvidence, Scope};

named_enum! {
    /// Subject of a resolution step.
    pub enum ResolutionStepKind {
        /// The session that the user named.
        Id => "id",
        /// The session of a task.
        Task => "task",
        /// The session of a feature.
        Feature => "feature",
        /// The session of the project.
        Project => "project",
        /// The native sessions on this machine.
        Catalog => "catalog",
        /// The sessions of the working directory.
        Directory => "directory",
        /// The default that is configured for the provider.
        Configured => "configured",
        /// A new session.
        New => "new",
        /// The provider that answers.
        Provider => "provider",
        /// The native session that receives the prompt.
        Opening => "opening",
    }
}

impl From<&Scope> for ResolutionStepKind {
    fn from(scope: &Scope) -> Self {
        match scope {
            Scope::Project => Self::Project,
            Scope::Feature(_) => Self::Feature,
            Scope::Task { .. } => Self::Task,
        }
    }
}

/// A resolution step with its result.
///
/// In JSON, `result` names the variant, next to the variant's fields. No variant has a field `step` or `text`, so that
/// a shape can contain the kind and the text of a step next to its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ResolutionStep {
    /// The user requested no session of this kind.
    NotRequested {
        /// Kind of the step.
        subject: ResolutionStepKind,
    },
    /// The user named a native session that segue has not adopted yet.
    NativeNotAdopted,
    /// The user named a session.
    SessionNamed {
        /// Id of the session.
        session: SessionId,
        /// Title of the session.
        title: String,
    },
    /// The user named a native session.
    NativeNamed {
        /// Provider of the native session.
        provider: ProviderId,
        /// Id of the native session.
        native_id: NativeId,
        /// Session that uses it.
        session: SessionId,
        /// Title of the session.
        title: String,
    },
    /// The store has a session for the purpose.
    PurposeSessionFound {
        /// Purpose of the session.
        purpose: Purpose,
        /// Provider that the user requested. `None` for any.
        provider: Option<ProviderId>,
        /// Id of the session.
        session: SessionId,
        /// Title of the session.
        title: String,
        /// Time of the last activity in the session.
        used_at: Timestamp,
    },
    /// The store has no session for the purpose.
    PurposeSessionMissing {
        /// Purpose of the session.
        purpose: Purpose,
        /// Provider that the user requested. `None` for any.
        provider: Option<ProviderId>,
    },
    /// The catalog was searched for a recent native session with the purpose.
    CatalogSearched {
        /// Purpose of the session.
        purpose: Purpose,
        /// Number of recent native sessions that no session uses.
        candidates: u64,
        /// Newest of them with the purpose. `None` if there is none.
        found: Option<PurposeNative>,
    },
    /// The newest session of the directory was found.
    DirectorySessionFound {
        /// Id of the session.
        session: SessionId,
        /// Title of the session.
        title: String,
    },
    /// The directory has no session.
    DirectorySessionMissing,
    /// The configuration of the provider selects a session.
    SessionConfigured {
        /// Provider whose configuration applies.
        provider: ProviderId,
        /// Session that is configured.
        configured: ConfiguredSession,
    },
    /// The caller requested a new session.
    NewSessionRequested,
    /// The environment disables the reuse of sessions.
    ReuseDisabled,
    /// A session is created.
    SessionCreated {
        /// Purpose of the session. `None` if it has none.
        purpose: Option<Purpose>,
    },
    /// The user requested the provider.
    ProviderRequested {
        /// The provider.
        provider: ProviderId,
    },
    /// The provider is that of the session.
    SessionProviderUsed {
        /// The provider.
        provider: ProviderId,
        /// Whether another process changed the provider of the session since it was found.
        is_changed: bool,
    },
    /// segue chose the provider.
    ProviderChosen {
        /// The provider.
        provider: ProviderId,
        /// Reason of the choice.
        reason: ProviderChoice,
    },
    /// The prompt goes to a native session that contains all earlier turns.
    NativeResumed {
        /// Provider of the native session.
        provider: ProviderId,
        /// Id of the native session. `None` if the agent has not reported it.
        native_id: Option<NativeId>,
        /// Number of the leg.
        leg: u32,
        /// Whether the agent is still running.
        is_running: bool,
    },
    /// The prompt goes to a native session that is started.
    NativeStarted {
        /// Provider of the native session.
        provider: ProviderId,
        /// Reason why it is started.
        cause: NewNativeCause,
    },
    /// A step that is known only as text.
    ///
    /// The kind and the text stand next to every step in JSON, so this variant writes neither of them.
    Recorded {
        /// Kind of the step.
        #[serde(rename = "step", skip_serializing)]
        kind: ResolutionStepKind,
        /// Result and reason.
        #[serde(skip_serializing)]
        text: String,
    },
}

/// A native session that had a purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PurposeNative {
    /// Provider that can resume the native session.
    pub provider: ProviderId,
    /// Id of the native session.
    pub native_id: NativeId,
    /// Evidence that it had the purpose.
    pub evidence: PurposeEvidence,
}

/// Session that the configuration of a provider selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConfiguredSession {
    /// A new session.
    New,
    /// The newest session of the working directory.
    NewestInDirectory,
    /// A session of segue.
    Session {
        /// Id of the session.
        session: SessionId,
    },
    /// A native session.
    Native {
        /// Provider of the native session.
        provider: ProviderId,
        /// Id of the native session.
        native_id: NativeId,
    },
}

impl ResolutionStep {
    /// Returns the subject of the step.
    #[must_use]
    pub fn kind(&self) -> ResolutionStepKind {
        match self {
            Self::NotRequested { subject } => *subject,
            Self::NativeNotAdopted | Self::SessionNamed { .. } | Self::NativeNamed { .. } => {
                ResolutionStepKind::Id
            }
            Self::PurposeSessionFound { purpose, .. }
            | Self::PurposeSessionMissing { purpose, .. } => (&purpose.scope).into(),
            Self::CatalogSearched { .. } => ResolutionStepKind::Catalog,
            Self::DirectorySessionFound { .. } | Self::DirectorySessionMissing => {
                ResolutionStepKind::Directory
            }
            Self::SessionConfigured { .. } => ResolutionStepKind::Configured,
            Self::NewSessionRequested | Self::ReuseDisabled | Self::SessionCreated { .. } => {
                ResolutionStepKind::New
            }
            Self::ProviderRequested { .. }
            | Self::SessionProviderUsed { .. }
            | Self::ProviderChosen { .. } => ResolutionStepKind::Provider,
            Self::NativeResumed { .. } | Self::NativeStarted { .. } => ResolutionStepKind::Opening,
            Self::Recorded { kind, .. } => *kind,
        }
    }
}
