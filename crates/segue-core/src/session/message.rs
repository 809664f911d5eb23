//! Messages, of which a turn consists.

use jiff::Timestamp;
use serde::{Serialize, Serializer};

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
///
/// The JSON form is that of the store, and `encoding` decodes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "MessagePart", description = "A part of a message.")
)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text of the message.
    #[serde(serialize_with = "serialize_text")]
    #[cfg_attr(feature = "schema", schemars(with = "TextFields<'static>"))]
    Text(String),
    /// Reasoning that the agent showed.
    #[serde(serialize_with = "serialize_text")]
    #[cfg_attr(feature = "schema", schemars(with = "TextFields<'static>"))]
    Thought(String),
    /// A tool call by the agent.
    FunctionCall {
        /// Agent's ID of the call. The response has the same ID.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        args: Json,
    },
    /// Response of a tool.
    FunctionResponse {
        /// Agent's ID of the call.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Response of the tool.
        #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
        response: Json,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// An image or another file.
    #[cfg_attr(feature = "schema", schemars(with = "InlineData"))]
    InlineData(InlineData),
    /// Data of the agent that segue cannot interpret.
    #[serde(untagged)]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    Unknown(Json),
}

/// Fields of a text or a thought.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct TextFields<'a> {
    /// The text.
    text: &'a str,
}

fn serialize_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    TextFields { text }.serialize(serializer)
}

/// An image or another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InlineData {
    /// Media type of the data.
    pub mime_type: String,
    /// The data in base64; `None` if it was not recorded.
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
