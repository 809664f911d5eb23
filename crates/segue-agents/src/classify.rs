//! What an agent's error means. They agree on neither codes nor wording; only the meanings are few.

use std::time::Duration;

use segue_core::FailureClass;

/// An error that an agent answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What kind it is.
    pub class: FailureClass,
    /// The agent's own words.
    pub message: String,
    /// After how long it makes sense to try again, where the agent says so.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A refusal of a known kind.
    #[must_use]
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            class,
            retry_after: delay(&message),
            message,
        }
    }
}

/// What the words of an agent mean, if they mean something we know.
pub(crate) fn words(text: &str) -> Option<Refusal> {
    let class = class_of_words(&text.to_lowercase())?;
    Some(Refusal::new(class, text))
}

/// What an answer means by its code (often an HTTP status) and its words; what we do not know is the agent's own.
pub(crate) fn answer(code: Option<i32>, text: &str) -> Refusal {
    let class = class_of_words(&text.to_lowercase())
        .or_else(|| code.and_then(class_of_status))
        .unwrap_or(FailureClass::Agent);
    Refusal::new(class, text)
}

/// What an HTTP status means, where that is certain.
pub(crate) fn class_of_status(status: i32) -> Option<FailureClass> {
    match status {
        // -32000 is how ACP says that it wants credentials.
        401 | 403 | -32000 => Some(FailureClass::NotLoggedIn),
        429 => Some(FailureClass::RateLimited),
        413 => Some(FailureClass::ContextTooLong),
        _ => None,
    }
}

/// Told by their words, the more special ones first: a quota is also reported with status 429, and so on.
const WORDS: &[(FailureClass, &[&str])] = &[
    (
        FailureClass::UntrustedFolder,
        &[
            "not inside a trusted directory",
            "untrusted folder",
            "folder is not trusted",
            "not a trusted folder",
            "is not trusted",
            "trusted directory",
            "trust this folder",
        ],
    ),
    (
        FailureClass::ContextTooLong,
        &[
            "prompt is too long",
            "context_length_exceeded",
            "context window",
            "context length",
            "maximum context",
            "exceeds the maximum number of tokens",
            "input token count",
            "ran out of room",
            "too many tokens",
        ],
    ),
    (
        FailureClass::Quota,
        &[
            "quota",
            "usage limit",
            "usage_limit_reached",
            "insufficient_quota",
            "credit balance",
            "limit will reset",
            "resets at",
            "out of credits",
        ],
    ),
    (
        FailureClass::RateLimited,
        &[
            "rate limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
            "resource_exhausted",
            "429",
            "overloaded",
        ],
    ),
    (
        FailureClass::NotLoggedIn,
        &[
            "invalid api key",
            "invalid x-api-key",
            "api key not valid",
            "unauthorized",
            "authentication",
            "not logged in",
            "please run /login",
            "invalid auth method",
            "login required",
            "credentials",
            "401",
        ],
    ),
    (
        FailureClass::SessionUnknown,
        &[
            "session not found",
            "no conversation found",
            "no previous sessions",
            "invalid session identifier",
            "invalid session id",
            "no rollout found",
            "thread not found",
        ],
    ),
];

fn class_of_words(text: &str) -> Option<FailureClass> {
    let says = |words: &&str| text.contains(*words);
    WORDS
        .iter()
        .find(|(_, any)| any.iter().any(|words| says(&words)))
        .map(|(class, _)| *class)
}

/// The delay that a text names, such as `reset after 2h52m39s`, `retry in 38.5s` or `Retry-After: 30`.
fn delay(text: &str) -> Option<Duration> {
    let text = text.to_lowercase();
    [
        "reset after",
        "resets in",
        "reset in",
        "retry after",
        "retry-after",
        "retry_after",
        "retry in",
        "retrydelay",
        "try again in",
        "available in",
    ]
    .iter()
    .find_map(|words| {
        let (_, after) = text.split_once(words)?;
        span(after.trim_start_matches([' ', ':', '"', '=', '\'']))
    })
}

/// A span of time at the beginning of a text: numbers with units, or one number of seconds.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    let mut any = false;
    loop {
        let digits = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
                .len();
        let Ok(number) = rest[..digits].parse::<f64>() else {
            break;
        };
        let unit = rest[digits..].trim_start();
        let letters = unit.len()
            - unit
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let seconds = match &unit[..letters] {
            "ms" | "milliseconds" => 0.001,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ if !any => 1.0,
            _ => break,
        };
        any = true;
        total += number * seconds;
        rest = unit[letters..].trim_start();
    }
    // A number that can't be meant is no number.
    (any && total <= 366.0 * 86_400.0).then(|| Duration::from_secs_f64(total))
}
