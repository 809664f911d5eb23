//! From records to turns: the one place that knows what rewinds and replaced records do to a conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::{Cost, Message, Title, TurnState, Usage};

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
    /// The model that was asked last, where it is told.
    pub model: Option<String>,
    /// What it cost, where that is told of all of its requests.
    pub cost: Option<Cost>,
    /// Whether the agent made its own context smaller in it.
    pub compacted: bool,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When its last record was written.
    pub ended_at: Option<Timestamp>,
    /// The record before its first one, to read it again from there; none where it begins the session.
    pub after: Option<Mark>,
    /// Its last record.
    pub until: Mark,
    /// How many turns had begun before it, those that no longer count included.
    birth: u32,
    /// The number of the last record that had to do with it.
    touched: u64,
    counting: Option<Counting>,
}

/// The request that is being counted, and what all before it used.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counting {
    request: Option<String>,
    usage: Usage,
    cost: Option<Cost>,
}

/// Where a key stands: after how many messages of which turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: u32,
    said: u32,
}

/// What is known by a key.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Where the first message of its record stands; the place before it, if it says nothing.
    at: Place,
    /// Where its record ends.
    end: Place,
    says: bool,
}

/// Of which turns the messages are kept.
#[derive(Debug, Default)]
enum Keep {
    #[default]
    None,
    All,
    /// Those that an outline says will still count in the end, from one of them on.
    These {
        from: usize,
        births: Vec<u32>,
    },
}

/// Folds records into the turns that still count.
#[derive(Debug, Default)]
pub struct Fold {
    keep: Keep,
    turns: Vec<NativeTurn>,
    begun: u32,
    records: u64,
    /// The record before the one that is being taken.
    last: Option<Mark>,
    /// Every key by its hash, and in the order they came in: a session may have a million of them.
    known: HashMap<u64, Known>,
    order: Vec<u64>,
    title: Option<Title>,
    compactions: u32,
    unresolved: bool,
}

impl Fold {
    /// Keeps everything that was said.
    #[must_use]
    pub fn whole() -> Self {
        Self {
            keep: Keep::All,
            ..Self::default()
        }
    }

    /// Keeps only where each turn is, and how it ended.
    #[must_use]
    pub fn outline() -> Self {
        Self::default()
    }

    /// Goes over the records of an outline again, and keeps what was said in its turns from one on.
    pub(crate) fn again(outlined: &[NativeTurn], from: usize) -> Self {
        Self {
            keep: Keep::These {
                from,
                births: outlined.iter().map(|turn| turn.birth).collect(),
            },
            ..Self::default()
        }
    }

    /// Takes the next record.
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
                // A message that is written again stays where it was said.
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
                // A later name takes the place of an earlier one, but not of one that a person gave.
                let better = |old: &Title| title.source() >= old.source();
                if of.as_ref().is_none_or(ours) && self.title.as_ref().is_none_or(better) {
                    self.title = Some(title);
                }
            }
        }
    }

    /// The turn that is under way, which this record has to do with.
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
            // An answer to something that is not there any more.
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

    /// Whether the messages of the last turn are kept. Those before a turn that counts in the end do so too;
    /// so it is where it will be then.
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

    /// What is said after an end was no end.
    fn reopen(&mut self) {
        if let Some(turn) = self.last_turn()
            && turn.state == TurnState::Finished
        {
            turn.state = TurnState::Running;
        }
    }

    /// Puts a message in the place of the one with the same key; gives it back if there is none.
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

    /// Takes the messages of a turn of an outline, once nothing more will be said in it.
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

#[cfg(test)]
mod tests;
