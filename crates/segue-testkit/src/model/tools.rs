//! Tools that a request offers, and calls of them.

use serde_json::{Map, Value, json};

use super::request::ApiFormat;
use super::script::ScriptedCall;
use super::side_requests::example_value;

/// A tool that a request offers.
pub(crate) struct OfferedTool {
    name: String,
    namespace: Option<String>,
    input_format: ToolInputFormat,
    schema: Value,
}

/// Input format of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolInputFormat {
    /// JSON arguments.
    Arguments,
    /// Plain text (`custom` tools of the Responses API).
    Text,
}

/// A call of an offered tool, ready to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StubToolCall {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) input_format: ToolInputFormat,
    pub(crate) input: Value,
}

impl OfferedTool {
    /// Returns the name, preceded by the namespace if the tool has one.
    pub(crate) fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}__{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Creates a call with this input, and with examples for all other required arguments.
    fn build_call_with_examples(&self, input: Map<String, Value>) -> StubToolCall {
        let mut input = input;
        for name in self.schema["required"].as_array().into_iter().flatten() {
            if let Some(name) = name.as_str().filter(|name| !input.contains_key(*name)) {
                input.insert(
                    name.to_owned(),
                    example_value(name, &self.schema["properties"][name]),
                );
            }
        }
        self.build_call(Value::Object(input))
    }

    fn build_call(&self, input: Value) -> StubToolCall {
        StubToolCall {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            input_format: self.input_format,
            input,
        }
    }

    /// Returns the first of these names that is an argument of the tool.
    fn find_argument<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let properties = &self.schema["properties"];
        names
            .iter()
            .find(|name| properties.get(**name).is_some())
            .copied()
    }
}

/// Returns all tools that a request offers.
pub(crate) fn parse_offered_tools(api_format: ApiFormat, body: &Value) -> Vec<OfferedTool> {
    let tools = body["tools"].as_array().into_iter().flatten();
    match api_format {
        ApiFormat::Anthropic => tools
            .filter_map(|tool| parse_tool(tool, None, &tool["input_schema"]))
            .collect(),
        ApiFormat::Gemini => tools
            .flat_map(|tool| {
                tool["functionDeclarations"]
                    .as_array()
                    .into_iter()
                    .flatten()
            })
            .filter_map(|tool| {
                let schema = tool.get("parametersJsonSchema");
                parse_tool(tool, None, schema.unwrap_or(&tool["parameters"]))
            })
            .collect(),
        ApiFormat::Responses => tools.flat_map(parse_responses_tools).collect(),
        ApiFormat::Unknown => Vec::new(),
    }
}

fn parse_responses_tools(tool: &Value) -> Vec<OfferedTool> {
    if tool["type"] == "namespace" {
        let namespace = tool["name"].as_str();
        let tools = tool["tools"].as_array().into_iter().flatten();
        return tools
            .filter_map(|tool| parse_tool(tool, namespace, &tool["parameters"]))
            .collect();
    }
    parse_tool(tool, None, &tool["parameters"])
        .into_iter()
        .collect()
}

fn parse_tool(tool: &Value, namespace: Option<&str>, schema: &Value) -> Option<OfferedTool> {
    Some(OfferedTool {
        name: tool["name"].as_str()?.to_owned(),
        namespace: namespace.map(str::to_owned),
        input_format: if tool["type"] == "custom" {
            ToolInputFormat::Text
        } else {
            ToolInputFormat::Arguments
        },
        schema: schema.clone(),
    })
}

/// Names of tools that run commands, in order of preference.
const SHELL_TOOL_NAMES: &[&str] = &[
    "run_shell_command",
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
];
/// Names of tools that read files, in order of preference.
const READ_TOOL_NAMES: &[&str] = &["read_file", "Read", "read"];
/// Names of tools that write files, in order of preference.
const WRITE_TOOL_NAMES: &[&str] = &["write_file", "Write", "write"];
/// Names of the argument that contains a path, in order of preference.
const PATH_ARGUMENT_NAMES: &[&str] = &["file_path", "filePath", "absolute_path", "path"];

/// Adapts a call to the offered tools. If no tool fits, the error is the text to send instead.
pub(crate) fn resolve_call(
    call: &ScriptedCall,
    offered_tools: &[OfferedTool],
) -> Result<StubToolCall, String> {
    let find_tool = |names: &[&str]| {
        let find_named = |name: &&str| offered_tools.iter().find(|tool| tool.name == **name);
        names.iter().find_map(find_named)
    };
    match call {
        ScriptedCall::Shell(command) => resolve_shell_call(find_tool(SHELL_TOOL_NAMES), command),
        ScriptedCall::Read(path) => match find_tool(READ_TOOL_NAMES) {
            Some(tool) => resolve_file_call(tool, path, None),
            None => resolve_shell_call(
                find_tool(SHELL_TOOL_NAMES),
                &format!("cat {}", quote_shell_word(path)),
            ),
        },
        ScriptedCall::Write { path, content } => {
            match (find_tool(WRITE_TOOL_NAMES), find_tool(&["apply_patch"])) {
                (Some(tool), _) => resolve_file_call(tool, path, Some(content)),
                (None, Some(tool)) => Ok(build_patch_call(tool, path, content)),
                (None, None) => {
                    let command = format!(
                        "printf %s {} > {}",
                        quote_shell_word(content),
                        quote_shell_word(path)
                    );
                    resolve_shell_call(find_tool(SHELL_TOOL_NAMES), &command)
                }
            }
        }
        ScriptedCall::Tool { name, input } => offered_tools
            .iter()
            .find(|tool| tool.name == *name || tool.full_name() == *name)
            .map(|tool| tool.build_call(input.clone()))
            .ok_or_else(|| missing_tool_text(name)),
    }
}

fn missing_tool_text(description: &str) -> String {
    format!("[the request offers no tool {description}]")
}

fn resolve_shell_call(tool: Option<&OfferedTool>, command: &str) -> Result<StubToolCall, String> {
    let tool = tool.ok_or_else(|| missing_tool_text("for a shell"))?;
    let argument = tool.find_argument(&["cmd", "command"]);
    let argument = argument.ok_or_else(|| missing_tool_text("for a shell that takes a command"))?;
    let command = if tool.schema["properties"][argument]["type"] == "array" {
        json!(["bash", "-lc", command])
    } else {
        json!(command)
    };
    Ok(tool.build_call_with_examples(Map::from_iter([(argument.to_owned(), command)])))
}

fn resolve_file_call(
    tool: &OfferedTool,
    path: &str,
    content: Option<&str>,
) -> Result<StubToolCall, String> {
    let argument = tool.find_argument(PATH_ARGUMENT_NAMES);
    let argument = argument.ok_or_else(|| missing_tool_text("for files that takes a path"))?;
    let mut input = Map::from_iter([(argument.to_owned(), json!(path))]);
    if let Some(content) = content {
        input.insert("content".to_owned(), json!(content));
    }
    Ok(tool.build_call_with_examples(input))
}

fn build_patch_call(tool: &OfferedTool, path: &str, content: &str) -> StubToolCall {
    let mut patch_text = format!("*** Begin Patch\n*** Add File: {path}\n");
    for line in content.lines() {
        patch_text += "+";
        patch_text += line;
        patch_text += "\n";
    }
    patch_text += "*** End Patch\n";
    match tool.input_format {
        ToolInputFormat::Text => tool.build_call(json!(patch_text)),
        ToolInputFormat::Arguments => {
            tool.build_call_with_examples(Map::from_iter([("input".to_owned(), json!(patch_text))]))
        }
    }
}

/// Quotes a text as one word of a shell command.
fn quote_shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
