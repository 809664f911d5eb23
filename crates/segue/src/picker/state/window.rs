//! Visible and fetched parts of a long list.

use crate::picker::data_source::{PickerRow, RowPage, RowTotal};
use crate::picker::keys::ListMove;

/// Minimum number of rows per fetch.
const MIN_FETCH_ROWS: usize = 60;

/// A list of which only a part is fetched.
#[derive(Debug, Default)]
pub(in crate::picker) struct ListWindow {
    selected_index: usize,
    /// Index of the first visible row.
    top: usize,
    /// Number of visible rows.
    height: usize,
    /// Number of rows before the fetched ones.
    offset: usize,
    rows: Vec<PickerRow>,
    /// Number of rows. `None` until the first answer.
    total: Option<RowTotal>,
    /// Id of the conversation that was forked last, and of its fork.
    last_fork: Option<(String, String)>,
}

/// State that is preserved when rows are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreservedState {
    /// No state, because the list is another one.
    None,
    /// The position in the list, because the rows belong to the same list.
    Position,
    /// The selected conversation, wherever it is in the new list.
    Selection,
}

impl ListWindow {
    pub(in crate::picker) fn total(&self) -> Option<RowTotal> {
        self.total
    }

    pub(in crate::picker) fn selected(&self) -> Option<&PickerRow> {
        self.row(self.selected_index)
    }

    pub(in crate::picker) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the visible positions, each with its row if that is fetched, and whether it is selected.
    pub(in crate::picker) fn visible_rows(
        &self,
    ) -> impl Iterator<Item = (Option<&PickerRow>, bool)> {
        let end = self.len().min(self.top + self.height);
        (self.top..end).map(|index| (self.row(index), index == self.selected_index))
    }

    fn row(&self, index: usize) -> Option<&PickerRow> {
        self.rows.get(index.checked_sub(self.offset)?)
    }

    fn len(&self) -> usize {
        self.total.map_or(0, RowTotal::count)
    }

    pub(super) fn resize(&mut self, height: usize) {
        self.height = height;
        self.clamp_position();
    }

    pub(super) fn move_selection(&mut self, movement: ListMove) {
        let page_height = self.height.saturating_sub(1).max(1);
        let last_index = self.len().saturating_sub(1);
        self.selected_index = movement.apply(self.selected_index, page_height, last_index);
        self.clamp_position();
    }

    /// Moves the selection into the list, and the visible part to the selection.
    fn clamp_position(&mut self) {
        let len = self.len();
        self.selected_index = self.selected_index.min(len.saturating_sub(1));
        self.top = self.top.min(len.saturating_sub(self.height));
        if self.selected_index < self.top {
            self.top = self.selected_index;
        }
        if self.selected_index >= self.top + self.height {
            self.top = (self.selected_index + 1).saturating_sub(self.height);
        }
    }

    /// Returns start and number of the rows to fetch: the visible rows and some around them.
    pub(super) fn fetch_range(&self) -> (usize, usize) {
        let limit = MIN_FETCH_ROWS.max(self.height * 3);
        (self.top.saturating_sub(self.height), limit)
    }

    /// Returns `true` if all visible rows are fetched.
    pub(super) fn has_all_visible_rows(&self) -> bool {
        let Some(total) = self.total else {
            return false;
        };
        let fetched = self.offset + self.rows.len();
        let end = self.top + self.height;
        let needed = match total {
            RowTotal::Exact(total) => end.min(total),
            // The row after the visible ones is needed, too, to find out whether it exists.
            RowTotal::AtLeast(_) => end + 1,
        };
        (self.offset <= self.top && needed <= fetched) || self.top >= needed
    }

    /// Changes the id of a conversation, so that it remains selected.
    pub(super) fn replace_id(&mut self, old_id: &str, new_id: &str) {
        for row in self.rows.iter_mut().filter(|row| row.id == old_id) {
            new_id.clone_into(&mut row.id);
        }
    }

    /// Records the fork of a conversation, which replaces it if only one of them is listed.
    pub(super) fn record_fork(&mut self, id: String, fork_id: String) {
        self.last_fork = Some((id, fork_id));
    }

    /// Returns the index of a conversation in the fetched rows, or that of the fork that replaces it.
    fn find_index(&self, id: &str) -> Option<usize> {
        let index_of = |id: &str| self.rows.iter().position(|row| row.id == id);
        let last_fork = self.last_fork.as_ref().filter(|(origin, _)| origin == id);
        index_of(id).or_else(|| index_of(&last_fork?.1))
    }

    /// Replaces the fetched rows.
    pub(super) fn replace_rows(&mut self, offset: usize, page: RowPage, preserved: PreservedState) {
        let selected_id = match preserved {
            PreservedState::Selection => self.selected().map(|row| row.id.clone()),
            PreservedState::None | PreservedState::Position => None,
        };
        if preserved == PreservedState::None {
            (self.selected_index, self.top) = (0, 0);
        }
        let fetched = offset + page.rows.len();
        self.offset = offset;
        self.total = Some(match page.total {
            total if page.rows.is_empty() => RowTotal::Exact(total.count().min(offset)),
            // The total is at least the number of fetched rows.
            RowTotal::Exact(total) => RowTotal::Exact(total.max(fetched)),
            RowTotal::AtLeast(total) => RowTotal::AtLeast(total.max(fetched)),
        });
        self.rows = page.rows;
        let fetched_index = selected_id.and_then(|id| self.find_index(&id));
        if let Some(fetched_index) = fetched_index {
            let new_index = self.offset + fetched_index;
            // The selected row remains at the same position on the screen, if possible.
            if self.top > 0 || new_index >= self.height {
                self.top = (self.top + new_index).saturating_sub(self.selected_index);
            }
            self.selected_index = new_index;
        }
        self.clamp_position();
    }
}
