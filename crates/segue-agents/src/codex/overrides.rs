//! What Codex is told beyond its own configuration: MCP servers, and not to trust a folder by itself.

use std::path::Path;

use segue_core::{McpReach, McpServer};
use serde_json::{Map, Value, json};

/// Our own server. The user has asked for it by using us, so its tools need no permission.
const OURS: &str = "segue";

/// The part of a configuration that makes Codex use these servers.
pub(crate) fn servers(servers: &[McpServer]) -> Option<Value> {
    let all: Map<String, Value> = servers
        .iter()
        .map(|server| (server.name.clone(), one(server)))
        .collect();
    (!all.is_empty()).then(|| Value::Object(all))
}

fn one(server: &McpServer) -> Value {
    let table = |pairs: &[(String, String)]| -> Map<String, Value> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect()
    };
    let mut config = match &server.reach {
        McpReach::Program { command, args, env } => {
            json!({"command": command, "args": args, "env": table(env)})
        }
        McpReach::Http { url, headers } => json!({"url": url, "http_headers": table(headers)}),
    };
    if server.name == OURS {
        config["default_tools_approval_mode"] = "approve".into();
    }
    config
}

/// Likewise for a command line, which everybody on the machine can read: what the servers are to be given in their
/// environment and headers goes through the environment of Codex, which is returned beside it.
pub(crate) fn servers_apart(servers: &[McpServer]) -> (Option<Value>, Vec<(String, String)>) {
    let mut config = self::servers(servers);
    let mut secrets: Vec<(String, String)> = Vec::new();
    for (n, server) in servers.iter().enumerate() {
        let Some(one) = config.as_mut().and_then(|all| all.get_mut(&server.name)) else {
            continue;
        };
        match &server.reach {
            McpReach::Program { env, .. } => {
                let taken = |(name, value): &&(String, String)| {
                    let other = secrets.iter().find(|(taken, _)| taken == name);
                    other.is_some_and(|(_, other)| other != value)
                };
                // Two servers may want different values under one name: then it stays where it was.
                if env.iter().any(|pair| taken(&pair)) {
                    continue;
                }
                let names: Vec<&str> = env.iter().map(|(name, _)| name.as_str()).collect();
                one["env_vars"] = json!(names);
                one["env"] = json!({});
                secrets.extend(env.iter().cloned());
            }
            McpReach::Http { headers, .. } => {
                let mut named = Map::new();
                for (h, (header, value)) in headers.iter().enumerate() {
                    let variable = format!("SEGUE_MCP_{n}_{h}");
                    named.insert(header.clone(), variable.as_str().into());
                    secrets.push((variable, value.clone()));
                }
                one["http_headers"] = json!({});
                one["env_http_headers"] = named.into();
            }
        }
    }
    (config, secrets)
}

/// The part of a configuration that keeps Codex from noting down by itself that the user trusts `cwd`, which it does
/// whenever it may write in a folder that its configuration does not speak of.
pub(crate) fn no_trust(cwd: &Path, config: &str) -> Option<Value> {
    let decided = cwd.ancestors().any(|directory| {
        let name = Value::from(directory.to_string_lossy());
        config.contains(&format!("projects.{name}]"))
    });
    (!decided).then(|| json!({ cwd.to_string_lossy(): {"trust_level": "untrusted"} }))
}

/// A value in the notation of the configuration file, on one line.
pub(crate) fn toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let pairs: Vec<String> = table
                .iter()
                .map(|(name, value)| format!("{} = {}", quoted(name), toml(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(toml).collect();
            format!("[{}]", values.join(", "))
        }
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// A text between quotes. The escapes of JSON are valid there too, but they leave one character out.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> McpServer {
        McpServer {
            name: name.into(),
            reach: McpReach::Program {
                command: "/bin/tool".into(),
                args: vec!["a \"b\"".into()],
                env: vec![("K".into(), "v".into())],
            },
        }
    }

    #[test]
    fn what_is_secret_is_not_on_the_command_line() {
        let program = |name: &str, value: &str| McpServer {
            name: name.into(),
            reach: McpReach::Program {
                command: "/bin/tool".into(),
                args: Vec::new(),
                env: vec![("TOKEN".into(), value.into())],
            },
        };
        let far = McpServer {
            name: "far".into(),
            reach: McpReach::Http {
                url: "http://localhost/mcp".into(),
                headers: vec![("Authorization".into(), "s3cret".into())],
            },
        };
        let (config, secrets) =
            servers_apart(&[program("a", "s3cret"), far, program("b", "other")]);
        let config = config.unwrap();
        assert!(!config.to_string().contains("s3cret"), "{config}");
        assert_eq!(config["a"]["env_vars"], json!(["TOKEN"]));
        assert_eq!(
            config["far"]["env_http_headers"]["Authorization"],
            "SEGUE_MCP_1_0"
        );
        assert_eq!(config["b"]["env"]["TOKEN"], "other", "its name was taken");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            secrets,
            [pair("TOKEN", "s3cret"), pair("SEGUE_MCP_1_0", "s3cret")]
        );
    }

    #[test]
    fn only_our_own_server_needs_no_permission() {
        let config = servers(&[program("segue"), program("other")]).unwrap();
        assert_eq!(config["segue"]["default_tools_approval_mode"], "approve");
        assert_eq!(
            config["other"],
            json!({"command": "/bin/tool", "args": ["a \"b\""], "env": {"K": "v"}})
        );
        assert_eq!(servers(&[]), None);
    }

    #[test]
    fn a_server_at_an_address_has_headers() {
        let server = McpServer {
            name: "far".into(),
            reach: McpReach::Http {
                url: "http://localhost/mcp".into(),
                headers: vec![("X".into(), "1".into())],
            },
        };
        let expected = json!({"far": {"url": "http://localhost/mcp", "http_headers": {"X": "1"}}});
        assert_eq!(servers(&[server]), Some(expected));
    }

    #[test]
    fn values_are_written_as_toml() {
        let cases = [
            (json!("a \"b\"\n"), r#""a \"b\"\n""#),
            (json!("\u{7f}"), r#""\u007f""#),
            (json!(["x", true, 3]), r#"["x", true, 3]"#),
            (json!({"a.b": {"c": "d"}}), r#"{"a.b" = {"c" = "d"}}"#),
        ];
        for (value, expected) in cases {
            assert_eq!(toml(&value), expected);
        }
    }

    #[test]
    fn a_folder_that_the_user_decided_about_is_left_alone() {
        let cases = [
            ("", true),
            ("[projects.\"/a/b\"]\ntrust_level = \"trusted\"\n", false),
            ("[projects.\"/a\"]\n", false),
            ("[projects.\"/a/b/c\"]\n", true),
            ("[projects.\"/a/bb\"]\n", true),
        ];
        for (config, expected) in cases {
            let told = no_trust(Path::new("/a/b"), config);
            assert_eq!(told.is_some(), expected, "{config}");
        }
        assert_eq!(
            no_trust(Path::new("/a/b"), ""),
            Some(json!({"/a/b": {"trust_level": "untrusted"}}))
        );
    }
}
