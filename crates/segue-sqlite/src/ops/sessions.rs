//! Sessions: create, start, fork, rename, delete.

use jiff::SignedDuration;
use rusqlite::{ErrorCode, OptionalExtension, params};
use segue_core::agent::ProcessIdentity;
use segue_core::id::{FeatureId, SessionId};
use segue_core::scope::{Purpose, RoleName, TaskId, TaskState};
use segue_core::session::{Message, Session, SessionSnapshot, Title};
use segue_store::{
    ChangeKind, ForkPoint, Lease, LeaseRequest, NewSession, PageRequest, RecordedPurpose,
    StartedSession, StoreError,
};

use super::{OpResult, feed, lease, legs, lineage, provider_health, session_query, tags, turns};
use crate::connection::Db;
use crate::rows::{self, to_micros};

pub(crate) fn find_session(db: &Db, id: &SessionId) -> OpResult<Option<Session>> {
    let sql = format!("{} WHERE s.id = ?1", rows::SESSION_QUERY);
    Ok(db
        .prepare_cached(&sql)?
        .query_row([id.as_str()], |row| rows::read_session(db, row))
        .optional()?)
}

pub(crate) fn find_snapshot(db: &Db, id: &SessionId) -> OpResult<Option<SessionSnapshot>> {
    let Some(session) = find_session(db, id)? else {
        return Ok(None);
    };
    Ok(Some(SessionSnapshot {
        recent_turns: match session.head {
            Some(head) => turns::recent_chain(db, head)?,
            None => Vec::new(),
        },
        legs: legs::list_legs(db, id)?,
        providers: provider_health::load_provider_records(db, id)?,
        session,
    }))
}

pub(crate) fn load_session(db: &Db, id: &SessionId) -> OpResult<Session> {
    find_session(db, id)?.ok_or_else(|| StoreError::NoSession(id.clone()).into())
}

pub(crate) fn create_session(db: &Db, new: &NewSession) -> OpResult<Session> {
    if let Some(filter) = &new.conflict_filter {
        let matches = session_query::list_sessions(db, filter, &PageRequest::first(1))?.sessions;
        if let Some(session) = matches.into_iter().next() {
            return Err(StoreError::PurposeTaken(session.id).into());
        }
    }
    db.prepare_cached("INSERT INTO projects (key) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([&new.project.key])?;
    let purpose = new.purpose.as_ref().map(RecordedPurpose::from_purpose);
    let purpose = purpose.unwrap_or_default();
    let inserted = db
        .prepare_cached(
            "INSERT INTO sessions (id, project_id, cwd, title, title_from, feature, provider, created_at, updated_at,
                                   task, task_state, role, purpose)
             VALUES (?1, (SELECT id FROM projects WHERE key = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            new.id.as_str(),
            new.project.key,
            new.project.cwd,
            new.title.as_str(),
            new.title.source().as_str(),
            purpose.feature.as_ref().map(FeatureId::as_str),
            new.provider.as_str(),
            to_micros(new.at),
            purpose.task.as_ref().map(TaskId::as_str),
            purpose.task_state.as_ref().map(TaskState::as_str),
            purpose.role.as_ref().map(RoleName::as_str),
            new.purpose.as_ref().map(Purpose::key),
        ]);
    match inserted {
        Ok(_) => {
            feed::record_change(db, &new.id, ChangeKind::SessionCreated)?;
            load_session(db, &new.id)
        }
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::SessionExists(new.id.clone()).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates a session and acquires its lease.
pub(crate) fn create_leased_session(
    db: &Db,
    new: &NewSession,
    owner: &ProcessIdentity,
) -> OpResult<Lease> {
    create_session(db, new)?;
    let request = LeaseRequest {
        session: new.id.clone(),
        owner: owner.clone(),
        expires_after: SignedDuration::ZERO,
        dead_epoch: None,
    };
    Ok(lease::acquire_lease(db, &request)?.lease)
}

pub(crate) fn start_session(
    db: &Db,
    new: &NewSession,
    owner: &ProcessIdentity,
    prompt: &Message,
) -> OpResult<StartedSession> {
    let lease = create_leased_session(db, new, owner)?;
    let turn = turns::begin_turn(db, &lease, prompt)?;
    Ok(StartedSession {
        session: load_session(db, &new.id)?,
        lease,
        turn,
    })
}

pub(crate) fn fork_session(db: &Db, new: &NewSession, fork_point: &ForkPoint) -> OpResult<Session> {
    load_session(db, &fork_point.session)?;
    let chain = match fork_point.before_head_move {
        None => turns::chain(db, &fork_point.session)?,
        Some(n) => turns::chain_up_to(db, lineage::head_before_move(db, &fork_point.session, n)?)?,
    };
    let shared = fork_point.find_shared_turn(&chain)?;
    create_session(db, new)?;
    db.prepare_cached("UPDATE sessions SET head_id = ?2, turns = ?3, forked_from = ?4, forked_at = ?3 WHERE id = ?1")?
        .execute(params![
            new.id.as_str(),
            db.turn_row(shared.id),
            shared.number,
            fork_point.session.as_str()
        ])?;
    tags::copy_tags(db, &fork_point.session, &new.id)?;
    load_session(db, &new.id)
}

pub(crate) fn rename_session(db: &Db, id: &SessionId, title: &Title) -> OpResult<()> {
    let renamed = db
        .prepare_cached("UPDATE sessions SET title = ?2, title_from = ?3 WHERE id = ?1")?
        .execute([id.as_str(), title.as_str(), title.source().as_str()])?;
    match renamed {
        0 => Err(StoreError::NoSession(id.clone()).into()),
        _ => feed::record_change(db, id, ChangeKind::SessionChanged),
    }
}

pub(crate) fn suggest_title(db: &Db, id: &SessionId, title: &Title) -> OpResult<()> {
    load_session(db, id)?;
    let renamed = db
        .prepare_cached(
            "UPDATE sessions SET title = ?2, title_from = ?3 WHERE id = ?1 AND title_from <> 'user'",
        )?
        .execute([id.as_str(), title.as_str(), title.source().as_str()])?;
    match renamed {
        0 => Ok(()),
        _ => feed::record_change(db, id, ChangeKind::SessionChanged),
    }
}

/// Fills a temporary table with the turns of a deleted session that another session still needs, each with the session
/// that becomes its owner. Needed are the turns that a turn, a head or a head move of another session refers to, and
/// all their ancestors.
const RETAINED_TURNS_SQL: &str = "
    CREATE TEMP TABLE kept AS
    WITH RECURSIVE
        stands_on (turn_id, keeper) AS (
            SELECT t.parent_id, t.session_id FROM turns t
                JOIN turns p ON p.id = t.parent_id AND p.session_id = ?1
                WHERE t.session_id <> ?1
            UNION SELECT t.id, s.id FROM sessions s JOIN turns t ON t.id = s.head_id
                WHERE t.session_id = ?1 AND s.id <> ?1
            UNION SELECT t.id, m.session_id FROM head_moves m JOIN turns t ON t.id IN (m.from_id, m.to_id)
                WHERE t.session_id = ?1 AND m.session_id <> ?1
        ),
        needed (turn_id, keeper) AS (
            SELECT turn_id, min(keeper) FROM stands_on GROUP BY turn_id
            UNION SELECT p.id, n.keeper FROM needed n
                JOIN turns t ON t.id = n.turn_id
                JOIN turns p ON p.id = t.parent_id AND p.session_id = ?1
        )
    SELECT turn_id, min(keeper) AS keeper FROM needed GROUP BY turn_id";

pub(crate) fn delete_session(db: &Db, lease: &Lease) -> OpResult<()> {
    lease::check_lease(db, lease)?;
    let id = lease.session.as_str();
    db.execute_batch("DROP TABLE IF EXISTS temp.kept")?;
    db.execute(RETAINED_TURNS_SQL, [id])?;
    db.execute(
        "UPDATE turns SET session_id = (SELECT keeper FROM temp.kept WHERE turn_id = turns.id)
         WHERE id IN (SELECT turn_id FROM temp.kept)",
        [],
    )?;
    db.execute_batch("DROP TABLE temp.kept")?;
    // Children are deleted before their parents, so that no turn refers to a missing parent.
    let mut turn_ids: Vec<i64> = db
        .prepare("SELECT id FROM turns WHERE session_id = ?1 ORDER BY id DESC")?
        .query_map([id], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut remove = db.prepare("DELETE FROM turns WHERE id = ?1")?;
    for turn in turn_ids.drain(..) {
        remove.execute([turn])?;
    }
    db.execute("DELETE FROM sessions WHERE id = ?1", [id])?;
    feed::record_change(db, &lease.session, ChangeKind::SessionDeleted)
}
