//! Agents that segue drives.
//!
//! An [`Agent`] can start a program; a [`Conversation`] is a running one. Every agent is a process group on a
//! [`leash`], so that no process of it outlives segue. A [`Provider`] is a program with its transports, each in a file
//! of its own: [`claude()`], [`codex()`], [`gemini()`], [`acp()`] for any other program that speaks the Agent Client
//! Protocol, and [`rehearsal()`], the built-in offline agent.

mod acp;
mod agent;
pub mod busy;
mod classify;
mod claude;
mod codex;
mod error;
pub mod exec;
mod gemini;
pub mod known;
pub mod leash;
mod mark;
mod noise;
mod own;
mod process;
mod prompt;
mod provider;
mod rehearsal;
mod stderr;
mod uuid;
mod wire;

pub use acp::{AcpAgent, acp};
pub use agent::{
    Agent, Conversation, Defaults, Listed, NativePoint, OpenRequest, Opening, Probe, Reply,
    SessionDefault, Step, Timeouts,
};
pub use classify::Refusal;
pub use claude::claude;
pub use codex::codex;
pub use error::AgentError;
pub use gemini::{Entrust, forget as forget_kept, gemini};
pub use mark::{Life, end_agent, life, mark_of, wait_until_gone};
pub use own::{Own, OwnError};
pub use process::{Exit, Leash};
pub use provider::{Host, Outside, Provider, Settings, Way};
pub use rehearsal::rehearsal;
