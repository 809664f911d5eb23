//! MCP servers that Claude Code receives.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use segue_core::agent::{McpEndpoint, McpServer};
use serde_json::{Map, Value, json};

/// A file that exists until the program has read it. Dropping this value deletes the file.
pub(super) struct McpConfigFile(PathBuf);

impl McpConfigFile {
    pub(super) fn create(path: PathBuf, text: &str) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let config_file = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(config_file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for McpConfigFile {
    fn drop(&mut self) {
        // A file that cannot be removed is still readable by its owner only.
        let _ = fs::remove_file(&self.0);
    }
}

/// Name of segue's own MCP server, whose tools need no permission.
pub(super) const SEGUE_MCP_SERVER_NAME: &str = "segue";

/// Builds the MCP configuration for Claude Code.
pub(super) fn build_mcp_config(servers: &[McpServer]) -> Value {
    let to_object = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<Value>();
    let servers: Map<String, Value> = servers
        .iter()
        .map(|server| {
            let mut entry = match &server.endpoint {
                McpEndpoint::Program { command, args, env } => {
                    json!({"type": "stdio", "command": command, "args": args, "env": to_object(env)})
                }
                McpEndpoint::Http { url, headers } => {
                    json!({"type": "http", "url": url, "headers": to_object(headers)})
                }
            };
            // Claude Code hides a server's tools behind a search unless this is set.
            if server.name == SEGUE_MCP_SERVER_NAME {
                entry["alwaysLoad"] = true.into();
            }
            (server.name.clone(), entry)
        })
        .collect();
    json!({ "mcpServers": servers })
}
