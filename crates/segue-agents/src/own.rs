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
use crate::process::{AgentProcess, Leash, Program};

/// Time limit for a program; the programs start in a second or two.
const PATIENCE: Duration = Duration::from_mins(2);
/// Maximum number of bytes to read from a program's answer.
const ANSWER: u64 = 1 << 20;

/// Failure of an agent's program to run a command for a session.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
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
    #[error("`{command}` failed ({exit}): {said}")]
    Failed {
        /// Command that was run.
        command: String,
        /// Exit status of the program.
        exit: Exit,
        /// Last line of the program's output.
        said: String,
    },
    /// The program did not end in time.
    #[error("`{command}` did not end within {} s", PATIENCE.as_secs())]
    TimedOut {
        /// Command that was run.
        command: String,
    },
}

/// A program that has commands for its sessions.
#[derive(Debug, Clone)]
pub struct Own {
    commands: Commands,
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    leash: Leash,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commands {
    Codex,
    Opencode,
}

impl Commands {
    fn of(agent: &str) -> Option<Self> {
        match agent {
            "codex" => Some(Self::Codex),
            "opencode" => Some(Self::Opencode),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Opencode => "opencode",
        }
    }

    fn delete(self, id: &NativeId) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Codex => &["delete", "--force"],
            Self::Opencode => &["session", "delete"],
        };
        let words = words.iter().copied().chain([id.as_str()]);
        words.map(OsString::from).collect()
    }
}

impl Own {
    /// Creates the commands of an agent whose program is `program`; `None` if the agent has none.
    #[must_use]
    pub fn new(
        agent: &str,
        program: &Path,
        env: &[(String, String)],
        leash: &Leash,
    ) -> Option<Self> {
        Some(Self {
            commands: Commands::of(agent)?,
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
        self.commands.name()
    }

    /// Returns the command that deletes a session, as the user would type it.
    #[must_use]
    pub fn delete_command(&self, id: &NativeId) -> String {
        self.in_words(&self.commands.delete(id))
    }

    fn in_words(&self, args: &[OsString]) -> String {
        let args = args.iter().map(|arg| arg.to_string_lossy());
        let words: Vec<_> = std::iter::once(self.agent().into()).chain(args).collect();
        words.join(" ")
    }

    /// Deletes a session with the agent's program.
    pub async fn delete(&self, id: &NativeId, cwd: &Path) -> Result<(), OwnError> {
        self.run(&self.commands.delete(id), cwd).await
    }

    /// Imports an exported session with the agent's program. Returns `false` if the program has no command for this.
    pub async fn take_back(&self, export: &Path, cwd: &Path) -> Result<bool, OwnError> {
        match self.commands {
            Commands::Codex => Ok(false),
            Commands::Opencode => {
                let args = ["import".into(), export.as_os_str().to_owned()];
                self.run(&args, cwd).await.map(|()| true)
            }
        }
    }

    async fn run(&self, args: &[OsString], cwd: &Path) -> Result<(), OwnError> {
        let command = self.in_words(args);
        let program = Program {
            path: &self.program,
            args,
            env: &self.env,
            cwd,
        };
        let started = AgentProcess::start(&self.leash, &program);
        let (mut process, stdin, stdout) = started.map_err(|source| OwnError::NotStarted {
            command: command.clone(),
            source,
        })?;
        drop(stdin);
        let mut answer = Vec::new();
        let mut stdout = stdout.take(ANSWER);
        let read = stdout.read_to_end(&mut answer);
        let in_time = tokio::time::timeout(PATIENCE, read).await.is_ok();
        let exit = if in_time {
            process.exit().await
        } else {
            Exit::StillRunning
        };
        let stderr = process.stderr();
        process.stop().await;
        match exit {
            Exit::Code(0) => Ok(()),
            Exit::StillRunning => Err(OwnError::TimedOut { command }),
            exit => Err(OwnError::Failed {
                command,
                exit,
                said: last_words(&stderr, &answer),
            }),
        }
    }
}

/// Returns the last line that a program wrote, preferably to its error output.
fn last_words(stderr: &str, stdout: &[u8]) -> String {
    let stdout = String::from_utf8_lossy(stdout);
    let mut lines = stdout.lines().chain(stderr.lines()).map(str::trim);
    let last = lines.rfind(|line| !line.is_empty());
    last.unwrap_or("it did not say why").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_have_commands_are_asked() {
        let leash = Leash {
            program: "/nowhere".into(),
            args: Vec::new(),
        };
        let id = NativeId::parse("an-id").unwrap();
        let command = |agent: &str| {
            let own = Own::new(agent, Path::new("/bin/x"), &[], &leash)?;
            Some(own.delete_command(&id))
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
    fn the_last_line_tells_why() {
        let cases = [
            ("a\nError: b\n\n", "c\n", "Error: b"),
            ("", "c\n", "c"),
            (" \n", "", "it did not say why"),
        ];
        for (stderr, stdout, expected) in cases {
            assert_eq!(last_words(stderr, stdout.as_bytes()), expected);
        }
    }
}
