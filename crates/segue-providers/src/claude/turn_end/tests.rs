//! Ends of turns as the real Claude Code reports them.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_794_800_000).unwrap()
}

fn expect_refusal(result: &Value, observations: &ClaudeTurnObservations) -> AgentRefusal {
    match parse_turn_end(result, observations, now()) {
        Err(AgentError::Refused { refusal, .. }) => refusal,
        other => panic!("{result}: {other:?}"),
    }
}

#[test]
fn a_failure_is_classified_by_its_status_and_its_message() {
    use FailureClass::{Agent, ContextTooLong, NotLoggedIn, RateLimited, SessionUnknown};
    let api_error = |status: Value, text: &str| json!({"subtype": "success", "is_error": true, "api_error_status": status, "result": text, "terminal_reason": "api_error"});
    let cases = [
        (
            api_error(json!(401), "Invalid API key · Fix external API key"),
            NotLoggedIn,
        ),
        (api_error(json!(401), "unknown text"), NotLoggedIn),
        (
            api_error(
                json!(429),
                "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.",
            ),
            RateLimited,
        ),
        (api_error(json!(400), "Prompt is too long"), ContextTooLong),
        (
            api_error(json!(400), "API Error: 400 stub: the request is bad"),
            Agent,
        ),
        (
            api_error(
                json!(500),
                "API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:42901).",
            ),
            Agent,
        ),
        (api_error(json!(529), "API Error: Overloaded"), RateLimited),
        (
            api_error(
                Value::Null,
                "API Error: Connection to the API was lost (ECONNRESET). This is usually temporary — try again.",
            ),
            Agent,
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true, "errors": ["No conversation found with session ID: 397b"]}),
            SessionUnknown,
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true}),
            Agent,
        ),
    ];
    for (result, expected) in cases {
        let refusal = expect_refusal(&result, &ClaudeTurnObservations::default());
        assert_eq!(refusal.class, expected, "{result}");
        assert!(!refusal.message.is_empty());
    }
}

#[test]
fn the_retry_delay_is_claudes_last_delay_or_the_quota_reset() {
    let rate_limited = json!({"subtype": "success", "is_error": true, "api_error_status": 429, "result": "API Error: Request rejected (429)"});
    let observations = ClaudeTurnObservations {
        last_retry_delay: Some(Duration::from_secs(7)),
        ..ClaudeTurnObservations::default()
    };
    let refusal = expect_refusal(&rate_limited, &observations);
    assert_eq!(refusal.class, FailureClass::RateLimited);
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));

    let observations = ClaudeTurnObservations {
        quota_resets_at: Timestamp::from_second(1_794_803_600).ok(),
        ..observations
    };
    let refusal = expect_refusal(&rate_limited, &observations);
    assert_eq!(refusal.class, FailureClass::Quota);
    assert_eq!(refusal.retry_after, Some(Duration::from_hours(1)));

    let bad_request = json!({"is_error": true, "api_error_status": 400, "result": "bad"});
    assert_eq!(
        expect_refusal(&bad_request, &observations).retry_after,
        None
    );
}

#[test]
fn a_turn_that_did_not_fail_has_a_stop_reason() {
    use StopReason::{Cancelled, EndTurn, Limit, Refusal};
    let cancel_requested = true;
    let cases = [
        (
            json!({"subtype": "success", "is_error": false, "stop_reason": "end_turn", "terminal_reason": "completed"}),
            false,
            EndTurn,
        ),
        (
            json!({"subtype": "success", "is_error": false, "stop_reason": null, "result": ""}),
            false,
            EndTurn,
        ),
        (
            json!({"subtype": "success", "is_error": false, "stop_reason": "end_turn"}),
            cancel_requested,
            EndTurn,
        ),
        (
            json!({"subtype": "success", "is_error": false, "stop_reason": "max_tokens"}),
            false,
            Limit,
        ),
        (
            json!({"subtype": "success", "is_error": false, "stop_reason": "refusal"}),
            false,
            Refusal,
        ),
        (
            json!({"subtype": "success", "is_error": true, "stop_reason": "refusal", "result": "API Error: …"}),
            false,
            Refusal,
        ),
        (
            json!({"subtype": "error_max_turns", "is_error": true, "stop_reason": "tool_use", "errors": ["Reached maximum number of turns (2)"]}),
            false,
            Limit,
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true, "stop_reason": null, "terminal_reason": "aborted_streaming"}),
            cancel_requested,
            Cancelled,
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true, "stop_reason": "tool_use", "terminal_reason": "aborted_tools"}),
            false,
            Cancelled,
        ),
        (
            json!({"subtype": "success", "is_error": true, "api_error_status": 500, "result": "no"}),
            cancel_requested,
            Cancelled,
        ),
    ];
    for (result, cancelled, expected) in cases {
        let observations = ClaudeTurnObservations {
            cancel_requested: cancelled,
            ..ClaudeTurnObservations::default()
        };
        let end = parse_turn_end(&result, &observations, now()).unwrap();
        assert_eq!(end.reason, expected, "{result}");
    }
}

fn result_with_subagent() -> Value {
    json!({
        "subtype": "success", "is_error": false, "stop_reason": "end_turn",
        "usage": {"input_tokens": 202, "cache_creation_input_tokens": 14, "cache_read_input_tokens": 22, "output_tokens": 40},
        "modelUsage": {
            "claude-opus-5-5": {"inputTokens": 1414, "outputTokens": 280, "cacheReadInputTokens": 154, "cacheCreationInputTokens": 98, "contextWindow": 1_000_000},
            "small": {"inputTokens": 9, "outputTokens": 9, "contextWindow": 200_000},
        },
        "model_usage_since_last_result": {
            "claude-opus-5-5": {"inputTokens": 303, "outputTokens": 60, "cacheReadInputTokens": 33, "cacheCreationInputTokens": 21},
            "small": {"inputTokens": 101, "outputTokens": 20, "cacheReadInputTokens": 11, "cacheCreationInputTokens": 7},
        },
    })
}

#[test]
fn the_usage_of_a_turn_includes_subagents_and_excludes_earlier_turns() {
    let mut observations = ClaudeTurnObservations {
        model: Some("claude-opus-5-5".to_owned()),
        ..ClaudeTurnObservations::default()
    };
    observations.last_request_tokens.update(&json!({"input_tokens": 101, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 11, "output_tokens": 1}));
    observations
        .last_request_tokens
        .update(&json!({"output_tokens": 20}));
    let mut result = result_with_subagent();
    let expected = Usage {
        input_tokens: Some(404 + 44 + 28),
        output_tokens: Some(80),
        cached_tokens: Some(44),
        total_tokens: Some(404 + 44 + 28 + 80),
        context_tokens: Some(139),
        context_window: Some(1_000_000),
    };
    assert_eq!(
        parse_turn_end(&result, &observations, now()).unwrap().usage,
        expected
    );

    // Older versions do not report the usage since the last result.
    result
        .as_object_mut()
        .unwrap()
        .remove("model_usage_since_last_result");
    let expected = Usage {
        input_tokens: Some(238),
        output_tokens: Some(40),
        cached_tokens: Some(22),
        total_tokens: Some(278),
        ..expected
    };
    assert_eq!(
        parse_turn_end(&result, &observations, now()).unwrap().usage,
        expected
    );
}

#[test]
fn a_usage_of_zero_tokens_is_unknown() {
    let aborted = json!({
        "subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming",
        "usage": {"input_tokens": 0, "output_tokens": 0}, "modelUsage": {}, "model_usage_since_last_result": {},
    });
    let end = parse_turn_end(&aborted, &ClaudeTurnObservations::default(), now()).unwrap();
    assert_eq!(end.usage, Usage::default());
}

#[test]
fn the_context_window_is_that_of_the_sessions_model() {
    let models = json!({
        "opus[1m]": {"contextWindow": 1_000_000, "canonicalModel": "opus"},
        "small": {"contextWindow": 200_000},
    });
    let single_model = json!({"opus": {"contextWindow": 1_000_000}});
    let cases = [
        (&models, Some("opus"), Some(1_000_000)),
        (&models, Some("small"), Some(200_000)),
        (&models, Some("other"), None),
        (&models, None, None),
        (&single_model, Some("<synthetic>"), Some(1_000_000)),
        (&Value::Null, Some("opus"), None),
    ];
    for (models, model, expected) in cases {
        assert_eq!(find_context_window(models, model), expected, "{model:?}");
    }
}
