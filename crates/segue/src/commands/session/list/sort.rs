//! Sorting of a list.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use segue_engine::Conversation;

use crate::cli::{SortArgs, SortKeyArg};

/// Sort key of a conversation. The smaller key comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Time(Reverse<Timestamp>),
    Count(Reverse<u64>),
    Name(String),
}

impl SortArgs {
    /// Returns `true` if this is the order in which the engine returns sessions.
    pub(super) fn is_default_order(self) -> bool {
        self.sort == SortKeyArg::Updated && !self.reverse
    }
}

/// Sorts conversations. Unknown values come last in both directions; equal values are sorted newest first.
pub(super) fn sort_conversations(rows: &mut [Conversation], order: SortArgs) {
    rows.sort_by_cached_key(|row| {
        let key = sort_key(row, order.sort);
        let is_unknown = key.is_none();
        (
            is_unknown,
            DirectedSortKey(key, order.reverse),
            Reverse(updated_at(row)),
        )
    });
}

/// A key in normal or reversed order.
#[derive(PartialEq, Eq)]
struct DirectedSortKey(Option<SortKey>, bool);

impl PartialOrd for DirectedSortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DirectedSortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let ordering = self.0.cmp(&other.0);
        if self.1 { ordering.reverse() } else { ordering }
    }
}

fn sort_key(row: &Conversation, sort_by: SortKeyArg) -> Option<SortKey> {
    let time_key = |at| SortKey::Time(Reverse(at));
    let count_key = |number| SortKey::Count(Reverse(number));
    let name_key = |text: &str| SortKey::Name(text.to_lowercase());
    match row {
        Conversation::Session(session, _) => match sort_by {
            SortKeyArg::Updated => Some(time_key(session.updated_at)),
            SortKeyArg::Created => Some(time_key(session.created_at)),
            SortKeyArg::Turns => Some(count_key(session.turns.into())),
            SortKeyArg::Tokens => session.total_tokens.map(count_key),
            SortKeyArg::Title => Some(name_key(session.title.as_str())),
            SortKeyArg::Provider => Some(name_key(session.provider.as_str())),
        },
        Conversation::Native(native) => {
            let head = &native.session.head;
            match sort_by {
                SortKeyArg::Updated => Some(time_key(head.updated_at)),
                SortKeyArg::Created => head.created_at.map(time_key),
                // Without the index, only reading the complete session would provide the number.
                SortKeyArg::Turns => Some(count_key(native.details.as_ref()?.turns.into())),
                SortKeyArg::Tokens => native.details.as_ref()?.usage.total_tokens.map(count_key),
                SortKeyArg::Title => head.title.as_ref().map(|title| name_key(title.as_str())),
                SortKeyArg::Provider => Some(name_key(native.session.provider.as_str())),
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
