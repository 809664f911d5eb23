//! Detection of failed tool calls.
//!
//! Results are texts for the model, so a failure is visible only in the text: in the exit code of a command, or in the
//! beginning of a refusal. If the text does not show it, an earlier event does.

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reader::borrowed_json::JsonText;

/// Beginnings of texts that report a failure instead of a result.
const FAILURE_PREFIXES: &[&str] = &[
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

/// Bytes at the beginning of a text that can contain an exit code, before the output of the command.
const MAX_HEADER_BYTES: usize = 400;

/// Returns `true` if a result reports that its tool failed. `output` is JSON as in the line, so quotes and line feeds
/// in it are escaped.
pub(super) fn is_failed_output(output: &str) -> bool {
    let Some(text) = output.strip_prefix('"') else {
        // Older versions could wrap the text in an object.
        return output.starts_with('{') && contains_text(output, "\"success\":false");
    };
    if FAILURE_PREFIXES.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    let mut end = text.len().min(MAX_HEADER_BYTES);
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

/// End of a command or a tool, as an event reports it.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CodexFileToolEnd<'a> {
    call_id: Option<JsonText<'a>>,
    id: Option<JsonText<'a>>,
    status: Option<JsonText<'a>>,
    exit_code: Option<i64>,
    success: Option<bool>,
    result: Option<CodexFileMcpResult>,
}

/// Result of a tool of an MCP server. Older versions wrap it in `Ok` or `Err`.
#[derive(Deserialize)]
struct CodexFileMcpResult {
    #[serde(rename = "Err")]
    err: Option<IgnoredAny>,
    #[serde(rename = "Ok")]
    ok: Option<CodexFileErrorFlag>,
    #[serde(alias = "isError")]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct CodexFileErrorFlag {
    #[serde(alias = "isError")]
    is_error: Option<bool>,
}

impl CodexFileToolEnd<'_> {
    fn is_failed(&self) -> bool {
        let is_error = |outcome: &CodexFileMcpResult| {
            let flag = outcome.ok.as_ref().and_then(|flag| flag.is_error);
            outcome.err.is_some() || flag.or(outcome.is_error) == Some(true)
        };
        matches!(self.status.as_deref(), Some("failed" | "declined"))
            || self.exit_code.is_some_and(|code| code != 0)
            || self.success == Some(false)
            || self.result.as_ref().is_some_and(is_error)
    }
}

/// Returns the id of the call whose failure an event reports.
pub(super) fn failed_call_id(event: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct CodexFileItemEvent<'a> {
        item: CodexFileToolEnd<'a>,
    }
    if is_success_event(event) {
        return None;
    }
    let deserializer = || serde_json::Deserializer::from_str(event);
    let end = match CodexFileItemEvent::deserialize(&mut deserializer()) {
        Ok(wrapped) => wrapped.item,
        Err(_) => CodexFileToolEnd::deserialize(&mut deserializer()).ok()?,
    };
    let id = end.call_id.as_ref().or(end.id.as_ref())?;
    end.is_failed().then(|| id.to_string())
}

/// Returns `true` if an event reports no failure, without parsing it. Most events are long and report a success, and
/// some repeat the content of other lines.
fn is_success_event(event: &str) -> bool {
    const MESSAGE_ITEM_TYPES: &[&str] = &["UserMessage", "AgentMessage", "Reasoning"];
    const FAILURE_MARKERS: &[&str] = &["\"failed\"", "\"declined\"", ":false", ":true", "\"Err\":"];
    let item = event.split_once("\"item\":{\"type\":\"");
    let item = item.and_then(|(_, item)| item.split_once('"'));
    match item {
        Some((kind, _)) if MESSAGE_ITEM_TYPES.contains(&kind) => true,
        // The status of a command precedes its output.
        Some(("CommandExecution", item)) => contains_text(item, "\"status\":\"completed\""),
        Some(_) => !FAILURE_MARKERS
            .iter()
            .any(|marker| contains_text(event, marker)),
        None => false,
    }
}

fn contains_text(text: &str, needle: &str) -> bool {
    memmem::find(text.as_bytes(), needle.as_bytes()).is_some()
}
