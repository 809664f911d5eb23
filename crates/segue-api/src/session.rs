//! Sessions: entries of lists, and the details of one session.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::id::{FeatureId, NativeId, ProviderId, SessionId};
use segue_core::scope::{RoleName, TaskId, TaskState};
use segue_core::session::{
    ForkSummary, HeadMove, Leg, LegEnd, Session, SessionStatus, TitleSource,
};
use serde::{Deserialize, Serialize};

use crate::chat::DecisionLine;

/// A session of segue, or a native session that segue has not adopted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedSession {
    /// ID of the session; null for a native session, which `provider:native_session_id` identifies.
    pub id: Option<SessionId>,
    /// Current agent of the session.
    pub provider: ProviderId,
    /// Agent's ID for the conversation; null until the agent has reported it.
    pub native_session_id: Option<NativeId>,
    /// Project of the session; null if the agent does not record it.
    pub project: Option<String>,
    /// Working directory; null if the agent does not record it.
    pub cwd: Option<String>,
    /// Title; null if the agent does not record one.
    pub title: Option<String>,
    /// Source of the title.
    pub title_from: Option<TitleSource>,
    /// Feature that the session is for.
    pub feature: Option<FeatureId>,
    /// Task that the session is for.
    pub task: Option<TaskId>,
    /// State of the task that the session is for.
    pub task_state: Option<TaskState>,
    /// Role of the agent in the session.
    pub role: Option<RoleName>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// Number of turns; null for a native session without an index.
    pub turns: Option<u32>,
    /// Number of tokens of all turns; null if it is unknown.
    pub total_tokens: Option<u64>,
    /// Time at which the session began; null if the agent does not record it.
    pub created_at: Option<Timestamp>,
    /// Time of the last activity.
    pub updated_at: Timestamp,
    /// Status of the session.
    pub status: ListedStatus,
    /// Session that this one was forked from; null if it is not a fork.
    pub forked_from: Option<ForkOrigin>,
}

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListedStatus {
    /// No turn is running.
    Idle,
    /// A turn is running in a live process of segue.
    Running,
    /// The last turn was interrupted.
    Interrupted,
    /// The agent archived the native session, or only segue's archive has it.
    Archived,
    /// Neither the agent nor the archive has the native session. Only a search returns it.
    Gone,
}

impl From<SessionStatus> for ListedStatus {
    fn from(status: SessionStatus) -> Self {
        match status {
            SessionStatus::Idle => Self::Idle,
            SessionStatus::Running => Self::Running,
            SessionStatus::Interrupted => Self::Interrupted,
        }
    }
}

/// Origin of a fork.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkOrigin {
    /// ID of the session, or `provider:native_session_id`.
    pub id: String,
    /// Number of the last shared turn; null if it is unknown.
    pub turn: Option<u32>,
}

impl ListedSession {
    /// Builds the entry of a session of segue.
    #[must_use]
    pub fn new(session: &Session, status: SessionStatus) -> Self {
        let purpose = session.purpose.as_ref();
        let task = purpose.and_then(|purpose| purpose.scope.task());
        Self {
            id: Some(session.id.clone()),
            provider: session.provider.clone(),
            native_session_id: session.native_id.clone(),
            project: Some(session.project.key.clone()),
            cwd: Some(session.project.cwd.clone()),
            title: Some(session.title.as_str().to_owned()),
            title_from: Some(session.title.source()),
            feature: session.feature().cloned(),
            task: task.map(|(task, _)| task.clone()),
            task_state: task.map(|(_, state)| state.clone()),
            role: purpose.and_then(|purpose| purpose.role.clone()),
            tags: session.tags.iter().map(ToString::to_string).collect(),
            turns: Some(session.turns),
            total_tokens: session.total_tokens,
            created_at: Some(session.created_at),
            updated_at: session.updated_at,
            status: status.into(),
            forked_from: session.forked_from.as_ref().map(|(id, turn)| ForkOrigin {
                id: id.to_string(),
                turn: Some(*turn),
            }),
        }
    }
}

/// A leg of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedLeg {
    /// Number of the leg in the session, from 1.
    pub n: u32,
    /// Agent of the leg.
    pub provider: ProviderId,
    /// Agent's ID for the conversation; null if the agent has not reported it.
    pub native_session_id: Option<NativeId>,
    /// Number of consecutive failures of the agent in this session; 0 once the leg has ended.
    pub consecutive_failures: u32,
    /// Number of tokens of all turns of the leg; null if it is unknown.
    pub total_tokens: Option<u64>,
    /// Number of tokens in the model's context; null if it is unknown.
    pub context_tokens: Option<u64>,
    /// Time at which the leg was opened.
    pub opened_at: Timestamp,
    /// Time at which the leg ended; null if it has not ended.
    pub ended_at: Option<Timestamp>,
    /// Reason for the end; null if the leg has not ended.
    pub ended_why: Option<LegEnd>,
}

impl From<&Leg> for ListedLeg {
    fn from(leg: &Leg) -> Self {
        let (ended_at, ended_why) = leg.ended.unzip();
        Self {
            n: leg.number,
            provider: leg.provider.clone(),
            native_session_id: leg.native_id.clone(),
            consecutive_failures: leg.consecutive_failures,
            total_tokens: leg.total_tokens,
            context_tokens: leg.context_tokens,
            opened_at: leg.opened_at,
            ended_at,
            ended_why,
        }
    }
}

/// Details of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SessionInfo {
    /// A native session that segue has not adopted.
    Native(Box<NativeSessionInfo>),
    /// A session of segue.
    Recorded(Box<RecordedSessionInfo>),
}

/// Details of a session of segue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedSessionInfo {
    /// The session.
    pub session: ListedSession,
    /// Legs of the session, oldest first.
    pub legs: Vec<LegInfo>,
    /// Forks of the session.
    pub forks: Vec<ForkSummary>,
    /// Reverts and undos, oldest first.
    pub moves: Vec<HeadMove>,
    /// Failures of agents in this session. An agent without failures has no entry.
    pub standings: Vec<ProviderFailures>,
    /// Source of an imported session; null if it was not imported.
    pub origin: Option<ImportOrigin>,
    /// The newest thousand decisions, oldest first.
    pub decisions: Vec<LoggedDecision>,
    /// Process that uses the session or has it open; null if there is none.
    pub held_by: Option<SessionHolder>,
}

/// A leg, with its turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LegInfo {
    /// The leg.
    #[serde(flatten)]
    pub leg: ListedLeg,
    /// Turns of the leg that lead to the head; null if there are none.
    pub turns: Option<TurnRange>,
}

/// A range of turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnRange {
    /// Number of the first turn.
    pub first: u32,
    /// Number of the last turn.
    pub last: u32,
}

/// Failures of an agent in a session. A success clears them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderFailures {
    /// The agent.
    pub provider: ProviderId,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Number of consecutive refusals for too many requests.
    pub limited: u32,
    /// Number of native sessions that ended because of errors.
    pub rotations: u32,
    /// Time of the next possible attempt; null if the agent can be used now.
    pub retry_at: Option<Timestamp>,
}

/// Source of an imported session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportOrigin {
    /// Name of the session in the source.
    pub name: String,
    /// Format of the source.
    pub format: String,
    /// Time of the import.
    pub at: Timestamp,
}

/// A decision in the log of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoggedDecision {
    /// Time of the decision.
    pub at: Timestamp,
    /// The decision.
    #[serde(flatten)]
    pub decision: DecisionLine,
}

/// Process of segue that uses a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionHolder {
    /// Host of the process.
    pub host: String,
    /// ID of the process.
    pub pid: u32,
    /// Time since which the process has used the session.
    pub since: Timestamp,
}

/// Details of a native session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NativeSessionInfo {
    /// The session.
    pub session: ListedSession,
    /// Always empty, because only sessions of segue have legs.
    pub legs: Vec<LegInfo>,
    /// Always empty, because only sessions of segue have decisions.
    pub decisions: Vec<LoggedDecision>,
    /// Always null, because only sessions of segue have a process.
    pub held_by: Option<SessionHolder>,
    /// Record of the agent.
    pub native: NativeRecordInfo,
}

/// Record of an agent for one native session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NativeRecordInfo {
    /// File of the session, or the directory or database that contains it.
    pub path: String,
    /// Size of the file in bytes; 0 if the session is only a part of it, or a copy in the archive.
    pub bytes: u64,
    /// Whether the agent archived the session, or only segue's archive has it.
    pub archived: bool,
    /// Branch that was checked out; null if it is unknown.
    pub branch: Option<String>,
    /// Version of the agent; null if it is unknown.
    pub version: Option<String>,
    /// First prompt of the user; null if it is unknown.
    pub first_prompt: Option<String>,
    /// Native session that this one was forked from; null if it is not a fork.
    pub forked_from: Option<String>,
    /// Number of times that the agent compacted its own context.
    pub compactions: u32,
    /// Content that could not be read.
    pub skipped: SkippedRecords,
}

/// Content of a native session that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRecords {
    /// Number of lines that do not match the format.
    pub malformed: u64,
    /// Number of lines that are too long to be read.
    pub oversized: u64,
    /// Number of lines with invalid characters, which were read with replacements.
    pub mended: u64,
    /// Whether the last line is incomplete.
    pub torn: bool,
    /// Whether the turns before a fork are in a session that no longer exists.
    pub orphaned: bool,
}

/// A tag, with the number of sessions that have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsedTag {
    /// The tag, in lower case.
    pub tag: String,
    /// Number of sessions with the tag.
    pub sessions: u64,
}
