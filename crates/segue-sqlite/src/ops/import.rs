//! Import: a session of another program becomes a session of segue, with all its turns.

use rusqlite::{OptionalExtension, Row, params};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{SessionId, TurnId};
use segue_core::json::Json;
use segue_core::session::Session;
use segue_store::{
    AdoptedTurn, ImportedCheckpoint, ImportedSession, Lease, NewSession, SessionOrigin, StoreError,
    TagChange,
};

use super::{OpResult, checkpoints, decisions, lease, sessions, tags, turns};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn import_session(
    db: &Db,
    new: &NewSession,
    owner: &ProcessIdentity,
    imported: &ImportedSession,
) -> OpResult<Session> {
    let origin = &imported.origin;
    let same_name = list_imported_under_name(db, &new.project.key, &origin.name)?;
    if let Some(existing) = imported.find_conflict(&same_name) {
        return Err(StoreError::PurposeTaken(existing).into());
    }
    let lease = sessions::create_leased_session(db, new, owner)?;
    db.prepare_cached(
        "INSERT INTO origins (session_id, name, format, kept, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        new.id.as_str(),
        origin.name,
        origin.format,
        origin.extra_fields.as_str(),
        to_micros(origin.at)
    ])?;
    let mut turn_ids = Vec::with_capacity(imported.turns.len());
    for turn in &imported.turns {
        turn_ids.push(write_imported_turn(db, &lease, turn)?);
    }
    if let Some(checkpoint) = &imported.checkpoint {
        attach_checkpoint(db, &lease, checkpoint, &turn_ids)?;
    }
    let tag_change = TagChange {
        add: imported.tags.clone(),
        remove: Vec::new(),
    };
    tags::change_tags(db, &new.id, &tag_change)?;
    decisions::log_decision(db, &lease, &imported.decision, origin.at)?;
    lease::release_lease(db, &lease)?;
    db.prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![new.id.as_str(), to_micros(imported.updated_at)])?;
    sessions::load_session(db, &new.id)
}

/// Returns the sessions of a project that were imported under this name.
fn list_imported_under_name(db: &Db, project: &str, name: &str) -> OpResult<Vec<SessionId>> {
    let mut statement = db.prepare_cached(
        "SELECT o.session_id FROM origins o JOIN sessions s ON s.id = o.session_id
             JOIN projects p ON p.id = s.project_id
         WHERE o.name = ?1 AND p.key = ?2 ORDER BY o.session_id",
    )?;
    let ids = statement.query_map([name, project], |row| {
        rows::read_parsed::<SessionId>(row, 0)
    })?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Writes a turn without an attempt, because no agent of segue took part in it.
fn write_imported_turn(db: &Db, lease: &Lease, turn: &AdoptedTurn) -> OpResult<TurnId> {
    let id = turns::begin_turn(db, lease, &turn.prompt())?.id;
    turns::finish_turn(db, lease, id, &turn.ending())?;
    Ok(id)
}

fn attach_checkpoint(
    db: &Db,
    lease: &Lease,
    imported: &ImportedCheckpoint,
    turn_ids: &[TurnId],
) -> OpResult<()> {
    let Some(new) = imported.to_new(turn_ids) else {
        return Err(StoreError::NoTurn(lease.session.clone()).into());
    };
    checkpoints::add_checkpoint(db, lease, &new)?;
    Ok(())
}

pub(crate) fn find_origin(db: &Db, id: &SessionId) -> OpResult<Option<SessionOrigin>> {
    let read_origin = |row: &Row<'_>| {
        let extra_fields: String = row.get(2)?;
        Ok(SessionOrigin {
            name: row.get(0)?,
            format: row.get(1)?,
            extra_fields: Json::parse(extra_fields).unwrap_or_else(|_| Json::empty_object()),
            at: rows::read_time(row, 3)?,
        })
    };
    let origin = db
        .prepare_cached("SELECT name, format, kept, at FROM origins WHERE session_id = ?1")?
        .query_row([id.as_str()], read_origin)
        .optional()?;
    Ok(origin)
}
