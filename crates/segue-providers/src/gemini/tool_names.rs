//! Names of tools that Gemini CLI reports only by a title.

use segue_core::session::ToolCall;

/// Tools that only record what the model plans.
const PLANNING_TOOLS: [&str; 2] = ["write_todos", "update_topic"];

/// Replaces the title of a call with the name that the model uses for the tool, if the tool belongs to an MCP server or
/// is a planning tool. A call of a planning tool also gets the kind `think`.
///
/// The title of an MCP server's tool is `TOOL (SERVER MCP Server)`. The title of a shell command is arbitrary text and
/// may look like that, so the id of the call must confirm the name: Gemini CLI forms it as `NAME__SUFFIX`.
pub(super) fn normalise_tool_name(call: &mut ToolCall) {
    let id_confirms_name = |name: &str| {
        let suffix = call.id.strip_prefix(name);
        suffix.is_some_and(|suffix| suffix.starts_with("__"))
    };
    let is_name_of_call = |name: &&&str| call.kind == "other" && id_confirms_name(name);
    if let Some(planning_tool) = PLANNING_TOOLS.iter().find(is_name_of_call) {
        (call.name, call.kind) = ((*planning_tool).to_owned(), "think".to_owned());
        return;
    }
    let tool_and_server = call.name.strip_suffix(" MCP Server)");
    let Some((tool, server)) = tool_and_server.and_then(|text| text.split_once(" (")) else {
        return;
    };
    let name = format!("mcp_{server}_{tool}");
    if call.kind == "other" && id_confirms_name(&name) {
        call.name = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segue_core::json::Json;
    use segue_core::session::ToolStatus;

    #[test]
    fn a_title_is_replaced_by_the_tool_name_if_the_id_confirms_it() {
        let id = "mcp_segue_ping__call_1";
        // Id, kind and title of the call, and its expected name.
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
