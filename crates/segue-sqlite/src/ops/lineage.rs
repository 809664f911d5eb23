//! Lineage of a session: the moves of its head, and its forks.

use rusqlite::params;
use segue_core::id::{SessionId, TurnId};
use segue_core::session::{ForkSummary, HeadMove, HeadMoveKind, Lineage};
use segue_store::StoreError;

use super::OpResult;
use crate::connection::Db;
use crate::rows;

pub(crate) fn load_lineage(db: &Db, id: &SessionId) -> OpResult<Lineage> {
    Ok(Lineage {
        forks: list_forks(db, id)?,
        moves: list_head_moves(db, id)?,
    })
}

fn list_forks(db: &Db, id: &SessionId) -> OpResult<Vec<ForkSummary>> {
    let mut statement = db.prepare_cached(
        "SELECT id, title, forked_at, created_at FROM sessions WHERE forked_from = ?1
         ORDER BY created_at, id",
    )?;
    let forks = statement.query_map([id.as_str()], |row| {
        Ok(ForkSummary {
            id: rows::read_parsed(row, 0)?,
            title: row.get(1)?,
            turn: row.get(2)?,
            at: rows::read_time(row, 3)?,
        })
    })?;
    Ok(forks.collect::<Result<_, _>>()?)
}

fn list_head_moves(db: &Db, id: &SessionId) -> OpResult<Vec<HeadMove>> {
    let mut statement = db.prepare_cached(
        "SELECT m.n, m.kind, f.n, t.n, m.undone, m.at FROM head_moves m
         JOIN turns f ON f.id = m.from_id JOIN turns t ON t.id = m.to_id
         WHERE m.session_id = ?1 ORDER BY m.n",
    )?;
    let moves = statement.query_map([id.as_str()], |row| {
        Ok(HeadMove {
            number: row.get(0)?,
            kind: rows::read_enum(row, 1, HeadMoveKind::from_name)?,
            from: row.get(2)?,
            to: row.get(3)?,
            undone: row.get(4)?,
            at: rows::read_time(row, 5)?,
        })
    })?;
    Ok(moves.collect::<Result<_, _>>()?)
}

/// Returns the head before head move `number`. [`StoreError::NoTurn`] if the session has no such move.
pub(crate) fn head_before_move(db: &Db, id: &SessionId, n: u32) -> OpResult<TurnId> {
    let mut statement =
        db.prepare_cached("SELECT from_id FROM head_moves WHERE session_id = ?1 AND n = ?2")?;
    let mut heads = statement.query_map(params![id.as_str(), n], |row| row.get(0))?;
    let turn = heads.next().transpose()?;
    let turn = turn.ok_or_else(|| StoreError::NoTurn(id.clone()))?;
    Ok(db.turn_id(turn))
}
