//! Tools that an agent is handed along with a conversation.

/// An MCP server that an agent is to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// What it is called; the agent puts the name before those of its tools.
    pub name: String,
    /// How it is reached.
    pub reach: McpReach,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpReach {
    /// The agent starts a program and talks to it over its standard input and output.
    Program {
        /// The program, by its absolute path.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
    },
    /// It listens at an address.
    Http {
        /// The address.
        url: String,
        /// What is sent along with every request.
        headers: Vec<(String, String)>,
    },
}
