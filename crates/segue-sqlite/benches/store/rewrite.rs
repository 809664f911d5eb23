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
struct Chat {
    session_id: String,
    messages: Vec<ChatMessage>,
    metadata: Metadata,
}

#[derive(Clone, Serialize, Deserialize)]
struct ChatMessage {
    id: String,
    timestamp: String,
    role: String,
    content: String,
    tokens: usize,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    created_at: String,
    updated_at: String,
    message_count: usize,
    token_count: usize,
}

/// Point at which a rewrite counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// The kernel has the bytes; a power failure loses them.
    Written,
    /// The disk has the bytes, as with the store.
    Synced,
}

/// A session in one JSON file.
pub(crate) struct ChatFile {
    path: PathBuf,
    /// Content of the file before the measured message.
    before: Vec<u8>,
    text: String,
}

impl ChatFile {
    /// Creates a chat whose next message is the `nth`.
    pub(crate) fn before(nth: u32, directory: &Path, text: &str) -> Self {
        let mut chat = Chat {
            session_id: "20251207_143022_k3f9".into(),
            messages: Vec::new(),
            metadata: Metadata {
                created_at: "2025-12-07T14:30:22.000Z".into(),
                updated_at: "2025-12-07T14:30:22.000Z".into(),
                message_count: 0,
                token_count: 0,
            },
        };
        for _ in 1..nth {
            add(&mut chat, text);
        }
        Self {
            path: directory.join(format!("chat-{nth}.json")),
            before: serde_json::to_vec_pretty(&chat).unwrap(),
            text: text.to_owned(),
        }
    }

    /// Adds the message and returns the time that it took. Syncs the file again after the measurement, so that an
    /// unsynced write does not slow down the next measurement.
    pub(crate) fn add_message(&self, done: Done) -> Duration {
        fs::write(&self.path, &self.before).unwrap();
        self.sync();
        let start = Instant::now();
        let mut chat: Chat = serde_json::from_slice(&fs::read(&self.path).unwrap()).unwrap();
        add(&mut chat, &self.text);
        fs::write(&self.path, serde_json::to_vec_pretty(&chat).unwrap()).unwrap();
        if done == Done::Synced {
            self.sync();
        }
        let took = start.elapsed();
        self.sync();
        took
    }

    fn sync(&self) {
        File::open(&self.path).unwrap().sync_all().unwrap();
    }
}

fn add(chat: &mut Chat, text: &str) {
    let tokens = text.len() / 4;
    chat.messages.push(ChatMessage {
        id: "6f1c2a34-9d0b-4a57-8e21-3b5d7f90c1ae".into(),
        timestamp: "2025-12-07T14:30:22.000Z".into(),
        role: "assistant".into(),
        content: text.to_owned(),
        tokens,
    });
    chat.metadata.message_count += 1;
    chat.metadata.token_count += tokens;
}
