//! Commands of an agent's own program for its sessions: delete and import.
//!
//! Codex and opencode have databases next to their files or instead of them, so only their own programs can do this
//! correctly. Claude Code has no such command. segue does not use that of Gemini CLI: every start of Gemini CLI may
//! delete other sessions, and it exits successfully even if it deleted nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::id::NativeId;
use tokio::io::AsyncReadExt;

use crate::Exit;
use crate::process::{AgentProcess, LeashCommand, ProgramSpec};

/// Time limit for a program; the programs start in a second or two.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum number of bytes to read from a program's answer.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Failure of an agent's program to run a command for a session.
#[derive(Debug, thiserror::Error)]
pub enum NativeCliError {
    /// The program could not be started.
    #[error("cannot run `{command}`")]
    NotStarted {
        /// Command that segue tried to run.
        command: String,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The program failed.
    #[error("`{command}` failed ({exit}): {last_line}")]
    Failed {
        /// Command that was run.
        command: String,
        /// Exit status of the program.
        exit: Exit,
        /// Last line of the program's output.
        last_line: String,
    },
    /// The program did not end in time.
    #[error("`{command}` did not end within {} s", COMMAND_TIMEOUT.as_secs())]
    TimedOut {
        /// Command that was run.
        command: String,
    },
}

/// A program that has commands for its sessions.
#[derive(Debug, Clone)]
pub struct NativeCli {
    kind: NativeCliKind,
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    leash: LeashCommand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NativeCliKind {
    Codex,
    Opencode,
}

impl NativeCliKind {
    fn for_agent(agent: &str) -> Option<Self> {
        match agent {
            "codex" => Some(Self::Codex),
            "opencode" => Some(Self::Opencode),
            _ => None,
        }
    }

    fn agent_name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Opencode => "opencode",
        }
    }

    fn delete_args(self, id: &NativeId) -> Vec<OsString> {
        let args: &[&str] = match self {
            Self::Codex => &["delete", "--force"],
            Self::Opencode => &["session", "delete"],
        };
        let args = args.iter().copied().chain([id.as_str()]);
        args.map(OsString::from).collect()
    }
}

impl NativeCli {
    /// Creates the commands of an agent whose program is `program`; `None` if the agent has none.
    #[must_use]
    pub fn new(
        agent: &str,
        program: &Path,
        env: &[(String, String)],
        leash: &LeashCommand,
    ) -> Option<Self> {
        Some(Self {
            kind: NativeCliKind::for_agent(agent)?,
            program: program.to_owned(),
            env: env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            leash: leash.clone(),
        })
    }

    /// Returns the name of the agent.
    #[must_use]
    pub fn agent(&self) -> &'static str {
        self.kind.agent_name()
    }

    /// Returns the command that deletes a session, as the user would type it.
    #[must_use]
    pub fn delete_command(&self, id: &NativeId) -> String {
        self.format_command(&self.kind.delete_args(id))
    }

    fn format_command(&self, args: &[OsString]) -> String {
        let args = args.iter().map(|arg| arg.to_string_lossy());
        let parts: Vec<_> = std::iter::once(self.agent().into()).chain(args).collect();
        parts.join(" ")
    }

    /// Deletes a session with the agent's program.
    pub async fn delete_session(&self, id: &NativeId, cwd: &Path) -> Result<(), NativeCliError> {
        self.run_command(&self.kind.delete_args(id), cwd).await
    }

    /// Imports an exported session with the agent's program. Returns `false` if the program has no command for this.
    pub async fn import_session(&self, export: &Path, cwd: &Path) -> Result<bool, NativeCliError> {
        match self.kind {
            NativeCliKind::Codex => Ok(false),
            NativeCliKind::Opencode => {
                let args = ["import".into(), export.as_os_str().to_owned()];
                self.run_command(&args, cwd).await.map(|()| true)
            }
        }
    }

    async fn run_command(&self, args: &[OsString], cwd: &Path) -> Result<(), NativeCliError> {
        let command = self.format_command(args);
        let program = ProgramSpec {
            path: &self.program,
            args,
            env: &self.env,
            cwd,
        };
        let start_result = AgentProcess::start(&self.leash, &program);
        let (mut process, stdin, stdout) =
            start_result.map_err(|source| NativeCliError::NotStarted {
                command: command.clone(),
                source,
            })?;
        drop(stdin);
        let mut output = Vec::new();
        let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
        let reading = stdout.read_to_end(&mut output);
        let ended_in_time = tokio::time::timeout(COMMAND_TIMEOUT, reading).await.is_ok();
        let exit = if ended_in_time {
            process.wait_for_exit().await
        } else {
            Exit::StillRunning
        };
        let stderr = process.stderr();
        process.stop().await;
        match exit {
            Exit::Code(0) => Ok(()),
            Exit::StillRunning => Err(NativeCliError::TimedOut { command }),
            exit => Err(NativeCliError::Failed {
                command,
                exit,
                last_line: last_output_line(&stderr, &output),
            }),
        }
    }
}

/// Returns the last line that a program wrote, preferably to its error output.
fn last_output_line(stderr: &str, stdout: &[u8]) -> String {
    let stdout = String::from_utf8_lossy(stdout);
    let mut lines = stdout.lines().chain(stderr.lines()).map(str::trim);
    let last_line = lines.rfind(|line| !line.is_empty());
    last_line.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_agents_with_session_commands_are_supported() {
        let leash = LeashCommand {
            program: "/nonexistent".into(),
            args: Vec::new(),
        };
        let id = NativeId::parse("an-id").unwrap();
        let command = |agent: &str| {
            let cli = NativeCli::new(agent, Path::new("/bin/x"), &[], &leash)?;
            Some(cli.delete_command(&id))
        };
        let cases = [
            ("codex", Some("codex delete --force an-id")),
            ("opencode", Some("opencode session delete an-id")),
            ("claude", None),
            ("gemini", None),
            ("rehearsal", None),
        ];
        for (agent, expected) in cases {
            assert_eq!(command(agent).as_deref(), expected, "{agent}");
        }
    }

    #[test]
    fn the_last_output_line_is_reported() {
        let cases = [
            ("a\nError: b\n\n", "c\n", "Error: b"),
            ("", "c\n", "c"),
            (" \n", "", "no reason given"),
        ];
        for (stderr, stdout, expected) in cases {
            assert_eq!(last_output_line(stderr, stdout.as_bytes()), expected);
        }
    }
}
