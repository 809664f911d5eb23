//! Fields of a session's files that segue has no equivalent for, stored so that an export can write them again.

use jiff::Timestamp;
use segue_core::json::Json;
use segue_core::session::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_fields::{iso, number, time};
use crate::{Line, Portable};

/// Stored fields of a session's files: those of each file that the session itself does not contain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kept {
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) chat: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<KeptLine>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) checkpoint: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) context: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) agent: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) session: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) feature: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) task: Map<String, Value>,
    /// Time of the import; `None` if the session was not imported or is being imported.
    #[serde(skip)]
    pub(crate) came_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptLine {
    id: String,
    at: String,
    role: String,
    /// Checksum of the message's text.
    #[serde(default)]
    mark: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    rest: Map<String, Value>,
}

impl KeptLine {
    fn is_of(&self, line: &Line) -> bool {
        self.at == iso(line.at) && self.role == line.role.as_str()
    }

    /// Returns the role, the time and the checksum of the text.
    pub(crate) fn told(&self) -> (&str, String, String) {
        (&self.role, self.at.clone(), self.mark.clone())
    }
}

impl Portable {
    /// Returns the fields to store at the import of the session.
    #[must_use]
    pub fn aside(&self) -> Json {
        let line = |line: &Line| KeptLine {
            id: line.id.clone(),
            at: iso(line.at),
            role: line.role.as_str().to_owned(),
            mark: mark(&line.words),
            tokens: line.tokens,
            rest: line.rest.clone(),
        };
        let kept = Kept {
            lines: self.past.iter().chain(&self.lines).map(line).collect(),
            ..self.kept.clone()
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        Json::parse(text).unwrap_or_else(|_| Json::empty_object())
    }

    /// Restores the fields that were stored at the import, for the messages that still exist. Does nothing if `aside`
    /// cannot be parsed.
    pub fn recall(&mut self, aside: &Json, came_at: Timestamp) {
        let Ok(kept) = serde_json::from_str::<Kept>(aside.as_str()) else {
            return;
        };
        let mut known = kept.lines.iter();
        for line in self.past.iter_mut().chain(&mut self.lines) {
            // The session may contain messages that the files never had, but the order is the same.
            let mut ahead = known.clone();
            if let Some(same) = ahead.find(|known| known.is_of(line)) {
                if !same.id.is_empty() {
                    line.id.clone_from(&same.id);
                }
                line.as_it_came = true;
                line.tokens = same.tokens;
                line.rest.clone_from(&same.rest);
                known = ahead;
            }
        }
        self.recall_figures(&kept);
        self.kept = Kept {
            lines: Vec::new(),
            came_at: Some(came_at),
            ..kept
        };
    }

    /// Continues the version number and the token counts of the imported checkpoint.
    fn recall_figures(&mut self, kept: &Kept) {
        let Some(recap) = &mut self.recap else {
            return;
        };
        let old = &kept.checkpoint;
        let figures = old.get("tokens").and_then(Value::as_object);
        let figure = |name| figures.and_then(|figures| number(figures, name));
        let version = number(old, "version").unwrap_or(0);
        if recap.as_it_came {
            recap.version = version;
            recap.tokens = figure("checkpoint").unwrap_or(recap.tokens);
            recap.saved = figure("totalSaved").unwrap_or(recap.saved);
        } else {
            recap.version += version.saturating_sub(1);
        }
        recap.replaced = recap.replaced.or(figure("lastCompactionInput"));
        if let Some(first) = time(old.get("createdAt")) {
            recap.created_at = first;
        }
    }
}

/// Returns the checksum of a text: 128-bit FNV-1a, because its result is the same on every machine and in every
/// version.
pub(crate) fn mark(text: &str) -> String {
    let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let bytes = text.bytes().map(u128::from);
    let sum = bytes.fold(begin, |sum, byte| (sum ^ byte).wrapping_mul(prime));
    format!("{sum:032x}")
}

/// Parses the role of a message as files name it; `None` if the name is unknown.
pub(crate) fn speaker(name: &str) -> Option<Role> {
    match name {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" => Some(Role::System),
        _ => None,
    }
}
