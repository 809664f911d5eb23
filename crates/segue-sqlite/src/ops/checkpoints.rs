//! Checkpoints: the numbered versions of a session's summary, stored as deltas.

use rusqlite::{OptionalExtension, Row, params};
use segue_core::checkpoint::{Checkpoint, CheckpointReason, CheckpointVersion, ItemAuthor};
use segue_core::id::{SessionId, TurnId};
use segue_core::session::LegEnd;
use segue_store::{
    ChangeKind, CompactionCommit, Lease, NewCheckpoint, apply_encoded_delta, encode_checkpoint,
    next_delta_depth,
};

use super::{OpResult, decisions, feed, lease, legs};
use crate::connection::Db;
use crate::error::OpError;
use crate::rows::{self, to_micros};

const VERSION_COLUMNS: &str = "c.n, c.turn_id, c.covers, c.tokens, c.replaced, c.made_by, c.why, c.at, c.id, c.depth, c.last_item, c.read";

/// A version, its row id, and the number of deltas between it and the last complete version.
type StoredVersion = (CheckpointVersion, i64, u32);

fn read_version(db: &Db, row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let version = CheckpointVersion {
        n: row.get(0)?,
        turn: db.turn_id(row.get(1)?),
        covers: row.get(2)?,
        tokens: row.get(3)?,
        replaced: row.get(4)?,
        author: rows::read_enum(row, 5, ItemAuthor::from_name)?,
        reason: rows::read_enum(row, 6, CheckpointReason::from_name)?,
        at: rows::read_time(row, 7)?,
        last_item_id: row.get(10)?,
        last_read_turn: row.get(11)?,
    };
    Ok((version, row.get(8)?, row.get(9)?))
}

pub(crate) fn commit_compaction(
    db: &Db,
    lease: &Lease,
    new: &NewCheckpoint,
    compaction: CompactionCommit,
) -> OpResult<CheckpointVersion> {
    let version = add_checkpoint(db, lease, new)?;
    if let Some(leg) = compaction.ended_leg {
        legs::end_leg(db, lease, leg, LegEnd::Compacted, new.at)?;
    }
    let decision = compaction.decision(&version);
    decisions::log_decision(db, lease, &decision, new.at)?;
    Ok(version)
}

pub(crate) fn add_checkpoint(
    db: &Db,
    lease: &Lease,
    new: &NewCheckpoint,
) -> OpResult<CheckpointVersion> {
    lease::check_lease(db, lease)?;
    let previous = find_nearest_version(db, &lease.session, new.turn)?;
    let base = previous.and_then(|(_, key, depth)| Some((key, next_delta_depth(depth)?)));
    let base_content = match base {
        Some((key, _)) => load_content(db, key)?,
        None => Checkpoint::default(),
    };
    let delta = encode_checkpoint(&base_content, &new.checkpoint);
    let last = last_version_number(db, &lease.session)?;
    let version = new.to_version(last + 1);
    db.prepare_cached(
        "INSERT INTO checkpoints (session_id, n, turn_id, base, depth, covers, delta, tokens, replaced, made_by, why, at,
             last_item, read)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        lease.session.as_str(),
        version.n,
        db.turn_row(version.turn),
        base.map(|(key, _)| key),
        base.map_or(0, |(_, depth)| depth),
        version.covers,
        delta,
        version.tokens,
        version.replaced,
        version.author.as_str(),
        version.reason.as_str(),
        to_micros(version.at),
        version.last_item_id,
        version.last_read_turn
    ])?;
    let added = ChangeKind::CheckpointAdded { version: version.n };
    feed::record_change(db, &lease.session, added)?;
    Ok(version)
}

/// SQL table of the session and the sessions that it was forked from. `until` is the time up to which their versions
/// are valid in the session. `gone` marks an ancestor that was deleted: its versions no longer name their session.
const FORK_ANCESTRY_SQL: &str = "kin (id, until, gone) AS (
         SELECT id, 9223372036854775807, FALSE FROM sessions WHERE id = ?1
         UNION ALL
         SELECT s.forked_from, min(k.until, s.created_at),
                NOT EXISTS (SELECT 1 FROM sessions o WHERE o.id = s.forked_from)
         FROM kin k CROSS JOIN sessions s ON s.id = k.id WHERE s.forked_from IS NOT NULL
     )";

/// SQL condition for a version `v` that is valid in the session. A version that another session makes later on a shared
/// turn is not valid.
const VALID_VERSION_SQL: &str =
    "EXISTS (SELECT 1 FROM kin k WHERE (k.id = v.session_id OR k.gone) AND v.at <= k.until)";

/// Returns the version that is active at a turn of a session, with its content. `None` if no version exists.
pub(crate) fn find_checkpoint_at(
    db: &Db,
    id: &SessionId,
    turn: TurnId,
) -> OpResult<Option<(CheckpointVersion, Checkpoint)>> {
    let Some((version, key, _)) = find_nearest_version(db, id, turn)? else {
        return Ok(None);
    };
    Ok(Some((version, load_content(db, key)?)))
}

/// Returns the newest version on the nearest turn that has one: `turn` itself or an ancestor.
fn find_nearest_version(db: &Db, id: &SessionId, turn: TurnId) -> OpResult<Option<StoredVersion>> {
    // SQLite computes the chain turn by turn as rows are fetched. Most sessions have no checkpoint at all.
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {FORK_ANCESTRY_SQL}, chain (id, parent_id) AS (
             SELECT id, parent_id FROM turns WHERE id = ?2
             UNION ALL SELECT t.id, t.parent_id FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT {VERSION_COLUMNS} FROM chain h CROSS JOIN checkpoints c ON c.id =
             (SELECT max(v.id) FROM checkpoints v WHERE v.turn_id = h.id AND {VALID_VERSION_SQL}) LIMIT 1"
    ))?;
    Ok(statement
        .query_row(params![id.as_str(), db.turn_row(turn)], |row| {
            read_version(db, row)
        })
        .optional()?)
}

/// Returns all versions of a session, including those that it shares with the session that it was forked from.
pub(crate) fn list_checkpoints(db: &Db, id: &SessionId) -> OpResult<Vec<CheckpointVersion>> {
    Ok(list_stored_versions(db, id)?
        .into_iter()
        .map(|(version, ..)| version)
        .collect())
}

fn list_stored_versions(db: &Db, id: &SessionId) -> OpResult<Vec<StoredVersion>> {
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {FORK_ANCESTRY_SQL}, chain (id, parent_id) AS (
             SELECT t.id, t.parent_id FROM sessions s JOIN turns t ON t.id = s.head_id WHERE s.id = ?1
             UNION ALL SELECT t.id, t.parent_id FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT {VERSION_COLUMNS} FROM checkpoints v JOIN checkpoints c ON c.id = v.id
         WHERE v.session_id = ?1 OR v.turn_id IN (SELECT id FROM chain) AND {VALID_VERSION_SQL} ORDER BY c.n, c.id"
    ))?;
    let versions = statement.query_map([id.as_str()], |row| read_version(db, row))?;
    Ok(versions.collect::<Result<_, _>>()?)
}

/// Returns the highest number of any version, including versions off the path to the current head.
fn last_version_number(db: &Db, id: &SessionId) -> OpResult<u32> {
    let numbers = list_stored_versions(db, id)?
        .into_iter()
        .map(|(version, ..)| version.n);
    let mut statement = db.prepare_cached(&format!(
        "WITH RECURSIVE {FORK_ANCESTRY_SQL}
         SELECT coalesce(max(v.n), 0) FROM kin m CROSS JOIN checkpoints v ON v.session_id = m.id WHERE v.at <= m.until"
    ))?;
    let ancestry_max: u32 = statement.query_row([id.as_str()], |row| row.get(0))?;
    Ok(numbers.max().unwrap_or(0).max(ancestry_max))
}

/// Returns version `n` of a session with its content. `None` if it does not exist.
pub(crate) fn find_checkpoint(
    db: &Db,
    id: &SessionId,
    n: u32,
) -> OpResult<Option<(CheckpointVersion, Checkpoint)>> {
    let stored = list_stored_versions(db, id)?
        .into_iter()
        .find(|(version, ..)| version.n == n);
    let Some((version, key, _)) = stored else {
        return Ok(None);
    };
    Ok(Some((version, load_content(db, key)?)))
}

/// Returns the content of a version. Applies all deltas from the last complete version up to it.
fn load_content(db: &Db, key: i64) -> OpResult<Checkpoint> {
    let mut statement = db.prepare_cached(
        "WITH RECURSIVE changes (id, base, delta) AS (
             SELECT id, base, delta FROM checkpoints WHERE id = ?1
             UNION ALL SELECT c.id, c.base, c.delta FROM changes d JOIN checkpoints c ON c.id = d.base
         )
         SELECT delta FROM changes ORDER BY id",
    )?;
    let deltas = statement.query_map([key], |row| row.get::<_, String>(0))?;
    let mut checkpoint = Checkpoint::default();
    for delta in deltas {
        checkpoint = apply_encoded_delta(&checkpoint, &delta?)
            .map_err(|error| OpError::from(rows::conversion_error(0, error)))?;
    }
    Ok(checkpoint)
}
