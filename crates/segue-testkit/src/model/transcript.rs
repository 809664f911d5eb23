//! Conversation in a request, in one form for all APIs.

use serde::Serialize;
use serde_json::Value;

use super::request::ApiFormat;

/// Part of the conversation that the model received.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// Instructions: system prompts and developer messages.
    System(String),
    /// Prompt of the user.
    User(String),
    /// Text that the CLI sends as a user message: environment, reminders, interruptions.
    Injected(String),
    /// Earlier answer of the model.
    Assistant(String),
    /// Earlier thought of the model.
    Thought(String),
    /// Earlier tool call of the model.
    Call {
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        input: Value,
    },
    /// Result of a tool call.
    Result(String),
}

/// Prefixes of the texts that a CLI injects as user messages.
const INJECTED_PREFIXES: &[&str] = &[
    "<system-reminder>",
    "<session_context>",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<skills_instructions>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<turn_aborted>",
    "<model_switch>",
    "<user_shell_command>",
    "<hook_context>",
    "<local-command-",
    "<command-name>",
    "<command-message>",
    "# AGENTS.md instructions",
    "[Request interrupted by user",
    "Another language model started to solve this problem",
    "This session is being continued from a previous conversation",
    "This is the Gemini CLI. We are setting up the context",
];

/// Returns the conversation in the body of a request, in order.
pub(crate) fn parse_transcript(api_format: ApiFormat, body: &Value) -> Vec<TranscriptEntry> {
    match api_format {
        ApiFormat::Anthropic => parse_anthropic(body),
        ApiFormat::Responses => parse_responses(body),
        ApiFormat::Gemini => parse_gemini(body),
        ApiFormat::Unknown => Vec::new(),
    }
}

/// Returns the last prompt that the user wrote.
pub(crate) fn find_last_prompt(entries: &[TranscriptEntry]) -> Option<&str> {
    entries.iter().rev().find_map(|entry| match entry {
        TranscriptEntry::User(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Counts the rounds of tool calls since the last prompt that the user wrote.
pub(crate) fn count_tool_rounds(entries: &[TranscriptEntry]) -> usize {
    let start = entries
        .iter()
        .rposition(|entry| matches!(entry, TranscriptEntry::User(_)));
    let mut rounds = 0;
    let mut is_in_round = false;
    for entry in entries.iter().skip(start.unwrap_or(0)) {
        match entry {
            TranscriptEntry::Call { .. } if !is_in_round => {
                rounds += 1;
                is_in_round = true;
            }
            TranscriptEntry::Result(_) => is_in_round = false,
            _ => {}
        }
    }
    rounds
}

fn parse_user_text(text: &str) -> TranscriptEntry {
    let trimmed = text.trim_start();
    if INJECTED_PREFIXES
        .iter()
        .any(|prefix| trimmed.starts_with(prefix))
    {
        TranscriptEntry::Injected(text.to_owned())
    } else {
        TranscriptEntry::User(text.to_owned())
    }
}

fn parse_anthropic(body: &Value) -> Vec<TranscriptEntry> {
    let mut entries: Vec<TranscriptEntry> = collect_texts(&body["system"])
        .into_iter()
        .map(TranscriptEntry::System)
        .collect();
    for message in as_list(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        if let Some(text) = message["content"].as_str() {
            entries.push(entry_for_role(role, text));
        }
        for block in as_list(&message["content"]) {
            entries.extend(parse_anthropic_block(role, block));
        }
    }
    entries
}

fn parse_anthropic_block(role: &str, block: &Value) -> Option<TranscriptEntry> {
    match block["type"].as_str()? {
        "text" => Some(entry_for_role(role, block["text"].as_str()?)),
        "thinking" => Some(TranscriptEntry::Thought(
            block["thinking"].as_str()?.to_owned(),
        )),
        "tool_use" => Some(TranscriptEntry::Call {
            name: block["name"].as_str()?.to_owned(),
            input: block["input"].clone(),
        }),
        "tool_result" => Some(TranscriptEntry::Result(
            collect_texts(&block["content"]).join("\n"),
        )),
        _ => None,
    }
}

fn entry_for_role(role: &str, text: &str) -> TranscriptEntry {
    match role {
        "user" => parse_user_text(text),
        "system" | "developer" => TranscriptEntry::System(text.to_owned()),
        _ => TranscriptEntry::Assistant(text.to_owned()),
    }
}

fn parse_responses(body: &Value) -> Vec<TranscriptEntry> {
    let mut entries: Vec<TranscriptEntry> = collect_texts(&body["instructions"])
        .into_iter()
        .map(TranscriptEntry::System)
        .collect();
    if let Some(text) = body["input"].as_str() {
        entries.push(parse_user_text(text));
    }
    for item in as_list(&body["input"]) {
        entries.extend(parse_responses_item(item));
    }
    entries
}

fn parse_responses_item(item: &Value) -> Vec<TranscriptEntry> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind == "message" {
        let role = item["role"].as_str().unwrap_or_default();
        let texts = collect_texts(&item["content"]);
        return texts
            .iter()
            .map(|text| entry_for_role(role, text))
            .collect();
    }
    if kind == "reasoning" {
        return vec![TranscriptEntry::Thought(
            collect_texts(&item["summary"]).join("\n"),
        )];
    }
    if kind.ends_with("_call_output") {
        return vec![TranscriptEntry::Result(
            collect_texts(&item["output"]).join("\n"),
        )];
    }
    if kind.ends_with("_call") {
        return vec![parse_responses_call(item)];
    }
    Vec::new()
}

fn parse_responses_call(item: &Value) -> TranscriptEntry {
    let name = item["name"].as_str().unwrap_or_default();
    let name = match item["namespace"].as_str() {
        Some(namespace) => format!("{namespace}__{name}"),
        None => name.to_owned(),
    };
    let arguments = item["arguments"].as_str().unwrap_or_default();
    let input = serde_json::from_str(arguments).unwrap_or_else(|_| item["input"].clone());
    TranscriptEntry::Call { name, input }
}

fn parse_gemini(body: &Value) -> Vec<TranscriptEntry> {
    let parts = as_list(&body["systemInstruction"]["parts"]).iter();
    let mut entries: Vec<TranscriptEntry> = parts
        .filter_map(|part| Some(TranscriptEntry::System(part["text"].as_str()?.to_owned())))
        .collect();
    for content in as_list(&body["contents"]) {
        let role = content["role"].as_str().unwrap_or("user");
        for part in as_list(&content["parts"]) {
            entries.extend(parse_gemini_part(role, part));
        }
    }
    entries
}

fn parse_gemini_part(role: &str, part: &Value) -> Option<TranscriptEntry> {
    if let Some(call) = part.get("functionCall") {
        return Some(TranscriptEntry::Call {
            name: call["name"].as_str()?.to_owned(),
            input: call["args"].clone(),
        });
    }
    if let Some(function_response) = part.get("functionResponse") {
        let response = &function_response["response"];
        let text = response["output"].as_str().or(response["error"].as_str());
        return Some(TranscriptEntry::Result(
            text.map_or_else(|| response.to_string(), str::to_owned),
        ));
    }
    let text = part["text"].as_str()?;
    Some(match part["thought"].as_bool() {
        Some(true) => TranscriptEntry::Thought(text.to_owned()),
        _ => entry_for_role(role, text),
    })
}

/// Returns the texts in a string, or in a list of strings and of blocks with a `text` field.
fn collect_texts(value: &Value) -> Vec<String> {
    if let Some(text) = value.as_str() {
        return vec![text.to_owned()];
    }
    as_list(value)
        .iter()
        .filter_map(|block| block.as_str().or(block["text"].as_str()))
        .map(str::to_owned)
        .collect()
}

fn as_list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
