//! Direct connections to a real CLI through its provider, for tests with several prompts to one process.

use std::path::PathBuf;
use std::time::Duration;

use segue_core::agent::{McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, OpenMode, TurnEnd};
use segue_providers::{
    Agent, AgentConnection, AgentError, AgentHost, ConnectionEvent, LeashCommand, OpenRequest,
    Provider, ProviderSettings,
};
use segue_testkit::sandbox::{DEFAULT_CLI_TIMEOUT, Sandbox, SandboxCli};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A sandbox, and the runtime and MCP servers for connections in it.
pub(crate) struct DirectHarness {
    pub(crate) sandbox: Sandbox,
    /// MCP servers that every connection is opened with.
    pub(crate) mcp: Vec<McpServer>,
    runtime: Runtime,
}

impl DirectHarness {
    pub(crate) fn new(sandbox: Sandbox) -> Self {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            sandbox,
            mcp: Vec::new(),
            runtime: runtime.enable_all().build().unwrap(),
        }
    }

    /// Returns an agent host whose leash has only the environment of the sandbox.
    pub(crate) fn host(&self) -> AgentHost {
        let command = self.sandbox.cli_command(SandboxCli::Claude);
        let mut args = vec!["-i".into()];
        for (name, value) in command.get_envs() {
            let mut variable = name.to_owned();
            variable.push("=");
            variable.push(value.unwrap_or_default());
            args.push(variable);
        }
        args.extend([env!("CARGO_BIN_EXE_segue").into(), "leash".into()]);
        AgentHost {
            leash: LeashCommand {
                program: self.sandbox.path().join("bin/env"),
                args,
            },
            version: "0",
            agent_files_dir: self.sandbox.path().join("kept"),
            search_path: "".into(),
            system: crate::real::harness::SYSTEM_FNS,
        }
    }

    /// Returns default settings with the path of one CLI.
    pub(crate) fn settings(&self, cli: SandboxCli) -> ProviderSettings {
        ProviderSettings {
            program: Some(PathBuf::from(self.sandbox.cli_command(cli).get_program())),
            ..ProviderSettings::default()
        }
    }

    /// Opens a connection that resumes a native session or starts a new one.
    pub(crate) fn open(
        &self,
        provider: &Provider,
        native_id: Option<&str>,
        strict: bool,
    ) -> Result<DirectConnection<'_>, AgentError> {
        let request = OpenRequest {
            cwd: self.sandbox.project(),
            native_id: native_id.map(|id| NativeId::parse(id).unwrap()),
            branch_point: None,
            strict,
            permissions: PermissionPolicy::Ask,
            role: None,
            model: None,
            mcp: self.mcp.clone(),
            timeout: DEFAULT_CLI_TIMEOUT,
            process_sender: watch::channel(None).0,
        };
        let opened = self.runtime.block_on(provider.open(&request))?;
        Ok(DirectConnection {
            harness: self,
            connection: opened.connection,
            open_mode: opened.open_mode,
            fallback_reason: opened.fallback_reason,
        })
    }

    /// Opens a connection with a new native session.
    pub(crate) fn open_new(&self, provider: &Provider) -> DirectConnection<'_> {
        self.open(provider, None, true)
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// An open connection.
pub(crate) struct DirectConnection<'a> {
    harness: &'a DirectHarness,
    pub(crate) connection: Box<dyn AgentConnection>,
    pub(crate) open_mode: OpenMode,
    pub(crate) fallback_reason: Option<String>,
}

/// Answer, events, permission requests and end of a turn.
#[derive(Debug)]
pub(crate) struct DirectTurn {
    pub(crate) text: String,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) permission_requests: Vec<PermissionRequest>,
    pub(crate) end: Result<TurnEnd, AgentError>,
}

/// Decision after each event of a running turn.
pub(crate) enum TurnControl {
    Continue,
    Cancel,
}

impl DirectConnection<'_> {
    /// Runs one turn and refuses all permission requests.
    pub(crate) fn run_turn(&mut self, prompt: &str) -> DirectTurn {
        self.run_turn_with(prompt, PermissionRequest::reject_answer, |_| {
            TurnControl::Continue
        })
    }

    /// Runs one turn. `answer` answers permission requests, and `on_event` can cancel the turn at each event.
    pub(crate) fn run_turn_with(
        &mut self,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
        mut on_event: impl FnMut(&AgentEvent) -> TurnControl,
    ) -> DirectTurn {
        let Self {
            harness,
            connection,
            ..
        } = self;
        harness.block_on(async {
            connection.send_prompt(prompt).await.unwrap();
            let (mut text, mut events, mut permission_requests) =
                (String::new(), Vec::new(), Vec::new());
            loop {
                let next_event =
                    tokio::time::timeout(DEFAULT_CLI_TIMEOUT, connection.next_event()).await;
                match next_event
                    .unwrap_or_else(|_| panic!("the turn of {prompt:.80} did not end: {events:#?}"))
                {
                    ConnectionEvent::NativeIdReported(_) => {}
                    ConnectionEvent::Event(event) => {
                        if let AgentEvent::Text(chunk) = &event {
                            text += chunk;
                        }
                        if let TurnControl::Cancel = on_event(&event) {
                            connection.cancel();
                        }
                        events.push(event);
                    }
                    ConnectionEvent::PermissionRequested(request, reply) => {
                        reply(answer(&request));
                        permission_requests.push(request);
                    }
                    ConnectionEvent::TurnEnded(end) => {
                        return DirectTurn {
                            text,
                            events,
                            permission_requests,
                            end,
                        };
                    }
                }
            }
        })
    }

    /// Waits without sending a prompt.
    pub(crate) fn wait(&self, duration: Duration) {
        self.harness
            .block_on(async { tokio::time::sleep(duration).await });
    }

    pub(crate) fn native_id(&self) -> String {
        self.connection.native_id().unwrap().to_string()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.connection.process_identity().unwrap().pid
    }

    /// Closes the connection and fails if one of its processes is still running.
    pub(crate) fn close(self) {
        self.harness.block_on(self.connection.close());
        let processes = self.harness.sandbox.processes();
        assert!(processes.is_empty(), "still running: {processes:#?}");
    }
}
