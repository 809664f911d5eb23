//! Drafts as messages.

use jiff::Timestamp;
use segue_core::session::{Message, Part, Role};

use crate::DraftKind;

impl DraftKind {
    /// Returns the name of the kind, as a store records it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thought => "thought",
        }
    }

    /// Returns the kind with a name. A kind of a later version is a text.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "thought" => Self::Thought,
            _ => Self::Text,
        }
    }
}

/// Incomplete messages of a turn, which drafts are joined to: the text that the agent had sent when the turn was cut
/// off.
#[derive(Debug, Default)]
pub struct DraftMessages(Vec<(u32, Message)>);

impl DraftMessages {
    /// Adds the next draft. Drafts of one message follow each other.
    pub fn add(&mut self, seq: u32, kind: DraftKind, text: &str, at: Timestamp) {
        if let Some((last, message)) = self.0.last_mut()
            && *last == seq
            && let Some(Part::Text(content) | Part::Thought(content)) = message.parts.first_mut()
        {
            content.push_str(text);
            message.at = at;
            return;
        }
        let part = match kind {
            DraftKind::Text => Part::Text(text.to_owned()),
            DraftKind::Thought => Part::Thought(text.to_owned()),
        };
        let mut message = Message::new(Role::Assistant, vec![part], at);
        message.complete = false;
        self.0.push((seq, message));
    }

    /// Returns the complete messages and these incomplete ones in the order of their numbers.
    #[must_use]
    pub fn merge_with(self, mut complete: Vec<(u32, Message)>) -> Vec<Message> {
        complete.extend(self.0);
        complete.sort_by_key(|(seq, _)| *seq);
        complete.into_iter().map(|(_, message)| message).collect()
    }
}
