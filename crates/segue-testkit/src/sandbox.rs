//! The real CLIs, each test with a home of its own and a model stub in the place of every model.
//!
//! Nothing of the developer's is in here: the environment is empty but for what is written below, keys are
//! dummies, and every URL is that of the stub. The stub is the proxy too, so whatever tries to leave the machine
//! arrives there and can be seen ([`Sandbox::escapes`]). Retries and idle limits are turned down, so that a
//! failure on request is a failure within seconds.
//!
//! The CLIs are where `SEGUE_CLIS` says; `cargo xtask test` installs them and sets it.
//!
//! What a test must know about them, beyond PROVIDERS.md (seen in November 2026, with the versions of
//! `clis/package.json`):
//!
//! - A stall in the middle of an answer ends after five seconds with Codex, but after 300 with Gemini and Claude,
//!   which take no less (`CLAUDE_STREAM_IDLE_TIMEOUT_MS` has a floor): cancel those, or kill them.
//! - opencode tries again for more than a minute after a 500 or a cut, whatever its configuration; a 429 with a
//!   hint of a second takes it ten seconds, a 401 none.
//! - Gemini refuses `$(…)`, `$((…))` and backticks in shell commands, and runs nothing; it wraps what a tool says in
//!   `<untrusted_context>`. Thoughts come back with a heading of its own before them (`****` if they have none).
//! - Codex 0.166 sums up a conversation by an ordinary request with a prompt of its own, not by `/responses/compact`.
//!   It asks GitHub and chatgpt.com for plugins at every start unless the features are off, as they are here.
//! - The Claude Code in claude-agent-acp asks the model what the user may say next after a turn
//!   (`[SUGGESTION MODE…`), unless `CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION` is off, as it is here.
//! - `opencode run "two words"` sends the prompt with the quotes. At its start it asks a package registry, which
//!   nothing turns off. A prompt that is too long makes it sum up and go on by itself.

mod acp;
mod app_server;
mod cli;
mod config;
mod wire;

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

use crate::model::{Model, ModelRequest, Script};
use crate::{find, processes};

pub use acp::{AcpDriver, Permission, Prompted};
pub use app_server::{AppServer, Turned};
pub use cli::Cli;
pub use wire::RpcError;

/// How long a CLI may take. Generous: the slowest needs five seconds to start, and the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(90);

/// What is on the search path besides node: no agent that the developer may have.
const PROGRAMS: &[&str] = &[
    "sh", "bash", "env", "git", "cat", "echo", "ls", "touch", "mkdir", "rm", "cp", "mv", "sleep",
    "head", "tail", "grep", "sed", "uname", "dirname", "basename", "readlink", "realpath",
    "printf", "find", "tr", "wc", "id", "true", "false", "ps", "pwd", "date", "setsid",
];

/// A machine of its own for the real CLIs.
pub struct Sandbox {
    directory: TempDir,
    model: Model,
    clis: PathBuf,
}

impl Sandbox {
    /// A new home, a git repository as the project, and a stub that follows `script`.
    pub fn new(script: Script) -> Self {
        Self::with(|_| script)
    }

    /// Likewise, with a script that knows where the project is: some tools take nothing but absolute paths.
    pub fn with(script: impl FnOnce(&Path) -> Script) -> Self {
        let clis = std::env::var_os("SEGUE_CLIS").map(PathBuf::from).expect(
            "SEGUE_CLIS is not set: run `cargo xtask test`, or set it to what `cargo xtask clis` prints",
        );
        let directory = tempfile::Builder::new()
            .prefix("segue-real-")
            .tempdir()
            .unwrap();
        let model = Model::start(script(&directory.path().join("project")));
        let sandbox = Self {
            directory,
            model,
            clis,
        };
        sandbox.furnish();
        sandbox
    }

    fn furnish(&self) {
        for name in ["home", "project", "bin", "tmp"] {
            fs::create_dir(self.path().join(name)).unwrap();
        }
        for program in PROGRAMS {
            symlink(find(program), self.path().join("bin").join(program)).unwrap();
        }
        symlink(Cli::node(&self.clis), self.path().join("bin/node")).unwrap();
        config::write(&self.home(), &self.project(), &self.model.url());
        fs::write(self.project().join("README.md"), "# A project\n").unwrap();
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "--message=start"]);
    }

    fn git(&self, args: &[&str]) {
        let status = self.program(find("git")).args(args).status().unwrap();
        assert!(status.success(), "git {args:?}");
    }

    /// Where everything of this sandbox is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What the CLIs take for the user's home.
    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    /// Where the CLIs are run.
    pub fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// The stub.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The requests by which something tried to reach beyond loopback.
    pub fn escapes(&self) -> Vec<ModelRequest> {
        let mut requests = self.model.requests();
        let own = self.model.url();
        requests
            .retain(|request| !request.path.starts_with('/') && !request.path.starts_with(&own));
        requests
    }

    /// Any program in the environment of this sandbox, at the head of a process group of its own.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(config::environment(&self.model.url()))
            .env("PATH", self.path().join("bin"))
            .env("HOME", self.home())
            .env("TMPDIR", self.path().join("tmp"))
            .env("SEGUE_SANDBOX", self.path())
            .env("OPENCODE_MODELS_PATH", config::models(&self.home()))
            // What one test has compiled serves all others: a sixth of Gemini CLI's start.
            .env("NODE_COMPILE_CACHE", self.clis.join("compile-cache"))
            .envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)))
            .current_dir(self.project())
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// A CLI without arguments, not started yet.
    pub fn command(&self, cli: Cli) -> Command {
        self.program(cli.program(&self.clis))
    }

    /// Runs a CLI to its end, or kills it when its time is over.
    pub fn run<A: AsRef<OsStr>>(&self, cli: Cli, args: impl IntoIterator<Item = A>) -> Ran {
        self.run_within(LIMIT, cli, args)
    }

    /// Likewise, with another limit.
    pub fn run_within<A: AsRef<OsStr>>(
        &self,
        limit: Duration,
        cli: Cli,
        args: impl IntoIterator<Item = A>,
    ) -> Ran {
        let mut command = self.command(cli);
        command.args(args);
        Ran::of(command, limit)
    }

    /// Starts a CLI as an ACP agent and shakes hands with it.
    pub fn acp(&self, cli: Cli) -> AcpDriver {
        self.acp_with(cli, |_| {})
    }

    /// Likewise, with a say in how it is started.
    pub fn acp_with(&self, cli: Cli, change: impl FnOnce(&mut Command)) -> AcpDriver {
        let mut command = self.command(cli);
        command.args(cli.acp_args());
        change(&mut command);
        AcpDriver::start(command, self.project())
    }

    /// Starts `codex app-server` and shakes hands with it.
    pub fn app_server(&self) -> AppServer {
        let mut command = self.command(Cli::Codex);
        command.arg("app-server");
        AppServer::start(command, self.project())
    }

    /// The living processes that were started in here, whoever their parents are.
    pub fn processes(&self) -> Vec<String> {
        processes::described(&self.living())
    }

    fn living(&self) -> Vec<u32> {
        processes::with(&format!("SEGUE_SANDBOX={}", self.path().display()))
    }
}

/// Nothing outlives the sandbox: agents put their tools into groups of their own, so the groups are not enough.
impl Drop for Sandbox {
    fn drop(&mut self) {
        self.living().into_iter().for_each(processes::kill);
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; none if a signal ended it, or the time.
    pub code: Option<i32>,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Runs a command, which must head a process group, to its end or to the end of its time.
    pub fn of(mut command: Command, limit: Duration) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Collected::new(child.stdout.take().unwrap());
        let stderr = Collected::new(child.stderr.take().unwrap());
        let timed_out = !ends_within(&mut child, limit);
        kill_group(&child);
        let status = child.wait().unwrap();
        Self {
            code: status.code(),
            timed_out,
            stdout: stdout.text(),
            stderr: stderr.text(),
        }
    }

    /// Standard output, a JSON value a line; what is not JSON is left out.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        let lines = self.stdout.lines();
        lines.flat_map(serde_json::from_str).collect()
    }
}

fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// What a pipe gives, read in a thread of its own so that it never fills up.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Collected {
    fn new(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while let Ok(1..) = from.read(&mut piece).inspect(|count| {
                shared.lock().unwrap().extend_from_slice(&piece[..*count]);
            }) {}
        });
        Self { bytes, thread }
    }

    /// Everything, or what there is if somebody outside of the group still holds the pipe a while after the end.
    fn text(self) -> String {
        let end = Instant::now() + Duration::from_secs(3);
        while !self.thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let bytes = self.bytes.lock().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Kills everything in the group that this child heads.
fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok();
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        // Nobody may be left in it.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}
