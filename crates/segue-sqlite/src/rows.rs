//! Conversion of rows to the types of segue-core and segue-store.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use segue_core::agent::ProcessIdentity;
use segue_core::encoding;
use segue_core::id::{NativeId, ProviderId, SessionId};
use segue_core::scope::Purpose;
use segue_core::session::{
    Attempt, Failure, FailureClass, Leg, LegEnd, Message, Project, Role, Session, Tag, Title,
    TitleSource, Turn, TurnState, Usage,
};
use segue_store::{BoxError, LeaseHolder, RecordedPurpose, SessionStamp};

use crate::connection::Db;

type RowResult<T> = Result<T, rusqlite::Error>;

pub(crate) fn conversion_error(column: usize, reason: impl Into<BoxError>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, reason.into())
}

/// Returns the time as microseconds since the Unix epoch, as the tables store it.
pub(crate) fn to_micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

pub(crate) fn read_time(row: &Row<'_>, column: usize) -> RowResult<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|error| conversion_error(column, error))
}

pub(crate) fn read_optional_time(row: &Row<'_>, column: usize) -> RowResult<Option<Timestamp>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => read_time(row, column).map(Some),
    }
}

/// Parses a text column.
pub(crate) fn read_parsed<T>(row: &Row<'_>, column: usize) -> RowResult<T>
where
    T: FromStr,
    T::Err: Into<BoxError>,
{
    row.get_ref(column)?
        .as_str()?
        .parse()
        .map_err(|error: T::Err| conversion_error(column, error))
}

fn read_optional_parsed<T>(row: &Row<'_>, column: usize) -> RowResult<Option<T>>
where
    T: FromStr,
    T::Err: Into<BoxError>,
{
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(_) => read_parsed(row, column).map(Some),
    }
}

/// Reads the [`SessionStamp`] of a session, which shows if the session has changed.
pub(crate) fn read_session_stamp(db: &Db, row: &Row<'_>) -> RowResult<SessionStamp> {
    Ok(SessionStamp {
        id: read_parsed(row, 0)?,
        updated_at: read_time(row, 1)?,
        head: row.get::<_, Option<i64>>(2)?.map(|row| db.turn_id(row)),
        title: row.get(3)?,
    })
}

/// Reads a text column whose value is one of a fixed set of names. An unknown name is an error.
pub(crate) fn read_enum<T>(
    row: &Row<'_>,
    column: usize,
    from_name: fn(&str) -> Option<T>,
) -> RowResult<T> {
    let name = row.get_ref(column)?.as_str()?;
    from_name(name).ok_or_else(|| conversion_error(column, format!("unknown name {name:?}")))
}

/// Reads a title that was set by `source`.
pub(crate) fn read_title(row: &Row<'_>, column: usize, source: TitleSource) -> RowResult<Title> {
    Title::new(row.get_ref(column)?.as_str()?, source)
        .map_err(|error| conversion_error(column, error))
}

pub(crate) const SESSION_QUERY: &str = "
    SELECT s.id, p.key, s.cwd, s.title, s.title_from, s.feature, s.provider, nullif(l.native_id, ''), s.head_id, t.state,
           s.turns, s.total_tokens, s.forked_from, s.forked_at, s.created_at, s.updated_at,
           (SELECT group_concat(name, ',') FROM tags WHERE session_id = s.id),
           s.purpose IS NOT NULL, s.task, s.task_state, s.role
    FROM sessions s
    JOIN projects p ON p.id = s.project_id
    LEFT JOIN legs l ON l.id = s.leg_id
    LEFT JOIN turns t ON t.id = s.head_id";

/// Returns [`SESSION_QUERY`]. With an index, SQLite must use that index for `sessions`.
pub(crate) fn session_query_with_index(index: Option<&str>) -> String {
    match index {
        Some(index) => SESSION_QUERY.replacen(
            "FROM sessions s\n",
            &format!("FROM sessions s INDEXED BY {index}\n"),
            1,
        ),
        None => SESSION_QUERY.to_owned(),
    }
}

pub(crate) fn read_session(db: &Db, row: &Row<'_>) -> RowResult<Session> {
    let source = read_enum(row, 4, TitleSource::from_name)?;
    let title = read_title(row, 3, source)?;
    let head: Option<i64> = row.get(8)?;
    let forked_from = match read_optional_parsed::<SessionId>(row, 12)? {
        None => None,
        Some(id) => Some((id, row.get(13)?)),
    };
    Ok(Session {
        id: read_parsed(row, 0)?,
        project: Project {
            key: row.get(1)?,
            cwd: row.get(2)?,
        },
        title,
        purpose: read_purpose(row, 5, 17)?,
        tags: read_tags(row, 16)?,
        provider: read_parsed::<ProviderId>(row, 6)?,
        native_id: read_optional_parsed::<NativeId>(row, 7)?,
        head: head.map(|row| db.turn_id(row)),
        head_state: match head {
            None => None,
            Some(_) => Some(read_enum(row, 9, TurnState::from_name)?),
        },
        turns: row.get(10)?,
        total_tokens: row.get(11)?,
        forked_from,
        created_at: read_time(row, 14)?,
        updated_at: read_time(row, 15)?,
    })
}

/// Reads the purpose from the column `feature` and the four columns from `first` on: whether a purpose exists, task,
/// task state, role. `None` if the session has no purpose.
fn read_purpose(row: &Row<'_>, feature: usize, first: usize) -> RowResult<Option<Purpose>> {
    if !row.get::<_, bool>(first)? {
        return Ok(None);
    }
    let fields = RecordedPurpose {
        feature: read_optional_parsed(row, feature)?,
        task: read_optional_parsed(row, first + 1)?,
        task_state: read_optional_parsed(row, first + 2)?,
        role: read_optional_parsed(row, first + 3)?,
    };
    Ok(Some(fields.into_purpose()))
}

/// Reads a column of tags, sorted. They are separated by commas, which no tag contains.
fn read_tags(row: &Row<'_>, column: usize) -> RowResult<Vec<Tag>> {
    let Some(names) = row.get_ref(column)?.as_str_or_null()? else {
        return Ok(Vec::new());
    };
    let parsed = names.split(',').map(Tag::parse);
    let mut tags: Vec<Tag> = parsed
        .collect::<Result<_, _>>()
        .map_err(|error| conversion_error(column, error))?;
    tags.sort();
    Ok(tags)
}

pub(crate) const TURN_COLUMNS: &str = "
    t.id, t.parent_id, t.n, t.state, t.sent, t.input_tokens, t.output_tokens, t.cached_tokens, t.total_tokens,
    t.context_tokens, t.context_window, t.failure_class, t.failure_message, t.failure_hint, t.failure_stderr,
    t.failure_retry_at, t.started_at, t.ended_at, t.outside";

pub(crate) fn read_turn(db: &Db, row: &Row<'_>) -> RowResult<Turn> {
    Ok(Turn {
        id: db.turn_id(row.get(0)?),
        parent: row.get::<_, Option<i64>>(1)?.map(|row| db.turn_id(row)),
        number: row.get(2)?,
        state: read_enum(row, 3, TurnState::from_name)?,
        sent: row.get(4)?,
        usage: Usage {
            input_tokens: row.get(5)?,
            output_tokens: row.get(6)?,
            cached_tokens: row.get(7)?,
            total_tokens: row.get(8)?,
            context_tokens: row.get(9)?,
            context_window: row.get(10)?,
        },
        failure: read_failure(row, 11)?,
        started_at: read_time(row, 16)?,
        ended_at: read_optional_time(row, 17)?,
        made_outside: row.get(18)?,
    })
}

/// Reads a message from the five columns from `first` on: role, completeness, payload, time, tokens.
pub(crate) fn read_message(row: &Row<'_>, first: usize) -> RowResult<Message> {
    Ok(Message {
        role: read_enum(row, first, Role::from_name)?,
        complete: row.get(first + 1)?,
        parts: encoding::decode_parts(row.get_ref(first + 2)?.as_str()?),
        at: read_time(row, first + 3)?,
        tokens: row.get(first + 4)?,
    })
}

/// Reads a failure from the five columns from `first` on: class, message, hint, stderr, time of the next try. `None` if
/// the class is NULL.
fn read_failure(row: &Row<'_>, first: usize) -> RowResult<Option<Failure>> {
    if row.get_ref(first)?.as_str_or_null()?.is_none() {
        return Ok(None);
    }
    Ok(Some(Failure {
        class: read_enum(row, first, FailureClass::from_name)?,
        message: row.get(first + 1)?,
        hint: row
            .get_ref(first + 2)?
            .as_str_or_null()?
            .map(encoding::decode_hint),
        stderr: row.get(first + 3)?,
        retry_at: read_optional_time(row, first + 4)?,
    }))
}

pub(crate) const ATTEMPT_QUERY: &str = "
    SELECT n, leg_id, state, failure_class, failure_message, failure_hint, failure_stderr,
           failure_retry_at, started_at, ended_at, mark
    FROM attempts";

pub(crate) fn read_attempt(db: &Db, row: &Row<'_>) -> RowResult<Attempt> {
    Ok(Attempt {
        number: row.get(0)?,
        leg: db.leg_id(row.get(1)?),
        state: read_enum(row, 2, TurnState::from_name)?,
        failure: read_failure(row, 3)?,
        started_at: read_time(row, 8)?,
        ended_at: read_optional_time(row, 9)?,
        mark: row.get(10)?,
    })
}

// Failures of a leg come from `standings`, because segue counts them only in that table. An ended leg has 0.
pub(crate) const LEG_QUERY: &str = "
    SELECT id, n, provider, nullif(native_id, ''), tip_id,
           coalesce((SELECT s.failures FROM standings s WHERE legs.ended_at IS NULL
                     AND s.session_id = legs.session_id AND s.provider = legs.provider), 0),
           total_tokens, context_tokens, opened_at, ended_at, ended_why,
           (SELECT a.mark FROM legs l JOIN attempts a ON a.leg_id = l.id
            WHERE a.mark IS NOT NULL AND l.session_id = legs.session_id AND l.provider = legs.provider
              AND l.native_id = legs.native_id AND (l.id = legs.id OR l.native_id <> '')
            ORDER BY a.turn_id DESC, a.n DESC LIMIT 1),
           held_tokens, forgot
    FROM legs";

pub(crate) fn read_leg(db: &Db, row: &Row<'_>) -> RowResult<Leg> {
    let ended = match read_optional_time(row, 9)? {
        None => None,
        Some(at) => Some((at, read_enum(row, 10, LegEnd::from_name)?)),
    };
    Ok(Leg {
        id: db.leg_id(row.get(0)?),
        number: row.get(1)?,
        provider: read_parsed(row, 2)?,
        native_id: read_optional_parsed(row, 3)?,
        tip: row.get::<_, Option<i64>>(4)?.map(|row| db.turn_id(row)),
        consecutive_failures: row.get(5)?,
        total_tokens: row.get(6)?,
        context_tokens: row.get(7)?,
        estimated_tokens: row.get(12)?,
        opened_at: read_time(row, 8)?,
        ended,
        mark: row.get(11)?,
        lost_context: row.get(13)?,
    })
}

pub(crate) const HOLDER_QUERY: &str = "
    SELECT owner_host, owner_pid, owner_started, epoch, agent_host, agent_pid, agent_started, since, heartbeat_at,
           (SELECT t.n FROM sessions s JOIN turns t ON t.id = s.head_id WHERE s.id = ?1 AND t.state = 'running')
    FROM leases WHERE session_id = ?1";

/// Reads the owner of a lease. `now` is the time of the store's clock.
pub(crate) fn read_holder(row: &Row<'_>, now: Timestamp) -> RowResult<Option<LeaseHolder>> {
    let Some(owner) = read_process(row, 0)? else {
        return Ok(None);
    };
    Ok(Some(LeaseHolder {
        owner,
        epoch: row.get(3)?,
        agent: read_process(row, 4)?,
        acquired_at: read_time(row, 7)?,
        silent_for: now.duration_since(read_time(row, 8)?),
        running_turn: row.get(9)?,
    }))
}

/// Reads a process from the three columns from `first` on: host, pid, start. `None` if the pid is NULL.
fn read_process(row: &Row<'_>, first: usize) -> RowResult<Option<ProcessIdentity>> {
    let Some(pid) = row.get(first + 1)? else {
        return Ok(None);
    };
    Ok(Some(ProcessIdentity {
        host: row.get(first)?,
        pid,
        start_time: row.get(first + 2)?,
    }))
}
