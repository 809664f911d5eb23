//! Turns: begin, append, end; their messages and attempts.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, ToSql, params};
use segue_core::encoding;
use segue_core::id::{LegId, SessionId, TurnId};
use segue_core::session::{Attempt, Failure, Message, Turn, TurnState};
use segue_store::{
    ChangeKind, Draft, DraftKind, DraftMessages, Lease, NewTurn, SettleEffects, StoreError,
    TurnEnding, TurnEntry,
};

use super::{OpResult, decisions, feed, lease, legs, provider_health, reconcile, sessions, tokens};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn begin_turn(db: &Db, lease: &Lease, prompt: &Message) -> OpResult<Turn> {
    lease::check_lease(db, lease)?;
    let session = sessions::load_session(db, &lease.session)?;
    if session.head_state == Some(TurnState::Running) {
        return Err(StoreError::TurnRunning(lease.session.clone()).into());
    }
    db.prepare_cached(
        "INSERT INTO turns (session_id, parent_id, n, state, started_at) VALUES (?1, ?2, ?3, 'running', ?4)",
    )?
    .execute(params![
        lease.session.as_str(),
        session.head.map(|turn| db.turn_row(turn)),
        session.turns + 1,
        to_micros(prompt.at)
    ])?;
    let id = db.turn_id(db.last_insert_rowid());
    insert_message(db, id, 0, prompt)?;
    let started = ChangeKind::TurnStarted {
        turn: id,
        number: session.turns + 1,
    };
    feed::record_change(db, &lease.session, started)?;
    db.prepare_cached("UPDATE sessions SET head_id = ?2, turns = ?3, updated_at = max(updated_at, ?4) WHERE id = ?1")?
        .execute(params![
            lease.session.as_str(),
            db.turn_row(id),
            session.turns + 1,
            to_micros(prompt.at)
        ])?;
    load_turn(db, id)
}

pub(crate) fn start_turn(db: &Db, lease: &Lease, new: &NewTurn) -> OpResult<Turn> {
    let at = new.prompt.at;
    let mut turn = begin_turn(db, lease, &new.prompt)?;
    if let Some(leg) = new.leg {
        begin_attempt(db, lease, turn.id, leg, at)?;
        turn.sent = true;
    }
    for decision in &new.decisions {
        decisions::log_decision(db, lease, decision, at)?;
    }
    Ok(turn)
}

fn load_turn(db: &Db, id: TurnId) -> OpResult<Turn> {
    let sql = format!("SELECT {} FROM turns t WHERE t.id = ?1", rows::TURN_COLUMNS);
    Ok(db
        .prepare_cached(&sql)?
        .query_row([db.turn_row(id)], |row| rows::read_turn(db, row))?)
}

/// Cancels a turn that was never sent, and moves the head back to its parent. [`StoreError::NoTurn`] if the turn was
/// sent or is not the head.
pub(crate) fn withdraw_turn(db: &Db, lease: &Lease, turn: TurnId, at: Timestamp) -> OpResult<()> {
    let ending = TurnEnding::empty(TurnState::Cancelled, at);
    end_turn(db, lease, turn, &ending)?;
    let moved = db
        .prepare_cached(
            "UPDATE sessions SET turns = turns - 1, head_id = (SELECT parent_id FROM turns WHERE id = ?2)
             WHERE id = ?1 AND head_id = (SELECT id FROM turns WHERE id = ?2 AND NOT sent)",
        )?
        .execute(params![lease.session.as_str(), db.turn_row(turn)])?;
    if moved == 0 {
        return Err(StoreError::NoTurn(lease.session.clone()).into());
    }
    feed::record_change(db, &lease.session, ChangeKind::TurnWithdrawn { turn })
}

/// Adds a turn that consists of one message. It ends at once, because no agent answers it.
pub(crate) fn add_message(db: &Db, lease: &Lease, message: &Message) -> OpResult<Turn> {
    let turn = begin_turn(db, lease, message)?.id;
    let ending = TurnEnding::empty(TurnState::Finished, message.at);
    finish_turn(db, lease, turn, &ending)?;
    load_turn(db, turn)
}

/// Checks the lease, and that the turn belongs to the session and is running.
fn check_running(db: &Db, lease: &Lease, turn: TurnId) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let running = db
        .prepare_cached(
            "SELECT 1 FROM turns WHERE id = ?1 AND session_id = ?2 AND state = 'running'",
        )?
        .exists(params![db.turn_row(turn), lease.session.as_str()])?;
    if running {
        Ok(())
    } else {
        Err(StoreError::NoTurn(lease.session.clone()).into())
    }
}

pub(crate) fn begin_attempt(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    leg: LegId,
    at: Timestamp,
) -> OpResult<()> {
    check_running(db, lease, turn)?;
    let moved = db
        .prepare_cached(
            "UPDATE legs SET tip_id = ?2 WHERE id = ?1 AND session_id = ?3 AND ended_at IS NULL",
        )?
        .execute(params![
            db.leg_row(leg),
            db.turn_row(turn),
            lease.session.as_str()
        ])?;
    if moved == 0 {
        return Err(StoreError::NoLeg(lease.session.clone()).into());
    }
    db.prepare_cached("UPDATE turns SET sent = 1 WHERE id = ?1")?
        .execute([db.turn_row(turn)])?;
    db.prepare_cached(
        "INSERT INTO attempts (turn_id, n, leg_id, state, started_at)
         VALUES (?1, (SELECT count(*) + 1 FROM attempts WHERE turn_id = ?1), ?2, 'running', ?3)",
    )?
    .execute(params![db.turn_row(turn), db.leg_row(leg), to_micros(at)])?;
    feed::record_change(db, &lease.session, ChangeKind::AttemptBegun { turn })
}

pub(crate) fn append_entry(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    entry: &TurnEntry,
) -> OpResult<()> {
    check_running(db, lease, turn)?;
    match entry {
        TurnEntry::Message { seq, message } => write_message(db, lease, turn, *seq, message),
        TurnEntry::Draft(draft) => write_draft(db, turn, draft),
    }
}

fn write_message(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    seq: u32,
    message: &Message,
) -> OpResult<()> {
    insert_message(db, turn, seq, message)?;
    let saved = ChangeKind::MessageSaved { turn, message: seq };
    feed::record_change(db, &lease.session, saved)
}

fn insert_message(db: &Db, turn: TurnId, seq: u32, message: &Message) -> OpResult<()> {
    db.prepare_cached(
        "INSERT INTO messages (turn_id, seq, role, complete, payload, at, tokens)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT DO UPDATE SET role = excluded.role, complete = excluded.complete,
                                   payload = excluded.payload, at = excluded.at, tokens = excluded.tokens",
    )?
    .execute(params![
        db.turn_row(turn),
        seq,
        message.role.as_str(),
        message.complete,
        encoding::encode_parts(&message.parts),
        to_micros(message.at),
        message.tokens
    ])?;
    db.prepare_cached("DELETE FROM drafts WHERE turn_id = ?1 AND seq = ?2")?
        .execute(params![db.turn_row(turn), seq])?;
    Ok(())
}

fn write_draft(db: &Db, turn: TurnId, draft: &Draft) -> OpResult<()> {
    db.prepare_cached(
        "INSERT INTO drafts (turn_id, seq, n, kind, text, at)
         VALUES (?1, ?2, (SELECT count(*) FROM drafts WHERE turn_id = ?1 AND seq = ?2), ?3, ?4, ?5)",
    )?
    .execute(params![
        db.turn_row(turn),
        draft.seq,
        draft.kind.name(),
        draft.text,
        to_micros(draft.at)
    ])?;
    Ok(())
}

/// Ends a turn, and writes the consequences: the mark of the attempt, the provider's health, the end of a leg.
pub(crate) fn settle_turn(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    ending: &TurnEnding,
    effects: &SettleEffects,
) -> OpResult<()> {
    self::finish_turn(db, lease, turn, ending)?;
    if let Some(mark) = &effects.mark {
        reconcile::set_attempt_mark(db, lease, turn, mark)?;
    }
    if let Some((provider, health)) = &effects.provider_health {
        provider_health::set_provider_health(db, lease, provider, health)?;
    }
    if let Some((leg, reason)) = effects.ended_leg {
        legs::end_leg(db, lease, leg, reason, ending.at)?;
    }
    if let Some(turn_tokens) = effects.tokens {
        tokens::record_turn_tokens(db, lease, turn, turn_tokens)?;
    }
    Ok(())
}

pub(crate) fn finish_turn(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    ending: &TurnEnding,
) -> OpResult<()> {
    end_turn(db, lease, turn, ending)?;
    feed::record_change(db, &lease.session, ChangeKind::TurnEnded { turn })
}

fn end_turn(db: &Db, lease: &Lease, turn: TurnId, ending: &TurnEnding) -> OpResult<()> {
    check_running(db, lease, turn)?;
    for (seq, message) in &ending.messages {
        write_message(db, lease, turn, *seq, message)?;
    }
    let failure = ending.failure.as_ref();
    let at = to_micros(ending.at);
    let usage = &ending.usage;
    db.prepare_cached(
        "UPDATE turns SET state = ?2, input_tokens = ?3, output_tokens = ?4, cached_tokens = ?5, total_tokens = ?6,
             context_tokens = ?7, context_window = ?8, failure_class = ?9, failure_message = ?10,
             failure_hint = ?11, failure_stderr = ?12, ended_at = ?13, failure_retry_at = ?14 WHERE id = ?1",
    )?
    .execute(params![
        db.turn_row(turn),
        ending.state.as_str(),
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.total_tokens,
        usage.context_tokens,
        usage.context_window,
        failure.map(|failure| failure.class.as_str()),
        failure.map(|failure| &failure.message),
        failure.and_then(|failure| failure.hint.as_ref().map(encoding::encode_hint)),
        failure.and_then(|failure| failure.stderr.as_ref()),
        at,
        failure.and_then(|failure| failure.retry_at.map(to_micros))
    ])?;
    settle_attempt(db, turn, ending)?;
    db.prepare_cached(
        "UPDATE sessions SET updated_at = max(updated_at, ?2),
             total_tokens = CASE WHEN ?3 IS NULL THEN total_tokens ELSE coalesce(total_tokens, 0) + ?3 END
         WHERE id = ?1",
    )?
    .execute(params![lease.session.as_str(), at, usage.total_tokens])?;
    Ok(())
}

/// Ends the failed attempt of a running turn, so that another attempt can begin.
pub(crate) fn fail_attempt(
    db: &Db,
    lease: &Lease,
    turn: TurnId,
    failure: &Failure,
    at: Timestamp,
) -> OpResult<()> {
    check_running(db, lease, turn)?;
    let ending = TurnEnding {
        failure: Some(failure.clone()),
        ..TurnEnding::empty(TurnState::Failed, at)
    };
    settle_attempt(db, turn, &ending)?;
    feed::record_change(db, &lease.session, ChangeKind::AttemptFailed { turn })
}

/// Ends the running attempt of a turn, and adds its token usage to the leg. Does nothing if no attempt is running.
fn settle_attempt(db: &Db, turn: TurnId, ending: &TurnEnding) -> OpResult<()> {
    let failure = ending.failure.as_ref();
    let leg: Option<i64> = db
        .prepare_cached(
            "UPDATE attempts SET state = ?2, failure_class = ?3, failure_message = ?4, failure_hint = ?5,
                 failure_stderr = ?6, ended_at = ?7, failure_retry_at = ?8
             WHERE turn_id = ?1 AND state = 'running' RETURNING leg_id",
        )?
        .query_row(
            params![
                db.turn_row(turn),
                ending.state.as_str(),
                failure.map(|failure| failure.class.as_str()),
                failure.map(|failure| &failure.message),
                failure.and_then(|failure| failure.hint.as_ref().map(encoding::encode_hint)),
                failure.and_then(|failure| failure.stderr.as_ref()),
                to_micros(ending.at),
                failure.and_then(|failure| failure.retry_at.map(to_micros))
            ],
            |row| row.get(0),
        )
        .optional()?;
    let Some(leg) = leg else { return Ok(()) };
    db.prepare_cached(
        "UPDATE legs SET
             total_tokens = CASE WHEN ?2 IS NULL THEN total_tokens ELSE coalesce(total_tokens, 0) + ?2 END,
             context_tokens = coalesce(?3, context_tokens)
         WHERE id = ?1",
    )?
    .execute(params![
        leg,
        ending.usage.total_tokens,
        ending.usage.context_tokens
    ])?;
    Ok(())
}

/// Returns the turns that lead to a session's head, oldest first.
pub(crate) fn chain(db: &Db, id: &SessionId) -> OpResult<Vec<Turn>> {
    chain_from_sql(
        db,
        "SELECT head_id FROM sessions WHERE id = ?1",
        id.as_str(),
    )
}

/// Returns the turns that lead to a turn, oldest first, including the turn itself.
pub(crate) fn chain_up_to(db: &Db, turn: TurnId) -> OpResult<Vec<Turn>> {
    chain_from_sql(db, "SELECT ?1", db.turn_row(turn))
}

/// Returns the end of the chain that leads to a turn, oldest first: from the last turn that an agent finished for segue.
pub(crate) fn recent_chain(db: &Db, head: TurnId) -> OpResult<Vec<Turn>> {
    let sql = format!(
        "WITH RECURSIVE chain (id, is_last) AS (
             SELECT id, sent AND NOT outside AND state = 'finished' FROM turns WHERE id = ?1
             UNION ALL SELECT p.id, p.sent AND NOT p.outside AND p.state = 'finished'
             FROM chain c CROSS JOIN turns t ON t.id = c.id CROSS JOIN turns p ON p.id = t.parent_id WHERE NOT c.is_last
         )
         SELECT {} FROM chain c JOIN turns t ON t.id = c.id ORDER BY t.n",
        rows::TURN_COLUMNS
    );
    let mut statement = db.prepare_cached(&sql)?;
    let turns = statement.query_map([db.turn_row(head)], |row| rows::read_turn(db, row))?;
    Ok(turns.collect::<Result<_, _>>()?)
}

fn chain_from_sql(db: &Db, head: &str, start_key: impl ToSql) -> OpResult<Vec<Turn>> {
    let sql = format!(
        "WITH RECURSIVE chain (id) AS (
             {head}
             UNION ALL SELECT t.parent_id FROM turns t JOIN chain c ON t.id = c.id WHERE t.parent_id IS NOT NULL
         )
         SELECT {} FROM chain c JOIN turns t ON t.id = c.id ORDER BY t.n",
        rows::TURN_COLUMNS
    );
    let mut statement = db.prepare_cached(&sql)?;
    let turns = statement.query_map([start_key], |row| rows::read_turn(db, row))?;
    Ok(turns.collect::<Result<_, _>>()?)
}

pub(crate) fn list_messages(db: &Db, turn: TurnId) -> OpResult<Vec<Message>> {
    let mut statement = db.prepare_cached(
        "SELECT seq, role, complete, payload, at, tokens FROM messages WHERE turn_id = ?1 ORDER BY seq",
    )?;
    let complete = statement
        .query_map([db.turn_row(turn)], |row| {
            Ok((row.get::<_, u32>(0)?, rows::read_message(row, 1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(load_drafts(db, turn)?.merge_with(complete))
}

fn load_drafts(db: &Db, turn: TurnId) -> OpResult<DraftMessages> {
    let mut statement = db.prepare_cached(
        "SELECT seq, kind, text, at FROM drafts WHERE turn_id = ?1 ORDER BY seq, n",
    )?;
    let mut rows = statement.query([db.turn_row(turn)])?;
    let mut drafts = DraftMessages::default();
    while let Some(row) = rows.next()? {
        let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        let kind = DraftKind::from_name(text(1)?);
        drafts.add(row.get(0)?, kind, text(2)?, rows::read_time(row, 3)?);
    }
    Ok(drafts)
}

pub(crate) fn list_attempts(db: &Db, turn: TurnId) -> OpResult<Vec<Attempt>> {
    let sql = format!("{} WHERE turn_id = ?1 ORDER BY n", rows::ATTEMPT_QUERY);
    let mut statement = db.prepare_cached(&sql)?;
    let attempts = statement.query_map([db.turn_row(turn)], |row| rows::read_attempt(db, row))?;
    Ok(attempts.collect::<Result<_, _>>()?)
}
