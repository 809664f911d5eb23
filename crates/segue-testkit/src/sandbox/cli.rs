//! The programs, and where an install has them.

use std::path::{Path, PathBuf};

/// A real CLI or an adapter to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cli {
    /// Gemini CLI, which speaks ACP itself.
    Gemini,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// The ACP adapter that brings a Claude Code of its own.
    ClaudeAcp,
    /// The ACP adapter that drives `codex app-server`.
    CodexAcp,
    /// opencode, which speaks ACP itself.
    Opencode,
}

impl Cli {
    /// Those that speak ACP.
    pub const ACP: [Self; 4] = [
        Self::Gemini,
        Self::ClaudeAcp,
        Self::CodexAcp,
        Self::Opencode,
    ];

    /// What it is called on the command line.
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

    /// The arguments that make it an ACP agent.
    pub fn acp_args(self) -> &'static [&'static str] {
        match self {
            Self::Gemini => &["--acp"],
            Self::Opencode => &["acp"],
            Self::ClaudeAcp | Self::CodexAcp => &[],
            Self::Claude | Self::Codex => panic!("{} does not speak ACP", self.name()),
        }
    }

    /// Where it is in an install.
    pub fn program(self, clis: &Path) -> PathBuf {
        clis.join("node_modules/.bin").join(self.name())
    }

    /// The node that all of them are run by.
    pub(crate) fn node(clis: &Path) -> PathBuf {
        clis.join("node_modules/node/bin/node")
    }
}
