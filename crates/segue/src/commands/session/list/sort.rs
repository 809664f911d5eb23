//! Sorting of conversations for `segue session list`.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;
use segue_engine::Conversation;

use crate::cli::{SortArgs, SortKeyArg};

/// Sort key of a conversation. The smallest key comes first, so times and counts are reversed: the latest time and the
/// greatest count come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SortKey {
    Time(Reverse<Timestamp>),
    Count(Reverse<u64>),
    Name(String),
}

impl SortArgs {
    /// Returns `true` if this is the order in which the engine returns conversations, so that no sorting is necessary.
    pub(super) fn is_default_order(self) -> bool {
        self.sort == SortKeyArg::Updated && !self.reverse
    }
}

/// Sorts conversations. Those with an unknown value come last, also in reverse order. Those with equal values are
/// sorted by the time of the last update, newest first.
pub(super) fn sort_conversations(rows: &mut [Conversation], order: SortArgs) {
    rows.sort_by_cached_key(|row| {
        let key = sort_key(row, order.sort);
        let is_unknown = key.is_none();
        (
            is_unknown,
            DirectedSortKey {
                key,
                is_reversed: order.reverse,
            },
            Reverse(updated_at(row)),
        )
    });
}

/// A sort key with its direction.
#[derive(PartialEq, Eq)]
struct DirectedSortKey {
    key: Option<SortKey>,
    is_reversed: bool,
}

impl PartialOrd for DirectedSortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DirectedSortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let ordering = self.key.cmp(&other.key);
        if self.is_reversed {
            ordering.reverse()
        } else {
            ordering
        }
    }
}

/// Returns the sort key of a conversation. `None` if the value to sort by is unknown.
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
                // The counts come from the index. Without it they are unknown, because counting would require reading
                // the complete session.
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
