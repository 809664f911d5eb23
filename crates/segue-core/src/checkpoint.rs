//! Checkpoint: the summary of a conversation up to a turn, as items that each name their source.
//!
//! segue makes it without a model, from the recorded turns ([`extract()`]), and merges it with the previous checkpoint
//! ([`merge()`]). A summariser may add statements, but only those that the recorded turns support. Versions are stored
//! as differences ([`CheckpointDelta`]).

mod chat;
mod cues;
mod delta;
mod delta_encoding;
mod edit_form;
mod everyday;
mod extract;
mod file_moves;
mod goal;
mod line_kind;
mod merge;
mod novelty;
mod numbering;
mod plan;
mod render;
mod said;
mod settled;
mod summary;
mod summary_prompt;
mod task_lists;
mod text_units;
mod token_savings;
mod tool_actions;
mod version;
mod voice;
mod withdrawn;

use serde::{Deserialize, Serialize};

use crate::enum_names::named_enum;

pub use delta::CheckpointDelta;
pub use delta_encoding::{DeltaError, decode_delta, encode_delta};
pub use edit_form::{EditFormError, parse_edit_form, rebase_edits, render_edit_form};
pub use extract::extract;
pub use merge::merge;
pub use numbering::assign_item_ids;
pub use plan::{
    CompactionInput, CompactionPlan, checkpoint_budget, plan_compaction, sum_turn_tokens,
};
pub use render::{kind_heading, render_checkpoint};
pub use summary::{Summary, SummaryError, parse_summary};
pub use summary_prompt::{
    SUMMARISER_PROMPT_PREFIX, TranscriptChunk, is_summariser_prompt, split_transcript,
    summary_prompt, summary_retry_prompt,
};
pub use token_savings::total_saved_tokens;
pub use version::{CheckpointReason, CheckpointVersion};

named_enum! {
    /// Kind of an item. A brief lists the kinds in this order: kinds that change least come first, so that a provider's
    /// prompt cache can reuse the beginning, and kinds that matter most for the next prompt come last.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum ItemKind {
        /// The overall goal of the conversation.
        Goal => "goal",
        /// A rule of the user that stays in force, quoted from the user's message.
        Directive => "directive",
        /// A decision, with its reason.
        Decision => "decision",
        /// Completed work.
        Done => "done",
        /// An approach that was tried without success.
        Attempt => "attempt",
        /// Other information that no other item contains.
        Note => "note",
        /// A changed file.
        File => "file",
        /// A command and its result.
        Command => "command",
        /// A build, a test run or a similar check, and its result.
        Check => "check",
        /// An obstacle to the work.
        Blocker => "blocker",
        /// Work that is still to be done.
        Pending => "pending",
        /// A request of the user, quoted from the user's message.
        Request => "request",
        /// Work in progress.
        Focus => "focus",
        /// The step that comes next.
        NextStep => "next_step",
    }
}

named_enum! {
    /// Author of an item or of a version.
    pub enum ItemAuthor {
        /// The extraction from the recorded turns.
        Extraction => "record",
        /// A summariser; the recorded turns support the statement.
        Summariser => "summary",
        /// The user.
        User => "person",
    }
}

/// A statement in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointItem {
    /// Id of the item, unique in the checkpoint and in all versions that it was made from.
    pub id: u32,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Text of the item, on one line.
    pub text: String,
    /// Path or command that the item is about. Of two items with the same subject, only the newer one counts. `None` if
    /// the item has no subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Number of the turn that the item comes from.
    pub turn: u32,
    /// Index of the message within that turn, from 0.
    #[serde(rename = "message")]
    pub message_index: u32,
    /// Author of the item.
    #[serde(rename = "by")]
    pub author: ItemAuthor,
    /// Importance of the item. If not all items fit, those with a higher weight are preferred.
    pub weight: u32,
    /// Whether the user pinned the item, so that compaction never drops it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
}

/// State of a loop of checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopState {
    /// Number of rounds of the loop.
    pub iteration: u32,
    /// Checks that passed.
    pub passed: Vec<String>,
    /// Checks that failed.
    pub failed: Vec<String>,
    /// Message of the last failure; `None` if no check failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A summary of a conversation up to a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Items, sorted by kind and then by origin.
    pub items: Vec<CheckpointItem>,
    /// State of the loop of checks; `None` if none is in progress.
    pub loop_state: Option<LoopState>,
}

impl Checkpoint {
    /// Returns `true` if the checkpoint has neither items nor a loop of checks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && self.loop_state.is_none()
    }

    /// Returns the items of a kind.
    #[must_use]
    pub fn items_of_kind(
        &self,
        kind: ItemKind,
    ) -> impl DoubleEndedIterator<Item = &CheckpointItem> {
        self.items.iter().filter(move |item| item.kind == kind)
    }

    /// Returns the item with an id; `None` if there is none.
    #[must_use]
    pub fn find_item(&self, id: u32) -> Option<&CheckpointItem> {
        self.items.iter().find(|item| item.id == id)
    }

    /// Returns the id for the next item: one more than the highest id.
    #[must_use]
    pub fn next_item_id(&self) -> u32 {
        let last = self.items.iter().map(|item| item.id).max();
        last.unwrap_or(0).saturating_add(1)
    }

    /// Returns a copy in which an item is pinned or unpinned; `None` if no item has this id.
    #[must_use]
    pub fn with_item_pinned(&self, id: u32, pinned: bool) -> Option<Self> {
        let mut checkpoint = self.clone();
        let item = checkpoint.items.iter_mut().find(|item| item.id == id)?;
        item.pinned = pinned;
        Some(checkpoint)
    }

    /// Sorts the items by kind, turn, message and id.
    fn into_sorted(mut self) -> Self {
        self.items
            .sort_by_key(|item| (item.kind, item.turn, item.message_index, item.id));
        self
    }
}

#[cfg(test)]
mod tests;
