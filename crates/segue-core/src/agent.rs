//! Agents: their capabilities, permissions, roles, MCP servers and processes.

mod capability;
mod mcp_server;
pub(crate) mod model_prefix;
mod permission;
mod process_identity;
mod role;
mod role_registry;

pub use capability::{Capabilities, CapabilitySource};
pub use mcp_server::{McpEndpoint, McpServer};
pub use permission::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
};
pub use process_identity::ProcessIdentity;
pub use role::RoleDescription;
pub use role_registry::{RoleOverride, RoleRegistry};
