//! First line of a file.

use jiff::Timestamp;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::reader::borrowed_json::JsonText;

/// Metadata in the first line of a file.
#[derive(Deserialize)]
pub(super) struct CodexFileMeta<'a> {
    #[serde(default)]
    ordinal: Option<u64>,
    #[serde(borrow, default)]
    payload: Option<CodexFileMetaPayload<'a>>,
    /// Id in the oldest files, which have no payload.
    #[serde(borrow, default)]
    id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    git: Option<CodexFileGit<'a>>,
}

#[derive(Deserialize)]
struct CodexFileMetaPayload<'a> {
    #[serde(borrow, default)]
    id: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    timestamp: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    cwd: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    cli_version: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    source: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thread_source: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    forked_from_id: Option<JsonText<'a>>,
    #[serde(default)]
    forked_from_ordinal_exclusive: Option<u64>,
    #[serde(borrow, default)]
    history_base: Option<CodexFileHistoryBase<'a>>,
    #[serde(borrow, default)]
    git: Option<CodexFileGit<'a>>,
}

#[derive(Deserialize)]
struct CodexFileHistoryBase<'a> {
    #[serde(borrow)]
    thread_id: JsonText<'a>,
    #[serde(default)]
    end_ordinal_exclusive: Option<u64>,
    #[serde(default)]
    end_byte_offset: Option<u64>,
}

#[derive(Deserialize)]
struct CodexFileGit<'a> {
    #[serde(borrow, default)]
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
        let meta: Self = serde_json::from_slice(line).ok()?;
        (meta.payload.is_some() || meta.id.is_some()).then_some(meta)
    }

    pub(super) fn id(&self) -> Option<&str> {
        let payload = self.payload.as_ref();
        payload.map_or(&self.id, |payload| &payload.id).as_deref()
    }

    pub(super) fn created_at(&self) -> Option<Timestamp> {
        let payload = self.payload.as_ref();
        let at = payload.map_or(&self.timestamp, |payload| &payload.timestamp);
        at.as_deref()?.parse().ok()
    }

    pub(super) fn cwd(&self) -> Option<&str> {
        self.payload.as_ref()?.cwd.as_deref()
    }

    pub(super) fn version(&self) -> Option<&str> {
        self.payload.as_ref()?.cli_version.as_deref()
    }

    pub(super) fn branch(&self) -> Option<&str> {
        let payload = self.payload.as_ref();
        let git = payload.map_or(&self.git, |payload| &payload.git);
        git.as_ref()?.branch.as_deref()
    }

    pub(super) fn forked_from(&self) -> Option<&str> {
        self.payload.as_ref()?.forked_from_id.as_deref()
    }

    /// Returns `true` if the session is the work of an agent for another session or for itself.
    pub(super) fn is_subagent(&self) -> bool {
        let Some(payload) = &self.payload else {
            return false;
        };
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
        let payload = self.payload.as_ref()?;
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
