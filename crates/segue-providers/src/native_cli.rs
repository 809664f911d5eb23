//! An agent's own program: handover of the terminal to it, and its commands for its own sessions.

pub mod resume;
mod session_commands;

pub use session_commands::{NativeCli, NativeCliError};
