//! Input and output of a turn.

use std::time::Duration;

use segue_core::agent::{PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::policy::WaitPreference;
use segue_core::scope::Purpose;
use segue_core::session::{
    Decision, Failure, OpenMode, OpenReason, PlanStep, Project, ResolutionStep, ToolCall,
    TurnState, Usage,
};
use tokio::sync::{oneshot, watch};

use crate::ConversationId;

/// Session that a prompt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The session that is configured for the agent, else a new one. This is the default.
    Default,
    /// A new session without a purpose.
    New,
    /// A new session with this purpose.
    NewWithPurpose(Purpose),
    /// An existing session.
    Session(SessionId),
    /// A native session, which segue adopts first.
    Native(ProviderId, NativeId),
    /// The newest session of the working directory, else a new one.
    NewestInDirectory,
    /// The newest session with this purpose (of the requested agent, if one is given), else a recent native session
    /// that had this purpose, else a new session.
    Scope(Purpose),
}

impl Target {
    /// Returns the target for a new session, with a purpose if one is given.
    #[must_use]
    pub fn new_with_purpose(purpose: Option<Purpose>) -> Self {
        purpose.map_or(Self::New, Self::NewWithPurpose)
    }

    /// Returns the conversation that the target names. `None` if it names none.
    #[must_use]
    pub fn conversation_id(&self) -> Option<ConversationId> {
        match self {
            Self::Session(id) => Some(ConversationId::Session(id.clone())),
            Self::Native(provider, id) => {
                Some(ConversationId::Native(provider.clone(), id.clone()))
            }
            _ => None,
        }
    }

    /// Returns the purpose of a session that is created for the target. `None` if it has none.
    #[must_use]
    pub fn purpose(&self) -> Option<&Purpose> {
        match self {
            Self::NewWithPurpose(purpose) | Self::Scope(purpose) => Some(purpose),
            _ => None,
        }
    }
}

/// Urgency with which a turn is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum StopLevel {
    /// The turn continues.
    #[default]
    None,
    /// The agent is asked to stop. Its remaining output is recorded.
    Graceful,
    /// The agent's process is ended.
    Immediate,
}

/// A prompt with its options.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// Text of the prompt.
    pub prompt: String,
    /// Session that the prompt is for.
    pub target: Target,
    /// Project and working directory of the caller.
    pub project: Project,
    /// Agent that is to answer. `None` if the caller leaves the choice to segue.
    pub provider: Option<ProviderId>,
    /// Model that is to answer, by the agent's name for it. `None` for the agent's default.
    pub model: Option<String>,
    /// Resolution steps that led to the target, to be reported with those that follow. `None` to report no steps.
    pub explain: Option<Vec<ResolutionStep>>,
    /// Whether to fail instead of starting a new native session with a brief.
    pub strict: bool,
    /// Behaviour if the agent failed recently or is in cooldown.
    pub wait_preference: WaitPreference,
    /// Whether to send the prompt, without delay, to an agent that failed in several native sessions in a row. The next
    /// prompt is rejected unless this one is answered.
    pub force: bool,
    /// Policy that answers permission requests without the user. `None` for the one configured for the agent.
    pub permissions: Option<PermissionPolicy>,
    /// Timeout of each phase of opening an agent. `None` for the one configured for the agent.
    pub open_timeout: Option<Duration>,
    /// Timeout of the turn. `None` for the one configured for the agent.
    pub turn_timeout: Option<Duration>,
    /// Maximum size of the answer in the report, in bytes. The events and the record contain the complete answer in any
    /// case.
    pub max_text_bytes: usize,
    /// Whether the agent stays running after the turn, for the next one; [`crate::Engine::close`] ends it.
    pub keep_agent: bool,
    /// Signal to stop the turn.
    pub stop: watch::Receiver<StopLevel>,
}

impl ChatRequest {
    /// Creates a request for a prompt in a project, with defaults for all options: [`Target::Default`], the agent's
    /// configuration, no signal to stop, and an agent that ends after the turn.
    ///
    /// ```
    /// # use segue_engine::{ChatRequest, Target};
    /// # fn in_project(project: segue_core::session::Project) -> ChatRequest {
    /// ChatRequest { target: Target::New, ..ChatRequest::new("list the open bugs", project) }
    /// # }
    /// ```
    #[must_use]
    pub fn new(prompt: impl Into<String>, project: Project) -> Self {
        Self {
            prompt: prompt.into(),
            target: Target::Default,
            project,
            provider: None,
            model: None,
            explain: None,
            strict: false,
            wait_preference: WaitPreference::default(),
            force: false,
            permissions: None,
            open_timeout: None,
            turn_timeout: None,
            max_text_bytes: usize::MAX,
            keep_agent: false,
            // The sender is dropped, so this receiver never signals a stop.
            stop: watch::channel(StopLevel::None).1,
        }
    }
}

/// An event of a running turn.
#[derive(Debug)]
pub enum TurnEvent {
    /// The prompt is on disk as a turn of a session.
    Started {
        /// Id of the session.
        session: SessionId,
        /// Number of the turn.
        turn: u32,
    },
    /// The steps by which the session was resolved. Emitted only if the request asks for them.
    Explained(Vec<ResolutionStep>),
    /// A native session is open.
    Opened {
        /// The agent.
        provider: ProviderId,
        /// Native id of the session. `None` if the agent has not reported it yet.
        native_id: Option<NativeId>,
        /// Number of the leg.
        leg: u32,
        /// Mode in which the native session was opened.
        mode: OpenMode,
    },
    /// segue made an automatic decision.
    Decided(Decision),
    /// The agent streamed text of the answer.
    Text {
        /// Number of the message that the text belongs to.
        message: u32,
        /// The text.
        text: String,
    },
    /// The agent streamed text of its thinking.
    Thought {
        /// Number of the message that the text belongs to.
        message: u32,
        /// The text.
        text: String,
    },
    /// The agent reported the id of the native session.
    NativeIdReported {
        /// The native id.
        native_id: NativeId,
    },
    /// The agent reported its plan. Each event contains the complete plan.
    Plan(Vec<PlanStep>),
    /// The agent was asked to stop.
    Stopping,
    /// A tool call was announced or changed. A call that has ended is on disk.
    Tool(ToolCall),
    /// The agent requests a permission. The caller sends the answer through the channel. Dropping the sender rejects
    /// the request.
    PermissionRequested(PermissionRequest, oneshot::Sender<PermissionAnswer>),
    /// All messages of the turn up to this one are on disk.
    Saved {
        /// Number of the message within the turn. The prompt is 0.
        message: u32,
    },
    /// The agent reported its usage.
    Usage(Usage),
    /// The turn ended, and its record is on disk.
    Ended {
        /// Final state of the turn.
        state: TurnState,
    },
}

/// Result of a turn.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// Id of the session.
    pub session: SessionId,
    /// Number of the turn.
    pub turn: u32,
    /// Agent that received the prompt, or was to receive it.
    pub provider: ProviderId,
    /// Native id of the session. `None` if no native session was opened, or if the agent did not report its id.
    pub native_id: Option<NativeId>,
    /// Number of the leg. `None` if no leg was opened.
    pub leg: Option<u32>,
    /// Mode in which the native session was opened, and the reason. `None` if none was opened.
    pub opened: Option<(OpenMode, OpenReason)>,
    /// Text of the answer, each message on separate lines. `None` if it exceeds the requested size.
    pub text: Option<String>,
    /// Final state of the turn.
    pub state: TurnState,
    /// Whether the prompt was sent to any agent. A prompt that was stopped before is not part of the history. It stays
    /// on record, and the session's log contains its text.
    pub sent: bool,
    /// Whether a policy ended the turn: the agent cancelled it after a permission was rejected without the user, or it
    /// failed at a limit that an immediate retry cannot avoid.
    pub stopped_by_policy: bool,
    /// Usage that the agent reported.
    pub usage: Usage,
    /// Decisions that segue made during the turn.
    pub decisions: Vec<Decision>,
    /// Steps by which the session was resolved. `None` if the request does not ask for them.
    pub steps: Option<Vec<ResolutionStep>>,
    /// Failure of the turn. `None` if it did not fail.
    pub failure: Option<Failure>,
}
