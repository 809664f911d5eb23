//! Health of providers in a session, and cooldowns of providers in all sessions.

use rusqlite::{Connection, OptionalExtension, params};
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{Rest, Standing};
use segue_core::session::FailureClass;
use segue_store::Lease;

use super::{Outcome, lease};
use crate::rows::{self, micros};

pub(crate) fn standing(
    db: &Connection,
    id: &SessionId,
    provider: &ProviderId,
) -> Outcome<Standing> {
    let found = db
        .prepare_cached(
            "SELECT failures, limited, rotations, retry_at FROM standings WHERE session_id = ?1 AND provider = ?2",
        )?
        .query_row([id.as_str(), provider.as_str()], |row| {
            Ok(Standing {
                failures: row.get(0)?,
                limited: row.get(1)?,
                rotations: row.get(2)?,
                retry_at: rows::maybe_time(row, 3)?,
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

pub(crate) fn set_standing(
    db: &Connection,
    held: &Lease,
    provider: &ProviderId,
    standing: &Standing,
) -> Outcome<()> {
    lease::check(db, held)?;
    let (id, provider) = (held.session.as_str(), provider.as_str());
    if standing.is_clean() {
        db.prepare_cached("DELETE FROM standings WHERE session_id = ?1 AND provider = ?2")?
            .execute([id, provider])?;
        return Ok(());
    }
    db.prepare_cached(
        "INSERT INTO standings (session_id, provider, failures, limited, rotations, retry_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET failures = excluded.failures, limited = excluded.limited,
                                   rotations = excluded.rotations, retry_at = excluded.retry_at",
    )?
    .execute(params![
        id,
        provider,
        standing.failures,
        standing.limited,
        standing.rotations,
        standing.retry_at.map(micros)
    ])?;
    Ok(())
}

pub(crate) fn rest(db: &Connection, rest: &Rest) -> Outcome<()> {
    db.prepare_cached(
        "INSERT INTO rests (provider, until, class) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET until = excluded.until, class = excluded.class",
    )?
    .execute(params![
        rest.provider.as_str(),
        micros(rest.until),
        rest.class.as_str()
    ])?;
    Ok(())
}

pub(crate) fn wake(db: &Connection, provider: &ProviderId) -> Outcome<()> {
    db.prepare_cached("DELETE FROM rests WHERE provider = ?1")?
        .execute([provider.as_str()])?;
    Ok(())
}

pub(crate) fn rests(db: &Connection) -> Outcome<Vec<Rest>> {
    let mut statement =
        db.prepare_cached("SELECT provider, until, class FROM rests ORDER BY provider")?;
    let found = statement.query_map([], |row| {
        Ok(Rest {
            provider: rows::parsed(row, 0)?,
            until: rows::time(row, 1)?,
            class: rows::named(row, 2, FailureClass::from_name)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
