//! Configuration overrides for Codex, above all its MCP servers.

use segue_core::agent::{McpEndpoint, McpServer};
use segue_core::session::GuardAction;
use serde_json::{Map, Value, json};

/// Name of segue's own MCP server. Its tools need no permission, because the user requested them by using segue.
const SEGUE_MCP_SERVER_NAME: &str = "segue";

/// Returns the configuration that adds these servers; `None` if the list is empty.
pub(crate) fn build_mcp_config(servers: &[McpServer]) -> Option<Value> {
    let configs = servers
        .iter()
        .map(|server| (server.name.clone(), build_server_config(server)));
    (!servers.is_empty()).then(|| configs.collect())
}

fn build_server_config(server: &McpServer) -> Value {
    let to_table = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<Value>();
    let mut config = match &server.endpoint {
        McpEndpoint::Program { command, args, env } => {
            json!({"command": command, "args": args, "env": to_table(env)})
        }
        McpEndpoint::Http { url, headers } => {
            json!({"url": url, "http_headers": to_table(headers)})
        }
    };
    if server.name == SEGUE_MCP_SERVER_NAME {
        config["default_tools_approval_mode"] = "approve".into();
    }
    config
}

/// MCP servers in the form for a command line. It contains no secrets, because every user of the machine can read a
/// command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct McpOverrides {
    /// Configuration that adds the servers.
    pub(crate) config: Map<String, Value>,
    /// Values for the servers' environment and headers, to be passed in the environment of Codex. The names are segue's
    /// own, so that Codex itself ignores them.
    pub(crate) env: Vec<(String, String)>,
    /// Servers that `exec` cannot use, with the reason.
    pub(crate) omitted: Vec<GuardAction>,
}

/// Converts MCP servers to the form for a command line.
pub(crate) fn build_mcp_overrides(servers: &[McpServer]) -> McpOverrides {
    let mut overrides = McpOverrides::default();
    for (server_index, server) in servers.iter().enumerate() {
        let mut config = build_server_config(server);
        let pairs = match &server.endpoint {
            McpEndpoint::Program { env: pairs, .. } | McpEndpoint::Http { headers: pairs, .. } => {
                pairs
            }
        };
        let variables: Vec<String> = (0..pairs.len())
            .map(|pair_index| format!("SEGUE_MCP_{server_index}_{pair_index}"))
            .collect();
        let names = pairs.iter().map(|(name, _)| name.as_str()).zip(&variables);
        match &server.endpoint {
            McpEndpoint::Program { command, args, .. } if !pairs.is_empty() => {
                if let Some(invalid_name) = pairs
                    .iter()
                    .map(|(name, _)| name)
                    .find(|name| !is_variable_name(name))
                {
                    overrides.omitted.push(GuardAction::McpServerOmitted {
                        server: server.name.clone(),
                        variable: invalid_name.clone(),
                    });
                    continue;
                }
                let mut shell_args = vec![
                    "-c".to_owned(),
                    render_rename_script(names),
                    command.clone(),
                ];
                shell_args.extend(args.iter().cloned());
                config["command"] = SHELL_PATH.into();
                config["args"] = json!(shell_args);
                config["env"] = json!({});
                config["env_vars"] = json!(variables);
            }
            McpEndpoint::Program { .. } => {}
            McpEndpoint::Http { .. } => {
                let headers: Map<String, Value> = names
                    .map(|(header, variable)| (header.to_owned(), variable.as_str().into()))
                    .collect();
                config["http_headers"] = json!({});
                config["env_http_headers"] = headers.into();
            }
        }
        let values = pairs.iter().map(|(_, value)| value.clone());
        overrides.env.extend(variables.into_iter().zip(values));
        overrides.config.insert(server.name.clone(), config);
    }
    overrides
}

/// Shell that renames variables for a server, because Codex passes variables on under unchanged names.
const SHELL_PATH: &str = "/bin/sh";

/// Returns a script that gives variables the names that a server expects, and then executes the server.
fn render_rename_script<'a>(names: impl Iterator<Item = (&'a str, &'a String)> + Clone) -> String {
    let renamed: Vec<String> = names
        .clone()
        .map(|(expected_name, variable)| format!("{expected_name}=\"${variable}\""))
        .collect();
    let variables: Vec<&str> = names.map(|(_, variable)| variable.as_str()).collect();
    format!(
        "export {}; unset {}; exec \"$0\" \"$@\"",
        renamed.join(" "),
        variables.join(" ")
    )
}

/// Returns `true` if a shell takes this text for the name of a variable and nothing else.
fn is_variable_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_name_char) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Formats a value as TOML, on one line.
pub(crate) fn render_toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let pairs: Vec<String> = table
                .iter()
                .map(|(name, value)| {
                    format!("{} = {}", render_toml_string(name), render_toml(value))
                })
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(render_toml).collect();
            format!("[{}]", values.join(", "))
        }
        Value::String(text) => render_toml_string(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Formats a quoted string. TOML accepts JSON's escapes, but JSON does not escape U+007F.
fn render_toml_string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_server(name: &str) -> McpServer {
        McpServer {
            name: name.into(),
            endpoint: McpEndpoint::Program {
                command: "/bin/tool".into(),
                args: vec!["a \"b\"".into()],
                env: vec![("K".into(), "v".into())],
            },
        }
    }

    fn server_with_env(name: &str, env: &[(&str, &str)]) -> McpServer {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        McpServer {
            name: name.into(),
            endpoint: McpEndpoint::Program {
                command: "/bin/tool".into(),
                args: vec!["x".into()],
                env: env.iter().map(pair).collect(),
            },
        }
    }

    #[test]
    fn secrets_are_neither_on_the_command_line_nor_read_by_codex() {
        let http_server = McpServer {
            name: "http".into(),
            endpoint: McpEndpoint::Http {
                url: "http://localhost/mcp".into(),
                headers: vec![("Authorization".into(), "s3cret".into())],
            },
        };
        let first_server = server_with_env(
            "first",
            &[("OPENAI_API_KEY", "s3cret"), ("HOME", "s3cret2")],
        );
        let second_server = server_with_env("other", &[("HOME", "s3cret3")]);
        let overrides = build_mcp_overrides(&[
            first_server,
            http_server,
            second_server,
            server_with_env("empty", &[]),
        ]);
        let config = Value::Object(overrides.config);
        assert!(!config.to_string().contains("s3cret"), "{config}");
        assert_eq!(
            config["first"],
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
            config["http"]["env_http_headers"]["Authorization"],
            "SEGUE_MCP_1_0"
        );
        assert_eq!(config["other"]["env_vars"], json!(["SEGUE_MCP_2_0"]));
        assert_eq!(config["empty"]["command"], "/bin/tool");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            overrides.env,
            [
                pair("SEGUE_MCP_0_0", "s3cret"),
                pair("SEGUE_MCP_0_1", "s3cret2"),
                pair("SEGUE_MCP_1_0", "s3cret"),
                pair("SEGUE_MCP_2_0", "s3cret3"),
            ]
        );
        assert_eq!(overrides.omitted, []);
    }

    #[test]
    fn a_server_with_an_invalid_variable_name_is_omitted_and_reported() {
        for name in ["a.b", "1A", "", "A;touch x", "A=$(x)", "Ä"] {
            let overrides = build_mcp_overrides(&[
                server_with_env("invalid", &[(name, "s3cret")]),
                server_with_env("valid", &[]),
            ]);
            assert_eq!(
                overrides.config.keys().collect::<Vec<_>>(),
                ["valid"],
                "{name}"
            );
            assert_eq!(overrides.env, [], "{name}");
            let omission = GuardAction::McpServerOmitted {
                server: "invalid".to_owned(),
                variable: name.to_owned(),
            };
            assert_eq!(overrides.omitted, [omission]);
        }
    }

    #[test]
    fn only_segues_own_server_needs_no_permission() {
        let config = build_mcp_config(&[program_server("segue"), program_server("other")]).unwrap();
        assert_eq!(config["segue"]["default_tools_approval_mode"], "approve");
        assert_eq!(
            config["other"],
            json!({"command": "/bin/tool", "args": ["a \"b\""], "env": {"K": "v"}})
        );
        assert_eq!(build_mcp_config(&[]), None);
    }

    #[test]
    fn an_http_server_has_headers() {
        let server = McpServer {
            name: "http".into(),
            endpoint: McpEndpoint::Http {
                url: "http://localhost/mcp".into(),
                headers: vec![("X".into(), "1".into())],
            },
        };
        let expected = json!({"http": {"url": "http://localhost/mcp", "http_headers": {"X": "1"}}});
        assert_eq!(build_mcp_config(&[server]), Some(expected));
    }

    #[test]
    fn values_are_rendered_as_toml() {
        let cases = [
            (json!("a \"b\"\n"), r#""a \"b\"\n""#),
            (json!("\u{7f}"), r#""\u007f""#),
            (json!(["x", true, 3]), r#"["x", true, 3]"#),
            (json!({"a.b": {"c": "d"}}), r#"{"a.b" = {"c" = "d"}}"#),
        ];
        for (value, expected) in cases {
            assert_eq!(render_toml(&value), expected);
        }
    }
}
