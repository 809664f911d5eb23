//! Parser of a configuration file: from TOML to settings, or to all its problems.

mod prices;
mod roles;
mod servers;

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{AgentKey, ConfigKey, ConfiguredAgent, TimeoutPhase};
use super::line_and_column;
use super::problem::{ConfigProblem, ProblemLocation, ValueError};
use super::setting::{ConfigEntry, ConfigLayer, ConfigOrigin, ConfigValue, format_toml_key};
use super::suggest::suggest_name;
use super::validate::{
    PathBase, UncheckedValue, check_agent_name, check_model_prefix, check_server_name,
    check_variable_name, validate_value,
};

const TOP_LEVEL_KEYS: [&str; 17] = [
    "prefer",
    "fallback",
    "permissions",
    "budget",
    "compaction",
    "error_limit",
    "backoff_seconds",
    "context_limit",
    "context_limits",
    "timeouts",
    "claude",
    "codex",
    "gemini",
    "acp",
    "mcp",
    "prices",
    "roles",
];
const TIMEOUT_KEYS: [&str; 4] = ["start", "first", "silence", "turn"];
const COMPACTION_KEYS: [&str; 2] = ["auto", "summariser"];
const SESSION_KEYS: [&str; 2] = ["resume_id", "continue_last"];
const AGENT_KEYS: [&str; 11] = [
    "path",
    "transports",
    "model",
    "mode",
    "args",
    "env",
    "permissions",
    "context_limit",
    "timeouts",
    "session",
    "acp_path",
];

type TableItem<'a, 'i> = (
    &'a Spanned<std::borrow::Cow<'i, str>>,
    &'a Spanned<DeValue<'i>>,
);

/// Parses the text of the file at `path`.
pub fn parse_file(
    text: &str,
    path: &Path,
    home: Option<&Path>,
) -> Result<ConfigLayer, Vec<ConfigProblem>> {
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut parser = ConfigParser {
        text,
        path,
        base: PathBase {
            directory,
            home: home.map(Path::to_owned),
        },
        layer: ConfigLayer::new(),
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    // Only the first syntax error is reported, because later ones often follow from it.
    let first_error = errors
        .iter()
        .min_by_key(|error| error.span().map(|span| span.start));
    match first_error {
        None => parser.parse_top_level(table.get_ref()),
        Some(error) => {
            let span = error.span().unwrap_or_default();
            let value_error = ValueError::new(parser.message_with_excerpt(error.message(), &span));
            parser.report_problem(&span, value_error);
        }
    }
    if parser.problems.is_empty() {
        return Ok(parser.layer);
    }
    parser
        .problems
        .sort_by_key(|problem| match problem.location {
            ProblemLocation::Position { line, column, .. } => (line, column),
            ProblemLocation::File(_) | ProblemLocation::Environment(_) => (0, 0),
        });
    Err(parser.problems)
}

/// State of the parser for one file.
struct ConfigParser<'a> {
    text: &'a str,
    path: &'a Path,
    base: PathBase,
    layer: ConfigLayer,
    problems: Vec<ConfigProblem>,
}

impl ConfigParser<'_> {
    fn parse_top_level(&mut self, table: &DeTable<'_>) {
        for item @ (name, value) in table {
            match name.get_ref().as_ref() {
                "prefer" => self.add_setting(ConfigKey::Prefer, item),
                "fallback" => self.add_setting(ConfigKey::Fallback, item),
                "permissions" => self.add_setting(ConfigKey::Permissions, item),
                "budget" => self.add_setting(ConfigKey::Budget, item),
                "compaction" => self.parse_compaction("compaction", value),
                "error_limit" => self.add_setting(ConfigKey::ErrorLimit, item),
                "backoff_seconds" => self.add_setting(ConfigKey::Backoff, item),
                "context_limit" => self.add_setting(ConfigKey::ContextLimit, item),
                "context_limits" => {
                    self.parse_named_table(
                        "context_limits",
                        value,
                        check_model_prefix,
                        |parser, name, item| {
                            parser.add_setting(ConfigKey::ModelLimit(name.to_owned()), item);
                        },
                    );
                }
                "timeouts" => self.parse_timeouts("timeouts", value, ConfigKey::Timeout),
                "acp" => {
                    self.parse_named_table("acp", value, check_agent_name, |parser, name, item| {
                        parser.parse_agent(&ConfiguredAgent::Acp(name.to_owned()), item);
                    });
                }
                "mcp" => self.parse_named_table(
                    "mcp",
                    value,
                    check_server_name,
                    ConfigParser::parse_server,
                ),
                "prices" => self.parse_named_table(
                    "prices",
                    value,
                    check_model_prefix,
                    ConfigParser::parse_price,
                ),
                "roles" => self.parse_named_table(
                    "roles",
                    value,
                    roles::check_role_name,
                    ConfigParser::parse_role,
                ),
                key => match ConfiguredAgent::from_name(key) {
                    Some(agent) => self.parse_agent(&agent, item),
                    None => self.report_unknown_key(item, None, &TOP_LEVEL_KEYS),
                },
            }
        }
    }

    /// Parses a table whose keys the user chooses.
    fn parse_named_table(
        &mut self,
        section: &str,
        value: &Spanned<DeValue<'_>>,
        check_name: fn(&str) -> Result<(), ValueError>,
        mut parse_item: impl FnMut(&mut Self, &str, TableItem<'_, '_>),
    ) {
        let Some(table) = self.expect_table(section, value) else {
            return;
        };
        for item @ (name, _) in table {
            match check_name(name.get_ref()) {
                Ok(()) => parse_item(self, name.get_ref(), item),
                Err(error) => self.report_problem(&name.span(), error),
            }
        }
    }

    fn parse_timeouts(
        &mut self,
        section: &str,
        value: &Spanned<DeValue<'_>>,
        key: impl Fn(TimeoutPhase) -> ConfigKey,
    ) {
        for item @ (name, _) in self.expect_table(section, value).into_iter().flatten() {
            let phase = TimeoutPhase::ALL
                .into_iter()
                .find(|phase| phase.name() == name.get_ref());
            match phase {
                Some(phase) => self.add_setting(key(phase), item),
                None => self.report_unknown_key(item, Some(section), &TIMEOUT_KEYS),
            }
        }
    }

    fn parse_compaction(&mut self, section: &str, value: &Spanned<DeValue<'_>>) {
        for item @ (name, _) in self.expect_table(section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "auto" => self.add_setting(ConfigKey::CompactionAuto, item),
                "summariser" => self.add_setting(ConfigKey::Summariser, item),
                _ => self.report_unknown_key(item, Some(section), &COMPACTION_KEYS),
            }
        }
    }

    fn parse_agent(&mut self, agent: &ConfiguredAgent, (name, value): TableItem<'_, '_>) {
        let section = match agent {
            ConfiguredAgent::Acp(name) => format!("acp.{}", format_toml_key(name)),
            ConfiguredAgent::Claude | ConfiguredAgent::Codex | ConfiguredAgent::Gemini => {
                name.get_ref().to_string()
            }
        };
        let allowed = AGENT_KEYS
            .iter()
            .filter(|name| **name != "acp_path" || agent.has_acp_adapter());
        let allowed: Vec<&str> = allowed.copied().collect();
        let key = |key: AgentKey| ConfigKey::Agent(agent.clone(), key);
        for item @ (name, value) in self.expect_table(&section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "path" => self.add_setting(key(AgentKey::Path), item),
                "acp_path" if agent.has_acp_adapter() => {
                    self.add_setting(key(AgentKey::AcpPath), item);
                }
                "transports" => self.add_setting(key(AgentKey::Transports), item),
                "model" => self.add_setting(key(AgentKey::Model), item),
                "mode" => self.add_setting(key(AgentKey::Mode), item),
                "args" => self.add_setting(key(AgentKey::Args), item),
                "permissions" => self.add_setting(key(AgentKey::Permissions), item),
                "context_limit" => self.add_setting(key(AgentKey::ContextLimit), item),
                "env" => {
                    let section = format!("{section}.env");
                    self.parse_named_table(
                        &section,
                        value,
                        check_variable_name,
                        |parser, name, item| {
                            parser.add_setting(key(AgentKey::Env(name.to_owned())), item);
                        },
                    );
                }
                "timeouts" => {
                    let section = format!("{section}.timeouts");
                    self.parse_timeouts(&section, value, |phase| key(AgentKey::Timeout(phase)));
                }
                "session" => self.parse_session(agent, &format!("{section}.session"), value),
                _ => self.report_unknown_key(item, Some(&section), &allowed),
            }
        }
    }

    fn parse_session(
        &mut self,
        agent: &ConfiguredAgent,
        section: &str,
        value: &Spanned<DeValue<'_>>,
    ) {
        let key = |key: AgentKey| ConfigKey::Agent(agent.clone(), key);
        for item @ (name, _) in self.expect_table(section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "resume_id" => self.add_setting(key(AgentKey::ResumeId), item),
                "continue_last" => self.add_setting(key(AgentKey::ContinueLast), item),
                _ => self.report_unknown_key(item, Some(section), &SESSION_KEYS),
            }
        }
        let value = |key: &ConfigKey| self.layer.get(key).map(|entry| &entry.value);
        let resume_id = value(&key(AgentKey::ResumeId));
        let has_resume_id =
            resume_id.is_some_and(|value| *value != ConfigValue::Text(String::new()));
        let continues_last = value(&key(AgentKey::ContinueLast)) == Some(&ConfigValue::Bool(true));
        if has_resume_id && continues_last {
            self.report_conflict(
                &key(AgentKey::ContinueLast),
                "cannot be combined with `resume_id`",
                "remove `continue_last` to resume the named session, or `resume_id` to resume the newest one",
            );
        }
    }

    /// Adds a setting to the layer, or records the problem with its value.
    fn add_setting(&mut self, key: ConfigKey, (name, value): TableItem<'_, '_>) {
        match validate_value(&key, to_unchecked_value(value.get_ref()), &self.base) {
            Ok(value) => {
                let (line, column) = line_and_column(self.text, name.span().start);
                let origin = ConfigOrigin::File {
                    path: self.path.to_owned(),
                    line,
                    column,
                };
                self.layer.insert(key, ConfigEntry { value, origin });
            }
            Err(error) => {
                let error = ValueError {
                    message: format!("{key}: {}", error.message),
                    hint: error.hint,
                };
                self.report_problem(&value.span(), error);
            }
        }
    }

    fn expect_table<'t, 'i>(
        &mut self,
        section: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let actual = type_name(value.get_ref());
            let error = ValueError::new(format!("{section} must be a table, not {actual}"));
            self.report_problem(
                &value.span(),
                error.with_hint(format!("write it as [{section}]")),
            );
        }
        table
    }

    fn report_unknown_key(
        &mut self,
        (name, value): TableItem<'_, '_>,
        section: Option<&str>,
        allowed: &[&str],
    ) {
        let typed = name.get_ref();
        let section_suffix = section.map_or(String::new(), |section| format!(" in [{section}]"));
        let error = ValueError::new(format!(
            "unknown setting `{}`{section_suffix}",
            format_toml_key(typed)
        ));
        let is_agent_key = section.is_none()
            && !value.get_ref().is_table()
            && AGENT_KEYS.contains(&typed.as_ref());
        let hint = match suggest_name(typed, allowed) {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None if is_agent_key => {
                "set it for one agent, under [claude], [codex], [gemini] or [acp.NAME]".into()
            }
            None if section.is_none() && value.get_ref().is_table() => {
                format!(
                    "configure an ACP agent as [acp.{}]; available settings: {}",
                    format_toml_key(typed),
                    allowed.join(", ")
                )
            }
            None => format!("available settings: {}", allowed.join(", ")),
        };
        self.report_problem(&name.span(), error.with_hint(hint));
    }

    /// Records that a setting conflicts with another.
    fn report_conflict(&mut self, key: &ConfigKey, message: &str, hint: &str) {
        let Some(ConfigOrigin::File { path, line, column }) =
            self.layer.get(key).map(|entry| entry.origin.clone())
        else {
            return;
        };
        let error = ValueError::new(format!("{key}: {message}")).with_hint(hint);
        self.problems
            .push(error.into_problem(ProblemLocation::Position { path, line, column }));
    }

    fn report_problem(&mut self, span: &Range<usize>, error: ValueError) {
        let (line, column) = line_and_column(self.text, span.start);
        self.problems
            .push(error.into_problem(ProblemLocation::Position {
                path: self.path.to_owned(),
                line,
                column,
            }));
    }

    /// Adds the line of the error to the parser's message, cut before the first quote, because a quoted value may be a
    /// secret.
    fn message_with_excerpt(&self, message: &str, span: &Range<usize>) -> String {
        let (line, _) = line_and_column(self.text, span.start);
        let line = self.text.lines().nth(line - 1).unwrap_or_default();
        let excerpt: String = line
            .split(['"', '\''])
            .next()
            .unwrap_or_default()
            .chars()
            .take(60)
            .collect();
        let message = message.lines().collect::<Vec<_>>().join(", ");
        match excerpt.trim() {
            "" => message,
            excerpt if excerpt.len() == line.trim().len() => format!("{message}, in `{excerpt}`"),
            excerpt => format!("{message}, in `{excerpt} …`"),
        }
    }
}

fn to_unchecked_value(value: &DeValue<'_>) -> UncheckedValue {
    match value {
        DeValue::String(text) => UncheckedValue::Text(text.to_string()),
        DeValue::Boolean(on) => UncheckedValue::Bool(*on),
        DeValue::Integer(number) => {
            // Times are far below the size at which a float loses digits.
            #[expect(
                clippy::cast_precision_loss,
                reason = "a number of seconds, checked to be small"
            )]
            let number =
                i64::from_str_radix(number.as_str(), number.radix()).map(|number| number as f64);
            number.map_or(
                UncheckedValue::Unsupported("an integer out of range"),
                UncheckedValue::Number,
            )
        }
        DeValue::Float(number) => number.as_str().parse().map_or(
            UncheckedValue::Unsupported("an invalid number"),
            UncheckedValue::Number,
        ),
        DeValue::Array(items) => {
            let texts = items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            texts.map_or(
                UncheckedValue::Unsupported("an array of other values"),
                UncheckedValue::TextList,
            )
        }
        DeValue::Datetime(_) | DeValue::Table(_) => UncheckedValue::Unsupported(type_name(value)),
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
