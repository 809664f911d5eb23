//! The part of a long list that is in view, and the part that was fetched.

use crate::picker::keys::Move;
use crate::picker::source::{Page, Row, Total};

/// How many rows are fetched at least.
const FETCHED: usize = 60;

/// A list of which only a part is known.
#[derive(Debug, Default)]
pub(in crate::picker) struct Window {
    selected: usize,
    /// The first row in view.
    top: usize,
    /// How many rows are in view.
    height: usize,
    /// How many rows are before the fetched ones.
    from: usize,
    rows: Vec<Row>,
    /// Nothing until the first answer.
    total: Option<Total>,
    /// The conversation that was forked last, and its fork.
    forked: Option<(String, String)>,
}

/// What stays when rows are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nothing: it is another list.
    Nothing,
    /// The place in the list: these are more rows of it.
    Place,
    /// The selected conversation, wherever in the list it is now.
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

    /// The places in view, each with its row where that was fetched and whether it is the selected one.
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

    /// Back to the first row, for another list.
    pub(super) fn rewind(&mut self) {
        self.selected = 0;
        self.top = 0;
    }

    /// Puts the selection into the list and into view.
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

    /// From where, and how many, a fetch takes for what is in view to be there with some around it.
    pub(super) fn around(&self) -> (usize, usize) {
        let limit = FETCHED.max(self.height * 3);
        (self.top.saturating_sub(self.height), limit)
    }

    /// Whether everything in view was fetched.
    pub(super) fn is_whole(&self) -> bool {
        let Some(total) = self.total else {
            return false;
        };
        let fetched = self.from + self.rows.len();
        let end = self.top + self.height;
        let needed = match total {
            Total::Exactly(total) => end.min(total),
            // One more, to learn whether there is one.
            Total::AtLeast(_) => end + 1,
        };
        (self.from <= self.top && needed <= fetched) || self.top >= needed
    }

    /// A conversation is called otherwise from now on; one that is selected stays so.
    pub(super) fn rename(&mut self, before: &str, id: &str) {
        for row in self.rows.iter_mut().filter(|row| row.id == before) {
            id.clone_into(&mut row.id);
        }
    }

    /// A conversation has a fork from now on, which stands in for it where only one of them is listed.
    pub(super) fn forked(&mut self, id: String, fork: String) {
        self.forked = Some((id, fork));
    }

    /// Which of the fetched rows is the conversation, or else the fork that stands in for it.
    fn find(&self, id: &str) -> Option<usize> {
        let place = |id: &str| self.rows.iter().position(|row| row.id == id);
        let forked = self.forked.as_ref().filter(|(origin, _)| origin == id);
        place(id).or_else(|| place(&forked?.1))
    }

    /// Takes rows that were fetched.
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
            // Whoever sent rows has at least these.
            Total::Exactly(total) if page.rows.is_empty() => Total::Exactly(total.min(from)),
            Total::Exactly(total) => Total::Exactly(total.max(fetched)),
            Total::AtLeast(total) if page.rows.is_empty() => Total::Exactly(total.min(from)),
            Total::AtLeast(total) => Total::AtLeast(total.max(fetched)),
        });
        self.rows = page.rows;
        let found = kept.and_then(|id| self.find(&id));
        if let Some(at) = found {
            let at = self.from + at;
            // What the eye is on stays where it is, where that can be.
            if self.top > 0 || at >= self.height {
                self.top = (self.top + at).saturating_sub(self.selected);
            }
            self.selected = at;
        }
        self.settle();
    }
}
