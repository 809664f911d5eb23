//! Content of a Gemini CLI session file, as far as the survival of the session depends on it.
//!
//! A file is a log of records: a header, messages, `$set` (which may replace all messages) and `$rewindTo`. Gemini CLI
//! deletes a file without messages, together with all files whose names end in the same eight characters. An empty file
//! with the id of another one, called its twin, therefore destroys the other one.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Fields in the name of a session file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// Minute of creation, in UTC: `2026-11-16T03-30`.
    pub(super) minute: &'a str,
    /// First characters of the id.
    pub(super) short: &'a str,
}

/// Parses a name: `session-2026-11-16T03-30-58be647e.jsonl`, or `.json` in older versions.
pub(super) fn name(file: &str) -> Option<Name<'_>> {
    const MINUTE: &str = "0000-00-00T00-00";
    let stem = file
        .strip_suffix(".jsonl")
        .or_else(|| file.strip_suffix(".json"))?;
    let (minute, short) = stem
        .strip_prefix("session-")?
        .split_at_checked(MINUTE.len())?;
    let fits = |(c, pattern): (u8, u8)| {
        if pattern == b'0' {
            c.is_ascii_digit()
        } else {
            c == pattern
        }
    };
    let dated = minute.bytes().zip(MINUTE.bytes()).all(fits);
    let short = short.strip_prefix('-').filter(|short| !short.is_empty())?;
    dated.then_some(Name { minute, short })
}

/// Returns the characters of an id with which the names of its files end.
pub(super) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// State of a session file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Story {
    /// Id of the session that the file belongs to; `None` if it names none.
    pub(super) id: Option<String>,
    /// Whether the file contains messages, so that Gemini CLI can resume the session.
    pub(super) said: bool,
    /// Whether the file begins with a header. A file that does not was deleted while a process was still writing to it.
    pub(super) headed: bool,
    /// Position of a second header that discarded all messages; `None` if messages follow it.
    pub(super) reset_at: Option<usize>,
    /// Number of input tokens in the last request.
    pub(super) context_tokens: Option<u64>,
}

impl Story {
    /// Returns `true` if this is an empty file of session `id`, which is harmful as soon as another file of the session
    /// exists.
    pub(super) fn is_empty_of(&self, id: &str) -> bool {
        !self.said && self.reset_at.is_none() && self.id.as_deref() == Some(id)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    session_id: Option<String>,
    project_hash: Option<IgnoredAny>,
    messages: Option<Vec<Message>>,
    #[serde(rename = "$set")]
    set: Option<Set>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<String>,
    id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    session_id: Option<String>,
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: Option<String>,
    r#type: Option<String>,
    content: Option<Content>,
    tool_calls: Option<Vec<IgnoredAny>>,
    thoughts: Option<Vec<IgnoredAny>>,
    tokens: Option<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    input: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

impl Message {
    /// Returns `true` if Gemini CLI counts this as a message.
    fn says(&self) -> bool {
        match self.r#type.as_deref() {
            Some("user") => !self.is_ignored(),
            Some("gemini") => {
                let some = |list: &Option<Vec<IgnoredAny>>| {
                    list.as_ref().is_some_and(|list| !list.is_empty())
                };
                !self.words().trim().is_empty() || some(&self.tool_calls) || some(&self.thoughts)
            }
            Some(_) | None => false,
        }
    }

    /// Returns `true` if Gemini CLI takes the message for a command or for its own text.
    fn is_ignored(&self) -> bool {
        const IGNORED: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];
        let words = self.words();
        let words = words.trim();
        words.is_empty() || IGNORED.iter().any(|start| words.starts_with(start))
    }

    fn words(&self) -> String {
        match &self.content {
            Some(Content::Text(text)) => text.clone(),
            // Gemini CLI shows content other than text as a name in brackets.
            Some(Content::Parts(parts)) => parts
                .iter()
                .map(|part| part.text.as_deref().unwrap_or("[…]"))
                .collect(),
            Some(Content::Other(_)) => "[…]".to_owned(),
            None => String::new(),
        }
    }
}

/// Messages so far: their ids, and whether Gemini CLI counts them.
#[derive(Default)]
struct Messages(Vec<(String, bool)>);

impl Messages {
    fn add(&mut self, message: &Message) {
        let Some(id) = &message.id else { return };
        let says = message.says();
        match self.0.iter_mut().rev().find(|(known, _)| known == id) {
            Some((_, said)) => *said = says,
            None => self.0.push((id.clone(), says)),
        }
    }

    fn replace(&mut self, messages: &[Message]) {
        self.0.clear();
        for message in messages {
            self.add(message);
        }
    }

    fn rewind(&mut self, to: &str) {
        let at = self.0.iter().position(|(id, _)| id == to);
        self.0.truncate(at.unwrap_or(0));
    }

    fn say(&self) -> bool {
        self.0.iter().any(|(_, says)| *says)
    }
}

/// Reads a file. Skips lines that it cannot parse, as Gemini CLI does.
pub(super) fn read(bytes: &[u8]) -> Story {
    let mut story = Story::default();
    let mut messages = Messages::default();
    let mut header_at = None;
    let mut start = 0;
    for (n, bytes) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let at = start;
        start += bytes.len();
        let Ok(line) = serde_json::from_slice::<Line>(bytes) else {
            continue;
        };
        let is_header = line.session_id.is_some() && line.project_hash.is_some();
        story.headed |= n == 0 && is_header;
        let header = header_at.take();
        if let Some(to) = &line.rewind_to {
            messages.rewind(to);
        } else if line.id.is_some() {
            let Ok(message) = serde_json::from_slice::<Message>(bytes) else {
                continue;
            };
            messages.add(&message);
            let tokens = message.tokens.and_then(|tokens| tokens.input);
            story.context_tokens = tokens.or(story.context_tokens);
        } else if let Some(set) = line.set {
            story.id = set.session_id.or(story.id);
            if let Some(list) = set.messages {
                let before = messages.say();
                messages.replace(&list);
                match (before, messages.say(), header) {
                    (true, false, Some(header)) => story.reset_at = Some(header),
                    (_, true, _) => story.reset_at = None,
                    (_, false, _) => {}
                }
            }
        } else if is_header {
            story.id = line.session_id;
            header_at = Some(at);
            let list = line.messages.unwrap_or_default();
            for message in &list {
                messages.add(message);
            }
        }
    }
    story.said = messages.say();
    if story.said {
        story.reset_at = None;
    } else if story.id.is_none() {
        read_document(bytes, &mut story);
    }
    story
}

/// Reads an older file, which is one object over many lines.
fn read_document(bytes: &[u8], story: &mut Story) {
    if let Ok(line) = serde_json::from_slice::<Line>(bytes) {
        story.id = line.session_id;
        story.headed = story.id.is_some();
        story.said = line.messages.iter().flatten().any(Message::says);
    }
}

/// Repair of a file, given segue's copy of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// The file is intact, or no better version exists.
    Nothing,
    /// The file or all of its messages were deleted. Contains the previous content.
    PutBack(Vec<u8>),
    /// The file was restarted by mistake. Contains the content before the restart.
    Undo(Vec<u8>),
    /// The file was deleted while a process was writing to it. Contains the previous content and what followed.
    Join(Vec<u8>),
}

/// Compares a file with segue's copy; either may be missing.
pub(super) fn mend(now: Option<&[u8]>, kept: Option<&[u8]>) -> Mend {
    let story = now.map(read);
    let kept = kept.filter(|kept| read(kept).said);
    match (now.zip(story), kept) {
        (Some((now, story)), kept) => {
            if let Some(held) = story.reset_at.and_then(|at| now.get(..at)) {
                let newer = kept.filter(|kept| kept.starts_with(held));
                return Mend::Undo(newer.unwrap_or(held).to_vec());
            }
            match kept {
                Some(kept) if !story.said => Mend::PutBack(kept.to_vec()),
                Some(kept) if !story.headed && !now.starts_with(kept) => {
                    Mend::Join([kept, now].concat())
                }
                Some(_) | None => Mend::Nothing,
            }
        }
        (None, Some(kept)) => Mend::PutBack(kept.to_vec()),
        (None, None) => Mend::Nothing,
    }
}

/// Returns the number of seconds until the end of `minute`; `None` if `now` is not in that minute. Both are in UTC.
pub(super) fn left_of(minute: &str, now: jiff::Timestamp) -> Option<i64> {
    // `2026-11-16T03:30:05Z`, with or without a fraction.
    let now_text = now.to_string();
    let this = now_text.get(..minute.len())?.replace(':', "-");
    (this == minute).then(|| 60 - now.as_second().rem_euclid(60))
}

#[cfg(test)]
mod tests;
