//! Classification of failures of Gemini CLI, by its exit code and its output.

use segue_core::session::FailureClass;
use serde_json::Value;

use crate::error_class::{self, AgentRefusal};
use crate::process::Exit;
use crate::wire::json_scan;

/// Maximum number of characters of the output in a message.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Beginnings of lines that Gemini CLI also writes to its error output without an error.
const HARMLESS_LINE_PREFIXES: [&str; 9] = [
    "Warning: ",
    "Ripgrep is not available",
    "[STARTUP]",
    "Loaded cached credentials",
    "Data collection is disabled",
    "YOLO mode is enabled",
    "Approval mode overridden",
    "Attempt ",
    "(node:",
];

/// Classifies an exit code of Gemini CLI's own, or one that is an HTTP status modulo 256.
fn classify_exit(exit: Exit) -> Option<FailureClass> {
    match exit {
        Exit::Code(41) => Some(FailureClass::NotLoggedIn),
        Exit::Code(55) => Some(FailureClass::UntrustedFolder),
        Exit::Code(_) | Exit::Signal(_) | Exit::StillRunning => {
            decode_http_status(exit).and_then(error_class::classify_status)
        }
    }
}

/// Returns the HTTP status that the exit code encodes. Converts signals back to codes, because the leash reports exit
/// codes above 128 as signals.
fn decode_http_status(exit: Exit) -> Option<i32> {
    let code = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => signal + 128,
        Exit::StillRunning => return None,
    };
    [400, 401, 403, 404, 413, 429, 500, 502, 503, 504, 529]
        .into_iter()
        .find(|status| status % 256 == code)
}

/// Classifies a failure by its message and the exit code.
pub(super) fn classify_message(message: &str, exit: Exit) -> AgentRefusal {
    let message = strip_api_error(message);
    match classify_exit(exit) {
        // The exit code is more reliable than any message.
        Some(class @ FailureClass::UntrustedFolder) => AgentRefusal::new(class, message),
        Some(class) => {
            let by_text = error_class::classify_text(&message);
            by_text.unwrap_or_else(|| AgentRefusal::new(class, message))
        }
        None => error_class::classify_error(decode_http_status(exit), &message),
    }
}

/// Classifies a failure by its error output and the exit code.
pub(super) fn classify_stderr(stderr: &str, exit: Exit) -> AgentRefusal {
    let text = json_scan::strip_terminal_codes(stderr.as_bytes());
    let message = find_error_message(&text).unwrap_or_else(|| extract_informative_lines(&text));
    classify_message(&message, exit)
}

/// Returns `true` if Gemini CLI ended deliberately and did not crash.
pub(super) fn is_deliberate(exit: Exit, stderr: &str) -> bool {
    let is_own_code = matches!(exit, Exit::Code(41 | 42 | 44 | 52 | 53 | 54 | 55));
    is_own_code
        || decode_http_status(exit).is_some()
        || find_error_message(&json_scan::strip_terminal_codes(stderr.as_bytes())).is_some()
}

/// Returns the message of the last error object in a text.
fn find_error_message(text: &str) -> Option<String> {
    let values = json_scan::extract_objects(text).into_iter().rev();
    let mut messages = values.filter_map(|object| {
        let error = object.get("error")?;
        Some(error.get("message")?.as_str()?.to_owned())
    });
    messages.next()
}

/// Returns the informative lines of an error output.
fn extract_informative_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| {
        let is_frame = line.trim_start().starts_with("at ");
        let is_harmless = HARMLESS_LINE_PREFIXES
            .iter()
            .any(|prefix| line.starts_with(prefix));
        !line.is_empty() && !is_frame && !is_harmless
    });
    let message = lines.collect::<Vec<_>>().join("\n");
    let message: String = message.chars().take(MAX_MESSAGE_CHARS).collect();
    if message.is_empty() {
        "no reason given".to_owned()
    } else {
        message
    }
}

/// Returns a message without the wrapper that Gemini CLI adds to an API error: `[API Error: {"error":{…}}]`.
fn strip_api_error(message: &str) -> String {
    let inner = message
        .strip_prefix("[API Error: ")
        .and_then(|remainder| remainder.strip_suffix(']'))
        .unwrap_or(message)
        .trim();
    let Ok(Value::Object(object)) = serde_json::from_str(inner) else {
        return inner.to_owned();
    };
    let error = object.get("error");
    let field = |key: &str| error?.get(key)?.as_str();
    match (field("message"), field("status")) {
        (Some(message), Some(status)) => format!("{message} ({status})"),
        (Some(message), None) => message.to_owned(),
        (None, _) => inner.to_owned(),
    }
}

#[cfg(test)]
mod tests;
