//! Failures as Gemini CLI 0.61 reports them.

use super::*;
use FailureClass::{
    Agent, ContextTooLong, NotLoggedIn, RateLimited, SessionUnknown, UntrustedFolder,
};

#[test]
fn failures_are_classified_by_message_and_exit_code() {
    let api_error = |code: i32, message: &str, status: &str| {
        format!(
            "[API Error: {{\"error\":{{\"code\":{code},\"message\":\"{message}\",\"status\":\"{status}\"}}}}]"
        )
    };
    let cases = [
        (api_error(400, "stub: the request is bad", "INVALID_ARGUMENT"), Exit::Signal(16), Agent, "stub: the request is bad (INVALID_ARGUMENT)"),
        (api_error(401, "Request had invalid authentication credentials.", "UNAUTHENTICATED"), Exit::Signal(17), NotLoggedIn, "Request had invalid authentication credentials. (UNAUTHENTICATED)"),
        (api_error(400, "The input token count (2) exceeds the maximum number of tokens allowed (1).", "INVALID_ARGUMENT"), Exit::Signal(16), ContextTooLong, "The input token count (2) exceeds the maximum number of tokens allowed (1). (INVALID_ARGUMENT)"),
        ("[API Error: Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s.]".into(), Exit::Signal(45), RateLimited, "Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s."),
        (api_error(500, "An internal error has occurred.", "INTERNAL"), Exit::Signal(116), Agent, "An internal error has occurred. (INTERNAL)"),
        ("unknown text".into(), Exit::Signal(45), RateLimited, "unknown text"),
        ("unknown text".into(), Exit::Code(41), NotLoggedIn, "unknown text"),
        ("[API Error: terminated]".into(), Exit::Code(1), Agent, "terminated"),
        ("[API Error: {not json}]".into(), Exit::Code(1), Agent, "{not json}"),
    ];
    for (message, exit, class, expected) in cases {
        let refusal = classify_message(&message, exit);
        assert_eq!(
            (refusal.class, refusal.message.as_str()),
            (class, expected),
            "{message}"
        );
    }
}

#[test]
fn failures_are_classified_by_error_output() {
    let warnings = "Warning: True color (24-bit) support not detected.\nRipgrep is not available. Falling back to GrepTool.\n[STARTUP] Phase 'cleanup_ops' was started but never ended.\n";
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
        ("", Exit::Code(1), Agent, "no reason given"),
    ];
    for (stderr, exit, class, expected) in cases {
        let refusal = classify_stderr(&format!("{warnings}{stderr}\r\n"), exit);
        assert_eq!(
            (refusal.class, refusal.message.as_str()),
            (class, expected),
            "{stderr}"
        );
    }
}

#[test]
fn a_killed_process_did_not_end_deliberately() {
    let error_object = "x\n{\n  \"error\": {\n    \"message\": \"terminated\"\n  }\n}";
    let cases = [
        (Exit::Code(55), "", true),
        (Exit::Code(42), "", true),
        (Exit::Signal(16), "", true),
        (Exit::Signal(116), "", true),
        (Exit::Code(1), error_object, true),
        (Exit::Code(0), "", false),
        (Exit::Code(1), "x { y }", false),
        (Exit::Signal(9), "", false),
        (Exit::Signal(15), "", false),
        (Exit::StillRunning, "", false),
    ];
    for (exit, stderr, deliberate) in cases {
        assert_eq!(is_deliberate(exit, stderr), deliberate, "{exit} {stderr}");
    }
}
