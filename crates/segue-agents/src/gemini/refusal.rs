//! Classification of failures of Gemini CLI, by its exit code and its output.

use segue_core::session::FailureClass;
use serde_json::Value;

use crate::classify::{self, Refusal};
use crate::noise;
use crate::process::Exit;

/// Maximum number of characters of the output in a message.
const LONGEST: usize = 1000;

/// Beginnings of lines that Gemini CLI also writes to its error output without an error.
const ALWAYS: [&str; 9] = [
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
fn class_of(exit: Exit) -> Option<FailureClass> {
    match exit {
        Exit::Code(41) => Some(FailureClass::NotLoggedIn),
        Exit::Code(55) => Some(FailureClass::UntrustedFolder),
        Exit::Code(_) | Exit::Signal(_) | Exit::StillRunning => {
            status_of(exit).and_then(classify::class_of_status)
        }
    }
}

/// Returns the HTTP status that the exit code encodes. Converts signals back to codes, because the leash reports exit
/// codes above 128 as signals.
fn status_of(exit: Exit) -> Option<i32> {
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
pub(super) fn of_message(message: &str, exit: Exit) -> Refusal {
    let message = plain(message);
    match class_of(exit) {
        // The exit code is more reliable than any message.
        Some(class @ FailureClass::UntrustedFolder) => Refusal::new(class, message),
        Some(class) => {
            let by_words = classify::words(&message);
            by_words.unwrap_or_else(|| Refusal::new(class, message))
        }
        None => classify::answer(status_of(exit), &message),
    }
}

/// Classifies a failure by its error output and the exit code.
pub(super) fn of_stderr(stderr: &str, exit: Exit) -> Refusal {
    let text = noise::clean(stderr.as_bytes());
    let message = error_in(&text).unwrap_or_else(|| words(&text));
    of_message(&message, exit)
}

/// Returns `true` if Gemini CLI ended deliberately and did not crash.
pub(super) fn is_deliberate(exit: Exit, stderr: &str) -> bool {
    let own = matches!(exit, Exit::Code(41 | 42 | 44 | 52 | 53 | 54 | 55));
    own || status_of(exit).is_some() || error_in(&noise::clean(stderr.as_bytes())).is_some()
}

/// Returns the message of the last error object in a text.
fn error_in(text: &str) -> Option<String> {
    let told = noise::objects(text).into_iter().rev();
    let mut messages = told.filter_map(|object| {
        let error = object.get("error")?;
        Some(error.get("message")?.as_str()?.to_owned())
    });
    messages.next()
}

/// Returns the informative lines of an error output.
fn words(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| {
        let is_frame = line.trim_start().starts_with("at ");
        let is_usual = ALWAYS.iter().any(|start| line.starts_with(start));
        !line.is_empty() && !is_frame && !is_usual
    });
    let words = lines.collect::<Vec<_>>().join("\n");
    let words: String = words.chars().take(LONGEST).collect();
    if words.is_empty() {
        "it gave no reason".to_owned()
    } else {
        words
    }
}

/// Returns a message without the wrapper that Gemini CLI adds to an API error: `[API Error: {"error":{…}}]`.
fn plain(message: &str) -> String {
    let inner = message
        .strip_prefix("[API Error: ")
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(message)
        .trim();
    let Ok(Value::Object(object)) = serde_json::from_str(inner) else {
        return inner.to_owned();
    };
    let error = object.get("error");
    let text = |key: &str| error?.get(key)?.as_str();
    match (text("message"), text("status")) {
        (Some(message), Some(status)) => format!("{message} ({status})"),
        (Some(message), None) => message.to_owned(),
        (None, _) => inner.to_owned(),
    }
}

#[cfg(test)]
mod tests;
