//! Parser of a configuration file: from TOML to settings, or to all its problems.

mod prices;
mod roles;
mod servers;

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::accept::{Base, Given, accept, agent_name, model_name, server_name, variable_name};
use super::key::{AgentKey, Key, Wait, Who};
use super::nearest::nearest;
use super::position;
use super::problem::{Place, Problem, Wrong};
use super::value::{Entry, Layer, Origin, Value, bare};

const TOP: [&str; 17] = [
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
const WAITS: [&str; 4] = ["start", "first", "silence", "turn"];
const COMPACTION: [&str; 2] = ["auto", "summariser"];
const SESSION: [&str; 2] = ["resume_id", "continue_last"];
const AGENT: [&str; 11] = [
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

type Item<'a, 'i> = (
    &'a Spanned<std::borrow::Cow<'i, str>>,
    &'a Spanned<DeValue<'i>>,
);

/// Parses the text of the file at `path`.
pub(crate) fn read(text: &str, path: &Path, home: Option<&Path>) -> Result<Layer, Vec<Problem>> {
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut reading = Reading {
        text,
        path,
        base: Base {
            directory,
            home: home.map(Path::to_owned),
        },
        layer: Layer::new(),
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    // Only the first syntax error is reported, because later ones often follow from it.
    let first = errors
        .iter()
        .min_by_key(|error| error.span().map(|span| span.start));
    match first {
        None => reading.top(table.get_ref()),
        Some(error) => {
            let span = error.span().unwrap_or_default();
            let wrong = Wrong::new(reading.around(error.message(), &span));
            reading.problem(&span, wrong);
        }
    }
    if reading.problems.is_empty() {
        return Ok(reading.layer);
    }
    reading.problems.sort_by_key(|problem| match problem.place {
        Place::At { line, column, .. } => (line, column),
        Place::File(_) | Place::Environment(_) => (0, 0),
    });
    Err(reading.problems)
}

/// State of the parser for one file.
struct Reading<'a> {
    text: &'a str,
    path: &'a Path,
    base: Base,
    layer: Layer,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn top(&mut self, table: &DeTable<'_>) {
        for item @ (name, value) in table {
            match name.get_ref().as_ref() {
                "prefer" => self.set(Key::Prefer, item),
                "fallback" => self.set(Key::Fallback, item),
                "permissions" => self.set(Key::Permissions, item),
                "budget" => self.set(Key::Budget, item),
                "compaction" => self.compaction("compaction", value),
                "error_limit" => self.set(Key::ErrorLimit, item),
                "backoff_seconds" => self.set(Key::Backoff, item),
                "context_limit" => self.set(Key::ContextLimit, item),
                "context_limits" => {
                    self.named(
                        "context_limits",
                        value,
                        model_name,
                        |reading, name, item| {
                            reading.set(Key::ModelLimit(name.to_owned()), item);
                        },
                    );
                }
                "timeouts" => self.waits("timeouts", value, Key::Timeout),
                "acp" => self.named("acp", value, agent_name, |reading, name, item| {
                    reading.agent(&Who::Acp(name.to_owned()), item);
                }),
                "mcp" => self.named("mcp", value, server_name, Reading::server),
                "prices" => self.named("prices", value, model_name, Reading::price),
                "roles" => self.named("roles", value, roles::name, Reading::role),
                other => match Who::known(other) {
                    Some(who) => self.agent(&who, item),
                    None => self.unknown(item, None, &TOP),
                },
            }
        }
    }

    /// Parses a table whose keys the user chooses.
    fn named(
        &mut self,
        section: &str,
        value: &Spanned<DeValue<'_>>,
        check: fn(&str) -> Result<(), Wrong>,
        mut each: impl FnMut(&mut Self, &str, Item<'_, '_>),
    ) {
        let Some(table) = self.table(section, value) else {
            return;
        };
        for item @ (name, _) in table {
            match check(name.get_ref()) {
                Ok(()) => each(self, name.get_ref(), item),
                Err(wrong) => self.problem(&name.span(), wrong),
            }
        }
    }

    fn waits(&mut self, section: &str, value: &Spanned<DeValue<'_>>, key: impl Fn(Wait) -> Key) {
        for item @ (name, _) in self.table(section, value).into_iter().flatten() {
            let wait = Wait::ALL
                .into_iter()
                .find(|wait| wait.name() == name.get_ref());
            match wait {
                Some(wait) => self.set(key(wait), item),
                None => self.unknown(item, Some(section), &WAITS),
            }
        }
    }

    fn compaction(&mut self, section: &str, value: &Spanned<DeValue<'_>>) {
        for item @ (name, _) in self.table(section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "auto" => self.set(Key::CompactionAuto, item),
                "summariser" => self.set(Key::Summariser, item),
                _ => self.unknown(item, Some(section), &COMPACTION),
            }
        }
    }

    fn agent(&mut self, who: &Who, (name, value): Item<'_, '_>) {
        let section = match who {
            Who::Acp(name) => format!("acp.{}", bare(name)),
            Who::Claude | Who::Codex | Who::Gemini => name.get_ref().to_string(),
        };
        let known = AGENT
            .iter()
            .filter(|name| **name != "acp_path" || who.has_adapter());
        let known: Vec<&str> = known.copied().collect();
        let key = |key: AgentKey| Key::Agent(who.clone(), key);
        for item @ (name, value) in self.table(&section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "path" => self.set(key(AgentKey::Path), item),
                "acp_path" if who.has_adapter() => self.set(key(AgentKey::AcpPath), item),
                "transports" => self.set(key(AgentKey::Transports), item),
                "model" => self.set(key(AgentKey::Model), item),
                "mode" => self.set(key(AgentKey::Mode), item),
                "args" => self.set(key(AgentKey::Args), item),
                "permissions" => self.set(key(AgentKey::Permissions), item),
                "context_limit" => self.set(key(AgentKey::ContextLimit), item),
                "env" => {
                    let section = format!("{section}.env");
                    self.named(&section, value, variable_name, |reading, name, item| {
                        reading.set(key(AgentKey::Env(name.to_owned())), item);
                    });
                }
                "timeouts" => {
                    let section = format!("{section}.timeouts");
                    self.waits(&section, value, |wait| key(AgentKey::Timeout(wait)));
                }
                "session" => self.session(who, &format!("{section}.session"), value),
                _ => self.unknown(item, Some(&section), &known),
            }
        }
    }

    fn session(&mut self, who: &Who, section: &str, value: &Spanned<DeValue<'_>>) {
        let key = |key: AgentKey| Key::Agent(who.clone(), key);
        for item @ (name, _) in self.table(section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "resume_id" => self.set(key(AgentKey::ResumeId), item),
                "continue_last" => self.set(key(AgentKey::ContinueLast), item),
                _ => self.unknown(item, Some(section), &SESSION),
            }
        }
        let value = |key: &Key| self.layer.get(key).map(|entry| &entry.value);
        let resumes = value(&key(AgentKey::ResumeId));
        let resumes = resumes.is_some_and(|value| *value != Value::Text(String::new()));
        let continues = value(&key(AgentKey::ContinueLast)) == Some(&Value::Switch(true));
        if resumes && continues {
            self.clash(
                &key(AgentKey::ContinueLast),
                "a session can't both be that of `resume_id` and the last one",
                "remove `continue_last` to always go on with the named one, or `resume_id` to go on with the last",
            );
        }
    }

    /// Adds a setting to the layer, or records the problem with its value.
    fn set(&mut self, key: Key, (name, value): Item<'_, '_>) {
        match accept(&key, given(value.get_ref()), &self.base) {
            Ok(value) => {
                let (line, column) = position(self.text, name.span().start);
                let origin = Origin::File {
                    path: self.path.to_owned(),
                    line,
                    column,
                };
                self.layer.insert(key, Entry { value, origin });
            }
            Err(wrong) => {
                let wrong = Wrong {
                    message: format!("{key}: {}", wrong.message),
                    hint: wrong.hint,
                };
                self.problem(&value.span(), wrong);
            }
        }
    }

    fn table<'t, 'i>(
        &mut self,
        section: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = name_of(value.get_ref());
            let wrong = Wrong::new(format!("{section} must be a table, not {found}"));
            self.problem(
                &value.span(),
                wrong.hint(format!("write it as [{section}]")),
            );
        }
        table
    }

    fn unknown(&mut self, (name, value): Item<'_, '_>, section: Option<&str>, known: &[&str]) {
        let typed = name.get_ref();
        let here = section.map_or(String::new(), |section| format!(" in [{section}]"));
        let wrong = Wrong::new(format!("there is no setting {}{here}", bare(typed)));
        let of_agents =
            section.is_none() && !value.get_ref().is_table() && AGENT.contains(&typed.as_ref());
        let hint = match nearest(typed, known) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if of_agents => {
                "it belongs to one agent: put it under [claude], [codex], [gemini] or [acp.NAME]"
                    .into()
            }
            None if section.is_none() && value.get_ref().is_table() => {
                format!(
                    "an agent that speaks ACP is configured as [acp.{}]; else there are: {}",
                    bare(typed),
                    known.join(", ")
                )
            }
            None => format!("there are: {}", known.join(", ")),
        };
        self.problem(&name.span(), wrong.hint(hint));
    }

    /// Records that a setting conflicts with another.
    fn clash(&mut self, key: &Key, message: &str, hint: &str) {
        let Some(Origin::File { path, line, column }) =
            self.layer.get(key).map(|entry| entry.origin.clone())
        else {
            return;
        };
        let wrong = Wrong::new(format!("{key}: {message}")).hint(hint);
        self.problems
            .push(wrong.at(Place::At { path, line, column }));
    }

    fn problem(&mut self, span: &Range<usize>, wrong: Wrong) {
        let (line, column) = position(self.text, span.start);
        self.problems.push(wrong.at(Place::At {
            path: self.path.to_owned(),
            line,
            column,
        }));
    }

    /// Adds the line of the error to the parser's message, cut before the first quote, because a quoted value may be a
    /// secret.
    fn around(&self, message: &str, span: &Range<usize>) -> String {
        let (line, _) = position(self.text, span.start);
        let line = self.text.lines().nth(line - 1).unwrap_or_default();
        let shown: String = line
            .split(['"', '\''])
            .next()
            .unwrap_or_default()
            .chars()
            .take(60)
            .collect();
        let message = message.lines().collect::<Vec<_>>().join(", ");
        match shown.trim() {
            "" => message,
            shown if shown.len() == line.trim().len() => format!("{message}, in `{shown}`"),
            shown => format!("{message}, in `{shown} …`"),
        }
    }
}

fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.to_string()),
        DeValue::Boolean(on) => Given::Switch(*on),
        DeValue::Integer(number) => {
            // Times are far below the size at which a float loses digits.
            #[expect(
                clippy::cast_precision_loss,
                reason = "a number of seconds, checked to be small"
            )]
            let number =
                i64::from_str_radix(number.as_str(), number.radix()).map(|number| number as f64);
            number.map_or(Given::Other("so large a number"), Given::Number)
        }
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or(Given::Other("such a number"), Given::Number),
        DeValue::Array(items) => {
            let texts = items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned));
            let texts: Option<Vec<String>> = texts.collect();
            texts.map_or(Given::Other("a list of other things"), Given::Texts)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => Given::Other(name_of(value)),
    }
}

fn name_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
