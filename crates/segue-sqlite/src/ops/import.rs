//! Import: a session of another program becomes a session of segue, with all its turns.

use rusqlite::{Connection, OptionalExtension, Row, params};
use segue_core::agent::ProcessMark;
use segue_core::checkpoint::{Author, Occasion};
use segue_core::id::{SessionId, TurnId};
use segue_core::json::Json;
use segue_core::session::{Message, Role, Session};
use segue_store::{
    AdoptedTurn, Finish, Imported, ImportedCheckpoint, Lease, NewSession, NewVersion, Origin,
    Retag, StoreError,
};

use super::{Outcome, checkpoints, decisions, lease, sessions, tags, turns};
use crate::rows::{self, micros};

pub(crate) fn import(
    db: &Connection,
    new: &NewSession,
    owner: &ProcessMark,
    imported: &Imported,
) -> Outcome<Session> {
    let origin = &imported.origin;
    let named = named(db, &new.project.key, &origin.name)?;
    let mut unknown = named.into_iter().filter(|id| !imported.beside.contains(id));
    if let Some(there) = unknown.next() {
        return Err(StoreError::Fits(there).into());
    }
    let held = sessions::create_claimed(db, new, owner)?;
    db.prepare_cached(
        "INSERT INTO origins (session_id, name, format, kept, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        new.id.as_str(),
        origin.name,
        origin.format,
        origin.kept.as_str(),
        micros(origin.at)
    ])?;
    let mut written = Vec::with_capacity(imported.turns.len());
    for turn in &imported.turns {
        written.push(write(db, &held, turn)?);
    }
    if let Some(checkpoint) = &imported.checkpoint {
        hang(db, &held, checkpoint, &written)?;
    }
    let tags = Retag {
        add: imported.tags.clone(),
        remove: Vec::new(),
    };
    tags::change(db, &new.id, &tags)?;
    decisions::note(db, &held, &imported.noted, origin.at)?;
    lease::release(db, &held)?;
    db.prepare_cached("UPDATE sessions SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![new.id.as_str(), micros(imported.updated_at)])?;
    sessions::existing(db, &new.id)
}

/// Returns the sessions of a project that were imported under this name.
fn named(db: &Connection, project: &str, name: &str) -> Outcome<Vec<SessionId>> {
    let mut statement = db.prepare_cached(
        "SELECT o.session_id FROM origins o JOIN sessions s ON s.id = o.session_id
             JOIN projects p ON p.id = s.project_id
         WHERE o.name = ?1 AND p.key = ?2 ORDER BY o.session_id",
    )?;
    let found = statement.query_map([name, project], |row| rows::parsed::<SessionId>(row, 0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Writes a turn without an attempt, because no agent of segue took part in it.
fn write(db: &Connection, held: &Lease, turn: &AdoptedTurn) -> Outcome<TurnId> {
    let empty = Message::text(Role::User, "", turn.started_at);
    let first = turn.messages.first().unwrap_or(&empty);
    let id = turns::begin(db, held, first)?.id;
    let finish = Finish {
        state: turn.state,
        messages: (1..).zip(turn.messages.iter().skip(1).cloned()).collect(),
        usage: turn.usage,
        failure: None,
        at: turn.ended_at,
    };
    turns::finish(db, held, id, &finish)?;
    Ok(id)
}

fn hang(
    db: &Connection,
    held: &Lease,
    imported: &ImportedCheckpoint,
    written: &[TurnId],
) -> Outcome<()> {
    let at = usize::try_from(imported.turn).ok();
    let turn = at.and_then(|n| written.get(n.checked_sub(1)?));
    let Some(&turn) = turn else {
        return Err(StoreError::NoTurn(held.session.clone()).into());
    };
    let new = NewVersion {
        turn,
        covers: imported.covers,
        checkpoint: imported.checkpoint.clone(),
        tokens: imported.tokens,
        replaced: imported.replaced,
        by: Author::Summary,
        why: Occasion::Imported,
        read: 0,
        at: imported.at,
    };
    checkpoints::add(db, held, &new, None)?;
    Ok(())
}

pub(crate) fn origin(db: &Connection, id: &SessionId) -> Outcome<Option<Origin>> {
    let read = |row: &Row<'_>| {
        let kept: String = row.get(2)?;
        Ok(Origin {
            name: row.get(0)?,
            format: row.get(1)?,
            kept: Json::parse(kept).unwrap_or_else(|_| Json::empty_object()),
            at: rows::time(row, 3)?,
        })
    };
    let found = db
        .prepare_cached("SELECT name, format, kept, at FROM origins WHERE session_id = ?1")?
        .query_row([id.as_str()], read)
        .optional()?;
    Ok(found)
}
