//! Export of a session as Markdown: the text of its messages and its tool calls.

use std::fmt::Write as _;

use segue_core::brief::describe_tool_call;
use segue_core::session::{Message, Part, Role, Session, Turn};

/// Renders a session as Markdown.
#[must_use]
pub fn render_session<'a>(
    session: &Session,
    turns: impl IntoIterator<Item = (&'a Turn, &'a [Message])>,
) -> String {
    let mut text = format!("# {}\n\n", session.title.as_str());
    let _ = writeln!(text, "- session: {}", session.id);
    let _ = writeln!(text, "- agent: {}", session.provider);
    if let Some(purpose) = &session.purpose {
        let _ = writeln!(text, "- purpose: {purpose}");
    }
    let _ = writeln!(text, "- created: {}", session.created_at);
    let _ = writeln!(text, "- updated: {}", session.updated_at);
    for (turn, messages) in turns {
        let _ = write!(text, "\n## Turn {}\n", turn.number);
        for message in messages {
            push_message(&mut text, message);
        }
    }
    text
}

fn push_message(text: &mut String, message: &Message) {
    let author = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "segue",
        // Tool results are omitted, because they are long and the agent repeats what matters in its answer.
        Role::Tool => return,
    };
    let content = message.plain_text();
    if !content.trim().is_empty() {
        let _ = write!(text, "\n**{author}**\n\n{}\n", content.trim_end());
    }
    for part in &message.parts {
        if let Part::FunctionCall { name, args, .. } = part {
            let call = describe_tool_call(name, args);
            let call = call.replace('`', "'");
            let _ = write!(text, "\n> `{call}`\n");
        }
    }
}
