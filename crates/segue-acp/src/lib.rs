//! The Agent Client Protocol in segue's own types.
//!
//! [`Client`] connects to any agent over a pair of byte streams; [`rehearsal`] is the built-in offline agent at the
//! other end of such a pair. Only this crate uses `agent-client-protocol`, and it exposes none of its types. It starts
//! no processes: `segue-providers` does.

mod client;
mod error;
mod incoming;
pub mod rehearsal;
mod session;
mod tool_calls;
mod update;

pub use client::{Canceller, Client, ClientEvent, PermissionReplier};
pub use error::AcpError;
pub use session::{SessionEntry, SessionOptions};
