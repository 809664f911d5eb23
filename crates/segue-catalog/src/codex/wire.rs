//! Payloads, with the fields that segue reads.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::json::{Blocks, Text};

#[derive(Deserialize)]
pub(super) struct Spoken<'a> {
    #[serde(borrow, default)]
    pub(super) role: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Blocks<'a, Block<'a>>>,
    #[serde(borrow, default, rename = "internal_chat_message_metadata_passthrough")]
    pub(super) about: Option<About<'a>>,
}

/// Origin of the blocks of a message, which newer versions record.
#[derive(Deserialize)]
pub(super) struct About<'a> {
    #[serde(borrow, default)]
    pub(super) content_item_kinds: Option<Vec<Text<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) image_url: Option<Text<'a>>,
}

impl Block<'_> {
    pub(super) fn words(&self) -> Option<&str> {
        self.text.as_deref().or(self.refusal.as_deref())
    }

    pub(super) fn is_image(&self) -> bool {
        &*self.r#type == "input_image"
    }
}

#[derive(Deserialize)]
pub(super) struct Reasoning<'a> {
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Block<'a>>>,
}

/// A call of any type.
#[derive(Deserialize)]
pub(super) struct Called<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) action: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Answered<'a> {
    #[serde(borrow, default)]
    pub(super) call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Picture<'a> {
    #[serde(borrow, default)]
    pub(super) result: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Compacted<'a> {
    #[serde(borrow, default)]
    pub(super) message: Option<Text<'a>>,
}

/// Fields of the events that segue reads.
#[derive(Deserialize)]
pub(super) struct Happened<'a> {
    #[serde(default)]
    pub(super) error: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub(super) last_agent_message: Option<Text<'a>>,
    #[serde(default)]
    pub(super) model_context_window: Option<u64>,
    #[serde(default)]
    pub(super) info: Option<Info>,
    #[serde(default)]
    pub(super) num_turns: Option<u32>,
    #[serde(borrow, default)]
    pub(super) thread_name: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Info {
    #[serde(default)]
    pub(super) last_token_usage: Option<Tokens>,
    #[serde(default)]
    pub(super) model_context_window: Option<u64>,
}

/// Settings of a turn.
#[derive(Deserialize)]
pub(super) struct Context<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Used<'a> {
    #[serde(borrow, default)]
    pub(super) response_id: Option<Text<'a>>,
    pub(super) usage: Tokens,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct Tokens {
    #[serde(default, rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(default, rename = "cached_input_tokens")]
    pub(super) cached: Option<u64>,
    #[serde(default, rename = "output_tokens")]
    pub(super) output: Option<u64>,
    #[serde(default, rename = "total_tokens")]
    pub(super) total: Option<u64>,
}
