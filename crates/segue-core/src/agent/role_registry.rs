//! Role registry: built-in roles with the user's changes, and the user's own roles.

use std::collections::BTreeMap;

use crate::agent::RoleDescription;
use crate::scope::RoleName;

/// Entry in a list of tools that allows all tools.
const ALL_TOOLS: &str = "*";

/// All roles, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRegistry(BTreeMap<RoleName, RoleDescription>);

/// A change to a role. Fields that are `None` stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleOverride {
    /// Description of the role.
    pub description: Option<String>,
    /// Rules that the agent follows.
    pub instructions: Option<Vec<String>>,
    /// Tools that the agent may use; `*` allows all tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Instructions for using the tools. An empty text removes them.
    pub tool_instructions: Option<String>,
}

/// Returns the built-in roles.
impl Default for RoleRegistry {
    fn default() -> Self {
        let roles = RoleDescription::built_in_roles();
        Self(roles.map(|role| (role.name.clone(), role)).collect())
    }
}

impl RoleRegistry {
    /// Returns the role with this name. `None` if it does not exist.
    #[must_use]
    pub fn get(&self, name: &RoleName) -> Option<&RoleDescription> {
        self.0.get(name)
    }

    /// Returns all roles, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &RoleDescription> {
        self.0.values()
    }

    /// Changes a role, or adds a role if `role_override` has a description. Returns `true` if the role exists
    /// afterwards. A new role without a list of tools may use all tools, like an agent without a role.
    pub fn apply_override(&mut self, name: &RoleName, role_override: RoleOverride) -> bool {
        let new_role = || {
            Some(RoleDescription {
                name: name.clone(),
                description: role_override.description.clone()?,
                instructions: Vec::new(),
                allowed_tools: None,
                tool_instructions: None,
            })
        };
        let Some(mut role) = self.0.get(name).cloned().or_else(new_role) else {
            return false;
        };
        if let Some(text) = role_override.description {
            role.description = text;
        }
        if let Some(instructions) = role_override.instructions {
            role.instructions = instructions;
        }
        if let Some(tools) = role_override.allowed_tools {
            let allows_all = tools.iter().any(|tool| tool == ALL_TOOLS);
            role.allowed_tools = (!allows_all).then_some(tools);
        }
        if let Some(tool_instructions) = role_override.tool_instructions {
            role.tool_instructions = Some(tool_instructions)
                .filter(|tool_instructions| !tool_instructions.trim().is_empty());
        }
        self.0.insert(name.clone(), role);
        true
    }

    /// Returns `true` if a role could do more with `tools` than now. `false` for a role that does not exist yet,
    /// because it cannot do more than an agent without a role.
    #[must_use]
    pub fn is_tool_expansion(&self, name: &RoleName, tools: &[String]) -> bool {
        self.get(name).is_some_and(|role| !role.can_use_all(tools))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role_name(text: &str) -> RoleName {
        RoleName::parse(text).unwrap()
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn fields_missing_from_an_override_stay_unchanged() {
        let mut roles = RoleRegistry::default();
        let before = roles.get(&role_name("pm")).unwrap().clone();
        let role_override = RoleOverride {
            instructions: Some(texts(&["Speak French."])),
            tool_instructions: Some(String::new()),
            ..RoleOverride::default()
        };
        assert!(roles.apply_override(&role_name("pm"), role_override));
        let after = roles.get(&role_name("pm")).unwrap();
        assert_eq!(after.description, before.description);
        assert_eq!(after.allowed_tools, before.allowed_tools);
        assert_eq!(after.instructions, ["Speak French."]);
        assert_eq!(after.tool_instructions, None, "an empty text removes it");
    }

    #[test]
    fn a_custom_role_needs_a_description() {
        let mut roles = RoleRegistry::default();
        assert!(!roles.apply_override(&role_name("cook"), RoleOverride::default()));
        assert_eq!(roles.get(&role_name("cook")), None);
        let role_override = RoleOverride {
            description: Some("You cook.".into()),
            ..RoleOverride::default()
        };
        assert!(roles.apply_override(&role_name("cook"), role_override));
        assert_eq!(
            roles.get(&role_name("cook")).unwrap().render(),
            "You cook.\n"
        );
        let names: Vec<_> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["cook", "dev", "harness", "merge", "pm", "qa"]);
    }

    #[test]
    fn a_tool_list_is_an_expansion_if_it_adds_tools() {
        let mut roles = RoleRegistry::default();
        for (role, tools, expected) in [
            ("pm", &["Read"][..], false),
            ("pm", &[], false),
            ("pm", &["read", "grep"], false),
            ("pm", &["Read", "Bash"], true),
            ("pm", &["Write"], true),
            ("pm", &["mcp__jira__create"], true),
            ("pm", &["*"], true),
            ("dev", &["Write", "Bash"], false),
            // The role does not exist, so nothing restricts it.
            ("cook", &["Bash"], false),
        ] {
            let tools = texts(tools);
            assert_eq!(
                roles.is_tool_expansion(&role_name(role), &tools),
                expected,
                "{role} {tools:?}"
            );
        }
        let all_tools = RoleOverride {
            allowed_tools: Some(texts(&["*"])),
            ..RoleOverride::default()
        };
        assert!(roles.apply_override(&role_name("pm"), all_tools));
        assert_eq!(roles.get(&role_name("pm")).unwrap().allowed_tools, None);
        assert!(!roles.is_tool_expansion(&role_name("pm"), &texts(&["Bash", "*"])));
    }
}
