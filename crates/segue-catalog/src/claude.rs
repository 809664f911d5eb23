//! Claude Code sessions: `projects/<working directory, encoded>/<session id>.jsonl`
//!
//! The encoding of the directory is lossy, so the `cwd` inside the file is decisive. A file is a log of records.
//! Records with a `uuid` form a chain by `parentUuid`, which also contains attachments and notices between messages.
//! Each block of an answer is a record of its own. A prompt whose parent is not the newest record is a rewind: the user
//! returned to an earlier record and sent another prompt. Only prompts rewind. The results of parallel tool calls also
//! have older parents, but remove no messages.

mod belongings;
mod head;
mod heard;
mod retention;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;

use jiff::Timestamp;
use memchr::memmem;
use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{InlineData, Message, Part, Role, Title, TitleSource, TurnState};
use segue_core::spend::Cost;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::heard::Heard;
pub(crate) use self::retention::retention;
use self::wire::{Block, Line, Queued};
use crate::dialect::{self, Dialect, LineRecords, Malformed, Told};
use crate::found::IdHint;
use crate::json::{Blocks, Text};
use crate::record::Back;
use crate::{
    Event, Found, Head, Keeping, Mark, NativeTurn, ReadError, Reader, Records, Said, Start,
    Whereabouts,
};

/// Reader of Claude Code's sessions.
#[derive(Debug, Clone)]
pub struct Claude {
    config: PathBuf,
    projects: PathBuf,
}

impl Claude {
    /// Creates a reader. `config` is `$CLAUDE_CONFIG_DIR`, by default `~/.claude`.
    #[must_use]
    pub fn new(config: impl Into<PathBuf>) -> Self {
        let config = config.into();
        Self {
            projects: config.join("projects"),
            config,
        }
    }
}

impl Reader for Claude {
    fn provider(&self) -> &'static str {
        "claude"
    }

    fn find(&self) -> Whereabouts {
        let mut there = Whereabouts::default();
        for project in there.entries(&self.projects) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            for entry in there.entries(&project.path()) {
                let name = entry.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
                // Claude Code stores transcripts of sub-agents next to conversations.
                let id = id.filter(|id| !id.starts_with("agent-"));
                if let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) {
                    there.add_file(&entry, IdHint::Whole(id.to_owned()), false);
                }
            }
        }
        there
    }

    fn head(&self, found: &Found) -> Result<Head, ReadError> {
        head::head(found)
    }

    fn records(&self, found: &Found, start: &Start) -> Result<Box<dyn Records>, ReadError> {
        Ok(Box::new(LineRecords::<Lines>::open(&found.path, start)?))
    }

    fn end(&self, found: &Found) -> Result<Option<Mark>, ReadError> {
        dialect::end::<Lines>(&found.path)
    }

    fn recent(&self, found: &Found, turns: usize) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        dialect::recent::<Lines>(&found.path, turns)
    }

    fn keeping(&self) -> Option<&dyn Keeping> {
        Some(self)
    }
}

/// Line format of Claude Code. It remembers the newest record of the chain and the names of the called tools.
#[derive(Default)]
struct Lines {
    newest: Option<String>,
    calls: HashMap<String, String>,
}

impl Dialect for Lines {
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed> {
        let bytes = line.trim_ascii().as_bytes();
        if !(bytes.starts_with(b"{") && bytes.ends_with(b"}")) {
            return Err(Malformed);
        }
        // Most bytes of a file are dumps of complete requests, which are not part of the chain. This check skips them
        // without parsing.
        let kinds: [&[u8]; 4] = [
            b"\"uuid\"",
            b"-title\"",
            b"\"summary\"",
            b"\"queued_command\"",
        ];
        if !kinds.iter().any(|kind| has(bytes, kind)) {
            return Ok(());
        }
        let line: Line<'_> = serde_json::from_str(line)?;
        if line.is_sidechain == Some(true) {
            return Ok(());
        }
        told.at = line.at();
        self.take(&line, bytes, &mut told.events)?;
        if let Some(uuid) = line.uuid {
            if told.events.is_empty() {
                told.events.push(Event::Step(uuid.to_string()));
            }
            self.newest = Some(uuid.into_owned());
        }
        Ok(())
    }

    fn may_prompt(line: &[u8]) -> bool {
        has(line, b"\"user\"") && !has(line, b"\"tool_use_id\"")
    }
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    memmem::find(bytes, needle).is_some()
}

impl Lines {
    fn take(
        &mut self,
        line: &Line<'_>,
        bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        match &*line.r#type {
            "user" => self.user(line, bytes, events)?,
            "attachment" => Self::queued(line, bytes, events)?,
            "system" if line.subtype.as_deref() == Some("local_command") => {
                let mut heard = Heard::default();
                let text = line
                    .content
                    .and_then(|text| serde_json::from_str(text.get()).ok());
                heard.hear(text.map_or(String::new(), Text::into_owned).as_str());
                self.told(heard, line, events);
            }
            "assistant" => self.assistant(line, bytes, events)?,
            "summary" => {
                let title = line.summary.as_deref();
                events.extend(titled(title, TitleSource::Model, line.leaf_uuid.as_deref()));
            }
            "custom-title" => {
                events.extend(titled(
                    line.custom_title.as_deref(),
                    TitleSource::User,
                    None,
                ));
            }
            "ai-title" => events.extend(titled(line.ai_title.as_deref(), TitleSource::Model, None)),
            _ => {}
        }
        Ok(())
    }

    fn user(
        &mut self,
        line: &Line<'_>,
        bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        let key = line.uuid.as_deref().map(str::to_owned);
        let at = line.at().unwrap_or(Timestamp::UNIX_EPOCH);
        let spoken = line.message.as_ref().ok_or(Malformed)?;
        let content = spoken.content.as_ref().ok_or(Malformed)?;
        if line.is_compact_summary == Some(true) {
            let summary = content.text(|block| block.text.as_deref());
            events.extend(key.map(Event::Step));
            events.push(Event::Compacted(Some(summary)));
            return Ok(());
        }
        let mut heard = Heard::default();
        match content {
            Blocks::Text(text) => heard.hear(text),
            Blocks::List(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    match &*block.r#type {
                        "text" => heard.hear(block.text.as_deref().unwrap_or_default()),
                        "tool_result" => {
                            let message = Message::new(Role::Tool, vec![self.result(block)], at);
                            say(message, line, events);
                        }
                        "image" | "document" => heard.asked.push(inline(block)),
                        _ => heard.asked.push(unknown(bytes, index)),
                    }
                }
            }
        }
        self.told(heard, line, events);
        Ok(())
    }

    /// Emits the events of texts that a record attributes to the user.
    fn told(&self, heard: Heard, line: &Line<'_>, events: &mut Vec<Event>) {
        let at = line.at().unwrap_or(Timestamp::UNIX_EPOCH);
        if !heard.asked.is_empty() && line.is_meta != Some(true) {
            let message = Message::new(Role::User, heard.asked, at);
            if events.is_empty() {
                events.extend(self.rewind(line.parent_uuid.as_deref()));
                let key = line.uuid.as_deref().map(str::to_owned);
                events.push(Event::Prompt(Said { key, message }));
            } else {
                // The text accompanies the result of a tool, so the turn continues.
                say(message, line, events);
            }
        }
        for note in heard.notes {
            let message = Message::new(Role::System, vec![Part::Text(note)], at);
            say(message, line, events);
        }
        let ends = [
            (heard.ran, TurnState::Finished),
            (heard.cancelled, TurnState::Cancelled),
        ];
        for (_, state) in ends.into_iter().filter(|(ended, _)| *ended) {
            if events.is_empty() {
                events.extend(line.uuid.as_deref().map(|key| Event::Step(key.to_owned())));
            }
            events.push(Event::Ended(state));
        }
    }

    /// Emits a message that the user sent while the agent was working. Claude Code stores it only as an attachment.
    fn queued(line: &Line<'_>, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), Malformed> {
        if !has(bytes, b"\"queued_command\"") {
            return Ok(());
        }
        let queued: Queued<'_> = serde_json::from_slice(bytes)?;
        let queued = queued.attachment;
        if &*queued.r#type != "queued_command" || queued.is_meta == Some(true) {
            return Ok(());
        }
        let mut heard = Heard::default();
        match &queued.prompt {
            Some(Blocks::Text(text)) => heard.hear(text),
            Some(Blocks::List(blocks)) => {
                for block in blocks {
                    match &*block.r#type {
                        "text" => heard.hear(block.text.as_deref().unwrap_or_default()),
                        _ => heard.asked.push(inline(block)),
                    }
                }
            }
            None => {}
        }
        if !heard.asked.is_empty() {
            let at = line.at().unwrap_or(Timestamp::UNIX_EPOCH);
            say(Message::new(Role::User, heard.asked, at), line, events);
        }
        Ok(())
    }

    /// Returns the rewind of a prompt that does not follow the newest record. `None` if it does.
    fn rewind(&self, parent: Option<&str>) -> Option<Event> {
        let newest = self.newest.as_deref()?;
        match parent {
            Some(parent) if parent == newest => None,
            Some(parent) => Some(Event::Rewind(Back::After(parent.to_owned()))),
            None => Some(Event::Rewind(Back::ToTheBeginning)),
        }
    }

    fn result(&mut self, block: &Block<'_>) -> Part {
        let call_id = block.tool_use_id.as_deref().unwrap_or_default().to_owned();
        Part::FunctionResponse {
            name: self.calls.remove(&call_id).unwrap_or_default(),
            call_id,
            response: block.content.map_or_else(|| Json::string(""), Json::from),
            is_error: block.is_error == Some(true),
        }
    }

    fn assistant(
        &mut self,
        line: &Line<'_>,
        bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        let spoken = line.message.as_ref().ok_or(Malformed)?;
        let at = line.at().unwrap_or(Timestamp::UNIX_EPOCH);
        let mut parts = Vec::new();
        match &spoken.content {
            Some(Blocks::Text(text)) => parts.push(Part::Text(text.to_string())),
            Some(Blocks::List(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    parts.extend(self.part(block, || unknown(bytes, index)));
                }
            }
            None => {}
        }
        // Claude Code writes this message in the agent's name when it resumes an interrupted conversation.
        let synthetic = spoken.model.as_deref() == Some("<synthetic>");
        if synthetic && line.is_api_error_message != Some(true) {
            return Ok(());
        }
        for (index, part) in parts.into_iter().enumerate() {
            let key = line.uuid.as_deref().filter(|_| index == 0);
            events.push(Event::Said(Said {
                key: key.map(str::to_owned),
                message: Message::new(Role::Assistant, vec![part], at),
            }));
        }
        if let Some(tokens) = spoken.usage.filter(|_| !synthetic) {
            events.push(Event::Used {
                request: spoken.id.as_deref().map(str::to_owned),
                usage: tokens.into(),
                model: spoken.model.as_deref().map(str::to_owned),
                cost: line.cost.and_then(Cost::from_dollars),
            });
        }
        if line.is_api_error_message == Some(true) {
            events.push(Event::Ended(TurnState::Failed));
        } else if matches!(
            spoken.stop_reason.as_deref(),
            Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal")
        ) {
            events.push(Event::Ended(TurnState::Finished));
        }
        if events.iter().all(|event| !matches!(event, Event::Said(_))) {
            events.extend(line.uuid.as_deref().map(|key| Event::Step(key.to_owned())));
        }
        Ok(())
    }

    fn part(&mut self, block: &Block<'_>, unknown: impl FnOnce() -> Part) -> Option<Part> {
        let filled = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let part = match &*block.r#type {
            "text" => Part::Text(filled(&block.text)),
            // Reasoning that the agent hides is an empty thought with a signature.
            "thinking" => Part::Thought(filled(&block.thinking)),
            "redacted_thinking" => return None,
            "tool_use" | "server_tool_use" => {
                let (id, name) = (filled(&block.id), filled(&block.name));
                self.calls.insert(id.clone(), name.clone());
                Part::FunctionCall {
                    id,
                    name,
                    args: block.input.map_or_else(Json::empty_object, Json::from),
                }
            }
            "tool_result" | "web_search_tool_result" => self.result(block),
            "image" | "document" => inline(block),
            _ => unknown(),
        };
        let empty = matches!(&part, Part::Text(text) | Part::Thought(text) if text.is_empty());
        (!empty).then_some(part)
    }
}

/// Emits a message of a record. The first message of a record gets the record's key.
fn say(message: Message, line: &Line<'_>, events: &mut Vec<Event>) {
    let key = line.uuid.as_deref().filter(|_| events.is_empty());
    let key = key.map(str::to_owned);
    events.push(Event::Said(Said { key, message }));
}

fn inline(block: &Block<'_>) -> Part {
    let source = block.source.as_ref();
    let text = |text: Option<&Text<'_>>| text.map(ToString::to_string);
    Part::InlineData(InlineData {
        mime_type: text(source.and_then(|source| source.media_type.as_ref()))
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        data: text(source.and_then(|source| source.data.as_ref())),
    })
}

/// Returns a block of an unknown type as its raw JSON.
fn unknown(line: &[u8], index: usize) -> Part {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        message: Message<'a>,
    }
    let line = serde_json::from_slice::<Line<'_>>(line).ok();
    let block = line.and_then(|line| line.message.content.get(index).copied());
    Part::Unknown(block.map_or_else(Json::empty_object, Json::from))
}

fn titled(title: Option<&str>, source: TitleSource, of: Option<&str>) -> Option<Event> {
    Some(Event::Titled {
        title: Title::given(title?, source).ok()?,
        of: of.map(str::to_owned),
    })
}
