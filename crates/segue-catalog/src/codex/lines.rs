//! Lines of a file, in both formats.
//!
//! `response_item` lines are the requests to the model and its answers. They are the same in all versions. `event_msg`
//! lines repeat the events for display. Only events that no other line contains are read: the end of a turn, the usage
//! of a request, and failures.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use memchr::memmem;
use segue_core::json::Json;
use segue_core::session::{InlineData, Message, Part, Role, Title, TitleSource, TurnState, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::failure;
use super::frame::Frame;
use super::wire::{
    Answered, Block, Called, Compacted, Context, Happened, Picture, Reasoning, Spoken, Tokens, Used,
};
use crate::dialect::{Dialect, Malformed, Told};
use crate::injected::{BY_CODEX, begins_with};
use crate::json::{Blocks, Text};
use crate::record::Back;
use crate::{Event, Said};

const FINISHED: TurnState = TurnState::Finished;
const FAILED: TurnState = TurnState::Failed;

/// Line format of Codex. It remembers the current task and the tools that were called in it.
#[derive(Default)]
pub(super) struct Lines {
    task: Task,
    calls: HashMap<String, String>,
    /// Calls whose failure an event reported before their results.
    failed: HashSet<String>,
    /// Whether the model has answered since its usage was last reported.
    answered: bool,
    window: Option<u64>,
    /// Model of this turn.
    model: Option<String>,
    /// Last text of the model. `answers` is the number of such texts so far.
    answer: String,
    answers: u64,
}

/// Work of Codex between two waits for the user. Most tasks are turns. A compaction of the context, or a command that
/// the user runs, is a task too.
#[derive(Default)]
struct Task {
    /// Whether its beginning was recorded. The oldest files contain no tasks.
    told: bool,
    prompted: bool,
    /// Number of messages that belong to a turn.
    said: u32,
    failed: bool,
    /// State at the end of the previous task.
    before: Option<TurnState>,
}

impl Dialect for Lines {
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed> {
        let line = line.trim_ascii();
        if !(line.starts_with('{') && line.ends_with('}')) {
            return Err(Malformed);
        }
        let frame = Frame::parse(line)?;
        match frame.kind {
            "response_item" => self.item(&frame, &mut told.events)?,
            "event_msg" => self.event(&frame, &mut told.events)?,
            "token_usage_record" => {
                let used: Used<'_> = frame.read()?;
                self.answered = false;
                let request = used.response_id.map(Text::into_owned);
                told.events.push(self.used(request, used.usage));
            }
            "turn_context" => {
                let context: Context<'_> = frame.read()?;
                self.model = context.model.map(Text::into_owned).or(self.model.take());
            }
            "compacted" => self.compacted(&frame, &mut told.events)?,
            _ => {}
        }
        if !told.events.is_empty() {
            told.at = frame.time();
        }
        Ok(())
    }

    fn may_prompt(line: &[u8]) -> bool {
        // In a line that Codex writes, the decisive fields are at the beginning.
        let beginning = line.get(..BEGINNING).unwrap_or(line);
        Self::may_start_task(line) || {
            let usual = line.starts_with(b"{\"timestamp\":\"");
            let other = has(beginning, b"\"event_msg\"") || has(beginning, b"_call_output\"");
            !(usual && other) && has(line, b"\"user\"")
        }
    }

    /// Returns `true` only for the beginning of a task, because the user may send more messages during a task.
    fn begins(line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let frame = Frame::parse(text.trim_ascii()).ok();
        let event = frame.filter(|frame| frame.kind == "event_msg");
        event.is_some_and(|frame| frame.inside().is_ok_and(starts_task))
    }
}

/// Line format of the oldest files, which contain no tasks: every prompt begins a turn.
#[derive(Default)]
pub(super) struct Taskless(Lines);

impl Dialect for Taskless {
    fn read(&mut self, line: &str, told: &mut Told) -> Result<(), Malformed> {
        self.0.read(line, told)
    }

    fn may_prompt(line: &[u8]) -> bool {
        Lines::may_prompt(line)
    }
}

/// Bytes of a line that are searched to classify it.
const BEGINNING: usize = 300;

fn starts_task(event: &str) -> bool {
    matches!(event, "task_started" | "turn_started")
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    memmem::find(bytes, needle).is_some()
}

impl Lines {
    /// Returns `true` if a line may begin a task. The check is cheap: it may return `true` for other lines, but never
    /// returns `false` for a line that begins a task.
    pub(super) fn may_start_task(line: &[u8]) -> bool {
        has(line.get(..BEGINNING).unwrap_or(line), b"_started\"")
    }

    fn item(&mut self, frame: &Frame<'_>, events: &mut Vec<Event>) -> Result<(), Malformed> {
        let at = frame.time().unwrap_or(Timestamp::UNIX_EPOCH);
        let kind = frame.inside()?;
        let part = match kind {
            "message" => return self.message(frame, at, events),
            "reasoning" => thought(&frame.read()?),
            "function_call" | "custom_tool_call" | "local_shell_call" | "web_search_call"
            | "tool_search_call" => Some(self.call(kind, &frame.read()?)),
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                let part = self.result(&frame.read()?);
                self.say(Role::Tool, vec![part], at, events);
                return Ok(());
            }
            "image_generation_call" => frame.read::<Picture<'_>>()?.result.map(|data| {
                Part::InlineData(InlineData {
                    mime_type: "image/png".to_owned(),
                    data: Some(data.into_owned()),
                })
            }),
            // Internal data of the agent, and messages from other agents.
            "compaction" | "context_compaction" | "compaction_trigger" | "compaction_summary"
            | "ghost_snapshot" | "additional_tools" | "agent_message" | "other" => None,
            _ => frame
                .read()
                .ok()
                .map(|item: &RawValue| Part::Unknown(item.into())),
        };
        if let Some(part) = part {
            self.answered = true;
            self.say(Role::Assistant, vec![part], at, events);
        }
        Ok(())
    }

    fn say(&mut self, role: Role, parts: Vec<Part>, at: Timestamp, events: &mut Vec<Event>) {
        self.task.said += 1;
        events.push(Event::Said(Said {
            key: None,
            message: Message::new(role, parts, at),
        }));
    }

    fn message(
        &mut self,
        frame: &Frame<'_>,
        at: Timestamp,
        events: &mut Vec<Event>,
    ) -> Result<(), Malformed> {
        let spoken: Spoken<'_> = frame.read()?;
        let content = spoken.content.as_ref().ok_or(Malformed)?;
        match spoken.role.as_deref() {
            Some("user") => self.heard(frame, &spoken, content, at, events),
            Some("assistant") => {
                let text = content.text(Block::words);
                self.answered = true;
                if !text.is_empty() {
                    self.answer(text, at, events);
                }
            }
            // Other roles contain instructions.
            Some(_) => {}
            None => return Err(Malformed),
        }
        Ok(())
    }

    fn answer(&mut self, text: String, at: Timestamp, events: &mut Vec<Event>) {
        self.answers += 1;
        self.answer.clone_from(&text);
        self.say(Role::Assistant, vec![Part::Text(text)], at, events);
        if let Some(Event::Said(said)) = events.last_mut() {
            said.key = Some(self.answer_key());
        }
        // Without tasks, a text ends the turn until another message follows.
        if !self.task.told {
            events.push(Event::Ended(TurnState::Finished));
        }
    }

    /// Returns the key by which a later line can remove the last answer.
    fn answer_key(&self) -> String {
        format!("answer {}", self.answers)
    }

    fn heard(
        &mut self,
        frame: &Frame<'_>,
        spoken: &Spoken<'_>,
        content: &Blocks<'_, Block<'_>>,
        at: Timestamp,
        events: &mut Vec<Event>,
    ) {
        let mut asked = Vec::new();
        match content {
            Blocks::Text(text) => hear(text, None, &mut asked, at, events),
            Blocks::List(blocks) => {
                let kinds = spoken.about.as_ref();
                let kinds = kinds.and_then(|about| about.content_item_kinds.as_deref());
                let kinds = kinds.unwrap_or_default();
                for (index, block) in blocks.iter().enumerate() {
                    let near = |index: Option<usize>| blocks.get(index?).map(Block::is_image);
                    let before = near(index.checked_sub(1)) == Some(true);
                    let after = near(index.checked_add(1)) == Some(true);
                    match block.words() {
                        Some(text) if is_label(text, before, after) => {}
                        Some(text) => {
                            let kind = kinds.get(index).map(|kind| &**kind);
                            hear(text, kind, &mut asked, at, events);
                        }
                        None => asked.push(attached(block, frame, index)),
                    }
                }
            }
        }
        if !asked.is_empty() {
            let under_way = self.task.told && self.task.prompted;
            self.task.prompted = true;
            self.task.said += 1;
            let said = Said {
                key: None,
                message: Message::new(Role::User, asked, at),
            };
            events.push(if under_way {
                Event::Said(said)
            } else {
                Event::Prompt(said)
            });
        }
    }

    fn call(&mut self, kind: &str, call: &Called<'_>) -> Part {
        let id = call.call_id.as_deref().or(call.id.as_deref());
        let id = id.unwrap_or_default().to_owned();
        let name = match (call.namespace.as_deref(), call.name.as_deref()) {
            (Some(space), Some(name)) if !space.is_empty() && !name.starts_with(space) => {
                format!("{}__{name}", space.trim_end_matches('_'))
            }
            (_, Some(name)) => name.to_owned(),
            (_, None) => kind.trim_end_matches("_call").to_owned(),
        };
        if kind != "web_search_call" {
            self.calls.insert(id.clone(), name.clone());
        }
        let args = match call.arguments.or(call.input).or(call.action) {
            Some(args) => arguments(args),
            None => Json::empty_object(),
        };
        Part::FunctionCall { id, name, args }
    }

    fn result(&mut self, output: &Answered<'_>) -> Part {
        let call_id = output.call_id.as_deref().unwrap_or_default().to_owned();
        let known = self.failed.remove(&call_id);
        let content = output.output.or(output.tools);
        Part::FunctionResponse {
            name: self.calls.remove(&call_id).unwrap_or_default(),
            is_error: known || content.is_some_and(|content| failure::tells(content.get())),
            response: content.map_or_else(|| Json::string(""), Json::from),
            call_id,
        }
    }

    fn event(&mut self, frame: &Frame<'_>, events: &mut Vec<Event>) -> Result<(), Malformed> {
        match frame.inside()? {
            kind if starts_task(kind) => {
                let started: Happened<'_> = frame.read()?;
                self.window = started.model_context_window.or(self.window);
                self.task = Task {
                    told: true,
                    before: self.task.before,
                    ..Task::default()
                };
            }
            "task_complete" | "turn_complete" => {
                let ended: Happened<'_> = frame.read()?;
                let failed = self.task.failed && ended.last_agent_message.is_none();
                let failed = failed || ended.error.is_some();
                self.end(if failed { FAILED } else { FINISHED }, events);
            }
            "turn_aborted" => self.end(TurnState::Cancelled, events),
            "error" => {
                self.task.failed = true;
                events.push(Event::Ended(TurnState::Failed));
            }
            "token_count" => {
                let Some(info) = frame.read::<Happened<'_>>()?.info else {
                    return Ok(());
                };
                self.window = info.model_context_window.or(self.window);
                // Codex repeats this event when limits change, and when no request was sent to the model.
                if let Some(tokens) = info.last_token_usage.filter(|_| self.answered) {
                    events.push(self.used(None, tokens));
                }
                self.answered = false;
            }
            "thread_rolled_back" => {
                let turns = frame.read::<Happened<'_>>()?.num_turns.ok_or(Malformed)?;
                events.push(Event::Rewind(Back::Turns(turns)));
            }
            "thread_name_updated" => {
                let name = frame.read::<Happened<'_>>()?.thread_name;
                let title = name.and_then(|name| Title::given(&name, TitleSource::User).ok());
                events.extend(title.map(|title| Event::Titled { title, of: None }));
            }
            "item_completed" | "exec_command_end" | "mcp_tool_call_end" | "patch_apply_end" => {
                self.failed.extend(failure::told(frame.payload));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, state: TurnState, events: &mut Vec<Event>) {
        // A task without messages was no turn, so the last turn retains its state.
        let state = match self.task.before {
            Some(before) if self.task.told && self.task.said == 0 => before,
            _ => state,
        };
        events.push(Event::Ended(state));
        self.failed.clear();
        self.task = Task {
            told: self.task.told,
            before: Some(state),
            ..Task::default()
        };
    }

    fn compacted(&mut self, frame: &Frame<'_>, events: &mut Vec<Event>) -> Result<(), Malformed> {
        let message = frame.read::<Compacted<'_>>()?.message;
        let message = message.as_deref().map(str::trim).unwrap_or_default();
        let answer = self.answer.trim();
        let summary = if !answer.is_empty() && message.ends_with(answer) {
            // The last answer was a summary for the agent itself.
            events.push(Event::Rewind(Back::Before(self.answer_key())));
            self.task.said = self.task.said.saturating_sub(1);
            answer
        } else {
            message
        };
        let summary = Some(summary.to_owned()).filter(|summary| !summary.is_empty());
        events.push(Event::Compacted(summary));
        self.answer.clear();
        Ok(())
    }

    fn used(&self, request: Option<String>, tokens: Tokens) -> Event {
        Event::Used {
            request,
            usage: self.usage(tokens),
            model: self.model.clone(),
            cost: None,
        }
    }

    fn usage(&self, tokens: Tokens) -> Usage {
        let sum = |input: u64| input.saturating_add(tokens.output.unwrap_or(0));
        let total = tokens.total.or(tokens.input.map(sum));
        Usage {
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cached,
            total_tokens: total,
            context_tokens: total,
            context_window: self.window,
        }
    }
}

/// Sorts a text that a record attributes to the user.
fn hear(
    text: &str,
    kind: Option<&str>,
    asked: &mut Vec<Part>,
    at: Timestamp,
    events: &mut Vec<Event>,
) {
    let typed = match kind {
        Some("unknown") | None => !begins_with(text, BY_CODEX),
        Some(kind) => kind.starts_with("user."),
    };
    if typed {
        if !text.trim().is_empty() {
            asked.push(Part::Text(text.to_owned()));
        }
    } else if let Some(ran) = text.trim().strip_prefix("<user_shell_command>") {
        let ran = ran.trim_end_matches("</user_shell_command>").trim();
        let message = Message::new(Role::System, vec![Part::Text(ran.to_owned())], at);
        events.push(Event::Said(Said { key: None, message }));
    } else if text.trim_start().starts_with("<turn_aborted>") {
        events.push(Event::Ended(TurnState::Cancelled));
    }
}

/// Returns `true` for a text around an image that Codex adds for the model.
fn is_label(text: &str, after_image: bool, before_image: bool) -> bool {
    let text = text.trim();
    (before_image && text.starts_with("<image") && text.ends_with('>'))
        || (after_image && text == "</image>")
}

fn thought(reasoning: &Reasoning<'_>) -> Option<Part> {
    let words = |blocks: &Option<Vec<Block<'_>>>| {
        let blocks = blocks.as_deref().unwrap_or_default().iter();
        blocks
            .filter_map(Block::words)
            .collect::<Vec<_>>()
            .join("\n\n")
    };
    let summary = words(&reasoning.summary);
    let text = if summary.is_empty() {
        words(&reasoning.content)
    } else {
        summary
    };
    (!text.trim().is_empty()).then_some(Part::Thought(text))
}

/// Parses the arguments of a call, which are usually JSON inside a string.
fn arguments(args: &RawValue) -> Json {
    let inside = serde_json::from_str::<Text<'_>>(args.get()).ok();
    let object = inside.filter(|text| text.trim_start().starts_with('{'));
    object
        .and_then(|text| Json::parse(text.into_owned()).ok())
        .unwrap_or_else(|| Json::from(args))
}

/// Converts an image, or a block of an unknown type.
fn attached(block: &Block<'_>, frame: &Frame<'_>, index: usize) -> Part {
    let inline = || {
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
    match inline() {
        Some(data) => Part::InlineData(data),
        None => Part::Unknown(verbatim(frame, index)),
    }
}

fn verbatim(frame: &Frame<'_>, index: usize) -> Json {
    #[derive(Deserialize)]
    struct Blocks<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let blocks = frame.read::<Blocks<'_>>().ok();
    let block = blocks.and_then(|blocks| blocks.content.get(index).copied());
    block.map_or_else(Json::empty_object, Json::from)
}
