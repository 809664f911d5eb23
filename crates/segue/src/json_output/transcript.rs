//! JSON output for transcripts.

use segue_catalog::NativeTurn;
use segue_core::encoding::PartShape;
use segue_core::session::Message;
use segue_engine::Transcript;
use serde::Serialize;
use serde_json::Value;

use super::session::{SessionJson, leg_json};
use super::{ErrorJson, UsageJson, format_time};

#[derive(Serialize)]
struct MessageJson<'a> {
    role: &'static str,
    parts: Vec<PartShape<'a>>,
    at: String,
    complete: bool,
}

impl<'a> From<&'a Message> for MessageJson<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            role: message.role.as_str(),
            parts: message.parts.iter().map(PartShape).collect(),
            at: format_time(message.at),
            complete: message.complete,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct TurnJson<'a> {
    n: Option<u32>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    outside: bool,
    messages: Vec<MessageJson<'a>>,
    usage: UsageJson,
    error: Option<ErrorJson>,
    started_at: Option<String>,
    ended_at: Option<String>,
}

impl<'a> TurnJson<'a> {
    /// Builds a turn of a native session. `n` is `None` if only the end of the file was read.
    pub(crate) fn from_native(n: Option<u32>, turn: &'a NativeTurn) -> Self {
        Self {
            n,
            provider: None,
            outside: true,
            state: turn.state.as_str(),
            messages: turn.messages.iter().map(MessageJson::from).collect(),
            usage: turn.usage.into(),
            error: None,
            started_at: turn.started_at.map(format_time),
            ended_at: turn.ended_at.map(format_time),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct TranscriptJson<'a> {
    session: SessionJson,
    legs: Vec<Value>,
    turns: Vec<TurnJson<'a>>,
}

impl<'a> From<&'a Transcript> for TranscriptJson<'a> {
    fn from(transcript: &'a Transcript) -> Self {
        let turns = transcript.turns.iter().map(|entry| TurnJson {
            n: Some(entry.turn.number),
            state: entry.turn.state.as_str(),
            provider: Some(entry.provider.as_str()),
            outside: entry.turn.made_outside,
            messages: entry.messages.iter().map(MessageJson::from).collect(),
            usage: entry.turn.usage.into(),
            error: entry.turn.failure.as_ref().map(ErrorJson::from),
            started_at: Some(format_time(entry.turn.started_at)),
            ended_at: entry.turn.ended_at.map(format_time),
        });
        Self {
            session: SessionJson::new(&transcript.session, transcript.status),
            legs: transcript.legs.iter().map(leg_json).collect(),
            turns: turns.collect(),
        }
    }
}
