//! What goes into a turn, and what comes out of it.

use std::time::Duration;

use segue_core::{
    Decision, Failure, Haste, NativeId, Opened, PermissionAnswer, PermissionPolicy,
    PermissionRequest, PlanStep, Project, ProviderId, Purpose, SessionId, Step, ToolCall,
    TurnState, Usage,
};
use tokio::sync::{oneshot, watch};

use crate::ConversationId;

/// Which session a prompt is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Nobody said: the one that is configured for the agent, else a new one.
    Usual,
    /// A new one, for nothing in particular.
    New,
    /// A new one for this.
    NewFor(Purpose),
    /// This one.
    Session(SessionId),
    /// A native session, which becomes a session of ours on the way.
    Native(ProviderId, NativeId),
    /// The newest one of the working directory, or a new one if there is none.
    Continue,
    /// The newest one for this (carried by the agent that was asked for, if one was), or a native one that is known to
    /// have been for it, or a new one.
    Scope(Purpose),
}

impl Target {
    /// A new session, for something if anything is named.
    #[must_use]
    pub fn new_for(purpose: Option<Purpose>) -> Self {
        purpose.map_or(Self::New, Self::NewFor)
    }

    /// The conversation that it names, if it names one.
    #[must_use]
    pub fn conversation(&self) -> Option<ConversationId> {
        match self {
            Self::Session(id) => Some(ConversationId::Session(id.clone())),
            Self::Native(provider, id) => {
                Some(ConversationId::Native(provider.clone(), id.clone()))
            }
            Self::Usual | Self::New | Self::NewFor(_) | Self::Continue | Self::Scope(_) => None,
        }
    }

    /// What a session that is made on the way is for.
    #[must_use]
    pub fn purpose(&self) -> Option<&Purpose> {
        match self {
            Self::NewFor(purpose) | Self::Scope(purpose) => Some(purpose),
            Self::Usual | Self::New | Self::Session(_) | Self::Native(..) | Self::Continue => None,
        }
    }
}

/// How urgently a turn is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// The agent is asked to stop; what it still says is kept.
    Ask,
    /// The agent is ended.
    Now,
}

/// A prompt, and all that is known about how to deal with it.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// What is said.
    pub prompt: String,
    /// To which session.
    pub target: Target,
    /// Where we are.
    pub project: Project,
    /// The agent that is to answer, if the caller cares.
    pub provider: Option<ProviderId>,
    /// The model that is to answer, by the agent's name for it, if the caller cares.
    pub model: Option<String>,
    /// Whether to tell how the session was found, and if so, what led to the target.
    pub explain: Option<Vec<Step>>,
    /// Whether to fail rather than to tell a new native session what was said before.
    pub strict: bool,
    /// What to do where the agent failed a moment ago, or rests by its own word.
    pub haste: Haste,
    /// Whether to ask an agent that failed in one native session after another, at once; the next prompt is refused
    /// again, unless this one is answered.
    pub anyway: bool,
    /// How permission requests are answered when nobody is asked, if not as configured for the agent.
    pub permissions: Option<PermissionPolicy>,
    /// How long each step of opening an agent may take, if not as configured for it.
    pub open_timeout: Option<Duration>,
    /// How long the turn may take, if not as configured for the agent.
    pub turn_timeout: Option<Duration>,
    /// How many bytes of answer the report may hold. All of it is told as it comes and written down anyway.
    pub text_up_to: usize,
    /// Whether the agent stays running after the turn, for the next one; [`crate::Engine::close`] ends it.
    pub keep_open: bool,
    /// Tells when to stop.
    pub stop: watch::Receiver<Stop>,
}

impl ChatRequest {
    /// A prompt from this project, and nothing else said: [`Target::Usual`], every choice as configured for the agent,
    /// nobody to stop it, and the agent ended after it.
    ///
    /// ```
    /// # use segue_engine::{ChatRequest, Target};
    /// # fn in_project(project: segue_core::Project) -> ChatRequest {
    /// ChatRequest { target: Target::New, ..ChatRequest::new("list the open bugs", project) }
    /// # }
    /// ```
    #[must_use]
    pub fn new(prompt: impl Into<String>, project: Project) -> Self {
        Self {
            prompt: prompt.into(),
            target: Target::Usual,
            project,
            provider: None,
            model: None,
            explain: None,
            strict: false,
            haste: Haste::default(),
            anyway: false,
            permissions: None,
            open_timeout: None,
            turn_timeout: None,
            text_up_to: usize::MAX,
            keep_open: false,
            // Whose sender is gone never stops anything.
            stop: watch::channel(Stop::No).1,
        }
    }
}

/// What happens during a turn.
#[derive(Debug)]
pub enum TurnEvent {
    /// The prompt is on the disk, as this turn of this session.
    Began {
        /// The session.
        session: SessionId,
        /// The turn's number.
        turn: u32,
    },
    /// How the session was found, if that is to be told.
    Explained(Vec<Step>),
    /// A conversation with an agent is open.
    Opened {
        /// The agent.
        provider: ProviderId,
        /// What it calls the conversation, if it has said so yet.
        native_id: Option<NativeId>,
        /// The number of the leg.
        leg: u32,
        /// How it was opened.
        opened: Opened,
    },
    /// segue decided something by itself.
    Decided(Decision),
    /// Some words of the answer.
    Text {
        /// The number of the message they belong to.
        message: u32,
        /// The words.
        words: String,
    },
    /// Some words of thinking.
    Thought {
        /// The number of the message they belong to.
        message: u32,
        /// The words.
        words: String,
    },
    /// The agent said what it calls the conversation.
    Named {
        /// The name.
        native_id: NativeId,
    },
    /// What the agent plans to do, the whole of it each time.
    Plan(Vec<PlanStep>),
    /// The agent was asked to stop.
    Stopping,
    /// A tool call was announced or changed; one that is over is on the disk.
    Tool(ToolCall),
    /// The agent asks; the answer goes into the channel, and letting it go refuses.
    Ask(PermissionRequest, oneshot::Sender<PermissionAnswer>),
    /// What has been said up to this message of the turn is on the disk.
    Saved {
        /// The message's number within the turn; the prompt is 0.
        message: u32,
    },
    /// Figures that the agent gave.
    Usage(Usage),
    /// The turn is over, and its record is on the disk.
    Ended {
        /// How.
        state: TurnState,
    },
}

/// What came of a turn.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// The session.
    pub session: SessionId,
    /// The turn's number.
    pub turn: u32,
    /// The agent.
    pub provider: ProviderId,
    /// What it calls the conversation, if one was opened.
    pub native_id: Option<NativeId>,
    /// The number of the leg, if one was opened.
    pub leg: Option<u32>,
    /// How the conversation was opened, and why so.
    pub opened: Option<(Opened, String)>,
    /// The words of the answer, each message of it on lines of its own; none if they are more than was asked for.
    pub text: Option<String>,
    /// How the turn ended.
    pub state: TurnState,
    /// Whether the prompt was sent to any agent. One that was stopped before is no turn of the history; it stays on
    /// record, and its words in the session's log.
    pub sent: bool,
    /// Whether a policy ended it: it was cancelled because a permission was refused without a person having said so,
    /// or failed for a limit that no new try would help against.
    pub stopped_by_policy: bool,
    /// What it used.
    pub usage: Usage,
    /// What segue decided by itself on the way.
    pub decisions: Vec<Decision>,
    /// How the session was found, if that was to be told.
    pub steps: Option<Vec<Step>>,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
}
