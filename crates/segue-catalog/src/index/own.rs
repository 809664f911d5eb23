//! segue's own sessions in the index: only their words. All else about them is in the store, which is always right.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};
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
    /// How many of its turns the index has, and may keep.
    pub keep: u32,
    /// The turns after those.
    pub turns: Vec<OwnTurn>,
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
    /// When the newest of segue's own sessions that the index has was last touched.
    pub fn own_seen(&self) -> Result<Option<Timestamp>, IndexError> {
        match self.reading(newest) {
            Ok(at) => Ok(at.and_then(|at| Timestamp::from_millisecond(at).ok())),
            Err(IndexError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Which turns of one of segue's own sessions the index has, in their order, and when the session was touched.
    pub fn own_turns(
        &self,
        id: &SessionId,
    ) -> Result<Option<(Vec<String>, Timestamp)>, IndexError> {
        let known = self.reading(|db| {
            let session = db
                .prepare_cached(
                    "SELECT id, updated_at FROM session WHERE provider = ?1 AND native_id = ?2",
                )?
                .query_row([OWN, id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((session, updated)) = session else {
                return Ok(None);
            };
            let range = [turn_id(session, 0), turn_id(session + 1, 0) - 1];
            let turns = db
                .prepare_cached("SELECT after FROM turn WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?
                .query_map(range, |row| row.get::<_, Option<String>>(0))?
                .map(|after| {
                    after.map(|after| after.as_deref().and_then(own_id).unwrap_or_default())
                })
                .collect::<rusqlite::Result<Vec<String>>>()?;
            Ok(Some((turns, updated)))
        });
        match known {
            Ok(known) => Ok(known.and_then(|(turns, updated)| {
                Some((turns, Timestamp::from_millisecond(updated).ok()?))
            })),
            Err(IndexError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes what is new in segue's own sessions since what [`Index::own_seen`] told. Whether it could: somebody else
    /// may be at it, or have emptied the index meanwhile, so that more than these would be new.
    pub fn take_own(
        &self,
        sessions: &[OwnSession],
        since: Option<Timestamp>,
        patience: Duration,
    ) -> Result<bool, IndexError> {
        let Some(_lock) = self.lock(patience)? else {
            return Ok(false);
        };
        let db = schema::open_to_write(&self.path)?;
        if since.is_some() && newest(&db)?.is_none() {
            return Ok(false);
        }
        let mut writer = Writer::new(&db)?;
        for own in sessions {
            let Some(placed) = own.placed() else { continue };
            let turns: Vec<Passage> = own.turns.iter().map(OwnTurn::passage).collect();
            if let Some(session) = writer.session(OWN, own.id.as_str())? {
                writer.append(session, &placed, State::Live, own.keep + 1, &turns)?;
            } else {
                let mut growing = writer.grow();
                writer.add(&mut growing, &turns)?;
                writer.title(growing.id, &placed)?;
                writer.replace(OWN, &growing, &placed, None, State::Live)?;
            }
        }
        writer.commit()?;
        Ok(true)
    }

    /// Forgets one of segue's own sessions, which is not there any more.
    pub fn forget_own(&self, id: &SessionId, patience: Duration) -> Result<bool, IndexError> {
        self.forget_row(OWN, id.as_str(), patience)
    }

    /// Forgets a native session. One that is still there comes back once it changes.
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
        writer.commit()?;
        Ok(true)
    }
}

/// When the newest of segue's own sessions was last touched.
fn newest(db: &Connection) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT max(updated_at) FROM session WHERE provider = ?1")?
        .query_row([OWN], |row| row.get(0))
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
