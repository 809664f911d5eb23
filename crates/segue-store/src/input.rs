//! Input of write operations.

use jiff::Timestamp;
use segue_core::checkpoint::{Checkpoint, CheckpointReason, CheckpointVersion, ItemAuthor};
use segue_core::id::{LegId, NativeId, ProviderId, SessionId, TurnId};
use segue_core::policy::ProviderHealth;
use segue_core::scope::Purpose;
use segue_core::session::{
    CompactionSummary, Decision, Failure, Leg, LegEnd, Message, Project, Role, Tag, Title, Turn,
    TurnState, Usage,
};

use crate::{Result, SessionFilter, StoreError};

/// A session to create.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Id of the session.
    pub id: SessionId,
    /// Project of the session and its working directory.
    pub project: Project,
    /// Title of the session.
    pub title: Title,
    /// Purpose of the session. `None` if it has no specific purpose.
    pub purpose: Option<Purpose>,
    /// Provider of the session.
    pub provider: ProviderId,
    /// Time of creation.
    pub at: Timestamp,
    /// Filter that no existing session may match. If a session matches, the operation fails with
    /// [`crate::StoreError::PurposeTaken`].
    pub conflict_filter: Option<SessionFilter>,
}

/// A native session that becomes a session of segue.
#[derive(Debug, Clone)]
pub struct AdoptedSession {
    /// Native session id.
    pub native_id: NativeId,
    /// Turns, oldest first. Each has ended.
    pub turns: Vec<AdoptedTurn>,
}

/// A turn that was made outside segue.
#[derive(Debug, Clone)]
pub struct AdoptedTurn {
    /// State at the end; not `Running`.
    pub state: TurnState,
    /// Messages, the prompt first.
    pub messages: Vec<Message>,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Time of the prompt.
    pub started_at: Timestamp,
    /// Time at which the turn ended.
    pub ended_at: Timestamp,
    /// Mark of the native record at which the turn ends. `None` if unknown.
    pub mark: Option<String>,
}

impl AdoptedTurn {
    /// Returns the prompt. A turn without messages gets an empty one.
    #[must_use]
    pub fn prompt(&self) -> Message {
        let first = self.messages.first().cloned();
        first.unwrap_or_else(|| Message::from_text(Role::User, "", self.started_at))
    }

    /// Returns the end of the turn. A turn that seems to be running was interrupted.
    #[must_use]
    pub fn ending(&self) -> TurnEnding {
        TurnEnding {
            state: match self.state {
                TurnState::Running => TurnState::Interrupted,
                ended => ended,
            },
            messages: (1..).zip(self.messages.iter().skip(1).cloned()).collect(),
            usage: self.usage,
            failure: None,
            at: self.ended_at,
        }
    }

    /// Returns the tokens of all messages. `None` if one of them was not counted.
    #[must_use]
    pub fn message_tokens(&self) -> Option<u64> {
        self.messages.iter().map(|message| message.tokens).sum()
    }
}

/// Contents of a native session that the record does not have. They are applied in the order of the fields.
#[derive(Debug, Clone)]
pub struct NativeUpdate {
    /// Leg that runs on the native session.
    pub leg: LegId,
    /// Interrupted turn, and its end according to the native record. `None` if no turn was interrupted.
    pub interrupted_turn: Option<(TurnId, TurnEnding)>,
    /// Turn to which the native session was rewound. The head moves to it, as by a revert. `None` if it was not
    /// rewound.
    pub rewound_to: Option<TurnId>,
    /// Turns that were made outside segue, oldest first. The head and the tip of the leg move to the last of them.
    pub turns: Vec<AdoptedTurn>,
    /// Time at which the contents are applied.
    pub at: Timestamp,
}

impl NativeUpdate {
    /// Returns the turn that the turns made outside follow: the one to which the native session was rewound, or the tip
    /// of its leg.
    #[must_use]
    pub fn base_turn(&self, leg: &Leg) -> Option<TurnId> {
        self.rewound_to.or(leg.tip)
    }
}

/// A change of a session's tags. A tag in both lists stays on the session.
#[derive(Debug, Clone, Default)]
pub struct TagChange {
    /// Tags to add. The session may already have some of them.
    pub add: Vec<Tag>,
    /// Tags to remove. The session need not have them.
    pub remove: Vec<Tag>,
}

/// Position from which a session is forked.
#[derive(Debug, Clone)]
pub struct ForkPoint {
    /// Session to fork.
    pub session: SessionId,
    /// Number of the last shared turn.
    pub turn: u32,
    /// Number of a head move. If set, the turns are those that led to the head before this move; otherwise those that
    /// lead to the head now.
    pub before_head_move: Option<u32>,
}

impl ForkPoint {
    /// Returns the last shared turn. Fails with [`NoTurn`](StoreError::NoTurn) if the chain has no such turn, or if the
    /// turn is still running.
    pub fn find_shared_turn<'a>(&self, chain: &'a [Turn]) -> Result<&'a Turn> {
        let mut turns = chain.iter();
        let shared =
            turns.find(|turn| turn.number == self.turn && turn.state != TurnState::Running);
        shared.ok_or_else(|| StoreError::NoTurn(self.session.clone()))
    }
}

/// A leg to open.
#[derive(Debug, Clone)]
pub struct NewLeg {
    /// Provider of the leg.
    pub provider: ProviderId,
    /// Native session id. `None` if the agent has not reported it yet.
    pub native_id: Option<NativeId>,
    /// Time at which the leg was opened.
    pub at: Timestamp,
}

/// Change of the context of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextLossState {
    /// The agent compacted its own context.
    Lost,
    /// The agent has received the reminder of the rules since then.
    Reminded,
}

/// An entry to add to a running turn.
#[derive(Debug, Clone)]
pub enum TurnEntry {
    /// More text of a message that is not complete yet.
    Draft(Draft),
    /// A complete message. It replaces the draft or the message with the same number.
    Message {
        /// Number within the turn; the prompt is 0.
        seq: u32,
        /// Content of the message.
        message: Message,
    },
}

/// A chunk of a message that is not complete yet.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Number of the message within the turn.
    pub seq: u32,
    /// Kind of the text.
    pub kind: DraftKind,
    /// Text since the last draft.
    pub text: String,
    /// Time at which the text was received.
    pub at: Timestamp,
}

/// Kind of part that a draft becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftKind {
    /// A text of the agent.
    Text,
    /// A thought of the agent.
    Thought,
}

/// A turn to begin.
#[derive(Debug, Clone)]
pub struct NewTurn {
    /// The prompt.
    pub prompt: Message,
    /// Leg on which the prompt is about to be sent, as [`AttemptStore::begin_attempt`](crate::AttemptStore::begin_attempt) records
    /// it. Only for an agent that is open: if the process dies before the prompt is sent, the record still states that
    /// the agent may have received it.
    pub leg: Option<LegId>,
    /// Decisions to log with the turn.
    pub decisions: Vec<Decision>,
}

impl From<Message> for NewTurn {
    fn from(prompt: Message) -> Self {
        Self {
            prompt,
            leg: None,
            decisions: Vec::new(),
        }
    }
}

/// End of a turn.
#[derive(Debug, Clone)]
pub struct TurnEnding {
    /// State at the end; not `Running`.
    pub state: TurnState,
    /// Last messages of the turn, by number, as in [`TurnEntry::Message`].
    pub messages: Vec<(u32, Message)>,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Reason for the failure. `None` if the turn did not fail.
    pub failure: Option<Failure>,
    /// Time at which the turn ended.
    pub at: Timestamp,
}

impl TurnEnding {
    /// Creates the end of a turn without messages and usage.
    #[must_use]
    pub fn empty(state: TurnState, at: Timestamp) -> Self {
        Self {
            state,
            messages: Vec::new(),
            usage: Usage::default(),
            failure: None,
            at,
        }
    }
}

/// Consequences of the end of a turn.
#[derive(Debug, Clone, Default)]
pub struct SettleEffects {
    /// Mark of the native record at which the last attempt ended. `None` if unknown.
    pub mark: Option<String>,
    /// New health of a provider in the session. `None` if it does not change.
    pub provider_health: Option<(ProviderId, ProviderHealth)>,
    /// Leg that ends with the turn, and the reason. `None` if no leg ends.
    pub ended_leg: Option<(LegId, LegEnd)>,
    /// Tokens of the turn, by segue's estimate. `None` if no agent received the prompt.
    pub tokens: Option<TurnTokens>,
}

/// Tokens of a turn, by segue's estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTokens {
    /// Tokens that the last attempt added to the native session of its leg. `None` if unknown; the estimate for the
    /// native session is unknown from then on.
    pub added: Option<u64>,
    /// Tokens of the prompt, which was recorded without a count. `None` if unknown.
    pub prompt: Option<u64>,
}

/// Token count of a message that was not counted when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// Key of the turn.
    pub turn: TurnId,
    /// Number of the message within the turn.
    pub seq: u32,
    /// Number of tokens.
    pub tokens: u64,
}

/// Consequences of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionCommit {
    /// Numbers of the compaction for the log. The store sets the number of the version.
    pub summary: CompactionSummary,
    /// Leg that ends, because its native session contains the compacted turns in full. `None` if no leg is open.
    pub ended_leg: Option<LegId>,
}

impl CompactionCommit {
    /// Returns the decision to log for a version.
    #[must_use]
    pub fn decision(&self, version: &CheckpointVersion) -> Decision {
        Decision::SessionCompacted(CompactionSummary {
            checkpoint: version.n,
            ..self.summary
        })
    }
}

/// A version of a checkpoint to store.
#[derive(Debug, Clone)]
pub struct NewCheckpoint {
    /// Turn that the version is attached to.
    pub turn: TurnId,
    /// Number of the last turn that the version covers.
    pub covers: u32,
    /// Content of the version.
    pub checkpoint: Checkpoint,
    /// Tokens that the version needs in a brief.
    pub tokens: u64,
    /// Tokens that the version replaces.
    pub replaced: u64,
    /// Author of the version.
    pub author: ItemAuthor,
    /// Reason for making the version.
    pub reason: CheckpointReason,
    /// Number of the last turn that the summariser had read when it made the version. 0 if no summariser made it.
    pub last_read_turn: u32,
    /// Time at which the version was made.
    pub at: Timestamp,
}

impl NewCheckpoint {
    /// Returns the version with a number.
    #[must_use]
    pub fn to_version(&self, n: u32) -> CheckpointVersion {
        CheckpointVersion {
            n,
            turn: self.turn,
            covers: self.covers,
            tokens: self.tokens,
            replaced: self.replaced,
            author: self.author,
            reason: self.reason,
            at: self.at,
            last_read_turn: self.last_read_turn,
            last_item_id: self.checkpoint.next_item_id().saturating_sub(1),
        }
    }
}
