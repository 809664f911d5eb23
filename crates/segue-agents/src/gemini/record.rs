//! What a session file of Gemini CLI holds, as far as its survival depends on it.
//!
//! A file is a log of records: a header, messages, `$set` (which may replace all messages) and `$rewindTo`. Gemini CLI
//! deletes a file in which nothing is said, with all others whose names end in the same eight characters. So a file
//! that is empty and has the id of another one, its twin, is what ruins that other one.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What the name of a session file tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// The minute it was made in, in UTC: `2026-11-16T03-30`.
    pub(super) minute: &'a str,
    /// How the id begins.
    pub(super) short: &'a str,
}

/// Reads a name: `session-2026-11-16T03-30-58be647e.jsonl`, or `.json` before.
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

/// How the names of a session's files end.
pub(super) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Story {
    /// The session it says it belongs to.
    pub(super) id: Option<String>,
    /// Whether anything is said in it, so that Gemini CLI can go on with it.
    pub(super) said: bool,
    /// Whether it begins as a file should. One that does not was deleted while somebody still wrote to it.
    pub(super) headed: bool,
    /// Where a second beginning took everything away, if nothing came after it.
    pub(super) reset_at: Option<usize>,
    /// The size of the last request.
    pub(super) context_tokens: Option<u64>,
}

impl Story {
    /// Whether this is an empty file of session `id`, harmful as soon as there is another one.
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
    /// Whether Gemini CLI counts it as something said.
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

    /// What Gemini CLI takes for a command or for its own words.
    fn is_ignored(&self) -> bool {
        const IGNORED: [&str; 4] = ["/", "?", "<session_context>", "<hook_context>"];
        let words = self.words();
        let words = words.trim();
        words.is_empty() || IGNORED.iter().any(|start| words.starts_with(start))
    }

    fn words(&self) -> String {
        match &self.content {
            Some(Content::Text(text)) => text.clone(),
            // What is not text is shown by a name in brackets.
            Some(Content::Parts(parts)) => parts
                .iter()
                .map(|part| part.text.as_deref().unwrap_or("[…]"))
                .collect(),
            Some(Content::Other(_)) => "[…]".to_owned(),
            None => String::new(),
        }
    }
}

/// The messages so far: their ids, and whether they say something.
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

/// Reads a file. What can't be understood is passed over, as Gemini CLI does.
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

/// An older file is one object over many lines.
fn read_document(bytes: &[u8], story: &mut Story) {
    if let Ok(line) = serde_json::from_slice::<Line>(bytes) {
        story.id = line.session_id;
        story.headed = story.id.is_some();
        story.said = line.messages.iter().flatten().any(Message::says);
    }
}

/// What is to be done about a file, given our copy of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// It is as it should be, or there is nothing better.
    Nothing,
    /// It was deleted, or everything in it: this is what it held.
    PutBack(Vec<u8>),
    /// It was begun anew by mistake: this is what it held before.
    Undo(Vec<u8>),
    /// It was deleted while it was being written to: this is what it held, with what came after.
    Join(Vec<u8>),
}

/// Compares a file, if it is there, with our copy, if there is one.
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

/// The seconds until the minute is over that `minute` names, if it is that of `now`; both in UTC.
pub(super) fn left_of(minute: &str, now: jiff::Timestamp) -> Option<i64> {
    // `2026-11-16T03:30:05Z`, with or without a fraction.
    let now_text = now.to_string();
    let this = now_text.get(..minute.len())?.replace(':', "-");
    (this == minute).then(|| 60 - now.as_second().rem_euclid(60))
}

#[cfg(test)]
mod tests;
