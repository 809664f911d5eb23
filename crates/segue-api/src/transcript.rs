//! Transcripts: the turns of a session with their messages.

use jiff::Timestamp;
use schemars::JsonSchema;
use segue_core::encoding::decode_part;
use segue_core::id::ProviderId;
use segue_core::session::{Message, Part, Role, TurnState, Usage};
use serde::{Deserialize, Deserializer, Serialize};
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
    #[serde(deserialize_with = "deserialize_parts")]
    pub parts: Vec<Part>,
    /// Time of the message.
    pub at: Timestamp,
    /// Whether the message is complete. It is not if it was cut off.
    pub complete: bool,
}

impl From<Message> for MessageTranscript {
    fn from(message: Message) -> Self {
        Self {
            role: message.role,
            parts: message.parts,
            at: message.at,
            complete: message.complete,
        }
    }
}

/// Reads parts from parsed JSON. Their data may be formatted differently afterwards, because a transcript is read as an
/// enum, which Serde parses before it chooses the variant.
fn deserialize_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    let parts = Vec::<Value>::deserialize(deserializer)?;
    let parts = parts.iter().map(|part| decode_part(&part.to_string()));
    Ok(parts.collect())
}

#[cfg(test)]
mod tests {
    use segue_core::encoding::encode_parts;
    use segue_core::json::Json;
    use segue_core::session::InlineData;

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
        let stored = encode_parts(&parts);
        let at = jiff::Timestamp::UNIX_EPOCH;
        let message = MessageTranscript::from(Message::new(Role::Assistant, parts.into(), at));
        let printed = serde_json::to_string(&message).unwrap();
        let stored_parts = stored
            .strip_prefix(r#"{"v":1,"#)
            .unwrap()
            .trim_end_matches('}');
        assert!(printed.contains(stored_parts), "{printed}\n{stored}");
        let parsed: MessageTranscript = serde_json::from_str(&printed).unwrap();
        let value: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(serde_json::to_value(&parsed).unwrap(), value);
    }
}
