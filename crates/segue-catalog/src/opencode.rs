//! opencode sessions: a database `opencode.db`; before version 1.2 `storage/{session,message,part}/…/<id>.json`
//!
//! Both contain the same JSON objects. A message is a prompt or one request to the model, and its parts are the texts
//! and tool calls in it. opencode changes objects in place. Reverted messages exist until the user continues the
//! conversation, and are then deleted. The reader therefore ends the conversation at the position of the revert. A fork
//! is a copy without a reference to its parent.

mod belongings;
mod database;
mod objects;
mod store;

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use segue_core::id::NativeId;
use segue_core::session::Title;
use serde::Deserialize;

use self::database::Database;
use self::objects::{Info, Session, Telling, moment};
use self::store::{Lent, Span, Store, TOO_LONG, is_database};
use crate::dialect::Told;
use crate::found::IdHint;
use crate::head::opening;
use crate::json::lossy;
use crate::{
    Event, Found, Head, Keeping, Kind, Mark, NativeTurn, ReadError, Reader, Record, Records,
    Skipped, Start, Whereabouts, conversation,
};

/// Reader of opencode's sessions.
#[derive(Debug)]
pub struct Opencode {
    data: PathBuf,
    kept: Kept,
}

/// Cache of open databases, one for each thread that reads, because one database contains thousands of heads.
type Kept = Arc<Mutex<Vec<Database>>>;

/// Maximum number of cached databases. At most this many threads read at once.
const KEPT: usize = 8;

fn keep(kept: &Kept, database: Database) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.truncate(KEPT - 1);
    kept.push(database);
}

impl Opencode {
    /// Creates a reader. `data` is `$XDG_DATA_HOME/opencode`, by default `~/.local/share/opencode`.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            kept: Kept::default(),
        }
    }

    fn store(&self, found: &Found) -> Result<Lent, ReadError> {
        let store = if is_database(&found.path) {
            Store::Database(self.database(&found.path)?)
        } else {
            Store::Files(self.data.join("storage"), found.path.clone())
        };
        let kept = Arc::clone(&self.kept);
        Ok(Lent { store, kept })
    }

    fn database(&self, path: &Path) -> Result<Database, ReadError> {
        let known = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let known = kept.iter().rposition(|database| database.path == path);
            known.map(|index| kept.swap_remove(index))
        };
        let Some(mut database) = known else {
            return Database::open(path);
        };
        database.refresh()?;
        Ok(database)
    }
}

impl Reader for Opencode {
    fn provider(&self) -> &'static str {
        "opencode"
    }

    fn find(&self) -> Whereabouts {
        let mut there = Whereabouts::default();
        for entry in there.entries(&self.data) {
            let path = entry.path();
            if is_database(&path) {
                let listed = Database::open(&path)
                    .and_then(|database| Ok((database.list()?, keep(&self.kept, database))));
                match listed {
                    Ok((found, ())) => there.found.extend(found),
                    Err(error) => there.unreadable.push(error),
                }
            }
        }
        // opencode does not delete the files of sessions that it has moved into the database.
        let ids = there.found.iter().map(|found| match &found.id {
            IdHint::Whole(id) | IdHint::Begins(id) => id.clone(),
        });
        let moved: HashSet<String> = ids.collect();
        for project in there.entries(&self.data.join("storage/session")) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            for entry in there.entries(&project.path()) {
                let name = entry.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
                let id = id.filter(|id| NativeId::parse(id).is_ok() && !moved.contains(*id));
                if let Some(id) = id {
                    there.add_file(&entry, IdHint::Whole(id.to_owned()), false);
                }
            }
        }
        there
    }

    fn head(&self, found: &Found) -> Result<Head, ReadError> {
        head(&self.store(found)?.store, found)
    }

    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError> {
        let store = self.store(found)?;
        Ok(Box::new(Messages::open(store, found, start, SOME)?))
    }

    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let store = self.store(found)?;
        let mut messages = Messages::open(store, found, &Start::Beginning, u32::MAX)?;
        let skipped = messages.skip_to(turns)?;
        let mut all = conversation(&mut messages)?.into_turns();
        let more = all.len().saturating_sub(turns);
        all.drain(..more);
        Ok((all, skipped.is_none() && more == 0))
    }

    fn keeping(&self) -> Option<&dyn Keeping> {
        Some(self)
    }
}

/// Number of ids that are read at a time.
const SOME: u32 = 100;

/// The messages of a session that count, in order.
struct Messages {
    session: String,
    lent: Lent,
    /// Ids of the next messages.
    ids: std::vec::IntoIter<String>,
    /// Number of ids per query. `last` is the last id of a query that returned this many, because more may follow.
    some: u32,
    last: Option<String>,
    revert: Option<Reverted>,
    title: Option<Title>,
    skipped: Skipped,
}

/// Beginning of the reverted messages: a message, or a part of it.
struct Reverted {
    message: String,
    part: Option<String>,
}

impl Messages {
    fn open(lent: Lent, found: &Found, start: &Start, some: u32) -> Result<Self, ReadError> {
        let id = session_id(found)?;
        let bytes = session_bytes(&lent.store, found)?;
        let text = lossy(&bytes);
        let session = session_in(&text, found)?;
        let mut messages = Self {
            session: id.as_str().to_owned(),
            lent,
            ids: Vec::new().into_iter(),
            some,
            last: None,
            revert: None,
            title: session.title(),
            skipped: Skipped::default(),
        };
        if let Some(revert) = &session.revert
            && messages.message(&revert.message)?.is_some()
        {
            messages.revert = Some(Reverted {
                message: revert.message.to_string(),
                part: revert.part.as_deref().map(str::to_owned),
            });
        }
        let there = match start {
            Start::Beginning => messages.look(None)?,
            Start::After(Mark::Id(mark)) => messages.look(Some(mark))?,
            Start::After(Mark::Line { .. }) => false,
        };
        if let Start::After(mark) = start {
            messages.title = None;
            if !there {
                return Err(ReadError::lost(&found.path, mark));
            }
        }
        Ok(messages)
    }

    fn message(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        self.lent.store.message(&self.session, id)
    }

    /// Moves to the first message, or to the one that follows `after`. Returns `false` if `after` does not exist.
    fn look(&mut self, after: Option<&str>) -> Result<bool, ReadError> {
        let span = Span {
            from: after,
            to: self.revert.as_ref().map(|revert| revert.message.as_str()),
        };
        let mut ids = self.lent.store.ids(&self.session, span, self.some)?;
        let full = ids.len() >= self.some as usize;
        self.last = ids.last().filter(|_| full).cloned();
        if let Some(revert) = &self.revert
            && revert.part.is_none()
        {
            ids.retain(|id| *id != revert.message);
        }
        let mut ids = ids.into_iter();
        let there = after.is_none_or(|after| ids.next().as_deref() == Some(after));
        if there {
            self.ids = ids;
        }
        Ok(there)
    }

    fn next_id(&mut self) -> Result<Option<String>, ReadError> {
        self.lent.store.refresh()?;
        if self.ids.len() == 0
            && let Some(last) = self.last.take()
        {
            self.look(Some(&last))?;
        }
        Ok(self.ids.next())
    }

    /// Moves to the beginning of the last turns. Returns the message before it. `None` if that is the first message.
    fn skip_to(&mut self, turns: usize) -> Result<Option<String>, ReadError> {
        let ids = self.ids.as_slice().to_vec();
        let mut begun = 0;
        for (at, id) in ids.iter().enumerate().rev() {
            let told = self.tell(id, None, &mut Skipped::default())?;
            let begins = told
                .events
                .iter()
                .any(|event| matches!(event, Event::Prompt(_)));
            begun += usize::from(begins);
            if begun >= turns.max(1) {
                let mut ids = ids;
                let rest = ids.split_off(at);
                self.ids = rest.into_iter();
                return Ok(ids.pop());
            }
        }
        Ok(None)
    }

    /// Reads one message, up to the part `cut`.
    fn tell(&self, id: &str, cut: Option<&str>, skipped: &mut Skipped) -> Result<Told, ReadError> {
        match self.message(id)? {
            Some(message) => tell(&self.lent.store, id, &message, cut, skipped),
            // The message was deleted after its id was read.
            None => Ok(Told::default()),
        }
    }
}

impl Records for Messages {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        while let Some(id) = self.next_id()? {
            let reverted = self.revert.as_ref().filter(|revert| revert.message == id);
            let cut = reverted.and_then(|revert| revert.part.as_deref());
            let mut skipped = self.skipped;
            let told = self.tell(&id, cut, &mut skipped)?;
            self.skipped = skipped;
            if told.events.is_empty() {
                continue;
            }
            let title = self.title.take();
            let titled = title.map(|title| Event::Titled { title, of: None });
            return Ok(Some(Record {
                mark: Mark::Id(id),
                at: told.at,
                events: titled.into_iter().chain(told.events).collect(),
            }));
        }
        Ok(None)
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}

/// Reads the parts of a message, up to the part `cut`.
fn tell(
    store: &Store,
    id: &str,
    message: &[u8],
    cut: Option<&str>,
    skipped: &mut Skipped,
) -> Result<Told, ReadError> {
    let text = words(message, skipped);
    let Some(info) = text
        .as_deref()
        .and_then(|text| understood::<Info<'_>>(text, skipped))
    else {
        return Ok(Told::default());
    };
    let mut telling = Telling::new(&info);
    let mut counts = true;
    store.parts(id, &mut |part_id, bytes| {
        counts &= cut.is_none_or(|cut| cut != part_id);
        if !counts {
            return;
        }
        if let Some(text) = words(bytes, skipped)
            && telling.take(part_id, &text).is_err()
        {
            skipped.malformed += 1;
        }
    })?;
    let mut told = telling.finish(&info);
    if !counts {
        told.events
            .retain(|event| !matches!(event, Event::Ended(_)));
    }
    Ok(told)
}

/// Returns the text of an object. `None` if the object is too long.
fn words<'a>(bytes: &'a [u8], skipped: &mut Skipped) -> Option<Cow<'a, str>> {
    if bytes == TOO_LONG.as_bytes() {
        skipped.oversized += 1;
        return None;
    }
    if let Ok(text) = str::from_utf8(bytes) {
        return Some(Cow::Borrowed(text));
    }
    skipped.mended += 1;
    Some(lossy(bytes))
}

fn understood<'a, T: Deserialize<'a>>(text: &'a str, skipped: &mut Skipped) -> Option<T> {
    let object = serde_json::from_str(text).ok();
    skipped.malformed += u64::from(object.is_none());
    object
}

fn session_id(found: &Found) -> Result<NativeId, ReadError> {
    let IdHint::Whole(id) = &found.id else {
        return Err(ReadError::not_a_session(&found.path, "its name is no id"));
    };
    NativeId::parse(id).map_err(|error| ReadError::not_a_session(&found.path, error.to_string()))
}

fn session_bytes(store: &Store, found: &Found) -> Result<Vec<u8>, ReadError> {
    let bytes = store.session(session_id(found)?.as_str())?;
    bytes.ok_or_else(|| ReadError::not_a_session(&found.path, "it was deleted"))
}

fn session_in<'a>(text: &'a str, found: &Found) -> Result<Session<'a>, ReadError> {
    serde_json::from_str(text)
        .map_err(|error| ReadError::not_a_session(&found.path, error.to_string()))
}

/// Maximum number of messages that are searched for the first prompt.
const FIRST_LOOK: u32 = 8;

fn head(store: &Store, found: &Found) -> Result<Head, ReadError> {
    let id = session_id(found)?;
    let bytes = session_bytes(store, found)?;
    let text = lossy(&bytes);
    let session = session_in(&text, found)?;
    let mut first_prompt = None;
    let mut messages = 0;
    while first_prompt.is_none()
        && messages < FIRST_LOOK
        && let Some((message, info)) = store.nth(id.as_str(), messages)?
    {
        messages += 1;
        let told = tell(store, &message, &info, None, &mut Skipped::default())?;
        first_prompt = told.events.into_iter().find_map(|event| match event {
            Event::Prompt(said) => Some(opening(&said.message.words())),
            _ => None,
        });
    }
    let prompted = || first_prompt.as_deref().map(Title::from_prompt);
    Ok(Head {
        kind: if session.parent.is_some() {
            Kind::Subagent
        } else if messages == 0 {
            Kind::Empty
        } else {
            Kind::Conversation
        },
        cwd: session.directory.as_deref().map(str::to_owned),
        created_at: moment(session.time.created.as_ref()),
        title: session.title().or_else(prompted),
        version: session.version.as_deref().map(str::to_owned),
        first_prompt,
        ..Head::new(id, found.modified)
    })
}

#[cfg(test)]
mod tests;
