//! Parser of the `mcp` tables.

use std::ops::Range;

use super::{ConfigParser, TableItem};
use crate::format_toml_key;
use crate::key::{ConfigKey, McpKey};
use crate::problem::ValueError;
use crate::validate::{check_header_name, check_variable_name};

const MCP_KEYS: [&str; 5] = ["command", "args", "env", "url", "headers"];

impl ConfigParser<'_> {
    pub(crate) fn parse_server(&mut self, server: &str, (name, value): TableItem<'_, '_>) {
        let section = format!("mcp.{}", format_toml_key(server));
        let problems_before = self.problems.len();
        let key = |key: McpKey| ConfigKey::Mcp(server.to_owned(), key);
        for item @ (name, value) in self.expect_table(&section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "command" => self.add_setting(key(McpKey::Command), item),
                "args" => self.add_setting(key(McpKey::Args), item),
                "url" => self.add_setting(key(McpKey::Url), item),
                "env" => {
                    let section = format!("{section}.env");
                    self.parse_named_table(
                        &section,
                        value,
                        check_variable_name,
                        |parser, name, item| {
                            parser.add_setting(key(McpKey::Env(name.to_owned())), item);
                        },
                    );
                }
                "headers" => {
                    let section = format!("{section}.headers");
                    self.parse_named_table(
                        &section,
                        value,
                        check_header_name,
                        |parser, name, item| {
                            parser.add_setting(key(McpKey::Header(name.to_owned())), item);
                        },
                    );
                }
                _ => self.report_unknown_key(item, Some(&section), &MCP_KEYS),
            }
        }
        if self.problems.len() == problems_before {
            self.check_endpoint(server, &name.span());
        }
    }

    /// Checks that a server has either a command or a URL, with the settings that belong to it.
    fn check_endpoint(&mut self, server: &str, span: &Range<usize>) {
        let key = |key: McpKey| ConfigKey::Mcp(server.to_owned(), key);
        let has_command = self.layer.contains_key(&key(McpKey::Command));
        let has_url = self.layer.contains_key(&key(McpKey::Url));
        if has_command == has_url {
            let message = if has_command {
                format!("mcp.{server} has both a `command` and a `url`")
            } else {
                format!("mcp.{server} has neither a `command` nor a `url`")
            };
            let hint =
                "set `command` for a program that the agent starts, or `url` for a running server";
            self.report_problem(span, ValueError::new(message).with_hint(hint));
            return;
        }
        let mut keys = self.layer.keys();
        let conflicting_key = keys.find(|key| match key {
            ConfigKey::Mcp(name, key) if name == server => match key {
                McpKey::Args | McpKey::Env(_) => has_url,
                McpKey::Header(_) => has_command,
                McpKey::Command | McpKey::Url => false,
            },
            _ => false,
        });
        if let Some(conflicting_key) = conflicting_key.cloned() {
            let message = if has_url {
                "a server with a `url` takes no `args` or `env`"
            } else {
                "a server with a `command` takes no `headers`"
            };
            self.report_conflict(&conflicting_key, message, "remove this setting");
        }
    }
}
