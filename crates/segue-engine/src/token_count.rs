//! Token counts of messages, made without delaying the task that reads an agent's events.

use segue_core::brief::message_text;
use segue_core::session::{Message, Part};

use crate::context::run_blocking;
use crate::turn::message_chunks::MAX_CHUNK_BYTES;

/// Counts the tokens of a message that has no count, if that is fast: the vocabulary is loaded, and the message is at
/// most `2 * MAX_CHUNK_BYTES` long. Other messages are counted when a caller needs the count.
pub(crate) fn count_message_tokens_if_ready(message: &mut Message) {
    if message.tokens.is_none() && message_bytes(message) <= 2 * MAX_CHUNK_BYTES {
        message.tokens = segue_tokens::count_if_ready(&message_text(message));
    }
}

/// Returns the token count of a message, and stores it in the message if it was missing.
pub(crate) fn count_message_tokens(message: &mut Message) -> u64 {
    let tokens = message
        .tokens
        .unwrap_or_else(|| segue_tokens::count(&message_text(message)));
    message.tokens = Some(tokens);
    tokens
}

/// Counts the tokens of a text on a blocking thread, because the vocabulary may have to be loaded first.
pub(crate) async fn count_tokens(text: String) -> u64 {
    run_blocking(move || segue_tokens::count(&text)).await
}

fn message_bytes(message: &Message) -> usize {
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
