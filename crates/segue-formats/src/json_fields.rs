//! Helpers that read JSON of any form and render JSON as other programs do.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the text without a leading byte order mark, which some editors write.
pub(crate) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses a JSON object. The error is the reason why the text is not one.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str::<Value>(unmarked(text)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(format!("it holds {}, not an object", kind(&other))),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// Returns a description of the value's type for a remark.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the first of the named fields that is a string.
pub(crate) fn text<'a>(from: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut found = names.iter().filter_map(|name| from.get(*name));
    found.find_map(Value::as_str)
}

/// Returns a field as an integer. A fraction is rounded to the nearest integer. `None` if the field is not a number, is
/// negative, or is a floating-point number of 10^15 or more.
pub(crate) fn number(from: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = from.get(name)?;
    let float = || {
        let float = value.as_f64().filter(|float| (0.0..1e15).contains(float))?;
        format!("{float:.0}").parse().ok()
    };
    value.as_u64().or_else(float)
}

/// Returns a field that is an object; `None` if it is not.
pub(crate) fn map<'a>(from: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    from.get(name)?.as_object()
}

/// Limit below which a number counts seconds since 1970: as milliseconds it would be a time before 1974, when these
/// programs did not exist.
const SECONDS: i64 = 100_000_000_000;

/// Minimum length of a text of digits that counts seconds or milliseconds; a shorter one may be a year or a date.
const DIGITS: usize = 9;

/// Parses a time: RFC 3339, also without a zone or a time of day (then UTC), or milliseconds or seconds since 1970.
pub(crate) fn time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => written_time(text.trim()),
        Value::Number(number) => counted_time(number.as_i64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn written_time(text: &str) -> Option<Timestamp> {
    if text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return counted_time(text.parse().ok()?);
    }
    let unzoned = || {
        let time: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(time).ok()
    };
    text.parse().ok().or_else(unzoned)
}

fn counted_time(number: i64) -> Option<Timestamp> {
    match number {
        seconds @ 0..SECONDS => Timestamp::from_second(seconds).ok(),
        millis => Timestamp::from_millisecond(millis).ok(),
    }
}

/// Returns the time that a message states. The error states whether it is missing or cannot be parsed.
pub(crate) fn stamp(message: &Map<String, Value>) -> Result<Timestamp, String> {
    match message.get("timestamp") {
        None | Some(Value::Null) => Err("has no time".to_owned()),
        Some(value) => {
            time(Some(value)).ok_or_else(|| format!("has {value} for a time, which can't be read"))
        }
    }
}

/// Returns the text in the first of the named fields that is a string or a list of parts. Text parts are joined by
/// newlines. `None` if the text is blank.
pub(crate) fn words(from: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let mut found = names.iter().filter_map(|name| from.get(*name));
    let words = found.find_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(part).collect::<Vec<_>>().join("\n")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    });
    words.filter(|words| !words.trim().is_empty())
}

/// Returns the text of a part `{type: "text", text}`; `None` if the part is of another type.
fn part(value: &Value) -> Option<&str> {
    let part = value.as_object()?;
    text(part, &["text"]).filter(|_| text(part, &["type"]) == Some("text"))
}

/// Returns the parts of a message that are not text; `None` if it has none.
pub(crate) fn other_parts(from: &Map<String, Value>, name: &str) -> Option<Value> {
    let parts = from.get(name)?.as_array()?;
    let others = parts.iter().filter(|value| part(value).is_none());
    let others: Vec<Value> = others.cloned().collect();
    (!others.is_empty()).then_some(Value::Array(others))
}

/// Formats a time as JavaScript's `Date.toISOString` does.
pub(crate) fn iso(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Renders JSON with an indent of two spaces, as JavaScript programs do.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    // Serialisation cannot fail: the values are strings, numbers and maps with string keys.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns a copy of an object without the named fields.
pub(crate) fn without(from: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let others = from
        .iter()
        .filter(|(name, _)| !names.contains(&name.as_str()));
    others
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the text on one line. Each run of whitespace and control characters becomes one space.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_is_read_however_it_is_counted() {
        let at: Timestamp = "2025-01-01T00:00:01Z".parse().unwrap();
        let midnight: Timestamp = "2025-01-01T00:00:00Z".parse().unwrap();
        for (value, expected) in [
            (json!("2025-01-01T00:00:01Z"), Some(at)),
            (json!(" 2025-01-01T01:00:01+01:00 "), Some(at)),
            (json!(1_735_689_601_000_i64), Some(at)),
            (json!(1_735_689_601), Some(at)),
            (json!("1735689601000"), Some(at)),
            (json!("1735689601"), Some(at)),
            (json!("2025-01-01T00:00:01"), Some(at)),
            (json!("2025-01-01 00:00:01.000"), Some(at)),
            (json!("2025-01-01"), Some(midnight)),
            (json!("2025"), None),
            (json!(""), None),
            (json!(i64::MAX), None),
            (json!("yesterday"), None),
            (json!([]), None),
        ] {
            assert_eq!(time(Some(&value)), expected, "{value}");
        }
    }
}
