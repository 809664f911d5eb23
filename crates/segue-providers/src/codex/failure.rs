//! Classification of failed turns of Codex.

use std::time::Duration;

use jiff::Timestamp;
use segue_core::session::FailureClass;
use serde_json::Value;

use crate::error_class::{self, AgentRefusal};

/// Converts the `error` of a turn.
pub(crate) fn parse_refusal(error: &Value) -> AgentRefusal {
    let mut message = error["message"].as_str().unwrap_or_default().to_owned();
    if let Some(details) = error["additionalDetails"].as_str() {
        message = format!("{message}: {details}");
    }
    if message.is_empty() {
        "no reason given".clone_into(&mut message);
    }
    let info = &error["codexErrorInfo"];
    let mut refusal = match info.as_str().and_then(classify_error_name) {
        Some(class) => AgentRefusal::new(class, message),
        None => error_class::classify_error(find_http_status(info), &message),
    };
    // Codex retries several times on its own, and then reports only that it did.
    if refusal.class == FailureClass::RateLimited && refusal.message.starts_with("exceeded retry") {
        refusal.message = format!(
            "too many requests, even after several retries ({})",
            refusal.message
        );
    }
    refusal
}

/// Classifies Codex's own name of an error; `None` if the message is more specific.
fn classify_error_name(name: &str) -> Option<FailureClass> {
    match name {
        "contextWindowExceeded" => Some(FailureClass::ContextTooLong),
        "usageLimitExceeded" | "sessionBudgetExceeded" => Some(FailureClass::Quota),
        "rateLimitExceeded" | "serverOverloaded" => Some(FailureClass::RateLimited),
        "unauthorized" => Some(FailureClass::NotLoggedIn),
        _ => None,
    }
}

/// Returns the HTTP status in an error that contains one: `{"httpConnectionFailed": {"httpStatusCode": 401}}`.
fn find_http_status(info: &Value) -> Option<i32> {
    let mut kinds = info.as_object()?.values();
    let status = kinds.find_map(|kind| kind["httpStatusCode"].as_i64())?;
    i32::try_from(status).ok()
}

/// Returns the Unix time at which the exhausted limits of `account/rateLimits/updated` are renewed.
pub(crate) fn limits_reset_at(limits: &Value) -> Option<i64> {
    ["primary", "secondary"]
        .iter()
        .map(|window| &limits[window])
        .filter(|window| {
            window["usedPercent"]
                .as_f64()
                .is_some_and(|used| used >= 100.0)
        })
        .filter_map(|window| window["resetsAt"].as_i64())
        .max()
}

/// Adds a retry delay from the account's limits to a refusal that names none.
pub(crate) fn with_retry_delay(
    mut refusal: AgentRefusal,
    limits: &Value,
    now: Timestamp,
) -> AgentRefusal {
    let is_limit = matches!(
        refusal.class,
        FailureClass::Quota | FailureClass::RateLimited
    );
    if is_limit && refusal.retry_after.is_none() {
        let seconds = limits_reset_at(limits).map(|at| at.saturating_sub(now.as_second()));
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        refusal.retry_after = seconds.map(Duration::from_secs);
    }
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_classified() {
        let cases = [
            (
                json!({"message": "exceeded retry limit, last status: 429 Too Many Requests",
                    "codexErrorInfo": {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}}),
                FailureClass::RateLimited,
            ),
            (
                json!({"message": "unexpected status", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}}),
                FailureClass::NotLoggedIn,
            ),
            (
                json!({"message": "You've hit your limit.", "codexErrorInfo": "usageLimitExceeded"}),
                FailureClass::Quota,
            ),
            (
                json!({"message": "too long", "codexErrorInfo": "contextWindowExceeded"}),
                FailureClass::ContextTooLong,
            ),
            (
                json!({"message": "We’re currently experiencing high demand", "codexErrorInfo": "internalServerError"}),
                FailureClass::Agent,
            ),
            (
                json!({"message": "usage limit reached"}),
                FailureClass::Quota,
            ),
            (json!(null), FailureClass::Agent),
        ];
        for (error, expected) in cases {
            assert_eq!(parse_refusal(&error).class, expected, "{error}");
        }
        let retry_limit_message = "exceeded retry limit, last status: 429 Too Many Requests";
        assert_eq!(
            parse_refusal(&json!({ "message": retry_limit_message })).message,
            format!("too many requests, even after several retries ({retry_limit_message})")
        );
        let details = json!({"message": "a", "additionalDetails": "b"});
        assert_eq!(parse_refusal(&details).message, "a: b");
    }

    #[test]
    fn exhausted_limits_determine_the_retry_delay() {
        let now = Timestamp::from_second(1_000).unwrap();
        let window = |used: u64, at: i64| json!({"usedPercent": used, "resetsAt": at});
        let cases = [
            (
                json!({"primary": window(100, 1_060), "secondary": window(40, 9_000)}),
                Some(60),
            ),
            (
                json!({"primary": window(100, 1_060), "secondary": window(100, 9_000)}),
                Some(8_000),
            ),
            (
                json!({"primary": window(100, 900), "secondary": null}),
                None,
            ),
            (json!({"primary": null, "secondary": null}), None),
            (json!(null), None),
        ];
        for (limits, expected) in cases {
            let quota = AgentRefusal::new(FailureClass::Quota, "no more");
            let delay = with_retry_delay(quota, &limits, now).retry_after;
            assert_eq!(delay, expected.map(Duration::from_secs), "{limits}");
        }
        let limits = json!({"primary": window(100, 1_060)});
        let refusal_with_delay = AgentRefusal::new(FailureClass::Quota, "try again in 5s");
        let own_delay = with_retry_delay(refusal_with_delay, &limits, now).retry_after;
        assert_eq!(own_delay, Some(Duration::from_secs(5)));
        let agent_error = AgentRefusal::new(FailureClass::Agent, "broken");
        assert_eq!(
            with_retry_delay(agent_error, &limits, now).retry_after,
            None
        );
    }
}
