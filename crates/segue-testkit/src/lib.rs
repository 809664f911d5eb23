//! Tests and benchmarks only: a hermetic home with the segue binary run in it, the real CLIs on a model stub, and
//! figures measured side by side.
//!
//! A [`World`] has its own home, its own project directory and an environment with nothing of the developer's
//! in it. It can tell which processes were started in it and still live, whoever their parents are.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::print_stdout,
    reason = "a test kit: a panic is how it speaks"
)]

pub mod corpus;
pub mod figures;
pub mod model;
mod output;
pub mod planted;
mod processes;
pub mod sandbox;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub use output::Output;

/// What is on the search path of a world: no agent that the developer may have.
const PROGRAMS: [&str; 3] = ["sh", "setsid", "sleep"];

/// Where a program of the developer's machine is; what is not found is left to fail with its name.
fn find(program: impl AsRef<Path>) -> PathBuf {
    let program = program.as_ref();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places
        .find(|place| place.is_file())
        .unwrap_or_else(|| program.to_owned())
}

/// A machine of its own, as far as segue can see.
pub struct World {
    directory: TempDir,
    program: PathBuf,
}

impl World {
    /// A new world for the segue binary at `program`, usually `env!("CARGO_BIN_EXE_segue")`.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("segue-test-")
            .tempdir()
            .unwrap();
        std::fs::create_dir(directory.path().join("project")).unwrap();
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for program in PROGRAMS {
            symlink(find(program), bin.join(program)).unwrap();
        }
        Self {
            directory,
            program: program.into(),
        }
    }

    /// Where everything of this world is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where segue keeps its data.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Where segue is run.
    #[must_use]
    pub fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// A program of the developer's machine, in the environment of this world.
    #[must_use]
    pub fn program(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(find(program));
        command
            .env_clear()
            .env("PATH", self.path().join("bin"))
            .env("HOME", self.path())
            .env("SEGUE_HOME", self.home())
            .env("LANG", "C.UTF-8")
            .envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// The segue binary with these arguments, not started yet.
    #[must_use]
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.program(&self.program);
        command.args(args);
        command
    }

    /// Runs segue to its end.
    #[must_use]
    pub fn segue<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        Output::of(&mut self.command(args), self)
    }

    /// Runs segue with something on its standard input.
    #[must_use]
    pub fn segue_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Output {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not want the input closes it early.
        let _ = child.stdin.take().unwrap().write_all(input);
        Output::from(&child.wait_with_output().unwrap(), self)
    }

    /// Runs segue, expects success, and reads the JSON it prints.
    #[must_use]
    pub fn json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let output = self.segue(args);
        assert_eq!(output.code, Some(0), "{output}");
        serde_json::from_str(&output.raw_stdout)
            .unwrap_or_else(|error| panic!("{error} in {output}"))
    }

    /// Starts `segue chat --events` and follows what it tells.
    #[must_use]
    pub fn events<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Events {
        let mut command = self.command(["chat", "--events"]);
        command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Events { child, lines }
    }

    /// The processes of this world that live.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        let entry = format!("SEGUE_HOME={}", self.home().display());
        processes::described(&processes::with(&entry))
    }

    /// Waits until no process of this world lives, and fails if one still does after some seconds.
    pub fn assert_nothing_runs(&self) {
        for _ in 0..150 {
            if self.processes().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("processes were left behind: {:?}", self.processes());
    }
}

/// A `segue chat --events` that runs.
pub struct Events {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Events {
    /// The next event; none once the output ended.
    pub fn next_event(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(1..) => Some(
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}")),
            ),
            Ok(0) | Err(_) => None,
        }
    }

    /// Sends a signal to segue itself.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        // It may have ended by itself just now.
        let _ = kill_process(pid, signal);
    }

    /// Waits for the end; returns the exit code, none if a signal ended it.
    #[must_use]
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Kills segue without warning, and returns what it had told and nobody had read.
    #[must_use]
    pub fn kill(mut self) -> Vec<Value> {
        self.signal(Signal::KILL);
        let mut unread = Vec::new();
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                // The last line may be torn by the kill.
                Ok(1..) => unread.extend(serde_json::from_str::<Value>(&line)),
                Ok(0) | Err(_) => break,
            }
        }
        self.child.wait().unwrap();
        unread
    }
}
