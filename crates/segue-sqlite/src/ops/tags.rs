//! Tags of sessions.

use rusqlite::{Connection, params};
use segue_core::id::SessionId;
use segue_core::session::{Session, Tag};
use segue_store::{Retag, TagCount};

use super::{Outcome, sessions};
use crate::rows;

pub(crate) fn change(db: &Connection, id: &SessionId, retag: &Retag) -> Outcome<Session> {
    sessions::existing(db, id)?;
    let mut remove = db.prepare_cached("DELETE FROM tags WHERE session_id = ?1 AND name = ?2")?;
    for tag in &retag.remove {
        remove.execute(params![id.as_str(), tag.as_str()])?;
    }
    let mut add = db.prepare_cached(
        "INSERT INTO tags (session_id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?;
    for tag in &retag.add {
        add.execute(params![id.as_str(), tag.as_str()])?;
    }
    sessions::existing(db, id)
}

/// Copies the tags of one session to another.
pub(crate) fn copy(db: &Connection, from: &SessionId, to: &SessionId) -> Outcome<()> {
    db.prepare_cached(
        "INSERT INTO tags (session_id, name) SELECT ?2, name FROM tags WHERE session_id = ?1",
    )?
    .execute([from.as_str(), to.as_str()])?;
    Ok(())
}

pub(crate) fn all(db: &Connection) -> Outcome<Vec<TagCount>> {
    let mut statement =
        db.prepare_cached("SELECT name, count(*) FROM tags GROUP BY name ORDER BY name")?;
    let counted = statement.query_map([], |row| {
        Ok(TagCount {
            tag: rows::parsed::<Tag>(row, 0)?,
            sessions: row.get(1)?,
        })
    })?;
    Ok(counted.collect::<Result<_, _>>()?)
}
