//! Reading JSON that may be anything, and writing it the way other programs do.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

/// An object, or why it is none.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(format!("it holds {}, not an object", kind(&other))),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

/// What a value is, in words.
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

/// The first of some fields that is a text.
pub(crate) fn text<'a>(from: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut found = names.iter().filter_map(|name| from.get(*name));
    found.find_map(Value::as_str)
}

/// A field that is a whole number; fractions are rounded down.
pub(crate) fn number(from: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = from.get(name)?;
    let float = || {
        let float = value.as_f64().filter(|float| (0.0..1e15).contains(float))?;
        format!("{float:.0}").parse().ok()
    };
    value.as_u64().or_else(float)
}

/// A field that is an object; an empty one where it is none.
pub(crate) fn map<'a>(from: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    from.get(name)?.as_object()
}

/// Below this a number of milliseconds since 1970 would be a time before these programs, and one of seconds is not.
const SECONDS: i64 = 100_000_000_000;

/// A time: RFC 3339, or milliseconds or seconds since 1970.
pub(crate) fn time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => match number.as_i64()? {
            seconds @ 0..SECONDS => Timestamp::from_second(seconds).ok(),
            millis => Timestamp::from_millisecond(millis).ok(),
        },
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A time as JavaScript writes it.
pub(crate) fn iso(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// JSON as JavaScript writes it for people.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    // Strings, numbers and maps with keys that are strings: nothing in them can fail.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// An object without some of its fields.
pub(crate) fn without(from: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let others = from
        .iter()
        .filter(|(name, _)| !names.contains(&name.as_str()));
    others
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// A text on one line, without control characters.
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
        for (value, expected) in [
            (json!("2025-01-01T00:00:01Z"), Some(at)),
            (json!(" 2025-01-01T01:00:01+01:00 "), Some(at)),
            (json!(1_735_689_601_000_i64), Some(at)),
            (json!(1_735_689_601), Some(at)),
            (json!(i64::MAX), None),
            (json!("yesterday"), None),
            (json!([]), None),
        ] {
            assert_eq!(time(Some(&value)), expected, "{value}");
        }
    }
}
