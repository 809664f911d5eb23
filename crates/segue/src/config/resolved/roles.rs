//! Roles from the settings.

use std::collections::BTreeMap;

use segue_core::agent::{RoleChange, Roles};
use segue_core::scope::RoleName;

use super::at;
use crate::config::key::{Key, RoleKey};
use crate::config::problem::{Problem, Wrong};
use crate::config::value::{Layer, Value};

/// Returns the built-in roles with the changes of the settings, and the roles that the settings add.
pub(crate) fn roles(settings: &Layer) -> Roles {
    let mut changes: BTreeMap<&RoleName, RoleChange> = BTreeMap::new();
    for (key, entry) in settings {
        let Key::Role(name, key) = key else {
            continue;
        };
        let change = changes.entry(name).or_default();
        match (key, &entry.value) {
            (RoleKey::Role, Value::Text(text)) => change.role = Some(text.clone()),
            (RoleKey::ToolInstructions, Value::Text(text)) => {
                change.tool_instructions = Some(text.clone());
            }
            (RoleKey::Instructions, Value::Texts(texts)) => {
                change.instructions = Some(texts.clone());
            }
            (RoleKey::AllowedTools, Value::Texts(texts)) => {
                change.allowed_tools = Some(texts.clone());
            }
            _ => {}
        }
    }
    let mut roles = Roles::default();
    for (name, change) in changes {
        roles.change(name, change);
    }
    roles
}

/// Returns the problems of roles that no source describes.
pub(super) fn gaps(settings: &Layer) -> Vec<Problem> {
    let roles = roles(settings);
    let mut problems = Vec::new();
    let mut told = None;
    for (key, entry) in settings {
        if let Key::Role(name, _) = key
            && roles.get(name).is_none()
            && told != Some(name)
        {
            told = Some(name);
            let wrong = Wrong::new(format!(
                "roles.{name} has no `role`: nobody says what it is"
            ));
            let hint = "say it in a sentence or two, like role = \"You review changes.\"";
            problems.extend(at(entry, wrong.hint(hint)));
        }
    }
    problems
}
