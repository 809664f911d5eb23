//! What other tools keep when they compact, by the rules that they are described by, written anew. What a model would
//! write for them beside that is not in it.

use segue_core::brief::{BriefTurn, message_text};
use segue_core::session::{Message, Role};

/// How full a request is when it is compacted, of 100.
const FULL: u64 = 90;

/// The names of the rules, and what each keeps of a session under a budget.
pub(crate) fn all(turns: &[BriefTurn], budget: u64, same: u64) -> Vec<(&'static str, String)> {
    let full = budget * FULL / 100;
    let users = |message: &Message| message.role == Role::User;
    vec![
        (
            "newest messages, as many tokens",
            newest(turns, same, |_| true),
        ),
        (
            "newest user messages, as many tokens",
            newest(turns, same, users),
        ),
        (
            "newest user messages, 20,000 tokens (Codex)",
            newest(turns, 20_000.min(budget), users),
        ),
        (
            "last 30 % (Gemini CLI)",
            newest(turns, full * 30 / 100, |_| true),
        ),
        (
            "last 25 %, 2,000 to 15,000 tokens (opencode)",
            newest(turns, (full / 4).clamp(2_000, 15_000), |_| true),
        ),
        ("last user message (goose)", last(turns, users)),
        ("nothing", String::new()),
    ]
}

/// The newest of some messages, as long as they fit; of the first that does not, its end.
fn newest(turns: &[BriefTurn], most: u64, wanted: impl Fn(&Message) -> bool) -> String {
    let messages = turns.iter().flat_map(|turn| &turn.messages);
    let mut left = most;
    let mut kept = Vec::new();
    for message in messages.rev().filter(|message| wanted(message)) {
        let text = message_text(message);
        let tokens = message.tokens.unwrap();
        if tokens > left {
            let bytes = usize::try_from(left * text.len() as u64 / tokens).unwrap();
            let cut = text.ceil_char_boundary(text.len() - bytes);
            kept.push(text[cut..].to_owned());
            break;
        }
        left -= tokens;
        kept.push(text);
    }
    kept.reverse();
    kept.join("\n")
}

fn last(turns: &[BriefTurn], wanted: impl Fn(&Message) -> bool) -> String {
    let mut messages = turns.iter().flat_map(|turn| &turn.messages).rev();
    messages
        .find(|message| wanted(message))
        .map(message_text)
        .unwrap_or_default()
}
