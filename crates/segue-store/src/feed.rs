//! The change feed: everything that happens in a store, in the order of the commits.
//!
//! A change names what happened and to what, and contains nothing of it. A reader that needs the content reads it from
//! the store, which no longer has it if the session was deleted.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use jiff::Timestamp;
use segue_core::id::{LegId, SessionId, TurnId, format_bits, parse_bits};

use crate::{Result, RowIds};

/// The feed of changes.
///
/// Requirements for an implementation:
///
/// - A change is recorded in the transaction that makes it, so that the feed has no gap and no change that did not
///   happen, whichever process made it.
/// - The order is that of the commits. A reader that has seen a change has seen all changes before it.
/// - Changes are never removed, so that every cursor stays valid. A change has a constant size.
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// Returns the next changes after a cursor, oldest first. Empty if nothing has happened since. Fails with
    /// [`UnknownCursor`](crate::StoreError::UnknownCursor) if the cursor belongs to another store.
    async fn changes(&self, after: FeedCursor, limit: u32) -> Result<Vec<Change>>;
    /// Returns the cursor of the newest change. The read is cheap, so that a reader can repeat it to learn whether
    /// something has happened.
    async fn feed_end(&self) -> Result<FeedCursor>;
}

/// Change of a session, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Position in the feed. The first change is 1, and every later one is one more than the change before.
    pub sequence: u64,
    /// Cursor to read the changes after this one. Unlike the position, it can be given to users and programs.
    pub cursor: FeedCursor,
    /// Time of the change by the clock of the store.
    pub at: Timestamp,
    /// ID of the session.
    pub session: SessionId,
    /// Kind of change, and the object that changed.
    pub kind: ChangeKind,
}

/// Kind of change, with the object that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The session was created. It may be a fork, which shares turns with another session.
    SessionCreated,
    /// The title, the tags or the provider of the session changed.
    SessionChanged,
    /// The session was deleted.
    SessionDeleted,
    /// A turn began, and became the head. Its prompt is on record.
    TurnStarted {
        /// ID of the turn.
        turn: TurnId,
        /// Number of the turn.
        number: u32,
    },
    /// A turn ended.
    TurnEnded {
        /// ID of the turn.
        turn: TurnId,
    },
    /// A turn that was never sent ended, and the head moved back to the turn before.
    TurnWithdrawn {
        /// ID of the turn.
        turn: TurnId,
    },
    /// A message of the agent was recorded, or replaced the message with the same number. The message is incomplete if
    /// the turn was cut off, or if its text continues in the next message.
    MessageSaved {
        /// ID of the turn.
        turn: TurnId,
        /// Number of the message within the turn.
        message: u32,
    },
    /// The prompt is about to be sent.
    AttemptBegun {
        /// ID of the turn.
        turn: TurnId,
    },
    /// An attempt failed, and the turn continues.
    AttemptFailed {
        /// ID of the turn.
        turn: TurnId,
    },
    /// The head moved to another turn by a revert or an undo.
    HeadMoved {
        /// New head.
        turn: TurnId,
    },
    /// A version of the checkpoint was stored.
    CheckpointAdded {
        /// Number of the version.
        version: u32,
    },
    /// A leg was opened.
    LegOpened {
        /// ID of the leg.
        leg: LegId,
        /// Number of the leg.
        number: u32,
    },
    /// The agent reported the native session of a leg, or compacted its context.
    LegChanged {
        /// ID of the leg.
        leg: LegId,
    },
    /// A leg ended.
    LegEnded {
        /// ID of the leg.
        leg: LegId,
    },
    /// A decision was logged.
    DecisionLogged,
}

/// A [`ChangeKind`] as a store records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Kind of change.
    pub code: u8,
    /// Row of the turn or the leg.
    pub row: Option<i64>,
    /// Number of the object.
    pub number: Option<u32>,
}

impl ChangeKind {
    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SessionCreated => "session_created",
            Self::SessionChanged => "session_changed",
            Self::SessionDeleted => "session_deleted",
            Self::TurnStarted { .. } => "turn_started",
            Self::TurnEnded { .. } => "turn_ended",
            Self::TurnWithdrawn { .. } => "turn_withdrawn",
            Self::MessageSaved { .. } => "message_saved",
            Self::AttemptBegun { .. } => "attempt_begun",
            Self::AttemptFailed { .. } => "attempt_failed",
            Self::HeadMoved { .. } => "head_moved",
            Self::CheckpointAdded { .. } => "checkpoint_added",
            Self::LegOpened { .. } => "leg_opened",
            Self::LegChanged { .. } => "leg_changed",
            Self::LegEnded { .. } => "leg_ended",
            Self::DecisionLogged => "decision_logged",
        }
    }

    /// Returns the record of the change. The codes are on disk, so they never change.
    #[must_use]
    pub fn to_record(self, ids: &RowIds) -> ChangeRecord {
        let of_turn = |code, turn, number| ChangeRecord {
            code,
            row: Some(ids.turn_row(turn)),
            number,
        };
        let of_leg = |code, leg, number| ChangeRecord {
            code,
            row: Some(ids.leg_row(leg)),
            number,
        };
        let of_session = |code, number| ChangeRecord {
            code,
            row: None,
            number,
        };
        match self {
            Self::SessionCreated => of_session(1, None),
            Self::SessionChanged => of_session(2, None),
            Self::SessionDeleted => of_session(3, None),
            Self::TurnStarted { turn, number } => of_turn(4, turn, Some(number)),
            Self::TurnEnded { turn } => of_turn(5, turn, None),
            Self::TurnWithdrawn { turn } => of_turn(6, turn, None),
            Self::MessageSaved { turn, message } => of_turn(7, turn, Some(message)),
            Self::AttemptBegun { turn } => of_turn(8, turn, None),
            Self::AttemptFailed { turn } => of_turn(9, turn, None),
            Self::HeadMoved { turn } => of_turn(10, turn, None),
            Self::CheckpointAdded { version } => of_session(11, Some(version)),
            Self::LegOpened { leg, number } => of_leg(12, leg, Some(number)),
            Self::LegChanged { leg } => of_leg(13, leg, None),
            Self::LegEnded { leg } => of_leg(14, leg, None),
            Self::DecisionLogged => of_session(15, None),
        }
    }

    /// Returns the kind of a record. `None` if the record is not valid.
    #[must_use]
    pub fn from_record(record: ChangeRecord, ids: &RowIds) -> Option<Self> {
        let ChangeRecord { code, row, number } = record;
        let turn = || row.map(|row| ids.turn_id(row));
        let leg = || row.map(|row| ids.leg_id(row));
        Some(match code {
            1 => Self::SessionCreated,
            2 => Self::SessionChanged,
            3 => Self::SessionDeleted,
            4 => Self::TurnStarted {
                turn: turn()?,
                number: number?,
            },
            5 => Self::TurnEnded { turn: turn()? },
            6 => Self::TurnWithdrawn { turn: turn()? },
            7 => Self::MessageSaved {
                turn: turn()?,
                message: number?,
            },
            8 => Self::AttemptBegun { turn: turn()? },
            9 => Self::AttemptFailed { turn: turn()? },
            10 => Self::HeadMoved { turn: turn()? },
            11 => Self::CheckpointAdded { version: number? },
            12 => Self::LegOpened {
                leg: leg()?,
                number: number?,
            },
            13 => Self::LegChanged { leg: leg()? },
            14 => Self::LegEnded { leg: leg()? },
            15 => Self::DecisionLogged,
            _ => return None,
        })
    }
}

/// Position in the feed of one store: after a change, or before the first one.
///
/// Its text is opaque, has a version, and stays valid as long as the store exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedCursor(u64);

/// Beginning of the text of a cursor, which contains the version of its form.
const CURSOR_PREFIX: &str = "c1-";

/// Number of low bits of a cursor that are 0 before the encryption. A cursor of another store has other bits there.
const CURSOR_CHECK_BITS: u32 = 24;

impl FeedCursor {
    /// Position before the first change, in every store.
    pub const START: Self = Self(0);

    /// Creates the cursor after a change.
    #[must_use]
    pub fn after_change(sequence: u64, ids: &RowIds) -> Self {
        if sequence == 0 {
            return Self::START;
        }
        Self(ids.encrypt_cursor(sequence << CURSOR_CHECK_BITS))
    }

    /// Returns the position of the last change before the cursor, 0 for the start. `None` if the cursor belongs to
    /// another store.
    #[must_use]
    pub fn sequence(self, ids: &RowIds) -> Option<u64> {
        if self == Self::START {
            return Some(0);
        }
        let block = ids.decrypt_cursor(self.0);
        let sequence = block >> CURSOR_CHECK_BITS;
        (sequence << CURSOR_CHECK_BITS == block).then_some(sequence)
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CURSOR_PREFIX}{}", format_bits(self.0))
    }
}

/// Reason why a text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor of a change feed, which looks like c1-0k3f9v7m2q8xt")]
pub struct InvalidCursor(pub String);

impl FromStr for FeedCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> std::result::Result<Self, InvalidCursor> {
        let bits = text.strip_prefix(CURSOR_PREFIX).and_then(parse_bits);
        bits.map(Self).ok_or_else(|| InvalidCursor(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_from_its_text_and_belongs_to_one_store() {
        let (ids, other_store) = (RowIds::new([1, 2]), RowIds::new([3, 4]));
        for sequence in [1, 2, 1 << 39] {
            let cursor = FeedCursor::after_change(sequence, &ids);
            let text = cursor.to_string();
            assert_eq!(text.parse(), Ok(cursor));
            assert_eq!(cursor.sequence(&ids), Some(sequence));
            assert_eq!(cursor.sequence(&other_store), None);
        }
        assert_eq!(FeedCursor::after_change(0, &ids), FeedCursor::START);
        assert_eq!(FeedCursor::START.sequence(&other_store), Some(0));
        for text in ["", "7", "c2-0k3f9v7m2q8xt", "c1-", "c1-0k3f9v7m2q8x"] {
            assert!(text.parse::<FeedCursor>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_survives_its_record() {
        let ids = RowIds::new([1, 2]);
        let (turn, leg) = (ids.turn_id(7), ids.leg_id(8));
        let kinds = [
            ChangeKind::SessionCreated,
            ChangeKind::SessionChanged,
            ChangeKind::SessionDeleted,
            ChangeKind::TurnStarted { turn, number: 3 },
            ChangeKind::TurnEnded { turn },
            ChangeKind::TurnWithdrawn { turn },
            ChangeKind::MessageSaved { turn, message: 2 },
            ChangeKind::AttemptBegun { turn },
            ChangeKind::AttemptFailed { turn },
            ChangeKind::HeadMoved { turn },
            ChangeKind::CheckpointAdded { version: 4 },
            ChangeKind::LegOpened { leg, number: 5 },
            ChangeKind::LegChanged { leg },
            ChangeKind::LegEnded { leg },
            ChangeKind::DecisionLogged,
        ];
        let mut codes = Vec::new();
        for kind in kinds {
            let record = kind.to_record(&ids);
            assert_eq!(ChangeKind::from_record(record, &ids), Some(kind));
            codes.push(record.code);
        }
        assert!(codes.into_iter().eq(1..=15), "codes on disk never change");
    }
}
