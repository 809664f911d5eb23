//! Conversation in a request, in one form for all APIs.

use serde::Serialize;
use serde_json::Value;

use super::request::Dialect;

/// Part of the conversation that the model received.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
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
const INJECTED: &[&str] = &[
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
pub(crate) fn conversation(dialect: Dialect, body: &Value) -> Vec<Seen> {
    match dialect {
        Dialect::Anthropic => anthropic(body),
        Dialect::Responses => responses(body),
        Dialect::Gemini => gemini(body),
        Dialect::Unknown => Vec::new(),
    }
}

/// Returns the last prompt that the user wrote.
pub(crate) fn last_prompt(seen: &[Seen]) -> Option<&str> {
    seen.iter().rev().find_map(|piece| match piece {
        Seen::User(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Counts the rounds of tool calls since the last prompt that the user wrote.
pub(crate) fn rounds(seen: &[Seen]) -> usize {
    let start = seen
        .iter()
        .rposition(|piece| matches!(piece, Seen::User(_)));
    let mut rounds = 0;
    let mut calling = false;
    for piece in seen.iter().skip(start.unwrap_or(0)) {
        match piece {
            Seen::Call { .. } if !calling => {
                rounds += 1;
                calling = true;
            }
            Seen::Result(_) => calling = false,
            _ => {}
        }
    }
    rounds
}

fn user(text: &str) -> Seen {
    let start = text.trim_start();
    if INJECTED.iter().any(|known| start.starts_with(known)) {
        Seen::Injected(text.to_owned())
    } else {
        Seen::User(text.to_owned())
    }
}

fn anthropic(body: &Value) -> Vec<Seen> {
    let mut seen: Vec<Seen> = texts(&body["system"])
        .into_iter()
        .map(Seen::System)
        .collect();
    for message in list(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        if let Some(text) = message["content"].as_str() {
            seen.push(by_role(role, text));
        }
        for block in list(&message["content"]) {
            seen.extend(anthropic_block(role, block));
        }
    }
    seen
}

fn anthropic_block(role: &str, block: &Value) -> Option<Seen> {
    match block["type"].as_str()? {
        "text" => Some(by_role(role, block["text"].as_str()?)),
        "thinking" => Some(Seen::Thought(block["thinking"].as_str()?.to_owned())),
        "tool_use" => Some(Seen::Call {
            name: block["name"].as_str()?.to_owned(),
            input: block["input"].clone(),
        }),
        "tool_result" => Some(Seen::Result(texts(&block["content"]).join("\n"))),
        _ => None,
    }
}

fn by_role(role: &str, text: &str) -> Seen {
    match role {
        "user" => user(text),
        "system" | "developer" => Seen::System(text.to_owned()),
        _ => Seen::Assistant(text.to_owned()),
    }
}

fn responses(body: &Value) -> Vec<Seen> {
    let mut seen: Vec<Seen> = texts(&body["instructions"])
        .into_iter()
        .map(Seen::System)
        .collect();
    if let Some(text) = body["input"].as_str() {
        seen.push(user(text));
    }
    for item in list(&body["input"]) {
        seen.extend(responses_item(item));
    }
    seen
}

fn responses_item(item: &Value) -> Vec<Seen> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind == "message" {
        let role = item["role"].as_str().unwrap_or_default();
        let texts = texts(&item["content"]);
        return texts.iter().map(|text| by_role(role, text)).collect();
    }
    if kind == "reasoning" {
        return vec![Seen::Thought(texts(&item["summary"]).join("\n"))];
    }
    if kind.ends_with("_call_output") {
        return vec![Seen::Result(texts(&item["output"]).join("\n"))];
    }
    if kind.ends_with("_call") {
        return vec![responses_call(item)];
    }
    Vec::new()
}

fn responses_call(item: &Value) -> Seen {
    let name = item["name"].as_str().unwrap_or_default();
    let name = match item["namespace"].as_str() {
        Some(space) => format!("{space}__{name}"),
        None => name.to_owned(),
    };
    let arguments = item["arguments"].as_str().unwrap_or_default();
    let input = serde_json::from_str(arguments).unwrap_or_else(|_| item["input"].clone());
    Seen::Call { name, input }
}

fn gemini(body: &Value) -> Vec<Seen> {
    let parts = list(&body["systemInstruction"]["parts"]).iter();
    let mut seen: Vec<Seen> = parts
        .filter_map(|part| Some(Seen::System(part["text"].as_str()?.to_owned())))
        .collect();
    for content in list(&body["contents"]) {
        let role = content["role"].as_str().unwrap_or("user");
        for part in list(&content["parts"]) {
            seen.extend(gemini_part(role, part));
        }
    }
    seen
}

fn gemini_part(role: &str, part: &Value) -> Option<Seen> {
    if let Some(call) = part.get("functionCall") {
        return Some(Seen::Call {
            name: call["name"].as_str()?.to_owned(),
            input: call["args"].clone(),
        });
    }
    if let Some(answer) = part.get("functionResponse") {
        let response = &answer["response"];
        let text = response["output"].as_str().or(response["error"].as_str());
        return Some(Seen::Result(
            text.map_or_else(|| response.to_string(), str::to_owned),
        ));
    }
    let text = part["text"].as_str()?;
    Some(match part["thought"].as_bool() {
        Some(true) => Seen::Thought(text.to_owned()),
        _ => by_role(role, text),
    })
}

/// Returns the texts in a string, or in a list of strings and of blocks with a `text` field.
fn texts(value: &Value) -> Vec<String> {
    if let Some(text) = value.as_str() {
        return vec![text.to_owned()];
    }
    list(value)
        .iter()
        .filter_map(|block| block.as_str().or(block["text"].as_str()))
        .map(str::to_owned)
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
