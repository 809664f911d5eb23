//! The alternative to a store: one JSON file per session, which is read, parsed, extended and completely rewritten for
//! each message.
//!
//! This is the simplest solution that works for ten messages, and the baseline for the store. It has every advantage:
//! typed parsing, no validation of the input, no protection against a crash during the write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonChat {
    session_id: String,
    messages: Vec<JsonChatMessage>,
    metadata: JsonChatMetadata,
}

#[derive(Clone, Serialize, Deserialize)]
struct JsonChatMessage {
    id: String,
    timestamp: String,
    role: String,
    content: String,
    tokens: usize,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonChatMetadata {
    created_at: String,
    updated_at: String,
    message_count: usize,
    token_count: usize,
}

/// Point at which a rewrite counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncMode {
    /// The kernel has the bytes; a power failure loses them.
    Unsynced,
    /// The disk has the bytes, as with the store.
    Synced,
}

/// A session in one JSON file.
pub(crate) struct JsonChatFile {
    path: PathBuf,
    /// Content of the file before the measured message.
    initial_content: Vec<u8>,
    text: String,
}

impl JsonChatFile {
    /// Creates a chat whose next message is the `nth`.
    pub(crate) fn with_next_message(nth: u32, directory: &Path, text: &str) -> Self {
        let mut chat = JsonChat {
            session_id: "20251207_143022_k3f9".into(),
            messages: Vec::new(),
            metadata: JsonChatMetadata {
                created_at: "2025-12-07T14:30:22.000Z".into(),
                updated_at: "2025-12-07T14:30:22.000Z".into(),
                message_count: 0,
                token_count: 0,
            },
        };
        for _ in 1..nth {
            push_message(&mut chat, text);
        }
        Self {
            path: directory.join(format!("chat-{nth}.json")),
            initial_content: serde_json::to_vec_pretty(&chat).unwrap(),
            text: text.to_owned(),
        }
    }

    /// Adds the message and returns the time that it took. Syncs the file again after the measurement, so that an
    /// unsynced write does not slow down the next measurement.
    pub(crate) fn add_message(&self, sync_mode: SyncMode) -> Duration {
        fs::write(&self.path, &self.initial_content).unwrap();
        self.sync();
        let start = Instant::now();
        let mut chat: JsonChat = serde_json::from_slice(&fs::read(&self.path).unwrap()).unwrap();
        push_message(&mut chat, &self.text);
        fs::write(&self.path, serde_json::to_vec_pretty(&chat).unwrap()).unwrap();
        if sync_mode == SyncMode::Synced {
            self.sync();
        }
        let duration = start.elapsed();
        self.sync();
        duration
    }

    fn sync(&self) {
        File::open(&self.path).unwrap().sync_all().unwrap();
    }
}

fn push_message(chat: &mut JsonChat, text: &str) {
    let tokens = text.len() / 4;
    chat.messages.push(JsonChatMessage {
        id: "6f1c2a34-9d0b-4a57-8e21-3b5d7f90c1ae".into(),
        timestamp: "2025-12-07T14:30:22.000Z".into(),
        role: "assistant".into(),
        content: text.to_owned(),
        tokens,
    });
    chat.metadata.message_count += 1;
    chat.metadata.token_count += tokens;
}
