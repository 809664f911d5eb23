//! opencode: a database `opencode.db`; before version 1.2 `storage/{session,message,part}/…/<id>.json`
//!
//! Both hold the same JSON objects. A message is a prompt or one request to the model, and its parts are what was
//! said and done in it. Objects are changed in place: what was reverted stays until the conversation goes on, and
//! then is deleted, so for us it ends where the revert says. A fork is a copy that does not tell what of.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Row};
use segue_core::{
    InlineData, Json, Message, NativeId, Part, Role, Title, TitleSource, TurnState, Usage,
};
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::dialect::{Malformed, Told};
use crate::found::IdHint;
use crate::injected::{BY_OPENCODE, begins_with};
use crate::json::{Text, lossy};
use crate::lines::LONGEST;
use crate::{
    Event, Found, Head, Kind, Mark, NativeTurn, ReadError, Reader, Record, Records, Said, Skipped,
    Start, Whereabouts, conversation,
};

/// opencode's sessions.
#[derive(Debug)]
pub struct Opencode {
    data: PathBuf,
    last: Last,
}

/// The database that was read last: thousands of heads come out of one, and the turns of a session one by one.
type Last = Arc<Mutex<Option<Database>>>;

fn keep(last: &Last, database: Database) {
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(database);
}

impl Opencode {
    /// `data` is `$XDG_DATA_HOME/opencode`, usually `~/.local/share/opencode`.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            last: Last::default(),
        }
    }

    fn store(&self, found: &Found) -> Result<Lent, ReadError> {
        let store = if is_database(&found.path) {
            Store::Database(self.database(&found.path)?)
        } else {
            Store::Files(self.data.join("storage"), found.path.clone())
        };
        let last = Arc::clone(&self.last);
        Ok(Lent { store, last })
    }

    fn database(&self, path: &Path) -> Result<Database, ReadError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.take_if(|database| database.path == path);
        let Some(mut database) = last else {
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
                    .and_then(|database| Ok((database.list()?, keep(&self.last, database))));
                match listed {
                    Ok((found, ())) => there.found.extend(found),
                    Err(error) => there.unreadable.push(error),
                }
            }
        }
        // The files stay where they were after their move into the database.
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
        if let (Some(before), Some(first)) = (&skipped, all.first_mut()) {
            first.after = Some(Mark::Id(before.clone()));
        }
        let more = all.len().saturating_sub(turns);
        all.drain(..more);
        Ok((all, skipped.is_none() && more == 0))
    }
}

/// There is one database for each channel that a person has installed opencode from.
fn is_database(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("opencode")) && path.extension() == Some("db".as_ref())
}

/// What we read in the place of an object that is too long. It is none itself.
const TOO_LONG: &str = "too long";

/// Where the objects are.
enum Store {
    Database(Database),
    /// The directory of all objects, and the file of the session itself.
    Files(PathBuf, PathBuf),
}

/// A store that is being read. Its database is kept for the next read.
struct Lent {
    store: Store,
    last: Last,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let nothing = Store::Files(PathBuf::new(), PathBuf::new());
        if let Store::Database(database) = std::mem::replace(&mut self.store, nothing) {
            keep(&self.last, database);
        }
    }
}

/// Which messages of a session: all, or those from one of them on, or up to one of them. Both count.
#[derive(Clone, Copy, Default)]
struct Span<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
}

impl Store {
    /// Takes note of what was written since the last look.
    fn refresh(&mut self) -> Result<(), ReadError> {
        match self {
            Self::Database(database) => database.refresh(),
            Self::Files(..) => Ok(()),
        }
    }

    /// The session itself; none if it is not there any more.
    fn session(&self, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match self {
            Self::Database(database) => {
                // As the file was, so that one type reads both.
                database.one(
                    "SELECT json_object('parentID', parent_id, 'directory', directory, 'title', title,
                        'version', version, 'time', json_object('created', time_created),
                        'revert', CASE WHEN json_valid(revert) THEN json(revert) END)
                    FROM session WHERE id = ?1",
                    [id],
                )
            }
            Self::Files(_, path) => read(path),
        }
    }

    /// The ids of its messages, in order; `most` of them where reading all would take longer.
    fn ids(&self, session: &str, span: Span<'_>, most: u32) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Database(database) => database.ids(session, span, most),
            Self::Files(storage, _) => {
                let mut ids = names(&storage.join("message").join(session))?;
                let inside = |id: &str| {
                    span.from.is_none_or(|from| id >= from) && span.to.is_none_or(|to| id <= to)
                };
                ids.retain(|id| inside(id));
                Ok(ids)
            }
        }
    }

    /// One of the first messages, and its id.
    fn nth(&self, session: &str, nth: u32) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        match self {
            Self::Database(database) => database.nth(session, nth),
            Self::Files(..) => {
                let ids = self.ids(session, Span::default(), u32::MAX)?;
                let Some(id) = ids.into_iter().nth(nth as usize) else {
                    return Ok(None);
                };
                let message = self.message(session, &id)?;
                Ok(message.map(|message| (id, message)))
            }
        }
    }

    fn message(&self, session: &str, id: &str) -> Result<Option<Vec<u8>>, ReadError> {
        match self {
            Self::Database(database) => {
                let query = "SELECT CASE WHEN octet_length(data) <= ?2 THEN data ELSE ?3 END
                    FROM message WHERE id = ?1";
                database.one(query, (id, LONGEST, TOO_LONG))
            }
            Self::Files(storage, _) => read(&storage.join(format!("message/{session}/{id}.json"))),
        }
    }

    /// The parts of a message, in order, each with its id.
    fn parts(&self, message: &str, each: &mut dyn FnMut(&str, &[u8])) -> Result<(), ReadError> {
        match self {
            Self::Database(database) => database.parts(message, each),
            Self::Files(storage, _) => {
                let directory = storage.join("part").join(message);
                for id in names(&directory)? {
                    if let Some(part) = read(&directory.join(format!("{id}.json")))? {
                        each(&id, &part);
                    }
                }
                Ok(())
            }
        }
    }
}

/// The names of the objects in a directory, in order: their ids begin with the time.
fn names(directory: &Path) -> Result<Vec<String>, ReadError> {
    let mut there = Whereabouts::default();
    let mut names: Vec<String> = Vec::new();
    for entry in there.entries(directory) {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        names.extend(id.filter(|_| is_file).map(str::to_owned));
    }
    names.sort_unstable();
    there.unreadable.pop().map_or(Ok(names), Err)
}

/// An object in a file; none if it is gone.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length > LONGEST => Ok(Some(TOO_LONG.into())),
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ReadError::io(path, error)),
    }
}

/// A database of another program, which we must not change and not hold up.
///
/// Each query is one short look at it. Opened in the ordinary way for reading, SQLite would still make the files
/// that go with a log of changes (`-wal`, `-shm`), or write into the latter.
#[derive(Debug)]
struct Database {
    path: PathBuf,
    connection: Connection,
    /// How it was if nobody had it open. Then it is read as one that does not change.
    at_rest: Option<AtRest>,
}

/// The size of a file, and when it was written.
type Version = (u64, SystemTime);

/// A database that nobody has open, and what was left in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AtRest {
    file: Version,
    log: Option<Version>,
}

impl AtRest {
    fn look(path: &Path) -> Option<Self> {
        let log = filled(&beside(path, "-wal"));
        version(path).map(|file| Self { file, log })
    }
}

impl Database {
    fn open(path: &Path) -> Result<Self, ReadError> {
        if !path.is_file() {
            // A pipe would be waited for.
            return Err(ReadError::not_a_session(path, "it is no file"));
        }
        let at_rest = at_rest(path);
        let log_alone = at_rest.is_some_and(|at_rest| at_rest.log.is_some());
        let how = match at_rest {
            // Nobody to lock out, so the log's index can be in memory.
            Some(_) if log_alone => "&vfs=unix-none",
            Some(_) => "&immutable=1",
            None if beside(path, "-shm").exists() => "&readonly_shm=1",
            // It has no log, but a journal.
            None => "",
        };
        let mut uri = String::from("file:");
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    uri.push(char::from(*byte));
                }
                _ => uri.extend(format!("%{byte:02x}").chars()),
            }
        }
        uri.push_str("?mode=ro");
        uri.push_str(how);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        #[expect(clippy::disallowed_methods, reason = "this database is not ours")]
        let connection = Connection::open_with_flags(uri, flags);
        let connection = connection.and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(1))?;
            // Or each new value of a parameter would have its statement parsed again.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            if log_alone {
                connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                // Or it would take the log for its own, and delete it.
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            }
            if at_rest.is_some() {
                // One look for all queries takes less time, and there is nobody to be held up.
                connection.execute_batch("BEGIN")?;
            }
            Ok(connection)
        });
        Ok(Self {
            connection: connection.map_err(|error| failed(path, error))?,
            path: path.to_owned(),
            at_rest,
        })
    }

    /// Opens it again if somebody has written to it.
    fn refresh(&mut self) -> Result<(), ReadError> {
        if self.at_rest.is_some() && self.at_rest != AtRest::look(&self.path) {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<Found>, ReadError> {
        self.ask(|connection| {
            let mut statement = connection.prepare(
                "SELECT id, max(time_updated, coalesce((SELECT message.time_updated FROM message
                        WHERE session_id = session.id ORDER BY time_created DESC, id DESC LIMIT 1), 0)),
                    time_archived IS NOT NULL
                FROM session",
            )?;
            let mut rows = statement.query([])?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str().ok();
                let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) else {
                    continue;
                };
                let modified = row.get(1).ok().map(Timestamp::from_millisecond);
                all.push(Found {
                    path: self.path.clone(),
                    id: IdHint::Whole(id.to_owned()),
                    // The size of the database says nothing of one session, and changes with every other.
                    size: 0,
                    modified: modified.and_then(Result::ok).unwrap_or(Timestamp::UNIX_EPOCH),
                    archived: row.get(2)?,
                });
            }
            Ok(all)
        })
    }

    fn ids(&self, session: &str, span: Span<'_>, most: u32) -> Result<Vec<String>, ReadError> {
        let place = "(SELECT time_created, id FROM message WHERE session_id = ?1 AND id =";
        let from = span
            .from
            .map(|_| format!("AND (time_created, id) >= {place} ?2)"));
        let to = span
            .to
            .map(|_| format!("AND (time_created, id) <= {place} ?3)"));
        let query = format!(
            "SELECT id FROM message WHERE session_id = ?1 {} {} ORDER BY time_created, id LIMIT ?4",
            from.unwrap_or_default(),
            to.unwrap_or_default(),
        );
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(&query)?;
            let id = |row: &Row<'_>| Ok(row.get_ref(0)?.as_str().unwrap_or_default().to_owned());
            let ids = statement.query_map((session, span.from, span.to, most), id)?;
            ids.collect()
        })
    }

    fn nth(&self, session: &str, nth: u32) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, CASE WHEN octet_length(data) <= ?3 THEN data ELSE ?4 END FROM message
                WHERE session_id = ?1 ORDER BY time_created, id LIMIT 1 OFFSET ?2",
            )?;
            let message = statement.query_row((session, nth, LONGEST, TOO_LONG), |row| {
                let id = row.get_ref(0)?.as_str().unwrap_or_default();
                Ok((id.to_owned(), bytes(row.get_ref(1)?).to_vec()))
            });
            message.optional()
        })
    }

    /// One value of one row.
    fn one(&self, query: &str, values: impl Params) -> Result<Option<Vec<u8>>, ReadError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(query)?;
            let value = statement.query_row(values, |row| Ok(bytes(row.get_ref(0)?).to_vec()));
            value.optional()
        })
    }

    fn parts(&self, message: &str, each: &mut dyn FnMut(&str, &[u8])) -> Result<(), ReadError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, CASE WHEN octet_length(data) <= ?2 THEN data ELSE ?3 END FROM part
                WHERE message_id = ?1 ORDER BY id",
            )?;
            let mut rows = statement.query((message, LONGEST, TOO_LONG))?;
            while let Some(row) = rows.next()? {
                let id = row.get_ref(0)?.as_str().unwrap_or_default();
                each(id, bytes(row.get_ref(1)?));
            }
            Ok(())
        })
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ReadError> {
        question(&self.connection).map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: rusqlite::Error) -> ReadError {
    ReadError::io(path, io::Error::other(error))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// How a database is if nobody has it open.
fn at_rest(path: &Path) -> Option<AtRest> {
    let at_rest = AtRest::look(path)?;
    let journal = filled(&beside(path, "-journal")).is_some();
    let open = at_rest.log.is_some() && beside(path, "-shm").exists();
    (!journal && !open).then_some(at_rest)
}

fn filled(path: &Path) -> Option<Version> {
    version(path).filter(|(size, _)| *size > 0)
}

fn version(path: &Path) -> Option<Version> {
    let data = fs::metadata(path).ok()?;
    Some((data.len(), data.modified().ok()?))
}

/// The bytes of a text; nothing of what is no text.
fn bytes(value: ValueRef<'_>) -> &[u8] {
    value.as_bytes().unwrap_or_default()
}

/// A session, as far as it concerns us.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session<'a> {
    #[serde(borrow, default, rename = "parentID")]
    parent: Option<Text<'a>>,
    #[serde(borrow, default)]
    directory: Option<Text<'a>>,
    #[serde(borrow, default)]
    title: Option<Text<'a>>,
    #[serde(borrow, default)]
    version: Option<Text<'a>>,
    #[serde(default)]
    time: Times,
    #[serde(borrow, default)]
    revert: Option<Revert<'a>>,
}

impl Session<'_> {
    /// What it is called, unless that is what every new session is called.
    fn title(&self) -> Option<Title> {
        let title = self.title.as_deref()?;
        let begins = ["New session - ", "Child session - "];
        let time = begins.iter().find_map(|begin| title.strip_prefix(begin));
        let default = time.and_then(|time| time.get(..24)?.parse::<Timestamp>().ok());
        if default.is_some() {
            return None;
        }
        // Whether a person chose it is not written down.
        Title::given(title, TitleSource::Model).ok()
    }
}

#[derive(Deserialize)]
struct Revert<'a> {
    #[serde(borrow, rename = "messageID")]
    message: Text<'a>,
    #[serde(borrow, default, rename = "partID")]
    part: Option<Text<'a>>,
}

/// Milliseconds. Which of them there are depends on what they belong to.
#[derive(Deserialize, Default)]
struct Times {
    created: Option<Number>,
    completed: Option<Number>,
    start: Option<Number>,
    end: Option<Number>,
}

fn moment(time: Option<&Number>) -> Option<Timestamp> {
    Timestamp::from_millisecond(time?.as_i64()?).ok()
}

/// A message without its parts.
#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(default)]
    time: Times,
    #[serde(borrow, default)]
    finish: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<Fault<'a>>,
    /// That an answer is a summary, or the changes that came of a prompt.
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Fault<'a> {
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
}

impl Info<'_> {
    fn end(&self) -> Option<TurnState> {
        if let Some(error) = &self.error {
            let aborted = error.name.as_deref() == Some("MessageAbortedError");
            return Some(if aborted {
                TurnState::Cancelled
            } else {
                TurnState::Failed
            });
        }
        self.time.completed.as_ref()?;
        // With these it asks the model once more.
        let goes_on = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        (!goes_on).then_some(TurnState::Finished)
    }
}

/// A part. Which of these fields it has depends on its type.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(default)]
    synthetic: Option<bool>,
    #[serde(default)]
    ignored: Option<bool>,
    #[serde(default)]
    time: Option<Times>,
    #[serde(borrow, default)]
    tool: Option<Text<'a>>,
    #[serde(borrow, default, rename = "callID")]
    call: Option<Text<'a>>,
    #[serde(borrow, default)]
    state: Option<State<'a>>,
    #[serde(borrow, default)]
    mime: Option<Text<'a>>,
    #[serde(borrow, default)]
    url: Option<Text<'a>>,
    #[serde(borrow, default)]
    prompt: Option<Text<'a>>,
    #[serde(default)]
    tokens: Option<Tokens>,
}

/// How far a tool has come.
#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow, default)]
    status: Option<Text<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    time: Option<Times>,
}

#[derive(Deserialize)]
struct Tokens {
    total: Option<Number>,
    input: Option<Number>,
    output: Option<Number>,
    reasoning: Option<Number>,
    #[serde(default)]
    cache: Cached,
}

#[derive(Deserialize, Default)]
struct Cached {
    read: Option<Number>,
    write: Option<Number>,
}

impl From<&Tokens> for Usage {
    fn from(tokens: &Tokens) -> Self {
        let count = |number: &Option<Number>| number.as_ref().and_then(Number::as_u64);
        let plus = |a: Option<u64>, b: &Option<Number>| {
            a.map(|a| a.saturating_add(count(b).unwrap_or_default()))
        };
        let mut output = count(&tokens.output);
        // Thoughts are counted apart since there is a total.
        if tokens.total.is_some() {
            output = plus(output, &tokens.reasoning);
        }
        let input = plus(count(&tokens.input), &tokens.cache.read);
        let input = plus(input, &tokens.cache.write);
        let both = input.map(|input| input.saturating_add(output.unwrap_or_default()));
        let total = count(&tokens.total).or(both);
        Self {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: count(&tokens.cache.read),
            total_tokens: total,
            context_tokens: total,
            context_window: None,
        }
    }
}

/// What the parts of a message come to.
#[derive(Default)]
struct Telling {
    at: Option<Timestamp>,
    by_user: bool,
    asked: Vec<Part>,
    summary: Option<String>,
    events: Vec<Event>,
}

impl Telling {
    fn new(info: &Info<'_>) -> Self {
        let by_user = &*info.role == "user";
        let summary = info.summary.is_some_and(|summary| summary.get() == "true");
        Self {
            at: moment(info.time.created.as_ref()),
            by_user,
            summary: (summary && !by_user).then(String::new),
            ..Self::default()
        }
    }

    fn take(&mut self, id: &str, part: &str) -> Result<(), Malformed> {
        let piece: Piece<'_> = serde_json::from_str(part)?;
        if self.by_user {
            self.asked.extend(asked(&piece));
            return Ok(());
        }
        match &*piece.r#type {
            "text" | "reasoning" => {
                let text = piece.text.as_deref().unwrap_or_default();
                if let Some(summary) = &mut self.summary {
                    if &*piece.r#type == "text" {
                        summary.push_str(text);
                    }
                } else if !text.is_empty() {
                    let thought = &*piece.r#type == "reasoning";
                    let part = if thought { Part::Thought } else { Part::Text };
                    self.say(Role::Assistant, part(text.to_owned()), piece.time.as_ref());
                }
            }
            "tool" => self.tool(&piece),
            "file" => self.say(Role::Assistant, inline(&piece), None),
            "step-finish" => {
                let usage = piece.tokens.as_ref().map(Usage::from);
                self.events.extend(usage.map(|usage| Event::Used {
                    request: Some(id.to_owned()),
                    usage,
                }));
            }
            "step-start" | "snapshot" | "patch" | "retry" | "agent" | "compaction" | "subtask" => {}
            _ => {
                let part = Part::Unknown(Json::parse(part).map_err(|_| Malformed)?);
                self.say(Role::Assistant, part, None);
            }
        }
        Ok(())
    }

    fn tool(&mut self, piece: &Piece<'_>) {
        let filled = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let state = piece.state.as_ref();
        let args = state.and_then(|state| state.input);
        let time = state.and_then(|state| state.time.as_ref());
        let call = Part::FunctionCall {
            id: filled(&piece.call),
            name: filled(&piece.tool),
            args: args.map_or_else(Json::empty_object, Json::from),
        };
        let at = moment(time.and_then(|time| time.start.as_ref())).or(self.at);
        self.push(Role::Assistant, call, at, true);
        let Some(state) = state else { return };
        let (response, is_error) = match state.status.as_deref() {
            Some("completed") => (state.output, false),
            Some("error") => (state.error, true),
            _ => return,
        };
        let result = Part::FunctionResponse {
            call_id: filled(&piece.call),
            name: filled(&piece.tool),
            response: response.map_or_else(|| Json::string(""), Json::from),
            is_error,
        };
        self.say(Role::Tool, result, time);
    }

    fn say(&mut self, role: Role, part: Part, time: Option<&Times>) {
        let end = time.and_then(|time| moment(time.end.as_ref()));
        let start = time.and_then(|time| moment(time.start.as_ref()));
        // What was begun and has no end was cut off, or is being said.
        let complete = start.is_none() || end.is_some();
        self.push(role, part, end.or(start).or(self.at), complete);
    }

    fn push(&mut self, role: Role, part: Part, at: Option<Timestamp>, complete: bool) {
        let mut message = Message::new(role, vec![part], at.unwrap_or(Timestamp::UNIX_EPOCH));
        message.complete = complete;
        self.events.push(Event::Said(Said { key: None, message }));
    }

    fn finish(mut self, info: &Info<'_>) -> Told {
        if self.by_user {
            if !self.asked.is_empty() {
                let at = self.at.unwrap_or(Timestamp::UNIX_EPOCH);
                let message = Message::new(Role::User, self.asked, at);
                self.events.push(Event::Prompt(Said { key: None, message }));
            }
        } else if let Some(summary) = self.summary {
            // It ends no turn: one that was to be continued goes on after it.
            if info.error.is_none() {
                let summary = (!summary.is_empty()).then_some(summary);
                self.events.push(Event::Compacted(summary));
            }
        } else {
            self.events.extend(info.end().map(Event::Ended));
        }
        let completed = moment(info.time.completed.as_ref());
        Told {
            at: completed.or(self.at),
            events: self.events,
        }
    }
}

/// What a person put into a prompt. Files that they named are read into it, which they did not write.
fn asked(piece: &Piece<'_>) -> Option<Part> {
    let text = match &*piece.r#type {
        "file" => return Some(inline(piece)),
        "text" if piece.synthetic == Some(true) || piece.ignored == Some(true) => None,
        "text" => piece.text.as_deref(),
        "subtask" => piece.prompt.as_deref(),
        _ => None,
    };
    let text = text.filter(|text| !text.trim().is_empty() && !begins_with(text, BY_OPENCODE));
    text.map(|text| Part::Text(text.to_owned()))
}

fn inline(piece: &Piece<'_>) -> Part {
    let url = piece.url.as_deref().unwrap_or_default();
    let data = url
        .strip_prefix("data:")
        .and_then(|data| data.split_once(";base64,"));
    let mime = piece.mime.as_deref().unwrap_or("application/octet-stream");
    Part::InlineData(InlineData {
        mime_type: mime.to_owned(),
        data: data.map(|(_, data)| data.to_owned()),
    })
}

/// How many ids are read at a time.
const SOME: u32 = 100;

/// The messages of a session that count, one after the other.
struct Messages {
    session: String,
    lent: Lent,
    /// What is read next.
    ids: std::vec::IntoIter<String>,
    /// How many of them are asked for, and the last of those if there may be more.
    some: u32,
    last: Option<String>,
    revert: Option<Reverted>,
    title: Option<Title>,
    skipped: Skipped,
}

/// Where what was reverted begins: with a message, or with a part of it.
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

    /// Goes to the beginning, or to what follows a message. Tells whether that is there.
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

    /// Goes to where the last turns begin. Returns the message before that; none at the beginning.
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
            // Deleted since we began.
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

/// The text of an object, if it is not too long.
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

/// How many messages are looked at for the first prompt.
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
            Event::Prompt(said) => Some(said.message.words()),
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
        branch: None,
        created_at: moment(session.time.created.as_ref()),
        updated_at: found.modified,
        title: session.title().or_else(prompted),
        forked_from: None,
        version: session.version.as_deref().map(str::to_owned),
        first_prompt,
        id,
    })
}

#[cfg(test)]
mod tests;
