//! Conversion of records to turns. Only this module implements the effect of rewinds and replaced records on a
//! conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::session::{Message, Title, TurnState, Usage};
use segue_core::spend::Cost;

use crate::reader::record::RewindTarget;
use crate::{KeyedMessage, Mark, NativeRecord, RecordEvent};

/// A turn of a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeTurn {
    /// State at the end of the turn, or [`TurnState::Running`] if no record ends it.
    pub state: TurnState,
    /// Messages of the turn, in order. Empty in an outline.
    pub messages: Vec<Message>,
    /// Number of messages, also in an outline.
    pub message_count: u32,
    /// Tokens that the turn used.
    pub usage: Usage,
    /// Model of the last request. `None` if no record names it.
    pub model: Option<String>,
    /// Cost of the turn. `None` unless the agent reports the cost of all its requests.
    pub cost: Option<Cost>,
    /// Whether the agent compacted its context during the turn.
    pub compacted: bool,
    /// Time at which the turn began.
    pub started_at: Option<Timestamp>,
    /// Time of the last record of the turn.
    pub ended_at: Option<Timestamp>,
    /// Mark of the record before the turn; reading after this mark begins with the turn. `None` if the turn begins the
    /// session.
    pub after: Option<Mark>,
    /// Mark of the last record of the turn.
    pub until: Mark,
    /// Number of turns that began before this one, including those that a rewind has removed.
    ordinal: u32,
    /// Number of the last record that affected the turn.
    last_record: u64,
    last_request: Option<LastRequest>,
}

/// Last request of a turn, and the usage and cost of the turn without it. If the request is reported again, the new
/// usage replaces the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LastRequest {
    request_id: Option<String>,
    usage_before: Usage,
    cost_before: Option<Cost>,
}

/// Position after a message: the number of turns so far, including the turn of the message, and the number of messages
/// so far in this turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MessagePosition {
    turn: u32,
    message: u32,
}

/// Positions of a record with a key.
#[derive(Debug, Clone, Copy)]
struct KeyedPosition {
    /// Position after the record's first message, or after the message before the record if it contains none.
    start: MessagePosition,
    /// Position after the record's last message.
    end: MessagePosition,
    has_message: bool,
}

/// Selection of the turns whose messages are stored.
#[derive(Debug, Default)]
enum MessageSelection {
    #[default]
    None,
    All,
    /// Turns of an outline, from the index `first_index` on.
    Selected {
        first_index: usize,
        /// Ordinals of all turns of the outline.
        ordinals: Vec<u32>,
    },
}

/// A builder that converts records to turns. Rewinds remove turns and messages at the end.
#[derive(Debug, Default)]
pub struct TurnBuilder {
    selection: MessageSelection,
    turns: Vec<NativeTurn>,
    begun_turns: u32,
    record_count: u64,
    /// Mark of the record before the one that is being applied.
    previous_mark: Option<Mark>,
    /// Positions by the hash of the key. Keys themselves are not stored, because a session may have a million of them.
    positions: HashMap<u64, KeyedPosition>,
    /// Hashes of the keys in the order of the records.
    key_order: Vec<u64>,
    title: Option<Title>,
    compactions: u32,
    /// Whether a record refers to a missing one.
    unresolved: bool,
}

impl TurnBuilder {
    /// Creates a builder that stores all messages.
    #[must_use]
    pub fn with_messages() -> Self {
        Self {
            selection: MessageSelection::All,
            ..Self::default()
        }
    }

    /// Creates a builder that stores only the position and the state of each turn.
    #[must_use]
    pub fn for_outline() -> Self {
        Self::default()
    }

    /// Creates a builder for a second pass over the records of an outline. It stores the messages of the turns from
    /// index `first_index` on.
    pub(crate) fn for_second_pass(outline: &[NativeTurn], first_index: usize) -> Self {
        Self {
            selection: MessageSelection::Selected {
                first_index,
                ordinals: outline.iter().map(|turn| turn.ordinal).collect(),
            },
            ..Self::default()
        }
    }

    /// Applies the next record.
    pub fn add_record(&mut self, record: NativeRecord) {
        let NativeRecord { mark, at, events } = record;
        self.record_count += 1;
        let first_new_key = self.key_order.len();
        for event in events {
            self.apply_event(event, &mark, at);
        }
        let end_position = self.current_position();
        for key in self.key_order.iter().skip(first_new_key) {
            if let Some(position) = self.positions.get_mut(key) {
                position.end = end_position;
            }
        }
        self.previous_mark = Some(mark);
    }

    fn apply_event(&mut self, event: RecordEvent, mark: &Mark, at: Option<Timestamp>) {
        match event {
            RecordEvent::Prompt(keyed_message) => {
                if let Some(keyed_message) = self.replace_message(keyed_message) {
                    self.begin_turn(mark, at);
                    self.add_message(keyed_message, mark, at);
                }
            }
            RecordEvent::Message(keyed_message) => {
                if let Some(keyed_message) = self.replace_message(keyed_message) {
                    self.add_message(keyed_message, mark, at);
                }
                self.reopen_turn();
            }
            RecordEvent::Anchor(key) => {
                // A message that the agent writes a second time stays at its first position.
                if !self.positions.contains_key(&hash_key(&key)) {
                    self.record_key_position(&key, false);
                }
                if let Some(turn) = self.touch_last_turn() {
                    turn.until = mark.clone();
                }
            }
            RecordEvent::Rewind(target) => self.rewind(&target),
            RecordEvent::Compacted(_) => {
                self.compactions += 1;
                if let Some(turn) = self.touch_last_turn() {
                    turn.compacted = true;
                }
            }
            RecordEvent::RequestUsage {
                request_id,
                usage,
                model,
                cost,
            } => {
                self.add_usage(request_id, usage, cost);
                if let Some(turn) = self.touch_last_turn() {
                    turn.model = model.or(turn.model.take());
                }
            }
            RecordEvent::TurnEnded(state) => {
                if let Some(turn) = self.touch_last_turn() {
                    turn.state = state;
                    turn.ended_at = at.or(turn.ended_at);
                    turn.until = mark.clone();
                }
            }
            RecordEvent::TitleChanged { title, record_key } => {
                let is_in_session =
                    |record_key: &String| self.positions.contains_key(&hash_key(record_key));
                // A later title replaces an earlier one, but never one that the user gave.
                let can_replace = |old: &Title| title.source() >= old.source();
                if record_key.as_ref().is_none_or(is_in_session)
                    && self.title.as_ref().is_none_or(can_replace)
                {
                    self.title = Some(title);
                }
            }
        }
    }

    /// Returns the last turn, and marks it as affected by the current record.
    fn touch_last_turn(&mut self) -> Option<&mut NativeTurn> {
        let turn = self.turns.last_mut()?;
        turn.last_record = self.record_count;
        Some(turn)
    }

    fn begin_turn(&mut self, mark: &Mark, at: Option<Timestamp>) {
        if let Some(turn) = self.turns.last()
            && turn.state == TurnState::Running
            && let Some(turn) = self.touch_last_turn()
        {
            turn.state = TurnState::Interrupted;
        }
        self.turns.push(NativeTurn {
            state: TurnState::Running,
            messages: Vec::new(),
            message_count: 0,
            usage: Usage::default(),
            model: None,
            cost: None,
            compacted: false,
            started_at: at,
            ended_at: at,
            after: self.previous_mark.clone(),
            until: mark.clone(),
            ordinal: self.begun_turns,
            last_record: self.record_count,
            last_request: None,
        });
        self.begun_turns += 1;
    }

    fn add_message(&mut self, keyed_message: KeyedMessage, mark: &Mark, at: Option<Timestamp>) {
        if self.turns.is_empty() {
            // The prompt of this message is missing.
            self.unresolved = true;
            self.begin_turn(mark, at);
        }
        let should_store = self.should_store_last_turn();
        if let Some(turn) = self.touch_last_turn() {
            turn.message_count += 1;
            turn.until = mark.clone();
            turn.ended_at = at.or(turn.ended_at);
            if should_store {
                turn.messages.push(keyed_message.message);
            }
        }
        if let Some(key) = keyed_message.key {
            self.record_key_position(&key, true);
        }
    }

    /// Returns `true` if the messages of the last turn are stored. A turn of the outline has its final index as soon as
    /// it begins, because rewinds remove turns only at the end.
    fn should_store_last_turn(&self) -> bool {
        let Some(turn) = self.turns.last() else {
            return false;
        };
        let index = self.turns.len() - 1;
        match &self.selection {
            MessageSelection::None => false,
            MessageSelection::All => true,
            MessageSelection::Selected {
                first_index,
                ordinals,
            } => index >= *first_index && ordinals.get(index) == Some(&turn.ordinal),
        }
    }

    fn record_key_position(&mut self, key: &str, has_message: bool) {
        let (key, position) = (hash_key(key), self.current_position());
        let keyed_position = KeyedPosition {
            start: position,
            end: position,
            has_message,
        };
        if self.positions.insert(key, keyed_position).is_none() {
            self.key_order.push(key);
        }
    }

    /// Reopens a finished turn, because a message after the end shows that the turn did not end.
    fn reopen_turn(&mut self) {
        if let Some(turn) = self.touch_last_turn()
            && turn.state == TurnState::Finished
        {
            turn.state = TurnState::Running;
        }
    }

    /// Replaces the earlier message with the same key. Returns the new message unchanged if there is no earlier one.
    fn replace_message(&mut self, keyed_message: KeyedMessage) -> Option<KeyedMessage> {
        let existing = keyed_message
            .key
            .as_ref()
            .and_then(|key| self.positions.get(&hash_key(key)));
        let Some(position) = existing
            .filter(|existing| existing.has_message)
            .map(|existing| existing.start)
        else {
            return Some(keyed_message);
        };
        let index = |number: u32| number.saturating_sub(1) as usize;
        let turn = self.turns.get_mut(index(position.turn));
        let Some(turn) = turn.filter(|turn| position.message <= turn.message_count) else {
            return Some(keyed_message);
        };
        turn.last_record = self.record_count;
        if let Some(old) = turn.messages.get_mut(index(position.message)) {
            *old = keyed_message.message;
        }
        None
    }

    fn current_position(&self) -> MessagePosition {
        MessagePosition {
            turn: saturating_u32(self.turns.len()),
            message: self.turns.last().map_or(0, |turn| turn.message_count),
        }
    }

    fn rewind(&mut self, target: &RewindTarget) {
        let find_position = |key: &String| self.positions.get(&hash_key(key)).copied();
        let position = match target {
            RewindTarget::Beginning => Some(MessagePosition {
                turn: 0,
                message: 0,
            }),
            RewindTarget::AfterRecord(key) => {
                find_position(key).map(|keyed_position| keyed_position.end)
            }
            RewindTarget::BeforeRecord(key) => find_position(key).map(|keyed_position| {
                let own_messages = u32::from(keyed_position.has_message);
                MessagePosition {
                    message: keyed_position.start.message.saturating_sub(own_messages),
                    ..keyed_position.start
                }
            }),
            RewindTarget::TurnsBack(turns) => return self.drop_last_turns(*turns),
        };
        match position {
            Some(position) => self.rewind_to(position),
            None => self.unresolved = true,
        }
    }

    fn drop_last_turns(&mut self, count: u32) {
        let turn_count = saturating_u32(self.turns.len());
        self.unresolved |= count > turn_count;
        let remaining = turn_count.saturating_sub(count);
        let last_turn = self.turns.get((remaining as usize).wrapping_sub(1));
        let message = last_turn.map_or(0, |turn| turn.message_count);
        self.rewind_to(MessagePosition {
            turn: remaining,
            message,
        });
    }

    fn rewind_to(&mut self, position: MessagePosition) {
        self.turns.truncate(position.turn as usize);
        if position.message == 0 {
            // The position is before the first message of its turn, so the turn is removed too.
            self.turns.pop();
        } else if let Some(turn) = self.turns.last_mut()
            && turn.message_count > position.message
        {
            turn.message_count = position.message;
            turn.messages.truncate(position.message as usize);
            turn.state = TurnState::Running;
            turn.last_record = self.record_count;
        }
        while let Some(key) = self.key_order.last()
            && self
                .positions
                .get(key)
                .is_none_or(|keyed_position| keyed_position.start > position)
        {
            self.positions.remove(key);
            self.key_order.pop();
        }
    }

    /// Adds the usage and cost of a request to the last turn. Replaces them if the last request is reported again.
    fn add_usage(&mut self, request_id: Option<String>, usage: Usage, cost: Option<Cost>) {
        let Some(turn) = self.touch_last_turn() else {
            return;
        };
        let request = match turn.last_request.take() {
            Some(previous)
                if previous.request_id.is_some() && previous.request_id == request_id =>
            {
                previous
            }
            previous => LastRequest {
                request_id,
                usage_before: turn.usage,
                // The first request starts from zero. Later, `None` means that the cost of a request is unknown.
                cost_before: previous.map_or(Some(Cost::default()), |_| turn.cost),
            },
        };
        turn.usage = request.usage_before.saturating_add(usage);
        turn.cost = request
            .cost_before
            .zip(cost)
            .map(|(cost_before, cost)| cost_before + cost);
        turn.last_request = Some(request);
    }

    /// Returns a turn of an outline with its messages. `None` while a later record may still affect the turn.
    pub(crate) fn take_finished_turn(
        &mut self,
        index: usize,
        outline: &NativeTurn,
    ) -> Option<NativeTurn> {
        let turn = self.turns.get_mut(index)?;
        if turn.ordinal != outline.ordinal || self.record_count < outline.last_record {
            return None;
        }
        Some(NativeTurn {
            messages: std::mem::take(&mut turn.messages),
            ..outline.clone()
        })
    }

    /// Returns the turns so far.
    #[must_use]
    pub fn turns(&self) -> &[NativeTurn] {
        &self.turns
    }

    /// Returns all turns that no rewind has removed.
    #[must_use]
    pub fn into_turns(self) -> Vec<NativeTurn> {
        self.turns
    }

    /// Returns the last title of the session.
    #[must_use]
    pub fn title(&self) -> Option<&Title> {
        self.title.as_ref()
    }

    /// Returns the number of times that the agent compacted its context.
    #[must_use]
    pub fn compactions(&self) -> u32 {
        self.compactions
    }

    /// Returns `true` if a record refers to a missing one, because reading began too late.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.unresolved
    }
}

fn saturating_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn hash_key(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
