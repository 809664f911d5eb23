//! Lookup of programs on this machine, and short runs of them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::process::{AgentProcess, Exit, LeashCommand, ProgramSpec};

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

/// A run of a program that has ended.
pub(crate) struct ProgramRun {
    /// Exit status. `None` if the program was ended because it took too long.
    pub(crate) exit: Option<Exit>,
    /// Beginning of the output.
    pub(crate) stdout: String,
    /// End of the error output.
    pub(crate) stderr: String,
}

/// Runs a program without input until it closes its output, and then ends it.
pub(crate) async fn run_program(
    program: &ProgramSpec<'_>,
    leash: &LeashCommand,
    timeout: Duration,
) -> io::Result<ProgramRun> {
    let (mut process, stdin, stdout) = AgentProcess::start(leash, program)?;
    drop(stdin);
    let mut bytes = Vec::new();
    let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
    let reading = stdout.read_to_end(&mut bytes);
    let exit = match tokio::time::timeout(timeout, reading).await {
        Ok(_) => Some(process.wait_for_exit().await),
        Err(_) => None,
    };
    let stderr = process.stderr();
    process.stop().await;
    Ok(ProgramRun {
        exit,
        stdout: String::from_utf8_lossy(&bytes).into_owned(),
        stderr,
    })
}

/// Returns the first line that a program prints for `--version`; `None` if it does not end in time.
pub(crate) async fn query_version(
    program: &Path,
    env: &[(OsString, OsString)],
    leash: &LeashCommand,
    timeout: Duration,
) -> Option<String> {
    let program = ProgramSpec {
        path: program,
        args: &["--version".into()],
        env,
        cwd: Path::new("/"),
    };
    let output = run_program(&program, leash, timeout).await.ok()?;
    output.exit?;
    let mut lines = output.stdout.lines().map(str::trim);
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
    let program = ProgramSpec {
        path: program,
        args: &args,
        env: &[],
        cwd,
    };
    let output = run_program(&program, leash, timeout).await.ok()?;
    output.exit.map(|_| output.stdout)
}
