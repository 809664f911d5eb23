//! Codex, driven over `codex app-server`, by `codex exec` or through an ACP adapter.

mod acp;
mod app_server;
mod artifacts;
mod config_overrides;
mod driver;
mod exec;
mod executable;
mod failure;
mod folder_trust;
mod history;
mod home;
mod items;
mod line_format;
mod line_frame;
mod read_only_command;
mod reader;
mod rollout;
mod schema;
mod session_meta;
mod startup_retry;
mod tool_failure;
mod usage;

pub use driver::codex_provider;
pub use reader::CodexReader;
