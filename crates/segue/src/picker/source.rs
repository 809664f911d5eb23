//! What the picker is told, and by whom. It knows no store, no index and no agent itself.

use jiff::Timestamp;
use segue_core::{IdError, Tag};
use segue_store::Retag;

/// Where conversations come from.
///
/// The picker opens several, each on a thread of its own: one that looks, one that reads and acts, one that refreshes.
/// However slow one is, keys are heard meanwhile, and an answer to an older question is dropped. Errors are one line
/// each, for the person.
pub(crate) trait Shelf: 'static {
    /// The conversations for what was typed.
    fn look(&mut self, question: &Question) -> Result<Page, String>;
    /// What is shown of one beside the list.
    fn preview(&mut self, row: &Row) -> Result<Preview, String>;
    /// Brings the list up to date; says on the way what is being read.
    fn refresh(&mut self, progress: &mut dyn FnMut(&str)) -> Result<Refreshed, String>;
    /// Does something to one.
    fn act(&mut self, row: &Row, deed: &Deed) -> Result<Done, String>;
}

/// Which conversations are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Words and filters as they were typed; nothing for all of them.
    pub(crate) typed: String,
    pub(crate) place: Place,
    pub(crate) order: Order,
    /// How many to pass by.
    pub(crate) from: usize,
    /// How many at most.
    pub(crate) limit: usize,
    /// Which state of the shelf it is about: more than before after each change.
    pub(super) edition: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Only those of the project at hand.
    Here,
    Everywhere,
}

/// In which order hits come; where nothing was typed, the newest are always first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Newest,
    Best,
}

/// Some of the conversations that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Row>,
    pub(crate) total: Total,
    /// What of the question was passed over, and why, in one line.
    pub(crate) passed_over: Option<String>,
}

/// How many there are in all, not only on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Total {
    Exactly(usize),
    /// So many, and more that nobody counted.
    AtLeast(usize),
}

impl Total {
    /// As far as is known.
    pub(super) fn known(self) -> usize {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }
}

/// A conversation in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// What every command takes for it; no two have the same.
    pub(crate) id: String,
    pub(crate) provider: String,
    pub(crate) title: String,
    /// The project, in short.
    pub(crate) project: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) updated_at: Timestamp,
    pub(crate) turns: u32,
    pub(crate) standing: Standing,
    pub(crate) tags: Vec<String>,
    pub(crate) feature: Option<String>,
    /// Where the words were found.
    pub(crate) hit: Option<Marked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There to be resumed.
    Idle,
    /// Somebody is at work in it.
    Running,
    /// segue has a copy of it.
    Archived,
    /// The agent deleted it.
    Gone,
}

/// A text in pieces, those that were searched for marked.
pub(crate) type Marked = Vec<Piece>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) is_hit: bool,
}

/// What is shown of a conversation beside the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Preview {
    /// What a row has no room for: the directory, the model, the tokens, one line each.
    pub(crate) facts: Vec<String>,
    /// Where the words were found, with more around them than the row has.
    pub(crate) hit: Option<Marked>,
    /// Its last turns, the newest first.
    pub(crate) turns: Vec<Exchange>,
}

/// What was said in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) n: u32,
    pub(crate) prompt: String,
    /// The agent's last words in it.
    pub(crate) answer: String,
}

/// What a refresh found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// Everything is as it was.
    Nothing,
    /// The list may be another one now.
    Changed,
}

/// What is done to a conversation while the picker stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Puts tags on it and takes them off; the text is as it was typed.
    Tag(String),
    Archive,
    Fork,
}

/// What came of a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    /// In one line, the most important first.
    pub(crate) said: String,
    /// What the conversation is called now: one that only an agent had is called otherwise once segue has it.
    pub(crate) id: String,
    /// What its fork is called. Of those that share a turn a search finds one, which may be this.
    pub(crate) fork: Option<String>,
}

/// The tags in what was typed; those with a `-` before them are taken off.
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

/// What was chosen, and what comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) row: Row,
    pub(crate) next: Next,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Goes on with it in its own agent.
    Resume,
    /// Prints it.
    Show,
    /// Goes on with it in this agent.
    Handoff(String),
}

/// How the picker begins.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) order: Order,
    /// What is in the search line at first.
    pub(crate) typed: String,
    /// The agents that a conversation can be handed to.
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
