//! Visible and fetched parts of a long list.

use crate::picker::data_source::{Page, Row, Total};
use crate::picker::keys::Move;

/// Minimum number of rows per fetch.
const FETCHED: usize = 60;

/// A list of which only a part is fetched.
#[derive(Debug, Default)]
pub(in crate::picker) struct Window {
    selected: usize,
    /// Index of the first visible row.
    top: usize,
    /// Number of visible rows.
    height: usize,
    /// Number of rows before the fetched ones.
    from: usize,
    rows: Vec<Row>,
    /// Number of rows. `None` until the first answer.
    total: Option<Total>,
    /// Id of the conversation that was forked last, and of its fork.
    forked: Option<(String, String)>,
}

/// State that is preserved when rows are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// No state, because the list is another one.
    Nothing,
    /// The position in the list, because the rows belong to the same list.
    Place,
    /// The selected conversation, wherever it is in the new list.
    Selected,
}

impl Window {
    pub(in crate::picker) fn total(&self) -> Option<Total> {
        self.total
    }

    pub(in crate::picker) fn selected(&self) -> Option<&Row> {
        self.row(self.selected)
    }

    pub(in crate::picker) fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// Returns the visible positions, each with its row if that is fetched, and whether it is selected.
    pub(in crate::picker) fn in_view(&self) -> impl Iterator<Item = (Option<&Row>, bool)> {
        let end = self.length().min(self.top + self.height);
        (self.top..end).map(|at| (self.row(at), at == self.selected))
    }

    fn row(&self, at: usize) -> Option<&Row> {
        self.rows.get(at.checked_sub(self.from)?)
    }

    fn length(&self) -> usize {
        self.total.map_or(0, Total::known)
    }

    pub(super) fn resize(&mut self, height: usize) {
        self.height = height;
        self.settle();
    }

    pub(super) fn go(&mut self, to: Move) {
        let page = self.height.saturating_sub(1).max(1);
        self.selected = match to {
            Move::Up => self.selected.saturating_sub(1),
            Move::Down => self.selected + 1,
            Move::PageUp => self.selected.saturating_sub(page),
            Move::PageDown => self.selected + page,
            Move::First => 0,
            Move::Last => self.length(),
        };
        self.settle();
    }

    /// Moves to the first row, for another list.
    pub(super) fn rewind(&mut self) {
        self.selected = 0;
        self.top = 0;
    }

    /// Moves the selection into the list, and the visible part to the selection.
    fn settle(&mut self) {
        let length = self.length();
        self.selected = self.selected.min(length.saturating_sub(1));
        self.top = self.top.min(length.saturating_sub(self.height));
        if self.selected < self.top {
            self.top = self.selected;
        }
        if self.selected >= self.top + self.height {
            self.top = (self.selected + 1).saturating_sub(self.height);
        }
    }

    /// Returns start and number of the rows to fetch: the visible rows and some around them.
    pub(super) fn around(&self) -> (usize, usize) {
        let limit = FETCHED.max(self.height * 3);
        (self.top.saturating_sub(self.height), limit)
    }

    /// Returns `true` if all visible rows are fetched.
    pub(super) fn is_whole(&self) -> bool {
        let Some(total) = self.total else {
            return false;
        };
        let fetched = self.from + self.rows.len();
        let end = self.top + self.height;
        let needed = match total {
            Total::Exactly(total) => end.min(total),
            // The row after the visible ones is needed, too, to find out whether it exists.
            Total::AtLeast(_) => end + 1,
        };
        (self.from <= self.top && needed <= fetched) || self.top >= needed
    }

    /// Changes the id of a conversation, so that it remains selected.
    pub(super) fn rename(&mut self, before: &str, id: &str) {
        for row in self.rows.iter_mut().filter(|row| row.id == before) {
            id.clone_into(&mut row.id);
        }
    }

    /// Records the fork of a conversation, which replaces it if only one of them is listed.
    pub(super) fn forked(&mut self, id: String, fork: String) {
        self.forked = Some((id, fork));
    }

    /// Returns the index of a conversation in the fetched rows, or that of the fork that replaces it.
    fn find(&self, id: &str) -> Option<usize> {
        let place = |id: &str| self.rows.iter().position(|row| row.id == id);
        let forked = self.forked.as_ref().filter(|(origin, _)| origin == id);
        place(id).or_else(|| place(&forked?.1))
    }

    /// Replaces the fetched rows.
    pub(super) fn fill(&mut self, from: usize, page: Page, keep: Keep) {
        let kept = match keep {
            Keep::Selected => self.selected().map(|row| row.id.clone()),
            Keep::Nothing | Keep::Place => None,
        };
        if keep == Keep::Nothing {
            self.rewind();
        }
        let fetched = from + page.rows.len();
        self.from = from;
        self.total = Some(match page.total {
            // The total is at least the number of fetched rows.
            Total::Exactly(total) if page.rows.is_empty() => Total::Exactly(total.min(from)),
            Total::Exactly(total) => Total::Exactly(total.max(fetched)),
            Total::AtLeast(total) if page.rows.is_empty() => Total::Exactly(total.min(from)),
            Total::AtLeast(total) => Total::AtLeast(total.max(fetched)),
        });
        self.rows = page.rows;
        let found = kept.and_then(|id| self.find(&id));
        if let Some(at) = found {
            let at = self.from + at;
            // The selected row remains at the same position on the screen, if possible.
            if self.top > 0 || at >= self.height {
                self.top = (self.top + at).saturating_sub(self.selected);
            }
            self.selected = at;
        }
        self.settle();
    }
}
