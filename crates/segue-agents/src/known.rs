//! The agents people have, and whether one of them is on this machine.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::NativeId;
use tokio::io::AsyncReadExt;

use crate::exec;
use crate::process::{AgentProcess, Leash, Program};

/// An agent program by its usual name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The provider's name.
    pub provider: &'static str,
    /// The program's name.
    pub program: &'static str,
}

/// The agents that segue knows of, in the order in which it would choose.
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

/// How a person goes on with a native session in the agent's own program.
#[must_use]
pub fn resume_command(provider: &str, id: &NativeId) -> Option<String> {
    let args = exec::resume_args(provider, id)?;
    Some(format!("{provider} {}", args.join(" ")))
}

/// What a person does so that an agent has credentials.
#[must_use]
pub fn how_to_log_in(provider: &str) -> String {
    match provider {
        "claude" => "start `claude` and log in with /login".to_owned(),
        "codex" => "run `codex login`".to_owned(),
        "gemini" => "start `gemini` and log in with /auth".to_owned(),
        other => format!("log in with the program of {other}"),
    }
}

/// What a person does so that an agent works in a folder.
#[must_use]
pub fn how_to_trust(provider: &str) -> String {
    match provider {
        "codex" => "start `codex` in this folder once and trust it (or make it a git repository)"
            .to_owned(),
        "gemini" => "start `gemini` in this folder once and trust it".to_owned(),
        other => format!("start the program of {other} in this folder once and trust it"),
    }
}

/// The first program of that name in the directories of `path`, a `PATH` variable's value.
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

/// How much of a program's answer is read.
const ANSWER: u64 = 1 << 20;

/// What a program says when asked for its version: the first line, if it answers in time.
pub async fn version(program: &Path, leash: &Leash, timeout: Duration) -> Option<String> {
    let answer = ask(program, &["--version"], Path::new("/"), leash, timeout).await?;
    let mut lines = answer.lines().map(str::trim);
    lines.find(|line| !line.is_empty()).map(str::to_owned)
}

/// What a program prints when run with `args` in `cwd`, if it ends in time.
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
