//! Tokens: the newest messages that fill a budget, and pairs of estimated and reported counts for the calibration.

use rusqlite::params;
use segue_core::id::{ProviderId, TurnId};
use segue_core::session::TurnState;
use segue_store::{
    ContextMeasurement, Lease, ReadLimit, RecentTurns, StoredTurn, TokenCount, TurnTokens,
};

use super::{OpResult, turns};
use crate::connection::Db;
use crate::rows;

/// Maximum number of attempts, of all providers, that are searched for those of one provider.
const MAX_SCANNED_ATTEMPTS: u32 = 500;

pub(crate) fn read_recent_turns(
    db: &Db,
    head: TurnId,
    token_budget: u64,
) -> OpResult<Vec<StoredTurn>> {
    read_backwards(db, head, ReadLimit::BriefTokens(token_budget))
}

pub(crate) fn read_turns_after(db: &Db, head: TurnId, n: u32) -> OpResult<Vec<StoredTurn>> {
    read_backwards(db, head, ReadLimit::AfterTurn(n))
}

fn read_backwards(db: &Db, head: TurnId, limit: ReadLimit) -> OpResult<Vec<StoredTurn>> {
    // SQLite computes the chain turn by turn as rows are fetched, so no turn beyond the limit is read.
    let mut statement = db.prepare_cached(
        "WITH RECURSIVE chain (id, n, parent_id, state) AS (
             SELECT id, n, parent_id, state FROM turns WHERE id = ?1
             UNION ALL SELECT t.id, t.n, t.parent_id, t.state FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT c.id, c.n, c.state, m.seq, m.role, m.complete, m.payload, m.at, m.tokens
         FROM chain c CROSS JOIN messages m ON m.turn_id = c.id",
    )?;
    let mut result_rows = statement.query([db.turn_row(head)])?;
    let mut recent = RecentTurns::new(limit);
    while let Some(row) = result_rows.next()? {
        let state = rows::read_enum(row, 2, TurnState::from_name)?;
        if !recent.begin_turn(db.turn_id(row.get(0)?), row.get(1)?, state) {
            break;
        }
        recent.add_message(row.get(3)?, rows::read_message(row, 4)?);
    }
    let mut turns = recent.finish();
    // Only the newest turn can be running. Its unfinished messages are drafts, which this query does not read.
    if let Some(newest) = turns.first_mut()
        && newest.state == TurnState::Running
    {
        newest.messages = turns::list_messages(db, newest.turn)?;
    }
    Ok(turns)
}

pub(crate) fn fill_token_counts(db: &Db, counts: &[TokenCount]) -> OpResult<()> {
    let mut statement = db.prepare_cached(
        "UPDATE messages SET tokens = ?3 WHERE turn_id = ?1 AND seq = ?2 AND tokens IS NULL
         AND EXISTS (SELECT 1 FROM turns WHERE id = ?1 AND state <> 'running')",
    )?;
    for count in counts {
        statement.execute(params![db.turn_row(count.turn), count.seq, count.tokens])?;
    }
    Ok(())
}

/// Records the tokens of a turn that has ended.
pub(crate) fn record_turn_tokens(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    tokens: TurnTokens,
) -> OpResult<()> {
    if let Some(tokens) = tokens.prompt {
        fill_token_counts(
            db,
            &[TokenCount {
                turn,
                seq: 0,
                tokens,
            }],
        )?;
    }
    // If either count is NULL, SQLite's sum is NULL: the result is unknown.
    db.prepare_cached(
        "UPDATE legs SET held_tokens = held_tokens + ?3
         WHERE session_id = ?2
           AND id = (SELECT leg_id FROM attempts WHERE turn_id = ?1 ORDER BY n DESC LIMIT 1)",
    )?
    .execute(params![
        db.turn_row(turn),
        lease.session.as_str(),
        tokens.added
    ])?;
    db.prepare_cached(
        "UPDATE attempts SET estimated_tokens = (SELECT held_tokens FROM legs WHERE id = leg_id)
         WHERE turn_id = ?1 AND n = (SELECT max(n) FROM attempts WHERE turn_id = ?1)",
    )?
    .execute([db.turn_row(turn)])?;
    Ok(())
}

pub(crate) fn list_context_measurements(
    db: &Db,
    provider: &ProviderId,
    limit: u32,
) -> OpResult<Vec<ContextMeasurement>> {
    let mut statement = db.prepare_cached(
        "SELECT a.estimated_tokens, t.context_tokens, t.context_window
         FROM (SELECT turn_id, leg_id, estimated_tokens FROM attempts
               WHERE estimated_tokens IS NOT NULL AND state = 'finished' ORDER BY turn_id DESC LIMIT ?2) a
         CROSS JOIN turns t ON t.id = a.turn_id
         CROSS JOIN legs l ON l.id = a.leg_id
         WHERE t.context_tokens IS NOT NULL AND l.provider = ?1
         LIMIT ?3",
    )?;
    let measurements = statement.query_map(
        params![provider.as_str(), MAX_SCANNED_ATTEMPTS, limit],
        |row| {
            Ok(ContextMeasurement {
                estimated_tokens: row.get(0)?,
                context_tokens: row.get(1)?,
                context_window: row.get(2)?,
            })
        },
    )?;
    Ok(measurements.collect::<Result<_, _>>()?)
}
