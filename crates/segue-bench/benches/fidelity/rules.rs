//! The compaction rules of other tools, implemented from their descriptions. The summary that a model would write for
//! them is not included.

use segue_core::brief::{BriefTurn, message_text};
use segue_core::session::{Message, Role};

/// Percentage of the budget at which the other tools compact.
const COMPACTION_THRESHOLD_PERCENT: u64 = 90;

/// Returns the name of each rule and the text that it retains of a session within `budget`.
pub(crate) fn apply_rules(
    turns: &[BriefTurn],
    budget: u64,
    brief_tokens: u64,
) -> Vec<(&'static str, String)> {
    let threshold = budget * COMPACTION_THRESHOLD_PERCENT / 100;
    let is_user_message = |message: &Message| message.role == Role::User;
    vec![
        (
            "newest messages, as many tokens",
            newest_messages(turns, brief_tokens, |_| true),
        ),
        (
            "newest user messages, as many tokens",
            newest_messages(turns, brief_tokens, is_user_message),
        ),
        (
            "newest user messages, 20,000 tokens (Codex)",
            newest_messages(turns, 20_000.min(budget), is_user_message),
        ),
        (
            "last 30 % (Gemini CLI)",
            newest_messages(turns, threshold * 30 / 100, |_| true),
        ),
        (
            "last 25 %, 2,000 to 15,000 tokens (opencode)",
            newest_messages(turns, (threshold / 4).clamp(2_000, 15_000), |_| true),
        ),
        (
            "last user message (goose)",
            last_message(turns, is_user_message),
        ),
        ("nothing", String::new()),
    ]
}

/// Returns the newest wanted messages that fit into `max_tokens`, and the end of the first message that does not fit.
fn newest_messages(
    turns: &[BriefTurn],
    max_tokens: u64,
    is_wanted: impl Fn(&Message) -> bool,
) -> String {
    let messages = turns.iter().flat_map(|turn| &turn.messages);
    let mut remaining = max_tokens;
    let mut retained = Vec::new();
    for message in messages.rev().filter(|message| is_wanted(message)) {
        let text = message_text(message);
        let tokens = message.tokens.unwrap();
        if tokens > remaining {
            let bytes = usize::try_from(remaining * text.len() as u64 / tokens).unwrap();
            let cut = text.ceil_char_boundary(text.len() - bytes);
            retained.push(text[cut..].to_owned());
            break;
        }
        remaining -= tokens;
        retained.push(text);
    }
    retained.reverse();
    retained.join("\n")
}

fn last_message(turns: &[BriefTurn], is_wanted: impl Fn(&Message) -> bool) -> String {
    let mut messages = turns.iter().flat_map(|turn| &turn.messages).rev();
    messages
        .find(|message| is_wanted(message))
        .map(message_text)
        .unwrap_or_default()
}
