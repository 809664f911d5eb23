//! Messages, of which a turn consists.

use jiff::Timestamp;

use crate::enum_names::named_enum;
use crate::json::Json;

named_enum! {
    /// Author of a message.
    pub enum Role {
        /// The user, or a program that sends prompts on the user's behalf.
        User => "user",
        /// The agent.
        Assistant => "assistant",
        /// A tool that responds to the agent.
        Tool => "tool",
        /// segue, for example to record that a turn was interrupted.
        System => "system",
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text of the message.
    Text(String),
    /// Reasoning that the agent showed.
    Thought(String),
    /// A tool call by the agent.
    FunctionCall {
        /// Agent's id of the call. The response has the same id.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        args: Json,
    },
    /// Response of a tool.
    FunctionResponse {
        /// Id of the call that the response belongs to.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Result of the call.
        response: Json,
        /// Whether the call failed.
        is_error: bool,
    },
    /// An image or another file.
    InlineData(InlineData),
    /// A part that this version cannot interpret, stored verbatim.
    Unknown(Json),
}

/// A file inside a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineData {
    /// MIME type of the file.
    pub mime_type: String,
    /// Content in base64. `None` if the agent did not include it.
    pub data: Option<String>,
}

/// A message of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Content of the message.
    pub parts: Vec<Part>,
    /// Time at which the message was completed or last extended.
    pub at: Timestamp,
    /// Whether the message was received to its end. `false` for a message that a crash cut off.
    pub complete: bool,
    /// Tokens that the message needs in a brief. `None` if not counted yet.
    pub tokens: Option<u64>,
}

impl Message {
    /// Creates a complete message.
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

    /// Creates a complete message with a single text part.
    #[must_use]
    pub fn from_text(role: Role, text: impl Into<String>, at: Timestamp) -> Self {
        Self::new(role, vec![Part::Text(text.into())], at)
    }

    /// Returns the text of all text parts, without thoughts and tool calls.
    #[must_use]
    pub fn plain_text(&self) -> String {
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
