//! Sorting of conversations for `segue session list`.

use std::cmp::Reverse;

use jiff::Timestamp;
use segue_api::session::ListedSession;
use segue_engine::Conversation;

use crate::cli::{SortArgs, SortKeyArg};
use crate::json_output::conversation_json;

/// Sort key of a session. The smallest key comes first, so times and counts are reversed: the latest time and the
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
        let row = conversation_json(row);
        let key = sort_key(&row, order.sort);
        let is_unknown = key.is_none();
        // The direction is the same for all rows, so one of the two keys is always `None`.
        let (ascending, descending) = if order.reverse {
            (None, Some(Reverse(key)))
        } else {
            (Some(key), None)
        };
        (is_unknown, ascending, descending, Reverse(row.updated_at))
    });
}

/// Returns the sort key of a session. `None` if the value to sort by is unknown: the counts of a native session come from
/// the index, because counting would require reading the complete session.
fn sort_key(row: &ListedSession, sort_by: SortKeyArg) -> Option<SortKey> {
    let time_key = |at| SortKey::Time(Reverse(at));
    let count_key = |number| SortKey::Count(Reverse(number));
    let name_key = |text: &str| SortKey::Name(text.to_lowercase());
    match sort_by {
        SortKeyArg::Updated => Some(time_key(row.updated_at)),
        SortKeyArg::Created => row.created_at.map(time_key),
        SortKeyArg::Turns => row.turns.map(|turns| count_key(turns.into())),
        SortKeyArg::Tokens => row.total_tokens.map(count_key),
        SortKeyArg::Title => row.title.as_deref().map(name_key),
        SortKeyArg::Provider => Some(name_key(row.provider.as_str())),
    }
}
