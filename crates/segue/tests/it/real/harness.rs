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
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};
use serde_json::Value;

/// How long a whole `segue chat` may take.
const CHAT_TIMEOUT: Duration = Duration::from_mins(2);

/// The time, and numbers that are as good as drawn.
pub(crate) const SYSTEM_FNS: SystemFns = SystemFns {
    now: Timestamp::now,
    random: || {
        let hash = RandomState::new().hash_one(Timestamp::now());
        u32::try_from(hash >> 32).unwrap()
    },
};

/// A provider, and a way to talk to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentSetup {
    pub(crate) provider: &'static str,
    pub(crate) transport: &'static str,
}

impl AgentSetup {
    /// Whether the answer comes in pieces.
    pub(crate) fn is_streaming(self) -> bool {
        !matches!(self.transport, "exec" | "json")
    }

    /// Whether the agent asks before it acts. The adapter of Codex asks only for what the model wants outside of the
    /// sandbox; what it does inside can't do harm.
    pub(crate) fn can_ask_permission(self) -> bool {
        !matches!(
            self.as_pair(),
            ("codex", "exec" | "acp") | ("gemini", "stream-json" | "json")
        )
    }

    /// Failures that the agent deals with by itself, for minutes or altogether.
    pub(crate) fn is_failure_hidden(self, prompt: &str) -> bool {
        match self.as_pair() {
            // It tries again for more than a minute, whatever its configuration, and sums up what is too long.
            ("acp:opencode", _) => matches!(prompt, "case server" | "case cut" | "case long"),
            // It asks once more without streaming, which the stub answers.
            ("claude", _) => prompt == "case cut",
            _ => false,
        }
    }

    /// What the agent calls a tool of segue's own; none where it can't be handed any.
    pub(crate) fn own_tool_name(self, name: &str) -> Option<String> {
        match self.as_pair() {
            ("claude" | "codex", _) => Some(format!("mcp__segue__{name}")),
            ("gemini", "acp") => Some(format!("mcp_segue_{name}")),
            ("acp:opencode", _) => Some(format!("segue_{name}")),
            _ => None,
        }
    }

    fn as_pair(self) -> (&'static str, &'static str) {
        (self.provider, self.transport)
    }
}

/// A machine with segue and the CLI of one way.
pub(crate) struct CliHarness {
    pub(crate) sandbox: Sandbox,
    pub(crate) setup: AgentSetup,
}

impl CliHarness {
    pub(crate) fn new(setup: AgentSetup, script: Script) -> Self {
        Self::from_sandbox(setup, Sandbox::new(script))
    }

    pub(crate) fn from_sandbox(setup: AgentSetup, sandbox: Sandbox) -> Self {
        Self { sandbox, setup }
    }

    /// Where segue keeps its data.
    pub(crate) fn segue_home(&self) -> PathBuf {
        self.sandbox.home().join("segue")
    }

    /// segue with these arguments, not started yet.
    pub(crate) fn segue_command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.program_command(env!("CARGO_BIN_EXE_segue"));
        let variable_name =
            |name: &str| format!("SEGUE_{}_{name}", self.setup.provider.to_uppercase());
        let mut configure_provider = |cli: SandboxCli, adapter: Option<SandboxCli>| {
            command.env(variable_name("PATH"), self.cli_program(cli));
            if let Some(adapter) = adapter {
                command.env(variable_name("ACP_PATH"), self.cli_program(adapter));
            }
            command.env(variable_name("TRANSPORTS"), self.setup.transport);
        };
        match self.setup.provider {
            "claude" => configure_provider(SandboxCli::Claude, Some(SandboxCli::ClaudeAcp)),
            "codex" => configure_provider(SandboxCli::Codex, Some(SandboxCli::CodexAcp)),
            "gemini" => configure_provider(SandboxCli::Gemini, None),
            _ => {
                let config = self.sandbox.home().join("segue.toml");
                let program = self
                    .cli_program(SandboxCli::Opencode)
                    .into_string()
                    .unwrap();
                let text = format!(
                    "[acp.opencode]\npath = {program:?}\nargs = [\"acp\"]\n\
                     env = {{ OPENCODE_PERMISSION = '{{\"bash\":\"ask\",\"edit\":\"ask\"}}' }}\n"
                );
                fs::write(&config, text).unwrap();
                command.env("SEGUE_CONFIG", config);
            }
        }
        command.env("SEGUE_HOME", self.segue_home()).args(args);
        command
    }

    fn cli_program(&self, cli: SandboxCli) -> OsString {
        self.sandbox.cli_command(cli).get_program().to_owned()
    }

    /// Runs segue to its end.
    pub(crate) fn run_segue(&self, args: &[&str]) -> CommandOutcome {
        CommandOutcome::run(self.segue_command(args), CHAT_TIMEOUT)
    }

    /// One turn by `segue chat -p PROVIDER --json …`; what it printed, whatever came of it.
    pub(crate) fn run_chat(&self, args: &[&str]) -> Value {
        let mut chat_args = vec!["chat", "-p", self.setup.provider, "--json"];
        chat_args.extend(args);
        let outcome = self.run_segue(&chat_args);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {args:?} gave {outcome:#?}"))
    }

    /// Runs a `segue chat --json` to its end; what it printed.
    pub(crate) fn run_chat_command(&self, command: Command) -> Value {
        let outcome = CommandOutcome::run(command, CHAT_TIMEOUT);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} gave {outcome:#?}", self.setup))
    }

    /// Likewise, with a prompt on its standard input.
    pub(crate) fn run_chat_with_input(&self, command: &mut Command, prompt: &str) -> Value {
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
            .unwrap_or_else(|error| panic!("{error}: {:?} gave {output:?}", self.setup))
    }

    /// Begins a session in the agent's own program.
    pub(crate) fn start_native_session(&self, prompt: &str) {
        let (cli, args): (_, &[&str]) = match self.setup.provider {
            "claude" => (SandboxCli::Claude, &["-p"]),
            "codex" => (SandboxCli::Codex, &["exec"]),
            "gemini" => (SandboxCli::Gemini, &["-p"]),
            _ => (SandboxCli::Opencode, &["run"]),
        };
        let outcome = self.sandbox.run(cli, args.iter().copied().chain([prompt]));
        assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    }

    /// Makes the sessions of Gemini CLI older than a minute, by the names of their files.
    ///
    /// Gemini CLI ruins a session that is loaded over ACP in the minute it was made, so segue begins anew instead. A
    /// session that was resumed in a later minute has two files; both stay, in their order.
    pub(crate) fn age_gemini_sessions(&self) {
        const AGED_FILE_PREFIX: &str = "session-2026-01-01T00-";
        let chats = self.sandbox.home().join(".gemini/tmp/project/chats");
        let entries = fs::read_dir(chats).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some((_, id)) = name
                .rsplit_once('-')
                .filter(|_| !name.starts_with(AGED_FILE_PREFIX))
            else {
                continue;
            };
            let mut older = (0..60)
                .map(|minute| path.with_file_name(format!("{AGED_FILE_PREFIX}{minute:02}-{id}")));
            fs::rename(&path, older.find(|older| !older.exists()).unwrap()).unwrap();
        }
    }

    /// Codex shows some models tools only when they search for them, which the stub does not.
    pub(crate) fn use_model_with_all_tools(&self) {
        let config = self.sandbox.home().join(".codex/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("gpt-5.5", "stub-model")).unwrap();
    }

    /// Removes a native session, and what segue kept of it, behind everybody's back.
    pub(crate) fn delete_native_session(&self, native_id: &str) {
        let _ = fs::remove_dir_all(self.segue_home().join("kept"));
        let home = self.sandbox.home();
        let deleted_count = match self.setup.provider {
            "claude" => remove_matching_files(&home.join(".claude/projects"), native_id),
            "codex" => remove_matching_files(&home.join(".codex/sessions"), native_id),
            "gemini" => remove_matching_files(&home.join(".gemini/tmp"), &native_id[..8]),
            _ => usize::from(fs::remove_dir_all(home.join(".local/share/opencode")).is_ok()),
        };
        assert!(deleted_count > 0, "{:?} keeps no {native_id}", self.setup);
    }

    /// One turn that must be finished; its answer.
    pub(crate) fn run_finished_turn(&self, args: &[&str]) -> Value {
        let result = self.run_chat(args);
        assert_eq!(
            result["stop"], "finished",
            "{:?} {args:?}: {result:#}",
            self.setup
        );
        result
    }

    /// Starts a turn and follows its events.
    pub(crate) fn start_turn(&self, args: &[&str]) -> RunningTurn {
        let mut chat_args = vec!["chat", "-p", self.setup.provider, "--events"];
        chat_args.extend(args);
        let mut command = self.segue_command(&chat_args);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        RunningTurn { child, stdout }
    }

    /// Fails if anything of this stage still runs a while after.
    pub(crate) fn assert_no_processes(&self) {
        for _ in 0..150 {
            if self.sandbox.processes().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("left running: {:#?}", self.sandbox.processes());
    }

    /// Fails if anything still runs, or lies in the project.
    pub(crate) fn assert_no_leftovers(&self) {
        self.assert_no_processes();
        assert_eq!(self.project_files(), ["README.md"], "{:?}", self.setup);
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
pub(crate) struct RunningTurn {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl RunningTurn {
    /// The next event of this kind; panics if the turn ends before.
    pub(crate) fn wait_for_event(&mut self, kind: &str) -> Value {
        self.find_event(|event| event["event"] == kind)
            .unwrap_or_else(|| panic!("the turn ended before {kind}"))
    }

    /// The next event that fits; none once the output ended.
    pub(crate) fn find_event(&mut self, is_match: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut line = String::new();
        while let Ok(1..) = self.stdout.read_line(&mut line) {
            let event: Value = serde_json::from_str(&line).unwrap();
            if is_match(&event) {
                return Some(event);
            }
            line.clear();
        }
        None
    }

    pub(crate) fn send_signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        let _ = kill_process(pid, signal);
    }

    /// Waits until segue is gone.
    pub(crate) fn wait_for_exit(mut self) {
        self.child.wait().unwrap();
    }

    /// Reads to the end; the result, and what segue exited with.
    pub(crate) fn wait_for_result(mut self) -> (Value, Option<i32>) {
        let result = self.wait_for_event("result");
        (result, self.child.wait().unwrap().code())
    }
}

/// Removes the files under `directory` whose names contain `name_part`; says how many there were.
fn remove_matching_files(directory: &Path, name_part: &str) -> usize {
    let mut removed = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            removed += remove_matching_files(&path, name_part);
        } else if path
            .file_name()
            .unwrap()
            .to_string_lossy()
            .contains(name_part)
        {
            fs::remove_file(path).unwrap();
            removed += 1;
        }
    }
    removed
}
