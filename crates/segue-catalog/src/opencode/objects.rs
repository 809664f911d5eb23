//! Objects of opencode, and their conversion to events.

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::{InlineData, Message, Part, Role, Title, TitleSource, TurnState, Usage};
use segue_core::spend::Cost;
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::dialect::{Malformed, Told};
use crate::injected::{BY_OPENCODE, begins_with};
use crate::json::Text;
use crate::{Event, Said};

/// A session, with the fields that segue reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session<'a> {
    #[serde(borrow, default, rename = "parentID")]
    pub(super) parent: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) directory: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) title: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) version: Option<Text<'a>>,
    #[serde(default)]
    pub(super) time: Times,
    #[serde(borrow, default)]
    pub(super) revert: Option<Revert<'a>>,
}

impl Session<'_> {
    /// Returns the title. `None` if it is the default title of a new session.
    pub(super) fn title(&self) -> Option<Title> {
        let title = self.title.as_deref()?;
        let begins = ["New session - ", "Child session - "];
        let time = begins.iter().find_map(|begin| title.strip_prefix(begin));
        let default = time.and_then(|time| time.get(..24)?.parse::<Timestamp>().ok());
        if default.is_some() {
            return None;
        }
        // opencode does not record whether the user chose the title.
        Title::given(title, TitleSource::Model).ok()
    }
}

#[derive(Deserialize)]
pub(super) struct Revert<'a> {
    #[serde(borrow, rename = "messageID")]
    pub(super) message: Text<'a>,
    #[serde(borrow, default, rename = "partID")]
    pub(super) part: Option<Text<'a>>,
}

/// Times in milliseconds. The object to which they belong determines which of them exist.
#[derive(Deserialize, Default)]
pub(super) struct Times {
    pub(super) created: Option<Number>,
    pub(super) completed: Option<Number>,
    pub(super) start: Option<Number>,
    pub(super) end: Option<Number>,
}

pub(super) fn moment(time: Option<&Number>) -> Option<Timestamp> {
    Timestamp::from_millisecond(time?.as_i64()?).ok()
}

/// A message without its parts.
#[derive(Deserialize)]
pub(super) struct Info<'a> {
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    #[serde(default)]
    pub(super) time: Times,
    #[serde(borrow, default)]
    pub(super) finish: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<Fault<'a>>,
    /// Flag that an answer is a summary, or the changes that resulted from a prompt.
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "modelID")]
    pub(super) model: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Fault<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
}

impl Info<'_> {
    pub(super) fn end(&self) -> Option<TurnState> {
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
        let goes_on = matches!(self.finish.as_deref(), Some("tool-calls" | "unknown"));
        (!goes_on).then_some(TurnState::Finished)
    }
}

/// A part of a message. Its type determines which fields it has.
#[derive(Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(default)]
    pub(super) synthetic: Option<bool>,
    #[serde(default)]
    pub(super) ignored: Option<bool>,
    #[serde(default)]
    pub(super) time: Option<Times>,
    #[serde(borrow, default)]
    pub(super) tool: Option<Text<'a>>,
    #[serde(borrow, default, rename = "callID")]
    pub(super) call: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) state: Option<State<'a>>,
    #[serde(borrow, default)]
    pub(super) mime: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) url: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) prompt: Option<Text<'a>>,
    #[serde(default)]
    pub(super) tokens: Option<Tokens>,
    #[serde(default)]
    pub(super) cost: Option<Number>,
}

impl Piece<'_> {
    /// Returns the cost. `None` if it is 0, because opencode writes 0 if it has no price.
    fn cost(&self) -> Option<Cost> {
        let cost = Cost::from_dollars(self.cost.as_ref()?.as_f64()?)?;
        (cost > Cost::default()).then_some(cost)
    }
}

/// State of a tool call.
#[derive(Deserialize)]
pub(super) struct State<'a> {
    #[serde(borrow, default)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) time: Option<Times>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) total: Option<Number>,
    pub(super) input: Option<Number>,
    pub(super) output: Option<Number>,
    pub(super) reasoning: Option<Number>,
    #[serde(default)]
    pub(super) cache: Cached,
}

#[derive(Deserialize, Default)]
pub(super) struct Cached {
    pub(super) read: Option<Number>,
    pub(super) write: Option<Number>,
}

impl From<&Tokens> for Usage {
    fn from(tokens: &Tokens) -> Self {
        let count = |number: &Option<Number>| number.as_ref().and_then(Number::as_u64);
        let plus = |a: Option<u64>, b: &Option<Number>| {
            a.map(|a| a.saturating_add(count(b).unwrap_or_default()))
        };
        let mut output = count(&tokens.output);
        // Since opencode writes a total, it counts thoughts separately from the output.
        if tokens.total.is_some() {
            output = plus(output, &tokens.reasoning);
        }
        let input = plus(count(&tokens.input), &tokens.cache.read);
        let input = plus(input, &tokens.cache.write);
        let both = input.map(|input| input.saturating_add(output.unwrap_or_default()));
        let total = count(&tokens.total).or(both);
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
pub(super) struct Telling {
    pub(super) at: Option<Timestamp>,
    pub(super) by_user: bool,
    pub(super) model: Option<String>,
    pub(super) asked: Vec<Part>,
    pub(super) summary: Option<String>,
    pub(super) events: Vec<Event>,
}

impl Telling {
    pub(super) fn new(info: &Info<'_>) -> Self {
        let by_user = &*info.role == "user";
        let summary = info.summary.is_some_and(|summary| summary.get() == "true");
        Self {
            at: moment(info.time.created.as_ref()),
            by_user,
            model: info.model.as_deref().map(str::to_owned),
            summary: (summary && !by_user).then(String::new),
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, id: &str, part: &str) -> Result<(), Malformed> {
        let piece: Piece<'_> = serde_json::from_str(part)?;
        if self.by_user {
            self.asked.extend(asked(&piece));
            return Ok(());
        }
        match &*piece.r#type {
            "text" | "reasoning" => {
                let text = piece.text.as_deref().unwrap_or_default();
                if let Some(summary) = &mut self.summary {
                    if &*piece.r#type == "text" {
                        summary.push_str(text);
                    }
                } else if !text.is_empty() {
                    let thought = &*piece.r#type == "reasoning";
                    let part = if thought { Part::Thought } else { Part::Text };
                    self.say(Role::Assistant, part(text.to_owned()), piece.time.as_ref());
                }
            }
            "tool" => self.tool(&piece),
            "file" => self.say(Role::Assistant, inline(&piece), None),
            "step-finish" => {
                let usage = piece.tokens.as_ref().map(Usage::from);
                self.events.extend(usage.map(|usage| Event::Used {
                    request: Some(id.to_owned()),
                    usage,
                    model: self.model.clone(),
                    cost: piece.cost(),
                }));
            }
            "step-start" | "snapshot" | "patch" | "retry" | "agent" | "compaction" | "subtask" => {}
            _ => {
                let part = Part::Unknown(Json::parse(part).map_err(|_| Malformed)?);
                self.say(Role::Assistant, part, None);
            }
        }
        Ok(())
    }

    pub(super) fn tool(&mut self, piece: &Piece<'_>) {
        let filled = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
        let state = piece.state.as_ref();
        let args = state.and_then(|state| state.input);
        let time = state.and_then(|state| state.time.as_ref());
        let call = Part::FunctionCall {
            id: filled(&piece.call),
            name: filled(&piece.tool),
            args: args.map_or_else(Json::empty_object, Json::from),
        };
        let at = moment(time.and_then(|time| time.start.as_ref())).or(self.at);
        self.push(Role::Assistant, call, at, true);
        let Some(state) = state else { return };
        let (response, is_error) = match state.status.as_deref() {
            Some("completed") => (state.output, false),
            Some("error") => (state.error, true),
            _ => return,
        };
        let result = Part::FunctionResponse {
            call_id: filled(&piece.call),
            name: filled(&piece.tool),
            response: response.map_or_else(|| Json::string(""), Json::from),
            is_error,
        };
        self.say(Role::Tool, result, time);
    }

    pub(super) fn say(&mut self, role: Role, part: Part, time: Option<&Times>) {
        let end = time.and_then(|time| moment(time.end.as_ref()));
        let start = time.and_then(|time| moment(time.start.as_ref()));
        // A part with a start and no end was interrupted, or is being written.
        let complete = start.is_none() || end.is_some();
        self.push(role, part, end.or(start).or(self.at), complete);
    }

    pub(super) fn push(&mut self, role: Role, part: Part, at: Option<Timestamp>, complete: bool) {
        let mut message = Message::new(role, vec![part], at.unwrap_or(Timestamp::UNIX_EPOCH));
        message.complete = complete;
        self.events.push(Event::Said(Said { key: None, message }));
    }

    pub(super) fn finish(mut self, info: &Info<'_>) -> Told {
        if self.by_user {
            if !self.asked.is_empty() {
                let at = self.at.unwrap_or(Timestamp::UNIX_EPOCH);
                let message = Message::new(Role::User, self.asked, at);
                self.events.push(Event::Prompt(Said { key: None, message }));
            }
        } else if let Some(summary) = self.summary {
            // A summary does not end a turn: an interrupted turn continues after it.
            if info.error.is_none() {
                let summary = (!summary.is_empty()).then_some(summary);
                self.events.push(Event::Compacted(summary));
            }
        } else {
            self.events.extend(info.end().map(Event::Ended));
        }
        let completed = moment(info.time.completed.as_ref());
        Told {
            at: completed.or(self.at),
            events: self.events,
        }
    }
}

/// Returns the user's content of a prompt. Omits the content of files that the user named, because opencode adds it.
pub(super) fn asked(piece: &Piece<'_>) -> Option<Part> {
    let text = match &*piece.r#type {
        "file" => return Some(inline(piece)),
        "text" if piece.synthetic == Some(true) || piece.ignored == Some(true) => None,
        "text" => piece.text.as_deref(),
        "subtask" => piece.prompt.as_deref(),
        _ => None,
    };
    let text = text.filter(|text| !text.trim().is_empty() && !begins_with(text, BY_OPENCODE));
    text.map(|text| Part::Text(text.to_owned()))
}

pub(super) fn inline(piece: &Piece<'_>) -> Part {
    let url = piece.url.as_deref().unwrap_or_default();
    let data = url
        .strip_prefix("data:")
        .and_then(|data| data.split_once(";base64,"));
    let mime = piece.mime.as_deref().unwrap_or("application/octet-stream");
    Part::InlineData(InlineData {
        mime_type: mime.to_owned(),
        data: data.map(|(_, data)| data.to_owned()),
    })
}
