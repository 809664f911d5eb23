//! Tags of sessions.

use rusqlite::params;
use segue_core::id::SessionId;
use segue_core::session::{Session, Tag};
use segue_store::{ChangeKind, TagChange, TagCount};

use super::{OpResult, feed, sessions};
use crate::connection::Db;
use crate::rows;

pub(crate) fn change_tags(db: &Db, id: &SessionId, change: &TagChange) -> OpResult<Session> {
    sessions::load_session(db, id)?;
    let mut remove = db.prepare_cached("DELETE FROM tags WHERE session_id = ?1 AND name = ?2")?;
    let mut changed_rows = 0;
    for tag in &change.remove {
        changed_rows += remove.execute(params![id.as_str(), tag.as_str()])?;
    }
    let mut add = db.prepare_cached(
        "INSERT INTO tags (session_id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?;
    for tag in &change.add {
        changed_rows += add.execute(params![id.as_str(), tag.as_str()])?;
    }
    if changed_rows > 0 {
        feed::record_change(db, id, ChangeKind::SessionChanged)?;
    }
    sessions::load_session(db, id)
}

/// Copies the tags of one session to another.
pub(crate) fn copy_tags(db: &Db, from: &SessionId, to: &SessionId) -> OpResult<()> {
    db.prepare_cached(
        "INSERT INTO tags (session_id, name) SELECT ?2, name FROM tags WHERE session_id = ?1",
    )?
    .execute([from.as_str(), to.as_str()])?;
    Ok(())
}

pub(crate) fn count_tags(db: &Db) -> OpResult<Vec<TagCount>> {
    let mut statement =
        db.prepare_cached("SELECT name, count(*) FROM tags GROUP BY name ORDER BY name")?;
    let counts = statement.query_map([], |row| {
        Ok(TagCount {
            tag: rows::read_parsed::<Tag>(row, 0)?,
            sessions: row.get(1)?,
        })
    })?;
    Ok(counts.collect::<Result<_, _>>()?)
}
