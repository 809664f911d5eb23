//! Legs: opening, reopening and branching of native sessions, agents that stay running, and handoffs.

pub(crate) mod agent_pool;
pub(crate) mod branch;
pub(crate) mod handoff;
pub(crate) mod native_resume;
pub(crate) mod open_leg;
