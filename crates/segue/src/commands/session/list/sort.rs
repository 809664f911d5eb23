//! Sorting of a list.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use segue_engine::Conversation;

use crate::cli::{OrderArgs, SortBy};

/// Sort key of a conversation. The smaller key comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Newest(Reverse<Timestamp>),
    Most(Reverse<u64>),
    Name(String),
}

impl OrderArgs {
    /// Returns `true` if this is the order in which the engine returns sessions.
    pub(super) fn is_usual(self) -> bool {
        self.sort == SortBy::Updated && !self.reverse
    }
}

/// Sorts conversations. Unknown values come last in both directions; equal values are sorted newest first.
pub(super) fn arrange(rows: &mut [Conversation], order: OrderArgs) {
    rows.sort_by_cached_key(|row| {
        let key = key(row, order.sort);
        let known = key.is_none();
        (known, Turned(key, order.reverse), Reverse(updated_at(row)))
    });
}

/// A key in normal or reversed order.
#[derive(PartialEq, Eq)]
struct Turned(Option<SortKey>, bool);

impl PartialOrd for Turned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Turned {
    fn cmp(&self, other: &Self) -> Ordering {
        let usual = self.0.cmp(&other.0);
        if self.1 { usual.reverse() } else { usual }
    }
}

fn key(row: &Conversation, by: SortBy) -> Option<SortKey> {
    let newest = |at| SortKey::Newest(Reverse(at));
    let most = |number| SortKey::Most(Reverse(number));
    let name = |text: &str| SortKey::Name(text.to_lowercase());
    match row {
        Conversation::Session(session, _) => match by {
            SortBy::Updated => Some(newest(session.updated_at)),
            SortBy::Created => Some(newest(session.created_at)),
            SortBy::Turns => Some(most(session.turns.into())),
            SortBy::Tokens => session.total_tokens.map(most),
            SortBy::Title => Some(name(session.title.as_str())),
            SortBy::Provider => Some(name(session.provider.as_str())),
        },
        Conversation::Native(native) => {
            let head = &native.session.head;
            match by {
                SortBy::Updated => Some(newest(head.updated_at)),
                SortBy::Created => head.created_at.map(newest),
                // Without the index, only reading the complete session would provide the number.
                SortBy::Turns => Some(most(native.known.as_ref()?.turns.into())),
                SortBy::Tokens => native.known.as_ref()?.usage.total_tokens.map(most),
                SortBy::Title => head.title.as_ref().map(|title| name(title.as_str())),
                SortBy::Provider => Some(name(native.session.provider.as_str())),
            }
        }
    }
}

fn updated_at(row: &Conversation) -> Timestamp {
    match row {
        Conversation::Session(session, _) => session.updated_at,
        Conversation::Native(native) => native.session.head.updated_at,
    }
}
