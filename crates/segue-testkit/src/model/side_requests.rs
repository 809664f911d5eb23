//! Side requests: requests that a CLI sends for its own purposes, for a title, a summary, the choice of a model or the
//! risk of a tool call.
//!
//! A side request must not use up a step of a script. It needs an answer that the CLI accepts, because otherwise the
//! turn would fail for a reason that no test is about.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::request::ApiFormat;
use super::script::Script;
use super::tools;
use super::transcript::{self, TranscriptEntry};

/// Purpose of a side request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SideRequestKind {
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
const SUMMARY_PHRASES: &[&str] = &[
    "context checkpoint compaction",
    "your task is to create a detailed summary of the conversation",
    "your task is to create a detailed summary of the recent",
    "state_snapshot",
    "provide a detailed prompt for continuing our conversation",
    "update the anchored summary",
    "create a new anchored summary",
];
/// Phrases that identify a request for a title, in lower case.
const TITLE_PHRASES: &[&str] = &[
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
pub(crate) fn classify_side_request(
    api_format: ApiFormat,
    body: &Value,
    entries: &[TranscriptEntry],
) -> Option<SideRequestKind> {
    if find_schema(api_format, body).is_some() {
        return Some(SideRequestKind::Object);
    }
    if body["max_tokens"] == 1 {
        return Some(SideRequestKind::Probe);
    }
    let prompt = transcript::find_last_prompt(entries)
        .unwrap_or_default()
        .to_lowercase();
    if prompt.starts_with("[suggestion mode") {
        return Some(SideRequestKind::Suggestion);
    }
    // A summary that segue requests is a turn, although the request offers no tools.
    if prompt.starts_with("[a summary for segue]") {
        return None;
    }
    let mentions_any =
        |text: &str, phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if mentions_any(&prompt, SUMMARY_PHRASES) {
        return Some(SideRequestKind::Summary);
    }
    if !tools::parse_offered_tools(api_format, body).is_empty() {
        return None;
    }
    let instructions = entries.iter().filter_map(|entry| match entry {
        TranscriptEntry::System(text) => Some(text.to_lowercase()),
        _ => None,
    });
    let searched_texts: Vec<String> = instructions.chain([prompt]).collect();
    if searched_texts
        .iter()
        .any(|text| mentions_any(text, SUMMARY_PHRASES))
    {
        return Some(SideRequestKind::Summary);
    }
    let is_title_request = searched_texts
        .iter()
        .any(|text| mentions_any(text, TITLE_PHRASES));
    is_title_request.then_some(SideRequestKind::Title)
}

/// Returns the answer to a side request.
pub(crate) fn answer_side_request(
    kind: SideRequestKind,
    api_format: ApiFormat,
    body: &Value,
    script: &Script,
) -> String {
    match kind {
        SideRequestKind::Object => find_schema(api_format, body)
            .map_or(Value::Null, |schema| example_value("", schema))
            .to_string(),
        SideRequestKind::Title => script.title.clone().unwrap_or("Stub title".to_owned()),
        SideRequestKind::Summary => render_summary(api_format, script),
        SideRequestKind::Probe => "ok".to_owned(),
        SideRequestKind::Suggestion => "continue".to_owned(),
    }
}

/// Returns the summary, in the tags that Claude Code and Gemini CLI expect.
fn render_summary(api_format: ApiFormat, script: &Script) -> String {
    let text = script.summary.as_deref().unwrap_or("Stub summary.");
    match api_format {
        ApiFormat::Anthropic => format!("<summary>{text}</summary>"),
        ApiFormat::Gemini => format!("<state_snapshot>{text}</state_snapshot>"),
        ApiFormat::Responses | ApiFormat::Unknown => text.to_owned(),
    }
}

/// Returns the schema that the answer must match, if the request contains one.
fn find_schema(api_format: ApiFormat, body: &Value) -> Option<&Value> {
    let candidate = match api_format {
        ApiFormat::Anthropic => body.pointer("/output_config/format/schema"),
        ApiFormat::Responses => body.pointer("/text/format/schema"),
        ApiFormat::Gemini => body
            .pointer("/generationConfig/responseJsonSchema")
            .or(body.pointer("/generationConfig/responseSchema")),
        ApiFormat::Unknown => None,
    };
    candidate.filter(|schema| schema.is_object())
}

/// Returns the simplest value that matches a schema. If the schema lists choices, a permissive one such as `allow` is
/// preferred, so that the CLI proceeds.
pub(crate) fn example_value(name: &str, schema: &Value) -> Value {
    const PERMISSIVE_CHOICES: [&str; 4] = ["allow", "approve", "low", "flash"];
    if let Some(choices) = schema["enum"].as_array() {
        let preferred = choices.iter().find(|choice| {
            choice
                .as_str()
                .is_some_and(|text| PERMISSIVE_CHOICES.contains(&text))
        });
        return preferred.or(choices.first()).cloned().unwrap_or_default();
    }
    let type_name = schema["type"].as_str();
    let type_name = type_name.or_else(|| schema["type"][0].as_str());
    match type_name.unwrap_or_default().to_lowercase().as_str() {
        "object" => example_object(schema),
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        _ if name == "title" => json!("Stub title"),
        _ => json!("stub"),
    }
}

fn example_object(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields: Map<String, Value> = properties
        .map(|(name, schema)| (name.clone(), example_value(name, schema)))
        .collect();
    Value::Object(fields)
}
