//! From records to turns: the one place that knows what rewinds and replaced records do to a conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::{Message, Title, TurnState, Usage};

use crate::record::Back;
use crate::{Event, Mark, Record, Said};

/// A turn of a native session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeTurn {
    /// How it ended; [`TurnState::Running`] while nothing tells.
    pub state: TurnState,
    /// What was said and done, in order. Left out by an outline.
    pub messages: Vec<Message>,
    /// How many messages it has.
    pub said: u32,
    /// What it used.
    pub usage: Usage,
    /// Whether the agent made its own context smaller in it.
    pub compacted: bool,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When its last record was written.
    pub ended_at: Option<Timestamp>,
    /// The record before its first one; none if it begins the session.
    pub after: Option<Mark>,
    /// Its last record.
    pub until: Mark,
    /// How many turns began in its first record before it: some formats write a whole history as one record.
    pub nth: u32,
    /// The request that is being counted, and what all before it used.
    counting: Option<(Option<String>, Usage)>,
}

/// Where a key stands: after how many messages of which turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: u32,
    said: u32,
}

/// Folds records into the turns that still count.
#[derive(Debug, Default)]
pub struct Fold {
    /// Whether messages are kept, or only counted.
    bodies: bool,
    turns: Vec<NativeTurn>,
    /// Every key by its hash: a session may have a million of them.
    places: HashMap<u64, Place>,
    last: Option<Mark>,
    title: Option<Title>,
    compactions: u32,
    unresolved: bool,
}

impl Fold {
    /// Keeps everything that was said.
    #[must_use]
    pub fn whole() -> Self {
        Self {
            bodies: true,
            ..Self::default()
        }
    }

    /// Keeps only where each turn is, and how it ended.
    #[must_use]
    pub fn outline() -> Self {
        Self::default()
    }

    /// What comes first follows this record.
    pub(crate) fn after(mut self, last: Option<Mark>) -> Self {
        self.last = last;
        self
    }

    /// Takes the next record.
    pub fn add(&mut self, record: Record) {
        let Record { mark, at, events } = record;
        for event in events {
            self.take(event, &mark, at);
        }
        self.last = Some(mark);
    }

    fn take(&mut self, event: Event, mark: &Mark, at: Option<Timestamp>) {
        match event {
            Event::Prompt(said) => {
                if !self.replace(&said) {
                    self.begin(mark, at);
                    self.say(said, mark, at);
                }
            }
            Event::Said(said) => {
                if !self.replace(&said) {
                    self.say(said, mark, at);
                }
                self.reopen();
            }
            Event::Step(key) => {
                // A message that is written again stays where it was said.
                let place = self.place();
                self.places.entry(hash(&key)).or_insert(place);
                if let Some(turn) = self.turns.last_mut() {
                    turn.until = mark.clone();
                }
            }
            Event::Rewind(back) => self.rewind(&back),
            Event::Compacted(_) => {
                self.compactions += 1;
                if let Some(turn) = self.turns.last_mut() {
                    turn.compacted = true;
                }
            }
            Event::Used { request, usage } => self.count(request, usage),
            Event::UsedInTurn(usage) => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.usage.update(usage);
                    turn.counting = None;
                }
            }
            Event::Ended(state) => {
                if let Some(turn) = self.turns.last_mut() {
                    turn.state = state;
                    turn.ended_at = at.or(turn.ended_at);
                    turn.until = mark.clone();
                }
            }
            Event::Titled { title, of } => {
                let ours = |of: &String| self.places.contains_key(&hash(of));
                // A later name takes the place of an earlier one, but not of one that a person gave.
                let better = |old: &Title| title.source() >= old.source();
                if of.as_ref().is_none_or(ours) && self.title.as_ref().is_none_or(better) {
                    self.title = Some(title);
                }
            }
        }
    }

    fn begin(&mut self, mark: &Mark, at: Option<Timestamp>) {
        if let Some(turn) = self.turns.last_mut()
            && turn.state == TurnState::Running
        {
            turn.state = TurnState::Interrupted;
        }
        let nth = match self.turns.last() {
            Some(before) if before.after == self.last => before.nth + 1,
            _ => 0,
        };
        self.turns.push(NativeTurn {
            nth,
            state: TurnState::Running,
            messages: Vec::new(),
            said: 0,
            usage: Usage::default(),
            compacted: false,
            started_at: at,
            ended_at: at,
            after: self.last.clone(),
            until: mark.clone(),
            counting: None,
        });
    }

    fn say(&mut self, said: Said, mark: &Mark, at: Option<Timestamp>) {
        if self.turns.is_empty() {
            // An answer to something that is not there any more.
            self.unresolved = true;
            self.begin(mark, at);
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.said += 1;
            turn.until = mark.clone();
            turn.ended_at = at.or(turn.ended_at);
            if self.bodies {
                turn.messages.push(said.message);
            }
        }
        if let Some(key) = said.key {
            let place = self.place();
            self.places.insert(hash(&key), place);
        }
    }

    /// What is said after an end was no end.
    fn reopen(&mut self) {
        if let Some(turn) = self.turns.last_mut()
            && turn.state == TurnState::Finished
        {
            turn.state = TurnState::Running;
        }
    }

    /// Puts a message in the place of the one with the same key, if there is one.
    fn replace(&mut self, said: &Said) -> bool {
        let Some(key) = &said.key else { return false };
        let Some(place) = self.places.get(&hash(key)) else {
            return false;
        };
        let turn = self.turns.get_mut(place.turn.saturating_sub(1) as usize);
        let old =
            turn.and_then(|turn| turn.messages.get_mut(place.said.saturating_sub(1) as usize));
        if let Some(old) = old {
            *old = said.message.clone();
        }
        true
    }

    fn place(&self) -> Place {
        Place {
            turn: count_of(self.turns.len()),
            said: self.turns.last().map_or(0, |turn| turn.said),
        }
    }

    fn rewind(&mut self, back: &Back) {
        let (key, keep) = match back {
            Back::ToTheBeginning => {
                self.turns.clear();
                self.places.clear();
                return;
            }
            Back::After(key) => (key, true),
            Back::Before(key) => (key, false),
            Back::Turns(turns) => return self.undo(*turns),
        };
        let Some(mut place) = self.places.get(&hash(key)).copied() else {
            self.unresolved = true;
            return;
        };
        if !keep {
            place.said = place.said.saturating_sub(1);
        }
        self.turns.truncate(place.turn as usize);
        if place.said == 0 {
            self.turns.pop();
        } else if let Some(turn) = self.turns.last_mut()
            && turn.said > place.said
        {
            turn.said = place.said;
            turn.messages.truncate(place.said as usize);
            turn.state = TurnState::Running;
        }
        self.places.retain(|_, other| *other <= place);
    }

    fn undo(&mut self, turns: u32) {
        let there = count_of(self.turns.len());
        self.unresolved |= turns > there;
        let left = there.saturating_sub(turns);
        self.turns.truncate(left as usize);
        self.places.retain(|_, place| place.turn <= left);
    }

    fn count(&mut self, request: Option<String>, usage: Usage) {
        let Some(turn) = self.turns.last_mut() else {
            return;
        };
        let before = match turn.counting.take() {
            Some((counted, before)) if counted.is_some() && counted == request => before,
            _ => turn.usage,
        };
        turn.usage = sum(before, usage);
        turn.counting = Some((request, before));
    }

    /// The turns so far.
    #[must_use]
    pub fn turns(&self) -> &[NativeTurn] {
        &self.turns
    }

    /// All the turns that still count.
    #[must_use]
    pub fn into_turns(self) -> Vec<NativeTurn> {
        self.turns
    }

    /// What the session was called last.
    #[must_use]
    pub fn title(&self) -> Option<&Title> {
        self.title.as_ref()
    }

    /// How often the agent made its own context smaller.
    #[must_use]
    pub fn compactions(&self) -> u32 {
        self.compactions
    }

    /// Whether a record referred to one that was not there: reading began too late.
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

/// What two requests used together; the later one tells how full the context is.
fn sum(before: Usage, request: Usage) -> Usage {
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    Usage {
        input_tokens: add(before.input_tokens, request.input_tokens),
        output_tokens: add(before.output_tokens, request.output_tokens),
        cached_tokens: add(before.cached_tokens, request.cached_tokens),
        total_tokens: add(before.total_tokens, request.total_tokens),
        context_tokens: request.context_tokens.or(before.context_tokens),
        context_window: request.context_window.or(before.context_window),
    }
}
