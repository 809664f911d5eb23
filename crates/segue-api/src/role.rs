//! Roles of agents.

use schemars::JsonSchema;
use segue_core::agent::RoleDescription;
use serde::{Deserialize, Serialize};

/// A role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListedRole {
    /// The role.
    #[serde(flatten)]
    pub role: RoleDescription,
    /// Sources of the role: `segue`, and the files that change it.
    pub from: Vec<String>,
}
