//! Head of a Claude Code session, read from the beginning and the end of its file.

use std::fs::File;
use std::io::{self, Read, Seek};

use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::Title;

use super::reader::ClaudeLineFormat;
use super::schema::ClaudeFileLine;
use crate::reader::borrowed_json::{JsonText, decode_lossy};
use crate::reader::discovery::IdHint;
use crate::reader::line_format::{self, contains_bytes};
use crate::reader::line_reader;
use crate::reader::session_head::truncate_first_prompt;
use crate::{NativeSessionKind, ReadError, RecordEvent, SessionHead, SessionLocation};

/// Bytes of a file's beginning that are read for its head at first, and at most. Each further read covers eight times
/// as many. Usually the first prompt is the third line.
const FIRST_HEAD_READ_BYTES: usize = 4 << 10;
const MAX_HEAD_READ_BYTES: usize = 512 << 10;
/// Bytes that are read line by line if the first lines contain no prompt. A file contains a long first prompt twice,
/// and the working directory only after that.
const MAX_PROMPT_SEARCH_BYTES: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const TAIL_READ_BYTES: u64 = 16 << 10;

pub(super) fn read_head(location: &SessionLocation) -> Result<SessionHead, ReadError> {
    let failed = |error| ReadError::io(&location.path, error);
    let IdHint::Complete(id) = &location.id_hint else {
        return Err(ReadError::not_a_session(
            &location.path,
            "its name is not a session id",
        ));
    };
    let id = NativeId::parse(id)
        .map_err(|error| ReadError::not_a_session(&location.path, error.to_string()))?;
    let mut head = SessionHead::new(id, location.modified);
    let mut file = File::open(&location.path).map_err(failed)?;
    let mut bytes = Vec::with_capacity(FIRST_HEAD_READ_BYTES);
    let mut read_limit = FIRST_HEAD_READ_BYTES;
    loop {
        let wanted = (read_limit - bytes.len()) as u64;
        let read = (&mut file).take(wanted).read_to_end(&mut bytes);
        let at_end = (read.map_err(failed)? as u64) < wanted;
        if search_beginning(&bytes, at_end, &mut head) || at_end {
            break;
        }
        if read_limit >= MAX_HEAD_READ_BYTES {
            search_lines(&mut file, &mut head).map_err(failed)?;
            break;
        }
        read_limit = MAX_HEAD_READ_BYTES.min(read_limit * 8);
    }
    if head.first_prompt.is_none() && location.size > MAX_HEAD_READ_BYTES as u64 {
        head.kind = NativeSessionKind::Conversation;
    }
    let ending = if location.size <= bytes.len() as u64 {
        bytes
    } else {
        line_format::read_last_bytes(&mut file, location.size, TAIL_READ_BYTES).map_err(failed)?
    };
    apply_ending(&ending, &mut head);
    if head.title.is_none() {
        head.title = head.first_prompt.as_deref().map(Title::from_prompt);
    }
    Ok(head)
}

/// Reads the beginning of a file up to the first prompt. Returns `true` if it found one.
fn search_beginning(bytes: &[u8], at_end: bool, head: &mut SessionHead) -> bool {
    let mut format = ClaudeLineFormat::default();
    line_format::complete_lines(bytes, at_end).any(|line| apply_line(line, &mut format, head))
}

/// Reads a file up to the first prompt of any length, with one line in memory at a time.
fn search_lines(file: &mut File, head: &mut SessionHead) -> io::Result<()> {
    file.rewind()?;
    let mut format = ClaudeLineFormat::default();
    let mut lines = line_reader::LineReader::new(file.take(MAX_PROMPT_SEARCH_BYTES), 0);
    while let Some(line) = lines.next()? {
        // A queued prompt is repeated as a message later in the file.
        let beginning = line.bytes.get(..60).unwrap_or(line.bytes);
        if !contains_bytes(beginning, b"\"queue-operation\"")
            && apply_line(line.bytes, &mut format, head)
        {
            break;
        }
    }
    Ok(())
}

/// Applies a line to the head. Returns `true` if the line is the first prompt.
fn apply_line(line: &[u8], format: &mut ClaudeLineFormat, head: &mut SessionHead) -> bool {
    let line = decode_lossy(line);
    let Ok(record) = serde_json::from_str::<ClaudeFileLine<'_>>(&line) else {
        return false;
    };
    if record.is_sidechain == Some(true) {
        return false;
    }
    head.created_at = head.created_at.or_else(|| record.time());
    let set_if_none = |old: &mut Option<String>, new: &Option<JsonText<'_>>| {
        if old.is_none() {
            *old = new.as_deref().map(str::to_owned);
        }
    };
    set_if_none(&mut head.cwd, &record.cwd);
    set_if_none(&mut head.branch, &record.git_branch);
    set_if_none(&mut head.agent_version, &record.version);
    if let Some(origin) = &record.forked_from {
        set_if_none(&mut head.forked_from, &origin.session_id);
    }
    if matches!(&*record.r#type, "user" | "assistant") {
        head.kind = NativeSessionKind::Conversation;
    }
    let mut events = Vec::new();
    if format
        .emit_line_events(&record, line.as_bytes(), &mut events)
        .is_err()
    {
        return false;
    }
    for event in events {
        match event {
            RecordEvent::TitleChanged {
                title,
                record_key: None,
            } => head.title = Some(title),
            RecordEvent::Prompt(keyed_message) => {
                // A command to Claude Code hardly describes the conversation, so a later prompt replaces it.
                let prompt = keyed_message.message.plain_text();
                let is_command = prompt.starts_with('/');
                if !is_command || head.first_prompt.is_none() {
                    head.first_prompt = Some(truncate_first_prompt(&prompt));
                }
                if !is_command {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Reads the time of the last record and the current title from the end of a file.
fn apply_ending(bytes: &[u8], head: &mut SessionHead) {
    if let Some(at) = line_format::find_last_timestamp(bytes, b"\"timestamp\":") {
        head.updated_at = at;
    }
    let has_title = |bytes: &[u8]| {
        contains_bytes(bytes, b"-title\"") || contains_bytes(bytes, b"\"type\":\"summary\"")
    };
    if !has_title(bytes) {
        return;
    }
    for line in line_format::complete_lines(bytes, true) {
        if !has_title(line) {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<ClaudeFileLine<'_>>(line) else {
            continue;
        };
        let mut events = Vec::new();
        if ClaudeLineFormat::default()
            .emit_line_events(&line, b"", &mut events)
            .is_err()
        {
            continue;
        }
        for event in events {
            // A summary may belong to another session. It belongs to this one if it names a record that occurs in these
            // lines.
            let RecordEvent::TitleChanged { title, record_key } = event else {
                continue;
            };
            let is_own_record = |key: &str| memmem::find_iter(bytes, key).count() > 1;
            let is_preferred = |old: &Title| title.source() >= old.source();
            if record_key.as_deref().is_none_or(is_own_record)
                && head.title.as_ref().is_none_or(is_preferred)
            {
                head.title = Some(title);
            }
        }
    }
}
