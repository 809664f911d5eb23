//! Recorded requests.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::side_requests::Side;
use super::tools;
use super::transcript::{self, Seen};

/// API format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// `OpenAI` Responses.
    Responses,
    /// Gemini `generateContent`.
    Gemini,
    /// None of the supported formats: a list of models, or a request that the stub answered with 404.
    Unknown,
}

/// A request to the stub.
#[derive(Debug, Clone, Serialize)]
pub struct ModelRequest {
    /// API format of the request.
    pub dialect: Dialect,
    /// HTTP method, usually `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers, with lower-case names. The API keys in them are dummies.
    pub headers: BTreeMap<String, String>,
    /// Requested model.
    pub model: Option<String>,
    /// Complete body; null if it was not JSON.
    pub body: Value,
    /// Whether the client requested a streamed answer.
    pub streaming: bool,
    /// Kind of side request, which the CLI sends for its own purposes. `None` for a request of the user's turn.
    pub side: Option<Side>,
    /// HTTP status of the answer; 200 for an answer that stalls or is cut.
    pub status: u16,
}

impl ModelRequest {
    /// Returns the conversation in the request.
    pub fn seen(&self) -> Vec<Seen> {
        transcript::conversation(self.dialect, &self.body)
    }

    /// Returns the user's prompts, oldest first, without the texts that the CLI injects as user messages.
    pub fn prompts(&self) -> Vec<String> {
        let user = |piece| match piece {
            Seen::User(text) => Some(text),
            _ => None,
        };
        self.seen().into_iter().filter_map(user).collect()
    }

    /// Returns the tool results, oldest first.
    pub fn results(&self) -> Vec<String> {
        let result = |piece| match piece {
            Seen::Result(text) => Some(text),
            _ => None,
        };
        self.seen().into_iter().filter_map(result).collect()
    }

    /// Returns `true` if any part of the conversation contains `text`, including the instructions.
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

    /// Returns the names of the offered tools.
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
