//! segue's own sessions in the index: only their words. All else about them is in the store, which is always right.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use segue_core::{Message, NativeId, SessionId, Title};

use super::read::{Passage, Placed};
use super::texts::Texts;
use super::write::{Writer, turn_id};
use super::{Index, IndexError, OWN, State, schema};
use crate::{Head, Kind, Mark};

/// One of segue's own sessions, as far as it is searched.
#[derive(Debug, Clone)]
pub struct OwnSession {
    /// What it is called.
    pub id: SessionId,
    /// Its title.
    pub title: Title,
    /// The agent that carries it.
    pub provider: String,
    /// What tells its project from others.
    pub project: String,
    /// Where it works.
    pub cwd: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it was last touched.
    pub updated_at: Timestamp,
    /// The turn it ends with, also one that is still running.
    pub head: Option<i64>,
    /// How many of its turns the index has, and may keep.
    pub keep: u32,
    /// The turns after those.
    pub turns: Vec<OwnTurn>,
}

/// What tells whether one of segue's own sessions is as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnMark {
    /// What the session is called.
    pub id: String,
    /// When it was last touched, in milliseconds.
    pub updated_at: i64,
    /// The turn it ends with.
    pub head: Option<i64>,
    /// Its title.
    pub title: Option<String>,
}

/// A turn of one of segue's own sessions.
#[derive(Debug, Clone)]
pub struct OwnTurn {
    /// What tells it from all other turns.
    pub id: String,
    /// When it ended.
    pub at: Timestamp,
    /// What was said.
    pub messages: Vec<Message>,
}

impl Index {
    /// What the index has of segue's own sessions.
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

    /// Which turns of one of segue's own sessions the index has, in their order.
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

    /// Takes what is new in segue's own sessions. Whether it could: somebody else may be at it.
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
            // The index was emptied meanwhile: the next refresh brings all of it.
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

    /// Forgets one of segue's own sessions, which is not there any more.
    pub fn forget_own(&self, id: &SessionId, patience: Duration) -> Result<bool, IndexError> {
        self.forget_row(OWN, id.as_str(), patience)
    }

    /// Forgets a native session. One that is still there comes back with the next refresh.
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
