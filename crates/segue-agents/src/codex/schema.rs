//! Payloads, with the fields that segue reads.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::reader::borrowed_json::{JsonText, TextOrBlocks};

#[derive(Deserialize)]
pub(super) struct CodexFileMessage<'a> {
    #[serde(borrow, default)]
    pub(super) role: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<TextOrBlocks<'a, CodexFileBlock<'a>>>,
    #[serde(borrow, default, rename = "internal_chat_message_metadata_passthrough")]
    pub(super) metadata: Option<CodexFileMessageMetadata<'a>>,
}

/// Origin of the blocks of a message, which newer versions record.
#[derive(Deserialize)]
pub(super) struct CodexFileMessageMetadata<'a> {
    #[serde(borrow, default)]
    pub(super) content_item_kinds: Option<Vec<JsonText<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileBlock<'a> {
    #[serde(borrow)]
    pub(super) r#type: JsonText<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) image_url: Option<JsonText<'a>>,
}

impl CodexFileBlock<'_> {
    pub(super) fn text_or_refusal(&self) -> Option<&str> {
        self.text.as_deref().or(self.refusal.as_deref())
    }

    pub(super) fn is_image(&self) -> bool {
        &*self.r#type == "input_image"
    }
}

#[derive(Deserialize)]
pub(super) struct CodexFileReasoning<'a> {
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<CodexFileBlock<'a>>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<CodexFileBlock<'a>>>,
}

/// A call of any type.
#[derive(Deserialize)]
pub(super) struct CodexFileCall<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) namespace: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) action: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileCallOutput<'a> {
    #[serde(borrow, default)]
    pub(super) call_id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileImage<'a> {
    #[serde(borrow, default)]
    pub(super) result: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileCompacted<'a> {
    #[serde(borrow, default)]
    pub(super) message: Option<JsonText<'a>>,
}

/// Fields of the events that segue reads.
#[derive(Deserialize)]
pub(super) struct CodexFileEvent<'a> {
    #[serde(default)]
    pub(super) error: Option<IgnoredAny>,
    #[serde(borrow, default)]
    pub(super) last_agent_message: Option<JsonText<'a>>,
    #[serde(default)]
    pub(super) model_context_window: Option<u64>,
    #[serde(default)]
    pub(super) info: Option<CodexFileTokenInfo>,
    #[serde(default)]
    pub(super) num_turns: Option<u32>,
    #[serde(borrow, default)]
    pub(super) thread_name: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileTokenInfo {
    #[serde(default)]
    pub(super) last_token_usage: Option<CodexFileTokenUsage>,
    #[serde(default)]
    pub(super) model_context_window: Option<u64>,
}

/// Settings of a turn.
#[derive(Deserialize)]
pub(super) struct CodexFileTurnContext<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileUsageRecord<'a> {
    #[serde(borrow, default)]
    pub(super) response_id: Option<JsonText<'a>>,
    pub(super) usage: CodexFileTokenUsage,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct CodexFileTokenUsage {
    #[serde(default, rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(default, rename = "cached_input_tokens")]
    pub(super) cached: Option<u64>,
    #[serde(default, rename = "output_tokens")]
    pub(super) output: Option<u64>,
    #[serde(default, rename = "total_tokens")]
    pub(super) total: Option<u64>,
}
