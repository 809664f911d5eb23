//! Search for words: first the sessions, by time or by score, and then the turns in them.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::rows::{COLUMNS, Row, TABLES, row};
use super::write::{TITLE, place_of, turn_id};
use super::{Index, IndexError, OWN, Order, Query};
use crate::Mark;

/// A session that matches a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session.
    pub of: Of,
    /// Matching turns: the newest or best first, at most as many as requested. Empty if only the title or the filters
    /// match.
    pub turns: Vec<HitTurn>,
    /// Number of matching turns.
    pub count: usize,
    /// Score of the match, higher is better. `None` unless the hits are ordered by score.
    pub score: Option<f64>,
}

/// A turn that matches a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitTurn {
    /// Number of the turn.
    pub n: u32,
    /// Time at which the turn ended.
    pub at: Option<Timestamp>,
    /// Record before the turn. In a session of segue, the id of the turn.
    pub after: Option<Mark>,
}

/// Session of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// A native session.
    Native(Box<Row>),
    /// A session of segue, with its id and the time of its last change.
    Own(String, Timestamp),
}

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hits {
    /// Matching sessions, in the requested order.
    pub hits: Vec<Hit>,
    /// Whether more sessions match.
    pub more: bool,
}

/// A search request.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Query to search for.
    pub query: &'a Query,
    /// Order of the hits.
    pub order: Order,
    /// Maximum number of sessions.
    pub limit: usize,
    /// Number of sessions to skip.
    pub skip: usize,
    /// Maximum number of turns per session.
    pub each: usize,
    /// Key of the project to which the search is restricted.
    pub project: Option<&'a str>,
    /// Sessions of segue to which the search is restricted. If present, native sessions do not match.
    pub own: Option<&'a HashSet<String>>,
}

impl Ask<'_> {
    fn is_timed(&self) -> bool {
        self.query.after.is_some() || self.query.before.is_some()
    }

    /// Returns `true` if some sessions can't match because of a filter.
    fn is_narrow(&self) -> bool {
        let Query {
            providers, project, ..
        } = self.query;
        self.is_timed()
            || !providers.is_empty()
            || project.is_some()
            || self.project.is_some()
            || self.own.is_some()
    }

    /// Returns the number of turns per session that are read: all if the search is restricted by time.
    fn looked_at(&self) -> usize {
        if self.is_timed() {
            usize::MAX
        } else {
            self.each
        }
    }
}

/// Maximum number of turns that are read by score, because users do not read further and common words occur in all
/// turns. If the search is restricted to some sessions, all turns are read, because the turns of these sessions may
/// have the lowest scores.
const BEST: i64 = 2000;
/// Maximum number of sessions that are looked up one by one. If more match, all sessions are read, the newest first.
const FEW: usize = 300;
/// Weights of the columns. A word counts more in titles and prompts, because it is rarer in them.
const BY_WEIGHT: &str = "bm25(4.0, 2.0, 1.0, 0.5, 8.0)";

/// Matching turns of a session.
#[derive(Debug, Default, Clone)]
struct Fitting {
    numbers: Vec<u32>,
    count: usize,
    score: Option<f64>,
}

impl Index {
    /// Returns the sessions in which a turn contains all words of a query.
    pub fn search(&self, ask: &Ask<'_>) -> Result<Hits, IndexError> {
        self.reading(|db| {
            if ask.query.words.is_empty() {
                return by_time(db, ask, None);
            }
            let expression = ask.query.words.expression();
            match ask.order {
                Order::Newest => {
                    let fitting = all(db, &expression, ask.looked_at())?;
                    by_time(db, ask, Some(&fitting))
                }
                Order::Best => by_score(db, ask, &expression),
            }
        })
    }
}

/// Returns all matching turns, by session.
fn all(db: &Connection, expression: &str, each: usize) -> rusqlite::Result<HashMap<i64, Fitting>> {
    let mut fitting: HashMap<i64, Fitting> = HashMap::new();
    let mut statement = db.prepare_cached("SELECT rowid FROM text WHERE text MATCH ?1")?;
    let mut rows = statement.query([expression])?;
    while let Some(row) = rows.next()? {
        let (session, number) = place_of(row.get(0)?);
        let fits = fitting.entry(session).or_default();
        fits.add(number, each);
    }
    Ok(fitting)
}

impl Fitting {
    /// Adds the next turn. Drops the earliest one if there are more than `each`.
    fn add(&mut self, number: u32, each: usize) {
        if number == TITLE {
            return;
        }
        self.count += 1;
        self.numbers.push(number);
        if self.numbers.len() > each {
            self.numbers.remove(0);
        }
    }
}

fn by_time(
    db: &Connection,
    ask: &Ask<'_>,
    fitting: Option<&HashMap<i64, Fitting>>,
) -> rusqlite::Result<Hits> {
    let mut taking = Taking::new(db, ask);
    let few = fitting.filter(|fitting| fitting.len() <= FEW);
    if let Some(fitting) = few {
        let mut found = Vec::new();
        for (&session, fits) in fitting {
            if let Some(candidate) = candidate(db, session)? {
                found.push((candidate, fits));
            }
        }
        found.sort_by_key(|(candidate, _)| {
            std::cmp::Reverse((candidate.updated_at(), candidate.id))
        });
        for (candidate, fits) in found {
            if taking.take(candidate, newest_first(fits))? {
                break;
            }
        }
        return Ok(taking.hits);
    }
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} ORDER BY updated_at DESC, session.id DESC");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let nothing = Fitting::default();
    while let Some(row) = rows.next()? {
        let fits = match fitting {
            None => Some(&nothing),
            Some(fitting) => fitting.get(&row.get(0)?),
        };
        if let Some(fits) = fits
            && let Some(candidate) = Candidate::of(row)?
            && taking.take(candidate, newest_first(fits))?
        {
            break;
        }
    }
    Ok(taking.hits)
}

fn newest_first(fits: &Fitting) -> Fitting {
    let mut fits = fits.clone();
    fits.numbers.reverse();
    fits
}

fn by_score(db: &Connection, ask: &Ask<'_>, expression: &str) -> rusqlite::Result<Hits> {
    let mut statement = db.prepare_cached(
        "SELECT rowid, rank FROM text WHERE text MATCH ?1 AND rank MATCH ?2 ORDER BY rank LIMIT ?3",
    )?;
    let most = if ask.is_narrow() { -1 } else { BEST };
    let mut rows = statement.query(rusqlite::params![expression, BY_WEIGHT, most])?;
    let mut order = Vec::new();
    let mut fitting: HashMap<i64, Fitting> = HashMap::new();
    while let Some(row) = rows.next()? {
        let (session, number) = place_of(row.get(0)?);
        let fits = fitting.entry(session).or_insert_with(|| {
            order.push(session);
            Fitting::default()
        });
        if fits.score.is_none() {
            // SQLite's rank is lower for better matches.
            fits.score = row.get::<_, Option<f64>>(1)?.map(|rank| -rank);
        }
        if number != TITLE {
            fits.count += 1;
            if fits.numbers.len() < ask.looked_at() {
                fits.numbers.push(number);
            }
        }
    }
    let mut taking = Taking::new(db, ask);
    for session in order {
        if let Some(candidate) = candidate(db, session)?
            && let Some(fits) = fitting.remove(&session)
            && taking.take(candidate, fits)?
        {
            break;
        }
    }
    Ok(taking.hits)
}

/// A session that may be a hit.
struct Candidate {
    id: i64,
    of: Of,
    provider: String,
    project: Option<String>,
    cwd: Option<String>,
}

impl Candidate {
    fn of(found: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let provider: String = found.get(1)?;
        let id: String = found.get(2)?;
        let Some(native) = row(found)? else {
            return Ok(None);
        };
        let own = provider == OWN;
        Ok(Some(Self {
            id: found.get(0)?,
            // For a session of segue, the column of the version contains the provider.
            provider: if own {
                native.session.head.version.clone().unwrap_or_default()
            } else {
                provider
            },
            project: native.project.clone(),
            cwd: native.session.head.cwd.clone(),
            of: if own {
                Of::Own(id, native.session.head.updated_at)
            } else {
                Of::Native(Box::new(native))
            },
        }))
    }

    fn updated_at(&self) -> Timestamp {
        match &self.of {
            Of::Native(row) => row.session.head.updated_at,
            Of::Own(_, at) => *at,
        }
    }

    fn fits(&self, ask: &Ask<'_>) -> bool {
        let query = ask.query;
        let within = |path: &Option<String>, part: &str| {
            let path = path.as_deref().unwrap_or_default().to_lowercase();
            path.contains(part)
        };
        let named = |part: &String| {
            let part = part.to_lowercase();
            within(&self.project, &part) || within(&self.cwd, &part)
        };
        let own = |own: &HashSet<String>| matches!(&self.of, Of::Own(id, _) if own.contains(id));
        (query.providers.is_empty() || query.providers.contains(&self.provider))
            && query.project.as_ref().is_none_or(named)
            && query.after.is_none_or(|after| self.updated_at() >= after)
            && ask
                .project
                .is_none_or(|key| self.project.as_deref() == Some(key))
            && ask.own.is_none_or(own)
    }
}

fn candidate(db: &Connection, session: i64) -> rusqlite::Result<Option<Candidate>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE session.id = ?1");
    let found = db.prepare_cached(&sql)?.query_row([session], Candidate::of);
    Ok(found.optional()?.flatten())
}

/// Collector of hits, up to the requested number.
struct Taking<'a> {
    db: &'a Connection,
    ask: &'a Ask<'a>,
    skip: usize,
    hits: Hits,
}

impl<'a> Taking<'a> {
    fn new(db: &'a Connection, ask: &'a Ask<'a>) -> Self {
        Self {
            db,
            ask,
            skip: ask.skip,
            hits: Hits::default(),
        }
    }

    /// Adds a candidate if it matches. Returns `true` if there are enough hits.
    fn take(&mut self, candidate: Candidate, fits: Fitting) -> rusqlite::Result<bool> {
        if !candidate.fits(self.ask) {
            return Ok(false);
        }
        let query = self.ask.query;
        let mut turns = Vec::with_capacity(fits.numbers.len());
        for n in fits.numbers {
            turns.extend(turn(self.db, candidate.id, n)?);
        }
        let mut count = fits.count;
        if self.ask.is_timed() && fits.count > 0 {
            let inside = |turn: &HitTurn| {
                turn.at.is_none_or(|at| {
                    query.after.is_none_or(|after| at >= after)
                        && query.before.is_none_or(|before| at < before)
                })
            };
            turns.retain(inside);
            count = turns.len();
            turns.truncate(self.ask.each);
            if turns.is_empty() {
                return Ok(false);
            }
        }
        if fits.count == 0
            && query
                .before
                .is_some_and(|before| candidate.updated_at() >= before)
        {
            return Ok(false);
        }
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(false);
        }
        if self.hits.hits.len() >= self.ask.limit {
            self.hits.more = true;
            return Ok(true);
        }
        self.hits.hits.push(Hit {
            of: candidate.of,
            turns,
            count,
            score: fits.score,
        });
        Ok(false)
    }
}

fn turn(db: &Connection, session: i64, n: u32) -> rusqlite::Result<Option<HitTurn>> {
    db.prepare_cached("SELECT at, after FROM turn WHERE id = ?1")?
        .query_row([turn_id(session, n)], |row| {
            let at: Option<i64> = row.get(0)?;
            let after: Option<String> = row.get(1)?;
            Ok(HitTurn {
                n,
                at: at.and_then(|at| Timestamp::from_millisecond(at).ok()),
                after: after.and_then(|mark| mark.parse().ok()),
            })
        })
        .optional()
}
