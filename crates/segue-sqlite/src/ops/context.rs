//! Stored project context of a session: the information about the project that an agent with a role receives.

use rusqlite::{Connection, OptionalExtension, params};
use segue_core::brief::{KeptContext, decode_context, encode_context};
use segue_core::id::SessionId;

use super::{Outcome, sessions};
use crate::rows::{self, micros};

pub(crate) fn keep(db: &Connection, id: &SessionId, kept: &KeptContext) -> Outcome<()> {
    sessions::existing(db, id)?;
    db.prepare_cached(
        "INSERT INTO contexts (session_id, content, tokens, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET content = excluded.content, tokens = excluded.tokens, at = excluded.at",
    )?
    .execute(params![
        id.as_str(),
        encode_context(&kept.context, &kept.sources),
        kept.tokens,
        micros(kept.at)
    ])?;
    Ok(())
}

/// Returns the stored project context. `None` if the session has none, or if it cannot be decoded, because the engine
/// can gather it again.
pub(crate) fn kept(db: &Connection, id: &SessionId) -> Outcome<Option<KeptContext>> {
    let mut statement =
        db.prepare_cached("SELECT content, tokens, at FROM contexts WHERE session_id = ?1")?;
    let found = statement.query_row([id.as_str()], |row| {
        Ok((row.get::<_, String>(0)?, row.get(1)?, rows::time(row, 2)?))
    });
    let Some((content, tokens, at)) = found.optional()? else {
        return Ok(None);
    };
    let read = decode_context(&content).ok();
    Ok(read.map(|(context, sources)| KeptContext {
        context,
        sources,
        tokens,
        at,
    }))
}
