//! Tools that a request offers, and calls of them.

use serde_json::{Map, Value, json};

use super::request::Dialect;
use super::script::Call;
use super::side_requests::example;

/// A tool that a request offers.
pub(crate) struct Offered {
    name: String,
    namespace: Option<String>,
    form: Form,
    schema: Value,
}

/// Input format of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON arguments.
    Arguments,
    /// Plain text (`custom` tools of the Responses API).
    Text,
}

/// A call of an offered tool, ready to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) form: Form,
    pub(crate) input: Value,
}

impl Offered {
    /// Returns the name, preceded by the namespace if the tool has one.
    pub(crate) fn full_name(&self) -> String {
        match &self.namespace {
            Some(space) => format!("{space}__{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Creates a call with this input, and with examples for all other required arguments.
    fn call(&self, input: Map<String, Value>) -> Placed {
        let mut input = input;
        for name in self.schema["required"].as_array().into_iter().flatten() {
            if let Some(name) = name.as_str().filter(|name| !input.contains_key(*name)) {
                input.insert(
                    name.to_owned(),
                    example(name, &self.schema["properties"][name]),
                );
            }
        }
        self.placed(Value::Object(input))
    }

    fn placed(&self, input: Value) -> Placed {
        Placed {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            form: self.form,
            input,
        }
    }

    /// Returns the first of these names that is an argument of the tool.
    fn argument<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let properties = &self.schema["properties"];
        names
            .iter()
            .find(|name| properties.get(**name).is_some())
            .copied()
    }
}

/// Returns all tools that a request offers.
pub(crate) fn offered(dialect: Dialect, body: &Value) -> Vec<Offered> {
    let tools = body["tools"].as_array().into_iter().flatten();
    match dialect {
        Dialect::Anthropic => tools
            .filter_map(|tool| one(tool, None, &tool["input_schema"]))
            .collect(),
        Dialect::Gemini => tools
            .flat_map(|tool| {
                tool["functionDeclarations"]
                    .as_array()
                    .into_iter()
                    .flatten()
            })
            .filter_map(|tool| {
                let schema = tool.get("parametersJsonSchema");
                one(tool, None, schema.unwrap_or(&tool["parameters"]))
            })
            .collect(),
        Dialect::Responses => tools.flat_map(of_responses).collect(),
        Dialect::Unknown => Vec::new(),
    }
}

fn of_responses(tool: &Value) -> Vec<Offered> {
    if tool["type"] == "namespace" {
        let space = tool["name"].as_str();
        let tools = tool["tools"].as_array().into_iter().flatten();
        return tools
            .filter_map(|tool| one(tool, space, &tool["parameters"]))
            .collect();
    }
    one(tool, None, &tool["parameters"]).into_iter().collect()
}

fn one(tool: &Value, namespace: Option<&str>, schema: &Value) -> Option<Offered> {
    Some(Offered {
        name: tool["name"].as_str()?.to_owned(),
        namespace: namespace.map(str::to_owned),
        form: if tool["type"] == "custom" {
            Form::Text
        } else {
            Form::Arguments
        },
        schema: schema.clone(),
    })
}

/// Names of tools that run commands, in order of preference.
const SHELLS: &[&str] = &[
    "run_shell_command",
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
];
/// Names of tools that read files, in order of preference.
const READERS: &[&str] = &["read_file", "Read", "read"];
/// Names of tools that write files, in order of preference.
const WRITERS: &[&str] = &["write_file", "Write", "write"];
/// Names of the argument that contains a path, in order of preference.
const PATHS: &[&str] = &["file_path", "filePath", "absolute_path", "path"];

/// Adapts a call to the offered tools. If no tool fits, the error is the text to send instead.
pub(crate) fn place(call: &Call, offered: &[Offered]) -> Result<Placed, String> {
    let by_name = |names: &[&str]| {
        let named = |name: &&str| offered.iter().find(|tool| tool.name == **name);
        names.iter().find_map(named)
    };
    match call {
        Call::Shell(command) => shell(by_name(SHELLS), command),
        Call::Read(path) => match by_name(READERS) {
            Some(tool) => file(tool, path, None),
            None => shell(by_name(SHELLS), &format!("cat {}", quoted(path))),
        },
        Call::Write { path, content } => match (by_name(WRITERS), by_name(&["apply_patch"])) {
            (Some(tool), _) => file(tool, path, Some(content)),
            (None, Some(tool)) => Ok(added(tool, path, content)),
            (None, None) => {
                let command = format!("printf %s {} > {}", quoted(content), quoted(path));
                shell(by_name(SHELLS), &command)
            }
        },
        Call::Tool { name, input } => offered
            .iter()
            .find(|tool| tool.name == *name || tool.full_name() == *name)
            .map(|tool| tool.placed(input.clone()))
            .ok_or_else(|| missing(name)),
    }
}

fn missing(what: &str) -> String {
    format!("[the request offers no tool {what}]")
}

fn shell(tool: Option<&Offered>, command: &str) -> Result<Placed, String> {
    let tool = tool.ok_or_else(|| missing("for a shell"))?;
    let name = tool.argument(&["cmd", "command"]);
    let name = name.ok_or_else(|| missing("for a shell that takes a command"))?;
    let command = if tool.schema["properties"][name]["type"] == "array" {
        json!(["bash", "-lc", command])
    } else {
        json!(command)
    };
    Ok(tool.call(Map::from_iter([(name.to_owned(), command)])))
}

fn file(tool: &Offered, path: &str, content: Option<&str>) -> Result<Placed, String> {
    let name = tool.argument(PATHS);
    let name = name.ok_or_else(|| missing("for files that takes a path"))?;
    let mut input = Map::from_iter([(name.to_owned(), json!(path))]);
    if let Some(content) = content {
        input.insert("content".to_owned(), json!(content));
    }
    Ok(tool.call(input))
}

fn added(tool: &Offered, path: &str, content: &str) -> Placed {
    let mut text = format!("*** Begin Patch\n*** Add File: {path}\n");
    for line in content.lines() {
        text += "+";
        text += line;
        text += "\n";
    }
    text += "*** End Patch\n";
    match tool.form {
        Form::Text => tool.placed(json!(text)),
        Form::Arguments => tool.call(Map::from_iter([("input".to_owned(), json!(text))])),
    }
}

/// Quotes a text as one word of a shell command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
