//! Requests to models in a session. They include the requests of turns that no longer count, because these were paid
//! for as well.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::session::Usage;
use segue_core::spend::Cost;

use crate::{Event, ReadError, Record, Records};

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Id of the request. `None` if the agent gives it none.
    pub id: Option<String>,
    /// Time of the last record of the request. `None` if no record contains a time.
    pub at: Option<Timestamp>,
    /// Model of the request. `None` if the agent does not report it.
    pub model: Option<String>,
    /// Tokens that the request used.
    pub usage: Usage,
    /// Cost of the request. `None` if the agent does not report it.
    pub cost: Option<Cost>,
    /// Whether it is the first request of its turn.
    pub begins: bool,
}

/// A counter of requests. A request that is reported several times counts once.
#[derive(Debug, Default)]
pub struct Tally {
    requests: Vec<Request>,
    /// Indices of the requests that have ids.
    known: HashMap<String, usize>,
    /// Whether a turn has begun and has no request yet.
    begun: bool,
}

impl Tally {
    /// Counts all requests in some records.
    pub fn of(records: &mut dyn Records) -> Result<Self, ReadError> {
        let mut tally = Self::default();
        while let Some(record) = records.next()? {
            tally.add(record);
        }
        Ok(tally)
    }

    /// Applies the next record.
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
            // An id that recurs much later belongs to another request, unless the times are equal: then the agent wrote
            // the complete conversation a second time.
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

    /// Returns the requests in order.
    #[must_use]
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

/// A filter that removes copied requests, because a fork begins with the requests of its parent.
#[derive(Debug, Default)]
pub struct Originals(HashSet<u64>);

impl Originals {
    /// Returns the requests of a session that no earlier session contained.
    pub fn among(&mut self, requests: Vec<Request>) -> Vec<Request> {
        let mut alike: HashMap<u64, u32> = HashMap::new();
        let mut traits = Vec::new();
        let mut new = requests;
        new.retain(|request| {
            let usage = &request.usage;
            let used = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
            // Some agents change the ids of copied requests, and some change the times.
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
    use segue_core::session::{Message, Part, Role};

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

    /// Formats the time, the tokens and the model of each request, and whether it begins a turn.
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
            // An answer in several records, the last of which has the final count.
            (
                vec![prompt(), used(some(1), "a", 5), used(some(2), "a", 7)],
                "2:7m*",
            ),
            (
                vec![used(some(1), "", 5), used(some(1), "", 5)],
                "1:5m 1:5m",
            ),
            // Rewound requests were paid for. Requests that are then written a second time were not.
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
            // An agent that restarts its numbering.
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
        // The fork sends two requests of its own, one of them by chance at the time of a copied one.
        let fork = [origin(), vec![used(Some(1), "c", 5), used(Some(2), "d", 5)]].concat();
        assert_eq!(new(fork), 2);
        // Copies with new ids, and copies with new times.
        assert_eq!(new(vec![used(Some(1), "A", 5), used(Some(1), "B", 5)]), 0);
        assert_eq!(new(vec![used(Some(8), "a", 5), used(Some(9), "b", 5)]), 0);
        // Requests that match an earlier one in some fields only.
        assert_eq!(new(vec![used(Some(1), "x", 6), used(Some(3), "y", 5)]), 2);
        assert_eq!(new(vec![used(Some(4), "a", 6)]), 1);
        // Requests without id and time, which can't be recognised as equal.
        assert_eq!(new(vec![used(None, "", 5)]), 1);
        assert_eq!(new(vec![used(None, "", 5)]), 1);
    }
}
