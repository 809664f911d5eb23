//! Extraction of JSON values from noise, which programs print before, after and between them.

use serde_json::Value;
use serde_json::error::Category;

use crate::wire::Line;

/// Beginning of the parser's error message for too many levels.
const TOO_DEEP: &str = "recursion limit exceeded";

/// Maximum number of characters in an excerpt of text that is not JSON.
const EXCERPT: usize = 200;

/// Maximum number of truncated values in one text; each of them causes another scan of the remaining text.
const CUT_OFF: usize = 100;

/// Parses one line of a program that writes lines: usually one object, sometimes noise before it or several objects.
pub(crate) fn lines(line: &[u8]) -> Vec<Line> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Vec::new();
    }
    // The unchanged line first, because characters that look like noise may be part of a string.
    match serde_json::from_slice(line) {
        Ok(value @ Value::Object(_)) => return vec![Line::Json(value)],
        // Objects inside an object that is nested too deeply are parts of it, not lines.
        Err(error) if error.to_string().starts_with(TOO_DEEP) => {
            return vec![Line::Noise(excerpt(&clean(line)))];
        }
        Ok(_) | Err(_) => {}
    }
    let text = clean(line);
    let found = objects(&text);
    if found.is_empty() {
        let words = excerpt(&text);
        return if words.is_empty() {
            Vec::new()
        } else {
            vec![Line::Noise(words)]
        };
    }
    found.into_iter().map(Line::Json).collect()
}

/// Returns the beginning of a text, for the user to read.
pub(crate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(EXCERPT).collect()
}

/// Returns the JSON objects in a text, in order, whatever text surrounds them. Omits a truncated object and the objects
/// inside it, because a part must not be taken for the complete object.
pub(crate) fn objects(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut cut_off = 0;
    while let Some(start) = rest.find('{') {
        rest = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let skip = match values.next() {
            Some(Ok(value)) => {
                found.push(value);
                values.byte_offset()
            }
            Some(Err(error)) if error.classify() == Category::Eof => {
                cut_off += 1;
                // Only an object that begins a line may be another value: the parts of a pretty-printed object are
                // indented.
                match rest.find("\n{") {
                    Some(next) if cut_off < CUT_OFF => next + 1,
                    Some(_) | None => break,
                }
            }
            Some(Err(error)) => position(rest, &error).max(1),
            None => break,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    found
}

/// Returns the position of an error in a text, or the end of the last character before it.
fn position(text: &str, error: &serde_json::Error) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(0, |(at, _)| at + 1),
    };
    let mut at = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the text without terminal escape sequences, byte order marks and carriage returns.
pub(crate) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(['\u{1b}', '\u{feff}', '\r']) {
        return text.into_owned();
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find(['\u{1b}', '\u{feff}', '\r']) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let mut chars = rest.chars();
        rest = match chars.next() {
            Some('\u{1b}') => after_escape(chars.as_str()),
            Some(_) | None => chars.as_str(),
        };
    }
    clean.push_str(rest);
    clean
}

/// Returns the text that follows an escape sequence, whose escape character has been read.
fn after_escape(text: &str) -> &str {
    let mut chars = text.chars();
    match chars.next() {
        // A control sequence ends with a letter or one of a few symbols.
        Some('[') => after(chars.as_str(), |c| ('\u{40}'..='\u{7e}').contains(&c)),
        // A string for the terminal ends with a bell or another escape, and never extends beyond a line.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            let text = chars.as_str();
            match text.find(['\u{7}', '\u{1b}', '\n']) {
                Some(end) => {
                    let rest = &text[end..];
                    let known = ["\u{1b}\\", "\u{7}", "\u{1b}"];
                    let mut stripped = known.iter().filter_map(|end| rest.strip_prefix(end));
                    stripped.next().unwrap_or(rest)
                }
                None => "",
            }
        }
        // Other sequences have intermediate characters and a final one.
        Some(' '..='/') => after(chars.as_str(), |c| !(' '..='/').contains(&c)),
        Some(_) => chars.as_str(),
        None => "",
    }
}

/// Returns the text that follows the first character for which `is_end` is `true`.
fn after(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    text.char_indices()
        .find(|(_, c)| is_end(*c))
        .and_then(|(at, c)| text.get(at + c.len_utf8()..))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
