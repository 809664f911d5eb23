//! Checks of settings that belong together, in one table of a file or after the merge of all sources.

use crate::definition::ValueKind;
use crate::key::ConfigKey;
use crate::layer::{ConfigEntry, ConfigLayer, ConfigValue, format_toml_path};
use crate::problem::{ConfigProblem, ValueError};
use crate::resolve::resolve_roles;

/// Settings of one table of a file.
pub(crate) struct TableContent<'a> {
    pub(crate) layer: &'a ConfigLayer,
    /// Path of the table.
    pub(crate) path: &'a [&'a str],
}

/// Problem of a table, at one of its settings or at its name.
pub(crate) struct TableError {
    pub(crate) key: Option<ConfigKey>,
    pub(crate) error: ValueError,
}

impl TableContent<'_> {
    /// Returns the settings of the table, each with the names below the table.
    fn settings(&self) -> impl Iterator<Item = (Vec<&str>, &ConfigKey, &ConfigValue)> {
        self.layer.iter().filter_map(|(key, entry)| {
            let names = key.toml_path().strip_prefix(self.path)?.to_vec();
            Some((names, key, &entry.value))
        })
    }

    fn find(&self, path: &[&str]) -> Option<(&ConfigKey, &ConfigValue)> {
        let mut settings = self.settings();
        let (_, key, value) = settings.find(|(names, ..)| names == path)?;
        Some((key, value))
    }

    fn has(&self, name: &str) -> bool {
        self.find(&[name]).is_some()
    }

    fn table_error(&self, message: &str, hint: &str) -> Result<(), TableError> {
        let message = format!("{} {message}", format_toml_path(self.path));
        let error = ValueError::new(message).with_hint(hint);
        Err(TableError { key: None, error })
    }
}

fn setting_error(key: &ConfigKey, message: &str, hint: &str) -> Result<(), TableError> {
    let error = ValueError::new(format!("{key}: {message}")).with_hint(hint);
    let key = Some(key.clone());
    Err(TableError { key, error })
}

/// Accepts every combination of settings.
#[expect(clippy::unnecessary_wraps, reason = "one of several checks")]
pub(crate) fn accept_content(_: &TableContent<'_>) -> Result<(), TableError> {
    Ok(())
}

/// Checks that an agent resumes either the named session or the newest one.
pub(crate) fn check_session(agent: &TableContent<'_>) -> Result<(), TableError> {
    let named = agent.find(&["session", "resume_id"]);
    let newest = agent.find(&["session", "continue_last"]);
    match (named, newest) {
        (Some((_, ConfigValue::Text(id))), Some((key, ConfigValue::Bool(true))))
            if !id.is_empty() =>
        {
            setting_error(
                key,
                "cannot be combined with `resume_id`",
                "remove `continue_last` to resume the named session, or `resume_id` to resume the newest one",
            )
        }
        _ => Ok(()),
    }
}

/// Checks that a price is complete.
pub(crate) fn check_price(price: &TableContent<'_>) -> Result<(), TableError> {
    if price.has("input") && price.has("output") {
        return Ok(());
    }
    price.table_error(
        "needs both `input` and `output`",
        "set them in dollars per million tokens; `cached` defaults to `input`",
    )
}

/// Checks that an MCP server has either a command or a URL, with the settings that belong to it.
pub(crate) fn check_server(server: &TableContent<'_>) -> Result<(), TableError> {
    let (message, excluded): (_, &[&str]) = match (server.has("command"), server.has("url")) {
        (true, false) => ("a server with a `command` takes no `headers`", &["headers"]),
        (false, true) => (
            "a server with a `url` takes no `args` or `env`",
            &["args", "env"],
        ),
        (has_command, _) => {
            let message = if has_command {
                "has both a `command` and a `url`"
            } else {
                "has neither a `command` nor a `url`"
            };
            let hint =
                "set `command` for a program that the agent starts, or `url` for a running server";
            return server.table_error(message, hint);
        }
    };
    let is_excluded = |names: &[&str]| names.first().is_some_and(|name| excluded.contains(name));
    let mut settings = server.settings();
    match settings.find(|(names, ..)| is_excluded(names)) {
        Some((_, key, _)) => setting_error(key, message, "remove this setting"),
        None => Ok(()),
    }
}

/// Returns the problems of merged settings that no source completes.
pub(crate) fn find_incomplete_settings(settings: &ConfigLayer) -> Vec<ConfigProblem> {
    let roles = resolve_roles(settings);
    let has_path = |agent: &str| {
        let mut keys = settings.keys();
        keys.any(|key| key.toml_path() == ["acp", agent, "path"])
    };
    let mut problems: Vec<ConfigProblem> = Vec::new();
    let mut report = |entry: &ConfigEntry, error: ValueError| {
        // Report a table once, at its first setting.
        if problems
            .last()
            .is_none_or(|last| last.message != error.message)
        {
            problems.extend(
                entry
                    .origin
                    .location()
                    .map(|location| error.into_problem(location)),
            );
        }
    };
    for (key, entry) in settings {
        match key.toml_path()[..] {
            ["acp", name, ..] if !has_path(name) => {
                report(
                    entry,
                    ValueError::new(format!("acp.{name} needs a `path` to its program")),
                );
            }
            ["roles", name, ..] if roles.iter().all(|role| role.name.as_str() != name) => {
                let error =
                    ValueError::new(format!("roles.{name} needs a `role` that describes it"));
                let hint =
                    "describe it in a sentence or two, such as role = \"You review changes.\"";
                report(entry, error.with_hint(hint));
            }
            _ => {}
        }
        let agents = match (key.setting_place().setting.kind, &entry.value) {
            (ValueKind::Agents, ConfigValue::TextList(names)) => names.as_slice(),
            (ValueKind::Agent, ConfigValue::Text(name)) => std::slice::from_ref(name),
            _ => &[],
        };
        for name in agents.iter().filter_map(|name| name.strip_prefix("acp:")) {
            if !has_path(name) {
                let error = ValueError::new(format!("{key}: unknown agent `acp:{name}`"));
                report(
                    entry,
                    error.with_hint(format!("configure it as [acp.{name}], with a `path`")),
                );
            }
        }
    }
    problems
}
