//! Lines of Claude Code's files, with the fields that segue reads.

use jiff::Timestamp;
use segue_core::session::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Blocks, Text};

/// A line, with the fields that segue reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) subtype: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) uuid: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) parent_uuid: Option<Text<'a>>,
    #[serde(default)]
    pub(super) is_sidechain: Option<bool>,
    #[serde(default)]
    pub(super) is_meta: Option<bool>,
    #[serde(default)]
    pub(super) is_compact_summary: Option<bool>,
    #[serde(default)]
    pub(super) is_api_error_message: Option<bool>,
    #[serde(borrow, default)]
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Spoken<'a>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) leaf_uuid: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) custom_title: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) ai_title: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) cwd: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) git_branch: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) version: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) forked_from: Option<Origin<'a>>,
    /// Cost in dollars, which only the first versions wrote.
    #[serde(default, rename = "costUSD")]
    pub(super) cost: Option<f64>,
}

/// An attachment that may be a message.
#[derive(Deserialize)]
pub(super) struct Queued<'a> {
    #[serde(borrow)]
    pub(super) attachment: Queue<'a>,
}

#[derive(Deserialize)]
pub(super) struct Queue<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) prompt: Option<Blocks<'a, Block<'a>>>,
    #[serde(default, rename = "isMeta")]
    pub(super) is_meta: Option<bool>,
}

/// Session from which a forked record was copied. Forks made by `--fork-session` do not contain it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Origin<'a> {
    #[serde(borrow, default)]
    pub(super) session_id: Option<Text<'a>>,
}

impl Line<'_> {
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref()?.parse().ok()
    }
}

/// Message of a line.
#[derive(Deserialize)]
pub(super) struct Spoken<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Blocks<'a, Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<Text<'a>>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
}

/// A block of a message. Its fields depend on its type.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) source: Option<Source<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Source<'a> {
    #[serde(borrow, default)]
    pub(super) media_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Text<'a>>,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Tokens {
    #[serde(rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    pub(super) written: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    pub(super) read: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(super) output: Option<u64>,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        // The numbers come from a file and can have any value, so the sums saturate.
        let add = |a: u64, b: Option<u64>| a.saturating_add(b.unwrap_or(0));
        let input = tokens
            .input
            .map(|input| add(add(input, tokens.written), tokens.read));
        let total = input.map(|input| add(input, tokens.output));
        Self {
            input_tokens: input,
            output_tokens: tokens.output,
            cached_tokens: tokens.read,
            total_tokens: total,
            context_tokens: total,
            context_window: None,
        }
    }
}
