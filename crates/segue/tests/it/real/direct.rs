//! A conversation with a real CLI by the agents' own interface, for what takes several prompts to one process.

use std::path::PathBuf;
use std::time::Duration;

use segue_agents::{
    Agent, AgentError, AgentConnection, AgentHost, LeashCommand, OpenRequest, Provider, ProviderSettings, ConnectionEvent,
};
use segue_core::agent::{McpServer, PermissionAnswer, PermissionPolicy, PermissionRequest};
use segue_core::id::NativeId;
use segue_core::session::{AgentEvent, OpenMode, TurnEnd};
use segue_testkit::sandbox::{SandboxCli, DEFAULT_CLI_TIMEOUT, Sandbox};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A machine of its own, and what a provider needs to know of it.
pub(crate) struct Direct {
    pub(crate) sandbox: Sandbox,
    /// What the agent is handed along.
    pub(crate) mcp: Vec<McpServer>,
    runtime: Runtime,
}

impl Direct {
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
        let environment = self.sandbox.cli_command(SandboxCli::Claude);
        let mut args = vec!["-i".into()];
        for (name, value) in environment.get_envs() {
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
            system: crate::real::stage::OUTSIDE,
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
    ) -> Result<Talk<'_>, AgentError> {
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
        let opening = self.runtime.block_on(provider.open(&request))?;
        Ok(Talk {
            direct: self,
            conversation: opening.connection,
            opened: opening.open_mode,
            why_not: opening.fallback_reason,
        })
    }

    /// A new conversation.
    pub(crate) fn begin(&self, provider: &Provider) -> Talk<'_> {
        self.open(provider, None, true)
            .unwrap_or_else(|error| panic!("{error:?}"))
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

/// An open conversation.
pub(crate) struct Talk<'a> {
    direct: &'a Direct,
    pub(crate) conversation: Box<dyn AgentConnection>,
    pub(crate) opened: OpenMode,
    pub(crate) why_not: Option<String>,
}

/// All that came of a prompt.
#[derive(Debug)]
pub(crate) struct Turned {
    pub(crate) text: String,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) asked: Vec<PermissionRequest>,
    pub(crate) end: Result<TurnEnd, AgentError>,
}

/// What is done while a turn runs.
pub(crate) enum Then {
    Nothing,
    Cancel,
}

impl Talk<'_> {
    /// One turn; everything that is asked is refused.
    pub(crate) fn say(&mut self, prompt: &str) -> Turned {
        self.follow(prompt, PermissionRequest::reject_answer, |_| Then::Nothing)
    }

    /// One turn with answers to what is asked, and a say in what happens at each event.
    pub(crate) fn follow(
        &mut self,
        prompt: &str,
        answer: impl Fn(&PermissionRequest) -> PermissionAnswer,
        mut at: impl FnMut(&AgentEvent) -> Then,
    ) -> Turned {
        let Self {
            direct,
            conversation,
            ..
        } = self;
        direct.block_on(async {
            conversation.send_prompt(prompt).await.unwrap();
            let (mut text, mut events, mut asked) = (String::new(), Vec::new(), Vec::new());
            loop {
                let step = tokio::time::timeout(DEFAULT_CLI_TIMEOUT, conversation.next_event()).await;
                match step.unwrap_or_else(|_| panic!("{prompt:.80} has no end: {events:#?}")) {
                    ConnectionEvent::NativeIdReported(_) => {}
                    ConnectionEvent::Event(event) => {
                        if let AgentEvent::Text(words) = &event {
                            text += words;
                        }
                        if let Then::Cancel = at(&event) {
                            conversation.cancel();
                        }
                        events.push(event);
                    }
                    ConnectionEvent::PermissionRequested(request, reply) => {
                        reply(answer(&request));
                        asked.push(request);
                    }
                    ConnectionEvent::TurnEnded(end) => {
                        return Turned {
                            text,
                            events,
                            asked,
                            end,
                        };
                    }
                }
            }
        })
    }

    /// Waits while nobody talks.
    pub(crate) fn pause(&self, time: Duration) {
        self.direct
            .block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn native_id(&self) -> String {
        self.conversation.native_id().unwrap().to_string()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.conversation.process_identity().unwrap().pid
    }

    /// Ends it politely; fails if anything of it still runs.
    pub(crate) fn close(self) {
        self.direct.block_on(self.conversation.close());
        let left = self.direct.sandbox.processes();
        assert!(left.is_empty(), "left running: {left:#?}");
    }
}
