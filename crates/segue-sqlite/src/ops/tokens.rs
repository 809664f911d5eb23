//! Tokens: the newest messages that fill a budget, and pairs of estimated and reported counts for the calibration.

use rusqlite::{Connection, params};
use segue_core::brief::least_tokens;
use segue_core::id::{ProviderId, TurnId};
use segue_core::session::TurnState;
use segue_store::{Lease, Measured, Said, TokenCount};

use super::{Outcome, lease, turns};
use crate::rows;

/// Maximum number of attempts, of all providers, that are searched for those of one provider.
const LOOKED_AT: u32 = 500;

/// Limit at which reading backwards ends.
#[derive(Clone, Copy)]
enum Until {
    /// A brief of this number of tokens is full.
    Full(u64),
    /// The turn with this number is reached; it is not included.
    Turn(u32),
}

pub(crate) fn recent(db: &Connection, head: TurnId, tokens: u64) -> Outcome<Vec<Said>> {
    back(db, head, Until::Full(tokens))
}

pub(crate) fn since(db: &Connection, head: TurnId, n: u32) -> Outcome<Vec<Said>> {
    back(db, head, Until::Turn(n))
}

fn back(db: &Connection, head: TurnId, until: Until) -> Outcome<Vec<Said>> {
    // SQLite computes the chain turn by turn as rows are fetched, so no turn beyond the limit is read.
    let mut statement = db.prepare_cached(
        "WITH RECURSIVE chain (id, n, parent_id, state) AS (
             SELECT id, n, parent_id, state FROM turns WHERE id = ?1
             UNION ALL SELECT t.id, t.n, t.parent_id, t.state FROM chain c CROSS JOIN turns t ON t.id = c.parent_id
         )
         SELECT c.id, c.n, c.state, m.seq, m.role, m.complete, m.payload, m.at, m.tokens
         FROM chain c CROSS JOIN messages m ON m.turn_id = c.id",
    )?;
    let mut found = statement.query([head.0])?;
    let (mut said, mut needed): (Vec<Said>, u64) = (Vec::new(), 0);
    let mut numbers: Vec<u32> = Vec::new();
    let mut running = false;
    while let Some(row) = found.next()? {
        let turn = TurnId(row.get(0)?);
        if said.last().is_none_or(|last| last.turn != turn) {
            let n: u32 = row.get(1)?;
            let enough = match until {
                Until::Full(tokens) => needed >= tokens && !said.is_empty(),
                Until::Turn(last) => n <= last,
            };
            if enough {
                break;
            }
            sort(said.last_mut(), &mut numbers);
            let state = rows::named(row, 2, TurnState::from_name)?;
            running |= state == TurnState::Running;
            said.push(Said {
                turn,
                n,
                state,
                messages: Vec::new(),
            });
        }
        let message = rows::message(row, 4)?;
        if let Until::Full(tokens) = until {
            needed = needed.saturating_add(least_tokens(&message, tokens));
        }
        if let Some(last) = said.last_mut() {
            last.messages.push(message);
            numbers.push(row.get(3)?);
        }
    }
    sort(said.last_mut(), &mut numbers);
    // Only the newest turn can be running. Its unfinished messages are drafts, which this query does not read.
    if let (true, Some(newest)) = (running, said.first_mut()) {
        newest.messages = turns::messages(db, newest.turn)?;
    }
    Ok(said)
}

/// Sorts the messages of a turn by their numbers. In most cases the index has already returned them in this order.
fn sort(said: Option<&mut Said>, numbers: &mut Vec<u32>) {
    if let (Some(said), false) = (said, numbers.is_sorted()) {
        let messages = std::mem::take(&mut said.messages);
        let mut numbered: Vec<_> = numbers.iter().copied().zip(messages).collect();
        numbered.sort_by_key(|(number, _)| *number);
        said.messages = numbered.into_iter().map(|(_, message)| message).collect();
    }
    numbers.clear();
}

pub(crate) fn fill(db: &Connection, counts: &[TokenCount]) -> Outcome<()> {
    let mut statement = db.prepare_cached(
        "UPDATE messages SET tokens = ?3 WHERE turn_id = ?1 AND seq = ?2 AND tokens IS NULL
         AND EXISTS (SELECT 1 FROM turns WHERE id = ?1 AND state <> 'running')",
    )?;
    for count in counts {
        statement.execute(params![count.turn.0, count.seq, count.tokens])?;
    }
    Ok(())
}

pub(crate) fn note_estimate(
    db: &Connection,
    held: &Lease,
    turn: TurnId,
    added: Option<u64>,
) -> Outcome<()> {
    lease::check(db, held)?;
    // If either count is NULL, SQLite's sum is NULL: the result is unknown.
    db.prepare_cached(
        "UPDATE legs SET held_tokens = held_tokens + ?3
         WHERE session_id = ?2
           AND id = (SELECT leg_id FROM attempts WHERE turn_id = ?1 ORDER BY n DESC LIMIT 1)",
    )?
    .execute(params![turn.0, held.session.as_str(), added])?;
    db.prepare_cached(
        "UPDATE attempts SET estimated_tokens = (SELECT held_tokens FROM legs WHERE id = leg_id)
         WHERE turn_id = ?1 AND n = (SELECT max(n) FROM attempts WHERE turn_id = ?1)",
    )?
    .execute([turn.0])?;
    Ok(())
}

pub(crate) fn measured(
    db: &Connection,
    provider: &ProviderId,
    limit: u32,
) -> Outcome<Vec<Measured>> {
    let mut statement = db.prepare_cached(
        "SELECT a.estimated_tokens, t.context_tokens, t.context_window
         FROM (SELECT turn_id, leg_id, estimated_tokens FROM attempts
               WHERE estimated_tokens IS NOT NULL AND state = 'finished' ORDER BY turn_id DESC LIMIT ?2) a
         CROSS JOIN turns t ON t.id = a.turn_id
         CROSS JOIN legs l ON l.id = a.leg_id
         WHERE t.context_tokens IS NOT NULL AND l.provider = ?1
         LIMIT ?3",
    )?;
    let found = statement.query_map(params![provider.as_str(), LOOKED_AT, limit], |row| {
        Ok(Measured {
            estimate: row.get(0)?,
            context_tokens: row.get(1)?,
            context_window: row.get(2)?,
        })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
