//! Conversion of the messages of a Gemini CLI session to events.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{Part, Role, Title, TitleSource, TurnState};

use super::schema::{
    GeminiFileContent, GeminiFileFunctionResponse, GeminiFileLine, GeminiFilePart,
    GeminiFileToolCall,
};
use crate::RecordEvent;
use crate::reader::has_any_prefix;
use crate::reader::record::RewindTarget;

/// Text that Gemini CLI writes in the model's name after a summary.
const SUMMARY_ACKNOWLEDGEMENT: &str = "Got it. Thanks for the additional context!";
/// Text that Gemini CLI writes in the model's name after a tool has read an image.
const BINARY_CONTENT_NOTICE: &str = "Binary content received. Proceeding with analysis.";
/// Text in the result of a command that the user stopped.
const STOPPED_COMMAND_TEXT: &str = "Command was cancelled by user";
/// Notices that Gemini CLI writes when the user stops a turn.
const CANCELLATION_NOTICES: &[&str] = &["Request cancelled.", "User cancelled the request."];

/// A converter of messages to events. It remembers the prompts that still count, and the content of the current turn
/// that it has emitted.
#[derive(Default)]
pub(super) struct GeminiChatConverter {
    prompts: Vec<EmittedPrompt>,
    turn: EmittedTurn,
    /// Hashes of the ids of answers in earlier turns.
    earlier_answers: HashSet<u64>,
    /// Time of the newest message.
    latest_time: Option<Timestamp>,
    /// Whether the session contains messages before the first one that was read.
    starts_midway: bool,
    /// Id of the newest summary that replaced older messages.
    summary_id: Option<String>,
    /// Whether the list of messages was emptied. A resume empties the list and then writes all messages a second time,
    /// so an empty list takes effect only when a single message follows.
    list_emptied: bool,
}

/// A prompt that was emitted.
struct EmittedPrompt {
    id: Box<str>,
    /// Id under which the prompt was emitted, if it differs. After a summary, the remaining messages are copies with
    /// new ids.
    emitted_id: Option<Box<str>>,
    /// Hash of the text.
    text_hash: u64,
}

impl EmittedPrompt {
    fn key(&self) -> String {
        self.emitted_id.as_ref().unwrap_or(&self.id).to_string()
    }
}

/// Content of the current turn that was emitted.
#[derive(Default)]
struct EmittedTurn {
    prompted_at: Option<Timestamp>,
    messages: HashMap<String, EmittedMessage>,
    /// Calls, each with `true` if its result was emitted.
    calls: HashMap<String, bool>,
    /// Whether an answer is still expected.
    is_open: bool,
}

impl EmittedTurn {
    /// Returns `true` if the result of a call was already emitted, and marks it as emitted.
    fn mark_result_emitted(&mut self, call: &str) -> bool {
        !call.is_empty() && self.calls.insert(call.to_owned(), true) == Some(true)
    }
}

/// Content of a message that was emitted.
#[derive(Default, Clone, Copy)]
struct EmittedMessage {
    text_length: usize,
    usage_emitted: bool,
}

/// New content of a message.
#[derive(Default, Clone, Copy)]
struct NewAnswerContent {
    has_text: bool,
    has_call: bool,
}

impl GeminiChatConverter {
    /// Records that the session contains messages before the first one that is read.
    pub(super) fn set_starts_midway(&mut self) {
        self.starts_midway = true;
    }

    /// Emits the events of a message. A message with a known id emits only its new content.
    pub(super) fn emit_message(
        &mut self,
        line: &GeminiFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) {
        let Some(id) = line.id.as_deref() else { return };
        let at = line.time();
        if std::mem::take(&mut self.list_emptied) {
            self.restart(events);
        }
        let before = events.len();
        match line.r#type.as_deref() {
            Some("user") => self.emit_user_message(id, at, line, events),
            Some("gemini") => self.emit_model_message(id, at, line, events),
            Some("info" | "warning" | "error") => self.emit_notice(id, at, line, events),
            _ => {}
        }
        if events.len() == before {
            events.push(RecordEvent::Anchor(id.to_owned()));
        }
        self.latest_time = self.latest_time.max(at);
    }

    fn emit_user_message(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &GeminiFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) {
        for file_part in &line.content.0 {
            if let Some(response) = &file_part.response {
                self.emit_response(response, at, events);
            }
        }
        let prompt_parts = user_parts(line);
        if prompt_parts.is_empty() {
            return;
        }
        // Only the last 64 prompts are compared, because a repeated message closely follows the original.
        if self
            .prompts
            .iter()
            .rev()
            .take(64)
            .all(|prompt| *prompt.id != *id)
        {
            let turn = EmittedTurn {
                prompted_at: at,
                is_open: true,
                ..EmittedTurn::default()
            };
            let previous_messages = std::mem::replace(&mut self.turn, turn).messages;
            self.earlier_answers
                .extend(previous_messages.keys().map(hash_text));
            self.prompts.push(EmittedPrompt {
                id: id.into(),
                emitted_id: None,
                text_hash: hash_content(line),
            });
        }
        events.push(RecordEvent::prompt(Some(id), prompt_parts, at));
    }

    /// Emits a result that was not emitted with its call. If the user does not allow a call, only the result is
    /// recorded.
    fn emit_response(
        &mut self,
        response: &GeminiFileFunctionResponse<'_>,
        at: Option<Timestamp>,
        events: &mut Vec<RecordEvent>,
    ) {
        let id = response.id.as_deref().unwrap_or_default();
        if self.turn.mark_result_emitted(id) {
            return;
        }
        let parts = result_parts(id, None, response, response.is_error());
        events.push(RecordEvent::message(None, Role::Tool, parts, at));
        self.turn.is_open = true;
    }

    fn emit_model_message(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &GeminiFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) {
        let is_earlier = self.earlier_answers.contains(&hash_text(id));
        let mut content = NewAnswerContent::default();
        if !is_earlier {
            content = self.emit_answer(id, at, line, events);
        }
        let prompted_at = self.turn.prompted_at;
        let is_new = |call: &&GeminiFileToolCall<'_>| {
            let called_at = call.timestamp.as_deref().and_then(|at| at.parse().ok());
            let at = called_at.or(at);
            at.is_none() || at >= prompted_at
        };
        let calls = line.tool_calls.as_deref().unwrap_or_default();
        // Gemini CLI may write all calls of a session into one message, repeatedly. That message begins in an earlier
        // turn, which may not have been read, and ends with calls of this one. If no call is newer than the prompt, the
        // clock was set back, and all calls count.
        let only_new_calls = is_earlier || calls.iter().any(|call| is_new(&call));
        let current_calls = calls.iter().filter(|call| !only_new_calls || is_new(call));
        let current_calls: Vec<_> = current_calls.collect();
        for call in &current_calls {
            let name = call.name.as_deref();
            events.extend(self.call_event(call.id.as_deref(), name, call.args, at));
        }
        let mut cancelled = false;
        for call in &current_calls {
            cancelled |= self.emit_result(call, at, events);
        }
        if cancelled {
            events.push(RecordEvent::TurnEnded(TurnState::Cancelled));
            self.turn.is_open = false;
        } else if content.has_text && !content.has_call && current_calls.is_empty() {
            events.push(RecordEvent::TurnEnded(TurnState::Finished));
            self.turn.is_open = false;
        }
        self.emit_usage(id, line, events);
    }

    /// Emits the thoughts and the text of the model.
    fn emit_answer(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &GeminiFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) -> NewAnswerContent {
        let is_first = !self.turn.messages.contains_key(id);
        let emitted = self.turn.messages.entry(id.to_owned()).or_default();
        let mut thoughts: Vec<String> = Vec::new();
        let mut text = String::new();
        for thought in line.thoughts.as_deref().unwrap_or_default() {
            thoughts.push(thought.to_markdown());
        }
        let has_thoughts = !thoughts.is_empty();
        for file_part in &line.content.0 {
            match &file_part.text {
                Some(part_text) if !file_part.is_thought => text.push_str(part_text),
                Some(part_text) if !has_thoughts && **part_text != *BINARY_CONTENT_NOTICE => {
                    thoughts.push(part_text.to_string());
                }
                _ => {}
            }
        }
        let has_new_text = text.len() != emitted.text_length;
        emitted.text_length = text.len();
        if is_first {
            for thought in thoughts.into_iter().filter(|thought| !thought.is_empty()) {
                let parts = vec![Part::Thought(thought)];
                events.push(RecordEvent::message(None, Role::Assistant, parts, at));
            }
        }
        let mut content = NewAnswerContent::default();
        if has_new_text && !text.trim().is_empty() {
            content.has_text = true;
            let parts = vec![Part::Text(text)];
            events.push(RecordEvent::message(Some(id), Role::Assistant, parts, at));
        }
        for file_part in &line.content.0 {
            if let Some(call) = &file_part.call {
                content.has_call = true;
                events.extend(self.call_event(
                    call.id.as_deref(),
                    call.name.as_deref(),
                    call.args,
                    at,
                ));
            } else if is_first && let Some(part) = file_part.attachment() {
                events.push(RecordEvent::message(None, Role::Assistant, vec![part], at));
            }
        }
        content
    }

    fn call_event(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        args: Option<&serde_json::value::RawValue>,
        at: Option<Timestamp>,
    ) -> Option<RecordEvent> {
        let id = id.unwrap_or_default().to_owned();
        if self.turn.calls.contains_key(&id) {
            return None;
        }
        if !id.is_empty() {
            self.turn.calls.insert(id.clone(), false);
        }
        self.turn.is_open = true;
        let call = Part::FunctionCall {
            id,
            name: name.unwrap_or_default().to_owned(),
            args: args.map_or_else(Json::empty_object, Json::from),
        };
        Some(RecordEvent::message(None, Role::Assistant, vec![call], at))
    }

    /// Emits the result of a call. Returns `true` if the call was stopped.
    fn emit_result(
        &mut self,
        call: &GeminiFileToolCall<'_>,
        at: Option<Timestamp>,
        events: &mut Vec<RecordEvent>,
    ) -> bool {
        let id = call.id.as_deref().unwrap_or_default();
        let status = call.status.as_deref().unwrap_or_default();
        if call.result.0.is_empty() || self.turn.mark_result_emitted(id) {
            return false;
        }
        let mut failed = matches!(status, "error" | "cancelled");
        let responses = call.result.0.iter().filter_map(|p| p.response.as_ref());
        // After a resume, every call of a message contains the results of all its calls.
        let own_response = responses.clone().find(|r| r.id.as_deref() == Some(id));
        let first_response = || responses.clone().next();
        let name = call.name.as_deref();
        let mut stopped = status == "cancelled";
        let mut parts = if let Some(response) = own_response.or_else(first_response) {
            stopped |= response.has_text_near_start(STOPPED_COMMAND_TEXT);
            failed |= response.is_error();
            result_parts(id, name, response, failed)
        } else {
            let text: String = visible_texts(&call.result).collect();
            vec![Part::FunctionResponse {
                call_id: id.to_owned(),
                name: name.unwrap_or_default().to_owned(),
                response: Json::string(&text),
                is_error: failed,
            }]
        };
        if responses.count() < 2 {
            parts.extend(call.result.0.iter().filter_map(GeminiFilePart::attachment));
        }
        events.push(RecordEvent::message(None, Role::Tool, parts, at));
        stopped
    }

    fn emit_usage(&mut self, id: &str, line: &GeminiFileLine<'_>, events: &mut Vec<RecordEvent>) {
        if let (Some(tokens), Some(emitted)) = (line.tokens, self.turn.messages.get_mut(id))
            && !emitted.usage_emitted
        {
            emitted.usage_emitted = true;
            events.push(RecordEvent::RequestUsage {
                request_id: Some(id.to_owned()),
                usage: tokens.into(),
                model: line.model.as_deref().map(str::to_owned),
                cost: None,
            });
        }
    }

    /// Emits a notice of Gemini CLI. Ignores notices between turns, because they concern a prompt that no longer
    /// counts.
    fn emit_notice(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &GeminiFileLine<'_>,
        events: &mut Vec<RecordEvent>,
    ) {
        let text = line.text();
        if !self.turn.is_open || text.trim().is_empty() {
            return;
        }
        let kind = line.r#type.as_deref();
        if kind == Some("info") && CANCELLATION_NOTICES.contains(&text.trim()) {
            events.push(RecordEvent::TurnEnded(TurnState::Cancelled));
            self.turn.is_open = false;
            return;
        }
        let parts = vec![Part::Text(text)];
        events.push(RecordEvent::message(Some(id), Role::System, parts, at));
        if kind == Some("error") {
            events.push(RecordEvent::TurnEnded(TurnState::Failed));
            self.turn.is_open = false;
        }
    }

    /// Removes a message and all later ones.
    pub(super) fn emit_rewind(&mut self, id: &str, events: &mut Vec<RecordEvent>) {
        let index = self.prompts.iter().rposition(|prompt| *prompt.id == *id);
        let key = index
            .and_then(|index| self.prompts.get(index))
            .map(EmittedPrompt::key);
        if let Some(index) = index {
            self.prompts.truncate(index);
        }
        let key = key.unwrap_or_else(|| id.to_owned());
        events.push(RecordEvent::Rewind(RewindTarget::BeforeRecord(key)));
        self.turn.is_open = false;
    }

    /// Applies a list of all messages, which Gemini CLI writes when its history changes: it omits a prompt that failed
    /// or was stopped, it replaces older messages by a summary, or it writes all messages a second time after a resume.
    pub(super) fn apply_history(
        &mut self,
        messages: &[GeminiFileLine<'_>],
        events: &mut Vec<RecordEvent>,
    ) {
        let has_content = |line: &GeminiFileLine<'_>| {
            line.r#type.as_deref() != Some("user") || !user_parts(line).is_empty()
        };
        self.list_emptied = !self.prompts.is_empty() && !messages.iter().any(has_content);
        // In the middle of a session, earlier messages are not part of this read.
        if self.list_emptied || (self.starts_midway && self.prompts.is_empty()) {
            return;
        }
        let (latest, midway) = (self.latest_time, self.starts_midway);
        let is_new = |line: &GeminiFileLine<'_>| match latest {
            Some(latest) => line.time() > Some(latest),
            None => !midway,
        };
        let summary_index = find_summary(messages);
        if let Some(index) = summary_index
            && let Some(line) = messages.get(index)
            && is_new(line)
            && self.summary_id.as_deref() != line.id.as_deref()
        {
            events.push(RecordEvent::Compacted(Some(line.text())));
            self.summary_id = line.id.as_deref().map(str::to_owned);
            self.replace_prompt_ids(messages.get(index + 2..).unwrap_or_default());
            let newest = messages.iter().filter_map(GeminiFileLine::time).max();
            self.latest_time = latest.max(newest);
            if latest.is_some() || midway {
                return;
            }
        }
        let after = summary_index.map_or(0, |index| index + 2);
        let messages = messages.get(after..).unwrap_or_default();
        let restarted = self.remove_missing_prompts(messages, events);
        // All messages up to the newest prompt that still counts were already emitted, even if they are written
        // differently now.
        let last_emitted = self.prompts.last().and_then(|last| {
            let is_last_prompt = |line: &GeminiFileLine<'_>| line.id.as_deref() == Some(&*last.id);
            messages.iter().rposition(is_last_prompt)
        });
        let messages = messages
            .get(last_emitted.map_or(0, |index| index + 1)..)
            .unwrap_or_default();
        for line in messages {
            let id = line.id.as_deref();
            let is_emitted = id.is_some_and(|id| self.turn.messages.contains_key(id));
            // Results were emitted with their calls.
            let is_result = line.content.0.iter().any(|part| part.response.is_some());
            if restarted || (is_new(line) && !is_emitted && !is_result) {
                self.emit_message(line, events);
            }
        }
    }

    fn restart(&mut self, events: &mut Vec<RecordEvent>) {
        events.push(RecordEvent::Rewind(RewindTarget::Beginning));
        self.prompts.clear();
        self.turn = EmittedTurn::default();
        self.earlier_answers.clear();
    }

    /// Removes the prompts that are missing in these messages. Returns `true` if the conversation restarts with them.
    fn remove_missing_prompts(
        &mut self,
        messages: &[GeminiFileLine<'_>],
        events: &mut Vec<RecordEvent>,
    ) -> bool {
        let message_ids: HashSet<&str> = messages.iter().filter_map(|m| m.id.as_deref()).collect();
        let is_missing = |prompt: &EmittedPrompt| !message_ids.contains(&*prompt.id);
        let Some(index) = self.prompts.iter().position(is_missing) else {
            return false;
        };
        let (_, remaining) = self.prompts.split_at(index);
        if !remaining.iter().all(is_missing) {
            self.restart(events);
            return true;
        }
        if let Some(first) = remaining.first() {
            events.push(RecordEvent::Rewind(RewindTarget::BeforeRecord(first.key())));
        }
        self.prompts.truncate(index);
        self.turn.is_open = false;
        false
    }

    /// Replaces the ids of the emitted prompts by the ids of their copies.
    fn replace_prompt_ids(&mut self, messages: &[GeminiFileLine<'_>]) {
        let mut originals = std::mem::take(&mut self.prompts);
        let mut copies = Vec::new();
        for line in messages.iter().rev() {
            let is_user = line.r#type.as_deref() == Some("user");
            if let Some(id) = line.id.as_deref()
                && is_user
                && !user_parts(line).is_empty()
                && let Some(original) =
                    originals.pop_if(|prompt| prompt.text_hash == hash_content(line))
            {
                copies.push(EmittedPrompt {
                    emitted_id: Some(original.key().into()),
                    id: id.into(),
                    text_hash: original.text_hash,
                });
            }
        }
        copies.reverse();
        self.prompts = copies;
    }
}

/// Returns the user's content of a message. Empty if Gemini CLI wrote the message in the user's name.
fn user_parts(line: &GeminiFileLine<'_>) -> Vec<Part> {
    let has_responses = line.content.0.iter().any(|part| part.response.is_some());
    let has_display_text = visible_texts(&line.display_content).next().is_some();
    let content = if has_display_text {
        &line.display_content
    } else {
        &line.content
    };
    let mut parts: Vec<Part> = visible_texts(content)
        .filter(|text| {
            !text.trim().is_empty()
                && !has_any_prefix(text, super::GEMINI_PROVIDER.injected_prefixes)
        })
        .map(|text| Part::Text(text.to_owned()))
        .collect();
    // Attachments of tool results belong to the results.
    if !has_responses {
        parts.extend(line.content.0.iter().filter_map(GeminiFilePart::attachment));
    }
    parts
}

fn visible_texts<'a>(content: &'a GeminiFileContent<'_>) -> impl Iterator<Item = &'a str> {
    let parts = content.0.iter().filter(|part| !part.is_thought);
    parts.filter_map(|part| part.text.as_deref())
}

fn hash_text(text: impl AsRef<str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.as_ref().hash(&mut hasher);
    hasher.finish()
}

fn hash_content(line: &GeminiFileLine<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    visible_texts(&line.content).for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

/// Returns the index of a summary that replaces older messages. `None` if there is none.
fn find_summary(messages: &[GeminiFileLine<'_>]) -> Option<usize> {
    let is_injected = |line: &GeminiFileLine<'_>| {
        visible_texts(&line.content)
            .any(|text| has_any_prefix(text, super::GEMINI_PROVIDER.injected_prefixes))
    };
    let index = messages.iter().position(|line| !is_injected(line))?;
    let next = messages.get(index + 1)?;
    let first = messages.get(index)?;
    let is_user = first.r#type.as_deref() == Some("user");
    let is_acknowledged = visible_texts(&next.content).eq([SUMMARY_ACKNOWLEDGEMENT]);
    (is_user && is_acknowledged).then_some(index)
}

fn result_parts(
    id: &str,
    name: Option<&str>,
    response: &GeminiFileFunctionResponse<'_>,
    is_error: bool,
) -> Vec<Part> {
    let name = name.or(response.name.as_deref()).unwrap_or_default();
    let mut parts = vec![Part::FunctionResponse {
        call_id: id.to_owned(),
        name: name.to_owned(),
        response: response
            .response
            .map_or_else(Json::empty_object, Json::from),
        is_error,
    }];
    parts.extend(
        response
            .parts
            .0
            .iter()
            .filter_map(GeminiFilePart::attachment),
    );
    parts
}

/// Returns the event for a title that the model gave a session.
pub(super) fn title_event(summary: Option<&str>) -> Option<RecordEvent> {
    parse_title(summary?).map(RecordEvent::title)
}

pub(super) fn parse_title(summary: &str) -> Option<Title> {
    let summary: String = summary.trim().chars().take(200).collect();
    Title::new(&summary, TitleSource::Model).ok()
}
