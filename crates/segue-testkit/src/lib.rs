//! Support for tests and benchmarks: the segue binary in a hermetic home, and the real CLIs with a model stub.
//!
//! A [`TestHome`] has its own home, its own project directory and an environment without the developer's settings. It
//! lists the running processes that were started in it, regardless of their parents.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::print_stdout,
    reason = "test support: a failed check panics"
)]

pub mod model;
mod output;
mod processes;
pub mod sandbox;
pub mod terminal;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use output::ProgramOutput;

/// Programs on the search path of a test home. Agents that the developer has installed are not among them.
const PATH_PROGRAMS: [&str; 3] = ["sh", "setsid", "sleep"];

/// Returns the path of a program on the developer's machine. If the program is not found, returns its name, so that the
/// error on starting it contains the name.
fn find_program(program: impl AsRef<Path>) -> PathBuf {
    let program = program.as_ref();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(program));
    candidates
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| program.to_owned())
}

/// Hermetic environment for segue: a temporary directory with a home, a project and a search path.
pub struct TestHome {
    directory: TempDir,
    segue_binary: PathBuf,
}

impl TestHome {
    /// Creates a test home for the segue binary at `segue_binary`, usually `env!("CARGO_BIN_EXE_segue")`.
    #[must_use]
    pub fn new(segue_binary: impl Into<PathBuf>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("segue-test-")
            .tempdir()
            .unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let bin_directory = directory.path().join("bin");
        std::fs::create_dir(&bin_directory).unwrap();
        for program in PATH_PROGRAMS {
            symlink(find_program(program), bin_directory.join(program)).unwrap();
        }
        Self {
            directory,
            segue_binary: segue_binary.into(),
        }
    }

    /// Returns the directory that contains the complete test home.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the data directory of segue.
    #[must_use]
    pub fn segue_home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Returns the working directory of segue.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// Returns a command for a program of the developer's machine, with the environment of this test home.
    #[must_use]
    pub fn program_command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(find_program(program));
        command
            .env_clear()
            .env("PATH", self.path().join("bin"))
            .env("HOME", self.path())
            .env("SEGUE_HOME", self.segue_home())
            .env("LANG", "C.UTF-8")
            .envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Returns a command for the segue binary with these arguments.
    #[must_use]
    pub fn segue_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.program_command(&self.segue_binary);
        command.args(args);
        command
    }

    /// Runs segue and waits for its end.
    #[must_use]
    pub fn run_segue<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> ProgramOutput {
        ProgramOutput::from_command(&mut self.segue_command(args), self)
    }

    /// Runs segue with `input` on its standard input.
    #[must_use]
    pub fn run_segue_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> ProgramOutput {
        let mut command = self.segue_command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not need the input may close it early.
        let _ = child.stdin.take().unwrap().write_all(input);
        ProgramOutput::from_std(&child.wait_with_output().unwrap(), self)
    }

    /// Runs segue and parses the JSON that it prints. Panics unless segue succeeds.
    #[must_use]
    pub fn run_segue_json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let output = self.run_segue(args);
        assert_eq!(output.code, Some(0), "{output}");
        serde_json::from_str(&output.raw_stdout)
            .unwrap_or_else(|error| panic!("{error} in {output}"))
    }

    /// Starts `segue chat --events` and returns a reader of its events.
    #[must_use]
    pub fn start_chat<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> ChatProcess {
        let mut command = self.segue_command(["chat", "--events"]);
        command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        ChatProcess { child, stdout }
    }

    /// Returns the running processes of this test home, each as "pid: command line".
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        let variable = format!("SEGUE_HOME={}", self.segue_home().display());
        processes::describe_processes(&processes::find_by_environment(&variable))
    }

    /// Waits until no process of this test home is running. Panics if one still is after 15 seconds.
    pub fn assert_no_processes(&self) {
        for _ in 0..150 {
            if self.processes().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("processes are still running: {:?}", self.processes());
    }
}

/// A running `segue chat --events`.
pub struct ChatProcess {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl ChatProcess {
    /// Reads the next event. `None` at the end of the output.
    pub fn next_event(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(1..) => Some(
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}")),
            ),
            Ok(0) | Err(_) => None,
        }
    }

    /// Sends a signal to the segue process.
    pub fn send_signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        // The process may have ended already.
        let _ = kill_process(pid, signal);
    }

    /// Waits for the end of segue. Returns the exit code; `None` if a signal ended it.
    #[must_use]
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Kills segue with SIGKILL and returns the events that were not read yet.
    #[must_use]
    pub fn kill(mut self) -> Vec<Value> {
        self.send_signal(Signal::KILL);
        let mut unread = Vec::new();
        loop {
            let mut line = String::new();
            match self.stdout.read_line(&mut line) {
                // The kill may have truncated the last line.
                Ok(1..) => unread.extend(serde_json::from_str::<Value>(&line)),
                Ok(0) | Err(_) => break,
            }
        }
        self.child.wait().unwrap();
        unread
    }
}
