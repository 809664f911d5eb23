//! Requests that a native session sent to models. The requests of rewound turns are included, because they were paid
//! for as well.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::session::Usage;
use segue_core::spend::Cost;

use crate::{NativeRecord, ReadError, RecordEvent, Records};

/// A request to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeRequest {
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
    pub is_first_in_turn: bool,
}

/// Collector of the requests in the records of a session. A request that is reported several times is collected once.
#[derive(Debug, Default)]
pub struct RequestCollector {
    requests: Vec<NativeRequest>,
    /// Indices into `requests`, of the requests that have ids.
    indices_by_id: HashMap<String, usize>,
    /// Whether a turn has begun and has no request yet.
    at_turn_start: bool,
}

impl RequestCollector {
    /// Collects all requests of a session.
    pub fn from_records(records: &mut dyn Records) -> Result<Self, ReadError> {
        let mut counter = Self::default();
        while let Some(record) = records.next()? {
            counter.add_record(record);
        }
        Ok(counter)
    }

    /// Collects the requests in the next record.
    pub fn add_record(&mut self, record: NativeRecord) {
        let at = record.at;
        for event in record.events {
            match event {
                RecordEvent::Prompt(_) => self.at_turn_start = true,
                RecordEvent::RequestUsage {
                    request_id,
                    usage,
                    model,
                    cost,
                } => {
                    self.add_or_replace_request(NativeRequest {
                        id: request_id,
                        at,
                        model,
                        usage,
                        cost,
                        is_first_in_turn: false,
                    });
                }
                RecordEvent::Message(_)
                | RecordEvent::Anchor(_)
                | RecordEvent::Rewind(_)
                | RecordEvent::Compacted(_)
                | RecordEvent::TurnEnded(_)
                | RecordEvent::TitleChanged { .. } => {}
            }
        }
    }

    /// Adds a request. If it was reported before, replaces the earlier report.
    fn add_or_replace_request(&mut self, mut request: NativeRequest) {
        let last_index = self.requests.len().wrapping_sub(1);
        let existing_index = request
            .id
            .as_ref()
            .and_then(|id| self.indices_by_id.get(id))
            .copied();
        if let Some(index) = existing_index
            && let Some(old) = self.requests.get_mut(index)
            // An id that recurs after other requests belongs to a new request, unless the times are equal: then the
            // agent wrote the complete conversation a second time.
            && (index == last_index || request.at.is_none() || request.at == old.at)
        {
            request.is_first_in_turn = old.is_first_in_turn;
            request.at = request.at.or(old.at);
            request.model = request.model.or(old.model.take());
            *old = request;
            self.at_turn_start = false;
            return;
        }
        request.is_first_in_turn = std::mem::take(&mut self.at_turn_start);
        if let Some(id) = &request.id {
            self.indices_by_id.insert(id.clone(), self.requests.len());
        }
        self.requests.push(request);
    }

    /// Returns the requests in order.
    #[must_use]
    pub fn into_requests(self) -> Vec<NativeRequest> {
        self.requests
    }
}

/// A filter that removes copied requests, because a fork begins with copies of its parent's requests.
#[derive(Debug, Default)]
pub struct RequestDeduplicator {
    /// Hashes of the requests so far.
    seen_keys: HashSet<u64>,
}

impl RequestDeduplicator {
    /// Returns the requests of a session that no previous call of this function has received.
    pub fn remove_copies(&mut self, requests: Vec<NativeRequest>) -> Vec<NativeRequest> {
        let mut occurrences: HashMap<u64, u32> = HashMap::new();
        let mut new_keys = Vec::new();
        let mut originals = requests;
        originals.retain(|request| {
            let usage = &request.usage;
            let tokens = (usage.input_tokens, usage.output_tokens, usage.total_tokens);
            // Some agents change the ids of copied requests, and some change the times.
            let id_key = request
                .id
                .as_ref()
                .map(|id| hash(&(id, &request.model, tokens)));
            let time_key = request.at.map(|at| hash(&(at, &request.model, tokens)));
            // Different requests of a session may have the same time, so they are numbered.
            let time_key = time_key.map(|key| {
                let occurrence = occurrences.entry(key).or_default();
                *occurrence += 1;
                hash(&(key, *occurrence))
            });
            let keys = [id_key, time_key].into_iter().flatten();
            let is_copy = keys.clone().any(|key| self.seen_keys.contains(&key));
            new_keys.extend(keys);
            !is_copy
        });
        self.seen_keys.extend(new_keys);
        originals
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use segue_core::session::{Message, Part, Role};

    use super::*;
    use crate::{KeyedMessage, Mark, RewindTarget};

    fn record(at: Option<i64>, event: RecordEvent) -> NativeRecord {
        NativeRecord {
            mark: Mark::Id("x".into()),
            at: at.map(|at| Timestamp::from_second(at).unwrap()),
            events: vec![event],
        }
    }

    fn prompt() -> NativeRecord {
        let text = vec![Part::Text("x".into())];
        let message = Message::new(Role::User, text, Timestamp::UNIX_EPOCH);
        record(
            Some(0),
            RecordEvent::Prompt(KeyedMessage { key: None, message }),
        )
    }

    fn usage_record(at: Option<i64>, id: &str, tokens: u64) -> NativeRecord {
        let usage = Usage {
            total_tokens: Some(tokens),
            ..Usage::default()
        };
        let event = RecordEvent::RequestUsage {
            request_id: Some(id.to_owned()).filter(|id| !id.is_empty()),
            usage,
            model: at.map(|_| "m".to_owned()),
            cost: None,
        };
        record(at, event)
    }

    /// Formats the time, the tokens and the model of each request, and whether it begins a turn.
    fn format_requests(records: Vec<NativeRecord>) -> String {
        let mut counter = RequestCollector::default();
        for record in records {
            counter.add_record(record);
        }
        let formatted = counter.into_requests().into_iter().map(|request| {
            let at = request.at.map_or(-1, Timestamp::as_second);
            let tokens = request.usage.total_tokens.unwrap();
            let begins = if request.is_first_in_turn { "*" } else { "" };
            let model = request.model.as_deref().unwrap_or("-");
            format!("{at}:{tokens}{model}{begins}")
        });
        formatted.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_request_counts_once_even_after_a_rewind() {
        let rewind = || record(None, RecordEvent::Rewind(RewindTarget::Beginning));
        let cases = [
            (vec![], ""),
            (vec![prompt()], ""),
            (
                vec![
                    prompt(),
                    usage_record(Some(1), "a", 5),
                    usage_record(Some(2), "b", 6),
                ],
                "1:5m* 2:6m",
            ),
            // An answer in several records, the last of which has the final count.
            (
                vec![
                    prompt(),
                    usage_record(Some(1), "a", 5),
                    usage_record(Some(2), "a", 7),
                ],
                "2:7m*",
            ),
            (
                vec![usage_record(Some(1), "", 5), usage_record(Some(1), "", 5)],
                "1:5m 1:5m",
            ),
            // Rewound requests were paid for. Requests that are then written a second time were not.
            (
                vec![
                    prompt(),
                    usage_record(Some(1), "a", 5),
                    prompt(),
                    usage_record(Some(2), "b", 6),
                    rewind(),
                    prompt(),
                    usage_record(Some(1), "a", 5),
                    usage_record(None, "b", 6),
                    usage_record(Some(3), "c", 7),
                ],
                "1:5m* 2:6m* 3:7m",
            ),
            // An agent that restarts its numbering.
            (
                vec![
                    usage_record(Some(1), "a", 5),
                    usage_record(Some(2), "b", 6),
                    usage_record(Some(9), "a", 7),
                    usage_record(Some(9), "a", 8),
                ],
                "1:5m 2:6m 9:8m",
            ),
        ];
        for (records, expected) in cases {
            assert_eq!(format_requests(records.clone()), expected, "{records:?}");
        }
    }

    #[test]
    fn requests_that_a_fork_copies_count_once() {
        let collect_requests = |records: Vec<NativeRecord>| {
            let mut counter = RequestCollector::default();
            for record in records {
                counter.add_record(record);
            }
            counter.into_requests()
        };
        let parent_records = || vec![usage_record(Some(1), "a", 5), usage_record(Some(1), "b", 5)];
        let mut deduplicator = RequestDeduplicator::default();
        let mut count_new = |records| deduplicator.remove_copies(collect_requests(records)).len();
        assert_eq!(count_new(parent_records()), 2);
        // The fork sends two requests of its own, one of them by chance at the time of a copied one.
        let fork = [
            parent_records(),
            vec![usage_record(Some(1), "c", 5), usage_record(Some(2), "d", 5)],
        ]
        .concat();
        assert_eq!(count_new(fork), 2);
        // Copies with new ids, and copies with new times.
        assert_eq!(
            count_new(vec![
                usage_record(Some(1), "A", 5),
                usage_record(Some(1), "B", 5)
            ]),
            0
        );
        assert_eq!(
            count_new(vec![
                usage_record(Some(8), "a", 5),
                usage_record(Some(9), "b", 5)
            ]),
            0
        );
        // Requests that match an earlier one in some fields only.
        assert_eq!(
            count_new(vec![
                usage_record(Some(1), "x", 6),
                usage_record(Some(3), "y", 5)
            ]),
            2
        );
        assert_eq!(count_new(vec![usage_record(Some(4), "a", 6)]), 1);
        // Requests without id and time, which cannot be recognised as copies.
        assert_eq!(count_new(vec![usage_record(None, "", 5)]), 1);
        assert_eq!(count_new(vec![usage_record(None, "", 5)]), 1);
    }
}
