//! Configuration overrides for Codex, above all its MCP servers.

use segue_core::agent::{McpReach, McpServer};
use serde_json::{Map, Value, json};

/// Name of segue's own MCP server. Its tools need no permission, because the user requested them by using segue.
const OURS: &str = "segue";

/// Returns the configuration that adds these servers; `None` if the list is empty.
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

/// MCP servers in the form for a command line. It contains no secrets, because every user of the machine can read a
/// command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// Configuration that adds the servers.
    pub(crate) config: Map<String, Value>,
    /// Values for the servers' environment and headers, to be passed in the environment of Codex. The names are segue's
    /// own, so that Codex itself ignores them.
    pub(crate) env: Vec<(String, String)>,
    /// Servers that `exec` cannot use, with the reason, one line each.
    pub(crate) left_out: Vec<String>,
}

/// Converts MCP servers to the form for a command line.
pub(crate) fn servers_told(servers: &[McpServer]) -> Told {
    let mut told = Told::default();
    for (n, server) in servers.iter().enumerate() {
        let mut config = one(server);
        let pairs = match &server.reach {
            McpReach::Program { env: pairs, .. } | McpReach::Http { headers: pairs, .. } => pairs,
        };
        let ours: Vec<String> = (0..pairs.len())
            .map(|nth| format!("SEGUE_MCP_{n}_{nth}"))
            .collect();
        let names = pairs.iter().map(|(name, _)| name.as_str()).zip(&ours);
        match &server.reach {
            McpReach::Program { command, args, .. } if !pairs.is_empty() => {
                if let Some(odd) = pairs
                    .iter()
                    .map(|(name, _)| name)
                    .find(|name| !is_plain(name))
                {
                    told.left_out.push(format!(
                        "left the MCP server {} out: `codex exec` can't give it the variable {odd:?}",
                        server.name
                    ));
                    continue;
                }
                let mut all = vec!["-c".to_owned(), renaming(names), command.clone()];
                all.extend(args.iter().cloned());
                config["command"] = SHELL.into();
                config["args"] = json!(all);
                config["env"] = json!({});
                config["env_vars"] = json!(ours);
            }
            McpReach::Program { .. } => {}
            McpReach::Http { .. } => {
                let headers: Map<String, Value> = names
                    .map(|(header, ours)| (header.to_owned(), ours.as_str().into()))
                    .collect();
                config["http_headers"] = json!({});
                config["env_http_headers"] = headers.into();
            }
        }
        let values = pairs.iter().map(|(_, value)| value.clone());
        told.env.extend(ours.into_iter().zip(values));
        told.config.insert(server.name.clone(), config);
    }
    told
}

/// Shell that renames variables for a server, because Codex passes variables on under unchanged names.
const SHELL: &str = "/bin/sh";

/// Returns a script that gives variables the names that a server expects, and then executes the server.
fn renaming<'a>(names: impl Iterator<Item = (&'a str, &'a String)> + Clone) -> String {
    let renamed: Vec<String> = names
        .clone()
        .map(|(theirs, ours)| format!("{theirs}=\"${ours}\""))
        .collect();
    let ours: Vec<&str> = names.map(|(_, ours)| ours.as_str()).collect();
    format!(
        "export {}; unset {}; exec \"$0\" \"$@\"",
        renamed.join(" "),
        ours.join(" ")
    )
}

/// Returns `true` if a shell takes this text for the name of a variable and nothing else.
fn is_plain(name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(part) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Formats a value as TOML, on one line.
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

/// Formats a quoted string. TOML accepts JSON's escapes, but JSON does not escape U+007F.
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

    fn given(name: &str, env: &[(&str, &str)]) -> McpServer {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        McpServer {
            name: name.into(),
            reach: McpReach::Program {
                command: "/bin/tool".into(),
                args: vec!["x".into()],
                env: env.iter().map(pair).collect(),
            },
        }
    }

    #[test]
    fn what_is_secret_is_neither_on_the_command_line_nor_taken_by_codex() {
        let far = McpServer {
            name: "far".into(),
            reach: McpReach::Http {
                url: "http://localhost/mcp".into(),
                headers: vec![("Authorization".into(), "s3cret".into())],
            },
        };
        let near = given("near", &[("OPENAI_API_KEY", "s3cret"), ("HOME", "s3cret2")]);
        let other = given("other", &[("HOME", "s3cret3")]);
        let told = servers_told(&[near, far, other, given("bare", &[])]);
        let config = Value::Object(told.config);
        assert!(!config.to_string().contains("s3cret"), "{config}");
        assert_eq!(
            config["near"],
            json!({
                "command": "/bin/sh",
                "args": [
                    "-c",
                    "export OPENAI_API_KEY=\"$SEGUE_MCP_0_0\" HOME=\"$SEGUE_MCP_0_1\"; \
                     unset SEGUE_MCP_0_0 SEGUE_MCP_0_1; exec \"$0\" \"$@\"",
                    "/bin/tool",
                    "x",
                ],
                "env": {},
                "env_vars": ["SEGUE_MCP_0_0", "SEGUE_MCP_0_1"],
            })
        );
        assert_eq!(
            config["far"]["env_http_headers"]["Authorization"],
            "SEGUE_MCP_1_0"
        );
        assert_eq!(config["other"]["env_vars"], json!(["SEGUE_MCP_2_0"]));
        assert_eq!(config["bare"]["command"], "/bin/tool");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            told.env,
            [
                pair("SEGUE_MCP_0_0", "s3cret"),
                pair("SEGUE_MCP_0_1", "s3cret2"),
                pair("SEGUE_MCP_1_0", "s3cret"),
                pair("SEGUE_MCP_2_0", "s3cret3"),
            ]
        );
        assert_eq!(told.left_out, Vec::<String>::new());
    }

    #[test]
    fn what_a_shell_can_not_name_is_left_out_and_said() {
        for name in ["a.b", "1A", "", "A;touch x", "A=$(x)", "Ä"] {
            let told = servers_told(&[given("odd", &[(name, "s3cret")]), given("fine", &[])]);
            assert_eq!(told.config.keys().collect::<Vec<_>>(), ["fine"], "{name}");
            assert_eq!(told.env, [], "{name}");
            assert!(told.left_out[0].starts_with("left the MCP server odd out"));
        }
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
}
