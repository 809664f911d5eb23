//! segue on a machine of its own with one real CLI, talked to in one way.

use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use segue_agents::SystemFns;
use segue_testkit::model::Script;
use segue_testkit::sandbox::{SandboxCli, CommandOutcome, Sandbox};
use serde_json::Value;

/// How long a whole `segue chat` may take.
const LIMIT: Duration = Duration::from_mins(2);

/// The time, and numbers that are as good as drawn.
pub(crate) const OUTSIDE: SystemFns = SystemFns {
    now: Timestamp::now,
    random: || {
        let seen = RandomState::new().hash_one(Timestamp::now());
        u32::try_from(seen >> 32).unwrap()
    },
};

/// A provider, and a way to talk to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) provider: &'static str,
    pub(crate) transport: &'static str,
}

impl Way {
    /// Whether the answer comes in pieces.
    pub(crate) fn streams(self) -> bool {
        !matches!(self.transport, "exec" | "json")
    }

    /// Whether the agent asks before it acts. The adapter of Codex asks only for what the model wants outside of the
    /// sandbox; what it does inside can't do harm.
    pub(crate) fn asks(self) -> bool {
        !matches!(
            self.way(),
            ("codex", "exec" | "acp") | ("gemini", "stream-json" | "json")
        )
    }

    /// Failures that the agent deals with by itself, for minutes or altogether.
    pub(crate) fn hides(self, case: &str) -> bool {
        match self.way() {
            // It tries again for more than a minute, whatever its configuration, and sums up what is too long.
            ("acp:opencode", _) => matches!(case, "case server" | "case cut" | "case long"),
            // It asks once more without streaming, which the stub answers.
            ("claude", _) => case == "case cut",
            _ => false,
        }
    }

    /// What the agent calls a tool of segue's own; none where it can't be handed any.
    pub(crate) fn own_tool(self, name: &str) -> Option<String> {
        match self.way() {
            ("claude" | "codex", _) => Some(format!("mcp__segue__{name}")),
            ("gemini", "acp") => Some(format!("mcp_segue_{name}")),
            ("acp:opencode", _) => Some(format!("segue_{name}")),
            _ => None,
        }
    }

    fn way(self) -> (&'static str, &'static str) {
        (self.provider, self.transport)
    }
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
        let mut command = self.sandbox.program_command(env!("CARGO_BIN_EXE_segue"));
        let named = |name: &str| format!("SEGUE_{}_{name}", self.way.provider.to_uppercase());
        let mut known = |cli: SandboxCli, adapter: Option<SandboxCli>| {
            command.env(named("PATH"), self.program(cli));
            if let Some(adapter) = adapter {
                command.env(named("ACP_PATH"), self.program(adapter));
            }
            command.env(named("TRANSPORTS"), self.way.transport);
        };
        match self.way.provider {
            "claude" => known(SandboxCli::Claude, Some(SandboxCli::ClaudeAcp)),
            "codex" => known(SandboxCli::Codex, Some(SandboxCli::CodexAcp)),
            "gemini" => known(SandboxCli::Gemini, None),
            _ => {
                let config = self.sandbox.home().join("segue.toml");
                let program = self.program(SandboxCli::Opencode).into_string().unwrap();
                let text = format!(
                    "[acp.opencode]\npath = {program:?}\nargs = [\"acp\"]\n\
                     env = {{ OPENCODE_PERMISSION = '{{\"bash\":\"ask\",\"edit\":\"ask\"}}' }}\n"
                );
                fs::write(&config, text).unwrap();
                command.env("SEGUE_CONFIG", config);
            }
        }
        command.env("SEGUE_HOME", self.home()).args(args);
        command
    }

    fn program(&self, cli: SandboxCli) -> OsString {
        self.sandbox.cli_command(cli).get_program().to_owned()
    }

    /// Runs segue to its end.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutcome {
        CommandOutcome::run(self.command(args), LIMIT)
    }

    /// One turn by `segue chat -p PROVIDER --json …`; what it printed, whatever came of it.
    pub(crate) fn chat(&self, args: &[&str]) -> Value {
        let mut all = vec!["chat", "-p", self.way.provider, "--json"];
        all.extend(args);
        let ran = self.run(&all);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {args:?} gave {ran:#?}"))
    }

    /// Runs a `segue chat --json` to its end; what it printed.
    pub(crate) fn finish(&self, command: Command) -> Value {
        let ran = CommandOutcome::run(command, LIMIT);
        serde_json::from_str(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} gave {ran:#?}", self.way))
    }

    /// Likewise, with a prompt on its standard input.
    pub(crate) fn finish_with(&self, command: &mut Command, prompt: &str) -> Value {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(prompt.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} gave {output:?}", self.way))
    }

    /// Begins a session in the agent's own program.
    pub(crate) fn begin_elsewhere(&self, prompt: &str) {
        let (cli, args): (_, &[&str]) = match self.way.provider {
            "claude" => (SandboxCli::Claude, &["-p"]),
            "codex" => (SandboxCli::Codex, &["exec"]),
            "gemini" => (SandboxCli::Gemini, &["-p"]),
            _ => (SandboxCli::Opencode, &["run"]),
        };
        let ran = self.sandbox.run(cli, args.iter().copied().chain([prompt]));
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }

    /// Makes the sessions of Gemini CLI older than a minute, by the names of their files.
    ///
    /// Gemini CLI ruins a session that is loaded over ACP in the minute it was made, so segue begins anew instead. A
    /// session that was resumed in a later minute has two files; both stay, in their order.
    pub(crate) fn age_gemini_sessions(&self) {
        const AGED: &str = "session-2026-01-01T00-";
        let chats = self.sandbox.home().join(".gemini/tmp/project/chats");
        let entries = fs::read_dir(chats).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some((_, id)) = name.rsplit_once('-').filter(|_| !name.starts_with(AGED)) else {
                continue;
            };
            let mut older =
                (0..60).map(|minute| path.with_file_name(format!("{AGED}{minute:02}-{id}")));
            fs::rename(&path, older.find(|older| !older.exists()).unwrap()).unwrap();
        }
    }

    /// Codex shows some models tools only when they search for them, which the stub does not.
    pub(crate) fn use_a_model_that_sees_all_tools(&self) {
        let config = self.sandbox.home().join(".codex/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("gpt-5.5", "stub-model")).unwrap();
    }

    /// Removes a native session, and what segue kept of it, behind everybody's back.
    pub(crate) fn lose(&self, native_id: &str) {
        let _ = fs::remove_dir_all(self.home().join("kept"));
        let home = self.sandbox.home();
        let lost = match self.way.provider {
            "claude" => remove(&home.join(".claude/projects"), native_id),
            "codex" => remove(&home.join(".codex/sessions"), native_id),
            "gemini" => remove(&home.join(".gemini/tmp"), &native_id[..8]),
            _ => usize::from(fs::remove_dir_all(home.join(".local/share/opencode")).is_ok()),
        };
        assert!(lost > 0, "{:?} keeps no {native_id}", self.way);
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

    /// Fails if anything still runs, or lies in the project.
    pub(crate) fn assert_nothing_left(&self) {
        self.assert_nothing_runs();
        assert_eq!(self.project_files(), ["README.md"], "{:?}", self.way);
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

    /// Waits until segue is gone.
    pub(crate) fn wait(mut self) {
        self.child.wait().unwrap();
    }

    /// Reads to the end; the result, and what segue exited with.
    pub(crate) fn end(mut self) -> (Value, Option<i32>) {
        let result = self.until("result");
        (result, self.child.wait().unwrap().code())
    }
}

/// Removes the files under `directory` whose names contain `part`; says how many there were.
fn remove(directory: &Path, part: &str) -> usize {
    let mut removed = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            removed += remove(&path, part);
        } else if path.file_name().unwrap().to_string_lossy().contains(part) {
            fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    removed
}
