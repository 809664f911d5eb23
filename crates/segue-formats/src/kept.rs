//! What the files of a session say that has no place in segue, so that it can be written again.

use jiff::Timestamp;
use segue_core::{Json, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{iso, number, time};
use crate::{Line, Portable};

/// What is kept aside of a session's files: each of them without what is in the session anyway.
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
    /// When the session came, while nothing happened in it or around it since.
    #[serde(skip)]
    pub(crate) came_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptLine {
    id: String,
    at: String,
    role: String,
    /// The mark of its words.
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

    /// Who spoke, when, and the mark of what was said.
    pub(crate) fn told(&self) -> (&str, String, String) {
        (&self.role, self.at.clone(), self.mark.clone())
    }
}

impl Portable {
    /// What is to be kept aside of it.
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

    /// Takes up what was kept aside when it came, as far as it is still about the same.
    pub fn recall(&mut self, aside: &Json, came_at: Timestamp) {
        let Ok(kept) = serde_json::from_str::<Kept>(aside.as_str()) else {
            return;
        };
        let mut known = kept.lines.iter();
        for line in self.past.iter_mut().chain(&mut self.lines) {
            // The record may have lines in between that the files never had; the order is the same.
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

    /// The checkpoints that there were elsewhere count on.
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

/// A short mark of a text that is another for any other text (FNV-1a, which is the same on every machine and for ever).
pub(crate) fn mark(text: &str) -> String {
    let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let bytes = text.bytes().map(u128::from);
    let sum = bytes.fold(begin, |sum, byte| (sum ^ byte).wrapping_mul(prime));
    format!("{sum:032x}")
}

/// The speaker of a line by the name that files have for it.
pub(crate) fn speaker(name: &str) -> Option<Role> {
    match name {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        "system" => Some(Role::System),
        _ => None,
    }
}
