//! The change feed.

use rusqlite::{Row, params};
use segue_core::id::SessionId;
use segue_store::{Change, ChangeKind, ChangeRecord, FeedCursor, StoreError};

use super::OpResult;
use crate::connection::Db;
use crate::rows::{self, to_micros};

/// Records a change in the transaction that makes it. SQLite admits one writer at a time, so the order of the rows is
/// that of the commits, and a transaction that is rolled back leaves no gap.
pub(crate) fn record_change(db: &Db, session: &SessionId, kind: ChangeKind) -> OpResult<()> {
    let record = kind.to_record(db.ids());
    db.prepare_cached(
        "INSERT INTO changes (session_id, kind, object, n, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        session.as_str(),
        record.code,
        record.row,
        record.number,
        to_micros(db.now()?)
    ])?;
    Ok(())
}

pub(crate) fn list_changes(db: &Db, after: FeedCursor, limit: u32) -> OpResult<Vec<Change>> {
    let end = last_sequence(db)?;
    // A cursor after the end belongs to a copy of this store that went on without it.
    let sequence = after.sequence(db.ids()).filter(|sequence| *sequence <= end);
    let sequence = sequence.ok_or(StoreError::UnknownCursor(after))?;
    let mut statement = db.prepare_cached(
        "SELECT seq, session_id, kind, object, n, at FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    )?;
    let changes = statement.query_map(params![sequence, limit], |row| read_change(db, row))?;
    Ok(changes.collect::<Result<_, _>>()?)
}

pub(crate) fn find_feed_end(db: &Db) -> OpResult<FeedCursor> {
    Ok(FeedCursor::after_change(last_sequence(db)?, db.ids()))
}

fn last_sequence(db: &Db) -> Result<u64, rusqlite::Error> {
    db.prepare_cached("SELECT coalesce(max(seq), 0) FROM changes")?
        .query_row([], |row| row.get(0))
}

fn read_change(db: &Db, row: &Row<'_>) -> Result<Change, rusqlite::Error> {
    let sequence = row.get(0)?;
    let record = ChangeRecord {
        code: row.get(2)?,
        row: row.get(3)?,
        number: row.get(4)?,
    };
    let kind = ChangeKind::from_record(record, db.ids());
    Ok(Change {
        sequence,
        cursor: FeedCursor::after_change(sequence, db.ids()),
        at: rows::read_time(row, 5)?,
        session: rows::read_parsed(row, 1)?,
        kind: kind.ok_or_else(|| rows::conversion_error(2, "unknown kind of change"))?,
    })
}
