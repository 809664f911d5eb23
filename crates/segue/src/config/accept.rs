//! Validation of values, independent of their source.

use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::session::SessionRef;
use segue_core::spend::Cost;

use super::key::{AgentKey, Key, McpKey, NOBODY, RoleKey, Wait, Who};
use super::nearest::nearest;
use super::problem::Wrong;
use super::value::Value;

/// A value before validation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    Text(String),
    Texts(Vec<String>),
    Switch(bool),
    Number(f64),
    /// A value that no setting accepts, with the name of its type.
    Other(&'static str),
}

/// Directories that relative paths refer to.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub(crate) directory: PathBuf,
    /// Directory that replaces `~`.
    pub(crate) home: Option<PathBuf>,
}

/// Maximum timeout in seconds: one year.
const LONGEST: f64 = 31_536_000.0;

/// Validates a value and converts it to the type of the setting.
pub(crate) fn accept(key: &Key, given: Given, base: &Base) -> Result<Value, Wrong> {
    match key {
        Key::Prefer | Key::Fallback => providers(texts(given)?),
        Key::Summariser => summariser(text(given)?),
        Key::ErrorLimit => count(&given, "a number of failures", 0.0, 1000.0),
        Key::ContextLimit | Key::ModelLimit(_) | Key::Agent(_, AgentKey::ContextLimit) => {
            count(&given, "a number of tokens", 0.0, 1e12)
        }
        Key::Backoff => seconds(Wait::Silence, &given),
        Key::Permissions | Key::Agent(_, AgentKey::Permissions) => policy(&text(given)?),
        // A smaller budget has room only for the frame of a brief, and no model accepts a larger one.
        Key::Budget => count(&given, "a number of tokens", 2_000.0, 1e6),
        Key::Timeout(wait) | Key::Agent(_, AgentKey::Timeout(wait)) => seconds(*wait, &given),
        Key::Agent(_, AgentKey::Path | AgentKey::AcpPath) | Key::Mcp(_, McpKey::Command) => {
            program(&text(given)?, base)
        }
        Key::Agent(who, AgentKey::Transports) => transports(who, texts(given)?),
        Key::Agent(_, AgentKey::Model | AgentKey::Mode) => word(text(given)?),
        Key::Agent(_, AgentKey::ResumeId) => session(text(given)?),
        Key::Agent(_, AgentKey::ContinueLast) | Key::CompactionAuto => switch(&given),
        Key::Agent(_, AgentKey::Args) | Key::Mcp(_, McpKey::Args) => texts(given).map(Value::Texts),
        Key::Agent(_, AgentKey::Env(_)) | Key::Mcp(_, McpKey::Env(_)) => {
            text(given).map(Value::Text)
        }
        Key::Mcp(_, McpKey::Header(_)) => header(text(given)?),
        Key::Mcp(_, McpKey::Url) => url(text(given)?),
        Key::Price(..) => price(&given),
        Key::Role(_, key) => said_of_role(*key, given),
    }
}

/// Validates a setting of a role.
fn said_of_role(key: RoleKey, given: Given) -> Result<Value, Wrong> {
    match key {
        RoleKey::Role => match text(given)? {
            text if text.trim().is_empty() => Err(Wrong::new(
                "is empty; leave it out to keep what the role is",
            )),
            text => Ok(Value::Text(text)),
        },
        RoleKey::ToolInstructions => text(given).map(Value::Text),
        RoleKey::Instructions => texts(given).map(Value::Texts),
        RoleKey::AllowedTools => {
            let tools = texts(given)?;
            let fits = |tool: &&String| {
                !tool.is_empty()
                    && !tool.contains(|c: char| c.is_control() || c.is_whitespace() || c == ',')
            };
            match tools.iter().find(|tool| !fits(tool)) {
                Some(tool) => Err(Wrong::new(format!("{tool:?} can't be the name of a tool"))
                    .hint(
                        "like \"Read\", \"Bash\" or \"mcp__server__tool\"; \"*\" is all of them",
                    )),
                None => Ok(Value::Texts(tools)),
            }
        }
    }
}

impl Given {
    fn name(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Texts(_) => "a list",
            Self::Switch(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Other(name) => name,
        }
    }
}

fn mistaken(wanted: &str, given: &Given) -> Wrong {
    Wrong::new(format!("must be {wanted}, not {}", given.name()))
}

fn text(given: Given) -> Result<String, Wrong> {
    match given {
        Given::Text(text) if text.contains('\0') => {
            Err(Wrong::new("may not contain a NUL character"))
        }
        Given::Text(text) => Ok(text),
        given => Err(mistaken("a text in quotes", &given)),
    }
}

fn texts(given: Given) -> Result<Vec<String>, Wrong> {
    match given {
        Given::Texts(texts) if texts.iter().any(|text| text.contains('\0')) => {
            Err(Wrong::new("may not contain a NUL character"))
        }
        Given::Texts(texts) => Ok(texts),
        given => Err(mistaken("a list of texts, like [\"one\", \"two\"]", &given)),
    }
}

fn switch(given: &Given) -> Result<Value, Wrong> {
    match given {
        Given::Switch(on) => Ok(Value::Switch(*on)),
        given => Err(mistaken("true or false, without quotes", given)),
    }
}

fn seconds(wait: Wait, given: &Given) -> Result<Value, Wrong> {
    let Given::Number(seconds) = *given else {
        return Err(mistaken("a number of seconds", given));
    };
    if wait == Wait::Start && seconds == 0.0 {
        return Err(Wrong::new(
            "must be more than 0: a start that never ends can't be told from a slow one",
        ));
    }
    if !(0.0..=LONGEST).contains(&seconds) {
        return Err(Wrong::new(format!(
            "must be a number of seconds from 0 to {LONGEST}, not {seconds}"
        )));
    }
    let time = Duration::try_from_secs_f64(seconds);
    time.map(Value::Seconds)
        .map_err(|error| Wrong::new(error.to_string()))
}

/// Validates an integer from `least` to `most`.
fn count(given: &Given, what: &str, least: f64, most: f64) -> Result<Value, Wrong> {
    let Given::Number(number) = *given else {
        return Err(mistaken(what, given));
    };
    if !(least..=most).contains(&number) || number.fract() != 0.0 {
        return Err(Wrong::new(format!(
            "must be {what}, a whole one from {least} to {most}, not {number}"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole, small and not negative"
    )]
    let number = number as u64;
    Ok(Value::Count(number))
}

/// Validates a price in dollars for a million tokens.
fn price(given: &Given) -> Result<Value, Wrong> {
    // No model costs more: a larger number is in cents, or a price for a single token.
    const DEAREST: f64 = 100_000.0;
    let Given::Number(dollars) = *given else {
        return Err(mistaken("dollars for a million tokens, like 1.25", given));
    };
    let cost = Cost::from_dollars(dollars).filter(|_| dollars <= DEAREST);
    cost.map(Value::Money).ok_or_else(|| {
        Wrong::new(format!(
            "must be dollars for a million tokens, from 0 to {DEAREST}, not {dollars}"
        ))
    })
}

/// Builds the error for a value that is not one of the known words.
fn one_of(given: &str, known: &[&str]) -> Wrong {
    let wrong = Wrong::new(format!("{given:?} is not one of {}", known.join(", ")));
    match nearest(given, known) {
        Some(nearest) => wrong.hint(format!("did you mean {nearest:?}?")),
        None => wrong,
    }
}

fn policy(given: &str) -> Result<Value, Wrong> {
    const KNOWN: [&str; 5] = ["ask", "allow-reads", "allow-edits", "allow-all", "deny"];
    PermissionPolicy::from_name(given)
        .map(Value::Policy)
        .ok_or_else(|| one_of(given, &KNOWN))
}

/// Names that select a provider.
const PROVIDERS: [&str; 5] = ["claude", "codex", "gemini", "rehearsal", "acp:NAME"];

fn is_provider(name: &str) -> bool {
    match name.strip_prefix("acp:") {
        Some(rest) => agent_name(rest).is_ok(),
        None => name == "rehearsal" || Who::known(name).is_some(),
    }
}

/// Validates names of providers and removes duplicates.
fn providers(given: Vec<String>) -> Result<Value, Wrong> {
    let mut names: Vec<String> = Vec::new();
    for name in given {
        if !is_provider(&name) {
            return Err(one_of(&name, &PROVIDERS));
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(Value::Texts(names))
}

fn summariser(name: String) -> Result<Value, Wrong> {
    if name == NOBODY || is_provider(&name) {
        return Ok(Value::Text(name));
    }
    let all: Vec<&str> = PROVIDERS.into_iter().chain([NOBODY]).collect();
    Err(one_of(&name, &all))
}

fn transports(who: &Who, given: Vec<String>) -> Result<Value, Wrong> {
    let known = who.transports();
    if given.is_empty() {
        return Err(Wrong::new(format!(
            "is empty; name one of {}, or leave it out",
            known.join(", ")
        )));
    }
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(one_of(unknown, known)),
        None => Ok(Value::Texts(given)),
    }
}

/// Validates a value that becomes an argument of a program and must not look like an option.
fn word(given: String) -> Result<Value, Wrong> {
    if given.is_empty() {
        return Err(Wrong::new("is empty; leave it out to let the agent choose"));
    }
    if given.starts_with('-') || given.chars().any(char::is_control) {
        return Err(Wrong::new(format!(
            "{given:?} may not start with `-` or contain control characters"
        )));
    }
    Ok(Value::Text(given))
}

/// Validates a reference to a session. An empty text means no session.
fn session(given: String) -> Result<Value, Wrong> {
    if !given.is_empty() {
        match SessionRef::parse(&given) {
            Ok(SessionRef::Number(_)) => {
                return Err(Wrong::new(format!(
                    "{given:?} is a number from a list, which means another session tomorrow"
                ))
                .hint("use the session's id"));
            }
            Ok(SessionRef::Latest | SessionRef::Feature(_) | SessionRef::Text(_)) => {}
            Err(error) => return Err(Wrong::new(error.to_string())),
        }
    }
    Ok(Value::Text(given))
}

fn header(given: String) -> Result<Value, Wrong> {
    if given.chars().any(char::is_control) {
        return Err(Wrong::new("may not contain control characters"));
    }
    Ok(Value::Text(given))
}

fn url(given: String) -> Result<Value, Wrong> {
    let rest = given
        .strip_prefix("https://")
        .or_else(|| given.strip_prefix("http://"));
    let fits = |rest: &str| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest.contains(|c: char| c.is_control() || c == ' ')
    };
    if rest.is_some_and(fits) {
        Ok(Value::Text(given))
    } else {
        Err(Wrong::new(
            "must be an address that starts with https:// or http://",
        ))
    }
}

/// Validates a program: a name that is looked up on `PATH`, or a path, which becomes absolute.
fn program(given: &str, base: &Base) -> Result<Value, Wrong> {
    if given.is_empty() {
        return Err(Wrong::new("is empty; leave it out to look on PATH"));
    }
    let path = match (given.strip_prefix("~/"), &base.home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => {
            return Err(Wrong::new("your home directory is not known; write it out"));
        }
        (None, _) if given.contains('/') => tidy(&base.directory.join(given)),
        (None, _) => PathBuf::from(given),
    };
    match path.into_os_string().into_string() {
        Ok(text) => Ok(Value::Text(text)),
        Err(_) => Err(Wrong::new(
            "is relative to a directory whose name is not valid UTF-8",
        )),
    }
}

/// Removes the `.` with which a relative path may begin.
fn tidy(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Checks the name of an agent in `[acp.NAME]`.
pub(crate) fn agent_name(name: &str) -> Result<(), Wrong> {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = name.len() <= 60
        && name.starts_with(ends)
        && name.chars().all(|c| ends(c) || "-_.".contains(c));
    if fits {
        Ok(())
    } else {
        Err(Wrong::new(format!(
            "{name:?} can't be the name of an agent: small letters, digits, `-`, `_` and `.`, at most 60"
        )))
    }
}

/// Checks the name of an MCP server in `[mcp.NAME]`.
///
/// Agents prefix the names of its tools with it, `mcp__NAME__TOOL`, and segue's own tools need no permission. Therefore
/// no name may imitate segue's own, not even through its underscores.
pub(crate) fn server_name(name: &str) -> Result<(), Wrong> {
    if name.eq_ignore_ascii_case("segue") {
        return Err(Wrong::new(
            "`segue` is the name of segue's own MCP server; choose another",
        ));
    }
    let fits = name.len() <= 60
        && name
            .split(['-', '_'])
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric()));
    if fits {
        Ok(())
    } else {
        Err(Wrong::new(format!(
            "{name:?} can't be the name of an MCP server: letters and digits, with single `-` or `_` between them, at most 60"
        )))
    }
}

/// Checks the name of a variable in `env`.
pub(crate) fn variable_name(name: &str) -> Result<(), Wrong> {
    if name.is_empty() || name.contains(|c: char| c == '=' || c.is_control()) {
        return Err(Wrong::new(format!(
            "{name:?} can't be the name of a variable"
        )));
    }
    Ok(())
}

/// Checks the name of a header in `headers`.
pub(crate) fn header_name(name: &str) -> Result<(), Wrong> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Wrong::new(format!(
            "{name:?} can't be the name of a header"
        )));
    }
    Ok(())
}

/// Checks the prefix of a model name in `[prices.NAME]` and `context_limits`.
pub(crate) fn model_name(name: &str) -> Result<(), Wrong> {
    if name.is_empty() || name.len() > 200 || name.contains(char::is_control) {
        return Err(Wrong::new(format!(
            "{name:?} can't be how the name of a model begins"
        )));
    }
    Ok(())
}
