//! What Gemini CLI means when it fails: by its exit code, and by what it wrote.

use segue_core::FailureClass;
use serde_json::Value;

use crate::classify::{self, Refusal};
use crate::noise;
use crate::process::Exit;

/// How much of its words is told.
const LONGEST: usize = 1000;

/// What it writes to its error output when nothing is wrong.
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

/// What an exit code means where it is one of its own; HTTP statuses come modulo 256.
fn class_of(exit: Exit) -> Option<FailureClass> {
    match exit {
        Exit::Code(41) => Some(FailureClass::NotLoggedIn),
        Exit::Code(55) => Some(FailureClass::UntrustedFolder),
        Exit::Code(_) | Exit::Signal(_) | Exit::StillRunning => {
            status_of(exit).and_then(classify::class_of_status)
        }
    }
}

/// The HTTP status that it ended with. The leash tells of codes above 128 as of signals, which there are no such of.
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

/// Whether it ended by a decision of its own and not by a crash.
pub(super) fn is_deliberate(exit: Exit) -> bool {
    let own = matches!(exit, Exit::Code(41 | 42 | 44 | 52 | 53 | 54 | 55));
    own || status_of(exit).is_some()
}

/// The failure that `message` tells of, with what the exit code adds.
pub(super) fn of_message(message: &str, exit: Exit) -> Refusal {
    let message = plain(message);
    match class_of(exit) {
        // More certain than any words.
        Some(class @ FailureClass::UntrustedFolder) => Refusal::new(class, message),
        Some(class) => {
            let by_words = classify::words(&message);
            by_words.unwrap_or_else(|| Refusal::new(class, message))
        }
        None => classify::answer(status_of(exit), &message),
    }
}

/// The failure that an error output tells of.
pub(super) fn of_stderr(stderr: &str, exit: Exit) -> Refusal {
    let text = noise::clean(stderr.as_bytes());
    let told = noise::objects(&text).into_iter().rev();
    let mut messages = told.filter_map(|object| {
        let error = object.get("error")?;
        Some(error.get("message")?.as_str()?.to_owned())
    });
    match messages.next() {
        Some(message) => of_message(&message, exit),
        None => of_message(&words(&text), exit),
    }
}

/// The lines that say something.
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

/// A message without the wrapping that it has for an API's error: `[API Error: {"error":{…}}]`.
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
mod tests {
    use super::*;
    use FailureClass::{
        Agent, ContextTooLong, NotLoggedIn, RateLimited, SessionUnknown, UntrustedFolder,
    };

    #[test]
    fn messages_and_codes_tell_what_happened() {
        let api = |code: i32, message: &str, status: &str| {
            format!(
                "[API Error: {{\"error\":{{\"code\":{code},\"message\":\"{message}\",\"status\":\"{status}\"}}}}]"
            )
        };
        let cases = [
            (api(400, "stub: the request is bad", "INVALID_ARGUMENT"), Exit::Signal(16), Agent, "stub: the request is bad (INVALID_ARGUMENT)"),
            (api(401, "Request had invalid authentication credentials.", "UNAUTHENTICATED"), Exit::Signal(17), NotLoggedIn, "Request had invalid authentication credentials. (UNAUTHENTICATED)"),
            (api(400, "The input token count (2) exceeds the maximum number of tokens allowed (1).", "INVALID_ARGUMENT"), Exit::Signal(16), ContextTooLong, "The input token count (2) exceeds the maximum number of tokens allowed (1). (INVALID_ARGUMENT)"),
            ("[API Error: Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s.]".into(), Exit::Signal(45), RateLimited, "Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s."),
            (api(500, "An internal error has occurred.", "INTERNAL"), Exit::Signal(116), Agent, "An internal error has occurred. (INTERNAL)"),
            ("no words that we know".into(), Exit::Signal(45), RateLimited, "no words that we know"),
            ("no words that we know".into(), Exit::Code(41), NotLoggedIn, "no words that we know"),
            ("[API Error: terminated]".into(), Exit::Code(1), Agent, "terminated"),
            ("[API Error: {not json}]".into(), Exit::Code(1), Agent, "{not json}"),
        ];
        for (message, exit, class, words) in cases {
            let refusal = of_message(&message, exit);
            assert_eq!(
                (refusal.class, refusal.message.as_str()),
                (class, words),
                "{message}"
            );
        }
    }

    #[test]
    fn an_error_output_tells_what_happened() {
        let noise = "Warning: True color (24-bit) support not detected.\nRipgrep is not available. Falling back to GrepTool.\n[STARTUP] Phase 'cleanup_ops' was started but never ended.\n";
        let cases = [
            (
                "\u{1b}[31mGemini CLI is not running in a trusted directory. To proceed\u{1b}[0m",
                Exit::Code(55),
                UntrustedFolder,
                "Gemini CLI is not running in a trusted directory. To proceed",
            ),
            (
                "Invalid auth method selected.",
                Exit::Code(41),
                NotLoggedIn,
                "Invalid auth method selected.",
            ),
            (
                "Error resuming session: Invalid session identifier \"99\".\n  Searched for sessions in /c.",
                Exit::Code(42),
                SessionUnknown,
                "Error resuming session: Invalid session identifier \"99\".\n  Searched for sessions in /c.",
            ),
            (
                "Error when talking to Gemini API: x\n    at y (z.js:429:1) {\n  status: 429\n}\n{\n  \"session_id\": \"1\",\n  \"error\": {\n    \"type\": \"Error\",\n    \"message\": \"Resource has been exhausted (e.g. check quota).\\nSuggested retry after 30s.\",\n    \"code\": 429\n  }\n}",
                Exit::Signal(45),
                RateLimited,
                "Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s.",
            ),
            ("", Exit::Code(1), Agent, "it gave no reason"),
        ];
        for (stderr, exit, class, words) in cases {
            let refusal = of_stderr(&format!("{noise}{stderr}\r\n"), exit);
            assert_eq!(
                (refusal.class, refusal.message.as_str()),
                (class, words),
                "{stderr}"
            );
        }
    }

    #[test]
    fn a_kill_is_not_a_decision() {
        let cases = [
            (Exit::Code(55), true),
            (Exit::Code(42), true),
            (Exit::Signal(16), true),
            (Exit::Signal(116), true),
            (Exit::Code(0), false),
            (Exit::Code(1), false),
            (Exit::Signal(9), false),
            (Exit::Signal(15), false),
            (Exit::StillRunning, false),
        ];
        for (exit, deliberate) in cases {
            assert_eq!(is_deliberate(exit), deliberate, "{exit}");
        }
    }
}
