//! A request as it was recorded.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::seen::{self, Seen};
use super::side::Side;
use super::tools;

/// Whose language a request is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    Responses,
    /// Gemini `generateContent`.
    Gemini,
    /// None of ours: it was answered with 404, or is a list of models.
    Unknown,
}

/// One request that the stub was asked.
#[derive(Debug, Clone, Serialize)]
pub struct ModelRequest {
    /// Whose language it is in.
    pub dialect: Dialect,
    /// `POST`, mostly.
    pub method: String,
    /// With the query.
    pub path: String,
    /// In small letters. The keys among them are dummies.
    pub headers: BTreeMap<String, String>,
    /// The model that was asked for.
    pub model: Option<String>,
    /// All that was sent; null if it was not JSON.
    pub body: Value,
    /// Whether the answer was to be streamed.
    pub streaming: bool,
    /// Set if the CLI asked on its own account, not for the sake of the user's turn.
    pub side: Option<Side>,
    /// What it was answered with; 200 for the answers that stall or are cut.
    pub status: u16,
}

impl ModelRequest {
    /// The conversation, piece by piece.
    pub fn seen(&self) -> Vec<Seen> {
        seen::conversation(self.dialect, &self.body)
    }

    /// What the user said, oldest first, without what the CLI put into the user's mouth.
    pub fn prompts(&self) -> Vec<String> {
        let user = |piece| match piece {
            Seen::User(text) => Some(text),
            _ => None,
        };
        self.seen().into_iter().filter_map(user).collect()
    }

    /// What tools answered, oldest first.
    pub fn results(&self) -> Vec<String> {
        let result = |piece| match piece {
            Seen::Result(text) => Some(text),
            _ => None,
        };
        self.seen().into_iter().filter_map(result).collect()
    }

    /// Whether a text is anywhere in what the model was shown, instructions included.
    pub fn contains(&self, text: &str) -> bool {
        self.seen().iter().any(|piece| match piece {
            Seen::System(shown)
            | Seen::User(shown)
            | Seen::Injected(shown)
            | Seen::Assistant(shown)
            | Seen::Thought(shown)
            | Seen::Result(shown) => shown.contains(text),
            Seen::Call { name, input } => name.contains(text) || holds(input, text),
        })
    }

    /// The names of the tools that were offered.
    pub fn tools(&self) -> Vec<String> {
        let offered = tools::offered(self.dialect, &self.body);
        offered.into_iter().map(|tool| tool.full_name()).collect()
    }
}

fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(fields) => fields.values().any(|field| holds(field, text)),
        other => other.to_string().contains(text),
    }
}
