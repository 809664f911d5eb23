//! Agents: their capabilities, permissions, roles, MCP servers and processes.

mod capability;
mod mcp_server;
pub(crate) mod model_prefix;
mod permission;
mod process_identity;
mod role;
mod role_registry;

pub use capability::{Capabilities, How};
pub use mcp_server::{McpReach, McpServer};
pub use permission::{
    PermissionAnswer, PermissionKind, PermissionOption, PermissionPolicy, PermissionRequest,
};
pub use process_identity::ProcessMark;
pub use role::RoleDescription;
pub use role_registry::{RoleChange, Roles};
