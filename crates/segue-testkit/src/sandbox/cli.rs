//! The CLIs, and their paths in an installation.

use std::path::{Path, PathBuf};

/// A real CLI, or an ACP adapter for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxCli {
    /// Gemini CLI, which supports ACP itself.
    Gemini,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// ACP adapter with its own copy of Claude Code.
    ClaudeAcp,
    /// ACP adapter that drives `codex app-server`.
    CodexAcp,
    /// opencode, which supports ACP itself.
    Opencode,
}

impl SandboxCli {
    /// CLIs that support ACP.
    pub const ACP_CLIS: [Self; 4] = [
        Self::Gemini,
        Self::ClaudeAcp,
        Self::CodexAcp,
        Self::Opencode,
    ];

    /// Returns the name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::CodexAcp => "codex-acp",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the arguments that start the CLI as an ACP agent.
    pub fn acp_args(self) -> &'static [&'static str] {
        match self {
            Self::Gemini => &["--acp"],
            Self::Opencode => &["acp"],
            Self::ClaudeAcp | Self::CodexAcp => &[],
            Self::Claude | Self::Codex => panic!("{} does not support ACP", self.name()),
        }
    }

    /// Returns the path of the program in an installation.
    pub fn program_path(self, cli_directory: &Path) -> PathBuf {
        cli_directory.join("node_modules/.bin").join(self.name())
    }

    /// Returns the path of the node that runs all CLIs.
    pub(crate) fn node_path(cli_directory: &Path) -> PathBuf {
        cli_directory.join("node_modules/node/bin/node")
    }
}
