//! Codex sessions: `sessions/<year>/<month>/<day>/rollout-<time>-<session id>.jsonl`, and `archived_sessions/`
//!
//! A file is a log of records, compressed with zstd when it is old. A session that was forked or reverted is a new
//! file, which refers to the part of an older file that is still valid ([`history`]). Titles that users gave to
//! sessions are in a separate list next to the sessions.

mod belongings;
mod failure;
mod frame;
mod history;
mod home;
mod lines;
mod meta;
#[cfg(test)]
mod tests;
mod wire;

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::{Title, TitleSource};

use self::history::History;
use self::home::Home;
use self::lines::{Lines, Taskless};
use self::meta::{Meta, without_instructions};
use crate::dialect::{self, Dialect, LineRecords, Told};
use crate::found::IdHint;
use crate::head::opening;
use crate::json::lossy;
use crate::lines::Backwards;
use crate::reader::last_turns;
use crate::{
    Event, Found, Head, Keeping, Kind, Mark, NativeTurn, ReadError, Reader, Records, Start,
    Whereabouts,
};

/// Reader of Codex's sessions.
#[derive(Debug, Clone)]
pub struct Codex {
    home: Home,
}

impl Codex {
    /// Creates a reader. `home` is `$CODEX_HOME`, by default `~/.codex`.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: Home::new(home.into()),
        }
    }

    fn history(&self, found: &Found) -> Result<History, ReadError> {
        History::of(&self.home, &found.path).map_err(|error| ReadError::io(&found.path, error))
    }
}

impl Reader for Codex {
    fn provider(&self) -> &'static str {
        "codex"
    }

    fn find(&self) -> Whereabouts {
        self.home.find()
    }

    fn head(&self, found: &Found) -> Result<Head, ReadError> {
        head(&self.home, found)
    }

    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError> {
        let failed = |error| ReadError::io(&found.path, error);
        let history = self.history(found)?;
        let records = if history.is_packed() {
            let text = history.read().map_err(failed)?;
            let records = LineRecords::<Lines>::over(&found.path, text, 0);
            match start {
                Start::Beginning => records,
                Start::After(mark) => records.pass(mark)?,
            }
        } else {
            let (text, size) = history.open().map_err(failed)?;
            LineRecords::<Lines>::within(&found.path, text, size, start)?
        };
        Ok(Box::new(records.orphaned(history.orphaned)))
    }

    fn end(&self, found: &Found) -> Result<Option<Mark>, ReadError> {
        let history = self.history(found)?;
        if history.is_packed() {
            // Compressed files are old, so this slow search is rare.
            let last = last_turns(|| self.records(found, &Start::Beginning), 1)?;
            return Ok(last.turns.into_iter().next_back().map(|turn| turn.until));
        }
        let failed = |error| ReadError::io(&found.path, error);
        let (text, size) = history.open().map_err(failed)?;
        dialect::end_within::<Lines, _>(text, size).map_err(failed)
    }

    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let history = self.history(found)?;
        if !history.is_packed() {
            let (path, open) = (&found.path, || history.open());
            return if tells_of_tasks(&history).map_err(|error| ReadError::io(path, error))? {
                dialect::recent_within::<Lines, _>(path, open, turns)
            } else {
                dialect::recent_within::<Taskless, _>(path, open, turns)
            };
        }
        let last = last_turns(|| self.records(found, &Start::Beginning), turns)?;
        Ok((last.turns, last.before == 0))
    }

    fn keeping(&self) -> Option<&dyn Keeping> {
        Some(self)
    }
}

/// Returns `true` if the history contains task events, which delimit turns. Searches from the end, because a history
/// with task events has one near its end.
fn tells_of_tasks(history: &History) -> std::io::Result<bool> {
    let (text, size) = history.open()?;
    let mut lines = Backwards::new(text, size);
    while let Some((_, line)) = lines.next()? {
        if Lines::may_start_task(&line) && Lines::begins(&line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bytes of a conversation's beginning that are read for its head at first, and at most. The instructions in the first
/// line alone take 20 KB.
const FIRST_LOOK: usize = 48 << 10;
const LAST_LOOK: usize = 2 << 20;
/// Maximum number of bytes that are then read line by line if the first ones contain no prompt, because a first prompt
/// may be long.
const FARTHEST: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const END: u64 = 4 << 10;

fn head(home: &Home, found: &Found) -> Result<Head, ReadError> {
    let failed = |error| ReadError::io(&found.path, error);
    let wrong = |why: &str| ReadError::not_a_session(&found.path, why);
    let IdHint::Whole(id) = &found.id else {
        return Err(wrong("its name is no id"));
    };
    let id = NativeId::parse(id).map_err(|error| wrong(&error.to_string()))?;
    let mut head = Head::new(id, found.modified);
    let file = File::open(&found.path).map_err(failed)?;
    let mut text = history::unpack(&file, &found.path);
    let mut look = Look::at(&mut text).map_err(failed)?;
    if !look.at_end && memchr::memchr(b'\n', &look.bytes).is_none() {
        look.on(&mut text).map_err(failed)?;
    }
    let first = without_instructions(look.first_line());
    let meta = Meta::read(&first);
    let base = meta.as_ref().and_then(Meta::base);
    if let Some(meta) = &meta {
        describe(meta, found, &mut head);
    }
    let ending = ending(found, &file, &look).map_err(failed)?;
    if let Some(at) = dialect::last_time(&ending, b"\"timestamp\":") {
        head.updated_at = at;
    }
    if base.is_some() {
        let history = History::from_first_line(home, &found.path, &first);
        text = history.read().map_err(failed)?;
        look = Look::at(&mut text).map_err(failed)?;
    }
    let mut begun = begin(&mut look, &mut head);
    if !begun && !look.at_end {
        look.on(&mut text).map_err(failed)?;
        begun = begin(&mut look, &mut head);
    }
    if !begun && !look.at_end {
        begun = read_on(&look, &mut text, &mut head).map_err(failed)?;
    }
    if !begun && !look.at_end {
        // A file of this size contains messages, even if no prompt was found.
        head.kind = Kind::Conversation;
    }
    if meta.is_some_and(|meta| meta.is_subagent()) {
        head.kind = Kind::Subagent;
    }
    let named = home.title_of(head.id.as_str());
    let named = named.and_then(|name| Title::given(&name, TitleSource::User).ok());
    head.title = named.or_else(|| head.first_prompt.as_deref().map(Title::from_prompt));
    Ok(head)
}

/// Beginning of a text, as far as it was read.
struct Look {
    bytes: Vec<u8>,
    /// Whether `bytes` is the complete text.
    at_end: bool,
    /// Number of bytes that were already searched.
    seen: usize,
}

impl Look {
    fn at(text: &mut dyn Read) -> std::io::Result<Self> {
        let mut look = Self {
            bytes: Vec::new(),
            at_end: false,
            seen: 0,
        };
        look.up_to(text, FIRST_LOOK)?;
        Ok(look)
    }

    /// Reads up to the maximum, `LAST_LOOK`.
    fn on(&mut self, text: &mut dyn Read) -> std::io::Result<()> {
        self.up_to(text, LAST_LOOK)
    }

    fn up_to(&mut self, text: &mut dyn Read, most: usize) -> std::io::Result<()> {
        let wanted = most.saturating_sub(self.bytes.len());
        self.bytes.reserve_exact(wanted);
        let read = text.take(wanted as u64).read_to_end(&mut self.bytes)?;
        self.at_end = read < wanted;
        Ok(())
    }

    fn first_line(&self) -> &[u8] {
        let end = memchr::memchr(b'\n', &self.bytes).unwrap_or(self.bytes.len());
        self.bytes.get(..end).unwrap_or_default()
    }
}

/// Returns the end of a file. Empty for a compressed file, because its end can be read only after everything before it.
fn ending<'a>(found: &Found, mut file: &File, look: &'a Look) -> std::io::Result<Cow<'a, [u8]>> {
    if look.at_end {
        return Ok(Cow::Borrowed(&look.bytes));
    }
    if home::is_packed(&found.path) {
        return Ok(Cow::Borrowed(&[]));
    }
    let size = file.metadata()?.len();
    let ending = dialect::ending(&mut file, size, END)?;
    // The caller may continue to read the beginning.
    file.seek(SeekFrom::Start(look.bytes.len() as u64))?;
    Ok(Cow::Owned(ending))
}

fn describe(meta: &Meta<'_>, found: &Found, head: &mut Head) {
    head.cwd = meta.cwd().map(str::to_owned);
    head.branch = meta.branch().map(str::to_owned);
    head.version = meta.version().map(str::to_owned);
    head.forked_from = meta.forked_from().map(str::to_owned);
    let reverted = home::name(&found.path).is_some_and(|name| name.later.is_some());
    // A reverted session is older than its newest file, so the time in its id counts.
    let made = home::made_at(head.id.as_str()).filter(|_| reverted);
    head.created_at = made.or_else(|| meta.at());
}

/// Reads lines up to the first prompt. Returns `true` if it found one.
fn begin(look: &mut Look, head: &mut Head) -> bool {
    let mut dialect = Lines::default();
    let rest = look.bytes.get(look.seen..).unwrap_or_default();
    if dialect::whole_lines(rest, look.at_end).any(|line| hear(line, &mut dialect, head)) {
        return true;
    }
    look.seen = memchr::memrchr(b'\n', &look.bytes).map_or(0, |at| at + 1);
    false
}

/// Continues after a `Look` up to the first prompt, with one line in memory at a time. Returns `true` if it found one.
fn read_on(look: &Look, text: &mut dyn Read, head: &mut Head) -> std::io::Result<bool> {
    let rest = look.bytes.get(look.seen..).unwrap_or_default();
    let mut dialect = Lines::default();
    let mut lines = crate::lines::Lines::new(rest.chain(text.take(FARTHEST)), 0);
    while let Some(line) = lines.next()? {
        if hear(line.bytes, &mut dialect, head) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Applies a line to the head. Returns `true` if the line is the first prompt.
fn hear(line: &[u8], dialect: &mut Lines, head: &mut Head) -> bool {
    let beginning = line.get(..120).unwrap_or(line);
    if memmem::find(beginning, b"\"session_meta\"").is_some() {
        copied(line, head);
        return false;
    }
    let said = Lines::may_prompt(line) || memmem::find(line, b"\"assistant\"").is_some();
    if !said {
        return false;
    }
    let mut told = Told::default();
    let line = lossy(line);
    if dialect.read(&line, &mut told).is_err() {
        return false;
    }
    for event in told.events {
        match event {
            Event::Prompt(said) => {
                head.kind = Kind::Conversation;
                let prompt = opening(&said.message.words());
                head.first_prompt = Some(request(&prompt).to_owned());
                return true;
            }
            Event::Said(_) => head.kind = Kind::Conversation,
            _ => {}
        }
    }
    false
}

/// Sets the parent of a fork that begins with a copy of it. Older versions of Codex copy the parent's records,
/// including the first line.
fn copied(line: &[u8], head: &mut Head) {
    let beginning = line.get(..400).unwrap_or(line);
    let own = memmem::find(beginning, head.id.as_str().as_bytes()).is_some();
    if own || head.forked_from.is_some() {
        return;
    }
    let line = without_instructions(line);
    let meta = Meta::read(&line);
    let id = meta.as_ref().and_then(Meta::id);
    head.forked_from = id.filter(|&id| id != head.id.as_str()).map(str::to_owned);
}

/// Returns the user's request without the context that editors put before it, because that context does not describe
/// the conversation.
fn request(prompt: &str) -> &str {
    const REQUEST: &str = "## My request for Codex:";
    let request = prompt
        .split_once(REQUEST)
        .map(|(_, request)| request.trim());
    request
        .filter(|request| !request.is_empty())
        .unwrap_or(prompt)
}
