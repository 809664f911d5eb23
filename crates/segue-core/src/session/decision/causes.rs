//! Causes and details of decisions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::PermissionPolicy;
use crate::enum_names::named_enum;
use crate::id::{ProviderId, SessionId};
use crate::policy::WaitReason;
use crate::scope::{Purpose, PurposeEvidence, RoleName};
use crate::session::FailureClass;

named_enum! {
    /// Reason for which a provider was chosen.
    pub enum ProviderChoice {
        /// The agent was last used in this project.
        LastUsedInProject => "last_used_in_project",
        /// The agent is built in, and no other one was found.
        BuiltIn => "built_in",
        /// The agent is the first that was found on this machine.
        FirstFound => "first_found",
    }
}

/// A session of another provider that the user can continue instead of a new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherSession {
    /// Id of the session.
    pub session: SessionId,
    /// Title of the session.
    pub title: String,
    /// Provider of the session.
    pub provider: ProviderId,
}

/// Purpose for which a native session was adopted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdoptionPurpose {
    /// Purpose of the session.
    pub purpose: Purpose,
    /// Evidence that the native session had the purpose.
    pub evidence: PurposeEvidence,
}

named_enum! {
    /// Part of a native session that is missing.
    pub enum NativeLoss {
        /// The complete native session.
        Missing => "missing",
        /// Some of its turns.
        Truncated => "truncated",
    }
}

/// State of the prompt and the answer of a turn that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InterruptedPrompt {
    /// The native session has the complete answer, which was taken from there.
    Answered {
        /// Provider of the native session.
        provider: ProviderId,
    },
    /// The native session has a part of the answer, which was taken from there.
    PartlyAnswered {
        /// Provider of the native session.
        provider: ProviderId,
    },
    /// The native session does not contain the prompt.
    NotInNative {
        /// Provider of the native session.
        provider: ProviderId,
    },
    /// The prompt may have reached the agent.
    PossiblySent,
    /// The prompt never reached the agent.
    Unsent,
}

named_enum! {
    /// Reason why a process lost its lease.
    pub enum TakeoverCause {
        /// The process died while it used the session.
        Died => "died",
        /// The process sent no heartbeat for too long.
        Silent => "silent",
    }
}

/// Source of the answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PermissionSource {
    /// The permission policy.
    Policy {
        /// Policy that applies.
        policy: PermissionPolicy,
    },
    /// The role, which does not allow the call.
    Role {
        /// Role of the agent.
        role: RoleName,
    },
    /// The user.
    User,
    /// No answer: the user did not or could not answer, and no policy allows the call.
    Unanswered,
}

/// A document of the project context that does not fit completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TruncatedDocument {
    /// Name of the document.
    pub name: String,
    /// Bytes that the context contains.
    pub included_bytes: u64,
    /// Bytes of the complete document.
    pub total_bytes: u64,
}

/// Reason why the answer of a summariser was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum UnusedSummary {
    /// The session was reverted to a turn before the checkpoint.
    OffPath,
    /// The answer contains nothing new that fits into the budget.
    NothingNew,
    /// The checkpoint covers no turns that can be sent.
    NoTurns,
    /// The summariser is in cooldown.
    Cooldown {
        /// End of the cooldown.
        until: Timestamp,
    },
    /// The summariser did not answer in time.
    TimedOut {
        /// Time that segue waited, in seconds.
        seconds: u64,
    },
    /// The summariser failed.
    AgentFailed {
        /// Error of the agent.
        error: String,
    },
    /// Each answer was rejected.
    Rejected {
        /// Reasons, one for each answer, without repetitions in a row.
        errors: Vec<String>,
    },
}

/// Limit at which a native session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RotationCause {
    /// The context of the model is full.
    ContextFull,
    /// The agent failed too often in a row. The next prompt starts a new native session.
    Failures {
        /// Number of failures in a row.
        count: u32,
    },
    /// The agent failed too often in a row in a second native session. segue does not start a third one automatically.
    MoreFailures {
        /// Number of failures in a row.
        count: u32,
    },
    /// A prompt that the user forced after too many failures failed as well.
    ForcedPromptFailed,
    /// The context is larger than the configured limit.
    OverLimit {
        /// Tokens of the context.
        tokens: u64,
        /// Configured limit in tokens.
        limit: u64,
    },
}

/// Cause of a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HandoffCause {
    /// The user requested the handoff.
    Requested,
    /// The previous provider was in cooldown before the prompt was sent.
    Cooldown {
        /// End of the cooldown.
        until: Timestamp,
        /// Reason of the cooldown.
        reason: WaitReason,
    },
    /// The previous provider rejected the prompt.
    Rejected {
        /// Kind of the failure.
        class: FailureClass,
        /// Time after which the previous provider accepts prompts. `None` if it reported none.
        until: Option<Timestamp>,
    },
}

/// A setting of a provider that does not apply to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DroppedSetting {
    /// The permission policy, which is configured for each provider.
    Permissions {
        /// Policy of the previous provider.
        old: PermissionPolicy,
        /// Policy of the new provider.
        new: PermissionPolicy,
    },
    /// The mode of the agent.
    Mode {
        /// Mode of the previous provider.
        old: String,
        /// Mode of the new provider. `None` for its default.
        new: Option<String>,
    },
    /// The model.
    Model {
        /// Model of the previous provider.
        old: String,
        /// Model of the new provider. `None` for its default.
        new: Option<String>,
    },
}

/// Reason why a prompt was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PromptRefusal {
    /// The provider failed in one native session after another.
    RetriesExhausted {
        /// Session in which the provider failed.
        session: SessionId,
        /// Number of failures in a row that ends a native session.
        limit: u32,
    },
    /// The provider accepts no prompts yet.
    Unavailable {
        /// Time from which the provider accepts prompts.
        until: Timestamp,
        /// Reason of the wait.
        reason: WaitReason,
    },
}

named_enum! {
    /// Reason why a prompt was not sent.
    pub enum WithdrawalReason {
        /// The user stopped the turn before the prompt was sent.
        Stopped => "stopped",
        /// The brief does not fit into the budget, so the prompt cannot be sent.
        BriefTooLarge => "brief_too_large",
    }
}
