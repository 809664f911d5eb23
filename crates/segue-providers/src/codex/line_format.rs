//! Lines of a file, in both formats.
//!
//! `response_item` lines are the requests to the model and its answers. They are the same in all versions. `event_msg`
//! lines repeat the events for display. Only events that no other line contains are read: the end of a turn, the usage
//! of a request, and failures.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{InlineData, Part, Role, Title, TitleSource, TurnState, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::line_frame::CodexFileFrame;
use super::schema::{
    CodexFileBlock, CodexFileCall, CodexFileCallOutput, CodexFileCompacted, CodexFileEvent,
    CodexFileImage, CodexFileMessage, CodexFileReasoning, CodexFileTokenUsage,
    CodexFileTurnContext, CodexFileUsageRecord,
};
use super::tool_failure;
use crate::RecordEvent;
use crate::reader::borrowed_json::{JsonText, TextOrBlocks};
use crate::reader::has_any_prefix;
use crate::reader::line_format::{LineEvents, LineFormat, MalformedLine, contains_bytes};
use crate::reader::record::RewindTarget;

/// Line format of Codex. It remembers the current task and the tools that were called in it.
#[derive(Default)]
pub(super) struct CodexLineFormat {
    task: CodexTask,
    tool_names: HashMap<String, String>,
    /// Calls whose failure an event reported before their results.
    failed_calls: HashSet<String>,
    /// Whether the model has answered since its usage was last reported.
    answered_since_usage: bool,
    context_window: Option<u64>,
    /// Model of this turn.
    model: Option<String>,
    /// Last text of the model. `answer_count` is the number of such texts so far.
    last_answer: String,
    answer_count: u64,
}

/// Work of Codex between two waits for the user. Most tasks are turns. A compaction of the context, or a command that
/// the user runs, is a task too.
#[derive(Default)]
struct CodexTask {
    /// Whether its beginning was recorded. The oldest files contain no tasks.
    start_recorded: bool,
    has_prompt: bool,
    /// Number of messages that belong to a turn.
    message_count: u32,
    failed: bool,
    /// State at the end of the previous task.
    previous_state: Option<TurnState>,
}

impl LineFormat for CodexLineFormat {
    fn parse_line(&mut self, line: &str, output: &mut LineEvents) -> Result<(), MalformedLine> {
        let line = line.trim_ascii();
        if !(line.starts_with('{') && line.ends_with('}')) {
            return Err(MalformedLine);
        }
        let frame = CodexFileFrame::parse(line)?;
        match frame.kind {
            "response_item" => self.emit_item(&frame, &mut output.events)?,
            "event_msg" => self.emit_event(&frame, &mut output.events)?,
            "token_usage_record" => {
                let usage_record: CodexFileUsageRecord<'_> = frame.read_payload()?;
                self.answered_since_usage = false;
                let request = usage_record.response_id.map(JsonText::into_owned);
                output
                    .events
                    .push(self.usage_event(request, usage_record.usage));
            }
            "turn_context" => {
                let context: CodexFileTurnContext<'_> = frame.read_payload()?;
                self.model = context
                    .model
                    .map(JsonText::into_owned)
                    .or(self.model.take());
            }
            "compacted" => self.emit_compaction(&frame, &mut output.events)?,
            _ => {}
        }
        if !output.events.is_empty() {
            output.at = frame.time();
        }
        Ok(())
    }

    fn can_begin_turn(line: &[u8]) -> bool {
        // In a line that Codex writes, the decisive fields are at the beginning.
        let beginning = line.get(..CLASSIFICATION_PREFIX_BYTES).unwrap_or(line);
        Self::can_start_task(line) || {
            let is_standard_layout = line.starts_with(b"{\"timestamp\":\"");
            let is_other_record = contains_bytes(beginning, b"\"event_msg\"")
                || contains_bytes(beginning, b"_call_output\"");
            !(is_standard_layout && is_other_record) && contains_bytes(line, b"\"user\"")
        }
    }

    /// Returns `true` only for the beginning of a task, because the user may send more messages during a task.
    fn is_turn_start(line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let frame = CodexFileFrame::parse(text.trim_ascii()).ok();
        let event = frame.filter(|frame| frame.kind == "event_msg");
        event.is_some_and(|frame| frame.payload_type().is_ok_and(is_task_start))
    }
}

/// Line format of the oldest files, which contain no tasks: every prompt begins a turn.
#[derive(Default)]
pub(super) struct CodexTasklessLineFormat(CodexLineFormat);

impl LineFormat for CodexTasklessLineFormat {
    fn parse_line(&mut self, line: &str, output: &mut LineEvents) -> Result<(), MalformedLine> {
        self.0.parse_line(line, output)
    }

    fn can_begin_turn(line: &[u8]) -> bool {
        CodexLineFormat::can_begin_turn(line)
    }
}

/// Bytes of a line that are searched to classify it.
const CLASSIFICATION_PREFIX_BYTES: usize = 300;

fn is_task_start(event: &str) -> bool {
    matches!(event, "task_started" | "turn_started")
}

impl CodexLineFormat {
    /// Returns `true` if a line may begin a task. The check is cheap: it may return `true` for other lines, but never
    /// returns `false` for a line that begins a task.
    pub(super) fn can_start_task(line: &[u8]) -> bool {
        contains_bytes(
            line.get(..CLASSIFICATION_PREFIX_BYTES).unwrap_or(line),
            b"_started\"",
        )
    }

    fn emit_item(
        &mut self,
        frame: &CodexFileFrame<'_>,
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        let at = frame.time();
        let kind = frame.payload_type()?;
        let part = match kind {
            "message" => return self.emit_message_item(frame, at, events),
            "reasoning" => thought_part(&frame.read_payload()?),
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call"
            | "tool_search_call" => Some(self.convert_call(kind, &frame.read_payload()?)),
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let part = self.convert_tool_result(&frame.read_payload()?);
                self.emit_message(None, Role::Tool, vec![part], at, events);
                return Ok(());
            }
            "image_generation_call" => {
                frame
                    .read_payload::<CodexFileImage<'_>>()?
                    .result
                    .map(|data| {
                        Part::InlineData(InlineData {
                            mime_type: "image/png".to_owned(),
                            data: Some(data.into_owned()),
                        })
                    })
            }
            // Internal data of the agent, and messages from other agents.
            "compaction" | "context_compaction" | "compaction_trigger" | "compaction_summary"
            | "ghost_snapshot" | "additional_tools" | "agent_message" | "other" => None,
            _ => frame
                .read_payload()
                .ok()
                .map(|item: &RawValue| Part::Unknown(item.into())),
        };
        if let Some(part) = part {
            self.answered_since_usage = true;
            self.emit_message(None, Role::Assistant, vec![part], at, events);
        }
        Ok(())
    }

    fn emit_message(
        &mut self,
        key: Option<&str>,
        role: Role,
        parts: Vec<Part>,
        at: Option<Timestamp>,
        events: &mut Vec<RecordEvent>,
    ) {
        self.task.message_count += 1;
        events.push(RecordEvent::message(key, role, parts, at));
    }

    fn emit_message_item(
        &mut self,
        frame: &CodexFileFrame<'_>,
        at: Option<Timestamp>,
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        let message: CodexFileMessage<'_> = frame.read_payload()?;
        let content = message.content.as_ref().ok_or(MalformedLine)?;
        match message.role.as_deref() {
            Some("user") => self.emit_user_message(frame, &message, content, at, events),
            Some("assistant") => {
                let text = content.concat_text(CodexFileBlock::text_or_refusal);
                self.answered_since_usage = true;
                if !text.is_empty() {
                    self.emit_answer(text, at, events);
                }
            }
            // Other roles contain instructions.
            Some(_) => {}
            None => return Err(MalformedLine),
        }
        Ok(())
    }

    fn emit_answer(&mut self, text: String, at: Option<Timestamp>, events: &mut Vec<RecordEvent>) {
        self.answer_count += 1;
        self.last_answer.clone_from(&text);
        let (key, parts) = (self.answer_key(), vec![Part::Text(text)]);
        self.emit_message(Some(&key), Role::Assistant, parts, at, events);
        // Without tasks, a text ends the turn until another message follows.
        if !self.task.start_recorded {
            events.push(RecordEvent::TurnEnded(TurnState::Finished));
        }
    }

    /// Returns the key by which a later line can remove the last answer.
    fn answer_key(&self) -> String {
        format!("answer {}", self.answer_count)
    }

    fn emit_user_message(
        &mut self,
        frame: &CodexFileFrame<'_>,
        message: &CodexFileMessage<'_>,
        content: &TextOrBlocks<'_, CodexFileBlock<'_>>,
        at: Option<Timestamp>,
        events: &mut Vec<RecordEvent>,
    ) {
        let mut prompt_parts = Vec::new();
        match content {
            TextOrBlocks::Text(text) => {
                classify_user_text(text, None, &mut prompt_parts, at, events);
            }
            TextOrBlocks::Blocks(blocks) => {
                let kinds = message.metadata.as_ref();
                let kinds = kinds.and_then(|metadata| metadata.content_item_kinds.as_deref());
                let kinds = kinds.unwrap_or_default();
                for (index, block) in blocks.iter().enumerate() {
                    let is_image_at =
                        |index: Option<usize>| blocks.get(index?).map(CodexFileBlock::is_image);
                    let after_image = is_image_at(index.checked_sub(1)) == Some(true);
                    let before_image = is_image_at(index.checked_add(1)) == Some(true);
                    match block.text_or_refusal() {
                        Some(text) if is_image_label(text, after_image, before_image) => {}
                        Some(text) => {
                            let kind = kinds.get(index).map(|kind| &**kind);
                            classify_user_text(text, kind, &mut prompt_parts, at, events);
                        }
                        None => prompt_parts.push(attachment_part(block, frame, index)),
                    }
                }
            }
        }
        if !prompt_parts.is_empty() {
            let is_task_running = self.task.start_recorded && self.task.has_prompt;
            self.task.has_prompt = true;
            self.task.message_count += 1;
            events.push(if is_task_running {
                RecordEvent::message(None, Role::User, prompt_parts, at)
            } else {
                RecordEvent::prompt(None, prompt_parts, at)
            });
        }
    }

    fn convert_call(&mut self, kind: &str, call: &CodexFileCall<'_>) -> Part {
        let id = call.call_id.as_deref().or(call.id.as_deref());
        let id = id.unwrap_or_default().to_owned();
        let name = match (call.namespace.as_deref(), call.name.as_deref()) {
            (Some(namespace), Some(name))
                if !namespace.is_empty() && !name.starts_with(namespace) =>
            {
                format!("{}__{name}", namespace.trim_end_matches('_'))
            }
            (_, Some(name)) => name.to_owned(),
            (_, None) => kind.trim_end_matches("_call").to_owned(),
        };
        if kind != "web_search_call" {
            self.tool_names.insert(id.clone(), name.clone());
        }
        let args = match call.arguments.or(call.input).or(call.action) {
            Some(args) => parse_arguments(args),
            None => Json::empty_object(),
        };
        Part::FunctionCall { id, name, args }
    }

    fn convert_tool_result(&mut self, output: &CodexFileCallOutput<'_>) -> Part {
        let call_id = output.call_id.as_deref().unwrap_or_default().to_owned();
        let reported_failed = self.failed_calls.remove(&call_id);
        let content = output.output.or(output.tools);
        Part::FunctionResponse {
            name: self.tool_names.remove(&call_id).unwrap_or_default(),
            is_error: reported_failed
                || content.is_some_and(|content| tool_failure::is_failed_output(content.get())),
            response: content.map_or_else(|| Json::string(""), Json::from),
            call_id,
        }
    }

    fn emit_event(
        &mut self,
        frame: &CodexFileFrame<'_>,
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        match frame.payload_type()? {
            kind if is_task_start(kind) => {
                let started: CodexFileEvent<'_> = frame.read_payload()?;
                self.context_window = started.model_context_window.or(self.context_window);
                self.task = CodexTask {
                    start_recorded: true,
                    previous_state: self.task.previous_state,
                    ..CodexTask::default()
                };
            }
            "task_complete" | "turn_complete" => {
                let ended: CodexFileEvent<'_> = frame.read_payload()?;
                let failed = self.task.failed && ended.last_agent_message.is_none();
                let failed = failed || ended.error.is_some();
                let state = if failed {
                    TurnState::Failed
                } else {
                    TurnState::Finished
                };
                self.end_task(state, events);
            }
            "turn_aborted" => self.end_task(TurnState::Cancelled, events),
            "error" => {
                self.task.failed = true;
                events.push(RecordEvent::TurnEnded(TurnState::Failed));
            }
            "token_count" => {
                let Some(info) = frame.read_payload::<CodexFileEvent<'_>>()?.info else {
                    return Ok(());
                };
                self.context_window = info.model_context_window.or(self.context_window);
                // Codex repeats this event when limits change, and when no request was sent to the model.
                if let Some(tokens) = info.last_token_usage.filter(|_| self.answered_since_usage) {
                    events.push(self.usage_event(None, tokens));
                }
                self.answered_since_usage = false;
            }
            "thread_rolled_back" => {
                let turns = frame
                    .read_payload::<CodexFileEvent<'_>>()?
                    .num_turns
                    .ok_or(MalformedLine)?;
                events.push(RecordEvent::Rewind(RewindTarget::TurnsBack(turns)));
            }
            "thread_name_updated" => {
                let name = frame.read_payload::<CodexFileEvent<'_>>()?.thread_name;
                let title = name.and_then(|name| Title::new(&name, TitleSource::User).ok());
                events.extend(title.map(RecordEvent::title));
            }
            "item_completed" | "exec_command_end" | "mcp_tool_call_end" | "patch_apply_end" => {
                self.failed_calls
                    .extend(tool_failure::failed_call_id(frame.payload));
            }
            _ => {}
        }
        Ok(())
    }

    fn end_task(&mut self, state: TurnState, events: &mut Vec<RecordEvent>) {
        // A task without messages was not a turn, so the last turn retains its state.
        let state = match self.task.previous_state {
            Some(previous_state) if self.task.start_recorded && self.task.message_count == 0 => {
                previous_state
            }
            _ => state,
        };
        events.push(RecordEvent::TurnEnded(state));
        self.failed_calls.clear();
        self.task = CodexTask {
            start_recorded: self.task.start_recorded,
            previous_state: Some(state),
            ..CodexTask::default()
        };
    }

    fn emit_compaction(
        &mut self,
        frame: &CodexFileFrame<'_>,
        events: &mut Vec<RecordEvent>,
    ) -> Result<(), MalformedLine> {
        let message = frame.read_payload::<CodexFileCompacted<'_>>()?.message;
        let message = message.as_deref().map(str::trim).unwrap_or_default();
        let answer = self.last_answer.trim();
        let summary = if !answer.is_empty() && message.ends_with(answer) {
            // The last answer was a summary for the agent itself.
            events.push(RecordEvent::Rewind(RewindTarget::BeforeRecord(
                self.answer_key(),
            )));
            self.task.message_count = self.task.message_count.saturating_sub(1);
            answer
        } else {
            message
        };
        let summary = Some(summary.to_owned()).filter(|summary| !summary.is_empty());
        events.push(RecordEvent::Compacted(summary));
        self.last_answer.clear();
        Ok(())
    }

    fn usage_event(&self, request: Option<String>, tokens: CodexFileTokenUsage) -> RecordEvent {
        RecordEvent::RequestUsage {
            request_id: request,
            usage: self.convert_usage(tokens),
            model: self.model.clone(),
            cost: None,
        }
    }

    fn convert_usage(&self, tokens: CodexFileTokenUsage) -> Usage {
        let add_output = |input: u64| input.saturating_add(tokens.output.unwrap_or(0));
        let total = tokens.total.or(tokens.input.map(add_output));
        Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cached,
            total_tokens: total,
            context_tokens: total,
            context_window: self.context_window,
        }
    }
}

/// Sorts a text that a record attributes to the user.
fn classify_user_text(
    text: &str,
    kind: Option<&str>,
    prompt_parts: &mut Vec<Part>,
    at: Option<Timestamp>,
    events: &mut Vec<RecordEvent>,
) {
    let is_user_text = match kind {
        Some("unknown") | None => !has_any_prefix(text, super::CODEX_PROVIDER.injected_prefixes),
        Some(kind) => kind.starts_with("user."),
    };
    if is_user_text {
        if !text.trim().is_empty() {
            prompt_parts.push(Part::Text(text.to_owned()));
        }
    } else if let Some(command_text) = text.trim().strip_prefix("<user_shell_command>") {
        let command_text = command_text
            .trim_end_matches("</user_shell_command>")
            .trim();
        let parts = vec![Part::Text(command_text.to_owned())];
        events.push(RecordEvent::message(None, Role::System, parts, at));
    } else if text.trim_start().starts_with("<turn_aborted>") {
        events.push(RecordEvent::TurnEnded(TurnState::Cancelled));
    }
}

/// Returns `true` for a text around an image that Codex adds for the model.
fn is_image_label(text: &str, after_image: bool, before_image: bool) -> bool {
    let text = text.trim();
    (before_image && text.starts_with("<image") && text.ends_with('>'))
        || (after_image && text == "</image>")
}

fn thought_part(reasoning: &CodexFileReasoning<'_>) -> Option<Part> {
    let join_texts = |blocks: &Option<Vec<CodexFileBlock<'_>>>| {
        let blocks = blocks.as_deref().unwrap_or_default().iter();
        blocks
            .filter_map(CodexFileBlock::text_or_refusal)
            .collect::<Vec<_>>()
            .join("\n\n")
    };
    let summary = join_texts(&reasoning.summary);
    let text = if summary.is_empty() {
        join_texts(&reasoning.content)
    } else {
        summary
    };
    (!text.trim().is_empty()).then_some(Part::Thought(text))
}

/// Parses the arguments of a call, which are usually JSON inside a string.
fn parse_arguments(args: &RawValue) -> Json {
    let unquoted = serde_json::from_str::<JsonText<'_>>(args.get()).ok();
    let object = unquoted.filter(|text| text.trim_start().starts_with('{'));
    object
        .and_then(|text| Json::parse(text.into_owned()).ok())
        .unwrap_or_else(|| Json::from(args))
}

/// Converts an image, or a block of an unknown type.
fn attachment_part(block: &CodexFileBlock<'_>, frame: &CodexFileFrame<'_>, index: usize) -> Part {
    let inline_data = || {
        let (mime_type, data) = block
            .image_url
            .as_deref()?
            .strip_prefix("data:")?
            .split_once(',')?;
        Some(InlineData {
            mime_type: mime_type.strip_suffix(";base64")?.to_owned(),
            data: Some(data.to_owned()),
        })
    };
    match inline_data() {
        Some(data) => Part::InlineData(data),
        None => Part::Unknown(raw_block(frame, index)),
    }
}

fn raw_block(frame: &CodexFileFrame<'_>, index: usize) -> Json {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'a"))]
    struct CodexFileRawBlocks<'a> {
        content: Vec<&'a RawValue>,
    }
    let blocks = frame.read_payload::<CodexFileRawBlocks<'_>>().ok();
    let block = blocks.and_then(|blocks| blocks.content.get(index).copied());
    block.map_or_else(Json::empty_object, Json::from)
}
