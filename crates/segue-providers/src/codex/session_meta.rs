//! First line of a file.

use jiff::Timestamp;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::reader::borrowed_json::JsonText;

/// Metadata in the first line of a file.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileMeta<'a> {
    ordinal: Option<u64>,
    pub(super) payload: CodexFileMetaPayload<'a>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct CodexFileMetaPayload<'a> {
    pub(super) id: Option<JsonText<'a>>,
    timestamp: Option<JsonText<'a>>,
    pub(super) cwd: Option<JsonText<'a>>,
    pub(super) cli_version: Option<JsonText<'a>>,
    source: Option<&'a RawValue>,
    thread_source: Option<JsonText<'a>>,
    pub(super) forked_from_id: Option<JsonText<'a>>,
    forked_from_ordinal_exclusive: Option<u64>,
    history_base: Option<CodexFileHistoryBase<'a>>,
    git: Option<CodexFileGit<'a>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CodexFileHistoryBase<'a> {
    thread_id: JsonText<'a>,
    end_ordinal_exclusive: Option<u64>,
    end_byte_offset: Option<u64>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CodexFileGit<'a> {
    branch: Option<JsonText<'a>>,
}

/// File that another file continues, and the end of its valid part.
pub(super) struct CodexHistoryBase {
    pub(super) file_id: String,
    pub(super) end_ordinal: Option<u64>,
    pub(super) end_byte: Option<u64>,
}

impl<'a> CodexFileMeta<'a> {
    /// Parses a first line. The parse is faster if [`strip_instructions`] was applied to the line before.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok().or_else(|| {
            // The oldest files have no frame around the metadata.
            let payload: CodexFileMetaPayload<'_> = serde_json::from_slice(line).ok()?;
            payload.id.is_some().then_some(Self {
                ordinal: None,
                payload,
            })
        })
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        self.payload.timestamp.as_deref()?.parse().ok()
    }

    pub(super) fn branch(&self) -> Option<&str> {
        self.payload.git.as_ref()?.branch.as_deref()
    }

    /// Returns `true` if the session is the work of an agent for another session or for itself.
    pub(super) fn is_subagent(&self) -> bool {
        let payload = &self.payload;
        // The source of a conversation is a string. The source of a session that an agent started is an object.
        let source = payload.source.map_or("", RawValue::get);
        let has_key = |key: &str| {
            let inside = source.trim_start_matches(|c: char| c == '{' || c.is_whitespace());
            source.starts_with('{') && inside.starts_with(key)
        };
        let subagent_keys = ["\"subagent", "\"sub_agent", "\"internal"];
        subagent_keys.into_iter().any(has_key)
            || matches!(
                payload.thread_source.as_deref(),
                Some("subagent" | "memory_consolidation")
            )
    }

    /// Returns the file that this file continues. `None` if its first record is the first of the conversation.
    pub(super) fn base(&self) -> Option<CodexHistoryBase> {
        let payload = &self.payload;
        if let Some(base) = &payload.history_base {
            return Some(CodexHistoryBase {
                file_id: base.thread_id.to_string(),
                end_ordinal: base.end_ordinal_exclusive,
                end_byte: base.end_byte_offset,
            });
        }
        self.ordinal.filter(|&ordinal| ordinal > 0)?;
        Some(CodexHistoryBase {
            file_id: payload.forked_from_id.as_deref()?.to_owned(),
            end_ordinal: Some(payload.forked_from_ordinal_exclusive?),
            end_byte: None,
        })
    }
}

/// Removes the instructions to the model from a first line, because they are most of it and segue does not need them.
pub(super) fn strip_instructions(line: &[u8]) -> Vec<u8> {
    const INSTRUCTIONS_PREFIX: &[u8] = b"\"base_instructions\":{\"text\":\"";
    let strip = || {
        let begin = memmem::find(line, INSTRUCTIONS_PREFIX)? + INSTRUCTIONS_PREFIX.len();
        let text = line.get(begin..)?;
        let is_closing_quote = |&at: &usize| {
            let before = text.get(..at).unwrap_or_default();
            let escapes = before.iter().rev().take_while(|&&byte| byte == b'\\');
            escapes.count() % 2 == 0
        };
        let end = memchr::memchr_iter(b'"', text).find(is_closing_quote)?;
        Some([line.get(..begin)?, text.get(end..)?].concat())
    };
    strip().unwrap_or_else(|| line.to_vec())
}
