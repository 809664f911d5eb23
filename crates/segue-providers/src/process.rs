//! Start and end of an agent's program on the leash.

mod identity;
pub mod in_use;
pub mod leash;
pub mod program;
mod stderr_tail;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use segue_core::agent::ProcessIdentity;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub use identity::{ProcessStatus, end_agent, identify_process, process_status, wait_until_ended};
use leash::SIGTERM_GRACE;
use stderr_tail::StderrTail;

/// Command that starts the leash: usually segue itself, with a hidden subcommand.
#[derive(Debug, Clone)]
pub struct LeashCommand {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments before `--lifeline N -- PROGRAM ARGS…`.
    pub args: Vec<OsString>,
}

/// Exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The program exited with a code.
    Code(i32),
    /// A signal ended the program.
    Signal(i32),
    /// The program has not ended: it has only closed its output.
    StillRunning,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::StillRunning => f.write_str("closed its output"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            // The leash reports a signal as shells do: 128 plus its number.
            (Some(code), _) if code > 128 => Self::Signal(code - 128),
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

/// A program to start.
pub(crate) struct ProgramSpec<'a> {
    pub(crate) path: &'a Path,
    pub(crate) args: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) cwd: &'a Path,
}

/// A program on the leash. Dropping it ends the program and all processes that it started, in the background.
pub(crate) struct AgentProcess {
    leash: Child,
    lifeline: Option<OwnedFd>,
    pid: u32,
    stderr: StderrTail,
}

impl AgentProcess {
    /// Starts a program. The caller receives its input and output.
    pub(crate) fn start(
        leash: &LeashCommand,
        program: &ProgramSpec<'_>,
    ) -> io::Result<(Self, ChildStdin, ChildStdout)> {
        let (leash_end, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        // The leash inherits only this end. No other process has the other end, so the pipe closes when segue exits.
        fcntl_setfd(&leash_end, FdFlags::empty())?;
        let mut command = Command::new(&leash.program);
        command
            .args(&leash.args)
            .arg("--lifeline")
            .arg(leash_end.as_raw_fd().to_string())
            .arg("--")
            .arg(program.path)
            .args(program.args)
            .envs(program.env.iter().map(|(key, value)| (key, value)))
            .current_dir(program.cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[expect(clippy::disallowed_methods, reason = "this starts the leash itself")]
        let started = command.spawn();
        let path = program.path.display();
        let mut leash = started.inspect_err(|error| {
            let error_kind = error.kind();
            tracing::warn!(program = %path, %error_kind, "process not started");
        })?;
        let leash_ended = || io::Error::other("the leash exited immediately");
        let pid = leash.id().ok_or_else(leash_ended)?;
        tracing::debug!(pid, program = %path, "process started");
        let (stdin, stdout) = leash
            .stdin
            .take()
            .zip(leash.stdout.take())
            .ok_or_else(leash_ended)?;
        let stderr = leash
            .stderr
            .take()
            .map(StderrTail::follow)
            .unwrap_or_default();
        let process = Self {
            leash,
            lifeline: Some(lifeline),
            pid,
            stderr,
        };
        Ok((process, stdin, stdout))
    }

    /// Returns the identity of the process group in which all processes of the agent run.
    pub(crate) fn identity(&self) -> Option<ProcessIdentity> {
        identify_process(self.pid)
    }

    /// Returns the end of the error output.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits for the exit status. The wait is needed because pipes close before a process has ended, and the leash
    /// first ends the remaining processes.
    pub(crate) async fn wait_for_exit(&mut self) -> Exit {
        let wait_timeout = SIGTERM_GRACE + Duration::from_secs(1);
        let exit = match tokio::time::timeout(wait_timeout, self.leash.wait()).await {
            Ok(Ok(status)) => status.into(),
            Ok(Err(_)) | Err(_) => Exit::StillRunning,
        };
        tracing::debug!(pid = self.pid, %exit, "process closed its output");
        exit
    }

    /// Returns `true` if the leash, and thus the program, has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.leash.try_wait(), Ok(None))
    }

    /// Sends SIGTERM to the leash, which ends the program. Does not wait.
    pub(crate) fn terminate(&self) {
        if let Some(leash_pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // The leash may be ending on its own.
            let _ = rustix::process::kill_process(leash_pid, Signal::TERM);
        }
    }

    /// Returns once the leash was killed, which only another process can have done; never returns if the leash exits
    /// normally.
    pub(crate) async fn wait_for_leash_kill(&mut self) {
        let was_killed = matches!(self.leash.wait().await, Ok(status) if status.signal().is_some());
        if !was_killed {
            std::future::pending::<()>().await;
        }
        tracing::warn!(pid = self.pid, "leash killed by another process");
    }

    /// Ends the program and waits until no process of it is left.
    pub(crate) async fn stop(mut self) {
        self.lifeline = None;
        let started = Instant::now();
        let stop_timeout = SIGTERM_GRACE + Duration::from_secs(4);
        match tokio::time::timeout(stop_timeout, self.leash.wait()).await {
            Ok(Ok(status)) if status.signal().is_none() => {
                let exit = Exit::from(status);
                let elapsed_ms = started.elapsed().as_millis();
                tracing::debug!(pid = self.pid, %exit, elapsed_ms, "process stopped");
            }
            // The leash was killed or does not respond, so only its group can be reached.
            Ok(_) | Err(_) => {
                self.kill_group();
                let _ = self.leash.wait().await;
                let elapsed_ms = started.elapsed().as_millis();
                tracing::warn!(pid = self.pid, elapsed_ms, "process killed");
            }
        }
    }

    fn kill_group(&self) {
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // The group may be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        if self.lifeline.is_some() {
            tracing::debug!(pid = self.pid, "process dropped");
        }
        // A running leash does its work once the lifeline closes; a killed one cannot.
        let was_killed =
            matches!(self.leash.try_wait(), Ok(Some(status)) if status.signal().is_some());
        if was_killed {
            self.kill_group();
        }
    }
}
