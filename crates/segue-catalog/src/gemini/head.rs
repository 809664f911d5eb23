//! Head of a Gemini CLI session, read from the beginning and the end of its file.

use std::fs::File;
use std::io::{self, Read, Seek};

use jiff::Timestamp;
use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::Title;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::chat::{Chat, title};
use super::document::{Piece, Pieces, last_fields};
use super::line::Line;
use super::log::Log;
use crate::dialect::{self, Told};
use crate::head::opening;
use crate::json::lossy;
use crate::lines::Lines;
use crate::{Event, Fold, Found, Head, IdHint, Kind, Mark, ReadError, Record};

/// Bytes of a file's beginning that are read for its head at first, and at most.
const FIRST_LOOK: usize = 8 << 10;
const LAST_LOOK: usize = 512 << 10;
/// Bytes that are read one line or message at a time if the first ones contain no prompt, because a first prompt may be
/// long.
const FARTHEST: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const END: u64 = 8 << 10;

/// Metadata of a session that was read so far.
#[derive(Default)]
struct Seen {
    id: Option<String>,
    hash: Option<String>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    kind: Option<String>,
    summary: Option<String>,
    first_prompt: Option<String>,
    /// Whether the session contains messages.
    said: bool,
}

/// Reads the head of a session, and the hash of its working directory.
pub(super) fn head(found: &Found) -> Result<(Head, Option<String>), ReadError> {
    let failed = |error| ReadError::io(&found.path, error);
    let mut file = File::open(&found.path).map_err(failed)?;
    let mut bytes = Vec::with_capacity(FIRST_LOOK);
    let mut looked = FIRST_LOOK;
    let (mut seen, log) = loop {
        let wanted = (looked - bytes.len()) as u64;
        let read = (&mut file).take(wanted).read_to_end(&mut bytes);
        let at_end = (read.map_err(failed)? as u64) < wanted;
        let log = is_log(&bytes, at_end);
        let mut seen = if log {
            begin_log(&bytes, at_end)
        } else {
            begin_document(&bytes, at_end)
        };
        if seen.first_prompt.is_some() || at_end {
            break (seen, log);
        }
        if looked >= LAST_LOOK {
            file.rewind().map_err(failed)?;
            let input = (&mut file).take(FARTHEST);
            let read = if log {
                read_log(input)
            } else {
                read_document(input)
            };
            seen = read.map_err(failed)?;
            seen.said = true;
            break (seen, log);
        }
        looked *= 8;
    };
    let whole = found.size <= bytes.len() as u64;
    let ending = if whole {
        bytes
    } else {
        dialect::ending(&mut file, found.size, END).map_err(failed)?
    };
    if log {
        end_log(&ending, &mut seen);
    } else if !whole {
        end_document(&ending, &mut seen);
    }
    seen.into_head(found)
}

impl Seen {
    fn into_head(self, found: &Found) -> Result<(Head, Option<String>), ReadError> {
        let id = match (self.id, &found.id) {
            (Some(id), _) => id,
            (None, IdHint::Whole(id)) => id.clone(),
            (None, IdHint::Begins(_)) => {
                return Err(ReadError::not_a_session(&found.path, "it has no id"));
            }
        };
        let id = NativeId::parse(&id)
            .map_err(|error| ReadError::not_a_session(&found.path, error.to_string()))?;
        let kind = match self.kind.as_deref() {
            Some("subagent") => Kind::Subagent,
            _ if self.said => Kind::Conversation,
            _ => Kind::Empty,
        };
        let from_prompt = || self.first_prompt.as_deref().map(Title::from_prompt);
        let head = Head {
            kind,
            created_at: self.created_at,
            title: self.summary.as_deref().and_then(title).or_else(from_prompt),
            first_prompt: self.first_prompt,
            ..Head::new(id, self.updated_at.unwrap_or(found.modified))
        };
        Ok((head, self.hash))
    }

    /// Applies the fields of a line that is not a message.
    fn take(&mut self, line: &Line<'_>) {
        let first = |old: &mut Option<String>, new: Option<&str>| {
            if old.is_none() {
                *old = new.map(str::to_owned);
            }
        };
        if line.id.is_some() {
            return;
        }
        first(&mut self.hash, line.project_hash.as_deref());
        first(&mut self.kind, line.kind.as_deref());
        let began = line.start_time.as_deref().and_then(|at| at.parse().ok());
        self.created_at = self.created_at.or(began);
        let last = |old: &mut Option<String>, new: Option<&str>| {
            if let Some(new) = new {
                *old = Some(new.to_owned());
            }
        };
        let set = line.set.as_ref();
        let id = set.and_then(|set| set.session_id.as_deref());
        last(&mut self.id, id.or(line.session_id.as_deref()));
        let summary = set.and_then(|set| set.summary.as_deref());
        last(&mut self.summary, summary.or(line.summary.as_deref()));
    }

    /// Applies messages. Returns `true` if the first prompt was read.
    fn hear(&mut self, events: &[Event]) -> bool {
        for event in events {
            let (Event::Prompt(said) | Event::Said(said)) = event else {
                continue;
            };
            self.said = true;
            if matches!(event, Event::Prompt(_)) && self.first_prompt.is_none() {
                let words = said.message.words();
                self.first_prompt = (!is_command(&words)).then(|| opening(&words));
            }
        }
        self.first_prompt.is_some()
    }
}

/// Returns `true` for a command to Gemini CLI, because it does not describe the conversation.
fn is_command(prompt: &str) -> bool {
    prompt.trim_start().starts_with(['/', '?'])
}

/// Returns `true` if a file is a log and not a document.
pub(super) fn is_log(bytes: &[u8], at_end: bool) -> bool {
    #[derive(Deserialize)]
    struct Shape {
        #[serde(default)]
        messages: Option<IgnoredAny>,
    }
    const MESSAGE: &[&[u8]] = &[b"{\"id\"", b"{\"$set\"", b"{\"$rewindTo\""];
    let shape = |line: &[u8]| serde_json::from_slice::<Shape>(line).ok();
    let whole = at_end || memchr::memchr(b'\n', bytes).is_some();
    let mut lines = dialect::whole_lines(bytes, true)
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        return true;
    };
    if MESSAGE.iter().any(|start| first.starts_with(start)) {
        return true;
    }
    if !whole {
        return !first.starts_with(b"{");
    }
    match (shape(first), lines.next()) {
        // A single line is a document if it contains messages.
        (Some(object), None) => object.messages.is_none(),
        (Some(_), Some(_)) => true,
        (None, second) => {
            let lines = second.is_some_and(|line| line.starts_with(b"{") && shape(line).is_some());
            lines || !first.starts_with(b"{")
        }
    }
}

/// Reads the beginning of a log, up to the first prompt.
fn begin_log(bytes: &[u8], at_end: bool) -> Seen {
    let mut seen = Seen::default();
    let mut log = Log::default();
    let mut read = 0;
    for line in dialect::whole_lines(bytes, at_end) {
        read += line.len() + 1;
        if seen.line(line, &mut log) {
            break;
        }
    }
    let rest = bytes.get(read..).unwrap_or_default();
    let changed = |needle: &[u8]| memmem::find(rest, needle).is_some();
    if at_end && (changed(b"\"$rewindTo\"") || changed(b"\"messages\":[")) {
        again(bytes, &mut seen);
    }
    seen
}

/// Reads a log up to the first prompt, with one line in memory at a time.
fn read_log(input: impl Read) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut log = Log::default();
    let mut lines = Lines::new(input, 0);
    while let Some(line) = lines.next()? {
        if seen.line(line.bytes, &mut log) {
            break;
        }
    }
    Ok(seen)
}

/// Recomputes the first prompt of a log in which messages were removed.
fn again(bytes: &[u8], seen: &mut Seen) {
    let mut log = Log::default();
    let mut fold = Fold::whole();
    for line in dialect::whole_lines(bytes, true) {
        let text = lossy(line);
        let mut told = Told::default();
        if let Ok(line) = serde_json::from_str::<Line<'_>>(&text) {
            log.take(&line, &mut told);
        }
        fold.add(Record {
            mark: Mark::Id(String::new()),
            at: told.at,
            events: told.events,
        });
    }
    let turns = fold.into_turns();
    seen.said = turns.iter().any(|turn| turn.said > 0);
    let prompts = turns.iter().filter_map(|turn| turn.messages.first());
    let mut prompts = prompts.map(segue_core::session::Message::words);
    let first = prompts.find(|prompt| !is_command(prompt));
    seen.first_prompt = first.as_deref().map(opening);
}

/// Reads the time of the last write and the current title from the end of a log.
fn end_log(bytes: &[u8], seen: &mut Seen) {
    seen.updated_at = dialect::last_time(bytes, b"\"lastUpdated\":")
        .or_else(|| dialect::last_time(bytes, b"\"timestamp\":"));
    for at in memmem::find_iter(bytes, b"\n{\"$set\":{\"s") {
        let line = bytes.get(at + 1..).unwrap_or_default();
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        let line = line.get(..end).unwrap_or_default();
        // Lines of this form set a title or another id.
        if let Ok(line) = serde_json::from_slice::<Line<'_>>(line) {
            seen.take(&line);
        }
    }
}

/// Reads the beginning of a document up to the first prompt. Reads all fields if the document has no more bytes.
fn begin_document(bytes: &[u8], at_end: bool) -> Seen {
    let mut seen = Seen::default();
    let mut chat = Chat::default();
    let mut pieces = Pieces::over(bytes);
    while let Ok(Some(piece)) = pieces.next() {
        if seen.piece(&piece, &mut chat) && !at_end {
            break;
        }
    }
    seen
}

/// Reads a document up to the first prompt, with one message in memory at a time.
fn read_document(input: impl Read) -> io::Result<Seen> {
    let mut seen = Seen::default();
    let mut chat = Chat::default();
    let mut pieces = Pieces::new(input);
    while let Some(piece) = pieces.next()? {
        if seen.piece(&piece, &mut chat) {
            break;
        }
    }
    Ok(seen)
}

impl Seen {
    /// Applies a line of a log. Returns `true` if the first prompt was read.
    fn line(&mut self, line: &[u8], log: &mut Log) -> bool {
        let text = lossy(line);
        let Ok(line) = serde_json::from_str::<Line<'_>>(&text) else {
            return false;
        };
        let mut told = Told::default();
        self.take(&line);
        log.take(&line, &mut told);
        self.hear(&told.events)
    }

    /// Applies an element of a document. Returns `true` if a message in it is the first prompt.
    fn piece(&mut self, piece: &Piece<'_>, chat: &mut Chat) -> bool {
        match piece {
            Piece::Field(name, value) => self.field(name, value),
            Piece::Message(_) if self.first_prompt.is_some() => {}
            Piece::Message(message) => {
                let text = lossy(message);
                if let Ok(line) = serde_json::from_str::<Line<'_>>(&text) {
                    let mut events = Vec::new();
                    chat.message(&line, &mut events);
                    return self.hear(&events);
                }
            }
        }
        false
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || serde_json::from_slice::<String>(value).ok();
        let time = || text().and_then(|text| text.parse().ok());
        match name {
            b"\"sessionId\"" => self.id = text(),
            b"\"projectHash\"" => self.hash = text(),
            b"\"startTime\"" => self.created_at = time(),
            b"\"lastUpdated\"" => self.updated_at = time(),
            b"\"kind\"" => self.kind = text(),
            b"\"summary\"" => self.summary = text(),
            _ => {}
        }
    }
}

/// Reads the fields after the messages of a document.
fn end_document(bytes: &[u8], seen: &mut Seen) {
    let mut fields = b"{".to_vec();
    fields.extend_from_slice(last_fields(bytes));
    let mut pieces = Pieces::over(&fields);
    while let Ok(Some(piece)) = pieces.next() {
        if let Piece::Field(name, value) = piece {
            seen.field(name, value);
        }
    }
}
