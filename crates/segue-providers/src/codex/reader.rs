//! Codex sessions: `sessions/<year>/<month>/<day>/rollout-<time>-<session id>.jsonl`, and `archived_sessions/`
//!
//! A file is a log of records, compressed with zstd when it is old. A session that was forked or reverted is a new
//! file, which refers to the part of an older file that is still valid ([`history`]). Titles that users gave to
//! sessions are in a separate list next to the sessions.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::{Title, TitleSource};

use super::history::{self, CodexHistory};
use super::home::{self, CodexHome};
use super::line_format::{CodexLineFormat, CodexTasklessLineFormat};
use super::session_meta::{CodexFileMeta, strip_instructions};
use crate::reader::borrowed_json::{JsonText, decode_lossy};
use crate::reader::discovery::IdHint;
use crate::reader::line_format::{self, LineEvents, LineFormat, LineRecords};
use crate::reader::line_reader::ReverseLineReader;
use crate::reader::read_last_turns;
use crate::reader::session_head::truncate_first_prompt;
use crate::{
    Mark, NativeSessionKind, NativeTurn, ReadError, ReadStart, Reader, RecordEvent, Records,
    SessionHead, SessionLocation, SessionScan, SessionStorage,
};

/// Reader of Codex's sessions.
#[derive(Debug, Clone)]
pub struct CodexReader {
    pub(super) home: CodexHome,
}

impl CodexReader {
    /// Creates a reader. `home` is `$CODEX_HOME`, by default `~/.codex`.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: CodexHome::new(home.into()),
        }
    }

    pub(super) fn resolve_history(
        &self,
        location: &SessionLocation,
    ) -> Result<CodexHistory, ReadError> {
        CodexHistory::resolve(&self.home, &location.path)
            .map_err(|error| ReadError::io(&location.path, error))
    }
}

impl Reader for CodexReader {
    fn provider(&self) -> &'static str {
        "codex"
    }

    fn scan_sessions(&self) -> SessionScan {
        self.home.find_sessions()
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        read_head(&self.home, location)
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        let failed = |error| ReadError::io(&location.path, error);
        let history = self.resolve_history(location)?;
        let records = if history.is_compressed() {
            let text = history.open_sequential().map_err(failed)?;
            let records = LineRecords::<CodexLineFormat>::from_input(&location.path, text, 0);
            match start {
                ReadStart::Beginning => records,
                ReadStart::After(mark) => records.skip_to_mark(mark)?,
            }
        } else {
            let (text, size) = history.open_seekable().map_err(failed)?;
            LineRecords::<CodexLineFormat>::from_text(&location.path, text, size, start)?
        };
        Ok(Box::new(records.with_orphaned(history.orphaned)))
    }

    fn find_last_mark(&self, location: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        let history = self.resolve_history(location)?;
        if history.is_compressed() {
            // Compressed files are old, so this slow search is rare.
            let last = read_last_turns(|| self.open_records(location, &ReadStart::Beginning), 1)?;
            return Ok(last.turns.into_iter().next_back().map(|turn| turn.until));
        }
        let failed = |error| ReadError::io(&location.path, error);
        let (text, size) = history.open_seekable().map_err(failed)?;
        line_format::find_last_mark_in_text::<CodexLineFormat, _>(text, size).map_err(failed)
    }

    fn read_recent_turns(
        &self,
        location: &SessionLocation,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        let history = self.resolve_history(location)?;
        if !history.is_compressed() {
            let (path, open) = (&location.path, || history.open_seekable());
            return if has_task_events(&history).map_err(|error| ReadError::io(path, error))? {
                line_format::read_recent_turns_from_text::<CodexLineFormat, _>(path, open, turns)
            } else {
                line_format::read_recent_turns_from_text::<CodexTasklessLineFormat, _>(
                    path, open, turns,
                )
            };
        }
        let last = read_last_turns(|| self.open_records(location, &ReadStart::Beginning), turns)?;
        Ok((last.turns, last.turns_before == 0))
    }

    fn storage(&self) -> Option<&dyn SessionStorage> {
        Some(self)
    }
}

/// Returns `true` if the history contains task events, which delimit turns. Searches from the end, because a history
/// with task events has one near its end.
fn has_task_events(history: &CodexHistory) -> std::io::Result<bool> {
    let (text, size) = history.open_seekable()?;
    let mut lines = ReverseLineReader::new(text, size);
    while let Some((_, line)) = lines.next()? {
        if CodexLineFormat::can_start_task(&line) && CodexLineFormat::is_turn_start(&line) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bytes of a conversation's beginning that are read for its head at first, and at most. The instructions in the first
/// line alone take 20 KB.
const FIRST_HEAD_READ_BYTES: usize = 48 << 10;
const MAX_HEAD_READ_BYTES: usize = 2 << 20;
/// Maximum number of bytes that are then read line by line if the first ones contain no prompt, because a first prompt
/// may be long.
const MAX_PROMPT_SEARCH_BYTES: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const TAIL_READ_BYTES: u64 = 4 << 10;

fn read_head(home: &CodexHome, location: &SessionLocation) -> Result<SessionHead, ReadError> {
    let failed = |error| ReadError::io(&location.path, error);
    let reject = |reason: &str| ReadError::not_a_session(&location.path, reason);
    let IdHint::Complete(id) = &location.id_hint else {
        return Err(reject("its name is not a session id"));
    };
    let id = NativeId::parse(id).map_err(|error| reject(&error.to_string()))?;
    let mut head = SessionHead::new(id, location.modified);
    let file = File::open(&location.path).map_err(failed)?;
    let mut text = history::decompress(&file, &location.path);
    let mut beginning = TextBeginning::read(&mut text).map_err(failed)?;
    if !beginning.at_end && memchr::memchr(b'\n', &beginning.bytes).is_none() {
        beginning.read_more(&mut text).map_err(failed)?;
    }
    let first = strip_instructions(beginning.first_line());
    let meta = CodexFileMeta::parse(&first);
    let base = meta.as_ref().and_then(CodexFileMeta::base);
    if let Some(meta) = &meta {
        apply_meta(meta, location, &mut head);
    }
    let ending = read_ending(location, &file, &beginning).map_err(failed)?;
    if let Some(at) = line_format::find_last_timestamp(&ending, b"\"timestamp\":") {
        head.updated_at = at;
    }
    if base.is_some() {
        let history = CodexHistory::from_first_line(home, &location.path, &first);
        text = history.open_sequential().map_err(failed)?;
        beginning = TextBeginning::read(&mut text).map_err(failed)?;
    }
    let mut has_prompt = search_beginning(&mut beginning, &mut head);
    if !has_prompt && !beginning.at_end {
        beginning.read_more(&mut text).map_err(failed)?;
        has_prompt = search_beginning(&mut beginning, &mut head);
    }
    if !has_prompt && !beginning.at_end {
        has_prompt = search_lines(&beginning, &mut text, &mut head).map_err(failed)?;
    }
    if !has_prompt && !beginning.at_end {
        // A file of this size contains messages, even if no prompt was found.
        head.kind = NativeSessionKind::Conversation;
    }
    if meta.is_some_and(|meta| meta.is_subagent()) {
        head.kind = NativeSessionKind::Subagent;
    }
    let user_title = home.session_title(head.id.as_str());
    let user_title = user_title.and_then(|name| Title::new(&name, TitleSource::User).ok());
    head.title = user_title.or_else(|| head.first_prompt.as_deref().map(Title::from_prompt));
    Ok(head)
}

/// Beginning of a text, as far as it was read.
struct TextBeginning {
    bytes: Vec<u8>,
    /// Whether `bytes` is the complete text.
    at_end: bool,
    /// Number of bytes that were already searched.
    searched: usize,
}

impl TextBeginning {
    fn read(text: &mut dyn Read) -> std::io::Result<Self> {
        let mut beginning = Self {
            bytes: Vec::new(),
            at_end: false,
            searched: 0,
        };
        beginning.read_up_to(text, FIRST_HEAD_READ_BYTES)?;
        Ok(beginning)
    }

    /// Reads up to the maximum, `MAX_HEAD_READ_BYTES`.
    fn read_more(&mut self, text: &mut dyn Read) -> std::io::Result<()> {
        self.read_up_to(text, MAX_HEAD_READ_BYTES)
    }

    fn read_up_to(&mut self, text: &mut dyn Read, limit: usize) -> std::io::Result<()> {
        let wanted = limit.saturating_sub(self.bytes.len());
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
fn read_ending<'a>(
    location: &SessionLocation,
    mut file: &File,
    beginning: &'a TextBeginning,
) -> std::io::Result<Cow<'a, [u8]>> {
    if beginning.at_end {
        return Ok(Cow::Borrowed(&beginning.bytes));
    }
    if home::is_compressed(&location.path) {
        return Ok(Cow::Borrowed(&[]));
    }
    let size = file.metadata()?.len();
    let ending = line_format::read_last_bytes(&mut file, size, TAIL_READ_BYTES)?;
    // The caller may continue to read the beginning.
    file.seek(SeekFrom::Start(beginning.bytes.len() as u64))?;
    Ok(Cow::Owned(ending))
}

fn apply_meta(meta: &CodexFileMeta<'_>, location: &SessionLocation, head: &mut SessionHead) {
    let owned = |text: &Option<JsonText<'_>>| text.as_deref().map(str::to_owned);
    head.cwd = owned(&meta.payload.cwd);
    head.branch = meta.branch().map(str::to_owned);
    head.agent_version = owned(&meta.payload.cli_version);
    head.forked_from = owned(&meta.payload.forked_from_id);
    let is_reverted =
        home::parse_rollout_name(&location.path).is_some_and(|name| name.revert_id.is_some());
    // A reverted session is older than its newest file, so the time in its id counts.
    let id_time = home::id_creation_time(head.id.as_str()).filter(|_| is_reverted);
    head.created_at = id_time.or_else(|| meta.created_at());
}

/// Reads lines up to the first prompt. Returns `true` if it found one.
fn search_beginning(beginning: &mut TextBeginning, head: &mut SessionHead) -> bool {
    let mut format = CodexLineFormat::default();
    let unsearched = beginning
        .bytes
        .get(beginning.searched..)
        .unwrap_or_default();
    if line_format::complete_lines(unsearched, beginning.at_end)
        .any(|line| apply_line(line, &mut format, head))
    {
        return true;
    }
    beginning.searched = memchr::memrchr(b'\n', &beginning.bytes).map_or(0, |at| at + 1);
    false
}

/// Continues after a `TextBeginning` up to the first prompt, with one line in memory at a time. Returns `true` if it
/// found one.
fn search_lines(
    beginning: &TextBeginning,
    text: &mut dyn Read,
    head: &mut SessionHead,
) -> std::io::Result<bool> {
    let unsearched = beginning
        .bytes
        .get(beginning.searched..)
        .unwrap_or_default();
    let mut format = CodexLineFormat::default();
    let mut lines = crate::reader::line_reader::LineReader::new(
        unsearched.chain(text.take(MAX_PROMPT_SEARCH_BYTES)),
        0,
    );
    while let Some(line) = lines.next()? {
        if apply_line(line.bytes, &mut format, head) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Applies a line to the head. Returns `true` if the line is the first prompt.
fn apply_line(line: &[u8], format: &mut CodexLineFormat, head: &mut SessionHead) -> bool {
    let beginning = line.get(..120).unwrap_or(line);
    if memmem::find(beginning, b"\"session_meta\"").is_some() {
        apply_parent_meta(line, head);
        return false;
    }
    let can_be_message =
        CodexLineFormat::can_begin_turn(line) || memmem::find(line, b"\"assistant\"").is_some();
    if !can_be_message {
        return false;
    }
    let mut output = LineEvents::default();
    let line = decode_lossy(line);
    if format.parse_line(&line, &mut output).is_err() {
        return false;
    }
    for event in output.events {
        match event {
            RecordEvent::Prompt(keyed_message) => {
                head.kind = NativeSessionKind::Conversation;
                let prompt = truncate_first_prompt(&keyed_message.message.plain_text());
                head.first_prompt = Some(strip_editor_context(&prompt).to_owned());
                return true;
            }
            RecordEvent::Message(_) => head.kind = NativeSessionKind::Conversation,
            _ => {}
        }
    }
    false
}

/// Sets the parent of a fork that begins with a copy of it. Older versions of Codex copy the parent's records,
/// including the first line.
fn apply_parent_meta(line: &[u8], head: &mut SessionHead) {
    let beginning = line.get(..400).unwrap_or(line);
    let is_own = memmem::find(beginning, head.id.as_str().as_bytes()).is_some();
    if is_own || head.forked_from.is_some() {
        return;
    }
    let line = strip_instructions(line);
    let meta = CodexFileMeta::parse(&line);
    let id = meta.as_ref().and_then(|meta| meta.payload.id.as_deref());
    head.forked_from = id.filter(|&id| id != head.id.as_str()).map(str::to_owned);
}

/// Returns the user's request without the context that editors put before it, because that context does not describe
/// the conversation.
fn strip_editor_context(prompt: &str) -> &str {
    const REQUEST_HEADING: &str = "## My request for Codex:";
    let request = prompt
        .split_once(REQUEST_HEADING)
        .map(|(_, request)| request.trim());
    request
        .filter(|request| !request.is_empty())
        .unwrap_or(prompt)
}
