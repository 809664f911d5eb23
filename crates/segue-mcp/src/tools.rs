//! The tools: their definitions for the protocol, and their calls of the engine.

use std::error::Error;

use rmcp::model::{self, MetaObject, ToolAnnotations};
use segue_core::id::SessionId;
use segue_core::session::SessionRef;
use segue_engine::{
    Conversation, Described, Detail, EngineError, Freshness, Order, SearchRequest, Turns,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Desk;

/// Default and maximum number of hits that a search returns.
const HITS: usize = 10;
const MOST_HITS: usize = 50;
/// Maximum number of turns per session in the result of a search.
const EACH: usize = 3;

/// Maximum number of sessions that the error for an ambiguous reference names.
const NAMED: usize = 8;

/// Metadata key of a tool that Claude Code always loads. It hides other tools until the model searches for them.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

/// A tool that an agent can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Describe,
    History,
    Search,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [Self::Describe, Self::History, Self::Search];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Describe => "session_describe",
            Self::History => "session_history",
            Self::Search => "session_search",
        }
    }

    /// Returns the definition of the tool that an agent receives.
    pub(crate) fn described(self) -> model::Tool {
        let schema = match self.schema() {
            Value::Object(schema) => schema,
            _ => model::JsonObject::new(),
        };
        let reads = self != Self::Describe;
        let hints = ToolAnnotations::new()
            .read_only(reads)
            .destructive(false)
            .idempotent(true)
            .open_world(false);
        let mut meta = MetaObject::new();
        meta.insert(ALWAYS_LOAD.to_owned(), Value::Bool(true));
        model::Tool::new(self.name(), self.description(), schema)
            .with_annotations(hints)
            .with_meta(meta)
    }

    fn description(self) -> &'static str {
        match self {
            Self::Describe => {
                "Give the current session a title that a person will recognise in a list: three to eight words \
                 about its main topic. A title that a person chose stays."
            }
            Self::History => {
                "Read what was said in the current session, or in another one, turn by turn: the newest turns that \
                 fit, or those between two numbers. Says what was left out and how to ask for it."
            }
            Self::Search => {
                "Find where something was said in the sessions of this project, whichever agent they were with. All \
                 words must occur in one turn; case does not matter. Each hit tells the session and the turn, \
                 for session_history."
            }
        }
    }

    // The schema is written by hand, because some model APIs reject a generated schema for optional and unsigned
    // numbers.
    fn schema(self) -> Value {
        let session = json!({
            "type": "string",
            "description": "Another session: its id, a unique beginning of it, an agent's own id such as \
                            claude:ID, or latest. The current one if not given."
        });
        let number = |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
        match self {
            Self::Describe => json!({
                "type": "object",
                "properties": {
                    "description": {
                        "type": "string",
                        "description": "The title: one line of at most 200 characters."
                    }
                },
                "required": ["description"]
            }),
            Self::History => json!({
                "type": "object",
                "properties": {
                    "session": session,
                    "last": number("Only the last so many turns."),
                    "from": number("The number of the first turn."),
                    "to": number("The number of the last turn."),
                    "skip": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "How many characters of the first turn to pass over; needs from."
                    },
                    "full": {
                        "type": "boolean",
                        "description": "All of long texts and of what tools said, and thoughts."
                    }
                }
            }),
            Self::Search => json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "The words. \"A phrase\" occurs as it is, a word* may go on, a -word must not occur; role:user, role:assistant, role:tool, provider:NAME, after:7d and before:2025-12-07 narrow it down."},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST_HITS,
                        "description": format!("How many hits at most; {HITS} if not given.")
                    },
                    "all_projects": {
                        "type": "boolean",
                        "description": "In the sessions of every project on this machine."
                    }
                },
                "required": ["query"]
            }),
        }
    }
}

#[derive(Debug, Deserialize)]
struct DescribeRequest {
    description: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HistoryRequest {
    session: Option<String>,
    last: Option<u32>,
    from: Option<u32>,
    to: Option<u32>,
    skip: Option<usize>,
    full: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct WordsRequest {
    query: String,
    limit: Option<usize>,
    all_projects: Option<bool>,
}

/// A call with valid arguments.
#[derive(Debug)]
pub(crate) enum Asked {
    Describe(String),
    History {
        session: Option<SessionRef>,
        turns: Turns,
        detail: Detail,
    },
    Search {
        query: String,
        limit: usize,
        all_projects: bool,
    },
}

impl Asked {
    /// Parses the arguments of a call. The error is a text for the model.
    pub(crate) fn parse(tool: Tool, arguments: Value) -> Result<Self, String> {
        match tool {
            Tool::Describe => {
                let asked: DescribeRequest = read(arguments)?;
                Ok(Self::Describe(asked.description))
            }
            Tool::History => {
                let asked: HistoryRequest = read(arguments)?;
                let detail = match asked.full {
                    Some(true) => Detail::Full,
                    Some(false) | None => Detail::Short,
                };
                let turns = turns(&asked)?;
                let session = asked.session.map(|text| SessionRef::parse(&text));
                let session = session.transpose().map_err(|error| error.to_string())?;
                Ok(Self::History {
                    session,
                    turns,
                    detail,
                })
            }
            Tool::Search => {
                let asked: WordsRequest = read(arguments)?;
                let limit = asked.limit.unwrap_or(HITS);
                if !(1..=MOST_HITS).contains(&limit) {
                    return Err(format!("limit must be between 1 and {MOST_HITS}"));
                }
                Ok(Self::Search {
                    query: asked.query,
                    limit,
                    all_projects: asked.all_projects.unwrap_or_default(),
                })
            }
        }
    }

    /// Runs the call and returns the answer of the tool. The error is a text for the model too.
    pub(crate) async fn answer(self, desk: &Desk) -> Result<String, String> {
        match self {
            Self::Describe(description) => describe(desk, &description).await,
            Self::History {
                session,
                turns,
                detail,
            } => {
                let conversation = conversation(desk, session).await?;
                let history = desk.engine.history(&conversation, turns, detail).await;
                history.map_err(|error| in_words(&error))
            }
            Self::Search {
                query,
                limit,
                all_projects,
            } => {
                if all_projects && bound(desk).is_some() {
                    return Err(ELSEWHERE.to_owned());
                }
                let project = (!all_projects).then(|| (desk.standpoint)().project.key);
                let query = desk
                    .engine
                    .query(&query)
                    .map_err(|error| error.to_string())?;
                let request = SearchRequest {
                    query,
                    order: Order::Newest,
                    project,
                    limit,
                    skip: 0,
                    each: EACH,
                    freshness: Freshness::Fresh,
                };
                let report = desk.engine.search(&request).await;
                report
                    .map(|report| report.to_string())
                    .map_err(|error| in_words(&error))
            }
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments)
        .map_err(|error| format!("the arguments make no sense: {error}"))
}

fn turns(asked: &HistoryRequest) -> Result<Turns, String> {
    let refused = |why: &str| Err(why.to_owned());
    match (asked.last, asked.from, asked.to, asked.skip) {
        (Some(_), Some(_), _, _) | (Some(_), _, Some(_), _) => {
            refused("give either last, or from and to")
        }
        (Some(0), ..) => refused("last must be at least 1"),
        (_, Some(0), ..) | (_, _, Some(0), _) => refused("turns are numbered from 1"),
        (_, None, _, Some(_)) => refused("skip needs from: the turn to pass some of over"),
        (_, Some(from), Some(to), _) if from > to => refused("from is larger than to"),
        (Some(last), None, None, None) => Ok(Turns::Newest(last)),
        (None, None, None, None) => Ok(Turns::Newest(u32::MAX)),
        (None, from, to, skip) => Ok(Turns::Range {
            from: from.unwrap_or(1),
            to,
            skip: skip.unwrap_or_default(),
        }),
    }
}

async fn describe(desk: &Desk, description: &str) -> Result<String, String> {
    let id = bound(desk).ok_or(
        "this server was started without --session, so it does not know which session to describe",
    )?;
    match desk.engine.describe(id, description).await {
        Ok(Described::Taken(title)) => {
            Ok(format!("The session is now called {:?}.", title.as_str()))
        }
        Ok(Described::Kept(title)) => Ok(format!(
            "The session keeps the title that a person gave it: {:?}.",
            title.as_str()
        )),
        Err(error) => Err(in_words(&error)),
    }
}

fn bound(desk: &Desk) -> Option<&SessionId> {
    desk.session.as_ref()
}

async fn conversation(desk: &Desk, asked: Option<SessionRef>) -> Result<Conversation, String> {
    let own = || bound(desk).map(|id| SessionRef::Text(id.to_string()));
    let reference = asked.or_else(own).ok_or(
        "this server was started without --session: name one with session, for example latest",
    )?;
    let standpoint = (desk.standpoint)();
    let found = desk.engine.find_any(&reference, &standpoint).await;
    let found = found.map_err(|error| match &error {
        EngineError::Ambiguous { candidates, .. } => {
            let named = candidates.iter().take(NAMED).map(ToString::to_string);
            let named: Vec<String> = named.collect();
            let more = match candidates.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            format!("{error}: {}{more}", named.join(", "))
        }
        _ => in_words(&error),
    })?;
    if bound(desk).is_some() && found.project() != Some(standpoint.project.key.as_str()) {
        return Err(ELSEWHERE.to_owned());
    }
    Ok(found)
}

/// Error text for an agent that reads outside the project in which it works. The user did not permit that.
const ELSEWHERE: &str =
    "an agent at work in a session may look only into the sessions of its project";

/// Formats an error with its causes.
fn in_words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(arguments: Value) -> Result<Turns, String> {
        turns(&read(arguments).unwrap())
    }

    #[test]
    fn turns_are_asked_for_in_ways_that_agree() {
        let range = |from, to, skip| Ok(Turns::Range { from, to, skip });
        let cases = [
            (json!({}), Ok(Turns::Newest(u32::MAX))),
            (json!({"last": 3}), Ok(Turns::Newest(3))),
            (json!({"from": 2}), range(2, None, 0)),
            (json!({"to": 2}), range(1, Some(2), 0)),
            (json!({"from": 2, "to": 2, "skip": 9}), range(2, Some(2), 9)),
            (
                json!({"from": null, "full": true}),
                Ok(Turns::Newest(u32::MAX)),
            ),
            (json!({"last": 0}), Err("last must be at least 1")),
            (json!({"from": 0}), Err("turns are numbered from 1")),
            (
                json!({"from": 1, "to": 0}),
                Err("turns are numbered from 1"),
            ),
            (json!({"from": 3, "to": 2}), Err("from is larger than to")),
            (
                json!({"last": 1, "from": 2}),
                Err("give either last, or from and to"),
            ),
            (
                json!({"last": 1, "to": 2}),
                Err("give either last, or from and to"),
            ),
            (
                json!({"skip": 1}),
                Err("skip needs from: the turn to pass some of over"),
            ),
        ];
        for (arguments, expected) in cases {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(history(arguments.clone()), expected, "{arguments}");
        }
    }

    #[test]
    fn arguments_that_make_no_sense_are_told() {
        let cases = [
            (Tool::Describe, json!({}), "missing field `description`"),
            (
                Tool::Describe,
                json!({"description": 1}),
                "expected a string",
            ),
            (Tool::History, json!({"last": -1}), "expected u32"),
            (Tool::History, json!({"session": "../x"}), "'/'"),
            (Tool::Search, json!({}), "missing field `query`"),
            (
                Tool::Search,
                json!({"query": "x", "limit": 51}),
                "between 1 and 50",
            ),
        ];
        for (tool, arguments, expected) in cases {
            let error = Asked::parse(tool, arguments.clone()).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    /// Checks that every argument in a schema is parsed, and that a schema has required arguments exactly if a call
    /// without arguments fails.
    #[test]
    fn schemas_name_what_is_read() {
        for tool in Tool::ALL {
            let schema = tool.schema();
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{name}");
                let wrong = json!({ "description": "x", "query": "x", name: ["wrong"] });
                assert!(Asked::parse(tool, wrong).is_err(), "{name} is not read");
            }
            let empty = Asked::parse(tool, json!({}));
            assert_eq!(empty.is_err(), schema.get("required").is_some(), "{tool:?}");
        }
    }
}
