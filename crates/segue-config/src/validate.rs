//! Validation of values and names, independent of their source.

use std::path::PathBuf;
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::scope::RoleName;
use segue_core::session::SessionRef;
use segue_core::spend::Cost;

use crate::definition::{SettingPlace, ValueKind, is_placeholder};
use crate::key::NO_AGENT;
use crate::layer::ConfigValue;
use crate::problem::ValueError;
use crate::providers::CONFIGURABLE_PROVIDERS;
use crate::suggest::suggest_name;

/// A value before validation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UncheckedValue {
    Text(String),
    TextList(Vec<String>),
    Bool(bool),
    Number(f64),
    /// A value that no setting accepts, with the name of its type.
    Unsupported(&'static str),
}

/// Directories that relative paths refer to.
#[derive(Debug, Clone)]
pub(crate) struct PathBase {
    pub(crate) directory: PathBuf,
    /// Directory that replaces `~`.
    pub(crate) home: Option<PathBuf>,
}

/// Maximum timeout in seconds: one year.
const MAX_TIMEOUT_SECONDS: f64 = 31_536_000.0;

/// Maximum price in dollars. No model costs more: a larger number is in cents, or a price for a single token.
const MAX_PRICE_DOLLARS: f64 = 100_000.0;

/// Validates a value and converts it to the type of the setting.
pub(crate) fn validate_value(
    place: &SettingPlace,
    value: UncheckedValue,
    base: &PathBase,
) -> Result<ConfigValue, ValueError> {
    match place.setting.kind {
        ValueKind::Bool => match value {
            UncheckedValue::Bool(on) => Ok(ConfigValue::Bool(on)),
            value => Err(type_error("true or false, without quotes", &value)),
        },
        ValueKind::Count(unit, min, max) => validate_count(&value, unit, min, max),
        ValueKind::PositiveSeconds if value == UncheckedValue::Number(0.0) => {
            Err(ValueError::new("must be greater than 0"))
        }
        ValueKind::PositiveSeconds | ValueKind::Seconds => validate_seconds(&value),
        ValueKind::Price => validate_price(&value),
        ValueKind::Text(check) => {
            let text = expect_text(value)?;
            check(&text).map(|()| ConfigValue::Text(text))
        }
        ValueKind::TextList(check) => {
            let texts = expect_text_list(value)?;
            texts.iter().try_for_each(|text| check(text))?;
            Ok(ConfigValue::TextList(texts))
        }
        ValueKind::Agent => match expect_text(value)? {
            name if name == NO_AGENT => Ok(ConfigValue::Text(name)),
            name => {
                let allowed = [provider_names(), vec![NO_AGENT]].concat();
                check_provider(&name, &allowed).map(|()| ConfigValue::Text(name))
            }
        },
        ValueKind::Agents => {
            let mut names: Vec<String> = Vec::new();
            for name in expect_text_list(value)? {
                check_provider(&name, &provider_names())?;
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Ok(ConfigValue::TextList(names))
        }
        ValueKind::Program => resolve_program(&expect_text(value)?, base),
        ValueKind::Transports => {
            let supported = place
                .provider
                .map_or(&[][..], |provider| provider.transports);
            validate_transports(expect_text_list(value)?, supported)
        }
    }
}

impl UncheckedValue {
    /// Returns the name of the type, with its article.
    pub(crate) fn type_name(&self) -> &'static str {
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
        UncheckedValue::Text(text) => reject_nul(&text).map(|()| text),
        value => Err(type_error("a string in quotes", &value)),
    }
}

fn expect_text_list(value: UncheckedValue) -> Result<Vec<String>, ValueError> {
    match value {
        UncheckedValue::TextList(texts) => {
            texts.iter().try_for_each(|text| reject_nul(text))?;
            Ok(texts)
        }
        value => Err(type_error(
            "an array of strings, such as [\"one\", \"two\"]",
            &value,
        )),
    }
}

fn reject_nul(text: &str) -> Result<(), ValueError> {
    reject_if(text.contains('\0'), "must not contain a NUL character")
}

fn reject_if(is_invalid: bool, message: impl Into<String>) -> Result<(), ValueError> {
    if is_invalid {
        Err(ValueError::new(message))
    } else {
        Ok(())
    }
}

fn validate_seconds(value: &UncheckedValue) -> Result<ConfigValue, ValueError> {
    let UncheckedValue::Number(seconds) = *value else {
        return Err(type_error("a number of seconds", value));
    };
    reject_if(
        !(0.0..=MAX_TIMEOUT_SECONDS).contains(&seconds),
        format!("must be a number of seconds from 0 to {MAX_TIMEOUT_SECONDS}, not {seconds}"),
    )?;
    let duration = Duration::try_from_secs_f64(seconds);
    let duration = duration.map_err(|error| ValueError::new(error.to_string()))?;
    Ok(match duration.subsec_nanos() {
        0 => ConfigValue::Count(duration.as_secs()),
        _ => ConfigValue::Number(duration.as_secs_f64()),
    })
}

/// Validates an integer from `min` to `max`.
fn validate_count(
    value: &UncheckedValue,
    unit: &str,
    min: u64,
    max: u64,
) -> Result<ConfigValue, ValueError> {
    let UncheckedValue::Number(number) = *value else {
        return Err(type_error(unit, value));
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "the maximum of every setting is small"
    )]
    let range = min as f64..=max as f64;
    reject_if(
        !range.contains(&number) || number.fract() != 0.0,
        format!("must be {unit}, an integer from {min} to {max}, not {number}"),
    )?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be an integer, small and not negative"
    )]
    let count = number as u64;
    Ok(ConfigValue::Count(count))
}

/// Validates a price in dollars for a million tokens, and rounds it as all amounts.
fn validate_price(value: &UncheckedValue) -> Result<ConfigValue, ValueError> {
    let UncheckedValue::Number(dollars) = *value else {
        return Err(type_error(
            "dollars per million tokens, such as 1.25",
            value,
        ));
    };
    let cost = Cost::from_dollars(dollars).filter(|_| dollars <= MAX_PRICE_DOLLARS);
    let cost = cost.ok_or_else(|| {
        ValueError::new(format!(
            "must be dollars per million tokens, from 0 to {MAX_PRICE_DOLLARS}, not {dollars}"
        ))
    })?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "the amount was converted from a float"
    )]
    let rounded_dollars = cost.micros() as f64 / 1e6;
    Ok(ConfigValue::Number(rounded_dollars))
}

/// Builds the error for a value that is not one of the known words.
fn unknown_name_error(name: &str, allowed: &[&str]) -> ValueError {
    let error = ValueError::new(format!("{name:?} is not one of {}", allowed.join(", ")));
    match suggest_name(name, allowed) {
        Some(suggestion) => error.with_hint(format!("did you mean {suggestion:?}?")),
        None => error,
    }
}

/// Returns the names that select a provider.
fn provider_names() -> Vec<&'static str> {
    let built_in = CONFIGURABLE_PROVIDERS
        .iter()
        .filter(|provider| provider.is_built_in());
    let names = built_in.map(|provider| provider.name);
    names.chain(["rehearsal", "acp:NAME"]).collect()
}

fn check_provider(name: &str, allowed: &[&str]) -> Result<(), ValueError> {
    let is_known = match name.strip_prefix("acp:") {
        Some(acp_name) => check_agent_name(acp_name).is_ok(),
        None => allowed.contains(&name),
    };
    if is_known {
        Ok(())
    } else {
        Err(unknown_name_error(name, allowed))
    }
}

fn validate_transports(names: Vec<String>, supported: &[&str]) -> Result<ConfigValue, ValueError> {
    reject_if(
        names.is_empty(),
        format!(
            "must not be empty; name one of {}, or omit it",
            supported.join(", ")
        ),
    )?;
    match names
        .iter()
        .find(|name| !supported.contains(&name.as_str()))
    {
        Some(unknown) => Err(unknown_name_error(unknown, supported)),
        None => Ok(ConfigValue::TextList(names)),
    }
}

/// Resolves a program: a name that is looked up on `PATH`, or a path, which becomes absolute.
fn resolve_program(program: &str, base: &PathBase) -> Result<ConfigValue, ValueError> {
    reject_if(
        program.is_empty(),
        "must not be empty; omit it to search PATH",
    )?;
    let path = match (program.strip_prefix("~/"), &base.home) {
        (Some(relative), Some(home)) => home.join(relative),
        (Some(_), None) => {
            return Err(ValueError::new(
                "cannot expand `~`: the home directory is unknown",
            ));
        }
        // Removes the `.` with which a relative path may begin.
        (None, _) if program.contains('/') => base.directory.join(program).components().collect(),
        (None, _) => PathBuf::from(program),
    };
    let path = path.into_os_string().into_string();
    path.map(ConfigValue::Text).map_err(|_| {
        ValueError::new("cannot use a path relative to a directory whose name is not valid UTF-8")
    })
}

/// Accepts every text.
#[expect(clippy::unnecessary_wraps, reason = "one of several checks")]
pub(crate) fn accept_text(_: &str) -> Result<(), ValueError> {
    Ok(())
}

pub(crate) fn check_policy(name: &str) -> Result<(), ValueError> {
    const POLICY_NAMES: [&str; 5] = ["ask", "allow-reads", "allow-edits", "allow-all", "deny"];
    match PermissionPolicy::from_name(name) {
        Some(_) => Ok(()),
        None => Err(unknown_name_error(name, &POLICY_NAMES)),
    }
}

/// Checks a value that becomes an argument of a program and must not look like an option.
pub(crate) fn check_argument(argument: &str) -> Result<(), ValueError> {
    reject_if(
        argument.is_empty(),
        "must not be empty; omit it to let the agent choose",
    )?;
    reject_if(
        argument.starts_with('-') || argument.chars().any(char::is_control),
        format!("{argument:?} must not start with `-` or contain control characters"),
    )
}

/// Checks a reference to a session. An empty text means no session.
pub(crate) fn check_session_ref(reference: &str) -> Result<(), ValueError> {
    if reference.is_empty() {
        return Ok(());
    }
    match SessionRef::parse(reference) {
        Ok(SessionRef::Number(_)) => Err(ValueError::new(format!(
            "{reference:?} is a list number, which may refer to another session later"
        ))
        .with_hint("use the session ID")),
        Ok(SessionRef::Latest | SessionRef::Feature(_) | SessionRef::Text(_)) => Ok(()),
        Err(error) => Err(ValueError::new(error.to_string())),
    }
}

pub(crate) fn check_header(header: &str) -> Result<(), ValueError> {
    reject_if(
        header.chars().any(char::is_control),
        "must not contain control characters",
    )
}

pub(crate) fn check_url(url: &str) -> Result<(), ValueError> {
    let address = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    let is_valid = address.is_some_and(|address| {
        !address.is_empty()
            && !address.starts_with('/')
            && !address.contains(|c: char| c.is_control() || c == ' ')
    });
    reject_if(
        !is_valid,
        "must be a URL that starts with https:// or http://",
    )
}

/// Checks the description of a role.
pub(crate) fn check_description(text: &str) -> Result<(), ValueError> {
    reject_if(
        text.trim().is_empty(),
        "must not be empty; omit it to keep the description",
    )
}

pub(crate) fn check_tool(tool: &str) -> Result<(), ValueError> {
    let is_invalid_char = |c: char| c.is_control() || c.is_whitespace() || c == ',';
    if !tool.is_empty() && !tool.contains(is_invalid_char) {
        return Ok(());
    }
    let error = ValueError::new(format!("{tool:?} is not a valid tool name"));
    Err(error.with_hint(
        "use names such as \"Read\", \"Bash\" or \"mcp__server__tool\", or \"*\" for all tools",
    ))
}

/// Checks the name at one depth of a path, if the user chooses it.
pub(crate) fn check_name(place: &SettingPlace, depth: usize, name: &str) -> Result<(), ValueError> {
    match place.path.get(depth) {
        Some(&"VARIABLE") => check_variable_name(name),
        Some(&"HEADER") => check_header_name(name),
        Some(word) if is_placeholder(word) => (place.table.check_name)(name),
        _ => Ok(()),
    }
}

/// Checks the name of an agent in `[acp.NAME]`.
pub(crate) fn check_agent_name(name: &str) -> Result<(), ValueError> {
    let is_lowercase_or_digit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid_char = |c: char| is_lowercase_or_digit(c) || "-_.".contains(c);
    reject_if(
        name.len() > 60
            || !name.starts_with(is_lowercase_or_digit)
            || !name.chars().all(is_valid_char),
        format!(
            "{name:?} is not a valid agent name: use at most 60 lowercase letters, digits, `-`, `_` and `.`"
        ),
    )
}

/// Checks the name of an MCP server in `[mcp.NAME]`.
///
/// Agents prefix the names of its tools with it, `mcp__NAME__TOOL`, and segue's own tools need no permission. Therefore
/// no name may imitate segue's own, not even through its underscores.
pub(crate) fn check_server_name(name: &str) -> Result<(), ValueError> {
    reject_if(
        name.eq_ignore_ascii_case("segue"),
        "`segue` is reserved for segue's own MCP server",
    )?;
    let is_valid_part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    reject_if(
        name.len() > 60 || !name.split(['-', '_']).all(is_valid_part),
        format!(
            "{name:?} is not a valid MCP server name: use at most 60 letters, digits and single `-` or `_` between them"
        ),
    )
}

fn check_variable_name(name: &str) -> Result<(), ValueError> {
    reject_if(
        name.is_empty() || name.contains(|c: char| c == '=' || c.is_control()),
        format!("{name:?} is not a valid variable name"),
    )
}

fn check_header_name(name: &str) -> Result<(), ValueError> {
    let is_valid_char = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    reject_if(
        name.is_empty() || !name.chars().all(is_valid_char),
        format!("{name:?} is not a valid header name"),
    )
}

/// Checks the prefix of a model name.
pub(crate) fn check_model_prefix(prefix: &str) -> Result<(), ValueError> {
    reject_if(
        prefix.is_empty() || prefix.len() > 200 || prefix.contains(char::is_control),
        format!("{prefix:?} is not a valid prefix of a model name"),
    )
}

/// Checks the name of a role in `[roles.NAME]`.
pub(crate) fn check_role_name(name: &str) -> Result<(), ValueError> {
    let parsed = RoleName::parse(name);
    parsed
        .map(drop)
        .map_err(|error| ValueError::new(error.to_string()))
}
