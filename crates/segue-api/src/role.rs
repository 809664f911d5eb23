//! Roles of agents.

use schemars::JsonSchema;
use segue_core::agent::RoleDescription;
use segue_core::scope::RoleName;
use serde::{Deserialize, Serialize};

/// A role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedRole {
    /// Name of the role.
    pub name: RoleName,
    /// Description of the role.
    pub role: String,
    /// Rules that the agent follows.
    pub instructions: Vec<String>,
    /// Tools that the agent may use; null for all tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Instructions for using the tools; null if there are none.
    pub tool_instructions: Option<String>,
    /// Sources of the role: `segue`, and the files that change it.
    pub from: Vec<String>,
}

impl ListedRole {
    /// Builds the entry of a role.
    #[must_use]
    pub fn new(role: &RoleDescription, from: Vec<String>) -> Self {
        Self {
            name: role.name.clone(),
            role: role.description.clone(),
            instructions: role.instructions.clone(),
            allowed_tools: role.allowed_tools.clone(),
            tool_instructions: role.tool_instructions.clone(),
            from,
        }
    }
}
