//! Plain text of message parts, without characters that control a terminal.

use segue_core::brief::noted_answer;
use segue_core::session::Part;

/// Text and kind of a message part.
pub(crate) struct Plain {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Kind of a message part, which determines how much of it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Words,
    Thought,
    Tool,
    /// A call of segue's history tools, or its result. It only repeats content of other turns.
    Recall,
    Other,
}

/// Names of the tools with which an agent reads conversations. Agents add a prefix or a suffix.
const ASKING: [&str; 2] = ["session_history", "session_search"];

pub(crate) fn plain(part: &Part) -> Plain {
    let tool = |name: &str| {
        if ASKING.iter().any(|asking| name.contains(asking)) {
            Kind::Recall
        } else {
            Kind::Tool
        }
    };
    let (kind, text) = match part {
        Part::Text(text) => (Kind::Words, text.clone()),
        Part::Thought(text) => (Kind::Thought, text.clone()),
        Part::FunctionCall { name, args, .. } => {
            (tool(name), format!("calls {name} {}", args.on_one_line()))
        }
        Part::FunctionResponse {
            name,
            response,
            is_error,
            ..
        } => {
            let outcome = if *is_error { "failed" } else { "answered" };
            (tool(name), format!("{outcome}: {}", noted_answer(response)))
        }
        Part::InlineData(data) => (Kind::Other, format!("[{}]", data.mime_type)),
        Part::Unknown(json) => (Kind::Other, json.on_one_line()),
    };
    Plain {
        kind,
        text: clean(&text),
    }
}

/// Removes the characters and sequences that control a terminal or the reading direction. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| steers(c) && c != '\n' && c != '\t') {
        let (before, after) = rest.split_at(at);
        clean.push_str(before);
        rest = without_sequence(after);
    }
    clean.push_str(rest);
    clean
}

/// Cleans a text and joins its lines, so that no text can imitate lines that segue writes.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `true` if a character controls a terminal or the reading direction.
pub(crate) fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text after its first character, which is a control character. If that starts a sequence such as `ESC [
/// 31 m`, returns the text after the sequence.
fn without_sequence(text: &str) -> &str {
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
    fn what_steers_is_removed() {
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
            assert_eq!(clean(text), expected, "{text:?}");
        }
        assert_eq!(one_line(" a\n\n b\u{1b}[0m\tc "), "a b c");
    }

    #[test]
    fn what_asks_about_conversations_is_told_apart() {
        let call = |name: &str| Part::FunctionCall {
            id: "1".into(),
            name: name.into(),
            args: Json::empty_object(),
        };
        let cases = [
            ("Bash", Kind::Tool),
            ("mcp__segue__session_search", Kind::Recall),
            ("session_history (segue MCP Server)", Kind::Recall),
            ("mcp__segue__session_describe", Kind::Tool),
        ];
        for (name, kind) in cases {
            assert_eq!(plain(&call(name)).kind, kind, "{name}");
        }
    }
}
