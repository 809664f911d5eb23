//! A sandbox with segue and one real CLI, driven through one transport.

use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use segue_providers::SystemFns;
use segue_testkit::model::Script;
use segue_testkit::sandbox::{CommandOutcome, Sandbox, SandboxCli};
use serde_json::Value;

/// Time limit for one `segue chat` process.
const CHAT_TIMEOUT: Duration = Duration::from_mins(2);

/// The system clock, and random numbers from a hash.
pub(crate) const SYSTEM_FNS: SystemFns = SystemFns {
    now: Timestamp::now,
    random: || {
        let hash = RandomState::new().hash_one(Timestamp::now());
        u32::try_from(hash >> 32).unwrap()
    },
};

/// A provider and the transport with which it is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentSetup {
    pub(crate) provider: &'static str,
    pub(crate) transport: &'static str,
}

impl AgentSetup {
    /// Returns `true` if the agent streams its answer.
    pub(crate) fn is_streaming(self) -> bool {
        !matches!(self.transport, "exec" | "json")
    }

    /// Returns `true` if the agent asks for permission before it acts. The ACP adapter of Codex is excluded, because it
    /// asks only for commands outside its sandbox.
    pub(crate) fn can_ask_permission(self) -> bool {
        !matches!(
            self.as_pair(),
            ("codex", "exec" | "acp") | ("gemini", "stream-json" | "json")
        )
    }

    /// Returns `true` if the agent retries or hides the failure that `prompt` causes, so that segue does not see it.
    pub(crate) fn is_failure_hidden(self, prompt: &str) -> bool {
        match self.as_pair() {
            // opencode retries for more than a minute, whatever its configuration, and compacts a context that is too
            // long.
            ("acp:opencode", _) => matches!(prompt, "case server" | "case cut" | "case long"),
            // Claude Code retries without streaming, and the stub answers that request.
            ("claude", _) => prompt == "case cut",
            _ => false,
        }
    }

    /// Returns the agent's name for a tool of segue's MCP server, or `None` if the agent cannot be given that server.
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

/// A sandbox with segue and the CLI of one setup.
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

    /// Returns the data directory of segue.
    pub(crate) fn segue_home(&self) -> PathBuf {
        self.sandbox.home().join("segue")
    }

    /// Returns a command that runs segue with these arguments.
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

    /// Runs segue until it exits.
    pub(crate) fn run_segue(&self, args: &[&str]) -> CommandOutcome {
        CommandOutcome::run(self.segue_command(args), CHAT_TIMEOUT)
    }

    /// Runs one turn with `segue chat -p PROVIDER --json …`. Returns the printed JSON, even if the turn failed.
    pub(crate) fn run_chat(&self, args: &[&str]) -> Value {
        let mut chat_args = vec!["chat", "-p", self.setup.provider, "--json"];
        chat_args.extend(args);
        let outcome = self.run_segue(&chat_args);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {args:?} printed {outcome:#?}"))
    }

    /// Runs a `segue chat --json` command and returns the printed JSON.
    pub(crate) fn run_chat_command(&self, command: Command) -> Value {
        let outcome = CommandOutcome::run(command, CHAT_TIMEOUT);
        serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} printed {outcome:#?}", self.setup))
    }

    /// Runs a `segue chat --json` command with a prompt on standard input and returns the printed JSON.
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
            .unwrap_or_else(|error| panic!("{error}: {:?} printed {output:?}", self.setup))
    }

    /// Starts a session in the agent's own program.
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
    /// Gemini CLI damages a session that is loaded over ACP within the minute of its creation, so segue starts a new
    /// one instead. A session that was resumed in a later minute has two files; both keep their order.
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

    /// Configures a model that Codex offers all tools. Other models have to search for some tools, which the stub does
    /// not.
    pub(crate) fn use_model_with_all_tools(&self) {
        let config = self.sandbox.home().join(".codex/config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("gpt-5.5", "stub-model")).unwrap();
    }

    /// Deletes a native session and segue's copy of it, without segue or the agent.
    pub(crate) fn delete_native_session(&self, native_id: &str) {
        let _ = fs::remove_dir_all(self.segue_home().join("kept"));
        let home = self.sandbox.home();
        let deleted_count = match self.setup.provider {
            "claude" => remove_matching_files(&home.join(".claude/projects"), native_id),
            "codex" => remove_matching_files(&home.join(".codex/sessions"), native_id),
            "gemini" => remove_matching_files(&home.join(".gemini/tmp"), &native_id[..8]),
            _ => usize::from(fs::remove_dir_all(home.join(".local/share/opencode")).is_ok()),
        };
        assert!(
            deleted_count > 0,
            "{:?} has no file of session {native_id}",
            self.setup
        );
    }

    /// Runs one turn, fails unless it is finished, and returns the printed JSON.
    pub(crate) fn run_finished_turn(&self, args: &[&str]) -> Value {
        let result = self.run_chat(args);
        assert_eq!(
            result["stop"], "finished",
            "{:?} {args:?}: {result:#}",
            self.setup
        );
        result
    }

    /// Starts a turn with `segue chat --events`.
    pub(crate) fn start_turn(&self, args: &[&str]) -> RunningTurn {
        let mut chat_args = vec!["chat", "-p", self.setup.provider, "--events"];
        chat_args.extend(args);
        let mut command = self.segue_command(&chat_args);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        RunningTurn { child, stdout }
    }

    /// Fails if a process of the sandbox is still running after 15 seconds.
    pub(crate) fn assert_no_processes(&self) {
        for _ in 0..150 {
            if self.sandbox.processes().is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("still running: {:#?}", self.sandbox.processes());
    }

    /// Fails if a process is still running or the project contains additional files.
    pub(crate) fn assert_no_leftovers(&self) {
        self.assert_no_processes();
        assert_eq!(self.project_files(), ["README.md"], "{:?}", self.setup);
    }

    /// Returns the file names in the project, without `.git`.
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

/// A running turn.
pub(crate) struct RunningTurn {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl RunningTurn {
    /// Returns the next event of this kind. Panics if the turn ends first.
    pub(crate) fn wait_for_event(&mut self, kind: &str) -> Value {
        self.find_event(|event| event["event"] == kind)
            .unwrap_or_else(|| panic!("the turn ended before the event `{kind}`"))
    }

    /// Returns the next matching event, or `None` at the end of the output.
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

    /// Waits until segue exits.
    pub(crate) fn wait_for_exit(mut self) {
        self.child.wait().unwrap();
    }

    /// Waits for the end of the turn. Returns the result and the exit code.
    pub(crate) fn wait_for_result(mut self) -> (Value, Option<i32>) {
        let result = self.wait_for_event("result");
        (result, self.child.wait().unwrap().code())
    }
}

/// Removes the files under `directory` whose names contain `name_part` and returns their number.
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
