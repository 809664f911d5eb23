//! opencode, which segue drives over ACP: the reader of its sessions.

mod artifacts;
mod database;
mod reader;
mod schema;
mod storage;

use std::sync::Arc;

use crate::descriptor::{NativeHome, ProviderDescriptor, SessionCommands};
use crate::reader::retention::Retention;

pub use reader::OpencodeReader;

/// opencode.
pub(crate) static OPENCODE_PROVIDER: ProviderDescriptor = ProviderDescriptor {
    name: "opencode",
    program: "opencode",
    driver: None,
    home: NativeHome::DataDir("opencode"),
    new_reader: |home, _| Arc::new(OpencodeReader::new(home)),
    read_retention: |_| Retention::Unlimited,
    session_commands: SessionCommands {
        resume: &["--session"],
        delete: Some(&["session", "delete"]),
        import: Some(&["import"]),
        unarchive: None,
    },
    has_file_open_while_in_use: false,
    // opencode marks most of its own texts.
    injected_prefixes: &["<system-reminder>"],
    failure_patterns: &[],
};
