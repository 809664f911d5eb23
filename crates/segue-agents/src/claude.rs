//! Claude Code, driven by one process per connection over its JSON lines, or else through an ACP adapter.

mod artifacts;
mod connection;
mod driver;
mod mcp_config;
mod permission;
mod reader;
mod replay_filter;
mod retention;
mod schema;
mod session_head;
mod stream;
mod tool_calls;
mod turn_end;
mod user_text;

pub use driver::claude_provider;
pub use reader::ClaudeReader;
pub(crate) use retention::read_retention;
