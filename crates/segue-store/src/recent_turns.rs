//! Turns that are read from the newest to the oldest, until there are enough.

use segue_core::brief::min_brief_tokens;
use segue_core::id::TurnId;
use segue_core::session::{Message, TurnState};

use crate::StoredTurn;

/// Limit at which reading backwards ends.
#[derive(Debug, Clone, Copy)]
pub enum ReadLimit {
    /// A brief of this number of tokens is full.
    BriefTokens(u64),
    /// The turn with this number is reached; it is not included.
    AfterTurn(u32),
}

/// Turns that a store reads backwards, message by message.
#[derive(Debug)]
pub struct RecentTurns {
    limit: ReadLimit,
    needed_tokens: u64,
    turns: Vec<StoredTurn>,
    /// Numbers of the messages of the last turn.
    message_numbers: Vec<u32>,
}

impl RecentTurns {
    /// Creates an empty collection.
    #[must_use]
    pub const fn new(limit: ReadLimit) -> Self {
        Self {
            limit,
            needed_tokens: 0,
            turns: Vec::new(),
            message_numbers: Vec::new(),
        }
    }

    /// Begins the turn of the next message, unless it is the turn of the message before. Returns `false` if the limit is
    /// reached, so that nothing more must be read.
    #[must_use]
    pub fn begin_turn(&mut self, turn: TurnId, number: u32, state: TurnState) -> bool {
        if self.turns.last().is_some_and(|last| last.turn == turn) {
            return true;
        }
        let is_limit_reached = match self.limit {
            ReadLimit::BriefTokens(tokens) => {
                self.needed_tokens >= tokens && !self.turns.is_empty()
            }
            ReadLimit::AfterTurn(last) => number <= last,
        };
        if is_limit_reached {
            return false;
        }
        self.sort_messages();
        self.turns.push(StoredTurn {
            turn,
            number,
            state,
            messages: Vec::new(),
        });
        true
    }

    /// Adds a message to the turn that began last.
    pub fn add_message(&mut self, seq: u32, message: Message) {
        if let ReadLimit::BriefTokens(tokens) = self.limit {
            let needed = min_brief_tokens(&message, tokens);
            self.needed_tokens = self.needed_tokens.saturating_add(needed);
        }
        if let Some(last) = self.turns.last_mut() {
            last.messages.push(message);
            self.message_numbers.push(seq);
        }
    }

    /// Returns the turns, newest first.
    #[must_use]
    pub fn finish(mut self) -> Vec<StoredTurn> {
        self.sort_messages();
        self.turns
    }

    /// Sorts the messages of the last turn by their numbers. In most cases an index has already returned them in this
    /// order.
    fn sort_messages(&mut self) {
        if let (Some(turn), false) = (self.turns.last_mut(), self.message_numbers.is_sorted()) {
            let messages = std::mem::take(&mut turn.messages);
            let numbers = self.message_numbers.iter().copied();
            let mut numbered: Vec<_> = numbers.zip(messages).collect();
            numbered.sort_by_key(|(number, _)| *number);
            turn.messages = numbered.into_iter().map(|(_, message)| message).collect();
        }
        self.message_numbers.clear();
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use segue_core::session::Role;

    use super::*;

    fn message(text: &str, tokens: u64) -> Message {
        let mut message = Message::from_text(Role::User, text, Timestamp::UNIX_EPOCH);
        message.tokens = Some(tokens);
        message
    }

    /// Offers three turns of 10 tokens each, newest first, and returns the numbers of those that were accepted.
    fn accepted_turns(limit: ReadLimit) -> Vec<u32> {
        let mut recent = RecentTurns::new(limit);
        for number in [3, 2, 1] {
            let turn = TurnId::from_bits(number.into());
            for (seq, text) in [(1, "second"), (0, "first")] {
                if !recent.begin_turn(turn, number, TurnState::Finished) {
                    return recent.finish().iter().map(|turn| turn.number).collect();
                }
                recent.add_message(seq, message(text, 5));
            }
        }
        let turns = recent.finish();
        for turn in &turns {
            let texts: Vec<_> = turn.messages.iter().map(Message::plain_text).collect();
            assert_eq!(texts, ["first", "second"]);
        }
        turns.iter().map(|turn| turn.number).collect()
    }

    #[test]
    fn reading_ends_at_its_limit_after_complete_turns() {
        assert_eq!(accepted_turns(ReadLimit::BriefTokens(0)), [3]);
        assert_eq!(accepted_turns(ReadLimit::BriefTokens(1000)), [3, 2, 1]);
        assert_eq!(accepted_turns(ReadLimit::AfterTurn(0)), [3, 2, 1]);
        assert_eq!(accepted_turns(ReadLimit::AfterTurn(1)), [3, 2]);
        assert_eq!(accepted_turns(ReadLimit::AfterTurn(3)), [0; 0]);
    }
}
