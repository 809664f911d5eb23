//! Names of tools that Gemini CLI reports only by a title.

use segue_core::session::ToolCall;

/// Tools that only record what the model plans.
const PLANNING_TOOLS: [&str; 2] = ["write_todos", "update_topic"];

/// Gives a call of an MCP server's tool, or of a planning tool, the name that the model uses for it.
///
/// Over ACP, the former has a title, `TOOL (SERVER MCP Server)`. A command could imitate that, so the name is accepted
/// only if the call's id, which Gemini CLI derives from it, begins with the name too.
pub(super) fn normalise_tool_name(call: &mut ToolCall) {
    let is_id_of = |id: &str, name: &str| {
        let suffix = id.strip_prefix(name);
        suffix.is_some_and(|suffix| suffix.starts_with("__"))
    };
    let is_planner = |name: &&&str| call.kind == "other" && is_id_of(&call.id, name);
    if let Some(planner) = PLANNING_TOOLS.iter().find(is_planner) {
        (call.name, call.kind) = ((*planner).to_owned(), "think".to_owned());
        return;
    }
    let title = call.name.strip_suffix(" MCP Server)");
    let Some((tool, server)) = title.and_then(|title| title.split_once(" (")) else {
        return;
    };
    let name = format!("mcp_{server}_{tool}");
    if call.kind == "other" && is_id_of(&call.id, &name) {
        call.name = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segue_core::json::Json;
    use segue_core::session::ToolStatus;

    #[test]
    fn a_title_becomes_a_name_if_the_id_agrees() {
        let id = "mcp_segue_ping__call_1";
        let cases = [
            (id, "other", "ping (segue MCP Server)", "mcp_segue_ping"),
            (
                id,
                "execute",
                "ping (segue MCP Server)",
                "ping (segue MCP Server)",
            ),
            (
                "run_shell_command__1",
                "other",
                "ping (segue MCP Server)",
                "ping (segue MCP Server)",
            ),
            (
                "mcp_segue_pinging__1",
                "other",
                "ping (segue MCP Server)",
                "ping (segue MCP Server)",
            ),
            (id, "other", "ping", "ping"),
            ("write_todos__1", "other", "Set 2 todo(s)", "write_todos"),
            (
                "write_todos__1",
                "execute",
                "Set 2 todo(s)",
                "Set 2 todo(s)",
            ),
            (
                "run_shell_command__1",
                "other",
                "write_todos__1",
                "write_todos__1",
            ),
            (id, "other", "", ""),
        ];
        for (id, kind, title, expected) in cases {
            let mut call = ToolCall {
                id: id.to_owned(),
                name: title.to_owned(),
                kind: kind.to_owned(),
                args: Json::empty_object(),
                status: ToolStatus::Pending,
                output: None,
                diffs: Vec::new(),
            };
            normalise_tool_name(&mut call);
            assert_eq!(call.name, expected, "{id} {kind} {title}");
        }
    }
}
