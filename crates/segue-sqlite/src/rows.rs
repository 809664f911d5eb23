//! From rows to the words of segue.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use segue_core::{
    Attempt, Failure, FailureClass, FeatureId, Leg, LegEnd, LegId, NativeId, ProcessMark, Project,
    ProviderId, Session, SessionId, Tag, Title, TitleSource, Turn, TurnId, TurnState, Usage,
};
use segue_store::{BoxError, Holder, Mark};

type Outcome<T> = Result<T, rusqlite::Error>;

fn bad(column: usize, why: impl Into<BoxError>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}

/// The time that is stored as microseconds.
pub(crate) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Outcome<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|error| bad(column, error))
}

pub(crate) fn maybe_time(row: &Row<'_>, column: usize) -> Outcome<Option<Timestamp>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => time(row, column).map(Some),
    }
}

/// A text column that one of our types can be parsed from.
pub(crate) fn parsed<T>(row: &Row<'_>, column: usize) -> Outcome<T>
where
    T: FromStr,
    T::Err: Into<BoxError>,
{
    row.get_ref(column)?
        .as_str()?
        .parse()
        .map_err(|error: T::Err| bad(column, error))
}

fn maybe_parsed<T>(row: &Row<'_>, column: usize) -> Outcome<Option<T>>
where
    T: FromStr,
    T::Err: Into<BoxError>,
{
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(_) => parsed(row, column).map(Some),
    }
}

/// What tells whether a session has changed.
pub(crate) fn mark(row: &Row<'_>) -> Outcome<Mark> {
    Ok(Mark {
        id: parsed(row, 0)?,
        updated_at: time(row, 1)?,
        head: row.get::<_, Option<i64>>(2)?.map(TurnId),
    })
}

/// A text column with one of a few names.
pub(crate) fn named<T>(
    row: &Row<'_>,
    column: usize,
    from_name: fn(&str) -> Option<T>,
) -> Outcome<T> {
    let name = row.get_ref(column)?.as_str()?;
    from_name(name).ok_or_else(|| bad(column, format!("{name:?} is not known")))
}

pub(crate) const SESSION: &str = "
    SELECT s.id, p.key, s.cwd, s.title, s.title_from, s.feature, s.provider, nullif(l.native_id, ''), s.head_id, t.state,
           s.turns, s.total_tokens, s.forked_from, s.forked_at, s.created_at, s.updated_at,
           (SELECT group_concat(name, ',') FROM tags WHERE session_id = s.id)
    FROM sessions s
    JOIN projects p ON p.id = s.project_id
    LEFT JOIN legs l ON l.id = s.leg_id
    LEFT JOIN turns t ON t.id = s.head_id";

pub(crate) fn session(row: &Row<'_>) -> Outcome<Session> {
    let source = named(row, 4, TitleSource::from_name)?;
    let title = Title::given(row.get_ref(3)?.as_str()?, source).map_err(|error| bad(3, error))?;
    let head: Option<i64> = row.get(8)?;
    let forked_from = match maybe_parsed::<SessionId>(row, 12)? {
        None => None,
        Some(id) => Some((id, row.get(13)?)),
    };
    Ok(Session {
        id: parsed(row, 0)?,
        project: Project {
            key: row.get(1)?,
            cwd: row.get(2)?,
        },
        title,
        feature: maybe_parsed::<FeatureId>(row, 5)?,
        tags: tags(row, 16)?,
        provider: parsed::<ProviderId>(row, 6)?,
        native_id: maybe_parsed::<NativeId>(row, 7)?,
        head: head.map(TurnId),
        head_state: match head {
            None => None,
            Some(_) => Some(named(row, 9, TurnState::from_name)?),
        },
        turns: row.get(10)?,
        total_tokens: row.get(11)?,
        forked_from,
        created_at: time(row, 14)?,
        updated_at: time(row, 15)?,
    })
}

/// A column of tags with commas between them, which no tag contains.
fn tags(row: &Row<'_>, column: usize) -> Outcome<Vec<Tag>> {
    let Some(names) = row.get_ref(column)?.as_str_or_null()? else {
        return Ok(Vec::new());
    };
    let parsed = names.split(',').map(Tag::parse);
    let mut tags: Vec<Tag> = parsed
        .collect::<Result<_, _>>()
        .map_err(|error| bad(column, error))?;
    tags.sort();
    Ok(tags)
}

pub(crate) const TURN: &str = "
    t.id, t.parent_id, t.n, t.state, t.sent, t.input_tokens, t.output_tokens, t.cached_tokens, t.total_tokens,
    t.context_tokens, t.context_window, t.failure_class, t.failure_message, t.failure_hint, t.failure_stderr,
    t.failure_retry_at, t.started_at, t.ended_at";

pub(crate) fn turn(row: &Row<'_>) -> Outcome<Turn> {
    Ok(Turn {
        id: TurnId(row.get(0)?),
        parent: row.get::<_, Option<i64>>(1)?.map(TurnId),
        n: row.get(2)?,
        state: named(row, 3, TurnState::from_name)?,
        sent: row.get(4)?,
        usage: Usage {
            input_tokens: row.get(5)?,
            output_tokens: row.get(6)?,
            cached_tokens: row.get(7)?,
            total_tokens: row.get(8)?,
            context_tokens: row.get(9)?,
            context_window: row.get(10)?,
        },
        failure: failure(row, 11)?,
        started_at: time(row, 16)?,
        ended_at: maybe_time(row, 17)?,
    })
}

/// Five columns: class, message, hint, error output, when to try again.
fn failure(row: &Row<'_>, first: usize) -> Outcome<Option<Failure>> {
    if row.get_ref(first)?.as_str_or_null()?.is_none() {
        return Ok(None);
    }
    Ok(Some(Failure {
        class: named(row, first, FailureClass::from_name)?,
        message: row.get(first + 1)?,
        hint: row.get(first + 2)?,
        stderr: row.get(first + 3)?,
        retry_at: maybe_time(row, first + 4)?,
    }))
}

pub(crate) const ATTEMPT: &str = "
    SELECT n, leg_id, state, failure_class, failure_message, failure_hint, failure_stderr,
           failure_retry_at, started_at, ended_at
    FROM attempts";

pub(crate) fn attempt(row: &Row<'_>) -> Outcome<Attempt> {
    Ok(Attempt {
        n: row.get(0)?,
        leg: LegId(row.get(1)?),
        state: named(row, 2, TurnState::from_name)?,
        failure: failure(row, 3)?,
        started_at: time(row, 8)?,
        ended_at: maybe_time(row, 9)?,
    })
}

pub(crate) const LEG: &str = "
    SELECT id, n, provider, nullif(native_id, ''), tip_id, consecutive_failures, total_tokens, context_tokens, opened_at,
           ended_at, ended_why
    FROM legs";

pub(crate) fn leg(row: &Row<'_>) -> Outcome<Leg> {
    let ended = match maybe_time(row, 9)? {
        None => None,
        Some(at) => Some((at, named(row, 10, LegEnd::from_name)?)),
    };
    Ok(Leg {
        id: LegId(row.get(0)?),
        n: row.get(1)?,
        provider: parsed(row, 2)?,
        native_id: maybe_parsed(row, 3)?,
        tip: row.get::<_, Option<i64>>(4)?.map(TurnId),
        consecutive_failures: row.get(5)?,
        total_tokens: row.get(6)?,
        context_tokens: row.get(7)?,
        opened_at: time(row, 8)?,
        ended,
    })
}

pub(crate) const HOLDER: &str = "
    SELECT owner_host, owner_pid, owner_started, epoch, agent_host, agent_pid, agent_started, since, heartbeat_at
    FROM leases WHERE session_id = ?1";

pub(crate) fn holder(row: &Row<'_>) -> Outcome<Option<Holder>> {
    let Some(owner) = process(row, 0)? else {
        return Ok(None);
    };
    Ok(Some(Holder {
        owner,
        epoch: row.get(3)?,
        agent: process(row, 4)?,
        since: time(row, 7)?,
        heartbeat_at: time(row, 8)?,
    }))
}

/// Three columns: host, number, start.
fn process(row: &Row<'_>, first: usize) -> Outcome<Option<ProcessMark>> {
    let Some(pid) = row.get(first + 1)? else {
        return Ok(None);
    };
    Ok(Some(ProcessMark {
        host: row.get(first)?,
        pid,
        started: row.get(first + 2)?,
    }))
}
