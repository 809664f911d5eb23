//! What is written.

use jiff::Timestamp;
use segue_core::{
    Author, Checkpoint, Failure, LegEnd, LegId, Message, NativeId, Occasion, Project, ProviderId,
    Purpose, SessionId, Standing, Tag, Title, TurnId, TurnState, Usage,
};

use crate::Filter;

/// A session to be made.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Where it belongs.
    pub project: Project,
    /// What it is called.
    pub title: Title,
    /// What it is for; none if for nothing in particular.
    pub purpose: Option<Purpose>,
    /// Who will carry it.
    pub provider: ProviderId,
    /// When it is made.
    pub at: Timestamp,
    /// It is made only if no session fits this by then; else it is refused with [`crate::StoreError::Fits`].
    pub unless: Option<Filter>,
}

/// A native session that becomes one of ours.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// What the provider calls it.
    pub native_id: NativeId,
    /// What was said in it, oldest first; each of them has ended.
    pub turns: Vec<AdoptedTurn>,
}

/// A turn that was made without us.
#[derive(Debug, Clone)]
pub struct AdoptedTurn {
    /// How it ended; not `Running`.
    pub state: TurnState,
    /// What was said, the prompt first.
    pub messages: Vec<Message>,
    /// What it used.
    pub usage: Usage,
    /// When the prompt was given.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The native record that it ends at.
    pub mark: Option<String>,
}

/// What a native session has that the record lacks. It happens in this order.
#[derive(Debug, Clone)]
pub struct TakenIn {
    /// The leg that it carries.
    pub leg: LegId,
    /// The turn that was cut off, and how it ended as far as is known by now.
    pub finish: Option<(TurnId, Finish)>,
    /// The turn that the native session went back to: the head follows, as by a revert.
    pub back_to: Option<TurnId>,
    /// The turns that were made there, oldest first; the head and the leg's tip move to the last of them.
    pub turns: Vec<AdoptedTurn>,
    /// When they are taken in.
    pub at: Timestamp,
}

/// A change to a session's tags. What is in both lists stays.
#[derive(Debug, Clone, Default)]
pub struct Retag {
    /// Those it is to have; it may have some already.
    pub add: Vec<Tag>,
    /// Those it is not to have; it may lack some already.
    pub remove: Vec<Tag>,
}

/// Where a fork leaves its origin.
#[derive(Debug, Clone)]
pub struct ForkPoint {
    /// The session that is forked.
    pub session: SessionId,
    /// The number of the last shared turn.
    pub turn: u32,
    /// The turns are those that led to the head before this move of it; those that lead to it now, if none.
    pub before_move: Option<u32>,
}

/// A leg to be opened.
#[derive(Debug, Clone)]
pub struct NewLeg {
    /// Who carries it.
    pub provider: ProviderId,
    /// What the provider calls it; none if it has not said so yet.
    pub native_id: Option<NativeId>,
    /// When it was opened.
    pub at: Timestamp,
}

/// What became of what an agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// It made its own context smaller.
    Smaller,
    /// It was told since what must not be forgotten.
    Reminded,
}

/// Something to be added to a turn that is under way.
#[derive(Debug, Clone)]
pub enum Entry {
    /// More of a message that is still being said.
    Draft(Draft),
    /// A message, whole; it takes the place of what was drafted or written at the same number.
    Message {
        /// Its number within the turn; the prompt is 0.
        seq: u32,
        /// The message.
        message: Message,
    },
}

/// Some words of an answer that is not complete.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The number the message will have within the turn.
    pub seq: u32,
    /// What the words are.
    pub kind: DraftKind,
    /// The words since the last draft.
    pub text: String,
    /// When they were heard.
    pub at: Timestamp,
}

/// What a draft will become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftKind {
    /// A text of the agent.
    Text,
    /// A thought of the agent.
    Thought,
}

/// The end of a turn.
#[derive(Debug, Clone)]
pub struct Finish {
    /// How it ended; not `Running`.
    pub state: TurnState,
    /// Messages that come with the end, by number, as in [`Entry::Message`].
    pub messages: Vec<(u32, Message)>,
    /// What the turn used.
    pub usage: Usage,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// When it ended.
    pub at: Timestamp,
}

/// What follows from the end of a turn.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// The native record that its last attempt ended at.
    pub mark: Option<String>,
    /// How the session fares with a provider from now on.
    pub standing: Option<(ProviderId, Standing)>,
    /// A leg that is over with it, and why.
    pub ends: Option<(LegId, LegEnd)>,
}

/// The tokens of a message that was not counted when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenCount {
    /// The turn.
    pub turn: TurnId,
    /// The number of the message within it.
    pub seq: u32,
    /// How many.
    pub tokens: u64,
}

/// A version of a checkpoint that is to be kept.
#[derive(Debug, Clone)]
pub struct NewVersion {
    /// The turn it hangs on.
    pub turn: TurnId,
    /// The number of the last turn that it sums up.
    pub covers: u32,
    /// What it says.
    pub checkpoint: Checkpoint,
    /// How many tokens it takes to tell it.
    pub tokens: u64,
    /// How many tokens it stands for.
    pub replaced: u64,
    /// Who made it.
    pub by: Author,
    /// On which occasion.
    pub why: Occasion,
    /// The number of the last turn that a summariser has read who made it; 0 if somebody else did.
    pub read: u32,
    /// When.
    pub at: Timestamp,
}
