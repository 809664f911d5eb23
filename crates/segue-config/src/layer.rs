//! Layers of settings: values with their origin, and the merge of several layers.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;

use segue_core::agent::RoleRegistry;
use serde::Serialize;

use crate::key::ConfigKey;
use crate::problem::ProblemLocation;

/// Settings of one source, or the settings that result from the merge of all sources.
pub type ConfigLayer = BTreeMap<ConfigKey, ConfigEntry>;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// Value of the setting.
    pub value: ConfigValue,
    /// Source of the value.
    pub origin: ConfigOrigin,
}

/// Value of a setting, whose type depends on the setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// A switch.
    Bool(bool),
    /// A count, or a number of complete seconds.
    Count(u64),
    /// A number of seconds, or an amount in dollars.
    Number(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    TextList(Vec<String>),
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigOrigin {
    /// The default of segue.
    Default,
    /// A position in a file, as in [`ProblemLocation::Position`].
    File {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// Number of the column.
        column: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl ConfigOrigin {
    /// Returns the location for a problem with the value. `None` for a default.
    pub(crate) fn location(&self) -> Option<ProblemLocation> {
        Some(match self.clone() {
            Self::Default => return None,
            Self::File { path, line, column } => ProblemLocation::Position { path, line, column },
            Self::Environment(name) => ProblemLocation::Environment(name),
            Self::Flag(name) => ProblemLocation::Flag(name),
        })
    }
}

impl ConfigValue {
    /// Formats the value as TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        match self {
            Self::Bool(on) => on.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format_toml_string(text),
            Self::TextList(texts) => {
                let texts: Vec<String> =
                    texts.iter().map(|text| format_toml_string(text)).collect();
                format!("[{}]", texts.join(", "))
            }
        }
    }
}

/// Formats a text as a TOML string. Escapes characters that are invisible or that would control a terminal.
fn format_toml_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Formats a key of a table, in quotes if TOML requires them.
#[must_use]
pub fn format_toml_key(name: &str) -> String {
    let is_bare_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare_char) {
        name.to_owned()
    } else {
        format_toml_string(name)
    }
}

/// Formats names with dots between them.
pub(crate) fn format_toml_path(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format_toml_key(name)).collect();
    names.join(".")
}

/// Merges all layers. Later layers have priority.
///
/// In general a setting replaces only itself. Some settings are replaced as a group: the `session` of an agent, an MCP
/// server and the price of a model, because a mix of two sources makes no sense. A setting for all agents also replaces
/// the settings for single agents from layers of lower priority, so that a file never overrides a flag or a variable.
pub(crate) fn merge_layers<'a>(layers: impl IntoIterator<Item = &'a ConfigLayer>) -> ConfigLayer {
    let mut merged = ConfigLayer::new();
    for layer in layers {
        for key in layer.keys() {
            merged.retain(|lower, _| !key.replaces(lower));
        }
        merged.extend(layer.clone());
    }
    merged
}

/// Splits a project's layer into the settings that apply without the user's trust and those that need it, given the
/// roles without the project.
pub(crate) fn split_by_trust(
    layer: ConfigLayer,
    roles: &RoleRegistry,
) -> (ConfigLayer, ConfigLayer) {
    layer
        .into_iter()
        .partition(|(key, entry)| key.trust_reason(&entry.value, roles).is_none())
}
