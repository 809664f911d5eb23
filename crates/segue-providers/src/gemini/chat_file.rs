//! Content of a Gemini CLI session file, as far as the survival of the session depends on it.
//!
//! A file is a log of records: a header, messages, `$set` (which may replace all messages) and `$rewindTo`. Gemini CLI
//! deletes a file without messages, together with all files whose names end in the same eight characters. An empty file
//! with the id of another one, called its twin, therefore destroys the other one.

use segue_core::id::NativeId;

use super::schema::GeminiFileLine;
use super::session_head::is_command;
use crate::reader::borrowed_json::{JsonText, decode_lossy};
use crate::reader::has_any_prefix;

/// Fields in the name of a session file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChatFileName<'a> {
    /// Minute of creation, in UTC: `2026-11-16T03-30`.
    pub(super) minute: &'a str,
    /// First characters of the id.
    pub(super) short_id: &'a str,
}

/// Returns a name without the suffix of a session file: `.jsonl`, or `.json` in older versions.
pub(super) fn file_stem(file: &str) -> Option<&str> {
    file.strip_suffix(".jsonl")
        .or_else(|| file.strip_suffix(".json"))
}

/// Parses a name: `session-2026-11-16T03-30-58be647e.jsonl`, or `.json` in older versions.
pub(super) fn parse_file_name(file: &str) -> Option<ChatFileName<'_>> {
    const MINUTE_PATTERN: &str = "0000-00-00T00-00";
    let (minute, short_id) = file_stem(file)?
        .strip_prefix("session-")?
        .split_at_checked(MINUTE_PATTERN.len())?;
    let matches_pattern = |(c, pattern): (u8, u8)| match pattern {
        b'0' => c.is_ascii_digit(),
        _ => c == pattern,
    };
    let is_dated = minute
        .bytes()
        .zip(MINUTE_PATTERN.bytes())
        .all(matches_pattern);
    let short_id = short_id
        .strip_prefix('-')
        .filter(|short_id| !short_id.is_empty())?;
    is_dated.then_some(ChatFileName { minute, short_id })
}

/// Returns `true` if a file belongs to session `id` by its name.
pub(super) fn is_file_of(file: &str, id: &NativeId) -> bool {
    parse_file_name(file).is_some_and(|name| name.short_id == short_id(id))
}

/// Returns the characters of an id with which the names of its files end.
pub(super) fn short_id(id: &NativeId) -> &str {
    id.as_str().get(..8).unwrap_or(id.as_str())
}

/// State of a session file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChatFileState {
    /// Id of the session that the file belongs to; `None` if it names none.
    pub(super) session_id: Option<String>,
    /// Whether the file contains messages, so that Gemini CLI can resume the session.
    pub(super) has_messages: bool,
    /// Whether the file begins with a header. A file that does not was deleted while a process was still writing to it.
    pub(super) has_header: bool,
    /// Position of a second header that discarded all messages; `None` if messages follow it.
    pub(super) reset_at: Option<usize>,
    /// Number of input tokens in the last request.
    pub(super) context_tokens: Option<u64>,
}

impl ChatFileState {
    /// Returns `true` if this is an empty file of session `id`, which is harmful as soon as another file of the session
    /// exists.
    pub(super) fn is_empty_file_of(&self, id: &str) -> bool {
        !self.has_messages && self.reset_at.is_none() && self.session_id.as_deref() == Some(id)
    }

    fn set_session_id(&mut self, id: Option<JsonText<'_>>) {
        self.session_id = id.map(JsonText::into_owned).or(self.session_id.take());
    }
}

/// Returns `true` if Gemini CLI counts a line as a message.
fn is_counted(line: &GeminiFileLine<'_>) -> bool {
    fn has_items<T>(list: Option<&Vec<T>>) -> bool {
        list.is_some_and(|list| !list.is_empty())
    }
    // Gemini CLI shows content other than text as a name in brackets.
    let parts = line.content.0.iter();
    let text: String = parts
        .map(|part| part.text.as_deref().unwrap_or("[…]"))
        .collect();
    let text = text.trim();
    match line.r#type.as_deref() {
        // Gemini CLI takes the other messages for commands or for its own texts.
        Some("user") => {
            !text.is_empty()
                && !is_command(text)
                && !has_any_prefix(text, super::GEMINI_PROVIDER.injected_prefixes)
        }
        Some("gemini") => {
            !text.is_empty()
                || has_items(line.tool_calls.as_ref())
                || has_items(line.thoughts.as_ref())
        }
        Some(_) | None => false,
    }
}

/// Messages so far: their ids, and whether Gemini CLI counts them.
#[derive(Default)]
struct CountedMessages(Vec<(String, bool)>);

impl CountedMessages {
    fn add(&mut self, message: &GeminiFileLine<'_>) {
        let Some(id) = message.id.as_deref() else {
            return;
        };
        let is_counted = is_counted(message);
        match self
            .0
            .iter_mut()
            .rev()
            .find(|(existing_id, _)| existing_id == id)
        {
            Some((_, counted)) => *counted = is_counted,
            None => self.0.push((id.to_owned(), is_counted)),
        }
    }

    fn rewind_to(&mut self, message_id: &str) {
        let index = self.0.iter().position(|(id, _)| id == message_id);
        self.0.truncate(index.unwrap_or(0));
    }

    fn has_counted(&self) -> bool {
        self.0.iter().any(|(_, is_counted)| *is_counted)
    }
}

/// Reads a file. Skips lines that it cannot parse, as Gemini CLI does.
pub(super) fn parse_chat_file(bytes: &[u8]) -> ChatFileState {
    let mut state = ChatFileState::default();
    let mut messages = CountedMessages::default();
    let mut last_header_offset = None;
    let mut next_offset = 0;
    for (line_index, line_bytes) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let offset = next_offset;
        next_offset += line_bytes.len();
        let text = decode_lossy(line_bytes);
        let Ok(line) = serde_json::from_str::<GeminiFileLine<'_>>(&text) else {
            continue;
        };
        let is_header = line.session_id.is_some() && line.project_hash.is_some();
        state.has_header |= line_index == 0 && is_header;
        let header_offset = last_header_offset.take();
        if let Some(message_id) = &line.rewind_to {
            messages.rewind_to(message_id);
        } else if line.id.is_some() {
            messages.add(&line);
            let tokens = line.tokens.and_then(|tokens| tokens.input);
            state.context_tokens = tokens.or(state.context_tokens);
        } else if let Some(set) = line.set {
            state.set_session_id(set.session_id);
            if let Some(list) = set.messages {
                let had_messages = messages.has_counted();
                messages.0.clear();
                for message in &list {
                    messages.add(message);
                }
                match (had_messages, messages.has_counted(), header_offset) {
                    (true, false, Some(header_offset)) => state.reset_at = Some(header_offset),
                    (_, true, _) => state.reset_at = None,
                    (_, false, _) => {}
                }
            }
        } else if is_header {
            state.set_session_id(line.session_id);
            last_header_offset = Some(offset);
            let list = line.messages.unwrap_or_default();
            for message in &list {
                messages.add(message);
            }
        }
    }
    state.has_messages = messages.has_counted();
    if state.has_messages {
        state.reset_at = None;
    } else if state.session_id.is_none() {
        read_document(bytes, &mut state);
    }
    state
}

/// Reads an older file, which is one object over many lines.
fn read_document(bytes: &[u8], state: &mut ChatFileState) {
    if let Ok(document) = serde_json::from_str::<GeminiFileLine<'_>>(&decode_lossy(bytes)) {
        state.set_session_id(document.session_id);
        state.has_header = state.session_id.is_some();
        state.has_messages = document.messages.iter().flatten().any(is_counted);
    }
}

/// Repair of a file, given segue's copy of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatFileRepair {
    /// The file is intact, or no better version exists.
    NotNeeded,
    /// The file or all of its messages were deleted. Contains the previous content.
    Restoration(Vec<u8>),
    /// The file was restarted by mistake. Contains the content before the restart.
    Rollback(Vec<u8>),
    /// The file was deleted while a process was writing to it. Contains the previous content and what followed.
    Concatenation(Vec<u8>),
}

/// Compares a file with segue's copy; either may be missing.
pub(super) fn plan_repair(current: Option<&[u8]>, copy: Option<&[u8]>) -> ChatFileRepair {
    let state = current.map(parse_chat_file);
    let copy = copy.filter(|copy| parse_chat_file(copy).has_messages);
    match (current.zip(state), copy) {
        (Some((current, state)), copy) => {
            if let Some(before_reset) = state.reset_at.and_then(|offset| current.get(..offset)) {
                let longer = copy.filter(|copy| copy.starts_with(before_reset));
                return ChatFileRepair::Rollback(longer.unwrap_or(before_reset).to_vec());
            }
            match copy {
                Some(copy) if !state.has_messages => ChatFileRepair::Restoration(copy.to_vec()),
                Some(copy) if !state.has_header && !current.starts_with(copy) => {
                    ChatFileRepair::Concatenation([copy, current].concat())
                }
                Some(_) | None => ChatFileRepair::NotNeeded,
            }
        }
        (None, Some(copy)) => ChatFileRepair::Restoration(copy.to_vec()),
        (None, None) => ChatFileRepair::NotNeeded,
    }
}

/// Returns the number of seconds until the end of `minute`; `None` if `now` is not in that minute. Both are in UTC.
pub(super) fn seconds_left_in_minute(minute: &str, now: jiff::Timestamp) -> Option<i64> {
    // `2026-11-16T03:30:05Z`, with or without a fraction.
    let now_text = now.to_string();
    let current_minute = now_text.get(..minute.len())?.replace(':', "-");
    (current_minute == minute).then(|| 60 - now.as_second().rem_euclid(60))
}

#[cfg(test)]
mod tests;
