//! Health of providers in a session, and cooldowns of providers in all sessions.

use rusqlite::params;
use segue_core::id::{ProviderId, SessionId};
use segue_core::policy::{Cooldown, ProviderHealth};
use segue_core::session::{FailureClass, ProviderRecords};
use segue_store::Lease;

use super::{OpResult, lease};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn load_provider_records(db: &Db, id: &SessionId) -> OpResult<ProviderRecords> {
    let mut statement = db.prepare_cached(
        "SELECT failures, limited, rotations, retry_at, provider FROM standings WHERE session_id = ?1 ORDER BY provider",
    )?;
    let health = statement.query_map([id.as_str()], |row| {
        let health = ProviderHealth {
            failures: row.get(0)?,
            rate_limit_failures: row.get(1)?,
            failed_legs: row.get(2)?,
            retry_at: rows::read_optional_time(row, 3)?,
        };
        Ok((rows::read_parsed::<ProviderId>(row, 4)?, health))
    })?;
    Ok(ProviderRecords {
        health: health.collect::<Result<_, _>>()?,
        cooldowns: list_cooldowns(db)?,
    })
}

pub(crate) fn set_provider_health(
    db: &Db,
    lease: &Lease,
    provider: &ProviderId,
    health: &ProviderHealth,
) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let (id, provider) = (lease.session.as_str(), provider.as_str());
    if health.is_clean() {
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
        health.failures,
        health.rate_limit_failures,
        health.failed_legs,
        health.retry_at.map(to_micros)
    ])?;
    Ok(())
}

pub(crate) fn set_cooldown(db: &Db, cooldown: &Cooldown) -> OpResult<()> {
    db.prepare_cached(
        "INSERT INTO rests (provider, until, class) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET until = excluded.until, class = excluded.class",
    )?
    .execute(params![
        cooldown.provider.as_str(),
        to_micros(cooldown.until),
        cooldown.class.as_str()
    ])?;
    Ok(())
}

pub(crate) fn clear_cooldown(db: &Db, provider: &ProviderId) -> OpResult<()> {
    db.prepare_cached("DELETE FROM rests WHERE provider = ?1")?
        .execute([provider.as_str()])?;
    Ok(())
}

pub(crate) fn list_cooldowns(db: &Db) -> OpResult<Vec<Cooldown>> {
    let mut statement =
        db.prepare_cached("SELECT provider, until, class FROM rests ORDER BY provider")?;
    let cooldowns = statement.query_map([], |row| {
        Ok(Cooldown {
            provider: rows::read_parsed(row, 0)?,
            until: rows::read_time(row, 1)?,
            class: rows::read_enum(row, 2, FailureClass::from_name)?,
        })
    })?;
    Ok(cooldowns.collect::<Result<_, _>>()?)
}
