//! Claude Code sessions: `projects/<working directory, encoded>/<session id>.jsonl`
//!
//! The encoding of the directory is lossy, so the `cwd` inside the file is decisive. A file is a log of records.
//! Records with a `uuid` form a chain by `parentUuid`, which also contains attachments and notices between messages.
//! Each block of an answer is a record of its own. A prompt whose parent is not the newest record is a rewind: the user
//! returned to an earlier record and sent another prompt. Only prompts rewind. The results of parallel tool calls also
//! have older parents, but remove no messages.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;

use segue_core::id::NativeId;
use segue_core::json::Json;
use segue_core::session::{InlineData, Part, Role, Title, TitleSource, TurnState};
use segue_core::spend::Cost;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::schema::{ClaudeFileAttachmentLine, ClaudeFileBlock, ClaudeFileLine};
use super::session_head;
use super::user_text::ClaudeUserContent;
use crate::reader::borrowed_json::{JsonText, TextOrBlocks};
use crate::reader::discovery::IdHint;
use crate::reader::line_format::{
    self, LineEvents, LineFormat, LineRecords, MalformedLine, contains_bytes,
};
use crate::reader::record::RewindTarget;
use crate::{
    Mark, NativeTurn, ReadError, ReadStart, Reader, RecordEvent, Records, SessionHead,
    SessionLocation, SessionScan, SessionStorage,
};

/// Reader of Claude Code's sessions.
#[derive(Debug, Clone)]
pub struct ClaudeReader {
    pub(super) config_dir: PathBuf,
    pub(super) projects_dir: PathBuf,
}

impl ClaudeReader {
    /// Creates a reader. `config_dir` is `$CLAUDE_CONFIG_DIR`, by default `~/.claude`.
    #[must_use]
    pub fn new(config_dir: impl Into<PathBuf>) -> Self {
        let config_dir = config_dir.into();
        Self {
            projects_dir: config_dir.join("projects"),
            config_dir,
        }
    }
}

impl Reader for ClaudeReader {
    fn provider(&self) -> &'static str {
        "claude"
    }

    fn scan_sessions(&self) -> SessionScan {
        let mut scan = SessionScan::default();
        for project in scan.read_entries(&self.projects_dir) {
            if project.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            for entry in scan.read_entries(&project.path()) {
                let name = entry.file_name();
                let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
                // Claude Code stores transcripts of sub-agents next to conversations.
                let id = id.filter(|id| !id.starts_with("agent-"));
                if let Some(id) = id.filter(|id| NativeId::parse(id).is_ok()) {
                    scan.add_file(&entry, IdHint::Complete(id.to_owned()), false);
                }
            }
        }
        scan
    }

    fn read_head(&self, location: &SessionLocation) -> Result<SessionHead, ReadError> {
        session_head::read_head(location)
    }

    fn open_records(
        &self,
        location: &SessionLocation,
        start: &ReadStart,
    ) -> Result<Box<dyn Records>, ReadError> {
        Ok(Box::new(LineRecords::<ClaudeLineFormat>::open(
            &location.path,
            start,
        )?))
    }

    fn find_last_mark(&self, location: &SessionLocation) -> Result<Option<Mark>, ReadError> {
        line_format::find_last_mark::<ClaudeLineFormat>(&location.path)
    }

    fn read_recent_turns(
        &self,
        location: &SessionLocation,
        turns: usize,
    ) -> Result<(Vec<NativeTurn>, bool), ReadError> {
        line_format::read_recent_turns::<ClaudeLineFormat>(&location.path, turns)
    }

    fn storage(&self) -> Option<&dyn SessionStorage> {
        Some(self)
    }
}

/// Line format of Claude Code. It remembers the newest record of the chain and the names of the called tools.
#[derive(Default)]
pub(super) struct ClaudeLineFormat {
    newest_uuid: Option<String>,
    tool_names: HashMap<String, String>,
}

impl LineFormat for ClaudeLineFormat {
    fn parse_line(&mut self, line: &str, output: &mut LineEvents) -> Result<(), MalformedLine> {
        let bytes = line.trim_ascii().as_bytes();
        if !(bytes.starts_with(b"{") && bytes.ends_with(b"}")) {
            return Err(MalformedLine);
        }
        // Most bytes of a file are dumps of complete requests, which are not part of the chain. This check skips them
        // without parsing.
        let markers: [&[u8]; 4] = [
            b"\"uuid\"",
            b"-title\"",
            b"\"summary\"",
            b"\"queued_command\"",
        ];
        if !markers.iter().any(|marker| contains_bytes(bytes, marker)) {
            return Ok(());
        }
        let line: ClaudeFileLine<'_> = serde_json::from_str(line)?;
        if line.is_sidechain == Some(true) {
            return Ok(());
        }
        output.at = line.time();
        self.emit_line_events(&line, bytes, &mut output.events)?;
        if let Some(uuid) = line.uuid {
            if output.events.is_empty() {
                output.events.push(RecordEvent::Anchor(uuid.to_string()));
            }
            self.newest_uuid = Some(uuid.into_owned());
        }
        Ok(())
    }

    fn can_begin_turn(line: &[u8]) -> bool {
        contains_bytes(line, b"\"user\"") && !contains_bytes(line, b"\"tool_use_id\"")
    }
}

impl ClaudeLineFormat {
    pub(super) fn emit_line_events(
        &mut self,
        line: &ClaudeFileLine<'_>,
        bytes: &[u8],
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        match &*line.r#type {
            "user" => self.emit_user_events(line, bytes, events)?,
            "attachment" => Self::emit_queued_message(line, bytes, events)?,
            "system" if line.subtype.as_deref() == Some("local_command") => {
                let mut user_content = ClaudeUserContent::default();
                let text = line
                    .content
                    .and_then(|text| serde_json::from_str(text.get()).ok());
                user_content.add_text(text.map_or(String::new(), JsonText::into_owned).as_str());
                self.emit_user_content(user_content, line, events);
            }
            "assistant" => self.emit_assistant_events(line, bytes, events)?,
            "summary" => {
                let title = line.summary.as_deref();
                events.extend(title_event(
                    title,
                    TitleSource::Model,
                    line.leaf_uuid.as_deref(),
                ));
            }
            "custom-title" => {
                events.extend(title_event(
                    line.custom_title.as_deref(),
                    TitleSource::User,
                    None,
                ));
            }
            "ai-title" => events.extend(title_event(
                line.ai_title.as_deref(),
                TitleSource::Model,
                None,
            )),
            _ => {}
        }
        Ok(())
    }

    fn emit_user_events(
        &mut self,
        line: &ClaudeFileLine<'_>,
        bytes: &[u8],
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        let file_message = line.message.as_ref().ok_or(MalformedLine)?;
        let content = file_message.content.as_ref().ok_or(MalformedLine)?;
        if line.is_compact_summary == Some(true) {
            let summary = content.concat_text(|block| block.text.as_deref());
            events.extend(line.anchor());
            events.push(RecordEvent::Compacted(Some(summary)));
            return Ok(());
        }
        let mut user_content = ClaudeUserContent::default();
        match content {
            TextOrBlocks::Text(text) => user_content.add_text(text),
            TextOrBlocks::Blocks(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    match &*block.r#type {
                        "text" => user_content.add_text(block.text.as_deref().unwrap_or_default()),
                        "tool_result" => {
                            let part = self.convert_tool_result(block);
                            emit_message(Role::Tool, vec![part], line, events);
                        }
                        "image" | "document" => {
                            user_content.prompt_parts.push(inline_data_part(block));
                        }
                        _ => user_content.prompt_parts.push(unknown_part(bytes, index)),
                    }
                }
            }
        }
        self.emit_user_content(user_content, line, events);
        Ok(())
    }

    /// Emits the events of texts that a record attributes to the user.
    fn emit_user_content(
        &self,
        user_content: ClaudeUserContent,
        line: &ClaudeFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) {
        let parts = user_content.prompt_parts;
        if !parts.is_empty() && line.is_meta != Some(true) {
            if events.is_empty() {
                events.extend(self.rewind_event(line.parent_uuid.as_deref()));
                events.push(RecordEvent::prompt(
                    line.uuid.as_deref(),
                    parts,
                    line.time(),
                ));
            } else {
                // The text accompanies the result of a tool, so the turn continues.
                emit_message(Role::User, parts, line, events);
            }
        }
        for output in user_content.command_outputs {
            emit_message(Role::System, vec![Part::Text(output)], line, events);
        }
        let ends = [
            (user_content.command_ended, TurnState::Finished),
            (user_content.cancelled, TurnState::Cancelled),
        ];
        for (_, state) in ends.into_iter().filter(|(ended, _)| *ended) {
            if events.is_empty() {
                events.extend(line.anchor());
            }
            events.push(RecordEvent::TurnEnded(state));
        }
    }

    /// Emits a message that the user sent while the agent was working. Claude Code stores it only as an attachment.
    fn emit_queued_message(
        line: &ClaudeFileLine<'_>,
        bytes: &[u8],
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        if !contains_bytes(bytes, b"\"queued_command\"") {
            return Ok(());
        }
        let attachment_line: ClaudeFileAttachmentLine<'_> = serde_json::from_slice(bytes)?;
        let attachment = attachment_line.attachment;
        if &*attachment.r#type != "queued_command" || attachment.is_meta == Some(true) {
            return Ok(());
        }
        let mut user_content = ClaudeUserContent::default();
        match &attachment.prompt {
            Some(TextOrBlocks::Text(text)) => user_content.add_text(text),
            Some(TextOrBlocks::Blocks(blocks)) => {
                for block in blocks {
                    match &*block.r#type {
                        "text" => user_content.add_text(block.text.as_deref().unwrap_or_default()),
                        _ => user_content.prompt_parts.push(inline_data_part(block)),
                    }
                }
            }
            None => {}
        }
        if !user_content.prompt_parts.is_empty() {
            emit_message(Role::User, user_content.prompt_parts, line, events);
        }
        Ok(())
    }

    /// Returns the rewind of a prompt that does not follow the newest record. `None` if it does.
    fn rewind_event(&self, parent: Option<&str>) -> Option<RecordEvent> {
        let newest = self.newest_uuid.as_deref()?;
        match parent {
            Some(parent) if parent == newest => None,
            Some(parent) => Some(RecordEvent::Rewind(RewindTarget::AfterRecord(
                parent.to_owned(),
            ))),
            None => Some(RecordEvent::Rewind(RewindTarget::Beginning)),
        }
    }

    fn convert_tool_result(&mut self, block: &ClaudeFileBlock<'_>) -> Part {
        let call_id = block.tool_use_id.as_deref().unwrap_or_default().to_owned();
        Part::FunctionResponse {
            name: self.tool_names.remove(&call_id).unwrap_or_default(),
            call_id,
            response: block.content.map_or_else(|| Json::string(""), Json::from),
            is_error: block.is_error == Some(true),
        }
    }

    fn emit_assistant_events(
        &mut self,
        line: &ClaudeFileLine<'_>,
        bytes: &[u8],
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        let file_message = line.message.as_ref().ok_or(MalformedLine)?;
        let mut parts = Vec::new();
        match &file_message.content {
            Some(TextOrBlocks::Text(text)) => parts.push(Part::Text(text.to_string())),
            Some(TextOrBlocks::Blocks(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    parts.extend(self.convert_block(block, || unknown_part(bytes, index)));
                }
            }
            None => {}
        }
        // Claude Code writes this message in the agent's name when it resumes an interrupted conversation.
        let is_synthetic = file_message.model.as_deref() == Some("<synthetic>");
        if is_synthetic && line.is_api_error_message != Some(true) {
            return Ok(());
        }
        for (index, part) in parts.into_iter().enumerate() {
            let key = line.uuid.as_deref().filter(|_| index == 0);
            let role = Role::Assistant;
            events.push(RecordEvent::message(key, role, vec![part], line.time()));
        }
        if let Some(tokens) = file_message.usage.filter(|_| !is_synthetic) {
            events.push(RecordEvent::RequestUsage {
                request_id: file_message.id.as_deref().map(str::to_owned),
                usage: tokens.into(),
                model: file_message.model.as_deref().map(str::to_owned),
                cost: line.cost_usd.and_then(Cost::from_dollars),
            });
        }
        if line.is_api_error_message == Some(true) {
            events.push(RecordEvent::TurnEnded(TurnState::Failed));
        } else if matches!(
            file_message.stop_reason.as_deref(),
            Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal")
        ) {
            events.push(RecordEvent::TurnEnded(TurnState::Finished));
        }
        if events
            .iter()
            .all(|event| !matches!(event, RecordEvent::Message(_)))
        {
            events.extend(line.anchor());
        }
        Ok(())
    }

    fn convert_block(
        &mut self,
        block: &ClaudeFileBlock<'_>,
        fallback: impl FnOnce() -> Part,
    ) -> Option<Part> {
        let owned_or_empty =
            |text: &Option<JsonText<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let part = match &*block.r#type {
            "text" => Part::Text(owned_or_empty(&block.text)),
            // Reasoning that the agent hides is an empty thought with a signature.
            "thinking" => Part::Thought(owned_or_empty(&block.thinking)),
            "redacted_thinking" => return None,
            "tool_use" | "server_tool_use" => {
                let (id, name) = (owned_or_empty(&block.id), owned_or_empty(&block.name));
                self.tool_names.insert(id.clone(), name.clone());
                Part::FunctionCall {
                    id,
                    name,
                    args: block.input.map_or_else(Json::empty_object, Json::from),
                }
            }
            "tool_result" | "web_search_tool_result" => self.convert_tool_result(block),
            "image" | "document" => inline_data_part(block),
            _ => fallback(),
        };
        let is_empty_text =
            matches!(&part, Part::Text(text) | Part::Thought(text) if text.is_empty());
        (!is_empty_text).then_some(part)
    }
}

/// Emits a message of a record. The first message of a record gets the record's key.
fn emit_message(
    role: Role,
    parts: Vec<Part>,
    line: &ClaudeFileLine<'_>,
    events: &mut Vec<RecordEvent>,
) {
    let key = line.uuid.as_deref().filter(|_| events.is_empty());
    events.push(RecordEvent::message(key, role, parts, line.time()));
}

fn inline_data_part(block: &ClaudeFileBlock<'_>) -> Part {
    let source = block.source.as_ref();
    let owned_text = |text: Option<&JsonText<'_>>| text.map(ToString::to_string);
    Part::InlineData(InlineData {
        mime_type: owned_text(source.and_then(|source| source.media_type.as_ref()))
            .unwrap_or_else(|| "application/octet-stream".to_owned()),
        data: owned_text(source.and_then(|source| source.data.as_ref())),
    })
}

/// Returns a block of an unknown type as its raw JSON.
fn unknown_part(line: &[u8], index: usize) -> Part {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct ClaudeFileRawMessage<'a> {
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct ClaudeFileRawLine<'a> {
        message: ClaudeFileRawMessage<'a>,
    }
    let line = serde_json::from_slice::<ClaudeFileRawLine<'_>>(line).ok();
    let block = line.and_then(|line| line.message.content.get(index).copied());
    Part::Unknown(block.map_or_else(Json::empty_object, Json::from))
}

fn title_event(
    title: Option<&str>,
    source: TitleSource,
    record_key: Option<&str>,
) -> Option<RecordEvent> {
    Some(RecordEvent::TitleChanged {
        title: Title::new(title?, source).ok()?,
        record_key: record_key.map(str::to_owned),
    })
}
