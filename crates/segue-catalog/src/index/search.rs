//! Search for words: first the sessions, by time or by score, and then the turns in them.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::session_rows::{IndexedSession, SESSION_COLUMNS, SESSION_TABLES, read_session_row};
use super::writer::{TITLE_TURN_NUMBER, decode_turn_id, turn_id};
use super::{HitOrder, Index, IndexError, OWN_PROVIDER_NAME, SearchQuery};
use crate::Mark;

/// A session that matches a search.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexHit {
    /// The session.
    pub source: HitSource,
    /// Matching turns: the newest or best first, at most as many as requested. Empty if only the title or the filters
    /// match.
    pub turns: Vec<IndexHitTurn>,
    /// Number of matching turns.
    pub count: usize,
    /// Score of the match, higher is better. `None` unless the hits are ordered by score.
    pub score: Option<f64>,
}

/// A turn that matches a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHitTurn {
    /// Number of the turn.
    pub number: u32,
    /// Time at which the turn ended.
    pub at: Option<Timestamp>,
    /// Record before the turn. In a session of segue, the id of the turn.
    pub after: Option<Mark>,
}

/// Session of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HitSource {
    /// A native session.
    Native(Box<IndexedSession>),
    /// A session of segue, with its id and the time of its last change.
    Own(String, Timestamp),
}

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IndexHits {
    /// Matching sessions, in the requested order.
    pub hits: Vec<IndexHit>,
    /// Whether more sessions match.
    pub has_more: bool,
}

/// A search request.
#[derive(Debug, Clone)]
pub struct IndexQuery<'a> {
    /// Query to search for.
    pub query: &'a SearchQuery,
    /// Order of the hits.
    pub order: HitOrder,
    /// Maximum number of sessions.
    pub limit: usize,
    /// Number of sessions to skip.
    pub skip: usize,
    /// Maximum number of turns per session.
    pub max_turns: usize,
    /// Key of the project to which the search is restricted.
    pub project: Option<&'a str>,
    /// Sessions of segue to which the search is restricted. If present, native sessions do not match.
    pub own_sessions: Option<&'a HashSet<String>>,
}

impl IndexQuery<'_> {
    fn has_time_filter(&self) -> bool {
        self.query.after.is_some() || self.query.before.is_some()
    }

    /// Returns `true` if some sessions can't match because of a filter.
    fn has_session_filter(&self) -> bool {
        let SearchQuery {
            providers, project, ..
        } = self.query;
        self.has_time_filter()
            || !providers.is_empty()
            || project.is_some()
            || self.project.is_some()
            || self.own_sessions.is_some()
    }

    /// Returns the number of turns per session that are read: all if the search is restricted by time.
    fn turn_limit(&self) -> usize {
        if self.has_time_filter() {
            usize::MAX
        } else {
            self.max_turns
        }
    }
}

/// Maximum number of turns that are read by score, because users do not read further and common words occur in all
/// turns. If the search is restricted to some sessions, all turns are read, because the turns of these sessions may
/// have the lowest scores.
const MAX_SCORED_TURNS: i64 = 2000;
/// Maximum number of sessions that are looked up one by one. If more match, all sessions are read, the newest first.
const MAX_SINGLE_LOOKUPS: usize = 300;
/// Weights of the columns. A word counts more in titles and prompts, because it is rarer in them.
const COLUMN_WEIGHTS: &str = "bm25(4.0, 2.0, 1.0, 0.5, 8.0)";

/// Matching turns of a session.
#[derive(Debug, Default, Clone)]
struct MatchingTurns {
    numbers: Vec<u32>,
    count: usize,
    score: Option<f64>,
}

impl Index {
    /// Returns the sessions in which a turn contains all words of a query.
    pub fn search(&self, request: &IndexQuery<'_>) -> Result<IndexHits, IndexError> {
        self.read_with(|db| {
            if request.query.words.is_empty() {
                return search_by_time(db, request, None);
            }
            let expression = request.query.words.to_fts_expression();
            match request.order {
                HitOrder::Newest => {
                    let matches = find_matching_turns(db, &expression, request.turn_limit())?;
                    search_by_time(db, request, Some(&matches))
                }
                HitOrder::Best => search_by_score(db, request, &expression),
            }
        })
    }
}

/// Returns all matching turns, by session.
fn find_matching_turns(
    db: &Connection,
    expression: &str,
    turn_limit: usize,
) -> rusqlite::Result<HashMap<i64, MatchingTurns>> {
    let mut matches: HashMap<i64, MatchingTurns> = HashMap::new();
    let mut statement = db.prepare_cached("SELECT rowid FROM text WHERE text MATCH ?1")?;
    let mut rows = statement.query([expression])?;
    while let Some(row) = rows.next()? {
        let (session, number) = decode_turn_id(row.get(0)?);
        let matching_turns = matches.entry(session).or_default();
        matching_turns.add_turn(number, turn_limit);
    }
    Ok(matches)
}

impl MatchingTurns {
    /// Adds the next turn. Drops the earliest one if there are more than `turn_limit`.
    fn add_turn(&mut self, number: u32, turn_limit: usize) {
        if number == TITLE_TURN_NUMBER {
            return;
        }
        self.count += 1;
        self.numbers.push(number);
        if self.numbers.len() > turn_limit {
            self.numbers.remove(0);
        }
    }
}

fn search_by_time(
    db: &Connection,
    request: &IndexQuery<'_>,
    matches: Option<&HashMap<i64, MatchingTurns>>,
) -> rusqlite::Result<IndexHits> {
    let mut collector = HitCollector::new(db, request);
    let few_matches = matches.filter(|matches| matches.len() <= MAX_SINGLE_LOOKUPS);
    if let Some(matches) = few_matches {
        let mut candidates = Vec::new();
        for (&session, matching_turns) in matches {
            if let Some(candidate) = load_candidate(db, session)? {
                candidates.push((candidate, matching_turns));
            }
        }
        candidates.sort_by_key(|(candidate, _)| {
            std::cmp::Reverse((candidate.updated_at(), candidate.id))
        });
        for (candidate, matching_turns) in candidates {
            if collector.add_candidate(candidate, reverse_turns(matching_turns))? {
                break;
            }
        }
        return Ok(collector.hits);
    }
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM {SESSION_TABLES} ORDER BY updated_at DESC, session.id DESC"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let no_turns = MatchingTurns::default();
    while let Some(row) = rows.next()? {
        let matching_turns = match matches {
            None => Some(&no_turns),
            Some(matches) => matches.get(&row.get(0)?),
        };
        if let Some(matching_turns) = matching_turns
            && let Some(candidate) = HitCandidate::from_row(row)?
            && collector.add_candidate(candidate, reverse_turns(matching_turns))?
        {
            break;
        }
    }
    Ok(collector.hits)
}

fn reverse_turns(matching_turns: &MatchingTurns) -> MatchingTurns {
    let mut matching_turns = matching_turns.clone();
    matching_turns.numbers.reverse();
    matching_turns
}

fn search_by_score(
    db: &Connection,
    request: &IndexQuery<'_>,
    expression: &str,
) -> rusqlite::Result<IndexHits> {
    let mut statement = db.prepare_cached(
        "SELECT rowid, rank FROM text WHERE text MATCH ?1 AND rank MATCH ?2 ORDER BY rank LIMIT ?3",
    )?;
    let limit = if request.has_session_filter() {
        -1
    } else {
        MAX_SCORED_TURNS
    };
    let mut rows = statement.query(rusqlite::params![expression, COLUMN_WEIGHTS, limit])?;
    let mut session_order = Vec::new();
    let mut matches: HashMap<i64, MatchingTurns> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (session, number) = decode_turn_id(row.get(0)?);
        let matching_turns = matches.entry(session).or_insert_with(|| {
            session_order.push(session);
            MatchingTurns::default()
        });
        if matching_turns.score.is_none() {
            // SQLite's rank is lower for better matches.
            matching_turns.score = row.get::<_, Option<f64>>(1)?.map(|rank| -rank);
        }
        if number != TITLE_TURN_NUMBER {
            matching_turns.count += 1;
            if matching_turns.numbers.len() < request.turn_limit() {
                matching_turns.numbers.push(number);
            }
        }
    }
    let mut collector = HitCollector::new(db, request);
    for session in session_order {
        if let Some(candidate) = load_candidate(db, session)?
            && let Some(matching_turns) = matches.remove(&session)
            && collector.add_candidate(candidate, matching_turns)?
        {
            break;
        }
    }
    Ok(collector.hits)
}

/// A session that may be a hit.
struct HitCandidate {
    id: i64,
    source: HitSource,
    provider: String,
    project: Option<String>,
    cwd: Option<String>,
}

impl HitCandidate {
    fn from_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let provider: String = row.get(1)?;
        let id: String = row.get(2)?;
        let Some(native) = read_session_row(row)? else {
            return Ok(None);
        };
        let is_own = provider == OWN_PROVIDER_NAME;
        Ok(Some(Self {
            id: row.get(0)?,
            // For a session of segue, the column of the version contains the provider.
            provider: if is_own {
                native
                    .session
                    .head
                    .agent_version
                    .clone()
                    .unwrap_or_default()
            } else {
                provider
            },
            project: native.project.clone(),
            cwd: native.session.head.cwd.clone(),
            source: if is_own {
                HitSource::Own(id, native.session.head.updated_at)
            } else {
                HitSource::Native(Box::new(native))
            },
        }))
    }

    fn updated_at(&self) -> Timestamp {
        match &self.source {
            HitSource::Native(row) => row.session.head.updated_at,
            HitSource::Own(_, at) => *at,
        }
    }

    fn is_match(&self, request: &IndexQuery<'_>) -> bool {
        let query = request.query;
        let path_contains = |path: &Option<String>, part: &str| {
            let path = path.as_deref().unwrap_or_default().to_lowercase();
            path.contains(part)
        };
        let is_in_project = |part: &String| {
            let part = part.to_lowercase();
            path_contains(&self.project, &part) || path_contains(&self.cwd, &part)
        };
        let is_selected = |own_sessions: &HashSet<String>| matches!(&self.source, HitSource::Own(id, _) if own_sessions.contains(id));
        (query.providers.is_empty() || query.providers.contains(&self.provider))
            && query.project.as_ref().is_none_or(is_in_project)
            && query.after.is_none_or(|after| self.updated_at() >= after)
            && request
                .project
                .is_none_or(|key| self.project.as_deref() == Some(key))
            && request.own_sessions.is_none_or(is_selected)
    }
}

fn load_candidate(db: &Connection, session: i64) -> rusqlite::Result<Option<HitCandidate>> {
    let sql = format!("SELECT {SESSION_COLUMNS} FROM {SESSION_TABLES} WHERE session.id = ?1");
    let candidate = db
        .prepare_cached(&sql)?
        .query_row([session], HitCandidate::from_row);
    Ok(candidate.optional()?.flatten())
}

/// Collector of hits, up to the requested number.
struct HitCollector<'a> {
    db: &'a Connection,
    request: &'a IndexQuery<'a>,
    remaining_skips: usize,
    hits: IndexHits,
}

impl<'a> HitCollector<'a> {
    fn new(db: &'a Connection, request: &'a IndexQuery<'a>) -> Self {
        Self {
            db,
            request,
            remaining_skips: request.skip,
            hits: IndexHits::default(),
        }
    }

    /// Adds a candidate if it matches. Returns `true` if there are enough hits.
    fn add_candidate(
        &mut self,
        candidate: HitCandidate,
        matching_turns: MatchingTurns,
    ) -> rusqlite::Result<bool> {
        if !candidate.is_match(self.request) {
            return Ok(false);
        }
        let query = self.request.query;
        let mut turns = Vec::with_capacity(matching_turns.numbers.len());
        for number in matching_turns.numbers {
            turns.extend(load_hit_turn(self.db, candidate.id, number)?);
        }
        let mut count = matching_turns.count;
        if self.request.has_time_filter() && matching_turns.count > 0 {
            let is_in_range = |turn: &IndexHitTurn| {
                turn.at.is_none_or(|at| {
                    query.after.is_none_or(|after| at >= after)
                        && query.before.is_none_or(|before| at < before)
                })
            };
            turns.retain(is_in_range);
            count = turns.len();
            turns.truncate(self.request.max_turns);
            if turns.is_empty() {
                return Ok(false);
            }
        }
        if matching_turns.count == 0
            && query
                .before
                .is_some_and(|before| candidate.updated_at() >= before)
        {
            return Ok(false);
        }
        if self.remaining_skips > 0 {
            self.remaining_skips -= 1;
            return Ok(false);
        }
        if self.hits.hits.len() >= self.request.limit {
            self.hits.has_more = true;
            return Ok(true);
        }
        self.hits.hits.push(IndexHit {
            source: candidate.source,
            turns,
            count,
            score: matching_turns.score,
        });
        Ok(false)
    }
}

fn load_hit_turn(
    db: &Connection,
    session: i64,
    number: u32,
) -> rusqlite::Result<Option<IndexHitTurn>> {
    db.prepare_cached("SELECT at, after FROM turn WHERE id = ?1")?
        .query_row([turn_id(session, number)], |row| {
            let at: Option<i64> = row.get(0)?;
            let after: Option<String> = row.get(1)?;
            Ok(IndexHitTurn {
                number,
                at: at.and_then(|at| Timestamp::from_millisecond(at).ok()),
                after: after.and_then(|mark| mark.parse().ok()),
            })
        })
        .optional()
}
