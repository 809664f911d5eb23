//! Commands of an agent's own program for its sessions: delete and import.
//!
//! Codex and opencode have databases next to their files or instead of them, so only their own programs can do this
//! correctly.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::id::NativeId;

use crate::descriptor::ProviderDescriptor;
use crate::process::program::run_program;
use crate::process::{LeashCommand, ProgramSpec};
use crate::{Exit, find_provider};

/// Time limit for a program; the programs start in a second or two.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);

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
    descriptor: &'static ProviderDescriptor,
    program: PathBuf,
    env: Vec<(OsString, OsString)>,
    leash: LeashCommand,
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
        let descriptor = find_provider(agent)?;
        descriptor.session_commands.delete?;
        let env = env.iter();
        Some(Self {
            descriptor,
            program: program.to_owned(),
            env: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            leash: leash.clone(),
        })
    }

    /// Returns the name of the agent.
    #[must_use]
    pub fn agent(&self) -> &'static str {
        self.descriptor.name
    }

    /// Returns the command that deletes a session, as the user would type it.
    #[must_use]
    pub fn delete_command(&self, id: &NativeId) -> String {
        self.format_command(&self.delete_args(id))
    }

    fn delete_args(&self, id: &NativeId) -> Vec<OsString> {
        let args = self.descriptor.session_commands.delete.unwrap_or_default();
        build_args(args, id.as_str().as_ref())
    }

    fn format_command(&self, args: &[OsString]) -> String {
        let args = args.iter().map(|arg| arg.to_string_lossy());
        let parts: Vec<_> = std::iter::once(self.agent().into()).chain(args).collect();
        parts.join(" ")
    }

    /// Deletes a session with the agent's program.
    pub async fn delete_session(&self, id: &NativeId, cwd: &Path) -> Result<(), NativeCliError> {
        self.run_command(&self.delete_args(id), cwd).await
    }

    /// Imports an exported session with the agent's program. Returns `false` if the program has no command for this.
    pub async fn import_session(&self, export: &Path, cwd: &Path) -> Result<bool, NativeCliError> {
        let Some(args) = self.descriptor.session_commands.import else {
            return Ok(false);
        };
        let args = build_args(args, export.as_os_str());
        self.run_command(&args, cwd).await.map(|()| true)
    }

    async fn run_command(&self, args: &[OsString], cwd: &Path) -> Result<(), NativeCliError> {
        let command = self.format_command(args);
        let program = ProgramSpec {
            path: &self.program,
            args,
            env: &self.env,
            cwd,
        };
        let output = run_program(&program, &self.leash, COMMAND_TIMEOUT).await;
        let output = output.map_err(|source| NativeCliError::NotStarted {
            command: command.clone(),
            source,
        })?;
        match output.exit {
            Some(Exit::Code(0)) => Ok(()),
            Some(Exit::StillRunning) | None => Err(NativeCliError::TimedOut { command }),
            Some(exit) => Err(NativeCliError::Failed {
                command,
                exit,
                last_line: last_output_line(&output.stderr, &output.stdout),
            }),
        }
    }
}

fn build_args(args: &[&str], last: &OsStr) -> Vec<OsString> {
    let args = args.iter().map(OsString::from);
    args.chain([last.to_owned()]).collect()
}

/// Returns the last line that a program wrote, preferably to its error output.
fn last_output_line(stderr: &str, stdout: &str) -> String {
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
            assert_eq!(last_output_line(stderr, stdout), expected);
        }
    }
}
