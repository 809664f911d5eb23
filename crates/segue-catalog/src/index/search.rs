//! Where words were said: the sessions first, by time or by how well they fit, and the turns in them.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::rows::{COLUMNS, Row, TABLES, row};
use super::write::{TITLE, place_of, turn_id};
use super::{Index, IndexError, OWN, Order, Query};
use crate::Mark;

/// A session in which something was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Which.
    pub of: Of,
    /// The turns in which it was found: the newest or best first, as many as were asked for. None where only the
    /// title or the filters fit.
    pub turns: Vec<HitTurn>,
    /// In how many turns it was found.
    pub count: usize,
    /// How well it fits: the more the better. Only told where that is the order.
    pub score: Option<f64>,
}

/// A turn in which something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitTurn {
    /// Its number.
    pub n: u32,
    /// When it ended.
    pub at: Option<Timestamp>,
    /// The record before it; for one of segue's own, what the turn is called.
    pub after: Option<Mark>,
}

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Of {
    /// A native one.
    Native(Box<Row>),
    /// The one of segue's own that is called so, and when it was last touched.
    Own(String, Timestamp),
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hits {
    /// The sessions, in the order that was asked for.
    pub hits: Vec<Hit>,
    /// Whether there are more.
    pub more: bool,
}

/// How much is asked for.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// What is searched for.
    pub query: &'a Query,
    /// In which order.
    pub order: Order,
    /// How many sessions at most, and how many of the first to leave out.
    pub limit: usize,
    /// After the first so many.
    pub skip: usize,
    /// How many turns of each.
    pub each: usize,
    /// Only in the project with this key.
    pub project: Option<&'a str>,
    /// Of segue's own, only in these; and in none but segue's own.
    pub own: Option<&'a HashSet<String>>,
}

impl Ask<'_> {
    fn is_timed(&self) -> bool {
        self.query.after.is_some() || self.query.before.is_some()
    }

    /// Whether not every session may be a hit.
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

    /// How many turns of a session are looked at: all of them where their time decides.
    fn looked_at(&self) -> usize {
        if self.is_timed() {
            usize::MAX
        } else {
            self.each
        }
    }
}

/// By score, only so many turns are looked at: nobody reads on, and common words are in all of them. All are where
/// only some sessions are asked for: theirs may come last.
const BEST: i64 = 2000;
/// Up to so many sessions are looked up one by one; more are met by going through all, the newest first.
const FEW: usize = 300;
/// How much more a word counts where it is rarer: in titles and prompts.
const BY_WEIGHT: &str = "bm25(4.0, 2.0, 1.0, 0.5, 8.0)";

/// The turns of a session that fit.
#[derive(Debug, Default, Clone)]
struct Fitting {
    numbers: Vec<u32>,
    count: usize,
    score: Option<f64>,
}

impl Index {
    /// The sessions in which all words of a query occur in one turn.
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

/// All turns that fit.
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
    /// Takes the next turn; of too many, the earlier ones are dropped.
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
            // SQLite counts down.
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
            // Who carries one of segue's own stands where native ones have their version.
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

/// Takes hits until there are enough.
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

    /// Whether there are enough.
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
