//! Roles of agents: their instructions and the tools that they may use.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::agent::PermissionPolicy;
use crate::scope::RoleName;
use crate::session::ToolCall;

/// Description of a role that an agent takes. Its tools have the names of Claude Code's tools or the agent's own names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleDescription {
    /// Name of the role.
    pub name: RoleName,
    /// Description of the role.
    #[serde(rename = "role")]
    pub description: String,
    /// Rules that the agent follows.
    pub instructions: Vec<String>,
    /// Tools that the agent may use; `None` for all tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Instructions for using the tools; `None` if there are none.
    pub tool_instructions: Option<String>,
}

/// Tools that read and search, which every built-in role may use.
const READ_TOOLS: [&str; 3] = ["Read", "Glob", "Grep"];

/// A role that is built into segue.
struct BuiltInRole {
    name: &'static str,
    description: &'static str,
    instructions: &'static [&'static str],
    extra_tools: &'static [&'static str],
    tool_instructions: &'static str,
}

const BUILT_IN_ROLES: [BuiltInRole; 5] = [
    BuiltInRole {
        name: "pm",
        description: "You are the project manager of a feature: you find out what the user wants, write it down \
             so that others can build it, and split it into tasks.",
        instructions: &[
            "Ask if something is unclear: one question at a time, each with a proposed answer.",
            "Write down goals, requirements and how each of them will be checked. Use the user's own words where \
             possible.",
            "Split the work into tasks that one developer can finish and another person can check. State what each \
             task depends on.",
            "Do not change the code.",
        ],
        extra_tools: &[],
        tool_instructions: "Read the project before you ask or propose, so that you know what already exists.",
    },
    BuiltInRole {
        name: "dev",
        description: "You are a developer: you complete one task, in the style of the existing code.",
        instructions: &[
            "Do what the task says and nothing else. Report other observations at the end.",
            "Before you change code, read it and the code that calls it.",
            "Add or change tests together with the code, and run the project's own checks before you say that it \
             works.",
            "If a check fails twice for the same reason, say what you tried and try a different approach.",
        ],
        extra_tools: &["Edit", "Write", "Bash"],
        tool_instructions: "Change files with the editing tools, and run commands to build and test.",
    },
    BuiltInRole {
        name: "qa",
        description: "You are the tester: you find out whether the work does what was requested, and report the \
             result plainly.",
        instructions: &[
            "Check each requested point by running the software, not only by reading it.",
            "Try unexpected cases: empty input, huge input, repetition, interruption.",
            "Report each defect: what you did, what happened and what should have happened. Then state passed or \
             failed.",
            "Do not fix anything.",
        ],
        extra_tools: &["Bash"],
        tool_instructions: "Run commands to build, test and try out the software. Do not change any file of the \
             project.",
    },
    BuiltInRole {
        name: "harness",
        description: "You supervise work that others do: you answer whether its goal is met and what should \
             happen next.",
        instructions: &[
            "Judge by evidence, such as the results of checks and the contents of files, not by claims.",
            "Answer in the requested form, without any other text.",
            "If you cannot decide, say which information is missing.",
        ],
        extra_tools: &[],
        tool_instructions: "Read only what you need for your answer.",
    },
    BuiltInRole {
        name: "merge",
        description: "You integrate finished work: you merge branches, resolve conflicts, and leave everything \
             working.",
        instructions: &[
            "Understand both sides of a conflict before you resolve it, and preserve the intent of both.",
            "Run the project's checks after the merge. If they fail, say which side the failure comes from.",
            "Never drop the work of others, and never rewrite shared history.",
        ],
        extra_tools: &["Edit", "Write", "Bash"],
        tool_instructions: "Use git on the command line. Edit files only to resolve conflicts.",
    },
];

impl RoleDescription {
    /// Returns the built-in roles.
    pub fn built_in_roles() -> impl Iterator<Item = Self> {
        let to_owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        BUILT_IN_ROLES.iter().filter_map(move |role| {
            Some(Self {
                name: RoleName::parse(role.name).ok()?,
                description: role.description.to_owned(),
                instructions: to_owned(role.instructions),
                allowed_tools: Some(to_owned(&[&READ_TOOLS[..], role.extra_tools].concat())),
                tool_instructions: Some(role.tool_instructions.to_owned()),
            })
        })
    }

    /// Returns the built-in role with this name. `None` if it does not exist.
    #[must_use]
    pub fn find_built_in(name: &RoleName) -> Option<Self> {
        Self::built_in_roles().find(|role| role.name == *name)
    }

    /// Renders the role as text for the brief.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("{}\n", self.description.trim_end());
        for instruction in &self.instructions {
            let _ = writeln!(text, "- {instruction}");
        }
        let tools = self.allowed_tools.as_deref();
        match tools {
            None => {}
            Some([]) => text.push_str("You may not use any tools.\n"),
            Some(tools) => {
                let _ = writeln!(text, "Tools you may use: {}.", tools.join(", "));
            }
        }
        // Instructions for using tools are useless to an agent without tools.
        if let (false, Some(tool_instructions)) = (tools == Some(&[]), &self.tool_instructions) {
            let _ = writeln!(text, "{}", tool_instructions.trim_end());
        }
        text
    }

    /// Returns `true` if the role may use the tool of `call`.
    #[must_use]
    pub fn can_make_call(&self, call: &ToolCall) -> bool {
        // A call that contains diffs changes files, whatever its name and kind are. A command is covered by its kind.
        let changes_files = !call.diffs.is_empty() && call.kind != "execute";
        self.can_use_tool(&call.name, &call.kind) && (!changes_files || self.can_use_kind("edit"))
    }

    /// Returns `true` if the role may use a tool with this name and kind.
    #[must_use]
    pub fn can_use_tool(&self, name: &str, kind: &str) -> bool {
        self.allows_kind(kind, |tool| is_call_of_tool(tool, name, kind))
    }

    /// Returns `true` if the role may use some tool of a kind, such as `edit` or `execute`.
    #[must_use]
    pub fn can_use_kind(&self, kind: &str) -> bool {
        self.allows_kind(kind, |tool| tool_kinds(tool).contains(&kind))
    }

    /// Returns `true` if an allowed tool permits calls of a kind. Thinking and planning have no effects.
    fn allows_kind(&self, kind: &str, is_permitted_by: impl Fn(&str) -> bool) -> bool {
        let tools = self.allowed_tools.as_ref();
        kind == "think" || tools.is_none_or(|tools| tools.iter().any(|tool| is_permitted_by(tool)))
    }

    /// Returns `true` if an agent in this role must request permission for tool calls, because without requests it
    /// could do more than the role allows.
    #[must_use]
    pub fn needs_permission_requests(&self) -> bool {
        !(self.can_use_kind("edit") && self.can_use_kind("execute"))
    }

    /// Returns the widest policy for an agent that cannot request permission in this role: no wider than `policy`, and
    /// without anything that the role does not allow.
    #[must_use]
    pub fn restrict_policy(&self, policy: PermissionPolicy) -> PermissionPolicy {
        let widest = match (self.can_use_kind("edit"), self.can_use_kind("execute")) {
            (true, true) => PermissionPolicy::AllowAll,
            (true, false) => PermissionPolicy::AllowEdits,
            (false, _) => PermissionPolicy::AllowReads,
        };
        policy.restrict_to(widest)
    }

    /// Returns `true` if the role may use all of `tools`.
    #[must_use]
    pub fn can_use_all(&self, tools: &[String]) -> bool {
        let can_use = |tool: &String| {
            let kinds = tool_kinds(tool);
            self.allowed_tools.is_none()
                || self.can_use_tool(tool, "other")
                || !kinds.is_empty() && kinds.iter().all(|kind| self.can_use_kind(kind))
        };
        tools.iter().all(can_use)
    }
}

/// Returns `true` if a call uses `tool`.
///
/// A tool of Claude Code that [`tool_kinds`] lists matches every agent's tools of the same kinds; any other tool
/// matches by name. A name also matches if the kind is `other`, but not for a different kind, because some agents use
/// the text of a command as the name of a call, and that text may be equal to the name of a tool.
fn is_call_of_tool(tool: &str, name: &str, kind: &str) -> bool {
    match tool_kinds(tool) {
        [] => tool.eq_ignore_ascii_case(name),
        kinds => kinds.contains(&kind) || kind == "other" && tool.eq_ignore_ascii_case(name),
    }
}

/// Returns the kinds of calls that belong to a tool. Empty for a tool that only its agent defines.
fn tool_kinds(tool: &str) -> &'static [&'static str] {
    match tool.to_ascii_lowercase().as_str() {
        "read" => &["read"],
        "glob" | "grep" => &["search"],
        "edit" | "write" => &["edit", "delete", "move"],
        "bash" => &["execute"],
        "webfetch" | "websearch" => &["fetch"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::session::{Diff, ToolStatus};

    fn call(name: &str, kind: &str) -> ToolCall {
        ToolCall {
            id: "1".into(),
            name: name.into(),
            kind: kind.into(),
            args: Json::parse("{}").unwrap(),
            status: ToolStatus::Pending,
            output: None,
            diffs: Vec::new(),
        }
    }

    #[test]
    fn a_role_allows_its_tools_under_the_names_of_any_agent() {
        let role =
            |name: &str| RoleDescription::find_built_in(&RoleName::parse(name).unwrap()).unwrap();
        for (name, tool, kind, allowed) in [
            ("pm", "Read", "read", true),
            ("pm", "read_file", "read", true),
            ("pm", "TodoWrite", "think", true),
            ("pm", "Edit", "edit", false),
            ("pm", "run_shell_command", "execute", false),
            ("pm", "mcp__jira__create", "other", false),
            ("dev", "replace", "edit", true),
            ("dev", "shell", "execute", true),
            ("dev", "rm", "delete", true),
            ("qa", "shell", "execute", true),
            ("qa", "apply_patch", "edit", false),
            ("harness", "web_fetch", "fetch", false),
            ("merge", "apply_patch", "edit", true),
        ] {
            assert_eq!(
                role(name).can_make_call(&call(tool, kind)),
                allowed,
                "{name} {tool}"
            );
        }
        let mut custom_role = role("pm");
        custom_role.allowed_tools = Some(vec!["mcp__jira__create".into()]);
        assert!(custom_role.can_make_call(&call("mcp__jira__create", "other")));
        assert!(!custom_role.can_make_call(&call("Read", "read")));
        // The text of a command may be equal to the name of a tool, but the call is still a command.
        custom_role.allowed_tools = Some(vec!["Grep".into()]);
        assert!(!custom_role.can_make_call(&call("grep", "execute")));
        assert!(custom_role.can_make_call(&call("grep", "other")));
        custom_role.allowed_tools = None;
        assert!(custom_role.can_make_call(&call("anything", "execute")));
        // A call that changes a file is neither a thought nor a read.
        for kind in ["think", "read"] {
            let mut call = call("Read", kind);
            assert!(role("pm").can_make_call(&call), "{kind}");
            call.diffs.push(Diff {
                path: "src/a.rs".into(),
                patch: String::new(),
            });
            assert!(!role("pm").can_make_call(&call), "{kind}");
            assert!(role("dev").can_make_call(&call), "{kind}");
        }
    }

    #[test]
    fn an_agent_that_cannot_ask_is_limited_to_what_its_role_allows() {
        use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
        let role_with_tools = |tools: Option<&[&str]>| RoleDescription {
            allowed_tools: tools.map(|tools| tools.iter().map(|&tool| tool.to_owned()).collect()),
            ..RoleDescription::find_built_in(&RoleName::parse("pm").unwrap()).unwrap()
        };
        let all = [AllowAll, AllowEdits, AllowReads, Ask, Deny];
        let reads = [AllowReads, AllowReads, AllowReads, Ask, Deny];
        let edits = [AllowEdits, AllowEdits, AllowReads, Ask, Deny];
        for (tools, expected) in [
            (None, all),
            (Some(&["Read"][..]), reads),
            (Some(&[]), reads),
            (Some(&["Read", "Write"]), edits),
            (Some(&["Edit", "Bash"]), all),
            // A tool that runs commands can change files, but the role does not allow changing them by other tools.
            (Some(&["Bash"]), reads),
        ] {
            let role = role_with_tools(tools);
            assert_eq!(
                all.map(|policy| role.restrict_policy(policy)),
                expected,
                "{tools:?}"
            );
            assert_eq!(
                role.needs_permission_requests(),
                expected != all,
                "{tools:?}"
            );
        }
    }

    #[test]
    fn a_role_without_tools_omits_the_tool_instructions() {
        let mut role = RoleDescription::find_built_in(&RoleName::parse("qa").unwrap()).unwrap();
        role.allowed_tools = Some(Vec::new());
        let (text, tool_instructions) = (role.render(), role.tool_instructions.unwrap());
        assert!(text.ends_with("You may not use any tools.\n"), "{text}");
        assert!(!text.contains(tool_instructions.trim_end()), "{text}");
    }

    #[test]
    fn every_built_in_role_renders_its_description_and_tools() {
        for role in RoleDescription::built_in_roles() {
            let text = role.render();
            assert!(
                text.starts_with("You ") && text.contains("Tools you may use: Read"),
                "{text}"
            );
        }
        assert_eq!(
            RoleDescription::find_built_in(&RoleName::parse("cook").unwrap()),
            None
        );
    }
}
