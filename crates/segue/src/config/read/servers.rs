//! Parser of the `mcp` tables.

use std::ops::Range;

use super::{Item, Reading};
use crate::config::accept::{header_name, variable_name};
use crate::config::bare;
use crate::config::key::{Key, McpKey};
use crate::config::problem::Wrong;

const MCP: [&str; 5] = ["command", "args", "env", "url", "headers"];

impl Reading<'_> {
    pub(super) fn server(&mut self, server: &str, (name, value): Item<'_, '_>) {
        let section = format!("mcp.{}", bare(server));
        let problems_before = self.problems.len();
        let key = |key: McpKey| Key::Mcp(server.to_owned(), key);
        for item @ (name, value) in self.table(&section, value).into_iter().flatten() {
            match name.get_ref().as_ref() {
                "command" => self.set(key(McpKey::Command), item),
                "args" => self.set(key(McpKey::Args), item),
                "url" => self.set(key(McpKey::Url), item),
                "env" => {
                    let section = format!("{section}.env");
                    self.named(&section, value, variable_name, |reading, name, item| {
                        reading.set(key(McpKey::Env(name.to_owned())), item);
                    });
                }
                "headers" => {
                    let section = format!("{section}.headers");
                    self.named(&section, value, header_name, |reading, name, item| {
                        reading.set(key(McpKey::Header(name.to_owned())), item);
                    });
                }
                _ => self.unknown(item, Some(&section), &MCP),
            }
        }
        if self.problems.len() == problems_before {
            self.one_reach(server, &name.span());
        }
    }

    /// Checks that a server has either a command or a URL, with the settings that belong to it.
    fn one_reach(&mut self, server: &str, span: &Range<usize>) {
        let key = |key: McpKey| Key::Mcp(server.to_owned(), key);
        let command = self.layer.contains_key(&key(McpKey::Command));
        let url = self.layer.contains_key(&key(McpKey::Url));
        if command == url {
            let message = if command {
                format!("mcp.{server} has both a `command` and a `url`")
            } else {
                format!("mcp.{server} has neither a `command` nor a `url`")
            };
            let hint = "a program that is started has a `command`, one that listens has a `url`";
            self.problem(span, Wrong::new(message).hint(hint));
            return;
        }
        let mut keys = self.layer.keys();
        let stray = keys.find(|key| match key {
            Key::Mcp(name, key) if name == server => match key {
                McpKey::Args | McpKey::Env(_) => url,
                McpKey::Header(_) => command,
                McpKey::Command | McpKey::Url => false,
            },
            _ => false,
        });
        if let Some(stray) = stray.cloned() {
            let message = if url {
                "a server with a `url` is not started, so it has no `args` or `env`"
            } else {
                "a server with a `command` is not asked over HTTP, so it has no `headers`"
            };
            self.clash(&stray, message, "remove it");
        }
    }
}
