//! The commands, one module per command.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod index;
pub(crate) mod internal;
pub(crate) mod mcp;
pub(crate) mod picker;
pub(crate) mod repl;
pub(crate) mod role;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod trust;
