//! What a brief tells of a message: words as they are, tools in short, thoughts not at all.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::{Json, Message, Part};

/// What a brief tells of a message, before it is quoted. Its tokens are what is kept with the message.
#[must_use]
pub fn told(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        let said: Cow<'_, str> = match part {
            Part::Text(words) => clean(words),
            Part::FunctionCall { name, args, .. } => {
                clean(&format!("(calls {name} with {})", args.as_str()))
                    .into_owned()
                    .into()
            }
            Part::FunctionResponse {
                name,
                response,
                is_error,
                ..
            } => {
                let outcome = if *is_error { "failed" } else { "answered" };
                let answer = format!("({name} {outcome})\n{}", readable(response));
                clean(&answer).into_owned().into()
            }
            Part::InlineData(data) => clean(&format!("(a file of type {})", data.mime_type))
                .into_owned()
                .into(),
            Part::Thought(_) | Part::Unknown(_) => continue,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&said);
    }
    text
}

/// Whether a message is only about tools: calls, answers, or what is not told.
pub(super) fn is_tool_talk(message: &Message) -> bool {
    let words = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    !message.parts.iter().any(words)
}

/// The text without control characters but for line ends and tabs, and without what turns the order of reading. Whatever
/// may be read as the end of a line is one.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let stays = |c: char| {
        c == '\n'
            || c == '\t'
            || !(c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            c if stays(c) => out.push(c),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Writes each line of a text with a mark before it that no line of the frame has.
pub(crate) fn quoted(text: &str, out: &mut String) {
    for line in text.lines() {
        let mark = if line.is_empty() { ">" } else { "> " };
        let _ = writeln!(out, "{mark}{line}");
    }
}

/// The beginning and the end of a text of `tokens` tokens of which about `most` may be told, with what is missing said
/// between them.
pub(super) fn both_ends(text: &str, tokens: u64, most: u64) -> Cow<'_, str> {
    if tokens <= most {
        return Cow::Borrowed(text);
    }
    let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let bytes = u128::from(length) * u128::from(most) / u128::from(tokens.max(1));
    Cow::Owned(ends_of(text, usize::try_from(bytes).unwrap_or(text.len())))
}

/// The beginning and the end of a text, together about so many bytes.
pub(super) fn ends_of(text: &str, bytes: usize) -> String {
    let half = bytes / 2;
    let head = text
        .get(..text.floor_char_boundary(half))
        .unwrap_or_default();
    let from = text.ceil_char_boundary(text.len().saturating_sub(half));
    let tail = text.get(from..).unwrap_or_default();
    let left_out = text.len().saturating_sub(head.len() + tail.len());
    format!("{head}\n(… {left_out} bytes are left out here …)\n{tail}")
}

/// The words of a tool's answer where it consists of words, else the JSON it is.
fn readable(response: &Json) -> Cow<'_, str> {
    let words = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => Some(fields.get("text")?.as_str()?.to_owned()),
        _ => None,
    };
    let text = match serde_json::from_str(response.as_str()) {
        Ok(Value::String(text)) => Some(text),
        Ok(Value::Array(blocks)) => {
            let texts: Option<Vec<String>> = blocks.iter().map(words).collect();
            texts.map(|texts| texts.join("\n"))
        }
        Ok(Value::Object(fields)) if fields.len() == 1 => {
            let known = fields.get("output").or_else(|| fields.get("error"));
            known.and_then(Value::as_str).map(str::to_owned)
        }
        Ok(_) | Err(_) => None,
    };
    text.map_or(Cow::Borrowed(response.as_str()), Cow::Owned)
}
