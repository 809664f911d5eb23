//! Content of a Gemini CLI session file, as far as the survival of the session depends on it.
//!
//! A file is a log of records: a header, messages, `$set` (which may replace all messages) and `$rewindTo`. Gemini CLI
//! deletes a file without messages, together with all files whose names end in the same eight characters. An empty file
//! with the id of another one, called its twin, therefore destroys the other one.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Fields in the name of a session file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChatFileName<'a> {
    /// Minute of creation, in UTC: `2026-11-16T03-30`.
    pub(super) minute: &'a str,
    /// First characters of the id.
    pub(super) short_id: &'a str,
}

/// Parses a name: `session-2026-11-16T03-30-58be647e.jsonl`, or `.json` in older versions.
pub(super) fn parse_file_name(file: &str) -> Option<ChatFileName<'_>> {
    const MINUTE_PATTERN: &str = "0000-00-00T00-00";
    let stem = file
        .strip_suffix(".jsonl")
        .or_else(|| file.strip_suffix(".json"))?;
    let (minute, short_id) = stem
        .strip_prefix("session-")?
        .split_at_checked(MINUTE_PATTERN.len())?;
    let matches_pattern = |(c, pattern): (u8, u8)| {
        if pattern == b'0' {
            c.is_ascii_digit()
        } else {
            c == pattern
        }
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

/// Returns the characters of an id with which the names of its files end.
pub(super) fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
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
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChatLine {
    session_id: Option<String>,
    project_hash: Option<IgnoredAny>,
    messages: Option<Vec<GeminiChatMessage>>,
    #[serde(rename = "$set")]
    set: Option<GeminiChatSet>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<String>,
    id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChatSet {
    session_id: Option<String>,
    messages: Option<Vec<GeminiChatMessage>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChatMessage {
    id: Option<String>,
    r#type: Option<String>,
    content: Option<GeminiChatContent>,
    tool_calls: Option<Vec<IgnoredAny>>,
    thoughts: Option<Vec<IgnoredAny>>,
    tokens: Option<GeminiChatTokens>,
}

#[derive(Deserialize)]
struct GeminiChatTokens {
    input: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GeminiChatContent {
    Text(String),
    Parts(Vec<GeminiChatPart>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct GeminiChatPart {
    text: Option<String>,
}

impl GeminiChatMessage {
    /// Returns `true` if Gemini CLI counts this as a message.
    fn is_counted(&self) -> bool {
        match self.r#type.as_deref() {
            Some("user") => !self.is_ignored(),
            Some("gemini") => {
                let is_non_empty = |list: &Option<Vec<IgnoredAny>>| {
                    list.as_ref().is_some_and(|list| !list.is_empty())
                };
                !self.text().trim().is_empty()
                    || is_non_empty(&self.tool_calls)
                    || is_non_empty(&self.thoughts)
            }
            Some(_) | None => false,
        }
    }

    /// Returns `true` if Gemini CLI takes the message for a command or for its own text.
    fn is_ignored(&self) -> bool {
        const IGNORED_PREFIXES: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];
        let text = self.text();
        let text = text.trim();
        text.is_empty()
            || IGNORED_PREFIXES
                .iter()
                .any(|prefix| text.starts_with(prefix))
    }

    fn text(&self) -> String {
        match &self.content {
            Some(GeminiChatContent::Text(text)) => text.clone(),
            // Gemini CLI shows content other than text as a name in brackets.
            Some(GeminiChatContent::Parts(parts)) => parts
                .iter()
                .map(|part| part.text.as_deref().unwrap_or("[…]"))
                .collect(),
            Some(GeminiChatContent::Other(_)) => "[…]".to_owned(),
            None => String::new(),
        }
    }
}

/// Messages so far: their ids, and whether Gemini CLI counts them.
#[derive(Default)]
struct CountedMessages(Vec<(String, bool)>);

impl CountedMessages {
    fn add(&mut self, message: &GeminiChatMessage) {
        let Some(id) = &message.id else { return };
        let is_counted = message.is_counted();
        match self
            .0
            .iter_mut()
            .rev()
            .find(|(existing_id, _)| existing_id == id)
        {
            Some((_, counted)) => *counted = is_counted,
            None => self.0.push((id.clone(), is_counted)),
        }
    }

    fn replace_all(&mut self, messages: &[GeminiChatMessage]) {
        self.0.clear();
        for message in messages {
            self.add(message);
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
        let Ok(line) = serde_json::from_slice::<GeminiChatLine>(line_bytes) else {
            continue;
        };
        let is_header = line.session_id.is_some() && line.project_hash.is_some();
        state.has_header |= line_index == 0 && is_header;
        let header_offset = last_header_offset.take();
        if let Some(message_id) = &line.rewind_to {
            messages.rewind_to(message_id);
        } else if line.id.is_some() {
            let Ok(message) = serde_json::from_slice::<GeminiChatMessage>(line_bytes) else {
                continue;
            };
            messages.add(&message);
            let tokens = message.tokens.and_then(|tokens| tokens.input);
            state.context_tokens = tokens.or(state.context_tokens);
        } else if let Some(set) = line.set {
            state.session_id = set.session_id.or(state.session_id);
            if let Some(list) = set.messages {
                let had_messages = messages.has_counted();
                messages.replace_all(&list);
                match (had_messages, messages.has_counted(), header_offset) {
                    (true, false, Some(header_offset)) => state.reset_at = Some(header_offset),
                    (_, true, _) => state.reset_at = None,
                    (_, false, _) => {}
                }
            }
        } else if is_header {
            state.session_id = line.session_id;
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
    if let Ok(line) = serde_json::from_slice::<GeminiChatLine>(bytes) {
        state.session_id = line.session_id;
        state.has_header = state.session_id.is_some();
        state.has_messages = line
            .messages
            .iter()
            .flatten()
            .any(GeminiChatMessage::is_counted);
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
