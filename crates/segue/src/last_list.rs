//! The sessions of the last list that was shown, so that they can be named by number.
//!
//! A convenience that may be lost at any time: nothing is reported when it can't be written or read.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use segue_core::{NativeId, ProviderId, SessionId};
use segue_engine::ConversationId;

const FILE: &str = "last-list";

/// Remembers a list.
pub(crate) fn remember(home: &Path, listed: &[ConversationId]) {
    let lines: Vec<String> = listed.iter().map(ToString::to_string).collect();
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(home.join(FILE));
    let _ = file.and_then(|mut file| file.write_all(lines.join("\n").as_bytes()));
}

/// The list that was remembered last.
pub(crate) fn recall(home: &Path) -> Vec<ConversationId> {
    let text = std::fs::read_to_string(home.join(FILE)).unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<ConversationId> {
    match line.split_once(':') {
        None => SessionId::parse(line).ok().map(ConversationId::Session),
        Some((provider, id)) => Some(ConversationId::Native(
            ProviderId::parse(provider).ok()?,
            NativeId::parse(id).ok()?,
        )),
    }
}
