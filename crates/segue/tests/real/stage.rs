//! segue on a machine of its own with one real CLI, talked to in one way.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use segue_testkit::model::Script;
use segue_testkit::sandbox::{Cli, Ran, Sandbox};
use serde_json::Value;

/// How long a whole `segue chat` may take.
const LIMIT: Duration = Duration::from_secs(120);

/// A provider, and a way to talk to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) provider: &'static str,
    pub(crate) transport: &'static str,
}

/// A machine with segue and the CLI of one way.
pub(crate) struct Stage {
    pub(crate) sandbox: Sandbox,
    pub(crate) way: Way,
}

impl Stage {
    pub(crate) fn new(way: Way, script: Script) -> Self {
        Self::of(way, Sandbox::new(script))
    }

    pub(crate) fn of(way: Way, sandbox: Sandbox) -> Self {
        Self { sandbox, way }
    }

    /// Where segue keeps its data.
    pub(crate) fn home(&self) -> PathBuf {
        self.sandbox.home().join("segue")
    }

    /// segue with these arguments, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.program(env!("CARGO_BIN_EXE_segue"));
        let named = |name: &str| format!("SEGUE_{}_{name}", self.way.provider.to_uppercase());
        let program = |cli: Cli| self.sandbox.command(cli).get_program().to_owned();
        match self.way.provider {
            "claude" => {
                command.env(named("PATH"), program(Cli::Claude));
                command.env(named("ACP_PATH"), program(Cli::ClaudeAcp));
            }
            "codex" => {
                command.env(named("PATH"), program(Cli::Codex));
                command.env(named("ACP_PATH"), program(Cli::CodexAcp));
            }
            "gemini" => {
                command.env(named("PATH"), program(Cli::Gemini));
            }
            other => panic!("no provider {other}"),
        }
        command
            .env(named("TRANSPORTS"), self.way.transport)
            .env("SEGUE_HOME", self.home())
            .args(args);
        command
    }

    /// Runs segue to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args), LIMIT)
    }

    /// One turn by `segue chat -p PROVIDER --json …`; what it printed, whatever came of it.
    pub(crate) fn chat(&self, args: &[&str]) -> Value {
        let mut all = vec!["chat", "-p", self.way.provider, "--json"];
        all.extend(args);
        let ran = self.run(&all);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {args:?} gave {ran:#?}"))
    }

    /// One turn that must be finished; its answer.
    pub(crate) fn says(&self, args: &[&str]) -> Value {
        let result = self.chat(args);
        assert_eq!(
            result["stop"], "finished",
            "{:?} {args:?}: {result:#}",
            self.way
        );
        result
    }

    /// Starts a turn and follows its events.
    pub(crate) fn follow(&self, args: &[&str]) -> Following {
        let mut all = vec!["chat", "-p", self.way.provider, "--events"];
        all.extend(args);
        let mut command = self.command(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Following { child, lines }
    }

    /// Fails if anything of this stage still runs a while after.
    pub(crate) fn assert_nothing_runs(&self) {
        for _ in 0..150 {
            if self.sandbox.processes().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("left running: {:#?}", self.sandbox.processes());
    }

    /// The files of the project, without what git keeps.
    pub(crate) fn project_files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.sandbox.project())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".git")
            .collect();
        names.sort();
        names
    }
}

/// A turn that is under way.
pub(crate) struct Following {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Following {
    /// The next event of this kind; panics if the turn ends before.
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        self.find(|event| event["event"] == kind)
            .unwrap_or_else(|| panic!("the turn ended before {kind}"))
    }

    /// The next event that fits; none once the output ended.
    pub(crate) fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut line = String::new();
        while let Ok(1..) = self.lines.read_line(&mut line) {
            let event: Value = serde_json::from_str(&line).unwrap();
            if fits(&event) {
                return Some(event);
            }
            line.clear();
        }
        None
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = kill_process(pid, signal);
    }

    /// Reads to the end; the result, and what segue exited with.
    pub(crate) fn end(mut self) -> (Value, Option<i32>) {
        let result = self.until("result");
        (result, self.child.wait().unwrap().code())
    }
}
