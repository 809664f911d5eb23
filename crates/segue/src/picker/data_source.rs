//! Interface between the picker and its data. The picker itself does not access a store, an index or an agent.

use jiff::Timestamp;
use segue_core::id::IdError;
use segue_core::session::Tag;
use segue_store::Retag;

/// Data source of the picker.
///
/// The picker opens several, each on its own thread: one to query, one to read previews and act, and one to refresh.
/// Keys are handled however slow a data source is, and answers to outdated questions are dropped. Errors are single
/// lines for the user.
pub(crate) trait Shelf: 'static {
    /// Returns the conversations that match the search line.
    fn look(&mut self, question: &Question) -> Result<Page, String>;
    /// Returns the preview of a conversation.
    fn preview(&mut self, row: &Row) -> Result<Preview, String>;
    /// Refreshes the list, and reports the progress.
    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Refreshed, String>;
    /// Performs an action on a conversation.
    fn act(&mut self, row: &Row, deed: &Deed) -> Result<Done, String>;
}

/// Query for conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Typed words and filters. Empty for all conversations.
    pub(crate) typed: String,
    pub(crate) place: Place,
    pub(crate) order: Order,
    /// Number of rows to skip.
    pub(crate) from: usize,
    /// Maximum number of rows.
    pub(crate) limit: usize,
    /// Version of the data, which increases with every change.
    pub(super) edition: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The current project only.
    Here,
    Everywhere,
}

/// Order of search results. Without a search, the newest are always first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Newest,
    Best,
}

/// A page of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    pub(crate) total: Total,
    /// Ignored part of the query with the reason, in one line.
    pub(crate) passed_over: Option<String>,
}

/// Total number of conversations, not only on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Total {
    Exactly(usize),
    /// A lower bound, because the data source did not count all of them.
    AtLeast(usize),
}

impl Total {
    /// Returns the known number.
    pub(super) fn known(self) -> usize {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }
}

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// Unique id, which every command accepts.
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) title: String,
    /// Short name of the project.
    pub(crate) project: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) updated_at: Timestamp,
    pub(crate) turns: u32,
    pub(crate) standing: Standing,
    pub(crate) tags: Vec<String>,
    pub(crate) feature: Option<String>,
    /// Snippet with the matches. `None` without a search.
    pub(crate) hit: Option<Marked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Ready to be resumed.
    Idle,
    /// In use by a process.
    Running,
    /// Archived by segue.
    Archived,
    /// Deleted by its agent.
    Gone,
}

/// A text in spans, with the matches marked.
pub(crate) type Marked = Vec<Piece>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) is_hit: bool,
}

/// Preview of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preview {
    /// Details that do not fit into a row, one line each: directory, model, tokens.
    pub(crate) facts: Vec<String>,
    /// Snippet with the matches, longer than that of the row.
    pub(crate) hit: Option<Marked>,
    /// Last turns, newest first.
    pub(crate) turns: Vec<Exchange>,
}

/// Prompt and answer of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) n: u32,
    pub(crate) prompt: String,
    /// Last message of the agent in the turn.
    pub(crate) answer: String,
}

/// Result of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// The list did not change.
    Nothing,
    /// The list may have changed.
    Changed,
}

/// An action on a conversation that does not end the picker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Adds and removes tags, as typed by the user.
    Tag(String),
    Archive,
    Fork,
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// Message in one line, most important information first.
    pub(crate) said: String,
    /// Id of the conversation after the action, which changes if segue adopts a native session.
    pub(crate) id: String,
    /// Id of the fork. A search returns only one of several conversations that share a turn, which may be the fork.
    pub(crate) fork: Option<String>,
}

/// Parses typed tags. A `-` before a tag removes it.
pub(super) fn retag(typed: &str) -> Result<Retag, IdError> {
    let mut retag = Retag::default();
    for word in typed.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (tags, word) = match word.strip_prefix('-') {
            Some(word) => (&mut retag.remove, word),
            None => (&mut retag.add, word),
        };
        tags.push(Tag::parse(word.strip_prefix('#').unwrap_or(word))?);
    }
    Ok(retag)
}

/// The user's choice, and the action that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) row: Row,
    pub(crate) next: Next,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Resumes the conversation with its own agent.
    Resume,
    /// Prints the conversation.
    Show,
    /// Resumes the conversation with this agent.
    Handoff(String),
}

/// Initial options of the picker.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) order: Order,
    /// Initial text of the search line.
    pub(crate) typed: String,
    /// Agents that a conversation can be handed to.
    pub(crate) agents: Vec<String>,
    pub(crate) colour: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_put_on_and_taken_off() {
        let words = |tags: &[Tag]| {
            tags.iter()
                .map(Tag::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (typed, add, remove) in [
            ("urgent, #billing", "urgent billing", ""),
            ("-urgent new -#old", "new", "urgent old"),
            ("", "", ""),
        ] {
            let retag = retag(typed).unwrap();
            assert_eq!(
                (words(&retag.add).as_str(), words(&retag.remove).as_str()),
                (add, remove),
                "{typed}"
            );
        }
        assert!(retag("a -").is_err());
    }
}
