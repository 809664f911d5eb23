//! segue's own sessions in the index. It contains only their words, because the store has all other data and is
//! authoritative.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use segue_core::id::{NativeId, SessionId};
use segue_core::session::{Message, Title};

use super::read::{Passage, Placed};
use super::texts::Texts;
use super::write::{Writer, turn_id};
use super::{Index, IndexError, OWN, State, schema};
use crate::{Head, Kind, Mark};

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
    pub keep: u32,
    /// Turns that follow the valid ones.
    pub turns: Vec<OwnTurn>,
}

/// State of a session of segue in the index, which shows whether the index is up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMark {
    /// Id of the session.
    pub id: String,
    /// Time of its last change, in milliseconds.
    pub updated_at: i64,
    /// Last turn of the session.
    pub head: Option<i64>,
    /// Title of the session.
    pub title: Option<String>,
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
    pub fn own_marks(&self) -> Result<Vec<OwnMark>, IndexError> {
        let marks = self.reading(|db| {
            db.prepare_cached(
                "SELECT native_id, updated_at, head, title FROM session WHERE provider = ?1",
            )?
            .query_map([OWN], |row| {
                Ok(OwnMark {
                    id: row.get(0)?,
                    updated_at: row.get(1)?,
                    head: row.get(2)?,
                    title: row.get(3)?,
                })
            })?
            .collect()
        });
        match marks {
            Err(IndexError::Missing) => Ok(Vec::new()),
            marks => marks,
        }
    }

    /// Returns the ids of the turns of a session of segue that the index has, in order.
    pub fn own_turns(&self, id: &SessionId) -> Result<Vec<String>, IndexError> {
        let known = self.reading(|db| {
            let session: Option<i64> = db
                .prepare_cached("SELECT id FROM session WHERE provider = ?1 AND native_id = ?2")?
                .query_row([OWN, id.as_str()], |row| row.get(0))
                .optional()?;
            let Some(session) = session else {
                return Ok(Vec::new());
            };
            let range = [turn_id(session, 0), turn_id(session + 1, 0) - 1];
            db.prepare_cached("SELECT after FROM turn WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?
                .query_map(range, |row| row.get::<_, Option<String>>(0))?
                .map(|after| {
                    after.map(|after| after.as_deref().and_then(own_id).unwrap_or_default())
                })
                .collect()
        });
        match known {
            Err(IndexError::Missing) => Ok(Vec::new()),
            known => known,
        }
    }

    /// Adds new turns of segue's own sessions. Returns `false` if another process is still writing to the index after
    /// `patience`.
    pub fn take_own(
        &self,
        sessions: &[OwnSession],
        patience: Duration,
    ) -> Result<bool, IndexError> {
        let Some(_lock) = self.lock(patience)? else {
            return Ok(false);
        };
        let db = schema::open_to_write(&self.path)?;
        let mut writer = Writer::new(&db)?;
        for own in sessions {
            let Some(placed) = own.placed() else { continue };
            let there = writer.session(OWN, own.id.as_str())?;
            // The index was emptied since the caller read it. The next refresh adds the complete session.
            if there.is_none() && own.keep > 0 {
                continue;
            }
            let turns: Vec<Passage> = own.turns.iter().map(OwnTurn::passage).collect();
            let session = if let Some(session) = there {
                writer.append(session, &placed, State::Live, own.keep + 1, &turns)?;
                session
            } else {
                let mut growing = writer.grow();
                writer.add(&mut growing, &turns)?;
                writer.title(growing.id, &placed)?;
                writer.replace(OWN, &growing, &placed, None, State::Live)?;
                growing.id
            };
            writer.ends_with(session, own.head)?;
        }
        writer.commit()?;
        Ok(true)
    }

    /// Removes a session of segue that no longer exists. Returns `false` if another process is still writing to the
    /// index after `patience`.
    pub fn forget_own(&self, id: &SessionId, patience: Duration) -> Result<bool, IndexError> {
        self.forget_row(OWN, id.as_str(), patience)
    }

    /// Removes a native session. The next refresh restores it if it still exists. Returns `false` if another process is
    /// still writing to the index after `patience`.
    pub fn forget(
        &self,
        provider: &str,
        id: &NativeId,
        patience: Duration,
    ) -> Result<bool, IndexError> {
        self.forget_row(provider, id.as_str(), patience)
    }

    fn forget_row(&self, provider: &str, id: &str, patience: Duration) -> Result<bool, IndexError> {
        let Some(_lock) = self.lock(patience)? else {
            return Ok(false);
        };
        let db = schema::open_to_write(&self.path)?;
        let mut writer = Writer::new(&db)?;
        if let Some(session) = writer.session(provider, id)? {
            writer.forget(session)?;
        }
        writer.forget_places(provider, id)?;
        writer.commit()?;
        Ok(true)
    }
}

impl OwnSession {
    fn placed(&self) -> Option<Placed> {
        let head = Head {
            kind: Kind::Conversation,
            cwd: Some(self.cwd.clone()),
            created_at: Some(self.created_at),
            title: Some(self.title.clone()),
            version: Some(self.provider.clone()),
            ..Head::new(NativeId::parse(self.id.as_str()).ok()?, self.updated_at)
        };
        Some(Placed {
            head,
            project: Some(self.project.clone()),
            bytes: 0,
        })
    }
}

impl OwnTurn {
    fn passage(&self) -> Passage {
        Passage {
            at: Some(self.at),
            after: Some(Mark::Id(self.id.clone())),
            messages: u32::try_from(self.messages.len()).unwrap_or(u32::MAX),
            texts: Texts::bounded(&self.messages).spaced(),
            ..Passage::default()
        }
    }
}

fn own_id(mark: &str) -> Option<String> {
    match mark.parse() {
        Ok(Mark::Id(id)) => Some(id),
        _ => None,
    }
}
