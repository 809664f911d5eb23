//! Formatting of a conversation as text, for comparison.

use std::fmt::Write;

use segue_core::session::{Part, Role};
use segue_providers::NativeTurn;

/// Formats the turns of a session.
pub(crate) fn format_turns(turns: &[NativeTurn]) -> String {
    let mut text = String::new();
    for (n, turn) in (1..).zip(turns) {
        let compacted = if turn.compacted { ", compacted" } else { "" };
        let _ = writeln!(text, "{n} {}{compacted}", turn.state.as_str());
        for message in &turn.messages {
            let parts: Vec<String> = message
                .parts
                .iter()
                .map(|part| format_part(message.role, part))
                .collect();
            let _ = writeln!(text, "  {}", parts.join(" + "));
        }
    }
    text
}

fn format_part(role: Role, part: &Part) -> String {
    match part {
        Part::Text(content) => format!(
            "{}: {}",
            role.as_str(),
            content.trim_end().replace('\n', "⏎")
        ),
        Part::Thought(content) => format!("thought: {}", content.trim_end().replace('\n', "⏎")),
        Part::FunctionCall { name, args, .. } => format!("call {name} {}", args.as_str()),
        Part::FunctionResponse {
            name,
            response,
            is_error,
            ..
        } => {
            let outcome = if *is_error { "failed" } else { "ok" };
            format!(
                "result of {name} {outcome}: {}",
                mask_run_values(response.as_str())
            )
        }
        Part::InlineData(data) => {
            let length = data.data.as_ref().map_or(0, String::len);
            format!(
                "{}: [{}, {length} characters]",
                role.as_str(),
                data.mime_type
            )
        }
        Part::Unknown(json) => format!("unknown: {}", json.as_str()),
    }
}

/// Removes process ids and times from results, because they differ in each run.
fn mask_run_values(text: &str) -> String {
    let mut text = text.to_owned();
    for (before, after) in [
        ("Chunk ID: ", "\\n"),
        ("Wall time: ", "\\n"),
        ("PGID: ", "\\n"),
        ("Original token count: ", "\\n"),
    ] {
        let mut from = 0;
        while let Some(at) = text[from..].find(before) {
            let start = from + at + before.len();
            let end = text[start..]
                .find(after)
                .map_or(text.len(), |at| start + at);
            text.replace_range(start..end, "…");
            from = start;
        }
    }
    text
}
