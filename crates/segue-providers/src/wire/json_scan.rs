//! Extraction of JSON values from noise, which programs print before, after and between them.

use serde_json::Value;
use serde_json::error::Category;

use crate::wire::json_lines::OutputLine;

/// Beginning of the parser's error message for too many levels.
const RECURSION_ERROR_PREFIX: &str = "recursion limit exceeded";

/// Maximum number of characters in an excerpt of text that is not JSON.
const MAX_EXCERPT_CHARS: usize = 200;

/// Maximum number of truncated values in one text; each of them causes another scan of the remaining text.
const MAX_TRUNCATED_VALUES: usize = 100;

/// Parses one line of a program that writes lines: usually one object, sometimes noise before it or several objects.
pub(crate) fn parse_line(line: &[u8]) -> Vec<OutputLine> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Vec::new();
    }
    // The unchanged line first, because characters that look like noise may be part of a string.
    match serde_json::from_slice(line) {
        Ok(value @ Value::Object(_)) => return vec![OutputLine::Json(value)],
        // Objects inside an object that is nested too deeply are parts of it, not lines.
        Err(error) if error.to_string().starts_with(RECURSION_ERROR_PREFIX) => {
            return vec![OutputLine::Noise(excerpt(&strip_terminal_codes(line)))];
        }
        Ok(_) | Err(_) => {}
    }
    let text = strip_terminal_codes(line);
    let values = extract_objects(&text);
    if values.is_empty() {
        let noise_text = excerpt(&text);
        return if noise_text.is_empty() {
            Vec::new()
        } else {
            vec![OutputLine::Noise(noise_text)]
        };
    }
    values.into_iter().map(OutputLine::Json).collect()
}

/// Returns the beginning of a text, for the user to read.
pub(crate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(MAX_EXCERPT_CHARS).collect()
}

/// Returns the JSON objects in a text, in order, whatever text surrounds them. Omits a truncated object and the objects
/// inside it, because a part must not be taken for the complete object.
pub(crate) fn extract_objects(text: &str) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut remainder = text;
    let mut truncated_count = 0;
    while let Some(start) = remainder.find('{') {
        remainder = &remainder[start..];
        let mut values = serde_json::Deserializer::from_str(remainder).into_iter::<Value>();
        let skip = match values.next() {
            Some(Ok(value)) => {
                objects.push(value);
                values.byte_offset()
            }
            Some(Err(error)) if error.classify() == Category::Eof => {
                truncated_count += 1;
                // Only an object that begins a line may be another value: the parts of a pretty-printed object are
                // indented.
                match remainder.find("\n{") {
                    Some(next_start) if truncated_count < MAX_TRUNCATED_VALUES => next_start + 1,
                    Some(_) | None => break,
                }
            }
            Some(Err(error)) => error_position(remainder, &error).max(1),
            None => break,
        };
        remainder = remainder.get(skip..).unwrap_or_default();
    }
    objects
}

/// Returns the position of an error in a text, or the end of the last character before it.
fn error_position(text: &str, error: &serde_json::Error) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(0, |(index, _)| index + 1),
    };
    let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Returns the text without terminal escape sequences, byte order marks and carriage returns.
pub(crate) fn strip_terminal_codes(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if !text.contains(['\u{1b}', '\u{feff}', '\r']) {
        return text.into_owned();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut remainder = text.as_ref();
    while let Some(index) = remainder.find(['\u{1b}', '\u{feff}', '\r']) {
        cleaned.push_str(&remainder[..index]);
        remainder = &remainder[index..];
        let mut chars = remainder.chars();
        remainder = match chars.next() {
            Some('\u{1b}') => skip_escape_sequence(chars.as_str()),
            Some(_) | None => chars.as_str(),
        };
    }
    cleaned.push_str(remainder);
    cleaned
}

/// Returns the text that follows an escape sequence, whose escape character has been read.
fn skip_escape_sequence(text: &str) -> &str {
    let mut chars = text.chars();
    match chars.next() {
        // A control sequence ends with a letter or one of a few symbols.
        Some('[') => skip_past(chars.as_str(), |c| ('\u{40}'..='\u{7e}').contains(&c)),
        // A string for the terminal ends with a bell or another escape, and never extends beyond a line.
        Some(']' | 'P' | '^' | '_' | 'X') => {
            let text = chars.as_str();
            match text.find(['\u{7}', '\u{1b}', '\n']) {
                Some(end) => {
                    let remainder = &text[end..];
                    let terminators = ["\u{1b}\\", "\u{7}", "\u{1b}"];
                    let mut stripped = terminators
                        .iter()
                        .filter_map(|end| remainder.strip_prefix(end));
                    stripped.next().unwrap_or(remainder)
                }
                None => "",
            }
        }
        // Other sequences have intermediate characters and a final one.
        Some(' '..='/') => skip_past(chars.as_str(), |c| !(' '..='/').contains(&c)),
        Some(_) => chars.as_str(),
        None => "",
    }
}

/// Returns the text that follows the first character for which `is_end` is `true`.
fn skip_past(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    text.char_indices()
        .find(|(_, c)| is_end(*c))
        .and_then(|(index, c)| text.get(index + c.len_utf8()..))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
