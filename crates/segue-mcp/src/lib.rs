//! What an agent may ask of segue, as an MCP server over a pair of byte streams.
//!
//! A thin layer: `tools.rs` says what can be asked and turns arguments into calls of the engine, whose answers are
//! text already. The only crate that sees `rmcp`, and none of its types leaves. Start at [`serve`].

mod desk;
mod server;
mod tools;
mod transport;

pub use desk::{Desk, LazyDesk};
pub use server::{ServeError, serve};
