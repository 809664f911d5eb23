//! Records of a native session.

use jiff::Timestamp;
use segue_core::session::{Message, Part, Role, Title, TurnState, Usage};
use segue_core::spend::Cost;

use crate::{Mark, ReadError};

/// Position at which reading starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadStart {
    /// The first record.
    Beginning,
    /// The record after the one with this mark.
    After(Mark),
}

/// A native record that has a meaning for segue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeRecord {
    /// Position of the record.
    pub mark: Mark,
    /// Time at which the record was written. `None` if the record contains no time.
    pub at: Option<Timestamp>,
    /// Events of the record. A record may have several.
    pub events: Vec<RecordEvent>,
}

/// An event in a native record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordEvent {
    /// A prompt of the user, which begins a turn.
    Prompt(KeyedMessage),
    /// A message or a tool call within the turn.
    Message(KeyedMessage),
    /// An invisible record to which later records refer by this key.
    Anchor(String),
    /// A rewind: the conversation continues from an earlier position, and later records no longer count.
    Rewind(RewindTarget),
    /// A compaction of the context by the agent, with the summary if the agent reports it.
    Compacted(Option<String>),
    /// A request to the model, and its usage. A request that is reported several times counts once.
    RequestUsage {
        /// Id of the request. `None` if the agent gives it none.
        request_id: Option<String>,
        /// Tokens that the request used.
        usage: Usage,
        /// Model of the request. `None` if the agent does not report it.
        model: Option<String>,
        /// Cost of the request. `None` if the agent does not report it.
        cost: Option<Cost>,
    },
    /// The end of the turn, with its state.
    TurnEnded(TurnState),
    /// A new title of the session.
    TitleChanged {
        /// The title.
        title: Title,
        /// Key of a record in the session to which the title belongs. `None` if the record does not name one.
        record_key: Option<String>,
    },
}

impl RecordEvent {
    /// Creates the event of a prompt.
    pub(crate) fn prompt(key: Option<&str>, parts: Vec<Part>, at: Option<Timestamp>) -> Self {
        Self::Prompt(KeyedMessage::new(key, Role::User, parts, at))
    }

    /// Creates the event of a message within a turn.
    pub(crate) fn message(
        key: Option<&str>,
        role: Role,
        parts: Vec<Part>,
        at: Option<Timestamp>,
    ) -> Self {
        Self::Message(KeyedMessage::new(key, role, parts, at))
    }

    /// Creates the event of a title that names no record.
    pub(crate) fn title(title: Title) -> Self {
        Self::TitleChanged {
            title,
            record_key: None,
        }
    }
}

/// Position to which a conversation is rewound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindTarget {
    /// The beginning of the session.
    Beginning,
    /// The end of the record with this key, which is the last that counts.
    AfterRecord(String),
    /// The beginning of the record with this key, which is the first that no longer counts.
    BeforeRecord(String),
    /// The beginning of the last turns, of which this many no longer count.
    TurnsBack(u32),
}

/// A message, with the key by which later records refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedMessage {
    /// Native key of the message. A message with an existing key replaces the earlier message.
    pub key: Option<String>,
    /// The message itself.
    pub message: Message,
}

impl KeyedMessage {
    fn new(key: Option<&str>, role: Role, parts: Vec<Part>, at: Option<Timestamp>) -> Self {
        Self {
            key: key.map(str::to_owned),
            message: Message::new(role, parts, at.unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }
}

/// Counts of content that could not be read. Such content does not end a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SkippedContent {
    /// Lines that do not match the format.
    pub malformed: u64,
    /// Lines that are too long to be read.
    pub oversized: u64,
    /// Lines with invalid UTF-8, which were read with those bytes replaced.
    pub repaired: u64,
    /// Whether the file ends in the middle of a line, because it was truncated or is being written.
    pub truncated: bool,
    /// Whether the session continues another one that is missing.
    pub orphaned: bool,
}

impl SkippedContent {
    /// Returns `true` if all content was read unchanged.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A native session, as a stream of records.
pub trait Records {
    /// Returns the next record. `None` at the end of the session. Records that another process appends while the
    /// session is being read may be omitted.
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError>;

    /// Returns the counts of content that could not be read so far.
    fn skipped(&self) -> SkippedContent;
}
