//! Agents that segue supports, and their detection on this machine.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::id::NativeId;
use tokio::io::AsyncReadExt;

use crate::exec;
use crate::process::{AgentProcess, Leash, Program};

/// An agent program with its default name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Name of the provider.
    pub provider: &'static str,
    /// Name of the program.
    pub program: &'static str,
}

/// Agents that segue supports, in order of preference.
pub const KNOWN: [Known; 3] = [
    Known {
        provider: "claude",
        program: "claude",
    },
    Known {
        provider: "codex",
        program: "codex",
    },
    Known {
        provider: "gemini",
        program: "gemini",
    },
];

/// Returns the command with which the user resumes a native session in the agent's own program.
#[must_use]
pub fn resume_command(provider: &str, id: &NativeId) -> Option<String> {
    let args = exec::resume_args(provider, id)?;
    Some(format!("{provider} {}", args.join(" ")))
}

/// Returns the instruction with which the user gives an agent credentials.
#[must_use]
pub fn how_to_log_in(provider: &str) -> String {
    match provider {
        "claude" => "start `claude` and log in with /login".to_owned(),
        "codex" => "run `codex login`".to_owned(),
        "gemini" => "start `gemini` and log in with /auth".to_owned(),
        other => format!("log in with the program of {other}"),
    }
}

/// Returns the instruction with which the user allows an agent to work in a folder.
#[must_use]
pub fn how_to_trust(provider: &str) -> String {
    match provider {
        "codex" => "start `codex` in this folder once and trust it (or make it a git repository)"
            .to_owned(),
        "gemini" => "start `gemini` in this folder once and trust it".to_owned(),
        other => format!("start the program of {other} in this folder once and trust it"),
    }
}

/// Returns the first executable of that name in the directories of `path`, the value of a `PATH` variable.
#[must_use]
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Maximum number of bytes to read from a program's answer.
const ANSWER: u64 = 1 << 20;

/// Returns the first line that a program prints for `--version`; `None` if it does not end in time.
pub async fn version(program: &Path, leash: &Leash, timeout: Duration) -> Option<String> {
    let answer = ask(program, &["--version"], Path::new("/"), leash, timeout).await?;
    let mut lines = answer.lines().map(str::trim);
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

/// Returns the output of a program that runs with `args` in `cwd`; `None` if it does not end in time.
pub async fn ask(
    program: &Path,
    args: &[&str],
    cwd: &Path,
    leash: &Leash,
    timeout: Duration,
) -> Option<String> {
    let args: Vec<OsString> = args.iter().map(Into::into).collect();
    let asked = Program {
        path: program,
        args: &args,
        env: &[],
        cwd,
    };
    let (process, stdin, stdout) = AgentProcess::start(leash, &asked).ok()?;
    drop(stdin);
    let mut answer = Vec::new();
    let read = tokio::time::timeout(timeout, stdout.take(ANSWER).read_to_end(&mut answer)).await;
    process.stop().await;
    read.ok()?.ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
