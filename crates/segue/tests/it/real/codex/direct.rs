//! Codex driven directly through its provider, with several turns per connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use segue_core::agent::{McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, TurnEnd, Usage};
use segue_providers::{
    Agent, AgentConnection, AgentError, AgentHost, ConnectionEvent, LeashCommand, OpenRequest,
    OpenedConnection, Provider, ProviderSettings,
};
use segue_testkit::model::Script;
use segue_testkit::sandbox::{Sandbox, SandboxCli};
use tokio::runtime::Runtime;
use tokio::sync::watch;

const TURN_TIMEOUT: Duration = Duration::from_secs(90);

/// A sandbox with Codex and its provider.
pub(crate) struct CodexHarness {
    pub(crate) sandbox: Sandbox,
    provider: Provider,
    runtime: Runtime,
}

/// Options to open a connection with.
pub(crate) struct CodexOpenOptions {
    pub(crate) cwd: PathBuf,
    pub(crate) native_id: Option<String>,
    pub(crate) strict: bool,
    pub(crate) permissions: PermissionPolicy,
    pub(crate) model: Option<String>,
    pub(crate) mcp: Vec<McpServer>,
}

/// Events, permission requests and end of a turn.
pub(crate) struct CodexDirectTurn {
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) permission_requests: Vec<PermissionRequest>,
    pub(crate) end: Result<TurnEnd, AgentError>,
}

impl CodexDirectTurn {
    pub(crate) fn text(&self) -> String {
        let events = self.events.iter();
        events
            .filter_map(|event| match event {
                AgentEvent::Text(chunk) => Some(chunk.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns the usage of the turn. Panics if the turn failed.
    pub(crate) fn usage(&self) -> Usage {
        match &self.end {
            Ok(end) => end.usage,
            Err(error) => panic!("{error:?}"),
        }
    }
}

impl CodexHarness {
    pub(crate) fn new(transport: &str, script: Script) -> Self {
        Self::with_settings(transport, script, |_| {})
    }

    pub(crate) fn with_settings(
        transport: &str,
        script: Script,
        modify: impl FnOnce(&mut ProviderSettings),
    ) -> Self {
        let sandbox = Sandbox::new(script);
        let command = sandbox.cli_command(SandboxCli::Codex);
        let env = command.get_envs().filter_map(|(name, value)| {
            let to_text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
            Some((to_text(name), to_text(value?)))
        });
        let mut settings = ProviderSettings {
            program: Some(command.get_program().into()),
            adapter: Some(
                sandbox
                    .cli_command(SandboxCli::CodexAcp)
                    .get_program()
                    .into(),
            ),
            transports: vec![transport.to_owned()],
            env: env.collect(),
            home: sandbox.home().join(".codex"),
            ..ProviderSettings::default()
        };
        modify(&mut settings);
        let host = AgentHost {
            leash: LeashCommand {
                program: env!("CARGO_BIN_EXE_segue").into(),
                args: vec!["leash".into()],
            },
            version: "0",
            agent_files_dir: sandbox.path().join("kept"),
            search_path: std::ffi::OsString::new(),
            system: crate::real::harness::SYSTEM_FNS,
        };
        let provider = segue_providers::codex_provider(&settings, &host);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            sandbox,
            provider,
            runtime,
        }
    }

    pub(crate) fn default_options(&self) -> CodexOpenOptions {
        CodexOpenOptions {
            cwd: self.sandbox.project(),
            native_id: None,
            strict: false,
            permissions: PermissionPolicy::Ask,
            model: None,
            mcp: Vec::new(),
        }
    }

    pub(crate) fn open(&self, options: CodexOpenOptions) -> Result<OpenedConnection, AgentError> {
        let request = OpenRequest {
            cwd: options.cwd,
            native_id: options.native_id.map(|id| NativeId::parse(&id).unwrap()),
            branch_point: None,
            strict: options.strict,
            permissions: options.permissions,
            role: None,
            model: options.model,
            mcp: options.mcp,
            timeout: TURN_TIMEOUT,
            process_sender: watch::channel(None).0,
        };
        self.runtime.block_on(self.provider.open(&request))
    }

    /// Opens a connection with a new thread in the project.
    pub(crate) fn open_new(&self) -> Box<dyn AgentConnection> {
        self.open(self.default_options()).unwrap().connection
    }

    pub(crate) fn resume(&self, id: &str) -> OpenedConnection {
        let options = CodexOpenOptions {
            native_id: Some(id.to_owned()),
            ..self.default_options()
        };
        self.open(options).unwrap()
    }

    /// Runs one turn. `answer` answers the permission requests.
    pub(crate) fn run_turn(
        &self,
        connection: &mut dyn AgentConnection,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
    ) -> CodexDirectTurn {
        self.run_turn_and_cancel(connection, prompt, answer, |_| false)
    }

    /// Runs one turn and cancels it at the first event for which `should_cancel` returns `true`.
    pub(crate) fn run_turn_and_cancel(
        &self,
        connection: &mut dyn AgentConnection,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
        should_cancel: impl Fn(&AgentEvent) -> bool,
    ) -> CodexDirectTurn {
        let (mut events, mut permission_requests) = (Vec::new(), Vec::new());
        let turn = async {
            connection.send_prompt(prompt).await?;
            loop {
                match connection.next_event().await {
                    ConnectionEvent::NativeIdReported(_) => {}
                    ConnectionEvent::Event(event) => {
                        if should_cancel(&event) {
                            connection.cancel();
                        }
                        events.push(event);
                    }
                    ConnectionEvent::PermissionRequested(request, reply) => {
                        reply(answer(&request));
                        permission_requests.push(request);
                    }
                    ConnectionEvent::TurnEnded(end) => return end,
                }
            }
        };
        let end = self
            .runtime
            .block_on(async { tokio::time::timeout(TURN_TIMEOUT, turn).await });
        CodexDirectTurn {
            end: end.unwrap(),
            events,
            permission_requests,
        }
    }

    pub(crate) fn close(&self, connection: Box<dyn AgentConnection>) {
        self.runtime.block_on(connection.close());
    }

    /// Returns the files of all threads.
    pub(crate) fn rollout_files(&self) -> Vec<PathBuf> {
        list_rollout_files(&self.sandbox)
    }

    /// Replaces a text in the configuration of Codex.
    pub(crate) fn replace_in_config(&self, old: &str, new: &str) {
        let before = self.read_config();
        assert!(before.contains(old), "{before}");
        let after = before.replacen(old, new, 1);
        fs::write(self.sandbox.home().join(".codex/config.toml"), after).unwrap();
    }

    pub(crate) fn read_config(&self) -> String {
        fs::read_to_string(self.sandbox.home().join(".codex/config.toml")).unwrap()
    }
}

/// Returns the files of all threads in a sandbox.
pub(crate) fn list_rollout_files(sandbox: &Sandbox) -> Vec<PathBuf> {
    fn collect_files(directory: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect_files(&path, files);
            } else {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect_files(&sandbox.home().join(".codex/sessions"), &mut files);
    files
}
