//! Recorded requests.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::side_requests::SideRequestKind;
use super::tools;
use super::transcript::{self, TranscriptEntry};

/// API format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiFormat {
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
    #[serde(rename = "dialect")]
    pub api_format: ApiFormat,
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
    #[serde(rename = "side")]
    pub side_request: Option<SideRequestKind>,
    /// HTTP status of the answer; 200 for an answer that stalls or is cut.
    pub status: u16,
}

impl ModelRequest {
    /// Returns the conversation in the request.
    pub fn transcript(&self) -> Vec<TranscriptEntry> {
        transcript::parse_transcript(self.api_format, &self.body)
    }

    /// Returns the user's prompts, oldest first, without the texts that the CLI injects as user messages.
    pub fn prompts(&self) -> Vec<String> {
        let user = |entry| match entry {
            TranscriptEntry::User(text) => Some(text),
            _ => None,
        };
        self.transcript().into_iter().filter_map(user).collect()
    }

    /// Returns the tool results, oldest first.
    pub fn tool_results(&self) -> Vec<String> {
        let result = |entry| match entry {
            TranscriptEntry::Result(text) => Some(text),
            _ => None,
        };
        self.transcript().into_iter().filter_map(result).collect()
    }

    /// Returns `true` if any part of the conversation contains `text`, including the instructions.
    pub fn contains(&self, text: &str) -> bool {
        self.transcript().iter().any(|entry| match entry {
            TranscriptEntry::System(content)
            | TranscriptEntry::User(content)
            | TranscriptEntry::Injected(content)
            | TranscriptEntry::Assistant(content)
            | TranscriptEntry::Thought(content)
            | TranscriptEntry::Result(content) => content.contains(text),
            TranscriptEntry::Call { name, input } => {
                name.contains(text) || value_contains(input, text)
            }
        })
    }

    /// Returns the names of the offered tools.
    pub fn tool_names(&self) -> Vec<String> {
        let offered_tools = tools::parse_offered_tools(self.api_format, &self.body);
        offered_tools
            .into_iter()
            .map(|tool| tool.full_name())
            .collect()
    }
}

fn value_contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| value_contains(item, text)),
        Value::Object(fields) => fields.values().any(|field| value_contains(field, text)),
        scalar => scalar.to_string().contains(text),
    }
}
