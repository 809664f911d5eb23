//! Messages of agents that failed, and messages of agents that did not.

use super::*;
use FailureClass::{
    Agent, ContextTooLong, NotLoggedIn, Quota, RateLimited, SessionUnknown, UntrustedFolder,
};

fn assert_classes(cases: &[(&str, FailureClass)]) {
    for (text, class) in cases {
        let actual = classify_text(text).map(|refusal| refusal.class);
        assert_eq!(actual, Some(*class), "{text}");
    }
}

#[test]
fn gemini_cli_errors_are_classified() {
    assert_classes(&[
        (
            "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`",
            UntrustedFolder,
        ),
        ("Invalid auth method selected.", NotLoggedIn),
        (
            "Please set an Auth method in your settings.json",
            NotLoggedIn,
        ),
        (
            "[API Error: Request had invalid authentication credentials. (UNAUTHENTICATED, 401)]",
            NotLoggedIn,
        ),
        (
            "API key not valid. Please pass a valid API key.",
            NotLoggedIn,
        ),
        (
            "Resource has been exhausted (e.g. check quota).\nSuggested retry after 30s.",
            RateLimited,
        ),
        (
            "You exceeded your current quota. Please retry in 38.5s.",
            RateLimited,
        ),
        (
            "You exceeded your current quota, please check your plan and billing details.",
            Quota,
        ),
        (
            "You have exhausted your capacity on this model. Your quota will reset after 2h52m39s.",
            Quota,
        ),
        (
            "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576).",
            ContextTooLong,
        ),
        (
            "Error resuming session: Invalid session identifier \"99\".",
            SessionUnknown,
        ),
        (
            "No previous sessions found for this project.",
            SessionUnknown,
        ),
    ]);
}

#[test]
fn claude_code_errors_are_classified() {
    assert_classes(&[
        (
            "prompt is too long: 1250000 tokens > 1000000 maximum",
            ContextTooLong,
        ),
        ("Invalid API key · Please run /login", NotLoggedIn),
        ("API Error: 401 {\"type\":\"error\"}", NotLoggedIn),
        ("API Error: Request rejected (429) · later", RateLimited),
        ("API Error: 529 {\"type\":\"error\"}", RateLimited),
        ("Claude AI usage limit reached|1794773036", Quota),
        ("You've hit your session limit · resets 3pm", Quota),
        ("Credit balance is too low", Quota),
        ("No conversation found with session ID: 1", SessionUnknown),
    ]);
}

#[test]
fn codex_errors_are_classified() {
    assert_classes(&[
        (
            "Not inside a trusted directory and --skip-git-repo-check was not specified.",
            UntrustedFolder,
        ),
        (
            "exceeded retry limit, last status: 429 Too Many Requests",
            RateLimited,
        ),
        (
            "unexpected status 401 Unauthorized: Incorrect API key provided.",
            NotLoggedIn,
        ),
        (
            "Your input exceeds the context window of this model.",
            ContextTooLong,
        ),
        (
            "Codex ran out of room in the model's context window.",
            ContextTooLong,
        ),
        (
            "You've hit your usage limit. Try again in 2 hours 5 minutes.",
            Quota,
        ),
        ("no rollout found for thread id 0000", SessionUnknown),
    ]);
}

#[test]
fn output_without_an_error_is_not_classified() {
    let cases = [
        "",
        "Loaded cached credentials.",
        "    at async Turn.run (file:///x/chunk.js:429:24)\n    at y (z.js:401:3)",
        "localPort: 34290, remotePort: 40130",
        "Model metadata for `x` not found; its context window is unknown",
        "using authentication method gemini-api-key",
        "this folder is trusted",
        "took 413 ms, 429 files",
        "An internal error has occurred.",
    ];
    for text in cases {
        assert_eq!(classify_text(text), None, "{text}");
    }
}

#[test]
fn the_code_decides_if_the_text_is_unknown() {
    let cases = [
        (Some(401), "no", NotLoggedIn),
        (Some(403), "no", NotLoggedIn),
        (Some(-32000), "no", NotLoggedIn),
        (Some(429), "no", RateLimited),
        (Some(413), "no", ContextTooLong),
        (Some(500), "no", Agent),
        (None, "no", Agent),
        (Some(429), "quota will reset after 3h", Quota),
        (Some(400), "prompt is too long", ContextTooLong),
        (Some(-32603), "API Error: 429", RateLimited),
    ];
    for (code, text, class) in cases {
        assert_eq!(classify_error(code, text).class, class, "{code:?} {text}");
    }
}

#[test]
fn a_delay_is_read_in_all_its_forms() {
    let cases = [
        ("reset after 2h52m39s.", Some(10_359.0)),
        ("Please retry in 38.5s", Some(38.5)),
        ("Retry-After: 30\r\nnext", Some(30.0)),
        ("retry_after=7", Some(7.0)),
        ("\"retryDelay\": \"4s\"", Some(4.0)),
        ("retryDelayMs: 30000,", Some(30.0)),
        ("Suggested retry after 1500ms", Some(1.5)),
        ("try again in 2 hours 5 minutes", Some(7500.0)),
        ("try again in 1 day, 2 hours and 3 minutes.", Some(93_780.0)),
        ("try again in a while; retry after 12 seconds", Some(12.0)),
        ("resets in 10m 3 files", Some(600.0)),
        ("retry after 5 attempts", Some(5.0)),
        ("try again later", None),
        ("retry in", None),
        ("retry in 1.2.3s", None),
        ("retry in 99999999999999999999s", None),
        ("30s", None),
    ];
    for (text, seconds) in cases {
        let delay = AgentRefusal::new(Agent, text).retry_after;
        assert_eq!(delay, seconds.map(Duration::from_secs_f64), "{text}");
    }
}

#[test]
fn the_message_of_a_json_error_is_extracted() {
    let inner = r#"{"error":{"code":401,"message":"Request had invalid credentials."}}"#;
    let outer = serde_json::json!({"error": {"message": inner}}).to_string();
    let cases = [
        (inner, "Request had invalid credentials."),
        (&outer, "Request had invalid credentials."),
        (r#"{"message":"no"}"#, "no"),
        (r#"{"code":1}"#, r#"{"code":1}"#),
        ("plain text", "plain text"),
    ];
    for (text, expected) in cases {
        assert_eq!(classify_error(None, text).message, expected);
    }
}
