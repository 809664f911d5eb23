//! Helpers that read JSON of any form and render JSON as other programs do.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the text without a leading byte order mark, which some editors write.
pub(crate) fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Parses a JSON object. The error is the reason why the text is not one.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str::<Value>(strip_byte_order_mark(text)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(value) => Err(format!(
            "expected an object, found {}",
            describe_type(&value)
        )),
        Err(error) => Err(format!("not valid JSON: {error}")),
    }
}

/// Returns a description of the value's type for a remark.
pub(crate) fn describe_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the first of the named fields that is a string.
pub(crate) fn string_field<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut values = names.iter().filter_map(|name| object.get(*name));
    values.find_map(Value::as_str)
}

/// Returns a field as an integer. A fraction is rounded to the nearest integer. `None` if the field is not a number, is
/// negative, or is a floating-point number of 10^15 or more.
pub(crate) fn integer_field(object: &Map<String, Value>, name: &str) -> Option<u64> {
    let value = object.get(name)?;
    let round_float = || {
        let float = value.as_f64().filter(|float| (0.0..1e15).contains(float))?;
        format!("{float:.0}").parse().ok()
    };
    value.as_u64().or_else(round_float)
}

/// Returns a field that is an object; `None` if it is not.
pub(crate) fn object_field<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> Option<&'a Map<String, Value>> {
    object.get(name)?.as_object()
}

/// Limit below which a number counts seconds since 1970: as milliseconds it would be a time before 1974, when these
/// programs did not exist.
const EPOCH_SECONDS_LIMIT: i64 = 100_000_000_000;

/// Minimum length of a text of digits that counts seconds or milliseconds; a shorter one may be a year or a date.
const MIN_EPOCH_DIGITS: usize = 9;

/// Parses a time: RFC 3339, also without a zone or a time of day (then UTC), or milliseconds or seconds since 1970.
pub(crate) fn parse_time(value: Option<&Value>) -> Option<Timestamp> {
    match value? {
        Value::String(text) => parse_time_text(text.trim()),
        Value::Number(number) => time_from_epoch(number.as_i64()?),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn parse_time_text(text: &str) -> Option<Timestamp> {
    if text.len() >= MIN_EPOCH_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return time_from_epoch(text.parse().ok()?);
    }
    let parse_without_zone = || {
        let time: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(time).ok()
    };
    text.parse().ok().or_else(parse_without_zone)
}

fn time_from_epoch(number: i64) -> Option<Timestamp> {
    match number {
        seconds @ 0..EPOCH_SECONDS_LIMIT => Timestamp::from_second(seconds).ok(),
        millis => Timestamp::from_millisecond(millis).ok(),
    }
}

/// Returns the time that a message states. The error states whether it is missing or cannot be parsed.
pub(crate) fn message_time(message: &Map<String, Value>) -> Result<Timestamp, String> {
    match message.get("timestamp") {
        None | Some(Value::Null) => Err("has no time".to_owned()),
        Some(value) => {
            parse_time(Some(value)).ok_or_else(|| format!("has the invalid time {value}"))
        }
    }
}

/// Returns the values of a field that is a list; empty if the field is missing or null. The error states its type.
pub(crate) fn list_field<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> Result<&'a [Value], String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(value) => Err(format!(
            "field `{name}` is {}, not a list",
            describe_type(value)
        )),
    }
}

/// Returns the strings in a field that is a list; empty if it is not.
pub(crate) fn string_list<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a str> {
    let values = object.get(name).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the text in the first of the named fields that is a string or a list of parts. Text parts are joined by
/// newlines. `None` if the text is blank.
pub(crate) fn content_text(object: &Map<String, Value>, names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| object.get(*name));
    let joined = values.find_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(
            parts
                .iter()
                .filter_map(part_text)
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    });
    joined.filter(|joined| !joined.trim().is_empty())
}

/// Returns the text of a part `{type: "text", text}`; `None` if the part is of another type.
fn part_text(value: &Value) -> Option<&str> {
    let part = value.as_object()?;
    string_field(part, &["text"]).filter(|_| string_field(part, &["type"]) == Some("text"))
}

/// Returns the parts of a message that are not text; `None` if it has none.
pub(crate) fn non_text_parts(object: &Map<String, Value>, name: &str) -> Option<Value> {
    let parts = object.get(name)?.as_array()?;
    let non_text: Vec<Value> = parts
        .iter()
        .filter(|value| part_text(value).is_none())
        .cloned()
        .collect();
    (!non_text.is_empty()).then_some(Value::Array(non_text))
}

/// Formats a time as JavaScript's `Date.toISOString` does.
pub(crate) fn format_iso_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Returns a field of a file for [`merge_imported_fields`].
pub(crate) fn field(name: &str, value: impl Into<Value>) -> (&str, Option<Value>) {
    (name, Some(value.into()))
}

/// Combines the fields of a file in order, without those that are `None`, and the imported fields of other names.
pub(crate) fn merge_imported_fields<const N: usize>(
    fields: [(&str, Option<Value>); N],
    imported: &Map<String, Value>,
) -> Map<String, Value> {
    let other_fields = without_fields(imported, &fields.each_ref().map(|(name, _)| *name));
    let present = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.chain(other_fields).collect()
}

/// Renders JSON with an indent of two spaces, as JavaScript programs do.
pub(crate) fn render_json(value: &impl Serialize) -> String {
    // Serialisation cannot fail: the values are strings, numbers and maps with string keys.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns a copy of an object without the named fields.
pub(crate) fn without_fields(object: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let mut remaining = object.clone();
    remaining.retain(|name, _| !names.contains(&name.as_str()));
    remaining
}

/// Returns the text on one line. Each run of whitespace and control characters becomes one space.
pub(crate) fn collapse_to_one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_is_parsed_from_text_seconds_or_milliseconds() {
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
            assert_eq!(parse_time(Some(&value)), expected, "{value}");
        }
    }
}
