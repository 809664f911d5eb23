//! Plain text of message parts, without characters that control a terminal.

use segue_core::brief::describe_tool_result;
use segue_core::session::Part;

/// Text and kind of a message part.
pub(crate) struct PlainPart {
    pub(crate) kind: PlainPartKind,
    pub(crate) text: String,
}

/// Kind of a message part, which determines how much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainPartKind {
    Text,
    Thought,
    Tool,
    /// A call of segue's history tools, or its result. It only repeats content of other turns.
    HistoryTool,
    Other,
}

/// Names of the tools with which an agent reads conversations. Agents add a prefix or a suffix.
const HISTORY_TOOL_NAMES: [&str; 2] = ["session_history", "session_search"];

pub(crate) fn to_plain_part(part: &Part) -> PlainPart {
    let tool_kind = |name: &str| {
        if HISTORY_TOOL_NAMES
            .iter()
            .any(|history_tool| name.contains(history_tool))
        {
            PlainPartKind::HistoryTool
        } else {
            PlainPartKind::Tool
        }
    };
    let (kind, text) = match part {
        Part::Text(text) => (PlainPartKind::Text, text.clone()),
        Part::Thought(text) => (PlainPartKind::Thought, text.clone()),
        Part::FunctionCall { name, args, .. } => (
            tool_kind(name),
            format!("calls {name} {}", args.to_single_line()),
        ),
        Part::FunctionResponse {
            name,
            response,
            is_error,
            ..
        } => {
            let outcome = if *is_error { "failed" } else { "answered" };
            (
                tool_kind(name),
                format!("{outcome}: {}", describe_tool_result(response)),
            )
        }
        Part::InlineData(data) => (PlainPartKind::Other, format!("[{}]", data.mime_type)),
        Part::Unknown(json) => (PlainPartKind::Other, json.to_single_line()),
    };
    PlainPart {
        kind,
        text: strip_control_characters(&text),
    }
}

/// Removes the characters and sequences that control a terminal or the reading direction. Line breaks and tabs stay.
pub(crate) fn strip_control_characters(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some(at) = remaining.find(|c: char| is_control_or_bidi(c) && c != '\n' && c != '\t') {
        let (before, after) = remaining.split_at(at);
        cleaned.push_str(before);
        remaining = skip_control_sequence(after);
    }
    cleaned.push_str(remaining);
    cleaned
}

/// Cleans a text and joins its lines, so that no text can imitate lines that segue writes.
pub(crate) fn to_single_line(text: &str) -> String {
    strip_control_characters(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns `true` if a character controls a terminal or the reading direction.
pub(crate) fn is_control_or_bidi(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text after its first character, which is a control character. If that starts a sequence such as `ESC [
/// 31 m`, returns the text after the sequence.
fn skip_control_sequence(text: &str) -> &str {
    let mut chars = text.chars();
    let first = chars.next();
    let after = chars.as_str();
    let Some(inside) = after.strip_prefix('[').filter(|_| first == Some('\u{1b}')) else {
        return after;
    };
    let end = inside.trim_start_matches(|c| ('\u{20}'..='\u{3f}').contains(&c));
    end.strip_prefix(|c| ('@'..='~').contains(&c))
        .unwrap_or(after)
}

#[cfg(test)]
mod tests {
    use segue_core::json::Json;

    use super::*;

    #[test]
    fn control_characters_and_sequences_are_removed() {
        let cases = [
            ("plain\n\ttext", "plain\n\ttext"),
            ("a\u{1b}[31mb\u{9b}c\rd\u{7}\ne\tf\u{202e}g", "abcd\ne\tfg"),
            // An incomplete sequence stays, without the escape character.
            ("a\u{1b}[31", "a[31"),
            ("\u{1b}]0;t\u{7}x", "]0;tx"),
            ("\u{1b}[1;31mü\u{1b}[0m", "ü"),
            ("\u{1b}", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(strip_control_characters(text), expected, "{text:?}");
        }
        assert_eq!(to_single_line(" a\n\n b\u{1b}[0m\tc "), "a b c");
    }

    #[test]
    fn calls_of_history_tools_are_recognised() {
        let call = |name: &str| Part::FunctionCall {
            id: "1".into(),
            name: name.into(),
            args: Json::empty_object(),
        };
        let cases = [
            ("Bash", PlainPartKind::Tool),
            ("mcp__segue__session_search", PlainPartKind::HistoryTool),
            (
                "session_history (segue MCP Server)",
                PlainPartKind::HistoryTool,
            ),
            ("mcp__segue__session_describe", PlainPartKind::Tool),
        ];
        for (name, kind) in cases {
            assert_eq!(to_plain_part(&call(name)).kind, kind, "{name}");
        }
    }
}
