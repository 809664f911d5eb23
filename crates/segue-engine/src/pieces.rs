//! Answers that are too long to be held in memory.
//!
//! A streamed message that grows beyond [`PIECE`] goes on record in pieces, each a message of its own that is
//! marked as incomplete. Whoever reads the record gets one message again.

use segue_core::{Message, Part, Role};

/// How long a message may get before it goes on in another piece.
pub(crate) const PIECE: usize = 1024 * 1024;

/// The words of an answer, unless they are more than anybody asked for.
pub(crate) struct Text {
    words: Option<String>,
    up_to: usize,
}

impl Text {
    /// Nothing said yet; up to so many bytes are kept.
    pub(crate) fn up_to(up_to: usize) -> Self {
        Self {
            words: Some(String::new()),
            up_to,
        }
    }

    /// Adds some words. Each message of the answer begins on a line of its own.
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

    /// All of them, if they are no more than was asked for.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.words.take()
    }
}

/// The messages of a turn as they were said: pieces of one are put together.
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

/// Adds `next` to `last` if that is a piece which it goes on from.
fn goes_on(last: &mut Message, next: &Message) -> Option<()> {
    if last.complete || (last.role, next.role) != (Role::Assistant, Role::Assistant) {
        return None;
    }
    let (([Part::Text(said)], [Part::Text(more)]) | ([Part::Thought(said)], [Part::Thought(more)])) =
        (last.parts.as_mut_slice(), next.parts.as_slice())
    else {
        return None;
    };
    // A shorter one was cut off, and what follows it is another message.
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
