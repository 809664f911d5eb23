//! The records of a native session, one after the other.

use jiff::Timestamp;
use segue_core::{Cost, Message, Title, TurnState, Usage};

use crate::{Mark, ReadError};

/// Where to start reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At the first record.
    Beginning,
    /// After the record with this mark.
    After(Mark),
}

/// One native record that means something to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub mark: Mark,
    /// When it was written, where it says so.
    pub at: Option<Timestamp>,
    /// What it tells. A record may tell several things.
    pub events: Vec<Event>,
}

/// What a record tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A person asks something: a turn begins.
    Prompt(Said),
    /// Something is said or done within the turn.
    Said(Said),
    /// A record that nobody sees, but that later ones refer to by this key.
    Step(String),
    /// The conversation goes on from an earlier place; what came later no longer counts.
    Rewind(Back),
    /// The agent made its own context smaller, with this summary where it tells it.
    Compacted(Option<String>),
    /// One request to the model, and what it used. A request that is told again counts once.
    Used {
        /// What tells requests apart, where anything does.
        request: Option<String>,
        /// What it used.
        usage: Usage,
        /// The model that was asked, where it is told.
        model: Option<String>,
        /// What it cost, where the agent says so.
        cost: Option<Cost>,
    },
    /// The turn ended like this.
    Ended(TurnState),
    /// The session has a new name.
    Titled {
        /// Which.
        title: Title,
        /// The key of a record of the session that it is the name of, where it says so.
        of: Option<String>,
    },
}

/// Where a conversation goes on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Back {
    /// It begins anew.
    ToTheBeginning,
    /// The record with this key is the last that counts.
    After(String),
    /// The record with this key is the first that no longer counts.
    Before(String),
    /// The last so many turns no longer count.
    Turns(u32),
}

/// A message, and the key that later records know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The native key. A message with a key that was there before takes the place of the earlier one.
    pub key: Option<String>,
    /// What is said.
    pub message: Message,
}

/// What could not be read. Nothing of it ends a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines that are not what the format has.
    pub malformed: u64,
    /// Lines too long to be read.
    pub oversized: u64,
    /// Lines with bytes that are no text; they were read with those bytes replaced.
    pub mended: u64,
    /// Whether the file ends in the middle of a line: it was cut off, or is being written.
    pub torn: bool,
    /// Whether the session goes on from another one that is not there.
    pub orphaned: bool,
}

impl Skipped {
    /// Whether everything was read as it is.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A native session, record by record.
pub trait Records {
    /// The next record; none at the end of what was there, at the latest when it was come to.
    fn next(&mut self) -> Result<Option<Record>, ReadError>;

    /// What could not be read so far.
    fn skipped(&self) -> Skipped;
}
