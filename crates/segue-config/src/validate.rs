//! Validation of values, independent of their source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::session::SessionRef;
use segue_core::spend::Cost;

use super::key::{AgentKey, ConfigKey, ConfiguredAgent, McpKey, NO_AGENT, RoleKey, TimeoutPhase};
use super::problem::ValueError;
use super::setting::ConfigValue;
use super::suggest::suggest_name;

/// A value before validation.
#[derive(Debug, Clone, PartialEq)]
pub enum UncheckedValue {
    Text(String),
    TextList(Vec<String>),
    Bool(bool),
    Number(f64),
    /// A value that no setting accepts, with the name of its type.
    Unsupported(&'static str),
}

/// Directories that relative paths refer to.
#[derive(Debug, Clone)]
pub struct PathBase {
    pub directory: PathBuf,
    /// Directory that replaces `~`.
    pub home: Option<PathBuf>,
}

/// Maximum timeout in seconds: one year.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;

/// Validates a value and converts it to the type of the setting.
pub fn validate_value(
    key: &ConfigKey,
    value: UncheckedValue,
    base: &PathBase,
) -> Result<ConfigValue, ValueError> {
    match key {
        ConfigKey::Prefer | ConfigKey::Fallback => validate_providers(expect_text_list(value)?),
        ConfigKey::Summariser => validate_summariser(expect_text(value)?),
        ConfigKey::ErrorLimit => validate_count(&value, "a number of failures", 0.0, 1000.0),
        ConfigKey::ContextLimit
        | ConfigKey::ModelLimit(_)
        | ConfigKey::Agent(_, AgentKey::ContextLimit) => {
            validate_count(&value, "a number of tokens", 0.0, 1e12)
        }
        ConfigKey::Backoff => validate_seconds(TimeoutPhase::Silence, &value),
        ConfigKey::Permissions | ConfigKey::Agent(_, AgentKey::Permissions) => {
            validate_policy(&expect_text(value)?)
        }
        // A smaller budget has room only for the frame of a brief, and no model accepts a larger one.
        ConfigKey::Budget => validate_count(&value, "a number of tokens", 2_000.0, 1e6),
        ConfigKey::Timeout(phase) | ConfigKey::Agent(_, AgentKey::Timeout(phase)) => {
            validate_seconds(*phase, &value)
        }
        ConfigKey::Agent(_, AgentKey::Path | AgentKey::AcpPath)
        | ConfigKey::Mcp(_, McpKey::Command) => validate_program(&expect_text(value)?, base),
        ConfigKey::Agent(agent, AgentKey::Transports) => {
            validate_transports(agent, expect_text_list(value)?)
        }
        ConfigKey::Agent(_, AgentKey::Model | AgentKey::Mode) => {
            validate_argument(expect_text(value)?)
        }
        ConfigKey::Agent(_, AgentKey::ResumeId) => validate_session_ref(expect_text(value)?),
        ConfigKey::Agent(_, AgentKey::ContinueLast) | ConfigKey::CompactionAuto => {
            validate_bool(&value)
        }
        ConfigKey::Agent(_, AgentKey::Args) | ConfigKey::Mcp(_, McpKey::Args) => {
            expect_text_list(value).map(ConfigValue::TextList)
        }
        ConfigKey::Agent(_, AgentKey::Env(_)) | ConfigKey::Mcp(_, McpKey::Env(_)) => {
            expect_text(value).map(ConfigValue::Text)
        }
        ConfigKey::Mcp(_, McpKey::Header(_)) => validate_header(expect_text(value)?),
        ConfigKey::Mcp(_, McpKey::Url) => validate_url(expect_text(value)?),
        ConfigKey::Price(..) => validate_price(&value),
        ConfigKey::Role(_, key) => validate_role_setting(*key, value),
    }
}

/// Validates a setting of a role.
fn validate_role_setting(key: RoleKey, value: UncheckedValue) -> Result<ConfigValue, ValueError> {
    match key {
        RoleKey::Role => match expect_text(value)? {
            text if text.trim().is_empty() => Err(ValueError::new(
                "must not be empty; omit it to keep the description",
            )),
            text => Ok(ConfigValue::Text(text)),
        },
        RoleKey::ToolInstructions => expect_text(value).map(ConfigValue::Text),
        RoleKey::Instructions => expect_text_list(value).map(ConfigValue::TextList),
        RoleKey::AllowedTools => {
            let tools = expect_text_list(value)?;
            let is_valid = |tool: &&String| {
                !tool.is_empty()
                    && !tool.contains(|c: char| c.is_control() || c.is_whitespace() || c == ',')
            };
            match tools.iter().find(|tool| !is_valid(tool)) {
                Some(tool) => Err(
                    ValueError::new(format!("{tool:?} is not a valid tool name")).with_hint(
                        "use names such as \"Read\", \"Bash\" or \"mcp__server__tool\", or \"*\" for all tools",
                    ),
                ),
                None => Ok(ConfigValue::TextList(tools)),
            }
        }
    }
}

impl UncheckedValue {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::TextList(_) => "an array",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Unsupported(name) => name,
        }
    }
}

fn type_error(expected: &str, value: &UncheckedValue) -> ValueError {
    ValueError::new(format!("must be {expected}, not {}", value.type_name()))
}

fn expect_text(value: UncheckedValue) -> Result<String, ValueError> {
    match value {
        UncheckedValue::Text(text) if text.contains('\0') => {
            Err(ValueError::new("must not contain a NUL character"))
        }
        UncheckedValue::Text(text) => Ok(text),
        value => Err(type_error("a string in quotes", &value)),
    }
}

fn expect_text_list(value: UncheckedValue) -> Result<Vec<String>, ValueError> {
    match value {
        UncheckedValue::TextList(texts) if texts.iter().any(|text| text.contains('\0')) => {
            Err(ValueError::new("must not contain a NUL character"))
        }
        UncheckedValue::TextList(texts) => Ok(texts),
        value => Err(type_error(
            "an array of strings, such as [\"one\", \"two\"]",
            &value,
        )),
    }
}

fn validate_bool(value: &UncheckedValue) -> Result<ConfigValue, ValueError> {
    match value {
        UncheckedValue::Bool(on) => Ok(ConfigValue::Bool(*on)),
        value => Err(type_error("true or false, without quotes", value)),
    }
}

fn validate_seconds(
    phase: TimeoutPhase,
    value: &UncheckedValue,
) -> Result<ConfigValue, ValueError> {
    let UncheckedValue::Number(seconds) = *value else {
        return Err(type_error("a number of seconds", value));
    };
    if phase == TimeoutPhase::Start && seconds == 0.0 {
        return Err(ValueError::new("must be greater than 0"));
    }
    if !(0.0..=MAX_TIMEOUT_SECONDS).contains(&seconds) {
        return Err(ValueError::new(format!(
            "must be a number of seconds from 0 to {MAX_TIMEOUT_SECONDS}, not {seconds}"
        )));
    }
    let duration = Duration::try_from_secs_f64(seconds);
    duration
        .map(ConfigValue::Seconds)
        .map_err(|error| ValueError::new(error.to_string()))
}

/// Validates an integer from `min` to `max`.
fn validate_count(
    value: &UncheckedValue,
    expected: &str,
    min: f64,
    max: f64,
) -> Result<ConfigValue, ValueError> {
    let UncheckedValue::Number(number) = *value else {
        return Err(type_error(expected, value));
    };
    if !(min..=max).contains(&number) || number.fract() != 0.0 {
        return Err(ValueError::new(format!(
            "must be {expected}, an integer from {min} to {max}, not {number}"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be an integer, small and not negative"
    )]
    let number = number as u64;
    Ok(ConfigValue::Count(number))
}

/// Validates a price in dollars for a million tokens.
fn validate_price(value: &UncheckedValue) -> Result<ConfigValue, ValueError> {
    // No model costs more: a larger number is in cents, or a price for a single token.
    const MAX_PRICE_DOLLARS: f64 = 100_000.0;
    let UncheckedValue::Number(dollars) = *value else {
        return Err(type_error(
            "dollars per million tokens, such as 1.25",
            value,
        ));
    };
    let cost = Cost::from_dollars(dollars).filter(|_| dollars <= MAX_PRICE_DOLLARS);
    cost.map(ConfigValue::Money).ok_or_else(|| {
        ValueError::new(format!(
            "must be dollars per million tokens, from 0 to {MAX_PRICE_DOLLARS}, not {dollars}"
        ))
    })
}

/// Builds the error for a value that is not one of the known words.
fn unknown_name_error(name: &str, allowed: &[&str]) -> ValueError {
    let error = ValueError::new(format!("{name:?} is not one of {}", allowed.join(", ")));
    match suggest_name(name, allowed) {
        Some(suggestion) => error.with_hint(format!("did you mean {suggestion:?}?")),
        None => error,
    }
}

fn validate_policy(name: &str) -> Result<ConfigValue, ValueError> {
    const POLICY_NAMES: [&str; 5] = ["ask", "allow-reads", "allow-edits", "allow-all", "deny"];
    PermissionPolicy::from_name(name)
        .map(ConfigValue::Policy)
        .ok_or_else(|| unknown_name_error(name, &POLICY_NAMES))
}

/// Names that select a provider.
const PROVIDER_NAMES: [&str; 5] = ["claude", "codex", "gemini", "rehearsal", "acp:NAME"];

fn is_provider_name(name: &str) -> bool {
    match name.strip_prefix("acp:") {
        Some(acp_name) => check_agent_name(acp_name).is_ok(),
        None => name == "rehearsal" || ConfiguredAgent::from_name(name).is_some(),
    }
}

/// Validates names of providers and removes duplicates.
fn validate_providers(requested: Vec<String>) -> Result<ConfigValue, ValueError> {
    let mut names: Vec<String> = Vec::new();
    for name in requested {
        if !is_provider_name(&name) {
            return Err(unknown_name_error(&name, &PROVIDER_NAMES));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(ConfigValue::TextList(names))
}

fn validate_summariser(name: String) -> Result<ConfigValue, ValueError> {
    if name == NO_AGENT || is_provider_name(&name) {
        return Ok(ConfigValue::Text(name));
    }
    let allowed: Vec<&str> = PROVIDER_NAMES.into_iter().chain([NO_AGENT]).collect();
    Err(unknown_name_error(&name, &allowed))
}

fn validate_transports(
    agent: &ConfiguredAgent,
    names: Vec<String>,
) -> Result<ConfigValue, ValueError> {
    let supported = agent.transports();
    if names.is_empty() {
        return Err(ValueError::new(format!(
            "must not be empty; name one of {}, or omit it",
            supported.join(", ")
        )));
    }
    match names
        .iter()
        .find(|name| !supported.contains(&name.as_str()))
    {
        Some(unknown) => Err(unknown_name_error(unknown, supported)),
        None => Ok(ConfigValue::TextList(names)),
    }
}

/// Validates a value that becomes an argument of a program and must not look like an option.
fn validate_argument(argument: String) -> Result<ConfigValue, ValueError> {
    if argument.is_empty() {
        return Err(ValueError::new(
            "must not be empty; omit it to let the agent choose",
        ));
    }
    if argument.starts_with('-') || argument.chars().any(char::is_control) {
        return Err(ValueError::new(format!(
            "{argument:?} must not start with `-` or contain control characters"
        )));
    }
    Ok(ConfigValue::Text(argument))
}

/// Validates a reference to a session. An empty text means no session.
fn validate_session_ref(reference: String) -> Result<ConfigValue, ValueError> {
    if !reference.is_empty() {
        match SessionRef::parse(&reference) {
            Ok(SessionRef::Number(_)) => {
                return Err(ValueError::new(format!(
                    "{reference:?} is a list number, which may refer to another session later"
                ))
                .with_hint("use the session ID"));
            }
            Ok(SessionRef::Latest | SessionRef::Feature(_) | SessionRef::Text(_)) => {}
            Err(error) => return Err(ValueError::new(error.to_string())),
        }
    }
    Ok(ConfigValue::Text(reference))
}

fn validate_header(header: String) -> Result<ConfigValue, ValueError> {
    if header.chars().any(char::is_control) {
        return Err(ValueError::new("must not contain control characters"));
    }
    Ok(ConfigValue::Text(header))
}

fn validate_url(url: String) -> Result<ConfigValue, ValueError> {
    let address = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let is_valid = |address: &str| {
        !address.is_empty()
            && !address.starts_with('/')
            && !address.contains(|c: char| c.is_control() || c == ' ')
    };
    if address.is_some_and(is_valid) {
        Ok(ConfigValue::Text(url))
    } else {
        Err(ValueError::new(
            "must be a URL that starts with https:// or http://",
        ))
    }
}

/// Validates a program: a name that is looked up on `PATH`, or a path, which becomes absolute.
fn validate_program(program: &str, base: &PathBase) -> Result<ConfigValue, ValueError> {
    if program.is_empty() {
        return Err(ValueError::new("must not be empty; omit it to search PATH"));
    }
    let path = match (program.strip_prefix("~/"), &base.home) {
        (Some(relative), Some(home)) => home.join(relative),
        (Some(_), None) => {
            return Err(ValueError::new(
                "cannot expand `~`: the home directory is unknown",
            ));
        }
        (None, _) if program.contains('/') => normalize_path(&base.directory.join(program)),
        (None, _) => PathBuf::from(program),
    };
    match path.into_os_string().into_string() {
        Ok(text) => Ok(ConfigValue::Text(text)),
        Err(_) => Err(ValueError::new(
            "cannot use a path relative to a directory whose name is not valid UTF-8",
        )),
    }
}

/// Removes the `.` with which a relative path may begin.
fn normalize_path(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Checks the name of an agent in `[acp.NAME]`.
pub fn check_agent_name(name: &str) -> Result<(), ValueError> {
    let is_lowercase_or_digit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = name.len() <= 60
        && name.starts_with(is_lowercase_or_digit)
        && name
            .chars()
            .all(|c| is_lowercase_or_digit(c) || "-_.".contains(c));
    if is_valid {
        Ok(())
    } else {
        Err(ValueError::new(format!(
            "{name:?} is not a valid agent name: use at most 60 lowercase letters, digits, `-`, `_` and `.`"
        )))
    }
}

/// Checks the name of an MCP server in `[mcp.NAME]`.
///
/// Agents prefix the names of its tools with it, `mcp__NAME__TOOL`, and segue's own tools need no permission. Therefore
/// no name may imitate segue's own, not even through its underscores.
pub fn check_server_name(name: &str) -> Result<(), ValueError> {
    if name.eq_ignore_ascii_case("segue") {
        return Err(ValueError::new(
            "`segue` is reserved for segue's own MCP server",
        ));
    }
    let is_valid = name.len() <= 60
        && name
            .split(['-', '_'])
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric()));
    if is_valid {
        Ok(())
    } else {
        Err(ValueError::new(format!(
            "{name:?} is not a valid MCP server name: use at most 60 letters, digits and single `-` or `_` between them"
        )))
    }
}

/// Checks the name of a variable in `env`.
pub fn check_variable_name(name: &str) -> Result<(), ValueError> {
    if name.is_empty() || name.contains(|c: char| c == '=' || c.is_control()) {
        return Err(ValueError::new(format!(
            "{name:?} is not a valid variable name"
        )));
    }
    Ok(())
}

/// Checks the name of a header in `headers`.
pub fn check_header_name(name: &str) -> Result<(), ValueError> {
    let is_valid_char = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(is_valid_char) {
        return Err(ValueError::new(format!(
            "{name:?} is not a valid header name"
        )));
    }
    Ok(())
}

/// Checks the prefix of a model name in `[prices.NAME]` and `context_limits`.
pub fn check_model_prefix(prefix: &str) -> Result<(), ValueError> {
    if prefix.is_empty() || prefix.len() > 200 || prefix.contains(char::is_control) {
        return Err(ValueError::new(format!(
            "{prefix:?} is not a valid prefix of a model name"
        )));
    }
    Ok(())
}
