//! What a setting is set to, and by whom.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use segue_core::{Cost, PermissionPolicy};
use serde_json::json;

use super::Key;

/// What one source sets, or what is left after all of them were put on top of each other.
pub(crate) type Layer = BTreeMap<Key, Entry>;

/// A value and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The value of a setting; which kind it is follows from the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Switch(bool),
    Seconds(Duration),
    Count(u64),
    Policy(PermissionPolicy),
    Money(Cost),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Value {
    /// As it is written in a file.
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Texts(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                format!("[{}]", texts.join(", "))
            }
            Self::Switch(on) => on.to_string(),
            Self::Seconds(time) if time.subsec_nanos() == 0 => time.as_secs().to_string(),
            Self::Seconds(time) => time.as_secs_f64().to_string(),
            Self::Count(count) => count.to_string(),
            Self::Policy(policy) => quoted(policy.as_str()),
            Self::Money(cost) => dollars(*cost).to_string(),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Texts(texts) => json!(texts),
            Self::Switch(on) => json!(on),
            Self::Seconds(time) if time.subsec_nanos() == 0 => json!(time.as_secs()),
            Self::Seconds(time) => json!(time.as_secs_f64()),
            Self::Count(count) => json!(count),
            Self::Policy(policy) => json!(policy.as_str()),
            Self::Money(cost) => json!(dollars(*cost)),
        }
    }
}

/// An amount as a number. Only what was a number of dollars once comes here, so it is the same again.
#[expect(clippy::cast_precision_loss, reason = "it came from a float")]
fn dollars(cost: Cost) -> f64 {
    cost.micros() as f64 / 1e6
}

/// A text as a TOML string; what could not be seen on a terminal, or would steer it, is escaped.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_unseen(c) => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A name in a table, quoted where TOML wants it.
pub(crate) fn bare(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
