//! opencode sessions: a database `opencode.db`; before version 1.2 `storage/{session,message,part}/…/<id>.json`
//!
//! Both contain the same JSON objects. A message is a prompt or one request to the model, and its parts are the texts
//! and tool calls in it. opencode changes objects in place. Reverted messages exist until the user continues the
//! conversation, and are then deleted. The reader therefore ends the conversation at the position of the revert. A fork
//! is a copy without a reference to its parent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use segue_core::id::NativeId;
use segue_core::session::Title;
use serde::Deserialize;

use super::database::OpencodeDatabase;
use super::schema::{
    OpencodeEventCollector, OpencodeFileMessageInfo, OpencodeFileSession, parse_timestamp,
};
use super::storage::{MessageRange, OVERSIZED_PLACEHOLDER, OpencodeStore, StoreGuard, is_database};
use crate::reader::borrowed_json::decode_lossy;
use crate::reader::discovery::IdHint;
use crate::reader::line_format::LineEvents;
use crate::reader::session_head::truncate_first_prompt;
use crate::{
    Mark, NativeRecord, NativeSessionKind, NativeTurn, ReadError, ReadStart, Reader, RecordEvent,
    Records, SessionHead, SessionLocation, SessionScan, SessionStorage, SkippedContent, read_turns,
};

/// Reader of opencode's sessions.
#[derive(Debug)]
pub struct OpencodeReader {
    pub(super) data_dir: PathBuf,
    cached_databases: DatabaseCache,
}

/// Cache of open databases, one for each thread that reads, because one database contains thousands of heads.
pub(super) type DatabaseCache = Arc<Mutex<Vec<OpencodeDatabase>>>;

/// Maximum number of cached databases. At most this many threads read at once.
const MAX_CACHED_DATABASES: usize = 8;

pub(super) fn cache_database(cache: &DatabaseCache, database: OpencodeDatabase) {
    let mut databases = cache.lock().unwrap_or_else(PoisonError::into_inner);
    databases.truncate(MAX_CACHED_DATABASES - 1);
    databases.push(database);
}

impl OpencodeReader {
    /// Creates a reader. `data_dir` is `$XDG_DATA_HOME/opencode`, by default `~/.local/share/opencode`.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            cached_databases: DatabaseCache::default(),
        }
    }

    fn open_store(&self, location: &SessionLocation) -> Result<StoreGuard, ReadError> {
        let store = if is_database(&location.path) {
            OpencodeStore::Database(self.open_database(&location.path)?)
        } else {
            OpencodeStore::Files(self.data_dir.join("storage"), location.path.clone())
        };
        let cache = Arc::clone(&self.cached_databases);
        Ok(StoreGuard { store, cache })
    }

    fn open_database(&self, path: &Path) -> Result<OpencodeDatabase, ReadError> {
        let cached = {
            let mut databases = self
                .cached_databases
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let position = databases.iter().rposition(|database| database.path == path);
            position.map(|index| databases.swap_remove(index))
        };
        let Some(mut database) = cached else {
            return OpencodeDatabase::open(path);
        };
        database.refresh()?;
        Ok(database)
    }
}

impl Reader for OpencodeReader {
    fn provider(&self) -> &'static str {
        "opencode"
    }

    fn scan_sessions(&self) -> SessionScan {
        let mut scan = SessionScan::default();
        for entry in scan.read_entries(&self.data_dir) {
            let path = entry.path();
            if is_database(&path) {
                let listed = OpencodeDatabase::open(&path).and_then(|database| {
                    Ok((
                        database.list_sessions()?,
                        cache_database(&self.cached_databases, database),
                    ))
                });
                match listed {
                    Ok((locations, ())) => scan.locations.extend(locations),
                    Err(error) => scan.unreadable.push(error),
                }
            }
        }
        // opencode does not delete the files of sessions that it has moved into the database.
        let ids = scan
            .locations
            .iter()
            .map(|location| match &location.id_hint {
                IdHint::Complete(id) | IdHint::Prefix(id) => id.clone(),
            });
        let migrated_ids: HashSet<String> = ids.collect();
        for project in scan.read_entries(&self.data_dir.join("storage/session")) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            for entry in scan.read_entries(&project.path()) {
                let name = entry.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
                let id = id.filter(|id| NativeId::parse(id).is_ok() && !migrated_ids.contains(*id));
                if let Some(id) = id {
                    scan.add_file(&entry, IdHint::Complete(id.to_owned()), false);
                }
            }
        }
        scan
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        read_head(&self.open_store(location)?.store, location)
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        let guard = self.open_store(location)?;
        Ok(Box::new(OpencodeRecords::open(
            guard,
            location,
            start,
            ID_PAGE_SIZE,
        )?))
    }

    fn read_recent_turns(
        &self,
        location: &SessionLocation,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let guard = self.open_store(location)?;
        let mut records = OpencodeRecords::open(guard, location, &ReadStart::Beginning, u32::MAX)?;
        let skipped = records.skip_to_last_turns(turns)?;
        let mut all_turns = read_turns(&mut records)?.into_turns();
        let excess = all_turns.len().saturating_sub(turns);
        all_turns.drain(..excess);
        Ok((all_turns, skipped.is_none() && excess == 0))
    }

    fn storage(&self) -> Option<&dyn SessionStorage> {
        Some(self)
    }
}

/// Number of ids that are read at a time.
const ID_PAGE_SIZE: u32 = 100;

/// The messages of a session that count, in order.
struct OpencodeRecords {
    session_id: String,
    guard: StoreGuard,
    /// Ids of the next messages.
    ids: std::vec::IntoIter<String>,
    /// Number of ids per query. `page_end` is the last id of a query that returned this many, because more may follow.
    page_size: u32,
    page_end: Option<String>,
    revert: Option<RevertPoint>,
    title: Option<Title>,
    skipped: SkippedContent,
}

/// Beginning of the reverted messages: a message, or a part of it.
struct RevertPoint {
    message_id: String,
    part_id: Option<String>,
}

impl OpencodeRecords {
    fn open(
        guard: StoreGuard,
        location: &SessionLocation,
        start: &ReadStart,
        page_size: u32,
    ) -> Result<Self, ReadError> {
        let id = parse_session_id(location)?;
        let bytes = read_session(&guard.store, location)?;
        let text = decode_lossy(&bytes);
        let session = parse_session(&text, location)?;
        let mut records = Self {
            session_id: id.as_str().to_owned(),
            guard,
            ids: Vec::new().into_iter(),
            page_size,
            page_end: None,
            revert: None,
            title: session.title(),
            skipped: SkippedContent::default(),
        };
        if let Some(revert) = &session.revert
            && records.read_message(&revert.message_id)?.is_some()
        {
            records.revert = Some(RevertPoint {
                message_id: revert.message_id.to_string(),
                part_id: revert.part_id.as_deref().map(str::to_owned),
            });
        }
        let is_found = match start {
            ReadStart::Beginning => records.seek(None)?,
            ReadStart::After(Mark::Id(mark)) => records.seek(Some(mark))?,
            ReadStart::After(Mark::Line { .. }) => false,
        };
        if let ReadStart::After(mark) = start {
            records.title = None;
            if !is_found {
                return Err(ReadError::mark_not_found(&location.path, mark));
            }
        }
        Ok(records)
    }

    fn read_message(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        self.guard.store.read_message(&self.session_id, id)
    }

    /// Moves to the first message, or to the one that follows `after`. Returns `false` if `after` does not exist.
    fn seek(&mut self, after: Option<&str>) -> Result<bool, ReadError> {
        let range = MessageRange {
            from: after,
            to: self
                .revert
                .as_ref()
                .map(|revert| revert.message_id.as_str()),
        };
        let mut ids = self
            .guard
            .store
            .message_ids(&self.session_id, range, self.page_size)?;
        let is_full_page = ids.len() >= self.page_size as usize;
        self.page_end = ids.last().filter(|_| is_full_page).cloned();
        if let Some(revert) = &self.revert
            && revert.part_id.is_none()
        {
            ids.retain(|id| *id != revert.message_id);
        }
        let mut ids = ids.into_iter();
        let is_found = after.is_none_or(|after| ids.next().as_deref() == Some(after));
        if is_found {
            self.ids = ids;
        }
        Ok(is_found)
    }

    fn next_id(&mut self) -> Result<Option<String>, ReadError> {
        self.guard.store.refresh()?;
        if self.ids.len() == 0
            && let Some(page_end) = self.page_end.take()
        {
            self.seek(Some(&page_end))?;
        }
        Ok(self.ids.next())
    }

    /// Moves to the beginning of the last turns. Returns the message before it. `None` if that is the first message.
    fn skip_to_last_turns(&mut self, turns: usize) -> Result<Option<String>, ReadError> {
        let ids = self.ids.as_slice().to_vec();
        let mut prompt_count = 0;
        for (at, id) in ids.iter().enumerate().rev() {
            let output = self.read_events(id, None, &mut SkippedContent::default())?;
            let has_prompt = output
                .events
                .iter()
                .any(|event| matches!(event, RecordEvent::Prompt(_)));
            prompt_count += usize::from(has_prompt);
            if prompt_count >= turns.max(1) {
                let mut ids = ids;
                let remaining = ids.split_off(at);
                self.ids = remaining.into_iter();
                return Ok(ids.pop());
            }
        }
        Ok(None)
    }

    /// Reads one message, up to the part `end_part`.
    fn read_events(
        &self,
        id: &str,
        end_part: Option<&str>,
        skipped: &mut SkippedContent,
    ) -> Result<LineEvents, ReadError> {
        match self.read_message(id)? {
            Some(message) => {
                read_message_events(&self.guard.store, id, &message, end_part, skipped)
            }
            // The message was deleted after its id was read.
            None => Ok(LineEvents::default()),
        }
    }
}

impl Records for OpencodeRecords {
    fn next(&mut self) -> Result<Option<NativeRecord>, ReadError> {
        while let Some(id) = self.next_id()? {
            let reverted = self
                .revert
                .as_ref()
                .filter(|revert| revert.message_id == id);
            let end_part = reverted.and_then(|revert| revert.part_id.as_deref());
            let mut skipped = self.skipped;
            let output = self.read_events(&id, end_part, &mut skipped)?;
            self.skipped = skipped;
            if output.events.is_empty() {
                continue;
            }
            let title = self.title.take();
            let title_event = title.map(RecordEvent::title);
            return Ok(Some(NativeRecord {
                mark: Mark::Id(id),
                at: output.at,
                events: title_event.into_iter().chain(output.events).collect(),
            }));
        }
        Ok(None)
    }

    fn skipped(&self) -> SkippedContent {
        self.skipped
    }
}

/// Reads the parts of a message, up to the part `end_part`.
fn read_message_events(
    store: &OpencodeStore,
    id: &str,
    message: &[u8],
    end_part: Option<&str>,
    skipped: &mut SkippedContent,
) -> Result<LineEvents, ReadError> {
    let text = decode_text(message, skipped);
    let Some(info) = text
        .as_deref()
        .and_then(|text| parse_object::<OpencodeFileMessageInfo<'_>>(text, skipped))
    else {
        return Ok(LineEvents::default());
    };
    let mut collector = OpencodeEventCollector::new(&info);
    let mut is_included = true;
    store.for_each_part(id, &mut |part_id, bytes| {
        is_included &= end_part.is_none_or(|end_part| end_part != part_id);
        if !is_included {
            return;
        }
        if let Some(text) = decode_text(bytes, skipped)
            && collector.add_part(part_id, &text).is_err()
        {
            skipped.malformed += 1;
        }
    })?;
    let mut output = collector.finish(&info);
    if !is_included {
        output
            .events
            .retain(|event| !matches!(event, RecordEvent::TurnEnded(_)));
    }
    Ok(output)
}

/// Returns the text of an object. `None` if the object is too long.
fn decode_text<'a>(bytes: &'a [u8], skipped: &mut SkippedContent) -> Option<Cow<'a, str>> {
    if bytes == OVERSIZED_PLACEHOLDER.as_bytes() {
        skipped.oversized += 1;
        return None;
    }
    if let Ok(text) = str::from_utf8(bytes) {
        return Some(Cow::Borrowed(text));
    }
    skipped.repaired += 1;
    Some(decode_lossy(bytes))
}

fn parse_object<'a, T: Deserialize<'a>>(text: &'a str, skipped: &mut SkippedContent) -> Option<T> {
    let object = serde_json::from_str(text).ok();
    skipped.malformed += u64::from(object.is_none());
    object
}

fn parse_session_id(location: &SessionLocation) -> Result<NativeId, ReadError> {
    let IdHint::Complete(id) = &location.id_hint else {
        return Err(ReadError::not_a_session(
            &location.path,
            "its name is not a session id",
        ));
    };
    NativeId::parse(id).map_err(|error| ReadError::not_a_session(&location.path, error.to_string()))
}

fn read_session(store: &OpencodeStore, location: &SessionLocation) -> Result<Vec<u8>, ReadError> {
    let bytes = store.read_session(parse_session_id(location)?.as_str())?;
    bytes.ok_or_else(|| ReadError::not_a_session(&location.path, "the session no longer exists"))
}

fn parse_session<'a>(
    text: &'a str,
    location: &SessionLocation,
) -> Result<OpencodeFileSession<'a>, ReadError> {
    serde_json::from_str(text)
        .map_err(|error| ReadError::not_a_session(&location.path, error.to_string()))
}

/// Maximum number of messages that are searched for the first prompt.
const MAX_HEAD_MESSAGES: u32 = 8;

fn read_head(store: &OpencodeStore, location: &SessionLocation) -> Result<SessionHead, ReadError> {
    let id = parse_session_id(location)?;
    let bytes = read_session(store, location)?;
    let text = decode_lossy(&bytes);
    let session = parse_session(&text, location)?;
    let mut first_prompt = None;
    let mut message_count = 0;
    while first_prompt.is_none()
        && message_count < MAX_HEAD_MESSAGES
        && let Some((message, info)) = store.nth_message(id.as_str(), message_count)?
    {
        message_count += 1;
        let output =
            read_message_events(store, &message, &info, None, &mut SkippedContent::default())?;
        first_prompt = output.events.into_iter().find_map(|event| match event {
            RecordEvent::Prompt(keyed_message) => {
                Some(truncate_first_prompt(&keyed_message.message.plain_text()))
            }
            _ => None,
        });
    }
    let title_from_prompt = || first_prompt.as_deref().map(Title::from_prompt);
    Ok(SessionHead {
        kind: if session.parent_id.is_some() {
            NativeSessionKind::Subagent
        } else if message_count == 0 {
            NativeSessionKind::Empty
        } else {
            NativeSessionKind::Conversation
        },
        cwd: session.directory.as_deref().map(str::to_owned),
        created_at: parse_timestamp(session.time.created.as_ref()),
        title: session.title().or_else(title_from_prompt),
        agent_version: session.version.as_deref().map(str::to_owned),
        first_prompt,
        ..SessionHead::new(id, location.modified)
    })
}

#[cfg(test)]
mod tests;
