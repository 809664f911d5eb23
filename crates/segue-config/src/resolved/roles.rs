//! Roles from the settings.

use std::collections::BTreeMap;

use segue_core::agent::{RoleOverride, RoleRegistry};
use segue_core::scope::RoleName;

use super::locate_problem;
use crate::key::{ConfigKey, RoleKey};
use crate::problem::{ConfigProblem, ValueError};
use crate::setting::{ConfigLayer, ConfigValue};

/// Returns the built-in roles with the changes of the settings, and the roles that the settings add.
pub fn resolve_roles(settings: &ConfigLayer) -> RoleRegistry {
    let mut overrides: BTreeMap<&RoleName, RoleOverride> = BTreeMap::new();
    for (key, entry) in settings {
        let ConfigKey::Role(name, key) = key else {
            continue;
        };
        let role_override = overrides.entry(name).or_default();
        match (key, &entry.value) {
            (RoleKey::Role, ConfigValue::Text(text)) => {
                role_override.description = Some(text.clone());
            }
            (RoleKey::ToolInstructions, ConfigValue::Text(text)) => {
                role_override.tool_instructions = Some(text.clone());
            }
            (RoleKey::Instructions, ConfigValue::TextList(texts)) => {
                role_override.instructions = Some(texts.clone());
            }
            (RoleKey::AllowedTools, ConfigValue::TextList(texts)) => {
                role_override.allowed_tools = Some(texts.clone());
            }
            _ => {}
        }
    }
    let mut roles = RoleRegistry::default();
    for (name, role_override) in overrides {
        roles.apply_override(name, role_override);
    }
    roles
}

/// Returns the problems of roles that no source describes.
pub(crate) fn find_undescribed_roles(settings: &ConfigLayer) -> Vec<ConfigProblem> {
    let roles = resolve_roles(settings);
    let mut problems = Vec::new();
    let mut last_reported = None;
    for (key, entry) in settings {
        if let ConfigKey::Role(name, _) = key
            && roles.get(name).is_none()
            && last_reported != Some(name)
        {
            last_reported = Some(name);
            let error = ValueError::new(format!("roles.{name} needs a `role` that describes it"));
            let hint = "describe it in a sentence or two, such as role = \"You review changes.\"";
            problems.extend(locate_problem(entry, error.with_hint(hint)));
        }
    }
    problems
}
