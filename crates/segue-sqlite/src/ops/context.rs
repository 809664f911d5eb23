//! Stored project context of a session: the information about the project that an agent with a role receives.

use rusqlite::{OptionalExtension, params};
use segue_core::brief::{CachedContext, decode_context, encode_context};
use segue_core::id::SessionId;

use super::{OpResult, sessions};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn save_context(db: &Db, id: &SessionId, cached: &CachedContext) -> OpResult<()> {
    sessions::load_session(db, id)?;
    db.prepare_cached(
        "INSERT INTO contexts (session_id, content, tokens, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET content = excluded.content, tokens = excluded.tokens, at = excluded.at",
    )?
    .execute(params![
        id.as_str(),
        encode_context(&cached.context, &cached.sources),
        cached.tokens,
        to_micros(cached.at)
    ])?;
    Ok(())
}

/// Returns the stored project context. `None` if the session has none, or if it cannot be decoded, because the engine
/// can gather it again.
pub(crate) fn find_context(db: &Db, id: &SessionId) -> OpResult<Option<CachedContext>> {
    let mut statement =
        db.prepare_cached("SELECT content, tokens, at FROM contexts WHERE session_id = ?1")?;
    let stored = statement.query_row([id.as_str()], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get(1)?,
            rows::read_time(row, 2)?,
        ))
    });
    let Some((content, tokens, at)) = stored.optional()? else {
        return Ok(None);
    };
    let decoded = decode_context(&content).ok();
    Ok(decoded.map(|(context, sources)| CachedContext {
        context,
        sources,
        tokens,
        at,
    }))
}
