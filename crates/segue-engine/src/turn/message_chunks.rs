//! Messages that are too long to hold in memory.
//!
//! A streamed message that grows beyond [`MAX_CHUNK_BYTES`] is stored as several messages, each marked as incomplete.
//! [`merge_chunks`] merges them into one message when they are read.

use segue_core::session::{Message, Part, Role};

/// Size in bytes from which a streamed message continues in another stored message.
pub(crate) const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// The text of an answer, up to a maximum size. A longer answer is dropped completely, not truncated.
pub(crate) struct BoundedText {
    text: Option<String>,
    max_bytes: usize,
}

impl BoundedText {
    /// Creates an empty text that may contain up to `max_bytes` bytes.
    pub(crate) fn with_limit(max_bytes: usize) -> Self {
        Self {
            text: Some(String::new()),
            max_bytes,
        }
    }

    /// Appends text. If `starts_message` is `true`, the text is the start of a message and begins on a new line.
    pub(crate) fn append(&mut self, chunk: &str, starts_message: bool) {
        let Some(text) = &mut self.text else { return };
        let needs_newline = starts_message && !text.is_empty() && !text.ends_with('\n');
        if text.len() + usize::from(needs_newline) + chunk.len() > self.max_bytes {
            self.text = None;
            return;
        }
        text.push_str(if needs_newline { "\n" } else { "" });
        text.push_str(chunk);
    }

    /// Takes the collected text. `None` if it exceeded the maximum size.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.text.take()
    }
}

/// Returns the messages of a turn as the agent sent them: the chunks of a long message are merged.
pub(crate) fn merge_chunks(messages: Vec<Message>) -> Vec<Message> {
    let mut merged: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match merged
            .last_mut()
            .and_then(|last| append_continuation(last, &message))
        {
            Some(()) => {}
            None => merged.push(message),
        }
    }
    merged
}

/// Appends `next` to `last` if `last` is a chunk that `next` continues. `None` if it is not.
fn append_continuation(last: &mut Message, next: &Message) -> Option<()> {
    if last.complete || (last.role, next.role) != (Role::Assistant, Role::Assistant) {
        return None;
    }
    let (([Part::Text(text)], [Part::Text(more)]) | ([Part::Thought(text)], [Part::Thought(more)])) =
        (last.parts.as_mut_slice(), next.parts.as_slice())
    else {
        return None;
    };
    // A shorter message was interrupted, so the next message is a separate one.
    if text.len() < MAX_CHUNK_BYTES {
        return None;
    }
    text.push_str(more);
    last.tokens = last
        .tokens
        .zip(next.tokens)
        .map(|(tokens, more)| tokens + more);
    last.complete = next.complete;
    last.at = next.at;
    Some(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn message(part: Part, complete: bool) -> Message {
        let mut message = Message::new(Role::Assistant, vec![part], Timestamp::UNIX_EPOCH);
        message.complete = complete;
        message
    }

    #[test]
    fn only_chunks_of_one_message_are_merged() {
        let long = || "x".repeat(MAX_CHUNK_BYTES);
        let text = |content: &str| Part::Text(content.to_owned());
        let thought = |content: &str| Part::Thought(content.to_owned());
        let cases = [
            (
                "a chunk and the end of its text",
                text(&long()),
                false,
                text("end"),
                1,
            ),
            (
                "a chunk and the end of its thought",
                thought(&long()),
                false,
                thought("end"),
                1,
            ),
            (
                "a thought and a text",
                thought(&long()),
                false,
                text("end"),
                2,
            ),
            (
                "a complete message and another",
                text(&long()),
                true,
                text("end"),
                2,
            ),
            (
                "an interrupted message and another",
                text("short"),
                false,
                text("end"),
                2,
            ),
        ];
        for (name, first, complete, second, expected) in cases {
            let merged = merge_chunks(vec![message(first, complete), message(second, true)]);
            assert_eq!(merged.len(), expected, "{name}");
            assert!(merged.last().unwrap().complete, "{name}");
        }
        let chunks = vec![
            message(text(&long()), false),
            message(text(&long()), false),
            message(text("end"), false),
        ];
        let expected = message(text(&format!("{}{}end", long(), long())), false);
        assert!(merge_chunks(chunks) == [expected]);
    }

    #[test]
    fn text_over_the_limit_is_dropped_completely() {
        let collect = |max_bytes: usize| {
            let mut text = BoundedText::with_limit(max_bytes);
            text.append("one", true);
            text.append(" two", false);
            text.append("three", true);
            text.take()
        };
        assert_eq!(collect(13).as_deref(), Some("one two\nthree"));
        assert_eq!(collect(12), None);
    }
}
