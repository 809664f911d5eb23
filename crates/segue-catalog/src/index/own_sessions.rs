//! segue's own sessions in the index. It contains only their words, because the store has all other data and is
//! authoritative.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use segue_core::id::{NativeId, SessionId};
use segue_core::session::{Message, Title};

use super::source_reader::{IndexedTurn, SourceHead};
use super::turn_text::SearchableText;
use super::writer::{IndexWriter, turn_id};
use super::{Index, IndexError, NativeStatus, OWN_PROVIDER_NAME, schema};
use crate::{Mark, NativeSessionKind, SessionHead};

const SELECT_OWN_STAMPS: &str =
    "SELECT native_id, updated_at, head, title FROM session WHERE provider = ?1";

/// A session of segue, with the data that a search needs.
#[derive(Debug, Clone)]
pub struct OwnSession {
    /// Id of the session.
    pub id: SessionId,
    /// Title of the session.
    pub title: Title,
    /// Provider of the session.
    pub provider: String,
    /// Key of its project.
    pub project: String,
    /// Working directory of the session.
    pub cwd: String,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// Last turn of the session, also if it is still running.
    pub head: Option<i64>,
    /// Number of its turns that the index has and that are still valid.
    pub valid_turns: u32,
    /// Turns that follow the valid ones.
    pub new_turns: Vec<OwnTurn>,
}

/// State of a session of segue in the index, which shows whether the index is up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnSessionStamp {
    /// Id of the session.
    pub id: String,
    /// Time of its last change, in milliseconds.
    pub updated_at: i64,
    /// Last turn of the session.
    pub head: Option<i64>,
    /// Title of the session.
    pub title: Option<String>,
}

/// Differences between segue's own sessions and the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnSessionChanges {
    /// Sessions that the index lacks or has in another state.
    pub changed: Vec<String>,
    /// Sessions that only the index has.
    pub removed: Vec<String>,
}

/// A turn of a session of segue.
#[derive(Debug, Clone)]
pub struct OwnTurn {
    /// Id of the turn, which is unique among all turns.
    pub id: String,
    /// Time at which the turn ended.
    pub at: Timestamp,
    /// Messages of the turn.
    pub messages: Vec<Message>,
}

impl Index {
    /// Returns the state of segue's own sessions in the index. Empty if there is no index.
    pub fn own_session_stamps(&self) -> Result<Vec<OwnSessionStamp>, IndexError> {
        let stamps = self.read_with(|db| {
            db.prepare_cached(SELECT_OWN_STAMPS)?
                .query_map([OWN_PROVIDER_NAME], |row| {
                    Ok(OwnSessionStamp {
                        id: row.get(0)?,
                        updated_at: row.get(1)?,
                        head: row.get(2)?,
                        title: row.get(3)?,
                    })
                })?
                .collect()
        });
        default_if_missing(stamps)
    }

    /// Compares segue's own sessions with the index. The comparison copies nothing of a session that did not change,
    /// because a list compares all sessions.
    pub fn compare_own_sessions(
        &self,
        current: &[OwnSessionStamp],
    ) -> Result<OwnSessionChanges, IndexError> {
        let mut unseen: HashMap<&str, &OwnSessionStamp> = current
            .iter()
            .map(|stamp| (stamp.id.as_str(), stamp))
            .collect();
        let mut changes = OwnSessionChanges::default();
        let compared = self.read_with(|db| {
            let mut query = db.prepare_cached(SELECT_OWN_STAMPS)?;
            let mut rows = query.query([OWN_PROVIDER_NAME])?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str()?;
                let Some(stamp) = unseen.remove(id) else {
                    changes.removed.push(id.to_owned());
                    continue;
                };
                let is_unchanged = row.get::<_, i64>(1)? == stamp.updated_at
                    && row.get::<_, Option<i64>>(2)? == stamp.head
                    && row.get_ref(3)?.as_str_or_null()? == stamp.title.as_deref();
                if !is_unchanged {
                    changes.changed.push(id.to_owned());
                }
            }
            Ok(())
        });
        default_if_missing(compared)?;
        let is_unseen = |stamp: &&OwnSessionStamp| unseen.contains_key(stamp.id.as_str());
        let missing = current.iter().filter(is_unseen);
        changes
            .changed
            .extend(missing.map(|stamp| stamp.id.clone()));
        Ok(changes)
    }

    /// Returns the ids of the turns of a session of segue that the index has, in order.
    pub fn own_turn_ids(&self, id: &SessionId) -> Result<Vec<String>, IndexError> {
        let turn_ids = self.read_with(|db| {
            let session: Option<i64> = db
                .prepare_cached("SELECT id FROM session WHERE provider = ?1 AND native_id = ?2")?
                .query_row([OWN_PROVIDER_NAME, id.as_str()], |row| row.get(0))
                .optional()?;
            let Some(session) = session else {
                return Ok(Vec::new());
            };
            let range = [turn_id(session, 0), turn_id(session + 1, 0) - 1];
            db.prepare_cached("SELECT after FROM turn WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?
                .query_map(range, |row| row.get::<_, Option<String>>(0))?
                .map(|after| {
                    let mark = after?;
                    Ok(mark
                        .as_deref()
                        .and_then(parse_own_turn_id)
                        .unwrap_or_default())
                })
                .collect()
        });
        default_if_missing(turn_ids)
    }

    /// Adds new turns of segue's own sessions. Returns `false` if another process is still writing to the index after
    /// `timeout`.
    pub fn index_own_sessions(
        &self,
        sessions: &[OwnSession],
        timeout: Duration,
    ) -> Result<bool, IndexError> {
        let Some(_lock) = self.acquire_lock(timeout)? else {
            return Ok(false);
        };
        let db = schema::open_for_writing(&self.path)?;
        let mut writer = IndexWriter::new(&db)?;
        for own_session in sessions {
            let Some(source_head) = own_session.to_source_head() else {
                continue;
            };
            let existing = writer.find_session(OWN_PROVIDER_NAME, own_session.id.as_str())?;
            // The index was emptied since the caller read it. The next refresh adds the complete session.
            if existing.is_none() && own_session.valid_turns > 0 {
                continue;
            }
            let turns: Vec<IndexedTurn> = own_session
                .new_turns
                .iter()
                .map(OwnTurn::to_indexed_turn)
                .collect();
            let session = if let Some(session) = existing {
                writer.replace_turns_from(
                    session,
                    &source_head,
                    NativeStatus::Live,
                    own_session.valid_turns + 1,
                    &turns,
                )?;
                session
            } else {
                let mut partial = writer.start_session();
                writer.add_turns(&mut partial, &turns)?;
                writer.insert_title(partial.id, &source_head)?;
                writer.replace_session(
                    OWN_PROVIDER_NAME,
                    &partial,
                    &source_head,
                    None,
                    NativeStatus::Live,
                )?;
                partial.id
            };
            writer.set_head(session, own_session.head)?;
        }
        writer.commit()?;
        Ok(true)
    }

    /// Removes a session of segue that no longer exists. Returns `false` if another process is still writing to the
    /// index after `timeout`.
    pub fn remove_own_session(
        &self,
        id: &SessionId,
        timeout: Duration,
    ) -> Result<bool, IndexError> {
        self.remove_session(OWN_PROVIDER_NAME, id.as_str(), timeout)
    }

    /// Removes a native session. The next refresh restores it if it still exists. Returns `false` if another process is
    /// still writing to the index after `timeout`.
    pub fn remove_native_session(
        &self,
        provider: &str,
        id: &NativeId,
        timeout: Duration,
    ) -> Result<bool, IndexError> {
        self.remove_session(provider, id.as_str(), timeout)
    }

    fn remove_session(
        &self,
        provider: &str,
        id: &str,
        timeout: Duration,
    ) -> Result<bool, IndexError> {
        let Some(_lock) = self.acquire_lock(timeout)? else {
            return Ok(false);
        };
        let db = schema::open_for_writing(&self.path)?;
        let mut writer = IndexWriter::new(&db)?;
        if let Some(session) = writer.find_session(provider, id)? {
            writer.remove_session(session)?;
        }
        writer.remove_sources(provider, id)?;
        writer.commit()?;
        Ok(true)
    }
}

/// Returns the default value if there is no index yet.
fn default_if_missing<T: Default>(result: Result<T, IndexError>) -> Result<T, IndexError> {
    match result {
        Err(IndexError::Missing) => Ok(T::default()),
        result => result,
    }
}

impl OwnSession {
    fn to_source_head(&self) -> Option<SourceHead> {
        let head = SessionHead {
            kind: NativeSessionKind::Conversation,
            cwd: Some(self.cwd.clone()),
            created_at: Some(self.created_at),
            title: Some(self.title.clone()),
            agent_version: Some(self.provider.clone()),
            ..SessionHead::new(NativeId::parse(self.id.as_str()).ok()?, self.updated_at)
        };
        Some(SourceHead {
            head,
            project: Some(self.project.clone()),
            bytes_read: 0,
        })
    }
}

impl OwnTurn {
    fn to_indexed_turn(&self) -> IndexedTurn {
        IndexedTurn {
            at: Some(self.at),
            after: Some(Mark::Id(self.id.clone())),
            messages: u32::try_from(self.messages.len()).unwrap_or(u32::MAX),
            text: SearchableText::from_bounded_messages(&self.messages).into_fts_text(),
            ..IndexedTurn::default()
        }
    }
}

fn parse_own_turn_id(mark: &str) -> Option<String> {
    match mark.parse() {
        Ok(Mark::Id(id)) => Some(id),
        _ => None,
    }
}
