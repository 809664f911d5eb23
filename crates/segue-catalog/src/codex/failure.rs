//! Whether a tool failed.
//!
//! Results are texts for the model, so it is told in words: by the code that a command ended with, or by how a
//! refusal begins. Where they do not tell, an event before them does.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::json::Text;

/// How results begin that are none.
const REFUSALS: &[&str] = &[
    "unsupported call:",
    "unsupported custom tool call:",
    "failed to parse function arguments",
    "failed in sandbox",
    "execution error",
    "exec_command failed",
    "write_stdin failed",
    "apply_patch verification failed",
    "patch rejected",
    "exec command rejected",
    "aborted",
];

/// Codes stand near the beginning of a text, before what the command printed.
const HEADER: usize = 400;

/// Whether a result tells that its tool failed. It is JSON as it stands in the line, so quotes and line feeds
/// in it are escaped.
pub(super) fn tells(output: &str) -> bool {
    let Some(text) = output.strip_prefix('"') else {
        // Older versions could write an object around the text.
        return output.starts_with('{') && has(output, "\"success\":false");
    };
    if REFUSALS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    let mut end = text.len().min(HEADER);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let header = text.get(..end).unwrap_or_default();
    let header = header
        .split_once("Output:\\n")
        .map_or(header, |(header, _)| header);
    if header.contains("\\naborted by user") {
        return true;
    }
    let code = if text.starts_with("{\\\"output\\\":") {
        text.rsplit_once("\\\"exit_code\\\":").map(|(_, code)| code)
    } else if let Some(code) = header.strip_prefix("Exit code: ") {
        Some(code)
    } else {
        header
            .split_once("Process exited with code ")
            .map(|(_, code)| code)
    };
    code.is_some_and(|code| !code.trim_start().starts_with('0'))
}

/// How a command or a tool ended, as an event tells it.
#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow, default)]
    call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    id: Option<Text<'a>>,
    #[serde(borrow, default)]
    status: Option<Text<'a>>,
    #[serde(default)]
    exit_code: Option<i64>,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    result: Option<Outcome>,
}

/// What a tool of a server answered; older versions say first whether it did.
#[derive(Deserialize)]
struct Outcome {
    #[serde(default, rename = "Err")]
    err: Option<IgnoredAny>,
    #[serde(default, rename = "Ok")]
    ok: Option<Flag>,
    #[serde(default, alias = "isError")]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct Flag {
    #[serde(default, alias = "isError")]
    is_error: Option<bool>,
}

impl End<'_> {
    fn failed(&self) -> bool {
        let refused = |outcome: &Outcome| {
            let flag = outcome.ok.as_ref().and_then(|flag| flag.is_error);
            outcome.err.is_some() || flag.or(outcome.is_error) == Some(true)
        };
        matches!(self.status.as_deref(), Some("failed" | "declined"))
            || self.exit_code.is_some_and(|code| code != 0)
            || self.success == Some(false)
            || self.result.as_ref().is_some_and(refused)
    }
}

/// The call that an event tells the failure of.
pub(super) fn told(event: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        item: End<'a>,
    }
    if tells_of_success(event) {
        return None;
    }
    let read = || serde_json::Deserializer::from_str(event);
    let end = match Wrapped::deserialize(&mut read()) {
        Ok(wrapped) => wrapped.item,
        Err(_) => End::deserialize(&mut read()).ok()?,
    };
    let id = end.call_id.as_ref().or(end.id.as_ref())?;
    end.failed().then(|| id.to_string())
}

/// Most events do, at length, and some tell only what is said elsewhere.
fn tells_of_success(event: &str) -> bool {
    const ELSEWHERE: &[&str] = &["UserMessage", "AgentMessage", "Reasoning"];
    const SIGNS: &[&str] = &["\"failed\"", "\"declined\"", ":false", ":true", "\"Err\":"];
    let item = event.split_once("\"item\":{\"type\":\"");
    let item = item.and_then(|(_, item)| item.split_once('"'));
    match item {
        Some((kind, _)) if ELSEWHERE.contains(&kind) => true,
        // How a command ended stands before what it printed.
        Some(("CommandExecution", item)) => has(item, "\"status\":\"completed\""),
        Some(_) => !SIGNS.iter().any(|sign| has(event, sign)),
        None => false,
    }
}

fn has(text: &str, needle: &str) -> bool {
    memmem::find(text.as_bytes(), needle.as_bytes()).is_some()
}
