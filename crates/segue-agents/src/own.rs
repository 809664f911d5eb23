//! What an agent's own program does with its sessions: delete one, take one back.
//!
//! Codex and opencode have databases beside, or instead of, files, so only they can do it right. Claude Code has no such
//! command. That of Gemini CLI is not used: every start of it may delete other sessions, and it ends well even when
//! it deleted nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::NativeId;
use tokio::io::AsyncReadExt;

use crate::Exit;
use crate::process::{AgentProcess, Leash, Program};

/// How long a program may take; they start in a second or two.
const PATIENCE: Duration = Duration::from_mins(2);
/// How much of its answer is read.
const ANSWER: u64 = 1 << 20;

/// An agent's program did not do what it was asked to do with a session.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// It can't be started.
    #[error("cannot run `{command}`")]
    NotStarted {
        /// What was to be run.
        command: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It failed.
    #[error("`{command}` failed ({exit}): {said}")]
    Failed {
        /// What was run.
        command: String,
        /// How it ended.
        exit: Exit,
        /// What it said.
        said: String,
    },
    /// It did not end.
    #[error("`{command}` did not end within {} s", PATIENCE.as_secs())]
    TimedOut {
        /// What was run.
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
    /// The commands of an agent whose program is there; none if it has none.
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

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &'static str {
        self.commands.name()
    }

    /// The command that deletes a session, as a person would type it.
    #[must_use]
    pub fn delete_command(&self, id: &NativeId) -> String {
        self.in_words(&self.commands.delete(id))
    }

    fn in_words(&self, args: &[OsString]) -> String {
        let args = args.iter().map(|arg| arg.to_string_lossy());
        let words: Vec<_> = std::iter::once(self.agent().into()).chain(args).collect();
        words.join(" ")
    }

    /// Has the program delete a session.
    pub async fn delete(&self, id: &NativeId, cwd: &Path) -> Result<(), OwnError> {
        self.run(&self.commands.delete(id), cwd).await
    }

    /// Has the program take an exported session back, if it has a command for it; tells whether it has.
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

/// The last line that a program wrote, rather as an error.
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
