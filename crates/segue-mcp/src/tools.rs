//! The tools: their definitions for the protocol, and their calls of the engine.

use std::error::Error;

use rmcp::model::{self, MetaObject, ToolAnnotations};
use segue_api::mcp::{DescribeArguments, HistoryArguments, SearchArguments};
use segue_core::session::SessionRef;
use segue_engine::{
    Conversation, DescribeOutcome, Freshness, HistoryDetail, HistorySelection, HitOrder,
    ResolveError, SearchRequest,
};
use serde_json::{Value, json};

use crate::ToolContext;

/// Default and maximum number of hits that a search returns.
const DEFAULT_HITS: usize = 10;
const MAX_HITS: usize = 50;
/// Maximum number of turns per session in the result of a search.
const MAX_TURNS_PER_SESSION: usize = 3;

/// Maximum number of sessions that the error for an ambiguous reference names.
const MAX_LISTED_CANDIDATES: usize = 8;

/// Metadata key of a tool that Claude Code always loads. It hides other tools until the model searches for them.
const ALWAYS_LOAD_KEY: &str = "anthropic/alwaysLoad";

/// A tool that an agent can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum McpTool {
    Describe,
    History,
    Search,
}

impl McpTool {
    pub(crate) const ALL: [Self; 3] = [Self::Describe, Self::History, Self::Search];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
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
    pub(crate) fn definition(self) -> model::Tool {
        let schema = match self.input_schema() {
            Value::Object(schema) => schema,
            _ => model::JsonObject::new(),
        };
        let is_read_only = self != Self::Describe;
        let hints = ToolAnnotations::new()
            .read_only(is_read_only)
            .destructive(false)
            .idempotent(true)
            .open_world(false);
        let mut meta = MetaObject::new();
        meta.insert(ALWAYS_LOAD_KEY.to_owned(), Value::Bool(true));
        model::Tool::new(self.name(), self.description(), schema)
            .with_annotations(hints)
            .with_meta(meta)
    }

    fn description(self) -> &'static str {
        match self {
            Self::Describe => {
                "Set the title of the current session: three to eight words about its main topic, by which the user \
                 recognises it in a list. Does not replace a title that the user set."
            }
            Self::History => {
                "Read the transcript of the current session or of another session, turn by turn: the newest turns \
                 that fit, or a range of turns. The answer lists what it omits and how to request it."
            }
            Self::Search => {
                "Search the transcripts of this project's sessions, with any agent. A turn matches if it contains all \
                 words; case is ignored. Each match names its session and turn, for session_history."
            }
        }
    }

    // The schema is written by hand, because some model APIs reject a generated schema for optional and unsigned
    // numbers.
    fn input_schema(self) -> Value {
        let session = json!({
            "type": "string",
            "description": "Another session: its ID, a unique ID prefix, a native ID such as claude:ID, or \
                            latest. Default: the current session."
        });
        let number = |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
        match self {
            Self::Describe => json!({
                "type": "object",
                "properties": {
                    "description": {
                        "type": "string",
                        "description": "Title: one line of at most 200 characters."
                    }
                },
                "required": ["description"]
            }),
            Self::History => json!({
                "type": "object",
                "properties": {
                    "session": session,
                    "last": number("Maximum number of turns, counted from the last one."),
                    "from": number("Number of the first turn."),
                    "to": number("Number of the last turn."),
                    "skip": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "Number of characters to skip in the first turn; requires from."
                    },
                    "full": {
                        "type": "boolean",
                        "description": "Include thoughts, and show long texts and tool output in full."
                    }
                }
            }),
            Self::Search => json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words to search for. \"PHRASE\" matches consecutive words, WORD* matches a prefix, -WORD excludes turns with a word. Filters: role:user, role:assistant, role:tool, provider:NAME, after:7d, before:2025-12-07."},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_HITS,
                        "description": format!("Maximum number of matches. Default: {DEFAULT_HITS}.")
                    },
                    "all_projects": {
                        "type": "boolean",
                        "description": "Search the sessions of all projects on this machine."
                    }
                },
                "required": ["query"]
            }),
        }
    }
}

/// A call with valid arguments.
#[derive(Debug)]
pub(crate) enum ToolRequest {
    Describe(String),
    History {
        session: Option<SessionRef>,
        turns: HistorySelection,
        detail: HistoryDetail,
    },
    Search {
        query: String,
        limit: usize,
        all_projects: bool,
    },
}

impl ToolRequest {
    /// Parses the arguments of a call. The error is a text for the model.
    pub(crate) fn parse(tool: McpTool, arguments: Value) -> Result<Self, String> {
        match tool {
            McpTool::Describe => {
                let parsed: DescribeArguments = parse_arguments(arguments)?;
                Ok(Self::Describe(parsed.description))
            }
            McpTool::History => {
                let parsed: HistoryArguments = parse_arguments(arguments)?;
                let detail = match parsed.full {
                    Some(true) => HistoryDetail::Full,
                    Some(false) | None => HistoryDetail::Short,
                };
                let turns = select_turns(&parsed)?;
                let session = parsed.session.map(|text| SessionRef::parse(&text));
                let session = session.transpose().map_err(|error| error.to_string())?;
                Ok(Self::History {
                    session,
                    turns,
                    detail,
                })
            }
            McpTool::Search => {
                let parsed: SearchArguments = parse_arguments(arguments)?;
                let limit = parsed.limit.unwrap_or(DEFAULT_HITS);
                if !(1..=MAX_HITS).contains(&limit) {
                    return Err(format!("`limit` must be between 1 and {MAX_HITS}"));
                }
                Ok(Self::Search {
                    query: parsed.query,
                    limit,
                    all_projects: parsed.all_projects.unwrap_or_default(),
                })
            }
        }
    }

    /// Runs the call and returns the answer of the tool. The error is a text for the model too.
    pub(crate) async fn run(self, context: &ToolContext) -> Result<String, String> {
        match self {
            Self::Describe(description) => describe_session(context, &description).await,
            Self::History {
                session,
                turns,
                detail,
            } => {
                let conversation = find_conversation(context, session).await?;
                let library = &context.library;
                let rendering = library.render_history(&conversation, turns, detail);
                rendering.await.map_err(|error| format_error_chain(&error))
            }
            Self::Search {
                query,
                limit,
                all_projects,
            } => {
                if all_projects && context.session.is_some() {
                    return Err(OUTSIDE_PROJECT_ERROR.to_owned());
                }
                let project = (!all_projects).then(|| (context.ref_context)().project.key);
                let query = context.library.parse_query(&query);
                let request = SearchRequest {
                    query: query.map_err(|error| error.to_string())?,
                    order: HitOrder::Newest,
                    project,
                    limit,
                    skip: 0,
                    turns_per_session: MAX_TURNS_PER_SESSION,
                    freshness: Freshness::Fresh,
                };
                match context.library.search(&request).await {
                    Ok(report) => Ok(report.to_string()),
                    Err(error) => Err(format_error_chain(&error)),
                }
            }
        }
    }
}

fn parse_arguments<T: serde::de::DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("invalid arguments: {error}"))
}

fn select_turns(arguments: &HistoryArguments) -> Result<HistorySelection, String> {
    let reject = |reason: &str| Err(reason.to_owned());
    match (arguments.last, arguments.from, arguments.to, arguments.skip) {
        (Some(_), Some(_), _, _) | (Some(_), _, Some(_), _) => {
            reject("`last` cannot be combined with `from` or `to`")
        }
        (Some(0), ..) => reject("`last` must be at least 1"),
        (_, Some(0), ..) | (_, _, Some(0), _) => reject("turns are numbered from 1"),
        (_, None, _, Some(_)) => reject("`skip` requires `from`"),
        (_, Some(from), Some(to), _) if from > to => reject("`from` is greater than `to`"),
        (Some(last), None, None, None) => Ok(HistorySelection::Newest(last)),
        (None, None, None, None) => Ok(HistorySelection::Newest(u32::MAX)),
        (None, from, to, skip) => Ok(HistorySelection::Range {
            from: from.unwrap_or(1),
            to,
            skip: skip.unwrap_or_default(),
        }),
    }
}

async fn describe_session(context: &ToolContext, description: &str) -> Result<String, String> {
    let session = context.session.as_ref();
    let id = session.ok_or("cannot set a title: this server was started without --session")?;
    match context.sessions.describe_session(id, description).await {
        Ok(DescribeOutcome::Accepted(title)) => {
            Ok(format!("The session title is now {:?}.", title.as_str()))
        }
        Ok(DescribeOutcome::Retained(title)) => Ok(format!(
            "The title was not changed, because the user set it: {:?}.",
            title.as_str()
        )),
        Err(error) => Err(format_error_chain(&error)),
    }
}

async fn find_conversation(
    context: &ToolContext,
    requested: Option<SessionRef>,
) -> Result<Conversation, String> {
    let bound_session = context.session.as_ref();
    let bound_reference = || bound_session.map(|id| SessionRef::Text(id.to_string()));
    let reference = requested.or_else(bound_reference).ok_or(
        "no session given: this server was started without --session; set `session`, for example to `latest`",
    )?;
    let ref_context = (context.ref_context)();
    let finding = context.resolver.find_conversation(&reference, &ref_context);
    let conversation = finding.await.map_err(|error| match &error {
        ResolveError::Ambiguous { candidates, .. } => {
            let listed = candidates.iter().take(MAX_LISTED_CANDIDATES);
            let names: Vec<String> = listed.map(ToString::to_string).collect();
            let more = match candidates.len().saturating_sub(MAX_LISTED_CANDIDATES) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            format!("{error}: {}{more}", names.join(", "))
        }
        _ => format_error_chain(&error),
    })?;
    if bound_session.is_some() && conversation.project() != Some(ref_context.project.key.as_str()) {
        return Err(OUTSIDE_PROJECT_ERROR.to_owned());
    }
    Ok(conversation)
}

/// Error text for an agent that reads outside the project in which it works. The user did not permit that.
const OUTSIDE_PROJECT_ERROR: &str =
    "an agent in a session can read only the sessions of its project";

/// Formats an error with its causes.
fn format_error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let message = source.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn parse_history_turns(arguments: Value) -> Result<HistorySelection, String> {
        select_turns(&parse_arguments(arguments).unwrap())
    }

    #[test]
    fn turn_selections_are_parsed_or_rejected_with_the_reason() {
        let range = |from, to, skip| Ok(HistorySelection::Range { from, to, skip });
        let cases = [
            (json!({}), Ok(HistorySelection::Newest(u32::MAX))),
            (json!({"last": 3}), Ok(HistorySelection::Newest(3))),
            (json!({"from": 2}), range(2, None, 0)),
            (json!({"to": 2}), range(1, Some(2), 0)),
            (json!({"from": 2, "to": 2, "skip": 9}), range(2, Some(2), 9)),
            (
                json!({"from": null, "full": true}),
                Ok(HistorySelection::Newest(u32::MAX)),
            ),
            (json!({"last": 0}), Err("`last` must be at least 1")),
            (json!({"from": 0}), Err("turns are numbered from 1")),
            (
                json!({"from": 1, "to": 0}),
                Err("turns are numbered from 1"),
            ),
            (
                json!({"from": 3, "to": 2}),
                Err("`from` is greater than `to`"),
            ),
            (
                json!({"last": 1, "from": 2}),
                Err("`last` cannot be combined with `from` or `to`"),
            ),
            (
                json!({"last": 1, "to": 2}),
                Err("`last` cannot be combined with `from` or `to`"),
            ),
            (json!({"skip": 1}), Err("`skip` requires `from`")),
        ];
        for (arguments, expected) in cases {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(
                parse_history_turns(arguments.clone()),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn invalid_arguments_are_rejected_with_the_reason() {
        let cases = [
            (McpTool::Describe, json!({}), "missing field `description`"),
            (
                McpTool::Describe,
                json!({"description": 1}),
                "expected a string",
            ),
            (McpTool::History, json!({"last": -1}), "expected u32"),
            (McpTool::History, json!({"session": "../x"}), "'/'"),
            (McpTool::Search, json!({}), "missing field `query`"),
            (
                McpTool::Search,
                json!({"query": "x", "limit": 51}),
                "between 1 and 50",
            ),
        ];
        for (tool, arguments, expected) in cases {
            let error = ToolRequest::parse(tool, arguments.clone()).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    /// Checks that a schema written by hand has exactly the arguments of its type.
    #[test]
    fn input_schemas_have_the_fields_of_the_argument_types() {
        let describe = DescribeArguments {
            description: String::new(),
        };
        let search = SearchArguments {
            query: String::new(),
            limit: None,
            all_projects: None,
        };
        let cases = [
            (McpTool::Describe, json!(describe)),
            (McpTool::History, json!(HistoryArguments::default())),
            (McpTool::Search, json!(search)),
        ];
        for (tool, arguments) in cases {
            let schema = tool.input_schema();
            let names = |value: &Value| -> BTreeSet<String> {
                value.as_object().unwrap().keys().cloned().collect()
            };
            assert_eq!(names(&schema["properties"]), names(&arguments), "{tool:?}");
        }
    }

    /// Checks that every argument in a schema is parsed, and that a schema has required arguments exactly if a call
    /// without arguments fails.
    #[test]
    fn every_property_of_an_input_schema_is_parsed() {
        for tool in McpTool::ALL {
            let schema = tool.input_schema();
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{name}");
                let invalid = json!({ "description": "x", "query": "x", name: ["wrong"] });
                assert!(
                    ToolRequest::parse(tool, invalid).is_err(),
                    "{name} is not parsed"
                );
            }
            let result = ToolRequest::parse(tool, json!({}));
            assert_eq!(
                result.is_err(),
                schema.get("required").is_some(),
                "{tool:?}"
            );
        }
    }
}
