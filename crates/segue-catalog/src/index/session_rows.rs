//! Sessions in the index, as a list.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};
use segue_core::id::{NativeId, ProviderId};
use segue_core::session::{Title, TitleSource, Usage};

use super::source_reader::project_key_text;
use super::{Index, IndexError, OWN_PROVIDER_NAME, schema};
use crate::{IdHint, NativeSession, NativeSessionKind, SessionHead, SessionLocation};

/// Existence of a session in its agent's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeStatus {
    /// The session exists.
    Live,
    /// The agent archived the session, or the agent deleted it and segue has a copy.
    Archived,
    /// The session no longer exists.
    Missing,
}

impl NativeStatus {
    /// Returns the name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Archived => "archived",
            Self::Missing => "gone",
        }
    }

    pub(super) fn code(self) -> i64 {
        match self {
            Self::Live => 0,
            Self::Archived => 1,
            Self::Missing => 2,
        }
    }

    fn from_code(code: i64) -> Self {
        match code {
            0 => Self::Live,
            1 => Self::Archived,
            _ => Self::Missing,
        }
    }
}

/// A native session, as the index stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSession {
    /// The session: its location and its head.
    pub session: NativeSession,
    /// Key of its project. `None` if the agent does not record the working directory.
    pub project: Option<String>,
    /// Beginning of its last prompt.
    pub last_prompt: Option<String>,
    /// Number of its turns.
    pub turns: u32,
    /// Number of its messages.
    pub messages: u32,
    /// Total usage of its turns. The context size is that of the last turn.
    pub usage: Usage,
    /// Model of the last answer.
    pub model: Option<String>,
    /// Existence of the session.
    pub status: NativeStatus,
}

/// Filter of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexFilter {
    /// Agent of the sessions. All agents if `None`.
    pub provider: Option<ProviderId>,
    /// Key of the project of the sessions. All projects if `None`.
    pub project: Option<String>,
    /// Earliest time of the last activity.
    pub since: Option<Timestamp>,
    /// Whether sessions that no longer exist are included.
    pub include_missing: bool,
}

pub(super) const SESSION_COLUMNS: &str = "session.id, session.provider, session.native_id, state, project, cwd, branch, title,
    title_from, first_prompt, last_prompt, forked_from, version, model, created_at, updated_at, turns, messages,
    input, output, cached, total, context, path, part, size, modified";

pub(super) const SESSION_TABLES: &str = "session LEFT JOIN source ON source.id = session.source";

impl Index {
    /// Returns the native sessions that match, the newest first: at most `limit` of them, after the first `offset`.
    /// Fails with [`IndexError::Missing`] before the first refresh has completed, because the list would be incomplete.
    pub fn list_sessions(
        &self,
        filter: &IndexFilter,
        limit: u32,
        offset: u32,
    ) -> Result<Vec<IndexedSession>, IndexError> {
        let (condition, mut values) = filter.to_sql();
        // The table has an index by time, so SQLite reads only as many rows as requested.
        let sql = format!(
            "SELECT {SESSION_COLUMNS} FROM {SESSION_TABLES} WHERE {condition}
             ORDER BY updated_at DESC, session.id DESC LIMIT ? OFFSET ?"
        );
        values.extend([Value::from(limit), Value::from(offset)]);
        let sessions = self.read_with(|db| {
            if !has_completed_refresh(db)? {
                return Ok(None);
            }
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map(rusqlite::params_from_iter(values), read_session_row)?;
            let rows: rusqlite::Result<Vec<IndexedSession>> =
                rows.filter_map(Result::transpose).collect();
            rows.map(Some)
        });
        sessions?.ok_or(IndexError::Missing)
    }

    /// Returns `true` if a refresh has completed, so that only new sessions are missing.
    #[must_use]
    pub fn has_completed_refresh(&self) -> bool {
        self.read_with(has_completed_refresh).unwrap_or(false)
    }

    /// Returns the number of native sessions that match.
    pub fn count_sessions(&self, filter: &IndexFilter) -> Result<u64, IndexError> {
        let (condition, values) = filter.to_sql();
        let sql = format!("SELECT count(*) FROM session WHERE {condition}");
        self.read_with(|db| {
            let values = rusqlite::params_from_iter(values);
            db.prepare_cached(&sql)?.query_row(values, |row| row.get(0))
        })
    }

    /// Returns a native session. `None` if the index does not have it.
    pub fn find_session(
        &self,
        provider: &ProviderId,
        id: &NativeId,
    ) -> Result<Option<IndexedSession>, IndexError> {
        self.read_with(|db| find_session_row(db, provider.as_str(), id.as_str()))
    }

    /// Returns the sources that could not be read in the last refresh.
    pub fn unreadable_sources(&self) -> Result<Vec<UnreadableSource>, IndexError> {
        self.read_with(|db| {
            db.prepare_cached("SELECT provider, coalesce(why, '') FROM source WHERE verdict = 3")?
                .query_map([], |row| {
                    let provider: String = row.get(0)?;
                    let reason = row.get(1)?;
                    Ok(ProviderId::parse(&provider)
                        .ok()
                        .map(|provider| UnreadableSource { provider, reason }))
                })?
                .filter_map(Result::transpose)
                .collect()
        })
    }

    /// Updates the projects of all directories if the project of this one has changed, because the user created or
    /// moved a repository. Does nothing if another process is still writing to the index after `timeout`.
    pub fn update_project(
        &self,
        cwd: &str,
        project: &str,
        timeout: Duration,
    ) -> Result<(), IndexError> {
        let has_moved: bool = self.read_with(|db| {
            db.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM session WHERE cwd = ?1 AND project IS NOT ?2 AND provider <> ?3)",
            )?
            .query_row([cwd, project, OWN_PROVIDER_NAME], |row| row.get(0))
        })?;
        if !has_moved {
            return Ok(());
        }
        let Some(_lock) = self.acquire_lock(timeout)? else {
            return Ok(());
        };
        let mut db = schema::open_for_writing(self.path())?;
        let transaction = db.transaction()?;
        let cwds: Vec<String> = transaction
            .prepare("SELECT DISTINCT cwd FROM session WHERE cwd IS NOT NULL AND provider <> ?1")?
            .query_map([OWN_PROVIDER_NAME], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for cwd in cwds {
            transaction.execute(
                "UPDATE session SET project = ?2 WHERE cwd = ?1 AND project IS NOT ?2 AND provider <> ?3",
                rusqlite::params![cwd, project_key_text(&cwd), OWN_PROVIDER_NAME],
            )?;
        }
        Ok(transaction.commit()?)
    }
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableSource {
    /// Agent of the source.
    pub provider: ProviderId,
    /// Description of the failure.
    pub reason: String,
}

impl IndexFilter {
    fn to_sql(&self) -> (String, Vec<Value>) {
        let mut conditions = vec![format!("session.provider <> '{OWN_PROVIDER_NAME}'")];
        let mut values = Vec::new();
        let mut add = |condition: &str, value: Value| {
            conditions.push(condition.to_owned());
            values.push(value);
        };
        if let Some(provider) = &self.provider {
            add("session.provider = ?", provider.as_str().to_owned().into());
        }
        if let Some(project) = &self.project {
            add("project = ?", project.clone().into());
        }
        if let Some(since) = self.since {
            add("updated_at >= ?", since.as_millisecond().into());
        }
        if !self.include_missing {
            add("state <> ?", NativeStatus::Missing.code().into());
        }
        (conditions.join(" AND "), values)
    }
}

/// Returns `true` if a refresh has completed.
fn has_completed_refresh(db: &Connection) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM seen WHERE what = 'whole')")?
        .query_row([], |row| row.get(0))
}

fn find_session_row(
    db: &Connection,
    provider: &str,
    id: &str,
) -> rusqlite::Result<Option<IndexedSession>> {
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM {SESSION_TABLES} WHERE session.provider = ?1 AND session.native_id = ?2"
    );
    let session = db
        .prepare_cached(&sql)?
        .query_row([provider, id], read_session_row);
    Ok(session.optional()?.flatten())
}

/// Converts a row. `None` if its ids are not valid.
pub(super) fn read_session_row(
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<Option<IndexedSession>> {
    let to_timestamp = |at: Option<i64>| at.and_then(|at| Timestamp::from_millisecond(at).ok());
    let provider: String = row.get(1)?;
    let id: String = row.get(2)?;
    let (Ok(provider), Ok(id)) = (ProviderId::parse(&provider), NativeId::parse(&id)) else {
        return Ok(None);
    };
    let updated_at = to_timestamp(row.get(15)?).unwrap_or(Timestamp::UNIX_EPOCH);
    let title = match (
        row.get::<_, Option<String>>(7)?,
        row.get::<_, Option<String>>(8)?,
    ) {
        (Some(title), Some(source)) => {
            let source = TitleSource::from_name(&source).unwrap_or(TitleSource::Prompt);
            Title::new(&title, source).ok()
        }
        _ => None,
    };
    let status = NativeStatus::from_code(row.get(3)?);
    let path: Option<Vec<u8>> = row.get(23)?;
    let modified: Option<i64> = row.get(26)?;
    let modified = modified.and_then(|at| Timestamp::from_nanosecond(at.into()).ok());
    let location = SessionLocation {
        path: path.map_or_else(PathBuf::new, |path| {
            use std::os::unix::ffi::OsStringExt;
            std::ffi::OsString::from_vec(path).into()
        }),
        id_hint: IdHint::Complete(id.to_string()),
        size: row.get::<_, Option<u64>>(25)?.unwrap_or(0),
        modified: modified.unwrap_or(updated_at),
        archived: status == NativeStatus::Archived,
    };
    let head = SessionHead {
        kind: NativeSessionKind::Conversation,
        cwd: row.get(5)?,
        branch: row.get(6)?,
        created_at: to_timestamp(row.get(14)?),
        title,
        first_prompt: row.get(9)?,
        forked_from: row.get(11)?,
        agent_version: row.get(12)?,
        ..SessionHead::new(id, updated_at)
    };
    Ok(Some(IndexedSession {
        session: NativeSession {
            provider,
            location,
            head,
        },
        project: row.get(4)?,
        last_prompt: row.get(10)?,
        turns: row.get(16)?,
        messages: row.get(17)?,
        usage: Usage {
            input_tokens: row.get(18)?,
            output_tokens: row.get(19)?,
            cached_tokens: row.get(20)?,
            total_tokens: row.get(21)?,
            context_tokens: row.get(22)?,
            context_window: None,
        },
        model: row.get(13)?,
        status,
    }))
}
