//! A conversation with a real CLI by the agents' own interface, for what takes several prompts to one process.

use std::path::PathBuf;
use std::time::Duration;

use segue_agents::{
    Agent, AgentConnection, AgentError, AgentHost, ConnectionEvent, LeashCommand, OpenRequest,
    Provider, ProviderSettings,
};
use segue_core::agent::{McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, OpenMode, TurnEnd};
use segue_testkit::sandbox::{DEFAULT_CLI_TIMEOUT, Sandbox, SandboxCli};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A machine of its own, and what a provider needs to know of it.
pub(crate) struct DirectHarness {
    pub(crate) sandbox: Sandbox,
    /// What the agent is handed along.
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

    /// Where the CLI runs: on a leash that has the environment of the sandbox and nothing else.
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

    /// Settings for one CLI and nothing else.
    pub(crate) fn settings(&self, cli: SandboxCli) -> ProviderSettings {
        ProviderSettings {
            program: Some(PathBuf::from(self.sandbox.cli_command(cli).get_program())),
            ..ProviderSettings::default()
        }
    }

    /// Opens a conversation, to go on with a native session or to begin one.
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

    /// A new conversation.
    pub(crate) fn open_new(&self, provider: &Provider) -> DirectConnection<'_> {
        self.open(provider, None, true)
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// An open conversation.
pub(crate) struct DirectConnection<'a> {
    harness: &'a DirectHarness,
    pub(crate) connection: Box<dyn AgentConnection>,
    pub(crate) open_mode: OpenMode,
    pub(crate) fallback_reason: Option<String>,
}

/// All that came of a prompt.
#[derive(Debug)]
pub(crate) struct DirectTurn {
    pub(crate) text: String,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) permission_requests: Vec<PermissionRequest>,
    pub(crate) end: Result<TurnEnd, AgentError>,
}

/// What is done while a turn runs.
pub(crate) enum TurnControl {
    Continue,
    Cancel,
}

impl DirectConnection<'_> {
    /// One turn; everything that is asked is refused.
    pub(crate) fn run_turn(&mut self, prompt: &str) -> DirectTurn {
        self.run_turn_with(prompt, PermissionRequest::reject_answer, |_| {
            TurnControl::Continue
        })
    }

    /// One turn with answers to what is asked, and a say in what happens at each event.
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
                match next_event.unwrap_or_else(|_| panic!("{prompt:.80} has no end: {events:#?}"))
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

    /// Waits while nobody talks.
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

    /// Ends it politely; fails if anything of it still runs.
    pub(crate) fn close(self) {
        self.harness.block_on(self.connection.close());
        let processes = self.harness.sandbox.processes();
        assert!(processes.is_empty(), "left running: {processes:#?}");
    }
}
