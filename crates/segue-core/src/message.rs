//! What a turn consists of.

use jiff::Timestamp;

use crate::Json;
use crate::names::names;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The person, or the program that prompts in their place.
    User,
    /// The agent.
    Assistant,
    /// A tool, answering the agent.
    Tool,
    /// segue itself, for example to say that a turn was interrupted.
    System,
}

names!(Role {
    User => "user",
    Assistant => "assistant",
    Tool => "tool",
    System => "system",
});

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Words.
    Text(String),
    /// What the agent thought aloud.
    Thought(String),
    /// The agent calls a tool.
    FunctionCall {
        /// The agent's own id for the call; its answer carries the same one.
        id: String,
        /// What is called.
        name: String,
        /// With which arguments.
        args: Json,
    },
    /// A tool answers.
    FunctionResponse {
        /// The id of the call that is answered.
        call_id: String,
        /// What was called.
        name: String,
        /// What came of it.
        response: Json,
        /// Whether it failed.
        is_error: bool,
    },
    /// A picture or another file.
    InlineData(InlineData),
    /// Something this version does not know, kept as it came.
    Unknown(Json),
}

/// A file inside a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineData {
    /// What kind of file it is.
    pub mime_type: String,
    /// Its content in base64, where the agent gave it.
    pub data: Option<String>,
}

/// One utterance in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// When it was finished, or last added to.
    pub at: Timestamp,
    /// Whether it was heard to its end; a message cut off by a crash is not.
    pub complete: bool,
    /// How many tokens a brief needs to tell it; none if nobody has counted yet.
    pub tokens: Option<u64>,
}

impl Message {
    /// A whole message.
    #[must_use]
    pub fn new(role: Role, parts: Vec<Part>, at: Timestamp) -> Self {
        Self {
            role,
            parts,
            at,
            complete: true,
            tokens: None,
        }
    }

    /// A whole message of one text.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        Self::new(role, vec![Part::Text(text.into())], at)
    }

    /// All the words of the message, without thoughts and calls.
    #[must_use]
    pub fn words(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Thought(_)
                | Part::FunctionCall { .. }
                | Part::FunctionResponse { .. }
                | Part::InlineData(_)
                | Part::Unknown(_) => None,
            })
            .collect()
    }
}
