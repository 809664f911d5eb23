//! Values of settings and their origin.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use segue_core::agent::PermissionPolicy;
use segue_core::spend::Cost;

use super::ConfigKey;

/// Settings of one source, or the settings that result from the merge of all sources.
pub type ConfigLayer = BTreeMap<ConfigKey, ConfigEntry>;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    pub value: ConfigValue,
    pub origin: ConfigOrigin,
}

/// Value of a setting, whose kind depends on the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigValue {
    Text(String),
    TextList(Vec<String>),
    Bool(bool),
    Seconds(Duration),
    Count(u64),
    Policy(PermissionPolicy),
    Money(Cost),
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigOrigin {
    Default,
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    Environment(String),
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

impl ConfigValue {
    /// Formats the value as TOML.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Text(text) => format_toml_string(text),
            Self::TextList(texts) => {
                let texts: Vec<String> =
                    texts.iter().map(|text| format_toml_string(text)).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::Bool(on) => on.to_string(),
            Self::Seconds(time) if time.subsec_nanos() == 0 => time.as_secs().to_string(),
            Self::Seconds(time) => time.as_secs_f64().to_string(),
            Self::Count(count) => count.to_string(),
            Self::Policy(policy) => format_toml_string(policy.as_str()),
            Self::Money(cost) => to_dollars(*cost).to_string(),
        }
    }
}

/// Converts an amount to a number of dollars. The result equals the configured number, because every amount was parsed
/// from one.
#[expect(
    clippy::cast_precision_loss,
    reason = "the amount was parsed from a float"
)]
pub fn to_dollars(cost: Cost) -> f64 {
    cost.micros() as f64 / 1e6
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
pub fn format_toml_key(name: &str) -> String {
    let is_bare_char = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare_char) {
        name.to_owned()
    } else {
        format_toml_string(name)
    }
}
