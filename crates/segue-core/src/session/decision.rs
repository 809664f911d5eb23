//! Automatic decisions of segue as values, because each frontend words them itself.
//!
//! A decision has fields for what the supervisor and a web page act on. A field is a text only if its words come from
//! the user, an agent, the operating system or a file. `segue-api` contains the English wording.

mod causes;
mod guard_action;
mod open_reason;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::agent::PermissionPolicy;
use crate::enum_names::named_enum;
use crate::id::{NativeId, ProviderId, SessionId};
use crate::policy::WaitReason;
use crate::scope::{Purpose, RoleName};

pub use causes::{
    AdoptionPurpose, DroppedSetting, HandoffCause, InterruptedPrompt, NativeLoss, OtherSession,
    PermissionSource, PromptRefusal, ProviderChoice, RotationCause, TakeoverCause,
    TruncatedDocument, UnusedSummary, WithdrawalReason,
};
pub use guard_action::{GuardAction, RestoreCause};
pub use open_reason::{
    CompactionSummary, NewNative, NewNativeCause, OpenReason, format_replaced_turns,
};

named_enum! {
    /// Kind of an automatic decision of segue.
    pub enum DecisionKind {
        /// Choice of the provider.
        Provider => "provider",
        /// Choice of the session, if the user would not expect it.
        Session => "session",
        /// Choice of the session that is resumed by default.
        Continued => "continued",
        /// Method by which the connection to the agent was opened.
        Opened => "opened",
        /// An interrupted turn was closed.
        Recovered => "recovered",
        /// Turns that the user made in the agent's own program were added to the record.
        OutsideTurns => "outside",
        /// The lease of a dead process was taken over.
        LeaseTakenOver => "taken_over",
        /// A permission request was answered.
        Permission => "permission",
        /// A native session was protected from damage by its own program, or restored.
        Protected => "protected",
        /// The project context of a role was rebuilt, or does not fit completely.
        Context => "context",
        /// The agent compacted its own context.
        Compacted => "compacted",
        /// A native session ended because of a limit, and the next prompt opens another one.
        Rotated => "rotated",
        /// A prompt waits because its agent failed or is in cooldown.
        BackedOff => "backed_off",
        /// The session was handed off to another agent.
        HandedOff => "handed_over",
        /// A prompt was not sent.
        Stopped => "stopped",
        /// An unexpected event that did not stop the turn.
        Oddity => "oddity",
    }
}

/// An automatic decision: one line to the user, and one entry in the session's log.
///
/// In JSON, `decision` names the variant, next to the variant's fields. No variant has a field `event`, `at`, `kind` or
/// `text`, so that a shape can contain these next to the fields of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// A provider was chosen, because the user named none.
    ProviderChosen {
        /// Provider that receives the prompt.
        provider: ProviderId,
        /// Reason of the choice.
        reason: ProviderChoice,
    },
    /// The agent runs on another transport than the default one.
    TransportReplaced {
        /// Provider of the agent.
        provider: ProviderId,
        /// Transport that works.
        transport: String,
        /// Default transport, which does not work.
        failed_transport: String,
        /// Error of the default transport.
        error: String,
    },
    /// An existing session is continued.
    SessionContinued {
        /// Session that is continued.
        session: SessionId,
        /// Title of the session. `None` if another process adopted the session at the same time.
        title: Option<String>,
        /// Purpose by which the session was found. `None` if it was found by its directory.
        purpose: Option<Purpose>,
    },
    /// The agent works in the directory of the session, which is not the caller's directory.
    SessionDirectoryUsed {
        /// Directory of the session.
        cwd: String,
    },
    /// The directory has no session to continue, so a new one is started.
    NoSessionInDirectory,
    /// No session has the purpose, so a new one is started.
    NoSessionForPurpose {
        /// Purpose that the new session gets.
        purpose: Purpose,
        /// Provider that the user requested. `None` if the user named none.
        provider: Option<ProviderId>,
        /// Newest session of another provider for the purpose. `None` if there is none.
        other: Option<OtherSession>,
    },
    /// A native session became a session of segue.
    SessionAdopted {
        /// Provider that drives the native session.
        provider: ProviderId,
        /// Native session that was adopted.
        native_id: NativeId,
        /// New session.
        session: SessionId,
        /// Number of adopted turns.
        turns: u64,
        /// Purpose for which the native session was found. `None` if the user named it, or its directory.
        matched: Option<AdoptionPurpose>,
    },
    /// The session was imported from the files of another program.
    SessionImported {
        /// Format of the files.
        format: String,
        /// Name of the session in the files.
        name: String,
        /// Number of imported messages.
        messages: u64,
        /// Version of the imported checkpoint. `None` if the files contain none.
        checkpoint: Option<u64>,
    },
    /// An earlier native session contains all turns again, so it was reopened.
    LegReopened {
        /// Provider of the native session.
        provider: ProviderId,
        /// Native session that was reopened. `None` if its agent did not report an id.
        native_id: Option<NativeId>,
        /// Session that uses it.
        session: SessionId,
    },
    /// A native session was branched off from another one, whose context it has.
    NativeBranched {
        /// Provider of the native sessions.
        provider: ProviderId,
        /// Last turn that the branch contains.
        turn: u32,
        /// Whether the session is a fork. If it is not, a revert or an undo moved its head.
        is_fork: bool,
    },
    /// A new native session was started with a brief of the session.
    NativeBriefed(NewNative),
    /// The native session of the session cannot be resumed, so the next prompt starts a new one with a brief.
    NativeLost {
        /// Provider of the native session.
        provider: ProviderId,
        /// Native session that is lost. `None` if its agent did not report an id.
        native_id: Option<NativeId>,
        /// Part of the native session that is missing.
        loss: NativeLoss,
    },
    /// A turn that an earlier process left open was closed.
    TurnInterrupted {
        /// Number of the turn.
        turn: u32,
        /// State of its prompt and its answer.
        prompt: InterruptedPrompt,
    },
    /// Turns that the user made in the agent's own program were added to the session.
    OutsideTurnsAdded {
        /// Provider of the native session.
        provider: ProviderId,
        /// Number of added turns.
        turns: u64,
    },
    /// The user rewound the native session in the agent's own program, and the head of the session followed.
    NativeRewound {
        /// Provider of the native session.
        provider: ProviderId,
        /// Session whose head moved.
        session: SessionId,
        /// Turn that is the head before the added turns.
        to_turn: u32,
        /// Number of turns that are no longer on the path to the head.
        dropped: u64,
        /// Number of turns that were made after the rewind and added.
        added: u64,
    },
    /// Turns made in the agent's own program were moved to another session, because the head had moved.
    TurnsDiverged {
        /// Provider of the native session.
        provider: ProviderId,
        /// Number of moved turns.
        turns: u64,
        /// Turn that the moved turns follow.
        after_turn: u32,
        /// Session that has the moved turns.
        fork: SessionId,
    },
    /// The prompt was queued again behind turns that were made while it waited.
    PromptRequeued {
        /// New number of the prompt's turn.
        turn: u32,
    },
    /// The lease of another process was taken over.
    LeaseTakenOver {
        /// Process that had the lease.
        pid: u32,
        /// Reason why it lost the lease.
        cause: TakeoverCause,
    },
    /// A permission request of the agent was answered.
    PermissionAnswered {
        /// Agent's name for the tool call.
        tool: String,
        /// Whether the call is allowed.
        allowed: bool,
        /// Source of the answer.
        by: PermissionSource,
    },
    /// The turn was stopped before a permission request was answered.
    PermissionCancelled {
        /// Agent's name for the tool call.
        tool: String,
    },
    /// The agent made a tool call that its role does not allow, without requesting permission.
    RoleViolated {
        /// Agent's name for the tool call.
        tool: String,
        /// Role of the agent.
        role: RoleName,
    },
    /// A native session was protected from damage, or an MCP server was omitted.
    NativeProtected {
        /// Action that was taken, or that failed.
        action: GuardAction,
    },
    /// The project context of the role was rebuilt.
    ContextRebuilt {
        /// Names of the sources that changed.
        changed: Vec<String>,
        /// Documents that do not fit completely.
        truncated: Vec<TruncatedDocument>,
        /// Notes on what else is missing.
        notes: Vec<String>,
    },
    /// The first project context of the role is incomplete.
    ContextIncomplete {
        /// Documents that do not fit completely.
        truncated: Vec<TruncatedDocument>,
        /// Notes on what else is missing.
        notes: Vec<String>,
    },
    /// The checkpoint in the brief lacks items, because the budget has no room for them.
    CheckpointReduced {
        /// Number of items in the brief.
        included: u64,
        /// Number of items of the checkpoint.
        total: u64,
    },
    /// The agent compacted its own context, so the next prompt repeats the goal, the rules and the pinned items.
    AgentCompacted {
        /// Provider of the native session, if the compaction was found in its files. `None` if the agent reported it.
        provider: Option<ProviderId>,
    },
    /// The session was compacted into a checkpoint.
    SessionCompacted(CompactionSummary),
    /// The session could not be compacted. segue retries after the next turn.
    CompactionFailed {
        /// Error of the compaction.
        error: String,
    },
    /// A summariser added statements to the checkpoint.
    SummaryApplied {
        /// Provider of the summariser.
        provider: ProviderId,
        /// Version of the checkpoint that the summariser received.
        base: u32,
        /// Version that contains the statements.
        checkpoint: u32,
        /// Number of added statements.
        statements: u64,
        /// Number of items that the summariser settled.
        settled: u64,
        /// Tokens of the new version.
        tokens: u64,
        /// Whether the beginning of the transcript was too long to send.
        is_beginning_omitted: bool,
    },
    /// The answer of a summariser was not used, so the extracted checkpoint stays active.
    SummaryUnused {
        /// Provider of the summariser.
        provider: ProviderId,
        /// Version of the checkpoint that the summariser received.
        base: u32,
        /// Reason why the answer was not used.
        reason: UnusedSummary,
    },
    /// The native session ended because of a limit.
    LegRotated {
        /// Limit that was reached.
        cause: RotationCause,
    },
    /// The prompt waits until its agent accepts it.
    WaitStarted {
        /// Provider for which the prompt waits.
        provider: ProviderId,
        /// End of the wait.
        until: Timestamp,
        /// Length of the wait, in seconds.
        seconds: u64,
        /// Reason of the wait.
        reason: WaitReason,
    },
    /// The session, or only its prompt, was handed off to another provider.
    HandedOff {
        /// Provider before the handoff.
        from: ProviderId,
        /// Provider after the handoff.
        to: ProviderId,
        /// Cause of the handoff.
        cause: HandoffCause,
        /// Permission policy of the new provider. `None` if the policy does not change.
        permissions: Option<PermissionPolicy>,
        /// Requested model, which the new provider does not have. `None` if the user requested none.
        ignored_model: Option<String>,
    },
    /// A setting of the previous provider does not apply to the new one.
    SettingDropped {
        /// Provider before the handoff.
        from: ProviderId,
        /// Provider after the handoff.
        to: ProviderId,
        /// Setting with its old and new value.
        setting: DroppedSetting,
    },
    /// A prompt was refused, because the policy allows no prompt to the provider now.
    PromptRefused {
        /// Provider that must not receive the prompt.
        provider: ProviderId,
        /// Reason of the refusal.
        refusal: PromptRefusal,
    },
    /// A prompt was removed from the history, because it was not sent.
    PromptWithdrawn {
        /// Reason why it was not sent.
        reason: WithdrawalReason,
        /// Start of the prompt.
        excerpt: String,
    },
    /// The agent continued in another native session than the one that was opened.
    NativeIdChanged {
        /// Native session that was opened.
        from: NativeId,
        /// Native session in which the agent continued.
        to: NativeId,
    },
    /// The agent stopped at a limit of its own and may not have finished.
    AgentStoppedAtLimit,
    /// The agent refused to continue.
    AgentRefused,
    /// The agent printed a line that is not part of the protocol.
    UnexpectedOutput {
        /// The line.
        line: String,
    },
    /// A decision that was stored as text, or in a form that this version cannot decode.
    ///
    /// The kind and the text stand next to every decision in JSON, so this variant writes neither of them.
    Recorded {
        /// Kind of the decision.
        #[serde(skip_serializing)]
        kind: DecisionKind,
        /// Decision and its reason, in one line.
        #[serde(skip_serializing)]
        text: String,
    },
}

impl Decision {
    /// Returns the kind of the decision.
    #[must_use]
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::ProviderChosen { .. } | Self::TransportReplaced { .. } => DecisionKind::Provider,
            Self::SessionDirectoryUsed { .. }
            | Self::NoSessionInDirectory
            | Self::NoSessionForPurpose { .. }
            | Self::SessionAdopted { .. }
            | Self::SessionImported { .. } => DecisionKind::Session,
            Self::SessionContinued { .. } => DecisionKind::Continued,
            Self::LegReopened { .. }
            | Self::NativeBranched { .. }
            | Self::NativeBriefed(_)
            | Self::NativeLost { .. } => DecisionKind::Opened,
            Self::TurnInterrupted { .. } => DecisionKind::Recovered,
            Self::OutsideTurnsAdded { .. }
            | Self::NativeRewound { .. }
            | Self::TurnsDiverged { .. }
            | Self::PromptRequeued { .. } => DecisionKind::OutsideTurns,
            Self::LeaseTakenOver { .. } => DecisionKind::LeaseTakenOver,
            Self::PermissionAnswered { .. }
            | Self::PermissionCancelled { .. }
            | Self::RoleViolated { .. } => DecisionKind::Permission,
            Self::NativeProtected { .. } => DecisionKind::Protected,
            Self::ContextRebuilt { .. }
            | Self::ContextIncomplete { .. }
            | Self::CheckpointReduced { .. } => DecisionKind::Context,
            Self::AgentCompacted { .. }
            | Self::SessionCompacted(_)
            | Self::CompactionFailed { .. }
            | Self::SummaryApplied { .. }
            | Self::SummaryUnused { .. } => DecisionKind::Compacted,
            Self::LegRotated { .. } => DecisionKind::Rotated,
            Self::WaitStarted { .. } => DecisionKind::BackedOff,
            Self::HandedOff { .. } | Self::SettingDropped { .. } => DecisionKind::HandedOff,
            Self::PromptRefused { .. } | Self::PromptWithdrawn { .. } => DecisionKind::Stopped,
            Self::NativeIdChanged { .. }
            | Self::AgentStoppedAtLimit
            | Self::AgentRefused
            | Self::UnexpectedOutput { .. } => DecisionKind::Oddity,
            Self::Recorded { kind, .. } => *kind,
        }
    }
}
