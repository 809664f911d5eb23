//! Text of a message in a brief: text parts in full, tool calls and results in short form, thoughts omitted.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::brief::{describe_tool_call, describe_tool_result};
use crate::session::{Message, Part};

/// Returns the text of a message for a brief, before it is quoted. The token count stored with a message is that of
/// this text.
#[must_use]
pub fn message_text(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        let rendered: Cow<'_, str> = match part {
            Part::Text(content) => content.into(),
            Part::FunctionCall { name, args, .. } => {
                format!("(calls {})", describe_tool_call(name, args)).into()
            }
            Part::FunctionResponse {
                name,
                response,
                is_error,
                ..
            } => {
                let outcome = if *is_error { "failed" } else { "returned" };
                let (name, result) = (short_tool_name(name), describe_tool_result(response));
                format!("({name} {outcome})\n{result}").into()
            }
            Part::InlineData(data) => format!("(a file of type {})", data.mime_type).into(),
            Part::Thought(_) | Part::Unknown(_) => continue,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&clean_text(&rendered));
    }
    text
}

/// Maximum characters of a tool's name before its result. Some agents describe the complete call in the name.
const MAX_TOOL_NAME_CHARS: usize = 80;

/// Returns the first line of a tool's name, cut to the length that identifies the tool.
fn short_tool_name(name: &str) -> Cow<'_, str> {
    let line = name.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_TOOL_NAME_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None if line.len() < name.len() => format!("{line}…").into(),
        None => line.into(),
    }
}

/// Returns `true` if a message has no nonempty text part: only tool calls, tool results, or parts that a brief omits.
pub(crate) fn is_tool_message(message: &Message) -> bool {
    let has_text = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    !message.parts.iter().any(has_text)
}

/// Removes control characters, except line ends and tabs, and characters that change the reading direction. Converts
/// every character that may be read as a line end into `\n`.
pub(crate) fn clean_text(text: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| {
        c == '\n'
            || c == '\t'
            || !(c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    if text.chars().all(is_allowed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => out.push('\n'),
            c if is_allowed(c) => out.push(c),
            _ => {}
        }
    }
    Cow::Owned(out)
}

/// Appends each line of a text to `out`, with a mark before it that no line of the frame has.
pub(crate) fn push_quoted_lines(text: &str, out: &mut String) {
    for line in text.lines() {
        let mark = if line.is_empty() { ">" } else { "> " };
        let _ = writeln!(out, "{mark}{line}");
    }
}

/// Cuts a text of `tokens` tokens to about `max_tokens` tokens: its beginning and its end, with a note on the omitted
/// bytes between them. Leaves a text of at most `max_tokens` tokens unchanged.
pub(crate) fn shorten_to_tokens(text: &str, tokens: u64, max_tokens: u64) -> Cow<'_, str> {
    if tokens <= max_tokens {
        return Cow::Borrowed(text);
    }
    let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let bytes = u128::from(length) * u128::from(max_tokens) / u128::from(tokens.max(1));
    Cow::Owned(shorten_to_bytes(
        text,
        usize::try_from(bytes).unwrap_or(text.len()),
    ))
}

/// Returns the beginning and the end of a text, together about `bytes` bytes, with a note on the omitted bytes between
/// them.
pub(super) fn shorten_to_bytes(text: &str, bytes: usize) -> String {
    let half = bytes / 2;
    let head = text
        .get(..text.floor_char_boundary(half))
        .unwrap_or_default();
    let from = text.ceil_char_boundary(text.len().saturating_sub(half));
    let tail = text.get(from..).unwrap_or_default();
    let omitted = text.len().saturating_sub(head.len() + tail.len());
    format!("{head}\n(… {omitted} bytes omitted …)\n{tail}")
}
