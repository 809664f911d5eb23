//! Counting the tokens of messages, without keeping anybody waiting who listens to an agent.

use segue_core::{Message, Part, told};

use crate::pieces::PIECE;

/// Counts a message that was not counted yet, if that takes no time: the vocabulary is loaded, and the message is of
/// a usual length. Others are counted when somebody needs it.
pub(crate) fn count_if_ready(message: &mut Message) {
    if message.tokens.is_none() && length(message) <= 2 * PIECE {
        message.tokens = segue_tokens::count_if_ready(&told(message));
    }
}

/// Counts a message that was not counted yet.
pub(crate) fn count(message: &mut Message) -> u64 {
    let tokens = message
        .tokens
        .unwrap_or_else(|| segue_tokens::count(&told(message)));
    message.tokens = Some(tokens);
    tokens
}

fn length(message: &Message) -> usize {
    let parts = message.parts.iter();
    parts
        .map(|part| match part {
            Part::Text(text) => text.len(),
            Part::FunctionCall { args, .. } => args.as_str().len(),
            Part::FunctionResponse { response, .. } => response.as_str().len(),
            Part::Thought(_) | Part::InlineData(_) | Part::Unknown(_) => 0,
        })
        .sum()
}
