//! Head of a Claude Code session, read from the beginning and the end of its file.

use std::fs::File;
use std::io::{self, Read, Seek};

use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::session::Title;

use super::{Line, Lines, has};
use crate::found::IdHint;
use crate::head::opening;
use crate::json::{Text, lossy};
use crate::{Event, Found, Head, Kind, ReadError};
use crate::{dialect, lines};

/// Bytes of a file's beginning that are read for its head at first, and at most. Each further read covers eight times
/// as many. Usually the first prompt is the third line.
const FIRST_LOOK: usize = 4 << 10;
const LAST_LOOK: usize = 512 << 10;
/// Bytes that are read line by line if the first lines contain no prompt. A file contains a long first prompt twice,
/// and the working directory only after that.
const FARTHEST: u64 = 64 << 20;
/// Bytes of a file's end that are read for its head.
const END: u64 = 16 << 10;

pub(super) fn head(found: &Found) -> Result<Head, ReadError> {
    let failed = |error| ReadError::io(&found.path, error);
    let IdHint::Whole(id) = &found.id else {
        return Err(ReadError::not_a_session(&found.path, "its name is no id"));
    };
    let id = NativeId::parse(id)
        .map_err(|error| ReadError::not_a_session(&found.path, error.to_string()))?;
    let mut head = Head::new(id, found.modified);
    let mut file = File::open(&found.path).map_err(failed)?;
    let mut bytes = Vec::with_capacity(FIRST_LOOK);
    let mut looked = FIRST_LOOK;
    loop {
        let wanted = (looked - bytes.len()) as u64;
        let read = (&mut file).take(wanted).read_to_end(&mut bytes);
        let at_end = (read.map_err(failed)? as u64) < wanted;
        if begin(&bytes, at_end, &mut head) || at_end {
            break;
        }
        if looked >= LAST_LOOK {
            read_on(&mut file, &mut head).map_err(failed)?;
            break;
        }
        looked = LAST_LOOK.min(looked * 8);
    }
    if head.first_prompt.is_none() && found.size > LAST_LOOK as u64 {
        head.kind = Kind::Conversation;
    }
    let ending = if found.size <= bytes.len() as u64 {
        bytes
    } else {
        dialect::ending(&mut file, found.size, END).map_err(failed)?
    };
    end(&ending, &mut head);
    if head.title.is_none() {
        head.title = head.first_prompt.as_deref().map(Title::from_prompt);
    }
    Ok(head)
}

/// Reads the beginning of a file up to the first prompt. Returns `true` if it found one.
fn begin(bytes: &[u8], at_end: bool, head: &mut Head) -> bool {
    let mut dialect = Lines::default();
    dialect::whole_lines(bytes, at_end).any(|line| hear(line, &mut dialect, head))
}

/// Reads a file up to the first prompt of any length, with one line in memory at a time.
fn read_on(file: &mut File, head: &mut Head) -> io::Result<()> {
    file.rewind()?;
    let mut dialect = Lines::default();
    let mut lines = lines::Lines::new(file.take(FARTHEST), 0);
    while let Some(line) = lines.next()? {
        // A queued prompt is repeated as a message later in the file.
        let beginning = line.bytes.get(..60).unwrap_or(line.bytes);
        if !has(beginning, b"\"queue-operation\"") && hear(line.bytes, &mut dialect, head) {
            break;
        }
    }
    Ok(())
}

/// Applies a line to the head. Returns `true` if the line is the first prompt.
fn hear(line: &[u8], dialect: &mut Lines, head: &mut Head) -> bool {
    let line = lossy(line);
    let Ok(told) = serde_json::from_str::<Line<'_>>(&line) else {
        return false;
    };
    if told.is_sidechain == Some(true) {
        return false;
    }
    head.created_at = head.created_at.or_else(|| told.at());
    let take = |old: &mut Option<String>, new: &Option<Text<'_>>| {
        if old.is_none() {
            *old = new.as_deref().map(str::to_owned);
        }
    };
    take(&mut head.cwd, &told.cwd);
    take(&mut head.branch, &told.git_branch);
    take(&mut head.version, &told.version);
    if let Some(origin) = &told.forked_from {
        take(&mut head.forked_from, &origin.session_id);
    }
    if matches!(&*told.r#type, "user" | "assistant") {
        head.kind = Kind::Conversation;
    }
    let mut events = Vec::new();
    if dialect.take(&told, line.as_bytes(), &mut events).is_err() {
        return false;
    }
    for event in events {
        match event {
            Event::Titled { title, of: None } => head.title = Some(title),
            Event::Prompt(said) => {
                // A command to Claude Code hardly describes the conversation, so a later prompt replaces it.
                let prompt = said.message.words();
                let command = prompt.starts_with('/');
                if !command || head.first_prompt.is_none() {
                    head.first_prompt = Some(opening(&prompt));
                }
                if !command {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Reads the time of the last record and the current title from the end of a file.
fn end(bytes: &[u8], head: &mut Head) {
    if let Some(at) = dialect::last_time(bytes, b"\"timestamp\":") {
        head.updated_at = at;
    }
    let tells = |bytes: &[u8]| has(bytes, b"-title\"") || has(bytes, b"\"type\":\"summary\"");
    if !tells(bytes) {
        return;
    }
    for line in dialect::whole_lines(bytes, true) {
        if !tells(line) {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else {
            continue;
        };
        let mut events = Vec::new();
        if Lines::default().take(&line, b"", &mut events).is_err() {
            continue;
        }
        for event in events {
            // A summary may belong to another session. It belongs to this one if it names a record that occurs in these
            // lines.
            let Event::Titled { title, of } = event else {
                continue;
            };
            let here = |of: &str| memmem::find_iter(bytes, of).count() > 1;
            let better = |old: &Title| title.source() >= old.source();
            if of.as_deref().is_none_or(here) && head.title.as_ref().is_none_or(better) {
                head.title = Some(title);
            }
        }
    }
}
