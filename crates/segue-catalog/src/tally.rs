//! What was asked of models in a session, request by request: also for turns that no longer count, since those were
//! paid for as well.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::{Cost, Usage};

use crate::{Event, ReadError, Record, Records};

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What tells it from others, where anything does.
    pub id: Option<String>,
    /// When it was told last, where that is known.
    pub at: Option<Timestamp>,
    /// The model, where it is told.
    pub model: Option<String>,
    /// What it used.
    pub usage: Usage,
    /// What it cost, where the agent says so.
    pub cost: Option<Cost>,
    /// Whether it is the first one of its turn.
    pub begins: bool,
}

/// Counts requests. One that is told again counts once.
#[derive(Debug, Default)]
pub struct Tally {
    requests: Vec<Request>,
    /// Where the requests are that can be told apart.
    known: HashMap<String, usize>,
    /// Whether a turn has begun and asked nothing of a model yet.
    begun: bool,
}

impl Tally {
    /// Counts all that is asked in some records.
    pub fn of(records: &mut dyn Records) -> Result<Self, ReadError> {
        let mut tally = Self::default();
        while let Some(record) = records.next()? {
            tally.add(record);
        }
        Ok(tally)
    }

    /// Takes the next record.
    pub fn add(&mut self, record: Record) {
        let at = record.at;
        for event in record.events {
            match event {
                Event::Prompt(_) => self.begun = true,
                Event::Used {
                    request,
                    usage,
                    model,
                    cost,
                } => {
                    self.count(Request {
                        id: request,
                        at,
                        model,
                        usage,
                        cost,
                        begins: false,
                    });
                }
                Event::Said(_)
                | Event::Step(_)
                | Event::Rewind(_)
                | Event::Compacted(_)
                | Event::Ended(_)
                | Event::Titled { .. } => {}
            }
        }
    }

    fn count(&mut self, mut new: Request) {
        let last = self.requests.len().wrapping_sub(1);
        let known = new.id.as_ref().and_then(|id| self.known.get(id)).copied();
        if let Some(index) = known
            && let Some(old) = self.requests.get_mut(index)
            // An id that comes back much later is that of another request, unless that was made at the same time:
            // then the whole conversation is written again.
            && (index == last || new.at.is_none() || new.at == old.at)
        {
            new.begins = old.begins;
            new.at = new.at.or(old.at);
            new.model = new.model.or(old.model.take());
            *old = new;
            self.begun = false;
            return;
        }
        new.begins = std::mem::take(&mut self.begun);
        if let Some(id) = &new.id {
            self.known.insert(id.clone(), self.requests.len());
        }
        self.requests.push(new);
    }

    /// The requests, in their order.
    #[must_use]
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

/// Tells copies from originals: a fork begins with what was asked before it.
#[derive(Debug, Default)]
pub struct Originals(HashSet<u64>);

impl Originals {
    /// The requests of a session that no session before it told of.
    pub fn among(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let mut alike: HashMap<u64, u32> = HashMap::new();
        let mut traits = Vec::new();
        let mut new = requests;
        new.retain(|request| {
            let usage = &request.usage;
            let used = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
            // Some agents give another id to what they copy, and some another time.
            let by_id = request
                .id
                .as_ref()
                .map(|id| hash(&(id, &request.model, used)));
            let by_time = request.at.map(|at| hash(&(at, &request.model, used)));
            let by_time = by_time.map(|key| {
                let nth = alike.entry(key).or_default();
                *nth += 1;
                hash(&(key, *nth))
            });
            let keys = [by_id, by_time].into_iter().flatten();
            let known = keys.clone().any(|key| self.0.contains(&key));
            traits.extend(keys);
            !known
        });
        self.0.extend(traits);
        new
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use segue_core::{Message, Part, Role};

    use super::*;
    use crate::{Back, Mark, Said};

    fn record(at: Option<i64>, event: Event) -> Record {
        Record {
            mark: Mark::Id("x".into()),
            at: at.map(|at| Timestamp::from_second(at).unwrap()),
            events: vec![event],
        }
    }

    fn prompt() -> Record {
        let text = vec![Part::Text("x".into())];
        let message = Message::new(Role::User, text, Timestamp::UNIX_EPOCH);
        record(Some(0), Event::Prompt(Said { key: None, message }))
    }

    fn used(at: Option<i64>, id: &str, tokens: u64) -> Record {
        let usage = Usage {
            total_tokens: Some(tokens),
            ..Usage::default()
        };
        let event = Event::Used {
            request: Some(id.to_owned()).filter(|id| !id.is_empty()),
            usage,
            model: at.map(|_| "m".to_owned()),
            cost: None,
        };
        record(at, event)
    }

    /// When each request was made, its tokens, and whether it begins a turn.
    fn told(records: Vec<Record>) -> String {
        let mut tally = Tally::default();
        for record in records {
            tally.add(record);
        }
        let told = tally.into_requests().into_iter().map(|request| {
            let at = request.at.map_or(-1, Timestamp::as_second);
            let tokens = request.usage.total_tokens.unwrap();
            let begins = if request.begins { "*" } else { "" };
            let model = request.model.as_deref().unwrap_or("-");
            format!("{at}:{tokens}{model}{begins}")
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_request_counts_once_and_for_ever() {
        let some = Some;
        let back = || record(None, Event::Rewind(Back::ToTheBeginning));
        let cases = [
            (vec![], ""),
            (vec![prompt()], ""),
            (
                vec![prompt(), used(some(1), "a", 5), used(some(2), "b", 6)],
                "1:5m* 2:6m",
            ),
            // An answer in several pieces, the last of which has the last word.
            (
                vec![prompt(), used(some(1), "a", 5), used(some(2), "a", 7)],
                "2:7m*",
            ),
            (
                vec![used(some(1), "", 5), used(some(1), "", 5)],
                "1:5m 1:5m",
            ),
            // What was rewound was paid for; what is then written again was not.
            (
                vec![
                    prompt(),
                    used(some(1), "a", 5),
                    prompt(),
                    used(some(2), "b", 6),
                    back(),
                    prompt(),
                    used(some(1), "a", 5),
                    used(None, "b", 6),
                    used(some(3), "c", 7),
                ],
                "1:5m* 2:6m* 3:7m",
            ),
            // An agent that begins to number anew.
            (
                vec![
                    used(some(1), "a", 5),
                    used(some(2), "b", 6),
                    used(some(9), "a", 7),
                    used(some(9), "a", 8),
                ],
                "1:5m 2:6m 9:8m",
            ),
        ];
        for (records, expected) in cases {
            assert_eq!(told(records.clone()), expected, "{records:?}");
        }
    }

    #[test]
    fn what_a_fork_copies_was_asked_once() {
        let session = |records: Vec<Record>| {
            let mut tally = Tally::default();
            for record in records {
                tally.add(record);
            }
            tally.into_requests()
        };
        let origin = || vec![used(Some(1), "a", 5), used(Some(1), "b", 5)];
        let mut originals = Originals::default();
        let mut new = |records| originals.among(session(records)).len();
        assert_eq!(new(origin()), 2);
        // It asks twice more itself: once at the same moment, by chance.
        let fork = [origin(), vec![used(Some(1), "c", 5), used(Some(2), "d", 5)]].concat();
        assert_eq!(new(fork), 2);
        // With new ids, and with new times.
        assert_eq!(new(vec![used(Some(1), "A", 5), used(Some(1), "B", 5)]), 0);
        assert_eq!(new(vec![used(Some(8), "a", 5), used(Some(9), "b", 5)]), 0);
        // Something else is the same, but not all of it.
        assert_eq!(new(vec![used(Some(1), "x", 6), used(Some(3), "y", 5)]), 2);
        assert_eq!(new(vec![used(Some(4), "a", 6)]), 1);
        // Nothing tells that these are the same.
        assert_eq!(new(vec![used(None, "", 5)]), 1);
        assert_eq!(new(vec![used(None, "", 5)]), 1);
    }
}
