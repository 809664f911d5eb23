//! Head of a Gemini CLI session, read from the beginning and the end of its file.

use std::fs::File;
use std::io::{self, Read, Seek};

use jiff::Timestamp;
use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::Title;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::document::{DocumentElement, DocumentSplitter, last_fields};
use super::log::GeminiLineFormat;
use super::messages::{GeminiChatConverter, parse_title};
use super::schema::GeminiFileLine;
use crate::reader::borrowed_json::decode_lossy;
use crate::reader::line_format::{self, LineEvents};
use crate::reader::line_reader::LineReader;
use crate::reader::session_head::truncate_first_prompt;
use crate::{
    IdHint, Mark, NativeRecord, NativeSessionKind, ReadError, RecordEvent, SessionHead,
    SessionLocation, TurnBuilder,
};

/// Bytes of a file's beginning that are read for its head at first, and at most.
const FIRST_HEAD_READ_BYTES: usize = 8 << 10;
const MAX_HEAD_READ_BYTES: usize = 512 << 10;
/// Bytes that are read one line or message at a time if the first ones contain no prompt, because a first prompt may be
/// long.
const MAX_PROMPT_SEARCH_BYTES: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const TAIL_READ_BYTES: u64 = 8 << 10;

/// Metadata of a session that was read so far.
#[derive(Default)]
struct PartialHead {
    id: Option<String>,
    project_hash: Option<String>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    kind: Option<String>,
    summary: Option<String>,
    first_prompt: Option<String>,
    /// Whether the session contains messages.
    has_messages: bool,
}

/// Reads the head of a session, and the hash of its working directory.
pub(super) fn read_head(
    location: &SessionLocation,
) -> Result<(SessionHead, Option<String>), ReadError> {
    let failed = |error| ReadError::io(&location.path, error);
    let mut file = File::open(&location.path).map_err(failed)?;
    let mut bytes = Vec::with_capacity(FIRST_HEAD_READ_BYTES);
    let mut read_limit = FIRST_HEAD_READ_BYTES;
    let (mut partial_head, is_log) = loop {
        let wanted = (read_limit - bytes.len()) as u64;
        let read = (&mut file).take(wanted).read_to_end(&mut bytes);
        let at_end = (read.map_err(failed)? as u64) < wanted;
        let is_log = is_log_content(&bytes, at_end);
        let mut partial_head = if is_log {
            read_log_beginning(&bytes, at_end)
        } else {
            read_document_beginning(&bytes, at_end)
        };
        if partial_head.first_prompt.is_some() || at_end {
            break (partial_head, is_log);
        }
        if read_limit >= MAX_HEAD_READ_BYTES {
            file.rewind().map_err(failed)?;
            let input = (&mut file).take(MAX_PROMPT_SEARCH_BYTES);
            let read = if is_log {
                search_log(input)
            } else {
                search_document(input)
            };
            partial_head = read.map_err(failed)?;
            partial_head.has_messages = true;
            break (partial_head, is_log);
        }
        read_limit *= 8;
    };
    let is_complete = location.size <= bytes.len() as u64;
    let ending = if is_complete {
        bytes
    } else {
        line_format::read_last_bytes(&mut file, location.size, TAIL_READ_BYTES).map_err(failed)?
    };
    if is_log {
        read_log_ending(&ending, &mut partial_head);
    } else if !is_complete {
        read_document_ending(&ending, &mut partial_head);
    }
    partial_head.into_head(location)
}

impl PartialHead {
    fn into_head(
        self,
        location: &SessionLocation,
    ) -> Result<(SessionHead, Option<String>), ReadError> {
        let id = match (self.id, &location.id_hint) {
            (Some(id), _) => id,
            (None, IdHint::Complete(id)) => id.clone(),
            (None, IdHint::Prefix(_)) => {
                return Err(ReadError::not_a_session(
                    &location.path,
                    "it contains no session id",
                ));
            }
        };
        let id = NativeId::parse(&id)
            .map_err(|error| ReadError::not_a_session(&location.path, error.to_string()))?;
        let kind = match self.kind.as_deref() {
            Some("subagent") => NativeSessionKind::Subagent,
            _ if self.has_messages => NativeSessionKind::Conversation,
            _ => NativeSessionKind::Empty,
        };
        let from_prompt = || self.first_prompt.as_deref().map(Title::from_prompt);
        let head = SessionHead {
            kind,
            created_at: self.created_at,
            title: self
                .summary
                .as_deref()
                .and_then(parse_title)
                .or_else(from_prompt),
            first_prompt: self.first_prompt,
            ..SessionHead::new(id, self.updated_at.unwrap_or(location.modified))
        };
        Ok((head, self.project_hash))
    }

    /// Applies the fields of a line that is not a message.
    fn apply_fields(&mut self, line: &GeminiFileLine<'_>) {
        let set_first = |old: &mut Option<String>, new: Option<&str>| {
            if old.is_none() {
                *old = new.map(str::to_owned);
            }
        };
        if line.id.is_some() {
            return;
        }
        set_first(&mut self.project_hash, line.project_hash.as_deref());
        set_first(&mut self.kind, line.kind.as_deref());
        let started_at = line.start_time.as_deref().and_then(|at| at.parse().ok());
        self.created_at = self.created_at.or(started_at);
        let set_last = |old: &mut Option<String>, new: Option<&str>| {
            if let Some(new) = new {
                *old = Some(new.to_owned());
            }
        };
        let set = line.set.as_ref();
        let id = set.and_then(|set| set.session_id.as_deref());
        set_last(&mut self.id, id.or(line.session_id.as_deref()));
        let summary = set.and_then(|set| set.summary.as_deref());
        set_last(&mut self.summary, summary.or(line.summary.as_deref()));
    }

    /// Applies messages. Returns `true` if the first prompt was read.
    fn apply_events(&mut self, events: &[RecordEvent]) -> bool {
        for event in events {
            let (RecordEvent::Prompt(keyed_message) | RecordEvent::Message(keyed_message)) = event
            else {
                continue;
            };
            self.has_messages = true;
            if matches!(event, RecordEvent::Prompt(_)) && self.first_prompt.is_none() {
                let prompt = keyed_message.message.plain_text();
                self.first_prompt = (!is_command(&prompt)).then(|| truncate_first_prompt(&prompt));
            }
        }
        self.first_prompt.is_some()
    }
}

/// Returns `true` for a command to Gemini CLI, because it does not describe the conversation.
pub(super) fn is_command(prompt: &str) -> bool {
    prompt.trim_start().starts_with(['/', '?'])
}

/// Returns `true` if a file is a log and not a document.
pub(super) fn is_log_content(bytes: &[u8], at_end: bool) -> bool {
    #[derive(Deserialize)]
    struct GeminiFileShape {
        messages: Option<IgnoredAny>,
    }
    const LOG_LINE_PREFIXES: &[&[u8]] = &[b"{\"id\"", b"{\"$set\"", b"{\"$rewindTo\""];
    let parse_shape = |line: &[u8]| serde_json::from_slice::<GeminiFileShape>(line).ok();
    let has_complete_line = at_end || memchr::memchr(b'\n', bytes).is_some();
    let mut lines = line_format::complete_lines(bytes, true)
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        return true;
    };
    if LOG_LINE_PREFIXES
        .iter()
        .any(|start| first.starts_with(start))
    {
        return true;
    }
    if !has_complete_line {
        return !first.starts_with(b"{");
    }
    match (parse_shape(first), lines.next()) {
        // A single line is a document if it contains messages.
        (Some(object), None) => object.messages.is_none(),
        (Some(_), Some(_)) => true,
        (None, second) => {
            let second_is_object =
                second.is_some_and(|line| line.starts_with(b"{") && parse_shape(line).is_some());
            second_is_object || !first.starts_with(b"{")
        }
    }
}

/// Reads the beginning of a log, up to the first prompt.
fn read_log_beginning(bytes: &[u8], at_end: bool) -> PartialHead {
    let mut partial_head = PartialHead::default();
    let mut format = GeminiLineFormat::default();
    let mut consumed = 0;
    for line in line_format::complete_lines(bytes, at_end) {
        consumed += line.len() + 1;
        if partial_head.apply_line(line, &mut format) {
            break;
        }
    }
    let remainder = bytes.get(consumed..).unwrap_or_default();
    let contains = |needle: &[u8]| memmem::find(remainder, needle).is_some();
    if at_end && (contains(b"\"$rewindTo\"") || contains(b"\"messages\":[")) {
        recompute_first_prompt(bytes, &mut partial_head);
    }
    partial_head
}

/// Reads a log up to the first prompt, with one line in memory at a time.
fn search_log(input: impl Read) -> io::Result<PartialHead> {
    let mut partial_head = PartialHead::default();
    let mut format = GeminiLineFormat::default();
    let mut lines = LineReader::new(input, 0);
    while let Some(line) = lines.next()? {
        if partial_head.apply_line(line.bytes, &mut format) {
            break;
        }
    }
    Ok(partial_head)
}

/// Recomputes the first prompt of a log in which messages were removed.
fn recompute_first_prompt(bytes: &[u8], partial_head: &mut PartialHead) {
    let mut format = GeminiLineFormat::default();
    let mut builder = TurnBuilder::with_messages();
    for line in line_format::complete_lines(bytes, true) {
        let text = decode_lossy(line);
        let mut output = LineEvents::default();
        if let Ok(line) = serde_json::from_str::<GeminiFileLine<'_>>(&text) {
            format.emit_line_events(&line, &mut output);
        }
        builder.add_record(NativeRecord {
            mark: Mark::Id(String::new()),
            at: output.at,
            events: output.events,
        });
    }
    let turns = builder.into_turns();
    partial_head.has_messages = turns.iter().any(|turn| turn.message_count > 0);
    let prompts = turns.iter().filter_map(|turn| turn.messages.first());
    let mut prompts = prompts.map(segue_core::session::Message::plain_text);
    let first = prompts.find(|prompt| !is_command(prompt));
    partial_head.first_prompt = first.as_deref().map(truncate_first_prompt);
}

/// Reads the time of the last write and the current title from the end of a log.
fn read_log_ending(bytes: &[u8], partial_head: &mut PartialHead) {
    partial_head.updated_at = line_format::find_last_timestamp(bytes, b"\"lastUpdated\":")
        .or_else(|| line_format::find_last_timestamp(bytes, b"\"timestamp\":"));
    for at in memmem::find_iter(bytes, b"\n{\"$set\":{\"s") {
        let line = bytes.get(at + 1..).unwrap_or_default();
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        let line = line.get(..end).unwrap_or_default();
        // Lines of this form set a title or another id.
        if let Ok(line) = serde_json::from_slice::<GeminiFileLine<'_>>(line) {
            partial_head.apply_fields(&line);
        }
    }
}

/// Reads the beginning of a document up to the first prompt. Reads all fields if the document has no more bytes.
fn read_document_beginning(bytes: &[u8], at_end: bool) -> PartialHead {
    let mut partial_head = PartialHead::default();
    let mut converter = GeminiChatConverter::default();
    let mut elements = DocumentSplitter::from_bytes(bytes);
    while let Ok(Some(element)) = elements.next() {
        if partial_head.apply_element(&element, &mut converter) && !at_end {
            break;
        }
    }
    partial_head
}

/// Reads a document up to the first prompt, with one message in memory at a time.
fn search_document(input: impl Read) -> io::Result<PartialHead> {
    let mut partial_head = PartialHead::default();
    let mut converter = GeminiChatConverter::default();
    let mut elements = DocumentSplitter::new(input);
    while let Some(element) = elements.next()? {
        if partial_head.apply_element(&element, &mut converter) {
            break;
        }
    }
    Ok(partial_head)
}

impl PartialHead {
    /// Applies a line of a log. Returns `true` if the first prompt was read.
    fn apply_line(&mut self, line: &[u8], format: &mut GeminiLineFormat) -> bool {
        let text = decode_lossy(line);
        let Ok(line) = serde_json::from_str::<GeminiFileLine<'_>>(&text) else {
            return false;
        };
        let mut output = LineEvents::default();
        self.apply_fields(&line);
        format.emit_line_events(&line, &mut output);
        self.apply_events(&output.events)
    }

    /// Applies an element of a document. Returns `true` if a message in it is the first prompt.
    fn apply_element(
        &mut self,
        element: &DocumentElement<'_>,
        converter: &mut GeminiChatConverter,
    ) -> bool {
        match element {
            DocumentElement::Field(name, value) => self.apply_field(name, value),
            DocumentElement::Message(_) if self.first_prompt.is_some() => {}
            DocumentElement::Message(message) => {
                let text = decode_lossy(message);
                if let Ok(line) = serde_json::from_str::<GeminiFileLine<'_>>(&text) {
                    let mut events = Vec::new();
                    converter.emit_message(&line, &mut events);
                    return self.apply_events(&events);
                }
            }
        }
        false
    }

    fn apply_field(&mut self, name: &[u8], value: &[u8]) {
        let text = || serde_json::from_slice::<String>(value).ok();
        let time = || text().and_then(|text| text.parse().ok());
        match name {
            b"\"sessionId\"" => self.id = text(),
            b"\"projectHash\"" => self.project_hash = text(),
            b"\"startTime\"" => self.created_at = time(),
            b"\"lastUpdated\"" => self.updated_at = time(),
            b"\"kind\"" => self.kind = text(),
            b"\"summary\"" => self.summary = text(),
            _ => {}
        }
    }
}

/// Reads the fields after the messages of a document.
fn read_document_ending(bytes: &[u8], partial_head: &mut PartialHead) {
    let mut fields = b"{".to_vec();
    fields.extend_from_slice(last_fields(bytes));
    let mut elements = DocumentSplitter::from_bytes(&fields);
    while let Ok(Some(element)) = elements.next() {
        if let DocumentElement::Field(name, value) = element {
            partial_head.apply_field(name, value);
        }
    }
}
