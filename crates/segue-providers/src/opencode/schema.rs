//! Objects of opencode, and their conversion to events.

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{InlineData, Message, Part, Role, Title, TitleSource, TurnState, Usage};
use segue_core::spend::Cost;
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::reader::borrowed_json::JsonText;
use crate::reader::has_any_prefix;
use crate::reader::line_format::{LineEvents, MalformedLine};
use crate::{KeyedMessage, RecordEvent};

/// A session, with the fields that segue reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFileSession<'a> {
    #[serde(rename = "parentID")]
    pub(super) parent_id: Option<JsonText<'a>>,
    pub(super) directory: Option<JsonText<'a>>,
    pub(super) title: Option<JsonText<'a>>,
    pub(super) version: Option<JsonText<'a>>,
    #[serde(default)]
    pub(super) time: OpencodeFileTimes,
    pub(super) revert: Option<OpencodeFileRevert<'a>>,
}

impl OpencodeFileSession<'_> {
    /// Returns the title. `None` if it is the default title of a new session.
    pub(super) fn title(&self) -> Option<Title> {
        let title = self.title.as_deref()?;
        let default_prefixes = ["New session - ", "Child session - "];
        let time = default_prefixes
            .iter()
            .find_map(|prefix| title.strip_prefix(prefix));
        let default_time = time.and_then(|time| time.get(..24)?.parse::<Timestamp>().ok());
        if default_time.is_some() {
            return None;
        }
        // opencode does not record whether the user chose the title.
        Title::new(title, TitleSource::Model).ok()
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFileRevert<'a> {
    #[serde(rename = "messageID")]
    pub(super) message_id: JsonText<'a>,
    #[serde(rename = "partID")]
    pub(super) part_id: Option<JsonText<'a>>,
}

/// Times in milliseconds. The object to which they belong determines which of them exist.
#[derive(Deserialize, Default)]
pub(super) struct OpencodeFileTimes {
    pub(super) created: Option<Number>,
    pub(super) completed: Option<Number>,
    pub(super) start: Option<Number>,
    pub(super) end: Option<Number>,
}

pub(super) fn parse_timestamp(time: Option<&Number>) -> Option<Timestamp> {
    Timestamp::from_millisecond(time?.as_i64()?).ok()
}

/// A message without its parts.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFileMessageInfo<'a> {
    pub(super) role: JsonText<'a>,
    #[serde(default)]
    pub(super) time: OpencodeFileTimes,
    pub(super) finish: Option<JsonText<'a>>,
    pub(super) error: Option<OpencodeFileError<'a>>,
    /// Flag that an answer is a summary, or the changes that resulted from a prompt.
    pub(super) summary: Option<&'a RawValue>,
    #[serde(rename = "modelID")]
    pub(super) model: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFileError<'a> {
    pub(super) name: Option<JsonText<'a>>,
}

impl OpencodeFileMessageInfo<'_> {
    pub(super) fn end_state(&self) -> Option<TurnState> {
        if let Some(error) = &self.error {
            let aborted = error.name.as_deref() == Some("MessageAbortedError");
            return Some(if aborted {
                TurnState::Cancelled
            } else {
                TurnState::Failed
            });
        }
        self.time.completed.as_ref()?;
        // In these cases opencode sends another request to the model.
        let is_continued = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        (!is_continued).then_some(TurnState::Finished)
    }
}

/// A part of a message. Its type determines which fields it has.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFilePart<'a> {
    pub(super) r#type: JsonText<'a>,
    pub(super) text: Option<JsonText<'a>>,
    pub(super) synthetic: Option<bool>,
    pub(super) ignored: Option<bool>,
    pub(super) time: Option<OpencodeFileTimes>,
    pub(super) tool: Option<JsonText<'a>>,
    #[serde(rename = "callID")]
    pub(super) call_id: Option<JsonText<'a>>,
    pub(super) state: Option<OpencodeFileToolState<'a>>,
    pub(super) mime: Option<JsonText<'a>>,
    pub(super) url: Option<JsonText<'a>>,
    pub(super) prompt: Option<JsonText<'a>>,
    pub(super) tokens: Option<OpencodeFileTokens>,
    pub(super) cost: Option<Number>,
}

impl OpencodeFilePart<'_> {
    /// Returns the cost. `None` if it is 0, because opencode writes 0 if it has no price.
    fn cost(&self) -> Option<Cost> {
        let cost = Cost::from_dollars(self.cost.as_ref()?.as_f64()?)?;
        (cost > Cost::default()).then_some(cost)
    }
}

/// State of a tool call.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct OpencodeFileToolState<'a> {
    pub(super) status: Option<JsonText<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) time: Option<OpencodeFileTimes>,
}

#[derive(Deserialize)]
pub(super) struct OpencodeFileTokens {
    pub(super) total: Option<Number>,
    pub(super) input: Option<Number>,
    pub(super) output: Option<Number>,
    pub(super) reasoning: Option<Number>,
    #[serde(default)]
    pub(super) cache: OpencodeFileCacheTokens,
}

#[derive(Deserialize, Default)]
pub(super) struct OpencodeFileCacheTokens {
    pub(super) read: Option<Number>,
    pub(super) write: Option<Number>,
}

impl From<&OpencodeFileTokens> for Usage {
    fn from(tokens: &OpencodeFileTokens) -> Self {
        let count = |number: &Option<Number>| number.as_ref().and_then(Number::as_u64);
        let add = |a: Option<u64>, b: &Option<Number>| {
            a.map(|a| a.saturating_add(count(b).unwrap_or_default()))
        };
        let mut output = count(&tokens.output);
        // Since opencode writes a total, it counts thoughts separately from the output.
        if tokens.total.is_some() {
            output = add(output, &tokens.reasoning);
        }
        let input = add(count(&tokens.input), &tokens.cache.read);
        let input = add(input, &tokens.cache.write);
        let sum = input.map(|input| input.saturating_add(output.unwrap_or_default()));
        let total = count(&tokens.total).or(sum);
        Self {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: count(&tokens.cache.read),
            total_tokens: total,
            context_tokens: total,
            context_window: None,
        }
    }
}

/// Events and content of a message, collected from its parts.
#[derive(Default)]
pub(super) struct OpencodeEventCollector {
    pub(super) at: Option<Timestamp>,
    pub(super) is_user: bool,
    pub(super) model: Option<String>,
    pub(super) prompt_parts: Vec<Part>,
    pub(super) summary: Option<String>,
    pub(super) events: Vec<RecordEvent>,
}

impl OpencodeEventCollector {
    pub(super) fn new(info: &OpencodeFileMessageInfo<'_>) -> Self {
        let is_user = &*info.role == "user";
        let is_summary = info.summary.is_some_and(|summary| summary.get() == "true");
        Self {
            at: parse_timestamp(info.time.created.as_ref()),
            is_user,
            model: info.model.as_deref().map(str::to_owned),
            summary: (is_summary && !is_user).then(String::new),
            ..Self::default()
        }
    }

    pub(super) fn add_part(&mut self, id: &str, part: &str) -> Result<(), MalformedLine> {
        let file_part: OpencodeFilePart<'_> = serde_json::from_str(part)?;
        if self.is_user {
            self.prompt_parts.extend(user_part(&file_part));
            return Ok(());
        }
        match &*file_part.r#type {
            "text" | "reasoning" => {
                let text = file_part.text.as_deref().unwrap_or_default();
                if let Some(summary) = &mut self.summary {
                    if &*file_part.r#type == "text" {
                        summary.push_str(text);
                    }
                } else if !text.is_empty() {
                    let is_thought = &*file_part.r#type == "reasoning";
                    let part = if is_thought {
                        Part::Thought
                    } else {
                        Part::Text
                    };
                    self.add_message(
                        Role::Assistant,
                        part(text.to_owned()),
                        file_part.time.as_ref(),
                    );
                }
            }
            "tool" => self.add_tool_call(&file_part),
            "file" => self.add_message(Role::Assistant, inline_data_part(&file_part), None),
            "step-finish" => {
                let usage = file_part.tokens.as_ref().map(Usage::from);
                self.events
                    .extend(usage.map(|usage| RecordEvent::RequestUsage {
                        request_id: Some(id.to_owned()),
                        usage,
                        model: self.model.clone(),
                        cost: file_part.cost(),
                    }));
            }
            "step-start" | "snapshot" | "patch" | "retry" | "agent" | "compaction" | "subtask" => {}
            _ => {
                let part = Part::Unknown(Json::parse(part).map_err(|_| MalformedLine)?);
                self.add_message(Role::Assistant, part, None);
            }
        }
        Ok(())
    }

    pub(super) fn add_tool_call(&mut self, file_part: &OpencodeFilePart<'_>) {
        let owned_or_empty =
            |text: &Option<JsonText<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let state = file_part.state.as_ref();
        let args = state.and_then(|state| state.input);
        let time = state.and_then(|state| state.time.as_ref());
        let call = Part::FunctionCall {
            id: owned_or_empty(&file_part.call_id),
            name: owned_or_empty(&file_part.tool),
            args: args.map_or_else(Json::empty_object, Json::from),
        };
        let at = parse_timestamp(time.and_then(|time| time.start.as_ref())).or(self.at);
        self.push_message(Role::Assistant, call, at, true);
        let Some(state) = state else { return };
        let (response, is_error) = match state.status.as_deref() {
            Some("completed") => (state.output, false),
            Some("error") => (state.error, true),
            _ => return,
        };
        let result = Part::FunctionResponse {
            call_id: owned_or_empty(&file_part.call_id),
            name: owned_or_empty(&file_part.tool),
            response: response.map_or_else(|| Json::string(""), Json::from),
            is_error,
        };
        self.add_message(Role::Tool, result, time);
    }

    pub(super) fn add_message(&mut self, role: Role, part: Part, time: Option<&OpencodeFileTimes>) {
        let end = time.and_then(|time| parse_timestamp(time.end.as_ref()));
        let start = time.and_then(|time| parse_timestamp(time.start.as_ref()));
        // A part with a start and no end was interrupted, or is being written.
        let complete = start.is_none() || end.is_some();
        self.push_message(role, part, end.or(start).or(self.at), complete);
    }

    pub(super) fn push_message(
        &mut self,
        role: Role,
        part: Part,
        at: Option<Timestamp>,
        complete: bool,
    ) {
        let mut message = Message::new(role, vec![part], at.unwrap_or(Timestamp::UNIX_EPOCH));
        message.complete = complete;
        self.events
            .push(RecordEvent::Message(KeyedMessage { key: None, message }));
    }

    pub(super) fn finish(mut self, info: &OpencodeFileMessageInfo<'_>) -> LineEvents {
        if self.is_user {
            if !self.prompt_parts.is_empty() {
                let prompt = RecordEvent::prompt(None, self.prompt_parts, self.at);
                self.events.push(prompt);
            }
        } else if let Some(summary) = self.summary {
            // A summary does not end a turn: an interrupted turn continues after it.
            if info.error.is_none() {
                let summary = (!summary.is_empty()).then_some(summary);
                self.events.push(RecordEvent::Compacted(summary));
            }
        } else {
            self.events
                .extend(info.end_state().map(RecordEvent::TurnEnded));
        }
        let completed = parse_timestamp(info.time.completed.as_ref());
        LineEvents {
            at: completed.or(self.at),
            events: self.events,
        }
    }
}

/// Returns the user's content of a prompt. Omits the content of files that the user named, because opencode adds it.
pub(super) fn user_part(file_part: &OpencodeFilePart<'_>) -> Option<Part> {
    let text = match &*file_part.r#type {
        "file" => return Some(inline_data_part(file_part)),
        "text" if file_part.synthetic == Some(true) || file_part.ignored == Some(true) => None,
        "text" => file_part.text.as_deref(),
        "subtask" => file_part.prompt.as_deref(),
        _ => None,
    };
    let text = text.filter(|text| {
        !text.trim().is_empty() && !has_any_prefix(text, super::OPENCODE_PROVIDER.injected_prefixes)
    });
    text.map(|text| Part::Text(text.to_owned()))
}

pub(super) fn inline_data_part(file_part: &OpencodeFilePart<'_>) -> Part {
    let url = file_part.url.as_deref().unwrap_or_default();
    let data = url
        .strip_prefix("data:")
        .and_then(|data| data.split_once(";base64,"));
    let mime = file_part
        .mime
        .as_deref()
        .unwrap_or("application/octet-stream");
    Part::InlineData(InlineData {
        mime_type: mime.to_owned(),
        data: data.map(|(_, data)| data.to_owned()),
    })
}
