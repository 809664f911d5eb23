//! MCP servers that Claude Code receives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use segue_core::agent::{McpReach, McpServer};
use serde_json::{Map, Value, json};

/// A file that exists until the program has read it. Dropping this value deletes the file.
pub(super) struct Handed(PathBuf);

impl Handed {
    pub(super) fn write(path: PathBuf, text: &str) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let handed = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(handed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        // A file that cannot be removed is still readable by its owner only.
        let _ = fs::remove_file(&self.0);
    }
}

/// Name of segue's own MCP server, whose tools need no permission.
pub(super) const OWN_TOOLS: &str = "segue";

/// Builds the MCP configuration for Claude Code.
pub(super) fn config(servers: &[McpServer]) -> Value {
    let object = |pairs: &[(String, String)]| -> Value {
        let pairs = pairs.iter().cloned();
        pairs
            .map(|(name, value)| (name, Value::from(value)))
            .collect()
    };
    let servers: Map<String, Value> = servers
        .iter()
        .map(|server| {
            let mut reach = match &server.reach {
                McpReach::Program { command, args, env } => {
                    json!({"type": "stdio", "command": command, "args": args, "env": object(env)})
                }
                McpReach::Http { url, headers } => {
                    json!({"type": "http", "url": url, "headers": object(headers)})
                }
            };
            // Claude Code hides a server's tools behind a search unless this is set.
            if server.name == OWN_TOOLS {
                reach["alwaysLoad"] = true.into();
            }
            (server.name.clone(), reach)
        })
        .collect();
    json!({ "mcpServers": servers })
}
