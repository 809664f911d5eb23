//! MCP server over a pair of byte streams, with which an agent queries segue.
//!
//! The layer is thin: `tools.rs` defines the tools and converts their arguments to calls of the engine, which returns
//! text. Only this crate uses `rmcp`, and it exposes none of its types. Start at [`serve`].

mod lenient_transport;
mod server;
mod tool_context;
mod tools;

pub use server::{ServeError, serve};
pub use tool_context::{LazyToolContext, ToolContext, ToolContextOpener};
