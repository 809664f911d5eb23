//! JSON among noise: what programs print before, after and between the values they are asked for.

use serde_json::Value;

use crate::wire::Line;

/// How much of a line that is not JSON is told.
const EXCERPT: usize = 200;

/// How many beginnings are tried in one text; a text with more braces than this is not worth more.
const TRIES: usize = 10_000;

/// What is in one line of a program that talks in lines: usually one object, now and then noise before it or
/// several objects.
pub(crate) fn lines(line: &[u8]) -> Vec<Line> {
    let text = clean(line);
    let text = text.trim();
    if text.is_empty() {
        return Vec::new();
    }
    if let Ok(value @ Value::Object(_)) = serde_json::from_str(text) {
        return vec![Line::Json(value)];
    }
    let found = objects(text);
    if found.is_empty() {
        return vec![Line::Noise(text.chars().take(EXCERPT).collect())];
    }
    found.into_iter().map(Line::Json).collect()
}

/// The JSON objects in a text, in order, whatever is around them; one that is cut off is none.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    for _ in 0..TRIES {
        let Some(start) = rest.find('{') else { break };
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                rest = &rest[values.byte_offset()..];
                found.push(value);
            }
            Some(Err(_)) | None => rest = &rest[1..],
        }
    }
    found
}

/// Text without escape sequences of terminals, byte order mark and carriage returns.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(['\u{1b}', '\u{feff}', '\r']) {
        return text.into_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    // A control sequence ends with a letter or one of a few signs.
                    chars.next();
                    for c in chars.by_ref() {
                        if ('\u{40}'..='\u{7e}').contains(&c) {
                            break;
                        }
                    }
                }
                Some(']') => {
                    // A command of the terminal's own ends with a bell, or with an escape and a backslash.
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' {
                            break;
                        }
                        if c == '\u{1b}' {
                            chars.next_if_eq(&'\\');
                            break;
                        }
                    }
                }
                Some(_) | None => {
                    chars.next();
                }
            },
            '\u{feff}' | '\r' => {}
            c => clean.push(c),
        }
    }
    clean
}
