//! The agents segue drives.
//!
//! [`Agent`] knows how to start a program, [`Conversation`] is one that runs. Every agent is a process group
//! on a [`leash`], so that nothing of it outlives us. One file a provider: [`rehearsal()`] is the built-in one;
//! [`known`] lists the others that people have.

mod acp;
mod agent;
mod error;
pub mod known;
pub mod leash;
mod mark;
mod process;
mod rehearsal;
mod stderr;

pub use acp::AcpAgent;
pub use agent::{Agent, Conversation, OpenRequest, Opening, Probe, Reply, Step};
pub use error::AgentError;
pub use mark::{Life, end_agent, life, mark_of, wait_until_gone};
pub use process::{Exit, Leash};
pub use rehearsal::rehearsal;
