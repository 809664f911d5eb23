//! What a brief tells of a message: words as they are, tools in short, thoughts not at all.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{Message, Part, noted_answer, noted_call};

/// What a brief tells of a message, before it is quoted. Its tokens are what is kept with the message.
#[must_use]
pub fn told(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.parts {
        let said: Cow<'_, str> = match part {
            Part::Text(words) => clean(words),
            Part::FunctionCall { name, args, .. } => {
                clean(&format!("(calls {})", noted_call(name, args)))
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
                let answer = format!("({} {outcome})\n{}", title(name), noted_answer(response));
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

/// How many characters of a tool's name stand before its answer: some agents name a call by all it is about.
const TITLE: usize = 80;

/// The first line of a tool's name, as far as it is needed to know which one answers.
fn title(name: &str) -> Cow<'_, str> {
    let line = name.lines().next().unwrap_or_default();
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None if line.len() < name.len() => format!("{line}…").into(),
        None => line.into(),
    }
}

/// Whether a message is only about tools: calls, answers, or what is not told.
pub(crate) fn is_tool_talk(message: &Message) -> bool {
    let words = |part: &Part| matches!(part, Part::Text(text) if !text.trim().is_empty());
    !message.parts.iter().any(words)
}

/// The text without control characters but for line ends and tabs, and without what turns the order of reading. Whatever
/// may be read as the end of a line is one.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
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
pub(crate) fn both_ends(text: &str, tokens: u64, most: u64) -> Cow<'_, str> {
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
