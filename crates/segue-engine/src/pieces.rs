//! Messages that are too long to hold in memory.
//!
//! A streamed message that grows beyond [`PIECE`] is stored as several messages, each marked as incomplete. [`joined`]
//! merges them into one message when they are read.

use segue_core::session::{Message, Part, Role};

/// Size in bytes from which a streamed message continues in another stored message.
pub(crate) const PIECE: usize = 1024 * 1024;

/// The text of an answer, up to a maximum size. A longer answer is dropped completely, not truncated.
pub(crate) struct Text {
    words: Option<String>,
    up_to: usize,
}

impl Text {
    /// Creates an empty text that may contain up to `up_to` bytes.
    pub(crate) fn up_to(up_to: usize) -> Self {
        Self {
            words: Some(String::new()),
            up_to,
        }
    }

    /// Appends text. If `begins` is `true`, the text is the start of a message and begins on a new line.
    pub(crate) fn add(&mut self, words: &str, begins: bool) {
        let Some(text) = &mut self.words else { return };
        let between = begins && !text.is_empty() && !text.ends_with('\n');
        if text.len() + usize::from(between) + words.len() > self.up_to {
            self.words = None;
            return;
        }
        text.push_str(if between { "\n" } else { "" });
        text.push_str(words);
    }

    /// Takes the collected text. `None` if it exceeded the maximum size.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.words.take()
    }
}

/// Returns the messages of a turn as the agent sent them: the chunks of a long message are merged.
pub(crate) fn joined(messages: Vec<Message>) -> Vec<Message> {
    let mut whole: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match whole.last_mut().and_then(|last| goes_on(last, &message)) {
            Some(()) => {}
            None => whole.push(message),
        }
    }
    whole
}

/// Appends `next` to `last` if `last` is a chunk that `next` continues. `None` if it is not.
fn goes_on(last: &mut Message, next: &Message) -> Option<()> {
    if last.complete || (last.role, next.role) != (Role::Assistant, Role::Assistant) {
        return None;
    }
    let (([Part::Text(said)], [Part::Text(more)]) | ([Part::Thought(said)], [Part::Thought(more)])) =
        (last.parts.as_mut_slice(), next.parts.as_slice())
    else {
        return None;
    };
    // A shorter message was interrupted, so the next message is a separate one.
    if said.len() < PIECE {
        return None;
    }
    said.push_str(more);
    last.tokens = last.tokens.zip(next.tokens).map(|(said, more)| said + more);
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
    fn only_pieces_are_put_together() {
        let long = || "x".repeat(PIECE);
        let text = |words: &str| Part::Text(words.to_owned());
        let thought = |words: &str| Part::Thought(words.to_owned());
        let cases = [
            ("a piece and its end", text(&long()), false, text("end"), 1),
            ("thoughts, too", thought(&long()), false, thought("end"), 1),
            (
                "a thought and a text",
                thought(&long()),
                false,
                text("end"),
                2,
            ),
            (
                "a whole one and another",
                text(&long()),
                true,
                text("end"),
                2,
            ),
            ("one that was cut off", text("short"), false, text("end"), 2),
        ];
        for (name, first, complete, second, expected) in cases {
            let read = joined(vec![message(first, complete), message(second, true)]);
            assert_eq!(read.len(), expected, "{name}");
            assert!(read.last().unwrap().complete, "{name}");
        }
        let pieces = vec![
            message(text(&long()), false),
            message(text(&long()), false),
            message(text("end"), false),
        ];
        let expected = message(text(&format!("{}{}end", long(), long())), false);
        assert!(joined(pieces) == [expected]);
    }

    #[test]
    fn text_is_kept_whole_or_not_at_all() {
        let said = |up_to: usize| {
            let mut text = Text::up_to(up_to);
            text.add("one", true);
            text.add(" two", false);
            text.add("three", true);
            text.take()
        };
        assert_eq!(said(13).as_deref(), Some("one two\nthree"));
        assert_eq!(said(12), None);
    }
}
