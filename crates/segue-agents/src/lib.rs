//! Agents that segue drives.
//!
//! An [`Agent`] can start a program; an [`AgentConnection`] is a running one. Every agent is a process group on a
//! [`leash`], so that no process of it outlives segue. A [`Provider`] is a program with its transports, each in a file
//! of its own: [`claude_provider()`], [`codex_provider()`], [`gemini_provider()`], [`acp_provider()`] for any other
//! program that speaks the Agent Client Protocol, and [`rehearsal_agent()`], the built-in offline agent.

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

pub use acp::{AcpAgent, acp_provider};
pub use agent::{
    Agent, AgentConnection, AgentDefaults, BranchPoint, ConnectionEvent, ListedNativeSession,
    OpenRequest, OpenedConnection, PermissionReply, Probe, SessionDefault, Timeouts,
    TransportFallback,
};
pub use classify::AgentRefusal;
pub use claude::claude_provider;
pub use codex::codex_provider;
pub use error::AgentError;
pub use gemini::{UnattendedGuard, gemini_provider, remove_session_copies};
pub use mark::{ProcessStatus, end_agent, identify_process, process_status, wait_until_ended};
pub use own::{NativeCli, NativeCliError};
pub use process::{Exit, LeashCommand};
pub use provider::{AgentHost, Provider, ProviderSettings, SystemFns, Transport};
pub use rehearsal::rehearsal_agent;
