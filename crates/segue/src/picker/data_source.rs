//! Interface between the picker and its data. The picker itself does not access a store, an index or an agent.

use jiff::Timestamp;
use segue_core::id::IdError;
use segue_core::session::Tag;
use segue_store::TagChange;

/// Data source of the picker.
///
/// The picker opens several, each on its own thread: one to query, one to read previews and act, and one to refresh.
/// Keys are handled however slow a data source is, and answers to outdated questions are dropped. Errors are single
/// lines for the user.
pub(crate) trait DataSource: 'static {
    /// Returns the conversations that match the search line.
    fn fetch_page(&mut self, query: &RowQuery) -> Result<RowPage, String>;
    /// Returns the preview of a conversation.
    fn load_preview(&mut self, row: &PickerRow) -> Result<RowPreview, String>;
    /// Refreshes the list, and reports the progress.
    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<ListRefresh, String>;
    /// Performs an action on a conversation.
    fn perform_action(
        &mut self,
        row: &PickerRow,
        action: &RowAction,
    ) -> Result<RowActionOutcome, String>;
}

/// Query for conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowQuery {
    /// Typed words and filters. Empty for all conversations.
    pub(crate) search_text: String,
    pub(crate) project_filter: ProjectFilter,
    pub(crate) order: RowOrder,
    /// Number of rows to skip.
    pub(crate) offset: usize,
    /// Maximum number of rows.
    pub(crate) limit: usize,
    /// Version of the data, which increases with every change.
    pub(super) data_version: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ProjectFilter {
    /// The current project only.
    Current,
    #[default]
    All,
}

/// Order of search results. Without a search, the newest are always first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RowOrder {
    #[default]
    Newest,
    Best,
}

/// A page of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPage {
    pub(crate) rows: Vec<PickerRow>,
    pub(crate) total: RowTotal,
    /// Ignored part of the query with the reason, in one line.
    pub(crate) ignored_part: Option<String>,
}

/// Total number of conversations, not only on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowTotal {
    Exact(usize),
    /// A lower bound, because the data source did not count all of them.
    AtLeast(usize),
}

impl RowTotal {
    /// Returns the known number.
    pub(super) fn count(self) -> usize {
        match self {
            Self::Exact(count) | Self::AtLeast(count) => count,
        }
    }
}

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PickerRow {
    /// Unique id, which every command accepts.
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) title: String,
    /// Short name of the project.
    pub(crate) project: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) updated_at: Timestamp,
    pub(crate) turn_count: u32,
    pub(crate) status: RowStatus,
    pub(crate) tags: Vec<String>,
    pub(crate) feature: Option<String>,
    /// Snippet with the matches. `None` without a search.
    pub(crate) snippet: Option<HighlightedText>,
}

impl PickerRow {
    /// Returns the feature and the tags as the user types them.
    pub(super) fn labels(&self) -> impl Iterator<Item = String> {
        let feature = self.feature.iter().map(|feature| format!("@{feature}"));
        feature.chain(self.tags.iter().map(|tag| format!("#{tag}")))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowStatus {
    /// Ready to be resumed.
    Idle,
    /// In use by a process.
    Running,
    /// Archived by segue.
    Archived,
    /// Deleted by its agent.
    Deleted,
}

/// A text in spans, with the matches marked.
pub(crate) type HighlightedText = Vec<TextSpan>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(crate) text: String,
    pub(crate) is_match: bool,
}

/// Preview of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowPreview {
    /// Details that do not fit into a row, one line each: directory, model, tokens.
    pub(crate) details: Vec<String>,
    /// Last turns, newest first.
    pub(crate) last_turns: Vec<PreviewTurn>,
}

/// Prompt and answer of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreviewTurn {
    pub(crate) number: u32,
    pub(crate) prompt: String,
    /// Last message of the agent in the turn.
    pub(crate) answer: String,
}

/// Result of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListRefresh {
    /// The list did not change.
    Unchanged,
    /// The list may have changed.
    Changed,
}

/// An action on a conversation that does not end the picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowAction {
    /// Adds and removes tags, as typed by the user.
    Tag(String),
    Archive,
    Fork,
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowActionOutcome {
    /// Message in one line, most important information first.
    pub(crate) message: String,
    /// Id of the conversation after the action, which changes if segue adopts a native session.
    pub(crate) id: String,
    /// Id of the fork. A search returns only one of several conversations that share a turn, which may be the fork.
    pub(crate) fork_id: Option<String>,
}

/// Parses typed tags. A `-` before a tag removes it.
pub(super) fn parse_tag_change(text: &str) -> Result<TagChange, IdError> {
    let mut change = TagChange::default();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (tags, word) = match word.strip_prefix('-') {
            Some(word) => (&mut change.remove, word),
            None => (&mut change.add, word),
        };
        tags.push(Tag::parse(word.strip_prefix('#').unwrap_or(word))?);
    }
    Ok(change)
}

/// The user's choice, and the action that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PickerChoice {
    pub(crate) row: PickerRow,
    pub(crate) action: ChoiceAction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChoiceAction {
    /// Resumes the conversation with its own agent.
    Resume,
    /// Prints the conversation.
    Show,
    /// Resumes the conversation with this agent.
    Handoff(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_tags_are_added_and_removed() {
        let join_tags = |tags: &[Tag]| {
            tags.iter()
                .map(Tag::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (text, add, remove) in [
            ("urgent, #billing", "urgent billing", ""),
            ("-urgent new -#old", "new", "urgent old"),
            ("", "", ""),
        ] {
            let change = parse_tag_change(text).unwrap();
            assert_eq!(
                (
                    join_tags(&change.add).as_str(),
                    join_tags(&change.remove).as_str()
                ),
                (add, remove),
                "{text}"
            );
        }
        assert!(parse_tag_change("a -").is_err());
    }
}
