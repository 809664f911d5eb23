//! Classification of agents' errors. Agents use different codes and texts, but their errors have few distinct causes.

use std::time::Duration;

use segue_core::session::FailureClass;

use crate::PROVIDERS;

/// An error that an agent returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRefusal {
    /// Class of the failure.
    pub class: FailureClass,
    /// Message of the agent.
    pub message: String,
    /// Time after which a retry makes sense; `None` if the agent names none.
    pub retry_after: Option<Duration>,
}

impl AgentRefusal {
    /// Creates a refusal of a given class. Takes the retry delay from the message.
    #[must_use]
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            class,
            retry_after: parse_delay(&message.to_lowercase()),
            message,
        }
    }
}

/// Classifies a message by its text; `None` if the text matches no known error.
pub(crate) fn classify_text(text: &str) -> Option<AgentRefusal> {
    let class = find_failure_class(&text.to_lowercase())?;
    Some(AgentRefusal::new(class, text))
}

/// Classifies an answer by its text, else by its code (often an HTTP status). An unknown error has the class `Agent`.
pub(crate) fn classify_error(code: Option<i32>, text: &str) -> AgentRefusal {
    let class = find_failure_class(&text.to_lowercase())
        .or_else(|| code.and_then(classify_status))
        .unwrap_or(FailureClass::Agent);
    AgentRefusal {
        message: extract_message(text),
        ..AgentRefusal::new(class, text)
    }
}

/// Returns the message inside an error that is JSON. Returns the text unchanged if it is no JSON object with a message.
fn extract_message(text: &str) -> String {
    let error: Option<serde_json::Value> = serde_json::from_str(text.trim()).ok();
    let message = error.as_ref().and_then(|error| {
        let error = error.get("error").unwrap_or(error);
        error.get("message")?.as_str()
    });
    match message {
        // Some agents nest one such error inside another.
        Some(message) if message.trim_start().starts_with('{') => extract_message(message),
        Some(message) => message.to_owned(),
        None => text.to_owned(),
    }
}

/// Classifies an HTTP status; `None` if the class is not certain.
pub(crate) fn classify_status(status: i32) -> Option<FailureClass> {
    match status {
        // -32000 is the ACP error code for missing credentials.
        401 | 403 | -32000 => Some(FailureClass::NotLoggedIn),
        // 529 is Anthropic's status for too many requests of all users together.
        429 | 529 => Some(FailureClass::RateLimited),
        402 => Some(FailureClass::Quota),
        413 => Some(FailureClass::ContextTooLong),
        _ => None,
    }
}

/// Substrings that must all occur.
type RequiredSubstrings = &'static [&'static str];

/// Substrings that identify a class and that several agents use, the more specific classes first: a quota is also
/// reported with status 429, for example. The substrings of one agent are in its descriptor. The text may be a complete
/// error output with warnings and stack traces, so substrings that occur without an error are unsuitable.
const FAILURE_PATTERNS: &[(FailureClass, &[RequiredSubstrings])] = &[
    (
        FailureClass::UntrustedFolder,
        &[
            &["untrusted folder"],
            &["folder is not trusted"],
            &["directory is not trusted"],
            &["workspace is not trusted"],
            &["not a trusted folder"],
        ],
    ),
    (
        FailureClass::ContextTooLong,
        &[
            &["prompt is too long"],
            &["input is too long"],
            &["context_length_exceeded"],
            &["context_window_exceeded"],
            &["exceed", "context window"],
            &["exceed", "context length"],
            &["exceed", "context limit"],
            &["maximum context length"],
            &["exceeds the maximum number of tokens"],
        ],
    ),
    (
        FailureClass::RateLimited,
        // Google's message for every 429; its message for an exhausted quota is longer.
        &[&["resource has been exhausted"]],
    ),
    (
        FailureClass::Quota,
        &[&["quota"], &["usage limit"], &["billing_hard_limit"]],
    ),
    (
        FailureClass::RateLimited,
        &[
            &["rate limit"],
            &["rate_limit"],
            &["rate-limit"],
            &["ratelimit"],
            &["too many requests"],
            &["resource_exhausted"],
            &["overloaded_error"],
            &["overloaded"],
        ],
    ),
    (
        FailureClass::NotLoggedIn,
        &[
            &["invalid api key"],
            &["invalid_api_key"],
            &["incorrect api key"],
            &["invalid x-api-key"],
            &["api key not valid"],
            &["api key expired"],
            &["api key not found"],
            &["unauthorized"],
            &["unauthenticated"],
            &["authentication_error"],
            &["authentication required"],
            &["authentication failed"],
            &["failed to authenticate"],
            &["invalid authentication"],
            &["not logged in"],
            &["login required"],
            &["please log in"],
        ],
    ),
    (
        FailureClass::SessionUnknown,
        &[&["session not found"], &["invalid session id"]],
    ),
];

/// Longest delay after which a renewed quota counts as a rate limit.
const MAX_RATE_LIMIT_DELAY: Duration = Duration::from_mins(5);

fn find_failure_class(text: &str) -> Option<FailureClass> {
    let contains_all = |substrings: &RequiredSubstrings| {
        substrings.iter().all(|substring| text.contains(substring))
    };
    // An adapter reports the errors of its agent, so the patterns of all agents count.
    let is_class = |class: FailureClass| {
        let mut patterns = PROVIDERS
            .iter()
            .flat_map(|descriptor| descriptor.failure_patterns);
        patterns
            .any(|(pattern_class, substrings)| *pattern_class == class && contains_all(substrings))
    };
    let class = FAILURE_PATTERNS
        .iter()
        .find(|(class, patterns)| patterns.iter().any(contains_all) || is_class(*class))
        .map(|(class, _)| *class)
        .or_else(|| find_status(text).and_then(classify_status))?;
    let has_short_delay = || parse_delay(text).is_some_and(|delay| delay <= MAX_RATE_LIMIT_DELAY);
    // Google also calls a limit of requests per minute a quota; only the delay distinguishes the two.
    Some(match class {
        FailureClass::Quota if text.contains("quota") && has_short_delay() => {
            FailureClass::RateLimited
        }
        class => class,
    })
}

/// Returns an HTTP status that the text marks as such. A number without such a prefix may be a line, a port or a count.
fn find_status(text: &str) -> Option<i32> {
    const STATUS_PREFIXES: &[&str] = &[
        "api error: ",
        "\"code\":",
        "\"code\": ",
        "status: ",
        "status ",
        "status code ",
        "status code: ",
        "status_code: ",
        "statuscode: ",
        "error ",
        "error: ",
        "http ",
        "rejected (",
    ];
    STATUS_PREFIXES.iter().find_map(|prefix| {
        text.match_indices(prefix).find_map(|(index, _)| {
            let remainder = &text[index + prefix.len()..];
            let digits = remainder.len()
                - remainder
                    .trim_start_matches(|c: char| c.is_ascii_digit())
                    .len();
            let status = remainder[..digits].parse().ok()?;
            (digits == 3 && classify_status(status).is_some()).then_some(status)
        })
    })
}

/// Prefixes of a delay, each with the seconds per unit for a number that has no unit.
const DELAY_PREFIXES: &[(&str, f64)] = &[
    ("retrydelayms", 0.001),
    ("retry_after_ms", 0.001),
    ("retry-after-ms", 0.001),
    ("reset after", 1.0),
    ("resets in", 1.0),
    ("reset in", 1.0),
    ("retry after", 1.0),
    ("retry-after", 1.0),
    ("retry_after", 1.0),
    ("retry in", 1.0),
    ("retrydelay", 1.0),
    ("try again in", 1.0),
    ("available in", 1.0),
];

/// Returns the delay that a lowercase text names, such as `reset after 2h52m39s`, `retry in 38.5s` or `retry-after:
/// 30`.
fn parse_delay(text: &str) -> Option<Duration> {
    DELAY_PREFIXES.iter().find_map(|(prefix, unit)| {
        text.match_indices(prefix).find_map(|(index, _)| {
            let remainder = &text[index + prefix.len()..];
            parse_duration(
                remainder.trim_start_matches([' ', ':', '"', '=', '\'']),
                *unit,
            )
        })
    })
}

/// Parses the duration at the beginning of a text: numbers with units, or one number without a unit, which counts units
/// of `default_unit_seconds`.
fn parse_duration(text: &str, default_unit_seconds: f64) -> Option<Duration> {
    let mut remainder = text;
    let mut total = 0.0;
    let mut has_component = false;
    loop {
        let digits = prefix_len(remainder, |c| c.is_ascii_digit() || c == '.');
        let Ok(number) = remainder[..digits].parse::<f64>() else {
            break;
        };
        let unit = remainder[digits..].trim_start_matches(' ');
        let letters = prefix_len(unit, |c| c.is_ascii_alphabetic());
        let seconds = match &unit[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            // Not a unit: a number without a unit is the complete duration.
            _ if !has_component => return to_plausible_duration(number * default_unit_seconds),
            _ => break,
        };
        has_component = true;
        total += number * seconds;
        remainder = unit[letters..].trim_start_matches([' ', ',']);
        remainder = remainder.strip_prefix("and ").unwrap_or(remainder);
    }
    has_component
        .then(|| to_plausible_duration(total))
        .flatten()
}

/// Converts seconds to a duration; `None` if they exceed a year, because the text then means something else.
fn to_plausible_duration(seconds: f64) -> Option<Duration> {
    (seconds <= 366.0 * 86_400.0).then(|| Duration::from_secs_f64(seconds))
}

/// Returns the length of the prefix whose characters satisfy `predicate`, which must accept only ASCII characters.
fn prefix_len(text: &str, predicate: impl Fn(char) -> bool) -> usize {
    text.len() - text.trim_start_matches(predicate).len()
}

#[cfg(test)]
mod tests;
