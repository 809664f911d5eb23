//! Transcripts: the turns of a session with their messages.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use segue_core::id::ProviderId;
use segue_core::json::Json;
use segue_core::session::{InlineData, Message, Part, Role, TurnState, Usage};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::error::ErrorDetails;
use crate::session::{ListedLeg, ListedSession, SkippedRecords};

/// Transcript of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SessionTranscript {
    /// Transcript of a native session that segue has not adopted.
    Native {
        /// The session.
        session: Box<ListedSession>,
        /// Always empty, because only sessions of segue have legs.
        legs: Vec<ListedLeg>,
        /// Turns of the session, oldest first.
        turns: Vec<TurnTranscript>,
        /// Content that could not be read; null if only the end of the session was read.
        // Without this function, a missing field would count as null, and every transcript as native.
        #[serde(deserialize_with = "Option::deserialize")]
        skipped: Option<SkippedRecords>,
    },
    /// Transcript of a session of segue.
    Recorded {
        /// The session.
        session: Box<ListedSession>,
        /// Legs of the session, oldest first.
        legs: Vec<ListedLeg>,
        /// Turns of the session, oldest first.
        turns: Vec<TurnTranscript>,
    },
}

/// A turn with its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnTranscript {
    /// Number of the turn; null if only the end of a very large native session was read.
    pub n: Option<u32>,
    /// State of the turn. A turn of a native session without a recorded end is `running`.
    pub state: TurnState,
    /// Agent that answered; absent for a native session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderId>,
    /// Whether the turn was made in the agent's own program.
    pub outside: bool,
    /// Messages of the turn. The first one is the prompt.
    pub messages: Vec<MessageTranscript>,
    /// Token counts from the agent.
    pub usage: Usage,
    /// Error that ended the turn; null if it did not fail.
    pub error: Option<ErrorDetails>,
    /// Time at which the turn began; null if it is unknown.
    pub started_at: Option<Timestamp>,
    /// Time at which the turn ended; null if it has not ended, or if the time is unknown.
    pub ended_at: Option<Timestamp>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageTranscript {
    /// Author of the message.
    pub role: Role,
    /// Parts of the message, in order.
    pub parts: Vec<MessagePart>,
    /// Time of the message.
    pub at: Timestamp,
    /// Whether the message is complete. It is not if it was cut off.
    pub complete: bool,
}

impl From<Message> for MessageTranscript {
    fn from(message: Message) -> Self {
        Self {
            role: message.role,
            parts: message.parts.into_iter().map(MessagePart::from).collect(),
            at: message.at,
            complete: message.complete,
        }
    }
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessagePart {
    /// Text of the message.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning that the agent showed.
    Thought {
        /// The text.
        text: String,
    },
    /// A tool call by the agent.
    FunctionCall {
        /// Agent's ID of the call. The response has the same ID.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        args: VerbatimJson,
    },
    /// Response of a tool.
    FunctionResponse {
        /// Agent's ID of the call.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Response of the tool.
        response: VerbatimJson,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// An image or another file.
    InlineData {
        /// Media type of the data.
        mime_type: String,
        /// The data in base64; null if it was not recorded.
        data: Option<String>,
    },
    /// Data of the agent that segue cannot interpret.
    #[serde(untagged)]
    Unknown(VerbatimJson),
}

impl From<Part> for MessagePart {
    fn from(part: Part) -> Self {
        match part {
            Part::Text(text) => Self::Text { text },
            Part::Thought(text) => Self::Thought { text },
            Part::FunctionCall { id, name, args } => Self::FunctionCall {
                id,
                name,
                args: VerbatimJson(args),
            },
            Part::FunctionResponse {
                call_id,
                name,
                response,
                is_error,
            } => Self::FunctionResponse {
                call_id,
                name,
                response: VerbatimJson(response),
                is_error,
            },
            Part::InlineData(InlineData { mime_type, data }) => {
                Self::InlineData { mime_type, data }
            }
            Part::Unknown(json) => Self::Unknown(VerbatimJson(json)),
        }
    }
}

/// Data of an agent, printed verbatim. Reading it back may change its formatting.
#[derive(Debug, Clone, PartialEq)]
pub struct VerbatimJson(pub Json);

impl Serialize for VerbatimJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VerbatimJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Verbatim text cannot be read in an enum, because Serde has parsed it by then.
        Value::deserialize(deserializer).map(|value| Self(Json::from(value)))
    }
}

impl JsonSchema for VerbatimJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VerbatimJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

#[cfg(test)]
mod tests {
    use segue_core::encoding::PartShape;

    use super::*;

    #[test]
    fn parts_are_printed_as_the_store_writes_them() {
        let json = |text: &str| Json::parse(text).unwrap();
        let parts = [
            Part::Text("a".to_owned()),
            Part::Thought("b".to_owned()),
            Part::FunctionCall {
                id: "1".to_owned(),
                name: "read".to_owned(),
                args: json(r#"{"n": 12345678901234567890123, "n": 1.50}"#),
            },
            Part::FunctionResponse {
                call_id: "1".to_owned(),
                name: "read".to_owned(),
                response: json("[ ]"),
                is_error: true,
            },
            Part::InlineData(InlineData {
                mime_type: "image/png".to_owned(),
                data: None,
            }),
            Part::Unknown(json(r#"{"type": "text", "other": 1}"#)),
            Part::Unknown(json("7")),
        ];
        for part in parts {
            let stored = serde_json::to_string(&PartShape(&part)).unwrap();
            let printed = serde_json::to_string(&MessagePart::from(part)).unwrap();
            assert_eq!(printed, stored);
            let parsed: MessagePart = serde_json::from_str(&printed).unwrap();
            let value: Value = serde_json::from_str(&printed).unwrap();
            assert_eq!(serde_json::to_value(&parsed).unwrap(), value);
        }
    }
}
