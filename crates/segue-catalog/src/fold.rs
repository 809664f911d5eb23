//! Conversion of records to turns. Only this module implements the effect of rewinds and replaced records on a
//! conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::session::{Message, Title, TurnState, Usage};
use segue_core::spend::Cost;

use crate::record::Back;
use crate::{Event, Mark, Record, Said};

/// A turn of a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeTurn {
    /// State at the end of the turn, or [`TurnState::Running`] if no record ends it.
    pub state: TurnState,
    /// Messages of the turn, in order. Empty in an outline.
    pub messages: Vec<Message>,
    /// Number of messages, also in an outline.
    pub said: u32,
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
    /// Record before the first one of the turn, from which the turn can be read. `None` if the turn begins the session.
    pub after: Option<Mark>,
    /// Last record of the turn.
    pub until: Mark,
    /// Number of turns that began before this one, including those that no longer count.
    birth: u32,
    /// Number of the last record that affected the turn.
    touched: u64,
    counting: Option<Counting>,
}

/// Request that is being counted, and the usage and cost of the turn before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counting {
    request: Option<String>,
    usage: Usage,
    cost: Option<Cost>,
}

/// Position in the conversation: a turn, and a number of messages in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: u32,
    said: u32,
}

/// Positions of the record with a key.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Position of the record's first message, or of the message before the record if it contains none.
    at: Place,
    /// Position at which the record ends.
    end: Place,
    says: bool,
}

/// Selection of the turns whose messages are stored.
#[derive(Debug, Default)]
enum Keep {
    #[default]
    None,
    All,
    /// Turns of an outline that count at the end, from the index `from` on.
    These {
        from: usize,
        births: Vec<u32>,
    },
}

/// A builder that converts records to the turns that still count.
#[derive(Debug, Default)]
pub struct Fold {
    keep: Keep,
    turns: Vec<NativeTurn>,
    begun: u32,
    records: u64,
    /// Record before the one that is being applied.
    last: Option<Mark>,
    /// Positions by the hash of the key. `order` has the hashes in the order of the records. Keys themselves are not
    /// stored, because a session may have a million of them.
    known: HashMap<u64, Known>,
    order: Vec<u64>,
    title: Option<Title>,
    compactions: u32,
    unresolved: bool,
}

impl Fold {
    /// Creates a builder that stores all messages.
    #[must_use]
    pub fn whole() -> Self {
        Self {
            keep: Keep::All,
            ..Self::default()
        }
    }

    /// Creates a builder that stores only the position and the state of each turn.
    #[must_use]
    pub fn outline() -> Self {
        Self::default()
    }

    /// Creates a builder for a second pass over the records of an outline. It stores the messages of the turns from
    /// index `from` on.
    pub(crate) fn again(outlined: &[NativeTurn], from: usize) -> Self {
        Self {
            keep: Keep::These {
                from,
                births: outlined.iter().map(|turn| turn.birth).collect(),
            },
            ..Self::default()
        }
    }

    /// Applies the next record.
    pub fn add(&mut self, record: Record) {
        let Record { mark, at, events } = record;
        self.records += 1;
        let new_keys = self.order.len();
        for event in events {
            self.take(event, &mark, at);
        }
        let end = self.place();
        for key in self.order.iter().skip(new_keys) {
            if let Some(known) = self.known.get_mut(key) {
                known.end = end;
            }
        }
        self.last = Some(mark);
    }

    fn take(&mut self, event: Event, mark: &Mark, at: Option<Timestamp>) {
        match event {
            Event::Prompt(said) => {
                if let Some(said) = self.replace(said) {
                    self.begin(mark, at);
                    self.say(said, mark, at);
                }
            }
            Event::Said(said) => {
                if let Some(said) = self.replace(said) {
                    self.say(said, mark, at);
                }
                self.reopen();
            }
            Event::Step(key) => {
                // A message that the agent writes a second time stays at its first position.
                if !self.known.contains_key(&hash(&key)) {
                    self.remember(&key, false);
                }
                if let Some(turn) = self.last_turn() {
                    turn.until = mark.clone();
                }
            }
            Event::Rewind(back) => self.rewind(&back),
            Event::Compacted(_) => {
                self.compactions += 1;
                if let Some(turn) = self.last_turn() {
                    turn.compacted = true;
                }
            }
            Event::Used {
                request,
                usage,
                model,
                cost,
            } => {
                self.count(request, usage, cost);
                if let Some(turn) = self.last_turn() {
                    turn.model = model.or(turn.model.take());
                }
            }
            Event::Ended(state) => {
                if let Some(turn) = self.last_turn() {
                    turn.state = state;
                    turn.ended_at = at.or(turn.ended_at);
                    turn.until = mark.clone();
                }
            }
            Event::Titled { title, of } => {
                let ours = |of: &String| self.known.contains_key(&hash(of));
                // A later title replaces an earlier one, but never one that the user gave.
                let better = |old: &Title| title.source() >= old.source();
                if of.as_ref().is_none_or(ours) && self.title.as_ref().is_none_or(better) {
                    self.title = Some(title);
                }
            }
        }
    }

    /// Returns the current turn, and marks it as affected by the current record.
    fn last_turn(&mut self) -> Option<&mut NativeTurn> {
        let turn = self.turns.last_mut()?;
        turn.touched = self.records;
        Some(turn)
    }

    fn begin(&mut self, mark: &Mark, at: Option<Timestamp>) {
        if let Some(turn) = self.turns.last()
            && turn.state == TurnState::Running
            && let Some(turn) = self.last_turn()
        {
            turn.state = TurnState::Interrupted;
        }
        self.turns.push(NativeTurn {
            state: TurnState::Running,
            messages: Vec::new(),
            said: 0,
            usage: Usage::default(),
            model: None,
            cost: None,
            compacted: false,
            started_at: at,
            ended_at: at,
            after: self.last.clone(),
            until: mark.clone(),
            birth: self.begun,
            touched: self.records,
            counting: None,
        });
        self.begun += 1;
    }

    fn say(&mut self, said: Said, mark: &Mark, at: Option<Timestamp>) {
        if self.turns.is_empty() {
            // The prompt of this message is missing.
            self.unresolved = true;
            self.begin(mark, at);
        }
        let kept = self.keeps_last();
        if let Some(turn) = self.last_turn() {
            turn.said += 1;
            turn.until = mark.clone();
            turn.ended_at = at.or(turn.ended_at);
            if kept {
                turn.messages.push(said.message);
            }
        }
        if let Some(key) = said.key {
            self.remember(&key, true);
        }
    }

    /// Returns `true` if the messages of the last turn are stored. A turn that counts at the end already has its final
    /// index, because all turns before it count too.
    fn keeps_last(&self) -> bool {
        let Some(turn) = self.turns.last() else {
            return false;
        };
        let index = self.turns.len() - 1;
        match &self.keep {
            Keep::None => false,
            Keep::All => true,
            Keep::These { from, births } => {
                index >= *from && births.get(index) == Some(&turn.birth)
            }
        }
    }

    fn remember(&mut self, key: &str, says: bool) {
        let (key, at) = (hash(key), self.place());
        let known = Known { at, end: at, says };
        if self.known.insert(key, known).is_none() {
            self.order.push(key);
        }
    }

    /// Reopens a finished turn, because a message after the end shows that the turn did not end.
    fn reopen(&mut self) {
        if let Some(turn) = self.last_turn()
            && turn.state == TurnState::Finished
        {
            turn.state = TurnState::Running;
        }
    }

    /// Replaces the message with the same key. Returns the message if there is none.
    fn replace(&mut self, said: Said) -> Option<Said> {
        let known = said.key.as_ref().and_then(|key| self.known.get(&hash(key)));
        let Some(place) = known.filter(|known| known.says).map(|known| known.at) else {
            return Some(said);
        };
        let index = |number: u32| number.saturating_sub(1) as usize;
        let turn = self.turns.get_mut(index(place.turn));
        let Some(turn) = turn.filter(|turn| place.said <= turn.said) else {
            return Some(said);
        };
        turn.touched = self.records;
        if let Some(old) = turn.messages.get_mut(index(place.said)) {
            *old = said.message;
        }
        None
    }

    fn place(&self) -> Place {
        Place {
            turn: count_of(self.turns.len()),
            said: self.turns.last().map_or(0, |turn| turn.said),
        }
    }

    fn rewind(&mut self, back: &Back) {
        let known = |key: &String| self.known.get(&hash(key)).copied();
        let place = match back {
            Back::ToTheBeginning => Some(Place { turn: 0, said: 0 }),
            Back::After(key) => known(key).map(|known| known.end),
            Back::Before(key) => known(key).map(|known| {
                let before = u32::from(known.says);
                Place {
                    said: known.at.said.saturating_sub(before),
                    ..known.at
                }
            }),
            Back::Turns(turns) => return self.undo(*turns),
        };
        match place {
            Some(place) => self.go_back(place),
            None => self.unresolved = true,
        }
    }

    fn undo(&mut self, turns: u32) {
        let there = count_of(self.turns.len());
        self.unresolved |= turns > there;
        let left = there.saturating_sub(turns);
        let said = self.turns.get((left as usize).wrapping_sub(1));
        let said = said.map_or(0, |turn| turn.said);
        self.go_back(Place { turn: left, said });
    }

    fn go_back(&mut self, place: Place) {
        self.turns.truncate(place.turn as usize);
        if place.said == 0 {
            self.turns.pop();
        } else if let Some(turn) = self.turns.last_mut()
            && turn.said > place.said
        {
            turn.said = place.said;
            turn.messages.truncate(place.said as usize);
            turn.state = TurnState::Running;
            turn.touched = self.records;
        }
        while let Some(key) = self.order.last()
            && self.known.get(key).is_none_or(|known| known.at > place)
        {
            self.known.remove(key);
            self.order.pop();
        }
    }

    fn count(&mut self, request: Option<String>, usage: Usage, cost: Option<Cost>) {
        let Some(turn) = self.last_turn() else {
            return;
        };
        let before = match turn.counting.take() {
            Some(counted) if counted.request.is_some() && counted.request == request => counted,
            counted => Counting {
                request,
                usage: turn.usage,
                cost: counted.map_or(Some(Cost::default()), |_| turn.cost),
            },
        };
        turn.usage = before.usage.plus(usage);
        turn.cost = before.cost.zip(cost).map(|(before, cost)| before + cost);
        turn.counting = Some(before);
    }

    /// Returns a turn of an outline with its messages. `None` while a later record may still affect the turn.
    pub(crate) fn finished(&mut self, index: usize, outlined: &NativeTurn) -> Option<NativeTurn> {
        let turn = self.turns.get_mut(index)?;
        if turn.birth != outlined.birth || self.records < outlined.touched {
            return None;
        }
        Some(NativeTurn {
            messages: std::mem::take(&mut turn.messages),
            ..outlined.clone()
        })
    }

    /// Returns the turns so far.
    #[must_use]
    pub fn turns(&self) -> &[NativeTurn] {
        &self.turns
    }

    /// Returns all turns that still count.
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

fn count_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
