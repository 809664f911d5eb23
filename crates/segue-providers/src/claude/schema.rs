//! Lines of Claude Code's files, with the fields that segue reads.

use jiff::Timestamp;
use segue_core::session::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::RecordEvent;
use crate::reader::borrowed_json::{JsonText, TextOrBlocks};

/// A line, with the fields that segue reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileLine<'a> {
    pub(super) r#type: JsonText<'a>,
    pub(super) subtype: Option<JsonText<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) uuid: Option<JsonText<'a>>,
    pub(super) parent_uuid: Option<JsonText<'a>>,
    pub(super) is_sidechain: Option<bool>,
    pub(super) is_meta: Option<bool>,
    pub(super) is_compact_summary: Option<bool>,
    pub(super) is_api_error_message: Option<bool>,
    pub(super) timestamp: Option<JsonText<'a>>,
    pub(super) message: Option<ClaudeFileMessage<'a>>,
    pub(super) summary: Option<JsonText<'a>>,
    pub(super) leaf_uuid: Option<JsonText<'a>>,
    pub(super) custom_title: Option<JsonText<'a>>,
    pub(super) ai_title: Option<JsonText<'a>>,
    pub(super) cwd: Option<JsonText<'a>>,
    pub(super) git_branch: Option<JsonText<'a>>,
    pub(super) version: Option<JsonText<'a>>,
    pub(super) forked_from: Option<ClaudeFileForkOrigin<'a>>,
    /// Cost in dollars, which only the first versions wrote.
    #[serde(rename = "costUSD")]
    pub(super) cost_usd: Option<f64>,
}

/// An attachment that may be a message.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileAttachmentLine<'a> {
    pub(super) attachment: ClaudeFileAttachment<'a>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileAttachment<'a> {
    pub(super) r#type: JsonText<'a>,
    pub(super) prompt: Option<TextOrBlocks<'a, ClaudeFileBlock<'a>>>,
    #[serde(rename = "isMeta")]
    pub(super) is_meta: Option<bool>,
}

/// Session from which a forked record was copied. Forks made by `--fork-session` do not contain it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileForkOrigin<'a> {
    pub(super) session_id: Option<JsonText<'a>>,
}

impl ClaudeFileLine<'_> {
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.timestamp.as_deref()?.parse().ok()
    }

    /// Returns the event of a record to which later records refer. `None` if the line has no key.
    pub(super) fn anchor(&self) -> Option<RecordEvent> {
        let key = self.uuid.as_deref()?.to_owned();
        Some(RecordEvent::Anchor(key))
    }
}

/// Message of a line.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileMessage<'a> {
    pub(super) id: Option<JsonText<'a>>,
    pub(super) model: Option<JsonText<'a>>,
    pub(super) content: Option<TextOrBlocks<'a, ClaudeFileBlock<'a>>>,
    pub(super) stop_reason: Option<JsonText<'a>>,
    pub(super) usage: Option<ClaudeFileUsage>,
}

/// A block of a message. Its fields depend on its type.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileBlock<'a> {
    pub(super) r#type: JsonText<'a>,
    pub(super) text: Option<JsonText<'a>>,
    pub(super) thinking: Option<JsonText<'a>>,
    pub(super) id: Option<JsonText<'a>>,
    pub(super) name: Option<JsonText<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<JsonText<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    pub(super) source: Option<ClaudeFileSource<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeFileSource<'a> {
    pub(super) media_type: Option<JsonText<'a>>,
    pub(super) data: Option<JsonText<'a>>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct ClaudeFileUsage {
    #[serde(rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(super) cache_write: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    pub(super) cache_read: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(super) output: Option<u64>,
}

impl From<ClaudeFileUsage> for Usage {
    fn from(tokens: ClaudeFileUsage) -> Self {
        // The numbers come from a file and can have any value, so the sums saturate.
        let add = |a: u64, b: Option<u64>| a.saturating_add(b.unwrap_or(0));
        let input = tokens
            .input
            .map(|input| add(add(input, tokens.cache_write), tokens.cache_read));
        let total = input.map(|input| add(input, tokens.output));
        Self {
            input_tokens: input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cache_read,
            total_tokens: total,
            context_tokens: total,
            context_window: None,
        }
    }
}
