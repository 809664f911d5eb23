//! Checkpoints: the numbered versions of a session's summary, stored as deltas.

use rusqlite::{Connection, OptionalExtension, Row, params};
use segue_core::checkpoint::{
    Author, Checkpoint, Delta, Occasion, Version, decode_delta, encode_delta,
};
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::LegEnd;
use segue_store::{Lease, NewVersion};

use super::{Outcome, lease, legs};
use crate::error::Fault;
use crate::rows::{self, micros};

/// Maximum number of versions in a chain of deltas. The next version is stored completely, which bounds the number of
/// deltas that a read applies.
const CHANGES: u32 = 16;

const COLUMNS: &str = "c.n, c.turn_id, c.covers, c.tokens, c.replaced, c.made_by, c.why, c.at, c.id, c.depth, c.last_item, c.read";

/// A version, its row id, and the number of deltas between it and the last complete version.
type Kept = (Version, i64, u32);

fn version(row: &Row<'_>) -> rusqlite::Result<Kept> {
    let version = Version {
        n: row.get(0)?,
        turn: TurnId(row.get(1)?),
        covers: row.get(2)?,
        tokens: row.get(3)?,
        replaced: row.get(4)?,
        by: rows::named(row, 5, Author::from_name)?,
        why: rows::named(row, 6, Occasion::from_name)?,
        at: rows::time(row, 7)?,
        last_item: row.get(10)?,
        read: row.get(11)?,
    };
    Ok((version, row.get(8)?, row.get(9)?))
}

pub(crate) fn add(
    db: &Connection,
    held: &Lease,
    new: &NewVersion,
    ends: Option<(LegId, LegEnd)>,
) -> Outcome<Version> {
    lease::check(db, held)?;
    if let Some((leg, why)) = ends {
        legs::end(db, held, leg, why, new.at)?;
    }
    let before = nearest(db, &held.session, new.turn)?;
    let base = match before {
        Some((_, key, depth)) if depth + 1 < CHANGES => Some((key, depth + 1)),
        Some(_) | None => None,
    };
    let from = match base {
        Some((key, _)) => content(db, key)?,
        None => Checkpoint::default(),
    };
    let delta = encode_delta(&Delta::between(&from, &new.checkpoint));
    let last = last_number(db, &held.session)?;
    let version = Version {
        n: last + 1,
        turn: new.turn,
        covers: new.covers,
        tokens: new.tokens,
        replaced: new.replaced,
        by: new.by,
        why: new.why,
        at: new.at,
        read: new.read,
        last_item: new.checkpoint.next_id().saturating_sub(1),
    };
    db.prepare_cached(
        "INSERT INTO checkpoints (session_id, n, turn_id, base, depth, covers, delta, tokens, replaced, made_by, why, at,
             last_item, read)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        held.session.as_str(),
        version.n,
        version.turn.0,
        base.map(|(key, _)| key),
        base.map_or(0, |(_, depth)| depth),
        version.covers,
        delta,
        version.tokens,
        version.replaced,
        version.by.as_str(),
        version.why.as_str(),
        micros(version.at),
        version.last_item,
        version.read
    ])?;
    Ok(version)
}

/// SQL table of the session and the sessions that it was forked from. `until` is the time up to which their versions
/// are valid in the session. `gone` marks an ancestor that was deleted: its versions no longer name their session.
const KIN: &str = "kin (id, until, gone) AS (
         SELECT id, 9223372036854775807, FALSE FROM sessions WHERE id = ?1
         UNION ALL
         SELECT s.forked_from, min(k.until, s.created_at),
                NOT EXISTS (SELECT 1 FROM sessions o WHERE o.id = s.forked_from)
         FROM kin k CROSS JOIN sessions s ON s.id = k.id WHERE s.forked_from IS NOT NULL
     )";

/// SQL condition for a version `v` that is valid in the session. A version that another session makes later on a shared
/// turn is not valid.
const COUNTS: &str =
    "EXISTS (SELECT 1 FROM kin k WHERE (k.id = v.session_id OR k.gone) AND v.at <= k.until)";

/// Returns the version that is active at a turn of a session, with its content. `None` if no version exists.
pub(crate) fn in_force(
    db: &Connection,
    id: &SessionId,
    turn: TurnId,
) -> Outcome<Option<(Version, Checkpoint)>> {
    let Some((version, key, _)) = nearest(db, id, turn)? else {
        return Ok(None);
    };
    Ok(Some((version, content(db, key)?)))
}

/// Returns the newest version on the nearest turn that has one: `turn` itself or an ancestor.
fn nearest(db: &Connection, id: &SessionId, turn: TurnId) -> Outcome<Option<Kept>> {
    // SQLite computes the chain turn by turn as rows are fetched. Most sessions have no checkpoint at all.
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {KIN}, chain (id, parent_id) AS (
             SELECT id, parent_id FROM turns WHERE id = ?2
             UNION ALL SELECT t.id, t.parent_id FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT {COLUMNS} FROM chain h CROSS JOIN checkpoints c ON c.id =
             (SELECT max(v.id) FROM checkpoints v WHERE v.turn_id = h.id AND {COUNTS}) LIMIT 1"
    ))?;
    Ok(statement
        .query_row(params![id.as_str(), turn.0], version)
        .optional()?)
}

/// Returns all versions of a session, including those that it shares with the session that it was forked from.
pub(crate) fn all(db: &Connection, id: &SessionId) -> Outcome<Vec<Version>> {
    Ok(kept(db, id)?
        .into_iter()
        .map(|(version, ..)| version)
        .collect())
}

fn kept(db: &Connection, id: &SessionId) -> Outcome<Vec<Kept>> {
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {KIN}, chain (id, parent_id) AS (
             SELECT t.id, t.parent_id FROM sessions s JOIN turns t ON t.id = s.head_id WHERE s.id = ?1
             UNION ALL SELECT t.id, t.parent_id FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT {COLUMNS} FROM checkpoints v JOIN checkpoints c ON c.id = v.id
         WHERE v.session_id = ?1 OR v.turn_id IN (SELECT id FROM chain) AND {COUNTS} ORDER BY c.n, c.id"
    ))?;
    let found = statement.query_map([id.as_str()], version)?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the highest number of any version, including versions off the path to the current head.
fn last_number(db: &Connection, id: &SessionId) -> Outcome<u32> {
    let kept = kept(db, id)?.into_iter().map(|(version, ..)| version.n);
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {KIN}
         SELECT coalesce(max(v.n), 0) FROM kin m CROSS JOIN checkpoints v ON v.session_id = m.id WHERE v.at <= m.until"
    ))?;
    let of_kin: u32 = statement.query_row([id.as_str()], |row| row.get(0))?;
    Ok(kept.max().unwrap_or(0).max(of_kin))
}

/// Returns version `n` of a session with its content. `None` if it does not exist.
pub(crate) fn one(
    db: &Connection,
    id: &SessionId,
    n: u32,
) -> Outcome<Option<(Version, Checkpoint)>> {
    let found = kept(db, id)?
        .into_iter()
        .find(|(version, ..)| version.n == n);
    let Some((version, key, _)) = found else {
        return Ok(None);
    };
    Ok(Some((version, content(db, key)?)))
}

/// Returns the content of a version. Applies all deltas from the last complete version up to it.
fn content(db: &Connection, key: i64) -> Outcome<Checkpoint> {
    let mut statement = db.prepare_cached(
        "WITH RECURSIVE changes (id, base, delta) AS (
             SELECT id, base, delta FROM checkpoints WHERE id = ?1
             UNION ALL SELECT c.id, c.base, c.delta FROM changes d JOIN checkpoints c ON c.id = d.base
         )
         SELECT delta FROM changes ORDER BY id",
    )?;
    let deltas = statement.query_map([key], |row| row.get::<_, String>(0))?;
    let mut content = Checkpoint::default();
    for delta in deltas {
        let delta = decode_delta(&delta?).map_err(|error| Fault::from(rows::bad(0, error)))?;
        content = delta.apply(&content);
    }
    Ok(content)
}
