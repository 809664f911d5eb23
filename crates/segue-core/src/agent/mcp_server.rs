//! MCP servers that an agent receives with a native session.

/// An MCP server that an agent should use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Name of the server. The agent prefixes the names of its tools with it.
    pub name: String,
    /// Method to connect to the server.
    pub endpoint: McpEndpoint,
}

/// Method to connect to an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpEndpoint {
    /// The agent starts a program and communicates with it over standard input and output.
    Program {
        /// Absolute path of the program.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Variables that are added to its environment.
        env: Vec<(String, String)>,
    },
    /// The server accepts connections at a URL.
    Http {
        /// URL of the server.
        url: String,
        /// Headers that are sent with every request.
        headers: Vec<(String, String)>,
    },
}
