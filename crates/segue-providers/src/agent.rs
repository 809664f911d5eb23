//! Traits that every agent implements, with their requests and results.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::agent::{
    Capabilities, McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest,
    ProcessIdentity, RoleDescription,
};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{AgentEvent, GuardAction, OpenMode, TurnEnd};

use tokio::sync::watch;

use crate::provider::log_new_session_instead;
use crate::{AgentError, AgentRefusal};

/// A program that runs native sessions, over one transport or several.
///
/// An implementation starts its program only through this crate's leash, passes no text of a user, an agent or a file
/// to a shell, and reports every failure as an [`AgentError`] that contains the program's own message.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Returns the provider id of the agent.
    fn provider(&self) -> &ProviderId;
    /// Starts the program, and resumes a native session or starts a new one.
    async fn open(&self, request: &OpenRequest) -> Result<OpenedConnection, AgentError>;
    /// Starts the program only to query its version and capabilities.
    async fn probe(&self, timeout: Duration) -> Result<Probe, AgentError>;
    /// Returns the native sessions of a directory as the program lists them. `None` if the program cannot list
    /// sessions; an empty list means that it has none.
    async fn list_sessions(
        &self,
        _cwd: &Path,
        _timeout: Duration,
    ) -> Result<Option<Vec<ListedNativeSession>>, AgentError> {
        Ok(None)
    }
    /// Returns `true` if the agent can start a native session that branches off from another one
    /// ([`OpenRequest::branch_point`]).
    fn can_branch(&self) -> bool {
        false
    }
    /// Returns `true` if the agent will receive the MCP servers of a request, as far as segue can determine without
    /// starting it.
    fn accepts_mcp_servers(&self) -> bool {
        true
    }
    /// Returns the configured values that apply if the caller gives none.
    fn defaults(&self) -> AgentDefaults {
        AgentDefaults::default()
    }
    /// Returns `true` if the agent's program is installed, as far as segue can determine without starting it.
    fn is_installed(&self) -> bool {
        true
    }
}

/// Configured values that apply to an agent if the caller gives none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentDefaults {
    /// Policy that answers permission requests.
    pub permissions: PermissionPolicy,
    /// Time limits for the agent.
    pub timeouts: Timeouts,
    /// Session that receives a prompt if the caller names none.
    pub session: SessionDefault,
    /// Model, by the agent's own name; `None` if none is configured.
    pub model: Option<String>,
    /// Mode, by the agent's own name; `None` if none is configured.
    pub mode: Option<String>,
}

/// Session that receives a prompt if the caller names none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SessionDefault {
    /// A new session.
    #[default]
    New,
    /// The newest session of the directory.
    NewestInDirectory,
    /// The session that this text selects, in the syntax that the user types.
    Selected(String),
}

/// Time limits for an agent; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for each request while the agent starts and opens a native session.
    pub start: Duration,
    /// Limit for the first output after a prompt.
    pub first_output: Option<Duration>,
    /// Limit for the next output, while no tool runs.
    pub silence: Option<Duration>,
    /// Limit for a complete turn.
    pub turn: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_mins(1),
            // Agents retry for minutes on their own if a model does not answer.
            first_output: Some(Duration::from_mins(10)),
            silence: Some(Duration::from_mins(15)),
            turn: None,
        }
    }
}

/// Parameters of [`Agent::open`].
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Working directory of the agent.
    pub cwd: PathBuf,
    /// Native session to resume; `None` starts a new one.
    pub native_id: Option<NativeId>,
    /// Point at which the new native session branches off from an earlier one, for agents that support branches. An
    /// agent that does not starts an empty native session and reports it in [`OpenedConnection::open_mode`]. Never set
    /// together with `native_id`.
    pub branch_point: Option<BranchPoint>,
    /// Whether a native session that cannot be resumed is an error. If not, the agent starts a new one.
    pub strict: bool,
    /// Policy that answers permission requests, for agents that cannot send any.
    pub permissions: PermissionPolicy,
    /// Role of the agent, which may forbid some of the agent's own tools.
    pub role: Option<RoleDescription>,
    /// Model to use instead of the configured one.
    pub model: Option<String>,
    /// MCP servers for the agent, if it accepts any.
    pub mcp: Vec<McpServer>,
    /// Time limit for each request of the opening.
    pub timeout: Duration,
    /// Channel that receives the identity of the process group as soon as it has started.
    pub process_sender: watch::Sender<Option<ProcessIdentity>>,
}

impl OpenRequest {
    /// Returns the reason for a new native session instead of the requested one, which the agent refused to resume or
    /// branch. Fails if the request does not permit that.
    pub(crate) fn accept_new_session(
        &self,
        operation: &'static str,
        refusal: AgentRefusal,
    ) -> Result<String, AgentError> {
        if self.strict {
            return Err(AgentError::from_refusal(operation, refusal));
        }
        log_new_session_instead(refusal.class);
        Ok(refusal.message)
    }

    /// Returns the configured mode, or `None` if the role requires permission requests that the mode may not send.
    /// `default`, `plan` and `read-only` always pass, because they send requests or only read.
    pub(crate) fn permitted_mode<'a>(&self, configured: Option<&'a str>) -> Option<&'a str> {
        let must_ask = self
            .role
            .as_ref()
            .is_some_and(RoleDescription::needs_permission_requests);
        configured.filter(|mode| !must_ask || matches!(*mode, "default" | "plan" | "read-only"))
    }
}

/// A point in a native session, after one of its turns.
///
/// The native session is only read: the branch is a native session of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchPoint {
    /// Id of the native session.
    pub native_id: NativeId,
    /// Number of turns before the point.
    pub turn_count: usize,
    /// Agent's own id of the last record before the point; `None` if the records have no ids.
    pub last_record_id: Option<String>,
    /// Prompt of the last turn before the point, with which an agent that counts turns differently detects the
    /// mismatch.
    pub last_prompt: String,
}

/// An opened connection to an agent.
pub struct OpenedConnection {
    /// The connection.
    pub connection: Box<dyn AgentConnection>,
    /// Method that opened the native session: `Resumed`, `Loaded` or `Fresh`.
    pub open_mode: OpenMode,
    /// Reason why the requested native session could not be resumed or branched; `None` if none was requested or the
    /// request succeeded.
    pub fallback_reason: Option<String>,
    /// Whether the requested native session is intact and is only temporarily impossible to resume.
    pub session_unavailable: bool,
    /// Actions that protected native sessions from damage.
    pub guard_actions: Vec<GuardAction>,
    /// Replacement of the first transport; `None` if the connection uses the first one.
    pub transport_fallback: Option<TransportFallback>,
}

/// Replacement of a provider's first transport, which does not work, by another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportFallback {
    /// Name of the transport that works.
    pub transport: &'static str,
    /// Name of the first transport.
    pub failed_transport: &'static str,
    /// Error of the first transport.
    pub error: String,
}

impl OpenedConnection {
    /// Creates an opened connection without fallbacks or protective actions.
    #[must_use]
    pub fn new(connection: impl AgentConnection + 'static, open_mode: OpenMode) -> Self {
        Self {
            connection: Box::new(connection),
            open_mode,
            fallback_reason: None,
            session_unavailable: false,
            guard_actions: Vec::new(),
            transport_fallback: None,
        }
    }

    /// Creates an opened connection for an agent that is still running.
    #[must_use]
    pub fn live(connection: Box<dyn AgentConnection>) -> Self {
        Self {
            connection,
            open_mode: OpenMode::Live,
            fallback_reason: None,
            session_unavailable: false,
            guard_actions: Vec::new(),
            transport_fallback: None,
        }
    }
}

/// Version and capabilities that an agent reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Version of the agent; `None` if it reports none.
    pub version: Option<String>,
    /// Capabilities of the agent.
    pub capabilities: Capabilities,
}

/// A native session as the program lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedNativeSession {
    /// Agent's id of the native session.
    pub id: NativeId,
    /// Directory in which the native session was created.
    pub cwd: PathBuf,
    /// Title of the native session.
    pub title: Option<String>,
    /// Time of the last use.
    pub updated_at: Option<Timestamp>,
}

/// Callback that answers a permission request.
pub type PermissionReply = Box<dyn FnOnce(PermissionAnswer) + Send>;

/// Next event of a turn.
pub enum ConnectionEvent {
    /// Id of the native session, which the agent did not report, or reported differently, when the connection was
    /// opened.
    NativeIdReported(NativeId),
    /// Output of the agent.
    Event(AgentEvent),
    /// A permission request; the agent waits for the reply.
    PermissionRequested(PermissionRequest, PermissionReply),
    /// End of the turn.
    TurnEnded(Result<TurnEnd, AgentError>),
}

/// A running agent with an open native session. Dropping it ends the program, by force if necessary.
#[async_trait]
pub trait AgentConnection: Send {
    /// Returns the agent's id of the native session; `None` until the agent reports it in the first turn.
    fn native_id(&self) -> Option<&NativeId>;
    /// Returns the identity of the agent's process group; `None` while no program runs.
    fn process_identity(&self) -> Option<ProcessIdentity>;
    /// Sends a prompt. [`AgentConnection::next_event`] then returns the events of the turn.
    async fn send_prompt(&mut self, prompt: &str) -> Result<(), AgentError>;
    /// Returns the next event of the turn. Dropping the future loses no event; the caller can call this method again.
    async fn next_event(&mut self) -> ConnectionEvent;
    /// Returns `true` if the agent received the MCP servers of the request.
    fn accepts_mcp_servers(&self) -> bool {
        true
    }
    /// Requests that the agent stop the turn.
    fn cancel(&mut self);
    /// Returns `true` if the agent can accept another prompt.
    fn is_alive(&mut self) -> bool;
    /// Ends the program gracefully and waits until it has exited. Returns the actions that protected native sessions
    /// from damage.
    async fn close(self: Box<Self>) -> Vec<GuardAction>;
}
