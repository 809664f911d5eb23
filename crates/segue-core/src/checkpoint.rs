//! The checkpoint: what a conversation comes to up to a turn, as items that each say where they come from.
//!
//! It is made without a model, from the record ([`extract()`]), and what was known before is carried on ([`merge()`]). A
//! summariser may add to it, and only what the record bears out. Versions are kept as differences ([`Delta`]).

mod chat;
mod cues;
mod delta;
mod everyday;
mod extract;
mod form;
mod goal;
mod merge;
mod moved;
mod novelty;
mod numbers;
mod pasted;
mod question;
mod said;
mod saved;
mod settled;
mod stored;
mod summary;
mod tasks;
mod tools;
mod units;
mod version;
mod voice;
mod withdrawn;
mod written;

use crate::names::names;

pub use delta::Delta;
pub use extract::extract;
pub use form::{Slip, carried_over, form, formed};
pub use merge::merge;
pub use numbers::newly_numbered;
pub use question::{Piece, SUMMARISER, again, is_summariser, pieces, question};
pub use saved::total_saved;
pub use stored::{DeltaError, decode_delta, encode_delta};
pub use summary::{Objection, Summary, summary};
pub use version::{Occasion, Version};
pub use written::{headed, written};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// What all of it is for.
    Goal,
    /// A rule of the user that goes on to hold, in their own words.
    Directive,
    /// Something that was settled, and why.
    Decision,
    /// Something that is done.
    Done,
    /// What was tried and did not work.
    Attempt,
    /// Something else that was said, and that nothing else says.
    Note,
    /// A file that was changed.
    File,
    /// A command and how it ended.
    Command,
    /// A build, a test or the like, and how it ended.
    Check,
    /// What is in the way.
    Blocker,
    /// What is still to be done.
    Pending,
    /// What the user asked for, in their own words.
    Request,
    /// What is being worked on.
    Focus,
    /// What comes next.
    NextStep,
}

names!(ItemKind {
    Goal => "goal",
    Directive => "directive",
    Decision => "decision",
    Done => "done",
    Attempt => "attempt",
    Note => "note",
    File => "file",
    Command => "command",
    Check => "check",
    Blocker => "blocker",
    Pending => "pending",
    Request => "request",
    Focus => "focus",
    NextStep => "next_step",
});

impl ItemKind {
    /// All of them, in the order in which they are told: what changes least comes first, so that a provider's cache of
    /// prompts serves again, and what matters most for the next step comes last.
    pub const ALL: [Self; 14] = [
        Self::Goal,
        Self::Directive,
        Self::Decision,
        Self::Done,
        Self::Attempt,
        Self::Note,
        Self::File,
        Self::Command,
        Self::Check,
        Self::Blocker,
        Self::Pending,
        Self::Request,
        Self::Focus,
        Self::NextStep,
    ];
}

/// Who wrote an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// It was found in the record.
    Record,
    /// A summariser did, and the record bears it out.
    Summary,
    /// The person did.
    Person,
}

names!(Author {
    Record => "record",
    Summary => "summary",
    Person => "person",
});

/// One thing that is worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its number: no two items have the same in a checkpoint and in all that it was made from.
    pub id: u32,
    /// What it is.
    pub kind: ItemKind,
    /// What it says, on one line.
    pub text: String,
    /// What it is about, where only the newest item about it counts: a path, a command.
    pub subject: Option<String>,
    /// The turn it comes from.
    pub turn: u32,
    /// Which message of that turn, from 0.
    pub message: u32,
    /// Who wrote it.
    pub by: Author,
    /// How much it tells: what tells more goes before what tells less where there is no room for both.
    pub weight: u32,
    /// Whether it stays whatever happens, since the person said so.
    pub pinned: bool,
}

/// Where a loop of checks stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopState {
    /// How often it went round.
    pub iteration: u32,
    /// The checks that passed.
    pub passed: Vec<String>,
    /// The checks that failed.
    pub failed: Vec<String>,
    /// What the last failure said.
    pub last_error: Option<String>,
}

/// What a conversation comes to up to a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The items, in the order of their kinds and then of their origin.
    pub items: Vec<Item>,
    /// Where a loop of checks stands, if one is under way.
    pub loop_state: Option<LoopState>,
}

impl Checkpoint {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.loop_state.is_none()
    }

    /// The items of a kind.
    #[must_use]
    pub fn of(&self, kind: ItemKind) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.iter().filter(move |item| item.kind == kind)
    }

    /// The item with a number.
    #[must_use]
    pub fn item(&self, id: u32) -> Option<&Item> {
        self.items.iter().find(|item| item.id == id)
    }

    /// The number for the next item.
    #[must_use]
    pub fn next_id(&self) -> u32 {
        let last = self.items.iter().map(|item| item.id).max();
        last.unwrap_or(0).saturating_add(1)
    }

    /// The same with an item that stays whatever happens, or does not any more; none if there is no such item.
    #[must_use]
    pub fn pinned(&self, id: u32, pinned: bool) -> Option<Self> {
        let mut checkpoint = self.clone();
        let item = checkpoint.items.iter_mut().find(|item| item.id == id)?;
        item.pinned = pinned;
        Some(checkpoint)
    }

    /// Puts the items in their order.
    fn in_order(mut self) -> Self {
        self.items
            .sort_by_key(|item| (item.kind, item.turn, item.message, item.id));
        self
    }
}

#[cfg(test)]
mod changes;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
