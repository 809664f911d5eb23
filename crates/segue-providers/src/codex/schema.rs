//! Payloads, with the fields that segue reads.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::reader::borrowed_json::{JsonText, TextOrBlocks};

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileMessage<'a> {
    pub(super) role: Option<JsonText<'a>>,
    pub(super) content: Option<TextOrBlocks<'a, CodexFileBlock<'a>>>,
    #[serde(rename = "internal_chat_message_metadata_passthrough")]
    pub(super) metadata: Option<CodexFileMessageMetadata<'a>>,
}

/// Origin of the blocks of a message, which newer versions record.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileMessageMetadata<'a> {
    pub(super) content_item_kinds: Option<Vec<JsonText<'a>>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileBlock<'a> {
    pub(super) r#type: JsonText<'a>,
    pub(super) text: Option<JsonText<'a>>,
    pub(super) refusal: Option<JsonText<'a>>,
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
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileReasoning<'a> {
    pub(super) summary: Option<Vec<CodexFileBlock<'a>>>,
    pub(super) content: Option<Vec<CodexFileBlock<'a>>>,
}

/// A call of any type.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileCall<'a> {
    pub(super) id: Option<JsonText<'a>>,
    pub(super) call_id: Option<JsonText<'a>>,
    pub(super) name: Option<JsonText<'a>>,
    pub(super) namespace: Option<JsonText<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) action: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileCallOutput<'a> {
    pub(super) call_id: Option<JsonText<'a>>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) tools: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileImage<'a> {
    pub(super) result: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileCompacted<'a> {
    pub(super) message: Option<JsonText<'a>>,
}

/// Fields of the events that segue reads.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileEvent<'a> {
    pub(super) error: Option<IgnoredAny>,
    pub(super) last_agent_message: Option<JsonText<'a>>,
    pub(super) model_context_window: Option<u64>,
    pub(super) info: Option<CodexFileTokenInfo>,
    pub(super) num_turns: Option<u32>,
    pub(super) thread_name: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CodexFileTokenInfo {
    pub(super) last_token_usage: Option<CodexFileTokenUsage>,
    pub(super) model_context_window: Option<u64>,
}

/// Settings of a turn.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileTurnContext<'a> {
    pub(super) model: Option<JsonText<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileUsageRecord<'a> {
    pub(super) response_id: Option<JsonText<'a>>,
    pub(super) usage: CodexFileTokenUsage,
}

#[derive(Deserialize, Clone, Copy)]
pub(super) struct CodexFileTokenUsage {
    #[serde(rename = "input_tokens")]
    pub(super) input: Option<u64>,
    #[serde(rename = "cached_input_tokens")]
    pub(super) cached: Option<u64>,
    #[serde(rename = "output_tokens")]
    pub(super) output: Option<u64>,
    #[serde(rename = "total_tokens")]
    pub(super) total: Option<u64>,
}
