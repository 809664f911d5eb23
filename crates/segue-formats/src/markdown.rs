//! Export of a session as Markdown: the text of its messages and its tool calls.

use std::fmt::Write as _;

use segue_core::brief::noted_call;
use segue_core::session::{Message, Part, Role, Session, Turn};

/// Renders a session as Markdown.
#[must_use]
pub fn write<'a>(
    session: &Session,
    turns: impl IntoIterator<Item = (&'a Turn, &'a [Message])>,
) -> String {
    let mut text = format!("# {}\n\n", session.title.as_str());
    let _ = writeln!(text, "- session: {}", session.id);
    let _ = writeln!(text, "- agent: {}", session.provider);
    if let Some(purpose) = &session.purpose {
        let _ = writeln!(text, "- for: {purpose}");
    }
    let _ = writeln!(text, "- created: {}", session.created_at);
    let _ = writeln!(text, "- updated: {}", session.updated_at);
    for (turn, messages) in turns {
        let _ = write!(text, "\n## Turn {}\n", turn.n);
        for message in messages {
            told(&mut text, message);
        }
    }
    text
}

fn told(text: &mut String, message: &Message) {
    let who = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "segue",
        // Tool results are omitted, because they are long and the agent repeats what matters in its answer.
        Role::Tool => return,
    };
    let words = message.words();
    if !words.trim().is_empty() {
        let _ = write!(text, "\n**{who}**\n\n{}\n", words.trim_end());
    }
    for part in &message.parts {
        if let Part::FunctionCall { name, args, .. } = part {
            let call = noted_call(name, args);
            let call = call.replace('`', "'");
            let _ = write!(text, "\n> `{call}`\n");
        }
    }
}
