//! Agents that segue supports, and their detection on this machine.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::id::NativeId;
use tokio::io::AsyncReadExt;

use crate::process::{AgentProcess, LeashCommand, ProgramSpec};

/// An agent program with its default name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAgent {
    /// Name of the provider.
    pub provider: &'static str,
    /// Name of the program.
    pub program: &'static str,
}

/// Agents that segue supports, in order of preference.
pub const KNOWN_AGENTS: [KnownAgent; 3] = [
    KnownAgent {
        provider: "claude",
        program: "claude",
    },
    KnownAgent {
        provider: "codex",
        program: "codex",
    },
    KnownAgent {
        provider: "gemini",
        program: "gemini",
    },
];

/// Returns the command with which the user resumes a native session in the agent's own program.
#[must_use]
pub fn resume_command(provider: &str, id: &NativeId) -> Option<String> {
    let args = crate::native_cli::resume::resume_args(provider, id)?;
    Some(format!("{provider} {}", args.join(" ")))
}

/// Returns the first executable of that name in the directories of `path`, the value of a `PATH` variable.
#[must_use]
pub fn find_program(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Maximum number of bytes to read from a program's answer.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Returns the first line that a program prints for `--version`; `None` if it does not end in time.
pub async fn query_version(
    program: &Path,
    leash: &LeashCommand,
    timeout: Duration,
) -> Option<String> {
    let output =
        read_program_output(program, &["--version"], Path::new("/"), leash, timeout).await?;
    let mut lines = output.lines().map(str::trim);
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns the output of a program that runs with `args` in `cwd`; `None` if it does not end in time.
pub async fn read_program_output(
    program: &Path,
    args: &[&str],
    cwd: &Path,
    leash: &LeashCommand,
    timeout: Duration,
) -> Option<String> {
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    let program_spec = ProgramSpec {
        path: program,
        args: &args,
        env: &[],
        cwd,
    };
    let (process, stdin, stdout) = AgentProcess::start(leash, &program_spec).ok()?;
    drop(stdin);
    let mut output = Vec::new();
    let read_result = tokio::time::timeout(
        timeout,
        stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut output),
    )
    .await;
    process.stop().await;
    read_result.ok()?.ok()?;
    Some(String::from_utf8_lossy(&output).into_owned())
}
