//! Side requests: requests that a CLI sends for its own purposes, for a title, a summary, the choice of a model or the
//! risk of a tool call.
//!
//! A side request must not use up a step of a script. It needs an answer that the CLI accepts, because otherwise the
//! turn would fail for a reason that no test is about.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::request::Dialect;
use super::script::Script;
use super::tools;
use super::transcript::{self, Seen};

/// Purpose of a side request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Object of a given schema.
    Object,
    /// Title, or a one-line description of the session.
    Title,
    /// Summary that replaces the conversation.
    Summary,
    /// Check that the model can be reached.
    Probe,
    /// Suggestion for the user's next prompt.
    Suggestion,
}

/// Phrases that identify a request for a summary, in lower case.
const SUMMARIES: &[&str] = &[
    "context checkpoint compaction",
    "your task is to create a detailed summary of the conversation",
    "your task is to create a detailed summary of the recent",
    "state_snapshot",
    "provide a detailed prompt for continuing our conversation",
    "update the anchored summary",
    "create a new anchored summary",
];
/// Phrases that identify a request for a title, in lower case.
const TITLES: &[&str] = &[
    "title generator",
    "generate a concise title",
    "generate a title",
    "generate a short title",
    "concise, sentence-case title",
    "summarize the user's primary intent",
    "name this session",
    "kebab-case",
];

/// Returns the purpose of a side request. `None` if the request belongs to the user's turn.
pub(crate) fn of(dialect: Dialect, body: &Value, seen: &[Seen]) -> Option<Side> {
    if schema(dialect, body).is_some() {
        return Some(Side::Object);
    }
    if body["max_tokens"] == 1 {
        return Some(Side::Probe);
    }
    let prompt = transcript::last_prompt(seen)
        .unwrap_or_default()
        .to_lowercase();
    if prompt.starts_with("[suggestion mode") {
        return Some(Side::Suggestion);
    }
    // A summary that segue requests is a turn, although the request offers no tools.
    if prompt.starts_with("[a summary for segue]") {
        return None;
    }
    let mentioned = |text: &str, known: &[&str]| known.iter().any(|known| text.contains(known));
    if mentioned(&prompt, SUMMARIES) {
        return Some(Side::Summary);
    }
    if !tools::offered(dialect, body).is_empty() {
        return None;
    }
    let instructions = seen.iter().filter_map(|piece| match piece {
        Seen::System(text) => Some(text.to_lowercase()),
        _ => None,
    });
    let all: Vec<String> = instructions.chain([prompt]).collect();
    if all.iter().any(|text| mentioned(text, SUMMARIES)) {
        return Some(Side::Summary);
    }
    let title = all.iter().any(|text| mentioned(text, TITLES));
    title.then_some(Side::Title)
}

/// Returns the answer to a side request.
pub(crate) fn answer(side: Side, dialect: Dialect, body: &Value, script: &Script) -> String {
    match side {
        Side::Object => schema(dialect, body)
            .map_or(Value::Null, |schema| example("", schema))
            .to_string(),
        Side::Title => script.title.clone().unwrap_or("Stub title".to_owned()),
        Side::Summary => summary(dialect, script),
        Side::Probe => "ok".to_owned(),
        Side::Suggestion => "go on".to_owned(),
    }
}

/// Returns the summary, in the tags that Claude Code and Gemini CLI expect.
fn summary(dialect: Dialect, script: &Script) -> String {
    let text = script.summary.as_deref().unwrap_or("Stub summary.");
    match dialect {
        Dialect::Anthropic => format!("<summary>{text}</summary>"),
        Dialect::Gemini => format!("<state_snapshot>{text}</state_snapshot>"),
        Dialect::Responses | Dialect::Unknown => text.to_owned(),
    }
}

/// Returns the schema that the answer must match, if the request contains one.
fn schema(dialect: Dialect, body: &Value) -> Option<&Value> {
    let place = match dialect {
        Dialect::Anthropic => body.pointer("/output_config/format/schema"),
        Dialect::Responses => body.pointer("/text/format/schema"),
        Dialect::Gemini => body
            .pointer("/generationConfig/responseJsonSchema")
            .or(body.pointer("/generationConfig/responseSchema")),
        Dialect::Unknown => None,
    };
    place.filter(|schema| schema.is_object())
}

/// Returns the simplest value that matches a schema. If the schema lists choices, a permissive one such as `allow` is
/// preferred, so that the CLI proceeds.
pub(crate) fn example(name: &str, schema: &Value) -> Value {
    const KIND: [&str; 4] = ["allow", "approve", "low", "flash"];
    if let Some(choices) = schema["enum"].as_array() {
        let kind = choices
            .iter()
            .find(|choice| choice.as_str().is_some_and(|text| KIND.contains(&text)));
        return kind.or(choices.first()).cloned().unwrap_or_default();
    }
    let kind = schema["type"].as_str();
    let kind = kind.or_else(|| schema["type"][0].as_str());
    match kind.unwrap_or_default().to_lowercase().as_str() {
        "object" => object(schema),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        _ if name == "title" => json!("Stub title"),
        _ => json!("stub"),
    }
}

fn object(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let filled: Map<String, Value> = properties
        .map(|(name, schema)| (name.clone(), example(name, schema)))
        .collect();
    Value::Object(filled)
}
