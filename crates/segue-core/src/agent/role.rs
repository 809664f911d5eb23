//! Roles of agents: their instructions and the tools that they may use.

use std::fmt::Write as _;

use crate::agent::PermissionPolicy;
use crate::scope::RoleName;
use crate::session::ToolCall;

/// Description of a role that an agent takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleDescription {
    /// Name of the role.
    pub name: RoleName,
    /// Description of the role, in one or two sentences.
    pub role: String,
    /// Rules that the agent follows.
    pub instructions: Vec<String>,
    /// Tools that the agent may use, by the names of Claude Code's tools or by the agent's own names. `None` allows all
    /// tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Instructions for using the tools.
    pub tool_instructions: Option<String>,
}

/// Tools that read and search, which every built-in role may use.
const READING: [&str; 3] = ["Read", "Glob", "Grep"];

/// A role that is built into segue.
struct BuiltIn {
    name: &'static str,
    role: &'static str,
    instructions: &'static [&'static str],
    more_tools: &'static [&'static str],
    tool_instructions: &'static str,
}

const BUILT_IN: [BuiltIn; 5] = [
    BuiltIn {
        name: "pm",
        role: "You are the project manager of a feature: you find out what is wanted, write it down so that others can \
               build it, and split it into tasks.",
        instructions: &[
            "Ask when something is unclear, one question at a time, and propose an answer with each.",
            "Write down goals, requirements and how each of them will be checked, in the user's words where they have some.",
            "Split the work into tasks that one developer can finish and somebody else can check, and name what each depends on.",
            "Do not change the code.",
        ],
        more_tools: &[],
        tool_instructions: "Read the project to know what is there before you ask or propose.",
    },
    BuiltIn {
        name: "dev",
        role: "You are a developer: you carry one task to its end, in the style of the code that is there.",
        instructions: &[
            "Do what the task says and nothing beside it; what else you notice, say at the end.",
            "Read what you change before you change it, and what calls it.",
            "Add or change tests with the code, and run the project's own checks before you say that something works.",
            "If a check fails twice for the same reason, say what you tried and try another way.",
        ],
        more_tools: &["Edit", "Write", "Bash"],
        tool_instructions: "Change files with the tools for that, and run commands for building and testing.",
    },
    BuiltIn {
        name: "qa",
        role: "You are the tester: you find out whether the work does what was asked, and say so plainly.",
        instructions: &[
            "Check against what was asked, point by point, by running it and not by reading it alone.",
            "Try what nobody thought of: empty, huge, twice, interrupted.",
            "Report each fault with what you did, what happened and what should have; then say passed or failed.",
            "Do not repair anything.",
        ],
        more_tools: &["Bash"],
        tool_instructions: "Run commands to build, test and try out; change no file of the project.",
    },
    BuiltIn {
        name: "harness",
        role: "You watch over work that others do: you answer whether its goal is met, and what should happen next.",
        instructions: &[
            "Judge by evidence: what checks said, what is in the files; not by what somebody claims.",
            "Answer in the form that is asked for and with nothing around it.",
            "If you can't tell, say what is missing in order to tell.",
        ],
        more_tools: &[],
        tool_instructions: "Read what you need for your answer, and nothing more.",
    },
    BuiltIn {
        name: "merge",
        role: "You bring finished work together: you merge branches, resolve conflicts, and leave everything working.",
        instructions: &[
            "Understand both sides of a conflict before you resolve it, and keep what each of them meant.",
            "Run the project's checks after the merge; if they fail, say which side they fail for.",
            "Never drop work of others, and never rewrite history that is shared.",
        ],
        more_tools: &["Edit", "Write", "Bash"],
        tool_instructions: "Use git by commands; edit files only to resolve conflicts.",
    },
];

impl RoleDescription {
    /// Returns the names of the built-in roles.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|role| role.name)
    }

    /// Returns the built-in role with this name. `None` if it does not exist.
    #[must_use]
    pub fn built_in(name: &RoleName) -> Option<Self> {
        let role = BUILT_IN.iter().find(|role| role.name == name.as_str())?;
        let tools = READING.iter().chain(role.more_tools);
        Some(Self {
            name: name.clone(),
            role: role.role.to_owned(),
            instructions: role
                .instructions
                .iter()
                .map(|&text| text.to_owned())
                .collect(),
            allowed_tools: Some(tools.map(|&tool| tool.to_owned()).collect()),
            tool_instructions: Some(role.tool_instructions.to_owned()),
        })
    }

    /// Renders the role as text for the brief.
    #[must_use]
    pub fn written(&self) -> String {
        let mut text = format!("{}\n", self.role.trim_end());
        for instruction in &self.instructions {
            let _ = writeln!(text, "- {instruction}");
        }
        let tools = self.allowed_tools.as_deref();
        match tools {
            None => {}
            Some([]) => text.push_str("You may use no tools.\n"),
            Some(tools) => {
                let _ = writeln!(text, "Tools you may use: {}.", tools.join(", "));
            }
        }
        // Instructions for using tools are useless to an agent without tools.
        if let (false, Some(how)) = (tools == Some(&[]), &self.tool_instructions) {
            let _ = writeln!(text, "{}", how.trim_end());
        }
        text
    }

    /// Returns `true` if the role may use the tool of `call`.
    #[must_use]
    pub fn allows(&self, call: &ToolCall) -> bool {
        // A call that contains diffs changes files, whatever its name and kind are. A command is covered by its kind.
        let changes = !call.diffs.is_empty() && call.kind != "execute";
        self.allows_named(&call.name, &call.kind) && (!changes || self.allows_kind("edit"))
    }

    /// Returns `true` if the role may use a tool with this name and kind.
    #[must_use]
    pub fn allows_named(&self, name: &str, kind: &str) -> bool {
        let Some(tools) = &self.allowed_tools else {
            return true;
        };
        // Thinking and planning have no effects.
        kind == "think" || tools.iter().any(|tool| is_of(tool, name, kind))
    }

    /// Returns `true` if the role may use some tool of a kind, such as `edit` or `execute`.
    #[must_use]
    pub fn allows_kind(&self, kind: &str) -> bool {
        let Some(tools) = &self.allowed_tools else {
            return true;
        };
        kind == "think" || tools.iter().any(|tool| kinds(tool).contains(&kind))
    }

    /// Returns `true` if an agent in this role must request permission for tool calls, because without requests it
    /// could do more than the role allows.
    #[must_use]
    pub fn must_ask(&self) -> bool {
        !(self.allows_kind("edit") && self.allows_kind("execute"))
    }

    /// Returns the widest policy for an agent that cannot request permission in this role: no wider than `policy`, and
    /// without anything that the role does not allow.
    #[must_use]
    pub fn at_most(&self, policy: PermissionPolicy) -> PermissionPolicy {
        let most = match (self.allows_kind("edit"), self.allows_kind("execute")) {
            (true, true) => PermissionPolicy::AllowAll,
            (true, false) => PermissionPolicy::AllowEdits,
            (false, _) => PermissionPolicy::AllowReads,
        };
        policy.narrower(most)
    }

    /// Returns `true` if the role may use all of `tools`.
    #[must_use]
    pub fn covers(&self, tools: &[String]) -> bool {
        let covers = |tool: &String| {
            let of_kind = kinds(tool);
            self.allowed_tools.is_none()
                || self.allows_named(tool, "other")
                || !of_kind.is_empty() && of_kind.iter().all(|kind| self.allows_kind(kind))
        };
        tools.iter().all(covers)
    }
}

/// Returns `true` if a call uses `tool`.
///
/// A tool of Claude Code that [`kinds`] lists matches every agent's tools of the same kinds; any other tool matches by
/// name. A name also matches if the kind is `other`, but not for a different kind, because some agents use the text of
/// a command as the name of a call, and that text may be equal to the name of a tool.
fn is_of(tool: &str, name: &str, kind: &str) -> bool {
    match kinds(tool) {
        [] => tool.eq_ignore_ascii_case(name),
        of_kind => of_kind.contains(&kind) || kind == "other" && tool.eq_ignore_ascii_case(name),
    }
}

/// Returns the kinds of calls that belong to a tool. Empty for a tool that only its agent defines.
fn kinds(tool: &str) -> &'static [&'static str] {
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
    fn a_role_uses_its_tools_whatever_an_agent_calls_them() {
        let role = |name: &str| RoleDescription::built_in(&RoleName::parse(name).unwrap()).unwrap();
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
                role(name).allows(&call(tool, kind)),
                allowed,
                "{name} {tool}"
            );
        }
        let mut own = role("pm");
        own.allowed_tools = Some(vec!["mcp__jira__create".into()]);
        assert!(own.allows(&call("mcp__jira__create", "other")));
        assert!(!own.allows(&call("Read", "read")));
        // The text of a command may be equal to the name of a tool, but the call is still a command.
        own.allowed_tools = Some(vec!["Grep".into()]);
        assert!(!own.allows(&call("grep", "execute")));
        assert!(own.allows(&call("grep", "other")));
        own.allowed_tools = None;
        assert!(own.allows(&call("anything", "execute")));
        // A call that changes a file is neither a thought nor a read.
        for kind in ["think", "read"] {
            let mut call = call("Read", kind);
            assert!(role("pm").allows(&call), "{kind}");
            call.diffs.push(Diff {
                path: "src/a.rs".into(),
                patch: String::new(),
            });
            assert!(!role("pm").allows(&call), "{kind}");
            assert!(role("dev").allows(&call), "{kind}");
        }
    }

    #[test]
    fn who_can_not_ask_may_do_no_more_than_the_role() {
        use PermissionPolicy::{AllowAll, AllowEdits, AllowReads, Ask, Deny};
        let with = |tools: Option<&[&str]>| RoleDescription {
            allowed_tools: tools.map(|tools| tools.iter().map(|&tool| tool.to_owned()).collect()),
            ..RoleDescription::built_in(&RoleName::parse("pm").unwrap()).unwrap()
        };
        let all = [AllowAll, AllowEdits, AllowReads, Ask, Deny];
        let reads = [AllowReads, AllowReads, AllowReads, Ask, Deny];
        let edits = [AllowEdits, AllowEdits, AllowReads, Ask, Deny];
        for (tools, most) in [
            (None, all),
            (Some(&["Read"][..]), reads),
            (Some(&[]), reads),
            (Some(&["Read", "Write"]), edits),
            (Some(&["Edit", "Bash"]), all),
            // A tool that runs commands can change files, but the role does not allow changing them by other tools.
            (Some(&["Bash"]), reads),
        ] {
            let role = with(tools);
            assert_eq!(all.map(|policy| role.at_most(policy)), most, "{tools:?}");
            assert_eq!(role.must_ask(), most != all, "{tools:?}");
        }
    }

    #[test]
    fn who_has_no_tools_is_told_so_and_not_how_to_use_them() {
        let mut role = RoleDescription::built_in(&RoleName::parse("qa").unwrap()).unwrap();
        role.allowed_tools = Some(Vec::new());
        let (text, how) = (role.written(), role.tool_instructions.unwrap());
        assert!(text.ends_with("You may use no tools.\n"), "{text}");
        assert!(!text.contains(how.trim_end()), "{text}");
    }

    #[test]
    fn every_role_tells_what_it_is() {
        for name in RoleDescription::built_in_names() {
            let role = RoleDescription::built_in(&RoleName::parse(name).unwrap()).unwrap();
            let text = role.written();
            assert!(
                text.starts_with("You ") && text.contains("Tools you may use: Read"),
                "{text}"
            );
        }
        assert_eq!(
            RoleDescription::built_in(&RoleName::parse("cook").unwrap()),
            None
        );
    }
}
