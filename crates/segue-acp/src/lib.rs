//! The Agent Client Protocol in segue's own types.
//!
//! [`Client`] talks to any agent over a pair of byte streams; [`rehearsal`] is the built-in offline agent on
//! the other end of such a pair. The only crate that sees `agent-client-protocol`, and none of its types
//! leaves. Processes are not its business: they are `segue-agents`'.

mod client;
mod error;
mod lines;
pub mod rehearsal;
mod session;
mod tool_calls;
mod update;

pub use client::{Canceller, Client, Replier, Step};
pub use error::AcpError;
pub use session::{SessionEntry, Terms};
