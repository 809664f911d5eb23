//! Role registry: built-in roles with the user's changes, and the user's own roles.

use std::collections::BTreeMap;

use crate::agent::RoleDescription;
use crate::scope::RoleName;

/// Entry in a list of tools that allows all tools.
const ALL_TOOLS: &str = "*";

/// All roles, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(BTreeMap<RoleName, RoleDescription>);

/// A change to a role. Fields that are `None` stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleChange {
    /// Description of the role.
    pub role: Option<String>,
    /// Rules that the agent follows.
    pub instructions: Option<Vec<String>>,
    /// Tools that the agent may use; `*` allows all tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Instructions for using the tools. An empty text removes them.
    pub tool_instructions: Option<String>,
}

/// Returns the built-in roles.
impl Default for Roles {
    fn default() -> Self {
        let names = RoleDescription::built_in_names();
        let roles = names.filter_map(|name| {
            let name = RoleName::parse(name).ok()?;
            let role = RoleDescription::built_in(&name)?;
            Some((name, role))
        });
        Self(roles.collect())
    }
}

impl Roles {
    /// Returns the role with this name. `None` if it does not exist.
    #[must_use]
    pub fn get(&self, name: &RoleName) -> Option<&RoleDescription> {
        self.0.get(name)
    }

    /// Returns all roles, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &RoleDescription> {
        self.0.values()
    }

    /// Changes a role, or adds a role if `change` has a description. Returns `true` if the role exists afterwards. A
    /// new role without a list of tools may use all tools, like an agent without a role.
    pub fn change(&mut self, name: &RoleName, change: RoleChange) -> bool {
        let new = || {
            Some(RoleDescription {
                name: name.clone(),
                role: change.role.clone()?,
                instructions: Vec::new(),
                allowed_tools: None,
                tool_instructions: None,
            })
        };
        let Some(mut role) = self.0.get(name).cloned().or_else(new) else {
            return false;
        };
        if let Some(text) = change.role {
            role.role = text;
        }
        if let Some(instructions) = change.instructions {
            role.instructions = instructions;
        }
        if let Some(tools) = change.allowed_tools {
            let all = tools.iter().any(|tool| tool == ALL_TOOLS);
            role.allowed_tools = (!all).then_some(tools);
        }
        if let Some(how) = change.tool_instructions {
            role.tool_instructions = Some(how).filter(|how| !how.trim().is_empty());
        }
        self.0.insert(name.clone(), role);
        true
    }

    /// Returns `true` if a role could do more with `tools` than now. `false` for a role that does not exist yet,
    /// because it cannot do more than an agent without a role.
    #[must_use]
    pub fn widens(&self, name: &RoleName, tools: &[String]) -> bool {
        self.get(name).is_some_and(|role| !role.covers(tools))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RoleName {
        RoleName::parse(text).unwrap()
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn what_is_not_said_of_a_role_stays() {
        let mut roles = Roles::default();
        let before = roles.get(&name("pm")).unwrap().clone();
        let change = RoleChange {
            instructions: Some(texts(&["Speak French."])),
            tool_instructions: Some(String::new()),
            ..RoleChange::default()
        };
        assert!(roles.change(&name("pm"), change));
        let after = roles.get(&name("pm")).unwrap();
        assert_eq!(after.role, before.role);
        assert_eq!(after.allowed_tools, before.allowed_tools);
        assert_eq!(after.instructions, ["Speak French."]);
        assert_eq!(after.tool_instructions, None, "an empty text takes it away");
    }

    #[test]
    fn a_role_of_ones_own_says_what_it_is() {
        let mut roles = Roles::default();
        assert!(!roles.change(&name("cook"), RoleChange::default()));
        assert_eq!(roles.get(&name("cook")), None);
        let change = RoleChange {
            role: Some("You cook.".into()),
            ..RoleChange::default()
        };
        assert!(roles.change(&name("cook"), change));
        assert_eq!(roles.get(&name("cook")).unwrap().written(), "You cook.\n");
        let names: Vec<_> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["cook", "dev", "harness", "merge", "pm", "qa"]);
    }

    #[test]
    fn more_tools_than_before_are_more() {
        let mut roles = Roles::default();
        for (role, tools, widens) in [
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
                roles.widens(&name(role), &tools),
                widens,
                "{role} {tools:?}"
            );
        }
        let all = RoleChange {
            allowed_tools: Some(texts(&["*"])),
            ..RoleChange::default()
        };
        assert!(roles.change(&name("pm"), all));
        assert_eq!(roles.get(&name("pm")).unwrap().allowed_tools, None);
        assert!(!roles.widens(&name("pm"), &texts(&["Bash", "*"])));
    }
}
