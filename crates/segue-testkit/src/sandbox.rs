//! Sandbox for the real CLIs: each test has its own home, and a model stub replaces every model.
//!
//! A sandbox contains nothing from the developer's environment: only the variables that [`Sandbox::program_command`]
//! sets exist, API keys are dummies, and every URL is that of the stub. The stub is also the proxy, so it receives
//! every request to another machine ([`Sandbox::external_requests`]). Retries and idle timeouts are reduced, so that
//! most requested failures end within seconds.
//!
//! `SEGUE_CLIS` is the directory of the CLIs; `cargo xtask test` installs them and sets the variable.
//!
//! Behaviour of the CLIs that a test must account for, in addition to PROVIDERS.md (observed in November 2026, with the
//! versions of `clis/package.json`):
//!
//! - A stall in the middle of an answer ends after 5 seconds in Codex, but after 300 seconds in Gemini and Claude,
//!   which accept no shorter timeout (`CLAUDE_STREAM_IDLE_TIMEOUT_MS` has a minimum). A test must cancel or kill them.
//! - opencode retries for more than a minute after a 500 or a cut, regardless of its configuration. After a 429 with a
//!   retry delay of one second it takes ten seconds; after a 401 it fails at once.
//! - Gemini rejects `$(…)`, `$((…))` and backticks in shell commands and runs nothing. It wraps tool output in
//!   `<untrusted_context>`. It adds its own heading to thoughts (`****` if they have none).
//! - Codex 0.166 compacts a conversation by an ordinary request with a special prompt, not by `/responses/compact`. It
//!   requests plugins from GitHub and chatgpt.com at every start, unless these features are disabled, as in the
//!   sandbox.
//! - After a turn, the Claude Code in claude-agent-acp requests a suggestion for the user's next prompt
//!   (`[SUGGESTION MODE…`), unless `CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION` is off, as in the sandbox.
//! - `opencode run "two words"` sends the prompt with the quotes. At its start it contacts a package registry, which
//!   cannot be disabled. If a prompt is too long, it compacts the conversation and continues automatically.

mod acp;
mod app_server;
mod cli;
mod config;
mod json_lines;

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::model::{ModelRequest, ModelStub, Script};
use crate::{find_program, processes};

pub use acp::{AcpDriver, AcpPermissionAnswer, AcpPromptOutcome};
pub use app_server::{AppServerDriver, AppServerTurn};
pub use cli::SandboxCli;
pub use json_lines::RpcError;

/// Default time limit of a CLI. It is generous, because the slowest CLI needs five seconds to start and the machine may
/// be busy.
pub const DEFAULT_CLI_TIMEOUT: Duration = Duration::from_secs(90);

/// Programs on the search path besides node. Agents that the developer has installed are not among them.
const PATH_PROGRAMS: &[&str] = &[
    "sh", "bash", "env", "git", "cat", "echo", "ls", "touch", "mkdir", "rm", "cp", "mv", "sleep",
    "head", "tail", "grep", "sed", "uname", "dirname", "basename", "readlink", "realpath",
    "printf", "find", "tr", "wc", "id", "true", "false", "ps", "pwd", "date", "setsid",
];

/// Hermetic environment for the real CLIs.
pub struct Sandbox {
    directory: TempDir,
    model: ModelStub,
    cli_directory: PathBuf,
}

impl Sandbox {
    /// Creates a sandbox with a new home, a git repository as the project, and a stub that follows `script`.
    pub fn new(script: Script) -> Self {
        Self::with_script_fn(|_| script)
    }

    /// Creates a sandbox like [`Sandbox::new`]. `script` receives the path of the project, because some tools accept
    /// only absolute paths.
    pub fn with_script_fn(script: impl FnOnce(&Path) -> Script) -> Self {
        let cli_directory = std::env::var_os("SEGUE_CLIS").map(PathBuf::from).expect(
            "SEGUE_CLIS is not set: run `cargo xtask test`, or set it to the path that `cargo xtask clis` prints",
        );
        let directory = tempfile::Builder::new()
            .prefix("segue-real-")
            .tempdir()
            .unwrap();
        let model = ModelStub::start(script(&directory.path().join("project")));
        let sandbox = Self {
            directory,
            model,
            cli_directory,
        };
        sandbox.create_files();
        sandbox
    }

    fn create_files(&self) {
        for name in ["home", "project", "bin", "tmp"] {
            fs::create_dir(self.path().join(name)).unwrap();
        }
        for program in PATH_PROGRAMS {
            symlink(find_program(program), self.path().join("bin").join(program)).unwrap();
        }
        symlink(
            SandboxCli::node_path(&self.cli_directory),
            self.path().join("bin/node"),
        )
        .unwrap();
        config::write_config_files(&self.home(), &self.project(), &self.model.url());
        fs::write(self.project().join("README.md"), "# A project\n").unwrap();
        self.run_git(&["init", "--quiet", "--initial-branch=main"]);
        self.run_git(&["add", "."]);
        self.run_git(&["commit", "--quiet", "--message=start"]);
    }

    fn run_git(&self, args: &[&str]) {
        let status = self
            .program_command(find_program("git"))
            .args(args)
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?}");
    }

    /// Returns the directory that contains the complete sandbox.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the home directory of the CLIs.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Returns the working directory of the CLIs.
    pub fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// Returns the model stub.
    pub fn model(&self) -> &ModelStub {
        &self.model
    }

    /// Returns the requests to other machines, which the stub received as the proxy.
    pub fn external_requests(&self) -> Vec<ModelRequest> {
        let mut requests = self.model.requests();
        let stub_url = self.model.url();
        requests.retain(|request| {
            !request.path.starts_with('/') && !request.path.starts_with(&stub_url)
        });
        requests
    }

    /// Returns a command for any program, with the environment of this sandbox and in its own process group.
    pub fn program_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(config::environment_variables(&self.model.url()))
            .env("PATH", self.path().join("bin"))
            .env("HOME", self.home())
            .env("TMPDIR", self.path().join("tmp"))
            .env("SEGUE_SANDBOX", self.path())
            .env("OPENCODE_MODELS_PATH", config::models_path(&self.home()))
            // All tests share this compile cache, which saves a sixth of Gemini CLI's start time.
            .env(
                "NODE_COMPILE_CACHE",
                self.cli_directory.join("compile-cache"),
            )
            .envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)))
            .current_dir(self.project())
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// Returns a command for a CLI, without arguments.
    pub fn cli_command(&self, cli: SandboxCli) -> Command {
        self.program_command(cli.program_path(&self.cli_directory))
    }

    /// Runs a CLI until it ends, or kills it after [`DEFAULT_CLI_TIMEOUT`].
    pub fn run<A: AsRef<OsStr>>(
        &self,
        cli: SandboxCli,
        args: impl IntoIterator<Item = A>,
    ) -> CommandOutcome {
        self.run_within(DEFAULT_CLI_TIMEOUT, cli, args)
    }

    /// Runs a CLI until it ends, or kills it after `limit`.
    pub fn run_within<A: AsRef<OsStr>>(
        &self,
        limit: Duration,
        cli: SandboxCli,
        args: impl IntoIterator<Item = A>,
    ) -> CommandOutcome {
        let mut command = self.cli_command(cli);
        command.args(args);
        CommandOutcome::run(command, limit)
    }

    /// Starts a CLI as an ACP agent and initialises the connection.
    pub fn start_acp(&self, cli: SandboxCli) -> AcpDriver {
        self.start_acp_with(cli, |_| {})
    }

    /// Starts a CLI like [`Sandbox::start_acp`], after `modify` has modified the command.
    pub fn start_acp_with(&self, cli: SandboxCli, modify: impl FnOnce(&mut Command)) -> AcpDriver {
        let mut command = self.cli_command(cli);
        command.args(cli.acp_args());
        modify(&mut command);
        AcpDriver::start(command, self.project())
    }

    /// Starts `codex app-server` and initialises the connection.
    pub fn start_app_server(&self) -> AppServerDriver {
        let mut command = self.cli_command(SandboxCli::Codex);
        command.arg("app-server");
        AppServerDriver::start(command, self.project())
    }

    /// Returns the running processes that were started in this sandbox, each as "pid: command line", regardless of
    /// their parents.
    pub fn processes(&self) -> Vec<String> {
        processes::describe_processes(&self.running_pids())
    }

    fn running_pids(&self) -> Vec<u32> {
        processes::find_by_environment(&format!("SEGUE_SANDBOX={}", self.path().display()))
    }
}

/// Kills all processes of the sandbox. Killing process groups is not enough, because agents start tools in groups of
/// their own.
impl Drop for Sandbox {
    fn drop(&mut self) {
        self.running_pids()
            .into_iter()
            .for_each(processes::kill_by_id);
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct CommandOutcome {
    /// Exit code. `None` if a signal ended the process, as after a timeout.
    pub code: Option<i32>,
    /// Whether the process was killed because of the time limit.
    pub timed_out: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutcome {
    /// Runs a command, which must lead a process group, until it ends or the limit has passed. Then kills the group.
    pub fn run(mut command: Command, limit: Duration) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = PipeCollector::new(child.stdout.take().unwrap());
        let stderr = PipeCollector::new(child.stderr.take().unwrap());
        let timed_out = !wait_for_exit(&mut child, limit);
        kill_group(&child);
        let status = child.wait().unwrap();
        Self {
            code: status.code(),
            timed_out,
            stdout: stdout.into_text(),
            stderr: stderr.into_text(),
        }
    }

    /// Parses each line of standard output as JSON. Lines that are not JSON are skipped.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let lines = self.stdout.lines();
        lines.flat_map(serde_json::from_str).collect()
    }
}

fn wait_for_exit(child: &mut Child, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Content of a pipe. A thread reads it, so that the pipe never fills up.
struct PipeCollector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl PipeCollector {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(1..) = pipe.read(&mut buffer).inspect(|count| {
                shared.lock().unwrap().extend_from_slice(&buffer[..*count]);
            }) {}
        });
        Self { bytes, thread }
    }

    /// Waits for the end of the pipe and returns its content. Returns the content so far if a process outside the group
    /// still has the pipe open after three seconds.
    fn into_text(self) -> String {
        let deadline = Instant::now() + Duration::from_secs(3);
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let bytes = self.bytes.lock().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Kills the process group that this child leads.
fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok();
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        // The group may be empty.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}
