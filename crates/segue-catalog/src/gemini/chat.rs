//! Conversion of the messages of a Gemini CLI session to events.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{Message, Part, Role, Title, TitleSource, TurnState};

use super::line::{FunctionResponse, Line, Piece, Pieces, ToolCall};
use crate::injected::{BY_GEMINI, begins_with};
use crate::record::Back;
use crate::{Event, Said};

/// Text that Gemini CLI writes in the model's name after a summary.
const ACKNOWLEDGED: &str = "Got it. Thanks for the additional context!";
/// Text that Gemini CLI writes in the model's name after a tool has read an image.
const RECEIVED: &str = "Binary content received. Proceeding with analysis.";
/// Text in the result of a command that the user stopped.
const STOPPED: &str = "Command was cancelled by user";
/// Notices that Gemini CLI writes when the user stops a turn.
const CANCELLED: &[&str] = &["Request cancelled.", "User cancelled the request."];

/// A converter of messages to events. It remembers the prompts that still count, and the content of the current turn
/// that it has emitted.
#[derive(Default)]
pub(super) struct Chat {
    prompts: Vec<Asked>,
    turn: Turn,
    /// Hashes of the ids of answers in earlier turns.
    earlier: HashSet<u64>,
    /// Time of the newest message.
    latest: Option<Timestamp>,
    /// Whether the session contains messages before the first one that was read.
    midway: bool,
    /// Id of the newest summary that replaced older messages.
    summary: Option<String>,
    /// Whether the list of messages was emptied. A resume empties the list and then writes all messages a second time,
    /// so an empty list takes effect only when a single message follows.
    emptied: bool,
}

/// A prompt that was emitted.
struct Asked {
    id: Box<str>,
    /// Id under which the prompt was emitted, if it differs. After a summary, the remaining messages are copies with
    /// new ids.
    told_as: Option<Box<str>>,
    /// Hash of the text.
    words: u64,
}

impl Asked {
    fn key(&self) -> String {
        self.told_as.as_ref().unwrap_or(&self.id).to_string()
    }
}

/// Content of the current turn that was emitted.
#[derive(Default)]
struct Turn {
    asked_at: Option<Timestamp>,
    messages: HashMap<String, Answer>,
    /// Calls, each with `true` if its result was emitted.
    calls: HashMap<String, bool>,
    /// Whether an answer is still expected.
    open: bool,
}

impl Turn {
    /// Returns `true` if the result of a call was already emitted, and marks it as emitted.
    fn has_result(&mut self, call: &str) -> bool {
        !call.is_empty() && self.calls.insert(call.to_owned(), true) == Some(true)
    }
}

/// Content of a message that was emitted.
#[derive(Default, Clone, Copy)]
struct Answer {
    text: usize,
    used: bool,
}

/// New content of a message.
#[derive(Default, Clone, Copy)]
struct Answered {
    said: bool,
    called: bool,
}

impl Chat {
    /// Records that the session contains messages before the first one that is read.
    pub(super) fn begin_midway(&mut self) {
        self.midway = true;
    }

    /// Emits the events of a message. A message with a known id emits only its new content.
    pub(super) fn message(&mut self, line: &Line<'_>, events: &mut Vec<Event>) {
        let Some(id) = line.id.as_deref() else { return };
        let at = line.at();
        if std::mem::take(&mut self.emptied) {
            self.begin_anew(events);
        }
        let before = events.len();
        match line.r#type.as_deref() {
            Some("user") => self.user(id, at, line, events),
            Some("gemini") => self.gemini(id, at, line, events),
            Some("info" | "warning" | "error") => self.notice(id, at, line, events),
            _ => {}
        }
        if events.len() == before {
            events.push(Event::Step(id.to_owned()));
        }
        self.latest = self.latest.max(at);
    }

    fn user(&mut self, id: &str, at: Option<Timestamp>, line: &Line<'_>, events: &mut Vec<Event>) {
        for piece in &line.content.0 {
            if let Some(response) = &piece.response {
                self.response(response, at, events);
            }
        }
        let asked = asked(line);
        if asked.is_empty() {
            return;
        }
        // Only the last 64 prompts are compared, because a repeated message closely follows the original.
        if self
            .prompts
            .iter()
            .rev()
            .take(64)
            .all(|known| *known.id != *id)
        {
            let turn = Turn {
                asked_at: at,
                open: true,
                ..Turn::default()
            };
            let answered = std::mem::replace(&mut self.turn, turn).messages;
            self.earlier.extend(answered.keys().map(hash));
            self.prompts.push(Asked {
                id: id.into(),
                told_as: None,
                words: words_of(line),
            });
        }
        events.push(Event::Prompt(said(Some(id), Role::User, asked, at)));
    }

    /// Emits a result that was not emitted with its call. If the user does not allow a call, only the result is
    /// recorded.
    fn response(
        &mut self,
        response: &FunctionResponse<'_>,
        at: Option<Timestamp>,
        events: &mut Vec<Event>,
    ) {
        let id = response.id.as_deref().unwrap_or_default();
        if self.turn.has_result(id) {
            return;
        }
        let parts = result(id, None, response, response.is_error());
        events.push(Event::Said(said(None, Role::Tool, parts, at)));
        self.turn.open = true;
    }

    fn gemini(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &Line<'_>,
        events: &mut Vec<Event>,
    ) {
        let is_earlier = self.earlier.contains(&hash(id));
        let mut answer = Answered::default();
        if !is_earlier {
            answer = self.answer(id, at, line, events);
        }
        let asked_at = self.turn.asked_at;
        let is_new = |call: &&ToolCall<'_>| {
            let called_at = call.timestamp.as_deref().and_then(|at| at.parse().ok());
            let at = called_at.or(at);
            at.is_none() || at >= asked_at
        };
        let calls = line.tool_calls.as_deref().unwrap_or_default();
        // Gemini CLI may write all calls of a session into one message, repeatedly. That message begins in an earlier
        // turn, which may not have been read, and ends with calls of this one. If no call is newer than the prompt, the
        // clock was set back, and all calls count.
        let gathers = is_earlier || calls.iter().any(|call| is_new(&call));
        let told = calls.iter().filter(|call| !gathers || is_new(call));
        let told: Vec<_> = told.collect();
        for call in &told {
            let name = call.name.as_deref();
            events.extend(self.call(call.id.as_deref(), name, call.args, at));
        }
        let mut cancelled = false;
        for call in &told {
            cancelled |= self.results(call, at, events);
        }
        if cancelled {
            events.push(Event::Ended(TurnState::Cancelled));
            self.turn.open = false;
        } else if answer.said && !answer.called && told.is_empty() {
            events.push(Event::Ended(TurnState::Finished));
            self.turn.open = false;
        }
        self.used(id, line, events);
    }

    /// Emits the thoughts and the text of the model.
    fn answer(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &Line<'_>,
        events: &mut Vec<Event>,
    ) -> Answered {
        let first = !self.turn.messages.contains_key(id);
        let told = self.turn.messages.entry(id.to_owned()).or_default();
        let mut thoughts: Vec<String> = Vec::new();
        let mut text = String::new();
        for thought in line.thoughts.as_deref().unwrap_or_default() {
            thoughts.push(thought.words());
        }
        let known = !thoughts.is_empty();
        for piece in &line.content.0 {
            match &piece.text {
                Some(words) if !piece.thought => text.push_str(words),
                Some(words) if !known && **words != *RECEIVED => thoughts.push(words.to_string()),
                _ => {}
            }
        }
        let new = text.len() != told.text;
        told.text = text.len();
        if first {
            for thought in thoughts.into_iter().filter(|thought| !thought.is_empty()) {
                let parts = vec![Part::Thought(thought)];
                events.push(Event::Said(said(None, Role::Assistant, parts, at)));
            }
        }
        let mut answer = Answered::default();
        if new && !text.trim().is_empty() {
            answer.said = true;
            let parts = vec![Part::Text(text)];
            events.push(Event::Said(said(Some(id), Role::Assistant, parts, at)));
        }
        for piece in &line.content.0 {
            if let Some(call) = &piece.call {
                answer.called = true;
                events.extend(self.call(call.id.as_deref(), call.name.as_deref(), call.args, at));
            } else if first && let Some(part) = piece.attachment() {
                events.push(Event::Said(said(None, Role::Assistant, vec![part], at)));
            }
        }
        answer
    }

    fn call(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        args: Option<&serde_json::value::RawValue>,
        at: Option<Timestamp>,
    ) -> Option<Event> {
        let id = id.unwrap_or_default().to_owned();
        if self.turn.calls.contains_key(&id) {
            return None;
        }
        if !id.is_empty() {
            self.turn.calls.insert(id.clone(), false);
        }
        self.turn.open = true;
        let call = Part::FunctionCall {
            id,
            name: name.unwrap_or_default().to_owned(),
            args: args.map_or_else(Json::empty_object, Json::from),
        };
        Some(Event::Said(said(None, Role::Assistant, vec![call], at)))
    }

    /// Emits the result of a call. Returns `true` if the call was stopped.
    fn results(
        &mut self,
        call: &ToolCall<'_>,
        at: Option<Timestamp>,
        events: &mut Vec<Event>,
    ) -> bool {
        let id = call.id.as_deref().unwrap_or_default();
        let status = call.status.as_deref().unwrap_or_default();
        if call.result.0.is_empty() || self.turn.has_result(id) {
            return false;
        }
        let mut failed = matches!(status, "error" | "cancelled");
        let responses = call.result.0.iter().filter_map(|p| p.response.as_ref());
        // After a resume, every call of a message contains the results of all its calls.
        let own = responses.clone().find(|r| r.id.as_deref() == Some(id));
        let only = || responses.clone().next();
        let name = call.name.as_deref();
        let mut stopped = status == "cancelled";
        let mut parts = if let Some(response) = own.or_else(only) {
            stopped |= response.begins_with(STOPPED);
            failed |= response.is_error();
            result(id, name, response, failed)
        } else {
            let words: String = texts(&call.result).collect();
            vec![Part::FunctionResponse {
                call_id: id.to_owned(),
                name: name.unwrap_or_default().to_owned(),
                response: Json::string(&words),
                is_error: failed,
            }]
        };
        if responses.count() < 2 {
            parts.extend(call.result.0.iter().filter_map(Piece::attachment));
        }
        events.push(Event::Said(said(None, Role::Tool, parts, at)));
        stopped
    }

    fn used(&mut self, id: &str, line: &Line<'_>, events: &mut Vec<Event>) {
        if let (Some(tokens), Some(told)) = (line.tokens, self.turn.messages.get_mut(id))
            && !told.used
        {
            told.used = true;
            events.push(Event::Used {
                request: Some(id.to_owned()),
                usage: tokens.into(),
                model: line.model.as_deref().map(str::to_owned),
                cost: None,
            });
        }
    }

    /// Emits a notice of Gemini CLI. Ignores notices between turns, because they concern a prompt that no longer
    /// counts.
    fn notice(
        &mut self,
        id: &str,
        at: Option<Timestamp>,
        line: &Line<'_>,
        events: &mut Vec<Event>,
    ) {
        let text = line.words();
        if !self.turn.open || text.trim().is_empty() {
            return;
        }
        let kind = line.r#type.as_deref();
        if kind == Some("info") && CANCELLED.contains(&text.trim()) {
            events.push(Event::Ended(TurnState::Cancelled));
            self.turn.open = false;
            return;
        }
        let parts = vec![Part::Text(text)];
        events.push(Event::Said(said(Some(id), Role::System, parts, at)));
        if kind == Some("error") {
            events.push(Event::Ended(TurnState::Failed));
            self.turn.open = false;
        }
    }

    /// Removes a message and all later ones.
    pub(super) fn rewind(&mut self, id: &str, events: &mut Vec<Event>) {
        let at = self.prompts.iter().rposition(|asked| *asked.id == *id);
        let key = at.and_then(|at| self.prompts.get(at)).map(Asked::key);
        if let Some(at) = at {
            self.prompts.truncate(at);
        }
        let key = key.unwrap_or_else(|| id.to_owned());
        events.push(Event::Rewind(Back::Before(key)));
        self.turn.open = false;
    }

    /// Applies a list of all messages, which Gemini CLI writes when its history changes: it omits a prompt that failed
    /// or was stopped, it replaces older messages by a summary, or it writes all messages a second time after a resume.
    pub(super) fn history(&mut self, messages: &[Line<'_>], events: &mut Vec<Event>) {
        let says =
            |line: &Line<'_>| line.r#type.as_deref() != Some("user") || !asked(line).is_empty();
        self.emptied = !self.prompts.is_empty() && !messages.iter().any(says);
        // In the middle of a session, earlier messages are not part of this read.
        if self.emptied || (self.midway && self.prompts.is_empty()) {
            return;
        }
        let (latest, midway) = (self.latest, self.midway);
        let new = |line: &Line<'_>| match latest {
            Some(latest) => line.at() > Some(latest),
            None => !midway,
        };
        let summary = summary(messages);
        if let Some(at) = summary
            && let Some(line) = messages.get(at)
            && new(line)
            && self.summary.as_deref() != line.id.as_deref()
        {
            events.push(Event::Compacted(Some(line.words())));
            self.summary = line.id.as_deref().map(str::to_owned);
            self.keep(messages.get(at + 2..).unwrap_or_default());
            let written = messages.iter().filter_map(Line::at).max();
            self.latest = latest.max(written);
            if latest.is_some() || midway {
                return;
            }
        }
        let after = summary.map_or(0, |at| at + 2);
        let messages = messages.get(after..).unwrap_or_default();
        let anew = self.missing(messages, events);
        // All messages up to the newest prompt that still counts were already emitted, even if they are written
        // differently now.
        let told = self.prompts.last().and_then(|last| {
            let is_it = |line: &Line<'_>| line.id.as_deref() == Some(&*last.id);
            messages.iter().rposition(is_it)
        });
        let messages = messages
            .get(told.map_or(0, |at| at + 1)..)
            .unwrap_or_default();
        for line in messages {
            let id = line.id.as_deref();
            let known = id.is_some_and(|id| self.turn.messages.contains_key(id));
            // Results were emitted with their calls.
            let result = line.content.0.iter().any(|piece| piece.response.is_some());
            if anew || (new(line) && !known && !result) {
                self.message(line, events);
            }
        }
    }

    fn begin_anew(&mut self, events: &mut Vec<Event>) {
        events.push(Event::Rewind(Back::ToTheBeginning));
        self.prompts.clear();
        self.turn = Turn::default();
        self.earlier.clear();
    }

    /// Removes the prompts that are missing in these messages. Returns `true` if the conversation restarts with them.
    fn missing(&mut self, messages: &[Line<'_>], events: &mut Vec<Event>) -> bool {
        let here: HashSet<&str> = messages.iter().filter_map(|m| m.id.as_deref()).collect();
        let gone = |asked: &Asked| !here.contains(&*asked.id);
        let Some(at) = self.prompts.iter().position(gone) else {
            return false;
        };
        let (_, rest) = self.prompts.split_at(at);
        if !rest.iter().all(gone) {
            self.begin_anew(events);
            return true;
        }
        if let Some(first) = rest.first() {
            events.push(Event::Rewind(Back::Before(first.key())));
        }
        self.prompts.truncate(at);
        self.turn.open = false;
        false
    }

    /// Replaces the ids of the emitted prompts by the ids of their copies.
    fn keep(&mut self, messages: &[Line<'_>]) {
        let mut told = std::mem::take(&mut self.prompts);
        let mut kept = Vec::new();
        for line in messages.iter().rev() {
            let user = line.r#type.as_deref() == Some("user");
            if let Some(id) = line.id.as_deref()
                && user
                && !asked(line).is_empty()
                && let Some(original) = told.pop_if(|asked| asked.words == words_of(line))
            {
                kept.push(Asked {
                    told_as: Some(original.key().into()),
                    id: id.into(),
                    words: original.words,
                });
            }
        }
        kept.reverse();
        self.prompts = kept;
    }
}

/// Returns the user's content of a message. Empty if Gemini CLI wrote the message in the user's name.
fn asked(line: &Line<'_>) -> Vec<Part> {
    let responding = line.content.0.iter().any(|piece| piece.response.is_some());
    let typed = texts(&line.display_content).next().is_some();
    let words = if typed {
        &line.display_content
    } else {
        &line.content
    };
    let mut parts: Vec<Part> = texts(words)
        .filter(|text| !text.trim().is_empty() && !begins_with(text, BY_GEMINI))
        .map(|text| Part::Text(text.to_owned()))
        .collect();
    // Attachments of tool results belong to the results.
    if !responding {
        parts.extend(line.content.0.iter().filter_map(Piece::attachment));
    }
    parts
}

fn texts<'a>(pieces: &'a Pieces<'_>) -> impl Iterator<Item = &'a str> {
    let spoken = pieces.0.iter().filter(|piece| !piece.thought);
    spoken.filter_map(|piece| piece.text.as_deref())
}

fn hash(text: impl AsRef<str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.as_ref().hash(&mut hasher);
    hasher.finish()
}

fn words_of(line: &Line<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    texts(&line.content).for_each(|text| text.hash(&mut hasher));
    hasher.finish()
}

/// Returns the index of a summary that replaces older messages. `None` if there is none.
fn summary(messages: &[Line<'_>]) -> Option<usize> {
    let injected = |line: &Line<'_>| texts(&line.content).any(|text| begins_with(text, BY_GEMINI));
    let at = messages.iter().position(|line| !injected(line))?;
    let next = messages.get(at + 1)?;
    let first = messages.get(at)?;
    let user = first.r#type.as_deref() == Some("user");
    let answered = texts(&next.content).eq([ACKNOWLEDGED]);
    (user && answered).then_some(at)
}

fn result(
    id: &str,
    name: Option<&str>,
    response: &FunctionResponse<'_>,
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
    parts.extend(response.parts.0.iter().filter_map(Piece::attachment));
    parts
}

fn said(key: Option<&str>, role: Role, parts: Vec<Part>, at: Option<Timestamp>) -> Said {
    Said {
        key: key.map(str::to_owned),
        message: Message::new(role, parts, at.unwrap_or(Timestamp::UNIX_EPOCH)),
    }
}

/// Returns the event for a title that the model gave a session.
pub(super) fn titled(summary: Option<&str>) -> Option<Event> {
    Some(Event::Titled {
        title: title(summary?)?,
        of: None,
    })
}

pub(super) fn title(summary: &str) -> Option<Title> {
    let summary: String = summary.trim().chars().take(200).collect();
    Title::given(&summary, TitleSource::Model).ok()
}
